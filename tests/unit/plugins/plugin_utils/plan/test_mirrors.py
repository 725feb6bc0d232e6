# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirrored stack: its array is made, judged, given its members back, and grown; what is older or foreign is never joined by itself."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import FAULTY
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import RaidState
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.drawing import diff, draw_wanted
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.mirrored import MirrorHost

BUILT = ["partition", "mirror_create", "volume_group", "logical_volume", "logical_volume", "filesystem", "filesystem", "mount"]
GROWN = ["grow_partition", "mirror_grow", "grow_pv", "grow_lv", "grow_lv", "grow_filesystem", "grow_filesystem"]


def disks(host):
    return [node.devno for node in host.seen.nodes.values() if node.kind == "disk"]


def mirrored(host, names=None, **more):
    return spec(host, **{"mirror": True, **more}) if names is None else spec(host, [], devices=names, **{"mirror": True, **more})


def actions(plan):
    assert plan.refusals == []
    return [step["action"] for step in plan.steps]


def built(count=4, **more):
    host = MirrorHost(count)
    host.names = [host.name(devno) for devno in disks(host)]
    host.build(mirrored(host, **more))
    assert actions(make_plan(mirrored(host, **more), host.seen)) == []
    return host


def refused(host, stacks, *words):
    plan = make_plan(stacks, host.seen)
    assert plan.steps == []
    text = "\n".join(plan.refusals)
    assert text and all(word in text for word in words), text
    return text


# --- made ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "width"), [(2, 16), (4, 32), (6, 48)])
def test_one_array_over_all(count, width):
    host = MirrorHost(count)
    plan = make_plan(mirrored(host), host.seen)
    assert actions(plan) == BUILT
    _partition, create, group, data, _wal, filesystem, *_rest = plan.steps
    assert group["pvs"] == ["/dev/disk/by-id/md-uuid-" + create["array"]] and len(create["members"]) == count
    assert (data["stripes"], create["chunk_bytes"], create["data_offset_bytes"]) == (1, 64 * KIB, MIB)
    assert "stride=16,stripe_width=%d" % width in filesystem["options"]
    assert create["component_bytes"] * count // 2 == pytest.approx(90 * GIB * count // 2, rel=0.001)
    host.build(mirrored(host))
    assert actions(make_plan(mirrored(host), host.seen)) == []


def test_the_packages():
    host = MirrorHost()
    host.seen.tools = {tool: path for tool, path in host.seen.tools.items() if tool != "mdadm"}
    assert "mdadm" in make_plan(mirrored(host), host.seen).missing_packages
    assert "mdadm" not in make_plan(mirrored(host), host.seen, "partition").missing_packages
    assert "mdadm" not in make_plan(spec(host), host.seen).missing_packages


@pytest.mark.parametrize(
    ("more", "dlfeat", "clean"),
    [({}, 1, True), ({}, 0, False), ({}, 2, False), ({"discard": False}, 1, False), ({"blank_proof": "full"}, 0, True), ({"blank_proof": "full"}, 2, False)],
)
def test_the_first_copy_is_left_out_where_all_members_read_as_zeros(more, dlfeat, clean):
    host = MirrorHost(2)
    for devno in disks(host):
        host.seen.namespaces[devno] = {"dlfeat": dlfeat}
    create = make_plan(mirrored(host, **more), host.seen).steps[1]
    assert (create["assume_clean"], "no copy" in create["summary"]) == (clean, clean)


def test_what_a_drawing_says():
    host = MirrorHost()
    after = diff(make_plan(mirrored(host), host.seen), host.seen)["after"]
    assert "pgdata: mirrored, striped over 2 pairs, chunk 64 KiB" in after
    assert "plumbline:pgdata:0 + plumbline:pgdata:1, plumbline:pgdata:2 + plumbline:pgdata:3" in after


@pytest.mark.parametrize("limit", range(len(BUILT)))
def test_what_was_ended_between_two_steps_is_carried_on(limit):
    host = MirrorHost()
    host.build(mirrored(host), limit=limit)
    plan = host.build(mirrored(host))
    assert [step["action"] for step in plan.steps] == BUILT[limit:]
    assert actions(make_plan(mirrored(host), host.seen)) == []


@pytest.mark.parametrize("written", [1, 3, 4])
def test_superblocks_of_an_array_that_was_not_made_to_the_end(written):
    host = MirrorHost()
    host.build(mirrored(host), limit=1)
    create = make_plan(mirrored(host), host.seen).steps[0]
    for number, part in enumerate(host.parts()[:written]):
        host.superblock(part, create["array"], number, 4, events=0)
    again = make_plan(mirrored(host), host.seen)
    assert again.steps[0]["action"] == "mirror_create" and again.steps[0]["array"] == create["array"]
    host.seen.proofs[host.parts()[0]] = BlankProof(4096, 1, ("unrecognised data that is not zero, first at byte 1048576",), MIB)
    text = refused(host, mirrored(host), "its array is there and does not run [mirror]", "events")
    assert "wipe" not in text and "zero-superblock" not in text


def test_superblocks_of_another_array():
    host = MirrorHost()
    host.build(mirrored(host), limit=1)
    host.superblock(host.parts()[0], "0:1:2:3", 0, 4)
    refused(host, mirrored(host), "does not run [mirror]")


# --- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "more", "words"),
    [
        (3, {}, "mirror: true pairs the devices in their order, the first with the second, and found 3; name one more, or one less"),
        (1, {}, "found 1; name one more"),
        (4, {"stripes": 2}, "stripes: a mirrored stack has one row; leave it out"),
        (2, {"layout": "separate", "volumes": [{"name": "data"}, {"name": "wal"}]}, "mirror: layout 'separate' has no mirrors"),
        (2, {"mirror": False, "replace": {"A": "B"}}, "replace: it is for stacks with mirror: true"),
        (2, {"mirror": "yes"}, "mirror"),
        (2, {"replace": ["A"]}, "replace: found a list; wanted a mapping"),
        (2, {"replace": {"A": "C", "B": "C"}}, "serial 'C' takes two places"),
        (2, {"replace": {"A": "B", "B": "C"}}, "serial 'B' is to take a place and to be replaced"),
    ],
)
def test_a_spec_that_cannot_be(count, more, words):
    with pytest.raises(PlumblineError) as fault:
        mirrored(MirrorHost(count), **more)
    assert words in "\n".join([fault.value.msg, *fault.value.reasons])


def test_a_selector_has_no_order():
    with pytest.raises(PlumblineError, match="devices pair in their order, and a selector has none"):
        mirrored(MirrorHost(2), devices={"model": "Flash*", "count": 2})


@pytest.mark.parametrize("accept", [[], ["shared_controller"]])
def test_two_members_on_one_ssd(accept):
    host = MirrorHost(2)
    first, second = disks(host)
    host.edit(second, identity=host.seen.nodes[second].identity._replace(controller=host.seen.nodes[first].identity.controller, nsid=2))
    refused(host, mirrored(host, accept=accept), "a mirror has to outlive an SSD [mirror]")


def test_a_stack_is_not_converted():
    host = MirrorHost()
    host.build(spec(host))
    refused(host, mirrored(host), "it was built without mirrors", "leave mirror out")
    host = built()
    refused(host, spec(host), "[mirror]")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"level": "raid1"}, "raid1, layout 0x102"),
        ({"layout": 0x10002}, "layout 0x10002"),
        ({"chunk": 6 * KIB}, "a chunk of 6 KiB"),
        ({"disks": 6}, "has 6 members, and the spec names 4 devices"),
    ],
)
def test_an_array_of_another_shape(change, words):
    host = built()
    host.change(**change)
    refused(host, mirrored(host), "[mirror]", words)


def test_a_chunk_that_fits_is_kept():
    host = built(stripe_size="128KiB")
    assert actions(make_plan(mirrored(host), host.seen)) == []
    refused(host, mirrored(host, stripe_size="64KiB"), "a chunk of 128 KiB; wanted 64 KiB")


# --- a member is gone, or comes back ---------------------------------------------------------------


def test_a_device_that_is_gone_is_named():
    host = built()
    host.pull(disks(host)[1])
    text = refused(host, mirrored(host, host.names), "it runs without device nvme-Flash_9000_SER0001 [degraded]", "before the next boot", "replace:")
    assert "growth waits" in text


def test_a_device_that_was_never_there():
    host = MirrorHost(2)
    names = [host.name(devno) for devno in disks(host)]
    refused(host, mirrored(host, [names[0], names[1] + "x"]), "is not there (did you mean")


def test_an_array_that_is_not_started_without_a_member():
    host = built()
    host.pull(disks(host)[0])
    host.change(state="inactive")
    host.seen.nodes.pop(host.array.devno)
    refused(host, mirrored(host, host.names), "the array does not run without it [stale]", "events", "bring that device back")


def after_both_were_lost(first_is_back=False, **last):
    """At a boot: of the first pair the device that was lost last is there, or also the other; *last*: what differs in its superblock."""
    host = built()
    host.new = host.name(host.disk("nvme9n1", serial="NEW9"))
    first = disks(host)[0]
    host.pull(first, events=40)
    for part in host.parts()[1:]:
        host.seen.md_superblocks[part] = host.seen.md_superblocks[part]._replace(events=43)
    if first_is_back:
        host.bring_back(first)
    second = next(devno for devno, one in host.seen.md_superblocks.items() if one.role == 1)
    host.seen.md_superblocks[second] = host.seen.md_superblocks[second]._replace(**last)
    host.change(state="inactive")
    for part in host.parts():
        host.seen.proofs[part] = BlankProof(4096, 1, ("unrecognised data that is not zero, first at byte 1048576",), MIB)
    for devno in [node.devno for node in host.seen.nodes.values() if node.kind in ("lvm", "md")]:
        host.seen.nodes.pop(devno)
    host.seen.lvm, host.seen.mounts = host.seen.lvm._replace(pvs=(), vgs=(), lvs=()), []
    host.seen.directories = {path: state._replace(entries=0) for path, state in host.seen.directories.items()}
    return host


FORCED = "mdadm --stop /dev/md127, and then mdadm --assemble --force /dev/md/pgdata /dev/nvme1n1p1 /dev/nvme2n1p1 /dev/nvme3n1p1; check"


@pytest.mark.parametrize("first_is_back", [False, True])
def test_the_one_that_was_lost_last_is_back(first_is_back):
    """md does not start the array by itself, and --force with the last copies, and no older one, loses nothing that a crash would not."""
    host = after_both_were_lost(first_is_back)
    text = refused(host, mirrored(host, host.names), "device nvme1n1 (SER0001) has 40 events", "device nvme2n1 (SER0002) has 43 events", FORCED)
    assert "bring that device back" not in text and "nvme0n1p1" not in text
    if not first_is_back:
        refused(host, mirrored(host, [host.new, *host.names[1:]], replace={"SER0000": "NEW9"}), "does not run [mirror]", FORCED)


@pytest.mark.parametrize(
    "last",
    [{"role": 0}, {"roles": (FAULTY, 1, FAULTY, 3)}, {"uuid": "1:2:3:4"}, {"events": 43}],
    ids=["the one that was lost first", "run apart", "of another array", "none is older"],
)
def test_no_older_copy_is_started_as_the_truth(last):
    host = after_both_were_lost(**last)
    text = refused(host, mirrored(host, host.names), "the array does not run without it [stale]", "bring that device back")
    assert "--force" not in text


def test_two_of_a_pair_that_differ_are_not_forced():
    host = after_both_were_lost()
    part = host.parts()[-1]
    host.seen.md_superblocks[part] = host.seen.md_superblocks[part]._replace(events=42)
    assert "--force" not in refused(host, mirrored(host, host.names), "[stale]")


@pytest.mark.parametrize("back", [False, True])
def test_both_devices_of_a_pair_are_gone(back):
    """An array that has lost a pair is given no member: the older one may be the only one that has the data."""
    host = built()
    pair = disks(host)[:2]
    for number, disk in enumerate(pair):
        host.pull(disk, events=40 + number)
    if back:
        for disk in pair:
            host.bring_back(disk)
        stacks = mirrored(host, host.names, replace={"SER0000": "SER0000", "SER0001": "SER0001"})
    else:
        stacks = mirrored(host, host.names)
    text = refused(host, stacks, "has failed [damaged]", "no member holds the places 0, 1", "bring back the device of that pair that was lost last")
    assert "replace:" not in text and "clear its member" not in text


def test_new_devices_for_both_of_a_pair_that_is_gone():
    host = built()
    gone, new = disks(host)[:2], [host.disk("nvme8n1", serial="NEW8"), host.disk("nvme9n1", serial="NEW9")]
    for disk in gone:
        host.pull(disk)
    names = [*map(host.name, new), *host.names[2:]]
    refused(host, mirrored(host, names, replace={"SER0000": "NEW8", "SER0001": "NEW9"}), "has failed [damaged]", "0, 1")


def test_an_array_that_is_frozen():
    host = built()
    host.seen.raids[host.array.devno] = RaidState("frozen")
    plan = make_plan(mirrored(host), host.seen)
    assert actions(plan) == [] and any("is frozen: md fills no member" in one and "echo idle" in one for one in plan.warnings), plan.warnings


@pytest.mark.parametrize(("action", "told"), [("idle", True), ("recover", True), ("check", False)])
def test_an_array_that_halts(action, told):
    """A check of others may have an end of its own."""
    host = built()
    host.change(halt=1920)
    host.seen.raids[host.array.devno] = RaidState(action)
    plan = make_plan(mirrored(host), host.seen)
    assert any("md halts before sector 1920 of the array /dev/md127" in one and "echo max" in one for one in plan.warnings) == told
    last = host.array.members[3]
    host.change(members=(*host.array.members, last._replace(states=("spare", "replacement"))))  # it may have holes
    assert not any("echo max" in one for one in make_plan(mirrored(host), host.seen).warnings)


def test_an_array_that_the_kernel_calls_broken():
    host = built()
    host.change(state="broken")
    refused(host, mirrored(host), "has failed [damaged]: it is 'broken'")


def test_a_new_device_takes_the_place():
    host = built()
    gone, new = disks(host)[1], host.disk("nvme9n1", serial="NEW")
    host.pull(gone)
    names = [host.names[0], host.name(new), *host.names[2:]]
    refused(host, mirrored(host, names), "(NEW) is no member of the array, which runs with 3 of 4 [degraded]", "replace: {SERIAL OF THE OLD ONE: NEW}")
    stacks = mirrored(host, names, replace={"SER0001": "NEW"})
    assert actions(host.build(stacks)) == ["partition", "mirror_add"]
    plan = make_plan(stacks, host.seen)
    assert actions(plan) == [] and any("take replace: {SER0001: NEW} out of the spec" in text for text in plan.warnings)
    host.bring_back(gone)
    assert actions(make_plan(mirrored(host, names), host.seen)) == []


def test_a_device_is_replaced_while_it_works():
    host = built()
    old, new = disks(host)[2], host.disk("nvme9n1", serial="NEW")
    names = [*host.names[:2], host.name(new), host.names[3]]
    refused(host, mirrored(host, names), "is a member of the array, and is not in devices", "replace: {SER0002: SERIAL OF THE NEW ONE}")
    stacks = mirrored(host, names, replace={"SER0002": "NEW"})
    plan = make_plan(stacks, host.seen)
    assert actions(plan) == ["partition", "mirror_replace"] and plan.steps[1]["old"] == host.seen.tables[old].entries[0].guid
    host.carry_out(plan.steps[0])
    (step,) = make_plan(stacks, host.seen).steps
    host.spare(host._by_guid(step["new"]))
    (step,) = make_plan(stacks, host.seen).steps
    assert step["action"] == "mirror_replace"
    host.carry_out(step)
    assert actions(make_plan(stacks, host.seen)) == []


@pytest.mark.parametrize("place", ["in the array", "out of it"])
def test_a_device_that_was_replaced_and_has_not_gone_yet(place):
    host = built()
    old, new = disks(host)[2], host.disk("nvme9n1", serial="NEW")
    stacks = mirrored(host, [*host.names[:2], host.name(new), host.names[3]], replace={"SER0002": "NEW"})
    plan = make_plan(stacks, host.seen)
    part, kept = host.parts()[2], host.seen.md_superblocks[host.parts()[2]]
    for step in plan.steps:
        host.carry_out(step)
    host.seen.md_superblocks[part] = kept
    if place == "in the array":
        member = host.array.members[0]._replace(devno=part, slot=-1, states=("faulty",))
        host.change(members=(*host.array.members, member))
    assert actions(make_plan(stacks, host.seen)) == ["mirror_replace"] and old


@pytest.mark.parametrize("old_works", [False, True])
def test_a_new_member_that_was_given_up(old_works):
    """By a person, since it lacked something: it is filled anew. One that fails beside the old one is a broken SSD."""
    host = built()
    new = host.disk("nvme9n1", serial="NEW")
    stacks = mirrored(host, [*host.names[:2], host.name(new), host.names[3]], replace={"SER0002": "NEW"})
    plan = make_plan(stacks, host.seen)
    part, kept, member = host.parts()[2], host.seen.md_superblocks[host.parts()[2]], host.array.members[2]
    for step in plan.steps:
        host.carry_out(step)
    host.seen.md_superblocks[part] = kept
    members = [one._replace(slot=-1, states=("faulty",)) if one.slot == 2 else one for one in host.array.members]
    host.change(members=(*members, member if old_works else member._replace(slot=-1, states=("faulty",))))
    if old_works:
        refused(host, stacks, "(NEW) has failed", "name another in its place")
        return
    (step,) = make_plan(stacks, host.seen).steps
    assert step["action"] == "mirror_replace"


@pytest.mark.parametrize(
    ("superblock", "words"),
    [
        ({}, ["was away, and has older data [stale]: 20 events, the array 40", "replace: {SER0001: SER0001} does it"]),
        ({"events": 40}, ["was run apart from the array that runs now [stale]", "nothing here joins them"]),
        ({"events": 30, "roles": (0, 1, FAULTY, 3)}, ["was run apart from the array that runs now [stale]"]),
        ({"uuid": "1:2:3:4"}, ["is a member of another array, 1:2:3:4"]),
    ],
    ids=["older", "newer", "run apart", "foreign"],
)
def test_a_member_that_comes_back_is_never_joined_by_itself(superblock, words):
    host = built()
    gone = disks(host)[1]
    host.pull(gone)
    host.bring_back(gone, **superblock)
    text = refused(host, mirrored(host, host.names), *words)
    assert "zero-superblock" not in text and "wipe" not in text
    stacks = mirrored(host, host.names, replace={"SER0001": "SER0001"})
    if superblock:
        refused(host, stacks, *words)
        return
    assert actions(host.build(stacks)) == ["mirror_add"]
    assert actions(make_plan(stacks, host.seen)) == []


def test_empty_places_are_filled_before_a_member_that_works_is_replaced():
    """A spare goes to a place that is empty, and the replacement would not begin."""
    host = built()
    first, second, third, fourth = disks(host)
    new = [host.disk("nvme8n1", serial="NEW8"), host.disk("nvme9n1", serial="NEW9")]
    host.pull(fourth)
    stacks = mirrored(host, [host.names[0], host.name(new[0]), host.names[2], host.name(new[1])], replace={"SER0001": "NEW8", "SER0003": "NEW9"})
    plan = host.build(stacks)
    assert actions(plan) == ["partition", "mirror_add", "mirror_replace"]
    assert plan.steps[2]["new"] == host.seen.tables[new[0]].entries[0].guid
    assert actions(make_plan(stacks, host.seen)) == [] and first and second and third


def test_the_only_copy_is_not_replaced_before_the_other_half_is_there():
    host = built()
    first, second, *_others = disks(host)
    new = [host.disk("nvme8n1", serial="NEW8"), host.disk("nvme9n1", serial="NEW9")]
    host.pull(first)
    stacks = mirrored(host, [*map(host.name, new), *host.names[2:]], replace={"SER0001": "NEW8", "SER0000": "NEW9"})
    assert actions(host.build(stacks)) == ["partition", "mirror_add", "mirror_replace"]
    assert host.array.missing == () and second


def test_a_member_is_not_replaced_while_another_is_filled():
    host = built()
    new = host.disk("nvme9n1", serial="NEW")
    *others, last = host.array.members
    host.change(members=(*others, last._replace(states=("spare",))))
    stacks = mirrored(host, [host.names[0], host.name(new), *host.names[2:]], replace={"SER0001": "NEW"})
    refused(host, stacks, "serial 'SER0001' is in use, and is replaced when all other members are in sync [degraded]: 3 of 4 are", "/proc/mdstat")


def test_a_member_with_a_place_does_not_take_another():
    host = built()
    new = host.disk("nvme9n1", serial="NEW")
    stacks = mirrored(host, [host.names[0], host.names[1], host.name(new), host.names[3]], replace={"SER0002": "SER0001"})
    refused(host, stacks, "(SER0001) has place 1 of the array, and cannot take that of serial 'SER0002', which is place 2")


def test_a_copy_of_the_disk_that_is_replaced():
    """All later steps name a partition by its GUID."""
    host = built()
    old, new = disks(host)[1], host.disk("nvme9n1", serial="NEW")
    host.pull(old)
    entry = host.gone[old][2].entries[0]
    part = host.part(new, entry.start, entry.size)
    host.seen.tables[new] = host.gone[old][2]
    host.seen.md_superblocks[part] = host.gone[old][3]
    host.bring_back(old)
    stacks = mirrored(host, [host.names[0], host.name(new), *host.names[2:]], replace={"SER0001": "NEW"})
    refused(host, stacks, "(NEW) carries a copy of the partition table of", "[identity]")


def test_a_whole_disk_as_a_member():
    host = built()
    other = host.disk("nvme9n1", serial="NEW")
    host.change(members=(*host.array.members, host.array.members[0]._replace(devno=other, slot=-1, states=("spare",))))
    refused(host, mirrored(host, host.names), "(NEW) is a member of the array, and is not in devices")


def test_a_member_with_bad_blocks_is_a_warning():
    """md counts it as in sync."""
    host = built()
    first, *others = host.array.members
    host.change(members=(first._replace(bad=3), *others))
    plan = make_plan(mirrored(host), host.seen)
    assert actions(plan) == [] and any("(SER0000) does not hold 3 ranges of blocks" in text for text in plan.warnings)


@pytest.mark.parametrize(("bitmap", "warned"), [("none", True), ("+8", False), ("", False)])
def test_an_array_without_a_bitmap_is_a_warning(bitmap, warned):
    host = built()
    host.change(bitmap=bitmap)
    plan = make_plan(mirrored(host), host.seen)
    assert actions(plan) == [] and any("has no bitmap" in text for text in plan.warnings) is warned


def test_devices_that_pair_otherwise_in_the_array():
    """Whoever takes out one of each pair by the spec would take out both of one."""
    host = built()
    a, b, c, d = host.names
    for names in ([b, a, c, d], [c, d, a, b]):
        assert make_plan(mirrored(host, names), host.seen).warnings == make_plan(mirrored(host), host.seen).warnings
    plan = make_plan(mirrored(host, [a, c, b, d]), host.seen)
    assert actions(plan) == [] and any("SER0000 and SER0001, SER0002 and SER0003 hold the same" in text for text in plan.warnings)


def test_a_drawing_has_the_pairs_of_the_array():
    host = built()
    first, second, third, fourth = host.array.members
    host.change(members=(first, second._replace(slot=2), third._replace(slot=1), fourth))
    plan = make_plan(mirrored(host), host.seen)
    assert any("SER0000 and SER0002, SER0001 and SER0003 hold the same" in text for text in plan.warnings)
    assert "plumbline:pgdata:0 + plumbline:pgdata:2, plumbline:pgdata:1 + plumbline:pgdata:3" in "\n".join(draw_wanted(plan.stacks[0], host.seen))


def test_a_member_that_has_failed():
    host = built()
    first, *others = host.array.members
    host.change(members=(first._replace(states=("faulty",)), *others))
    refused(host, mirrored(host), "(SER0000) has failed, and its array runs without it [degraded]", "replace: {SER0000: SERIAL OF THE NEW ONE}")
    (step,) = make_plan(mirrored(host, replace={"SER0000": "SER0000"}), host.seen).steps
    assert (step["action"], step["own_place"]) == ("mirror_add", True)


def test_a_member_that_is_being_filled_is_a_warning():
    host = built()
    first, *others = host.array.members
    host.change(members=(first._replace(states=("spare",)), *others))
    plan = make_plan(mirrored(host), host.seen)
    assert actions(plan) == [] and any("is being filled" in text for text in plan.warnings)


def test_a_place_for_nobody():
    host = built()
    refused(host, mirrored(host, replace={"SER0001": "NEW"}), "replace gives a place to serial 'NEW', which no device of the stack has")


def test_no_place_is_free():
    """It would be a spare, which nobody has asked for."""
    host = built()
    new = host.disk("nvme9n1", serial="NEW")
    stacks = mirrored(host, [host.names[0], host.name(new), *host.names[2:]], replace={"SER000X": "NEW"})
    refused(host, stacks, "no place is free [mirror]", "(SER0001) is a member of the array, and is not in devices")


def test_a_device_that_is_too_small_to_take_a_place():
    host = built()
    new = host.disk("nvme9n1", serial="NEW", size=80 * GIB)
    host.pull(disks(host)[1])
    stacks = mirrored(host, [host.names[0], host.name(new), *host.names[2:]], replace={"SER0001": "NEW"})
    refused(host, stacks, "is too small for the partition of 90.00 GiB that the other legs have")


# --- grown -----------------------------------------------------------------------------------------


def test_it_grows():
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    assert actions(make_plan(mirrored(host), host.seen)) == []
    stacks = mirrored(host, grow=True)
    assert [step["action"] for step in host.build(stacks).steps] == GROWN
    assert actions(make_plan(stacks, host.seen)) == []


@pytest.mark.parametrize(
    ("proof", "dlfeat", "cut", "clean"),
    [("sampled", 1, 0, False), ("full", 1, 0, True), ("full", 2, 0, False), ("full", 1, 1, False)],
    ids=["sampled", "read", "blank is ones on one, and zeros on another", "the partitions were grown in an earlier run"],
)
def test_what_is_taken_in_is_made_equal_unless_it_was_read_in_this_run(proof, dlfeat, cut, clean):
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    host.seen.namespaces[disks(host)[0]] = {"dlfeat": dlfeat}
    host.build(mirrored(host, grow=True), limit=cut)
    (step,) = [step for step in make_plan(mirrored(host, grow=True, blank_proof=proof), host.seen).steps if step["action"] == "mirror_grow"]
    assert step["assume_clean"] is clean


@pytest.mark.parametrize("limit", range(len(GROWN)))
def test_growth_that_was_ended_between_two_steps(limit):
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    stacks = mirrored(host, grow=True)
    host.build(stacks, limit=limit)
    assert [step["action"] for step in host.build(stacks).steps] == GROWN[limit:]


def test_growth_waits_for_all_members():
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    first, *others = host.array.members
    host.change(members=(first._replace(states=("spare",)), *others))
    refused(host, mirrored(host, grow=True), "grows when all its members are in sync [degraded]")
