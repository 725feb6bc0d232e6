# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of arrays of md and of LVM, whoever made them: members, sync, mismatches, members on one drive, and the next boot."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import WAITING, RaidState
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.redundancy import arrays_of_host
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.stack_table import view_report
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host


def array(host, members, kind="raid1", made_by="md", title="v-data", state=None, degraded=0, width=0):
    """An array with a filesystem on it."""
    chunk = 0 if kind == "raid1" else 64 * KIB
    segment = Segment(0, 8 * GIB, kind, chunk, tuple((one, MIB) for one in members), width or len(members), degraded)
    top = host.mapped("" if made_by == "md" else title, [segment], kind="md" if made_by == "md" else "lvm", name="md127" if made_by == "md" else "")
    if state:
        host.seen.raids[top] = state
    host.ext4(top, "x", 16, 32 if kind == "raid10" else 16)
    return top


def told(host, top):
    return [(one.level, one.rule) for one in view(host.seen, top).findings if one.layer == "raid"]


def text_of(host, top, rule):
    (one,) = [one for one in view(host.seen, top).findings if one.rule == rule]
    return one.text


@pytest.mark.parametrize(
    ("action", "level"),
    [("resync", "warning"), (WAITING, "warning"), ("recover", "info"), ("reshape", "info"), ("check", "info"), ("repair", "info"), ("frozen", "info")],
)
def test_what_an_array_is_at(action, level):
    host = Host()
    top = array(host, host.pair(2), state=RaidState(action, 3, 8))
    assert told(host, top) == [(level, "syncing")]
    assert ("37 % done" in text_of(host, top, "syncing")) == (action != "frozen")
    host.seen.raids[top] = RaidState(action)
    assert "%" not in text_of(host, top, "syncing")


@pytest.mark.parametrize("made_by, look", [("md", "/sys/block/md127/md/sync_completed"), ("lvm", "lvs -a -o +sync_percent")])
def test_where_to_look(made_by, look):
    host = Host()
    top = array(host, host.pair(2), made_by=made_by, state=RaidState("resync", 1, 2))
    assert look in text_of(host, top, "syncing")


def test_an_array_that_is_at_nothing_says_nothing():
    host = Host()
    assert told(host, array(host, host.pair(2), state=RaidState("idle", 8, 8, 0))) == []
    assert told(host, array(host, host.pair(2), state=RaidState("a word of another kernel"))) == []


def test_all_members_there_and_one_being_replaced_is_no_error():
    """mdadm --replace keeps both members until the new one holds all."""
    host = Host()
    assert told(host, array(host, host.pair(2), state=RaidState("recover", 1, 4))) == [("info", "syncing")]
    host = Host()
    assert told(host, array(host, host.pair(1), width=2, degraded=1, state=RaidState("recover", 1, 4))) == [("error", "degraded"), ("info", "syncing")]


@pytest.mark.parametrize(
    "kind, count, words", [("raid1", 2, "swap"), ("raid10", 4, "swap"), ("raid5", 3, "parity that fits"), ("raid6", 4, "parity that fits")]
)
def test_mismatches(kind, count, words):
    host = Host()
    top = array(host, host.pair(count), kind, state=RaidState(mismatches=128))
    assert told(host, top) == [("warning", "mismatch")]
    text = text_of(host, top, "mismatch")
    assert "128 sectors" in text and words in text and "md(4)" in text
    host.seen.raids[top] = RaidState(mismatches=0)
    assert told(host, top) == []


def parts_of(host, disk, count):
    return [host.part(disk, (1 + 9 * number) * GIB, 9 * GIB) for number in range(count)]


def test_members_on_one_disk():
    host = Host()
    disk = host.disk()
    top = array(host, parts_of(host, disk, 2))
    assert told(host, top) == [("error", "one_ssd")]
    assert "nvme0n1p1, nvme0n1p2 lie on one drive, SER0000" in text_of(host, top, "one_ssd")


def test_members_that_are_namespaces_of_one_ssd():
    host = Host()
    pair = host.pair(2, controller="nvme0", serial="ONE")
    assert told(host, array(host, pair)) == [("error", "one_ssd")]
    host = Host()
    pair = host.pair(2, controller="nvme0", serial="ONE", model="nvme_card-pd")  # disks of a cloud, behind one virtual controller
    assert told(host, array(host, pair)) == []


@pytest.mark.parametrize(
    "kind, places, error",
    [
        ("raid1", (0, 1), False),
        ("raid1", (0, 0, 1), False),  # one of three is enough
        ("raid1", (0, 0, 0), True),
        ("raid10", (0, 1, 0, 1), False),  # two neighbours hold the same
        ("raid10", (0, 0, 1, 1), True),
        ("raid10", (0, 1, 2, 2), True),
        ("raid5", (0, 1, 1), True),
        ("raid6", (0, 1, 2, 2), False),
        ("raid6", (0, 2, 2, 2), True),
    ],
)
def test_how_many_members_a_drive_may_have(kind, places, error):
    host = Host()
    disks = host.pair(3)
    parts = {disk: parts_of(host, disk, places.count(number)) for number, disk in enumerate(disks)}
    top = array(host, [parts[disks[place]].pop() for place in places], kind)
    assert ("error", "one_ssd") in told(host, top) if error else ("error", "one_ssd") not in told(host, top)


def test_where_a_member_is_gone_nothing_is_said_of_where_the_others_lie():
    """The kernel does not say here whose place is empty."""
    host = Host()
    top = array(host, parts_of(host, host.disk(), 3), "raid10", width=4, degraded=1)
    assert told(host, top) == [("error", "degraded")]


def test_a_mirror_of_lvm_at_a_boot_without_a_drive():
    host = Host()
    top = array(host, host.pair(2), made_by="lvm", title="pg--old-data")
    assert told(host, top) == [("info", "boots_degraded")] and "vgchange -ay pg-old " in text_of(host, top, "boots_degraded")
    assert "note: raid pg--old-data" in "\n".join(view_report(view(host.seen, top)))
    host.mount(top, "/")
    assert told(host, top) == [], "the initramfs activates it"
    host = Host()
    assert told(host, array(host, host.pair(1), made_by="lvm", width=2, degraded=1)) == [("error", "degraded"), ("warning", "boots_degraded")]
    host = Host()
    assert told(host, array(host, host.pair(2))) == [], "md starts what it has after half a minute"


def test_arrays_below_a_volume_are_told_with_it():
    host = Host()
    first, second = (array(host, host.pair(2)) for _number in range(2))
    del host.seen.filesystems[first], host.seen.filesystems[second]
    host.edit(second, name="md126")
    host.seen.raids[second] = RaidState("resync")
    lv = host.mapped("v-data", [Segment(0, 16 * GIB, "striped", 64 * KIB, ((first, MIB), (second, MIB)))])
    host.ext4(lv, "x", 16, 32)
    assert [(one.rule, one.name) for one in view(host.seen, lv).findings if one.layer == "raid"] == [("syncing", "md126")]
    report = "\n".join(view_report(view(host.seen, lv)))
    assert "raid1 of 2 members" in report and "aligned: every layer" in report


@pytest.mark.parametrize(
    "uuid, rule", [("01020304-0506-0708-090a-0b0c0d0e0f10", "left_out_member"), ("01020304-0506-0708-090a-0b0c0d0e0f11", "closed"), ("", "closed")]
)
def test_a_member_that_an_array_runs_without(uuid, rule):
    """libblkid writes the UUID of the array with dashes, mdadm with colons."""
    host = Host()
    first, other = (host.part(disk, MIB) for disk in host.pair(2))
    md = array(host, [first], width=2, degraded=1)
    host.seen.links["md-uuid-01020304:05060708:090a0b0c:0d0e0f10"] = md
    host.seen.signatures[other] = [Signature("linux_raid_member", "raid", 4096, uuid, "any:a")]
    found = view(host.seen, other)
    assert [(one.level, one.rule) for one in found.findings] == [("warning", rule)] and found.not_followed == ("nvme1n1p1",)
    assert ("runs without it" in found.findings[0].text) == (rule == "left_out_member")
    host.seen.signatures[other] = [Signature("crypto_LUKS", "crypto", 0, uuid)]
    assert [one.rule for one in view(host.seen, other).findings] == ["closed"]


def test_the_arrays_of_a_host_have_names_that_stay():
    host = Host()
    md = array(host, host.pair(2), state=RaidState("check", 1, 4))
    array(host, host.pair(2), made_by="lvm", state=RaidState(mismatches=8))
    host.seen.links.update({"md-name-any:pg": md, "md-uuid-1:2:3:4": md})
    first, second = arrays_of_host(host.seen)
    assert (first["name"], first["maker"], first["action"], first["progress"]) == ("md-uuid-1:2:3:4", "md", "check", 0.25)
    assert (second["name"], second["maker"], second["level"], second["mismatch_sectors"], second["progress"]) == ("v-data", "lvm", "raid1", 8, None)
