# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between two states of a host, without a host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from labkit.whole_host import Snapshot, difference

FILE = {"type": "file", "mode": "0644", "uid": 0, "gid": 0, "size": 3, "content": "aa", "xattrs": {}, "flags": "", "identity": [7, 100, 3], "dev": 1}


def state(paths: dict[str, Any], **more: Any) -> Snapshot:
    parts: dict[str, Any] = {name: {} for name in ("nobody", "units", "kernel", "mounts", "storage", "ports", "processes", "seconds")}
    return Snapshot(id="x", paths=paths, **{**parts, **more})


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({}, None),
        ({"mode": "0600"}, ("mode",)),
        ({"uid": 5, "gid": 5}, ("uid", "gid")),
        ({"xattrs": {"security.capability": "AA=="}}, ("xattrs",)),
        ({"flags": "i"}, ("flags",)),
        ({"type": "link", "target": "/etc/passwd"}, ("type", "target")),
        ({"content": "bb"}, ("content",)),
        ({"identity": [8, 200, 3]}, None),  # another inode with the same content: rewritten
        # content that was not read before: what nobody has touched is the same, all else is not known to be
        ({"content": None}, None),
        ({"content": None, "identity": [7, 200, 3]}, ("content",)),
        ({"content": None, "identity": [8, 100, 3]}, ("content",)),
    ],
)
def test_what_differs_of_a_path(change: dict[str, Any], fields: tuple[str, ...] | None) -> None:
    found = difference(state({"/etc/x": FILE}), state({"/etc/x": {**FILE, **change}}))
    assert [one.fields for one in found] == ([] if fields is None else [fields])


def test_what_is_new_gone_or_other() -> None:
    found = difference(
        state({"/a": FILE}, kernel={"/proc/sys/vm/swappiness": "60"}, units={"a.service": "static", "b.service": "static"}, nobody={"/a": "r"}),
        state({"/b": FILE}, kernel={"/proc/sys/vm/swappiness": "10"}, units={"a.service": "enabled", "c.service": "static"}, nobody={"/b": "r"}),
    )
    assert [(one.kind, one.name, one.how) for one in found] == [
        ("kernel", "/proc/sys/vm/swappiness", "changed"),
        ("nobody", "/a", "gone"),
        ("nobody", "/b", "added"),
        ("path", "/a", "gone"),
        ("path", "/b", "added"),
        ("unit", "a.service", "changed"),
        ("unit", "b.service", "gone"),
        ("unit", "c.service", "added"),
    ]
