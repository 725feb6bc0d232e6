# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep with writes may be let loose on."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Segment, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._writing import reasons
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host

OURS = "plumbline:pgdata:0"


def host(*names):
    """A disk with one partition for each name, blank and looked at."""
    made = Host()
    parts = [made.part(disk, MIB, name=name) for name, disk in zip(names, made.pair(len(names)))]
    made.seen.signatures.update({part: [] for part in parts})
    return made, parts


def volume(made, parts):
    for part in parts:
        made.pv(part, "vg")
    devno = made.mapped("vg-lv", [Segment(0, GIB, "striped", 64 * KIB, tuple((part, MIB) for part in parts))])
    made.seen.signatures[devno] = []
    return devno


def test_what_is_taken():
    made, parts = host(OURS)
    assert reasons(made.seen, parts[0]) == []
    made, parts = host(OURS, "plumbline:pgdata:1")
    assert reasons(made.seen, volume(made, parts)) == []


def spoil(key):
    made, parts = host(OURS, "plumbline:pgdata:1")
    one = parts[0]
    if key == "signature":
        made.seen.signatures[one] = [Signature("xfs", "filesystem", 0)]
    elif key == "ext4":
        made.ext4(one)
    elif key == "mounted":
        made.mount(one, "/srv", here=False)
    elif key == "swap":
        made.seen.swaps.append(one)
    elif key == "pv":
        made.pv(one, "vg")
    elif key == "held":
        volume(made, parts)
    elif key == "read-only":
        made.edit(one, read_only=True)
    elif key == "unknown":
        del made.seen.signatures[one]
    elif key == "unreadable":
        made.seen.faults[one] = "its signatures could not be read: 5"
    elif key == "disk":
        one = made.seen.nodes[one].parent
    elif key == "no table":
        made.seen.tables[made.seen.nodes[one].parent] = None
    elif key == "damaged table":
        disk = made.seen.nodes[one].parent
        made.seen.tables[disk] = made.seen.tables[disk]._replace(fault="the backup differs")
    elif key == "volume mounted":
        one = volume(made, parts)
        made.mount(one, "/srv")
    elif key == "volume without a map":
        one = volume(made, parts)
        made.edit(one, segments=())
    elif key == "volume on a disk":
        one = volume(made, [made.seen.nodes[one].parent])
    return made.seen, one


@pytest.mark.parametrize(
    "key, words",
    [
        ("signature", "it holds xfs filesystem at byte 0"),
        ("ext4", "it holds an ext filesystem"),
        ("mounted", "is mounted on /srv in another mount namespace"),
        ("swap", "is in use as swap"),
        ("pv", "it is a PV"),
        ("held", "is held by vg-lv"),
        ("read-only", "it is read-only"),
        ("unknown", "that nothing is on it could not be shown"),
        ("unreadable", "its signatures could not be read"),
        ("disk", "it is neither a partition nor a logical volume"),
        ("no table", "nvme0n1p1 is named '', and not plumbline:STACK:NUMBER"),
        ("damaged table", "nvme0n1p1 is named ''"),
        ("volume mounted", "is mounted on /srv"),
        ("volume without a map", "on what it lies is not known"),
        ("volume on a disk", "it lies on nvme0n1, which is no partition"),
    ],
)
def test_what_is_refused(key, words):
    assert any(words in line for line in reasons(*spoil(key))), reasons(*spoil(key))


@pytest.mark.parametrize("name", ["", "data", "plumbline", "plumbline:pgdata", "plumbline:PGDATA:0", "xplumbline:pgdata:0"])
def test_names_that_are_none_of_ours(name):
    made, parts = host(name)
    assert reasons(made.seen, parts[0]) == ["nvme0n1p1 is named '%s', and not plumbline:STACK:NUMBER" % name]
    assert reasons(made.seen, volume(made, parts)) == ["nvme0n1p1 is named '%s', and not plumbline:STACK:NUMBER" % name]
