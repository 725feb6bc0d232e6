# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read below /sys."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils import _sysfs


@pytest.mark.parametrize("there, found", [(["nvme0n1", "cciss!c0d0"], ""), (["nvme0n1"], "cciss!c0d0"), ([], "nvme0n1")])
def test_a_disk_that_went_away(monkeypatch, there, found):
    monkeypatch.setattr(_sysfs.os.path, "exists", lambda path: path.rsplit("/", 1)[-1] in there)
    monkeypatch.setattr(_sysfs.time, "sleep", lambda seconds: None)
    assert _sysfs.first_gone(["nvme0n1", "cciss!c0d0"]) == found


def test_it_is_waited_for(monkeypatch):
    """Requests fail before the kernel forgets the disk."""
    left = [True] * 5
    monkeypatch.setattr(_sysfs.os.path, "exists", lambda path: bool(left and left.pop()))
    monkeypatch.setattr(_sysfs.time, "sleep", lambda seconds: None)
    assert _sysfs.first_gone(["sda"]) == "sda"
