# SPDX-License-Identifier: GPL-3.0-or-later
"""What arrays say of themselves: the words of md below /sys, and those of dm-raid."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_raids
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid import MapStatus, parse_raid_status
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import WAITING, RaidState, md_state
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host

QUIET = {"sync_action": "idle", "sync_completed": "none", "resync_start": "none", "mismatch_cnt": "0", "last_sync_action": "none"}
MD = {
    "in sync": ({}, RaidState()),
    "resync": ({"sync_action": "resync", "sync_completed": "20480 / 192512", "resync_start": "0"}, RaidState("resync", 20480, 192512)),
    "another array first": ({"sync_action": "resync", "sync_completed": "delayed", "resync_start": "0"}, RaidState("resync")),
    "nobody wrote yet": ({"resync_start": "0"}, RaidState(WAITING)),
    "a check that found nothing": ({"last_sync_action": "check"}, RaidState(mismatches=0)),
    "a check that found something": ({"last_sync_action": "check", "mismatch_cnt": "128"}, RaidState(mismatches=128)),
    "a check that runs": (
        {"sync_action": "check", "sync_completed": "8 / 80", "last_sync_action": "check", "mismatch_cnt": "128"}, RaidState("check", 8, 80)
    ),
    "made equal by a repair": ({"last_sync_action": "repair", "mismatch_cnt": "128"}, RaidState()),
    "the first resync counts as well": ({"last_sync_action": "resync", "mismatch_cnt": "4096"}, RaidState()),
    "no numbers": ({"last_sync_action": "check", "mismatch_cnt": "-1", "sync_completed": "1 / x", "resync_start": "\u00b2"}, RaidState()),
    "nothing is there": (dict.fromkeys(QUIET, ""), RaidState()),
}  # fmt: skip


@pytest.mark.parametrize("name", MD)
def test_md(name):
    files, wanted = MD[name]
    assert md_state({**QUIET, **files}) == wanted


DM = {
    "0 163840 raid raid1 2 AA 163840/163840 idle 0 0 -": MapStatus(2, 0, RaidState("idle", 163840, 163840)),
    "0 163840 raid raid1 2 aa 8192/163840 resync 0 0 -": MapStatus(2, 0, RaidState("resync", 8192, 163840)),
    "0 163840 raid raid1 2 Aa 8192/163840 recover 0 0 -": MapStatus(2, 1, RaidState("recover", 8192, 163840)),
    "0 163840 raid raid1 2 AD 163840/163840 idle 0 0 -": MapStatus(2, 1, RaidState("idle", 163840, 163840)),
    "0 163840 raid raid10 4 aDaa 0/163840 resync 0 0 -": MapStatus(4, 1, RaidState("resync", 0, 163840)),
    "0 163840 raid raid1 2 aa 0/163840 idle 0 0 -": MapStatus(2, 0, RaidState(WAITING, 0, 163840)),
    "0 163840 raid raid1 2 AA 163840/163840 idle 128 0 -": MapStatus(2, 0, RaidState("idle", 163840, 163840, 128)),
    "0 163840 raid raid1 2 AA 512/163840 check 128 0 -": MapStatus(2, 0, RaidState("check", 512, 163840)),
    "0 163840 raid raid1 2 AA 163840/163840 frozen 0": MapStatus(2, 0, RaidState("frozen", 163840, 163840)),
    "0 163840 raid raid1 2 AA 163840/163840 idle": MapStatus(2, 0, RaidState("idle", 163840, 163840)),
    "0 163840 raid raid1 2 AA": None,
    "0 163840 linear": None,
    "x y raid raid1 2 AA 1/2 idle 0 0 -": None,
}


@pytest.mark.parametrize("line", DM)
def test_dm_raid(line):
    found = parse_raid_status("v-lv: %s\n" % line, ["v-lv"])
    assert found == ({"v-lv": DM[line]} if DM[line] else {})


def test_names_of_maps():
    lines = [line for line, status in DM.items() if status]
    text = "a: %s\na: 0 8 raid: %s\nother: %s\n" % (lines[0], lines[3], lines[1])
    found = parse_raid_status(text, ["a", "a: 0 8 raid", "other"])
    assert [found[name].lost for name in ("a", "a: 0 8 raid", "other")] == [0, 1, 0]


# --- the reading ---------------------------------------------------------------------------------------


def mirror_of_lvm(host, kind="raid1"):
    return host.mapped("v-data", [Segment(0, GIB, kind, 0, tuple((disk, MIB) for disk in host.pair(2)), 2)])


def runner(out, code=0, calls=None):
    def run(argv):
        (calls if calls is not None else []).append(argv)
        return code, out, "it hangs" if code else ""

    return run


def test_the_tool_is_asked_where_there_is_an_array_of_lvm_and_nowhere_else():
    host, calls = Host(), []
    host.mapped("v-data", [Segment(0, GIB, "striped", 65536, tuple((disk, MIB) for disk in host.pair(2)))])
    host.mapped("v-fast", [Segment(0, GIB, "raid0", 65536, tuple((disk, MIB) for disk in host.pair(2)))])
    read_raids.read_raids(runner("", calls=calls), host.seen)
    assert calls == [] and host.seen.raids == {}
    host = Host()
    lv = mirror_of_lvm(host)
    read_raids.read_raids(runner("v-data: 0 163840 raid raid1 2 AD 163840/163840 idle 0 0 -\n", calls=calls), host.seen)
    ((_tool, verb, *more),) = calls
    assert verb == "status" and "--noflush" in more and host.seen.raids[lv].action == "idle"
    assert host.seen.nodes[lv].segments[0].degraded == 1, "the table has both members until LVM loads another one"


def test_a_layout_that_is_not_followed_has_its_members_counted_all_the_same():
    host = Host()
    lv = host.mapped("v-data", [Segment(0, GIB, "raid10", 0, ((host.pair(1)[0], 0),))])
    host.edit(lv, segments=(Segment(0, GIB, "raid10", 0, ()),))
    read_raids.read_raids(runner("v-data: 0 163840 raid raid10 4 AADA 163840/163840 idle 0 0 -\n"), host.seen)
    assert (host.seen.nodes[lv].segments[0].width, host.seen.nodes[lv].segments[0].degraded) == (4, 1)


def test_a_status_that_cannot_be_had_is_told():
    host = Host()
    mirror_of_lvm(host)
    with pytest.raises(PlumblineError, match="dmsetup status failed: it hangs"):
        read_raids.read_raids(runner("", 1), host.seen)
    del host.seen.tools["dmsetup"]
    read_raids.read_raids(runner("", 1), host.seen)


def test_an_array_of_md_says_it_by_its_files(monkeypatch):
    host = Host()
    md = host.mapped("", [Segment(0, GIB, "raid1", 0, tuple((disk, MIB) for disk in host.pair(2)), 2)], kind="md", name="md127")
    stripe = host.mapped("", [Segment(0, GIB, "raid0", 65536, tuple((disk, MIB) for disk in host.pair(2)), 2)], kind="md", name="md126")
    files = {**QUIET, "sync_action": "recover", "sync_completed": "1 / 4"}
    monkeypatch.setattr(read_raids, "read_text", lambda path: files[path.rsplit("/", 1)[-1]] if "/md127/" in path else "")
    read_raids.read_raids(runner("", 1), host.seen)
    assert host.seen.raids == {md: RaidState("recover", 1, 4)} and stripe not in host.seen.raids
