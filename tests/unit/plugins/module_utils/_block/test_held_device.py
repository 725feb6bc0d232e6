# SPDX-License-Identifier: GPL-3.0-or-later
"""Which device a descriptor is."""

from __future__ import annotations

import os

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import held_device
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import OpenDevice, check_held, device_of, held_path, pinned
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

NODE = Node("8:16", "sdb", "disk", 1 << 30, Limits(512), diskseq=7)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (OpenDevice("8:16", 7, 1 << 30), ""),
        (OpenDevice("8:16", 0, 1 << 30), ""),  # a kernel before 5.15
        (OpenDevice("8:32", 7, 1 << 30), "device number 8:32, was 8:16"),
        (OpenDevice("8:16", 8, 1 << 30), "diskseq 8, was 7"),
        (OpenDevice("8:16", 7, 1 << 29), "size in bytes 536870912, was 1073741824"),
    ],
)
def test_what_is_held_is_compared_with_what_was_looked_at(monkeypatch, held, words):
    monkeypatch.setattr(held_device, "device_of", lambda _fd: held)
    if not words:
        check_held(0, NODE)
        return
    with pytest.raises(PlumblineError) as refused:
        check_held(0, NODE)
    assert words in refused.value.msg and "nothing was written to it; names have moved: run again" in refused.value.msg


def test_a_file_is_no_device_and_is_told(tmp_path):
    with open(str(tmp_path / "f"), "wb") as handle:
        handle.write(b"x" * 100)
        handle.flush()
        assert device_of(handle.fileno()) == OpenDevice("0:0", 0, 100)
        with pytest.raises(PlumblineError, match="device number 0:0, was 8:16"):
            check_held(handle.fileno(), NODE)


def test_a_path_leads_to_what_is_held_whatever_its_name_is(tmp_path):
    path = str(tmp_path / "f")
    with open(path, "w+b") as handle:
        os.rename(path, path + ".away")
        with open(path, "wb") as other:
            other.write(b"other")
        with open(held_path(handle.fileno()), "r+b") as again:
            again.write(b"held")
        assert handle.read() == b"held"


def test_a_name_that_leads_nowhere_or_elsewhere_is_not_pinned(monkeypatch):
    with pytest.raises(PlumblineError, match=r"device gone9 cannot be opened: .*; look for it and run again"), pinned(NODE._replace(name="gone9")):
        pytest.fail("it was pinned")
    with pytest.raises(PlumblineError, match="another device than the one that was looked at"), pinned(NODE._replace(name="null")):
        pytest.fail("it was pinned")
