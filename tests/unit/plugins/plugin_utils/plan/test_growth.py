# SPDX-License-Identifier: GPL-3.0-or-later
"""A stack that grows: larger devices, larger volumes, further rows of devices; and what an earlier run left of it."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ends, Signature, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.drawing import diff, steps_report
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.duration import duration_lines
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, spec

ONE = [{"name": "data", "mount": "/data01"}]
GROWN = ["grow_partition", "grow_pv", "grow_lv", "grow_lv", "grow_filesystem", "grow_filesystem"]


def built(count=2, **more):
    host = Host()
    host.pair(count)
    host.build(spec(host, **more))
    assert make_plan(spec(host, **more), host.seen).steps == []
    return host


def disks(host):
    return [node.devno for node in host.seen.nodes.values() if node.kind == "disk"]


def actions(plan):
    assert plan.refusals == []
    return [step["action"] for step in plan.steps]


def carried_out(host, stacks):
    """All steps of the plan, after which nothing is left; in the order of the plan."""
    plan = host.build(stacks)
    again = make_plan(stacks, host.seen)
    assert (again.refusals, again.steps) == ([], [])
    return [step["action"] for step in plan.steps]


# --- a device grew ---------------------------------------------------------------------------------


def test_without_the_word_it_is_a_warning():
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    plan = make_plan(spec(host), host.seen)
    assert (plan.refusals, plan.steps) == ([], [])
    assert "pgdata: device nvme0n1 (SER0000) grew from 100 GiB to 150 GiB; set grow: true on the stack, and it is taken in while it is in use" in plan.warnings


@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize(
    ("size", "words"),
    [(95 * GIB, ""), (90 * GIB - MIB, "ends 1 MiB behind the end of the disk [damaged]"), (60 * GIB, "ends 30 GiB behind")],
    ids=["within the reserve", "by its end", "below the partition"],
)
def test_a_device_that_shrank_is_never_written_to(grow, size, words):
    """As an array of somebody's controller, or a volume of a SAN, that was made smaller. The partition is there, or its end is gone."""
    host = built()
    for devno in disks(host):
        host.resize(devno, size)
    plan = make_plan(spec(host, grow=grow), host.seen)
    assert plan.steps == [] and bool(plan.refusals) == bool(words)
    assert all(words in reason and "rebuilt" not in reason for reason in plan.refusals)
    assert words or [text for text in plan.warnings if "shrank from 100 GiB to 95 GiB, and its reserve to 5 GiB" in text]


@pytest.mark.parametrize("reserve, kept", [("10%", 15 * GIB), ("5GiB", 5 * GIB), ("0%", MIB)])
def test_with_the_word_every_layer_grows_and_the_reserve_is_kept(reserve, kept):
    host = built(reserve=reserve)
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    stacks = spec(host, reserve=reserve, grow=True)
    before = {name: host.seen.lv("pgdata", name).size for name in ("data", "wal")}
    assert carried_out(host, stacks) == GROWN
    for devno in disks(host):
        entry = host.seen.tables[devno].entries[0]
        assert 0 <= 150 * GIB - kept - entry.start - entry.size < 2 * MIB, "the reserve is its share of the new size"
    for name, size in before.items():
        lv = host.seen.lv("pgdata", name)
        assert 1.4 < lv.size / size < 1.6
        assert host.seen.filesystems[host.seen.lv_node("pgdata", name).devno].blocks * 4096 == lv.size


@pytest.mark.parametrize("limit", range(len(GROWN)))
def test_what_was_ended_between_two_steps_is_carried_on(limit):
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    stacks = spec(host, grow=True)
    host.build(stacks, limit=limit)
    assert carried_out(host, stacks) == GROWN[limit:]


def test_one_of_two_partitions_has_grown():
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    stacks = spec(host, grow=True)
    (step, *_rest) = make_plan(stacks, host.seen).steps
    host.carry_out({**step, "disks": step["disks"][:1]})
    (step, *_rest) = make_plan(stacks, host.seen).steps
    assert [bool(disk["length_bytes"]) for disk in step["disks"]] == [False, True]
    assert carried_out(host, stacks) == GROWN


def test_a_selector_still_means_a_disk_of_ours_that_grew():
    host = Host()
    host.pair(2)
    chosen = {"model": "Flash*", "count": 2, "max_size": "120GiB"}
    host.build(spec(host, devices=chosen))
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    assert carried_out(host, spec(host, devices=chosen, grow=True)) == GROWN


def test_the_smallest_device_of_a_row_decides():
    host = built()
    first, _second = disks(host)
    host.resize(first, 150 * GIB)
    plan = make_plan(spec(host, grow=True), host.seen)
    assert "pgdata: device nvme0n1 (SER0000) grew to 150 GiB, and the smallest device of its row decides: nothing more of it is used" in plan.warnings
    assert carried_out(host, spec(host, grow=True)) == ["grow_partition"], "its table reaches the end of the disk again"


def test_the_kernel_is_behind_the_table():
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    stacks = spec(host, grow=True)
    host.build(stacks, limit=1)
    part = next(node for node in host.seen.nodes.values() if node.kind == "part")
    host.edit(part.devno, size=part.size - 50 * GIB)
    assert carried_out(host, stacks)[0] == "grow_partition"


def test_a_separate_layout_has_no_lvm():
    volumes = [{"name": "a", "mount": "/a"}, {"name": "b", "mount": "/b"}]
    host = built(layout="separate", volumes=volumes)
    host.resize(disks(host)[1], 130 * GIB)
    assert carried_out(host, spec(host, layout="separate", volumes=volumes, grow=True)) == ["grow_partition", "grow_filesystem"]


def test_a_larger_reserve_is_refused_as_before():
    host = built()
    (line, *_more) = make_plan(spec(host, reserve="20%", grow=True), host.seen).refusals
    assert "can only be rebuilt" in line


def test_a_goal_of_the_reserve_is_met_on_the_new_size():
    goal = {"target": {"wa": 3}}
    host = built(reserve=goal)
    for devno in disks(host):
        host.resize(devno, 200 * GIB)
    assert make_plan(spec(host, reserve=goal), host.seen).steps == []
    assert carried_out(host, spec(host, reserve=goal, grow=True)) == GROWN


def test_a_growth_that_was_cut_off_in_the_table_is_ended_without_the_word():
    host = built()
    devno = disks(host)[0]
    host.seen.tables[devno] = host.seen.tables[devno]._replace(unsettled=True)
    assert carried_out(host, spec(host)) == ["grow_partition"]


def test_an_older_table_that_was_brought_back():
    """The kernel still has the partition that the volumes lie on: nothing says to read that table."""
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    before = dict(host.seen.tables)
    host.build(spec(host, grow=True))
    host.seen.tables.update(before)
    (line, *_more) = make_plan(spec(host), host.seen).refusals
    assert "[damaged]" in line and "no blockdev --rereadpt, no reboot" in line and "grow: true" in line
    assert carried_out(host, spec(host, grow=True)) == ["grow_partition"]


def test_a_pv_with_a_second_copy_of_the_metadata_is_not_grown():
    host = built()
    pvs = [pv._replace(mdas=2, extents=pv.extents - 1, free=((*pv.free[0][:1], pv.free[0][1] - 64 * MIB), *pv.free[1:])) for pv in host.seen.lvm.pvs]
    host.seen.lvm = host.seen.lvm._replace(pvs=tuple(pvs))
    plan = make_plan(spec(host), host.seen)
    assert not any("smaller than its partition" in one for one in plan.warnings)


def test_a_volume_with_a_snapshot_is_not_grown():
    sizes = [{"name": "data", "size": "50GiB", "mount": "/data01"}]
    host = built(volumes=sizes)
    node = host.seen.lv_node("pgdata", "data")
    host.edit(node.devno, segments=(node.segments[0]._replace(kind="snapshot-origin", legs=()),))
    (line,) = make_plan(spec(host, volumes=[{**sizes[0], "size": "80GiB"}]), host.seen).refusals
    assert "remove the snapshot when its backup has ended" in line


def test_a_pv_that_is_larger_than_its_partition_is_refused():
    """As an older table, brought back after a growth, leaves it."""
    host = built()
    pv = host.seen.lvm.pvs[0]
    host.seen.lvm = host.seen.lvm._replace(pvs=(pv._replace(extents=pv.extents + 10), *host.seen.lvm.pvs[1:]))
    (line, *_more) = make_plan(spec(host), host.seen).refusals
    assert "[damaged]" in line and "wipe" not in line


def test_the_diff_shows_the_sizes():
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    plan = make_plan(spec(host, grow=True), host.seen)
    shown = diff(plan, host.seen)
    assert "1 MiB + 90.00 GiB  partition plumbline:pgdata:0, PV of 1439 extents of 64 MiB" in shown["before"], shown["before"]
    assert "LV data  125.88 GiB" in shown["before"] and "ext4 'pgdata-data'  125.88 GiB" in shown["before"]
    assert "1 MiB + 135.00 GiB  partition plumbline:pgdata:0" in shown["after"] and "LV data  188.88 GiB" in shown["after"]
    assert steps_report(plan)[0] == "step 1: grow the partitions on nvme0n1 to 135.00 GiB, nvme1n1 to 135.00 GiB"


def damaged_first_copy(host, devno):
    """As libfdisk leaves a disk's table where the power fails between its first entries and their header."""
    table = host.seen.tables[devno]
    host.seen.tables[devno] = Table("gpt", table.guid, fault="the checksum of the GPT's entries is wrong", spare=table.entries)


@pytest.fixture(params=[False, True], ids=["still mounted", "booted"])
def damaged(request):
    """A host whose first disk has such a table. After a boot the kernel shows no partition of it, and LVM no PV."""
    host = built()
    first = disks(host)[0]
    damaged_first_copy(host, first)
    if request.param:
        gone = {node.devno for node in host.seen.tree(first)} - {first}
        host.seen.nodes = {devno: node for devno, node in host.seen.nodes.items() if devno not in gone}
        host.seen.mounts = []
        host.edit(first, holders=())
        host.holds_data(first, MIB)
        host.seen.marks[first] = [Signature("LVM2_member", "raid", MIB + 512)]
    return host


def test_a_first_copy_that_is_damaged_is_written_again_from_the_backup(damaged):
    """Without a word in the spec, and with nothing planned on it before that is done."""
    (step,) = make_plan(spec(damaged), damaged.seen).steps
    entry = damaged.seen.tables[disks(damaged)[0]].spare[0]
    assert (step["action"], step["unfinished"]) == ("restore_table", True)
    (disk,) = step["disks"]
    assert (disk["device"], disk["guid"], disk["start_bytes"], disk["length_bytes"]) == ("/dev/nvme0n1", entry.guid, entry.start, entry.size)


def test_a_backup_that_is_not_just_this_stacks_is_refused_and_its_way_back_is_said(damaged):
    """Nothing of it is offered for an erase, or to be taken apart."""
    first = disks(damaged)[0]
    table = damaged.seen.tables[first]
    damaged.seen.tables[first] = table._replace(spare=(table.spare[0]._replace(guid="6A2F2C1E-8A3B-4C5D-9E6F-0A1B2C3D4E5F"),))
    plan = make_plan(spec(damaged), damaged.seen)
    assert plan.steps == [] and plan.refusals
    for line in plan.refusals:
        assert "sfdisk --relocate gpt-bak-std /dev/nvme0n1" in line
        assert not [word for word in ("erase", "wipe", "free the device", "take that apart", "unmount") if word in line]


def test_what_a_build_left_that_was_cut_off_is_not_restored():
    """Nothing lies between the ends: the build writes its table again, or refuses."""
    host = built()
    first = disks(host)[0]
    damaged_first_copy(host, first)
    gone = {node.devno for node in host.seen.tree(first)} - {first}
    host.seen.nodes = {devno: node for devno, node in host.seen.nodes.items() if devno not in gone}
    host.edit(first, holders=())
    host.seen.ends[first] = Ends(b"\1" * MIB, bytes(MIB), host.seen.nodes[first].size - MIB)
    plan = make_plan(spec(host), host.seen)
    assert plan.steps == [] and "sfdisk --relocate" in plan.refusals[0]


def test_it_is_never_erased():
    host = built()
    first = disks(host)[0]
    damaged_first_copy(host, first)
    (reasons,) = erase.obstacles(host.seen, [first])
    assert "damaged" in {reason.name for reason in reasons}
    assert erase.offer(host.seen, first, [first]) is None


def test_how_long_it_takes_is_said():
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    plan = make_plan(spec(host, grow=True), host.seen)
    lines = duration_lines({"steps": plan.steps}, spec(host, grow=True))
    assert lines[0].startswith("time: ") and "6 steps" in lines[1]


# --- a volume grows --------------------------------------------------------------------------------


def test_a_larger_size_needs_no_other_word():
    sizes = [{"name": "data", "size": "50GiB", "mount": "/data01"}]
    host = built(volumes=sizes)
    larger = spec(host, volumes=[{**sizes[0], "size": "80GiB"}])
    assert carried_out(host, larger) == ["grow_lv", "grow_filesystem"]
    smaller = make_plan(spec(host, volumes=[{**sizes[0], "size": "60GiB"}]), host.seen)
    assert "nothing is ever made smaller here" in smaller.refusals[0]


def test_a_new_volume_beside_one_that_grows():
    sizes = [{"name": "data", "size": "50GiB", "mount": "/data01"}]
    host = built(volumes=sizes)
    more = spec(host, volumes=[{**sizes[0], "size": "80GiB"}, {"name": "wal", "size": "20GiB", "mount": "/wal"}])
    assert sorted(carried_out(host, more)) == ["filesystem", "grow_filesystem", "grow_lv", "logical_volume", "mount"]


def test_more_than_is_free_is_refused():
    host = built()
    volumes = [{"name": "data", "size": "300GiB", "mount": "/data01"}]
    assert "want more than there is" in make_plan(spec(host, volumes=volumes), host.seen).refusals[0]


@pytest.mark.parametrize("change", [{"suspended": True}, {"size": 10 * GIB}])
def test_the_kernel_is_behind_the_metadata(change):
    """The first plan lets it read the metadata again, and plans what is on it then."""
    host = built()
    node = host.seen.lv_node("pgdata", "data")
    host.edit(node.devno, **change)
    plan = make_plan(spec(host), host.seen)
    assert actions(plan) == ["refresh_lv"] and plan.steps[0]["unfinished"]
    host.carry_out(plan.steps[0])
    assert make_plan(spec(host), host.seen).steps == []


def test_a_kernel_that_has_more_than_the_metadata_is_refused():
    host = built()
    node = host.seen.lv_node("pgdata", "data")
    host.edit(node.devno, size=node.size + GIB)
    (line,) = make_plan(spec(host), host.seen).refusals
    assert "[damaged]" in line and "vgcfgrestore" in line


def test_a_filesystem_that_is_smaller_than_its_volume_is_grown():
    host = built()
    devno = host.seen.lv_node("pgdata", "data").devno
    found = host.seen.filesystems[devno]
    host.seen.filesystems[devno] = found._replace(blocks=found.blocks - 1024)
    assert carried_out(host, spec(host)) == ["grow_filesystem"]


def test_what_it_does_not_grow_to_is_refused_with_the_figure():
    host = built()
    for devno in disks(host):
        host.resize(devno, 150 * GIB)
    host.seen.filesystems = {devno: found._replace(growable=160 * GIB) for devno, found in host.seen.filesystems.items()}
    (line,) = make_plan(spec(host, grow=True), host.seen).refusals
    assert "the filesystem of volume 'data' would have 188.88 GiB, and it grows to 160 GiB at most: by what it has reserved" in line
    host.seen.filesystems = {devno: found._replace(growable=0) for devno, found in host.seen.filesystems.items()}
    assert "resize_inode" in make_plan(spec(host, grow=True), host.seen).refusals[0]


def test_a_filesystem_that_is_not_mounted_and_has_no_mount():
    volumes = [{"name": "data"}]
    host = built(volumes=volumes)
    devno = host.seen.lv_node("pgdata", "data").devno
    host.seen.filesystems[devno] = host.seen.filesystems[devno]._replace(blocks=1 << 20)
    plan = make_plan(spec(host, volumes=volumes), host.seen)
    assert plan.steps == [] and "it grows while it is mounted for writing: mount it, and run again" in plan.warnings[0]


# --- further rows ----------------------------------------------------------------------------------


def rows(host, **more):
    return spec(host, stripes=2, volumes=ONE, **more)


def test_a_further_row():
    host = built(volumes=ONE)
    host.pair(2)
    assert carried_out(host, rows(host)) == ["partition", "extend_vg", "grow_lv", "grow_filesystem"]
    lv = host.seen.lv("pgdata", "data")
    assert (lv.stripes, lv.segments) == (2, 2)
    found = host.seen.filesystems[host.seen.lv_node("pgdata", "data").devno]
    assert (found.stride, found.stripe_width) == (16, 32), "of a row, and not of all legs"


@pytest.mark.parametrize("limit", range(4))
def test_a_further_row_is_carried_on(limit):
    host = built(volumes=ONE)
    host.pair(2)
    host.build(rows(host), limit=limit)
    assert carried_out(host, rows(host)) == ["partition", "extend_vg", "grow_lv", "grow_filesystem"][limit:]


def test_a_filter_that_rejects_a_further_row():
    host = built(volumes=ONE)
    host.pair(2)
    host.seen.lvm_filters = {"global_filter": ("a|^/dev/nvme[01]n1p1$|", "r|.*|")}
    plan = make_plan(rows(host), host.seen)
    assert plan.steps == [] and "nvme2n1 (SER0002), device nvme3n1 (SER0003): LVM would make no PV there" in plan.refusals[0] and "[hidden]" in plan.refusals[0]


def test_rows_from_the_first_day():
    host = Host()
    host.pair(4)
    assert carried_out(host, rows(host)) == ["partition", "volume_group", "logical_volume", "grow_lv", "filesystem", "mount"]


def test_a_row_of_larger_devices():
    host = built(volumes=ONE)
    before = host.seen.lv("pgdata", "data").size
    host.pair(2, size=400 * GIB)
    carried_out(host, rows(host))
    assert 4.5 < host.seen.lv("pgdata", "data").size / before < 5.5


def test_half_of_a_row_in_the_group():
    host = built(volumes=ONE)
    host.pair(2)
    host.build(rows(host), limit=1)
    step = make_plan(rows(host), host.seen).steps[0]
    host.carry_out({**step, "pvs": step["pvs"][:1]})
    assert carried_out(host, rows(host)) == ["extend_vg", "grow_lv", "grow_filesystem"]


def test_a_forgotten_number_of_stripes_is_named():
    host = built(volumes=ONE)
    host.pair(2)
    host.build(rows(host))
    (line,) = make_plan(spec(host, volumes=ONE), host.seen).refusals
    assert line == "pgdata: LV pgdata/data is striped over 2 devices, and the spec has rows of 4; set stripes: 2"


def test_a_row_that_was_taken_out_of_the_spec():
    host = built(volumes=ONE)
    first = disks(host)
    host.pair(2)
    host.build(rows(host))
    (line,) = make_plan(spec(host, first, volumes=ONE), host.seen).refusals
    assert "has further PVs of this stack: /dev/nvme2n1p1, /dev/nvme3n1p1; name their devices as well, with stripes: 2" in line and "rename" not in line


def test_a_wider_stripe_is_refused():
    host = built(volumes=ONE)
    host.pair(2)
    plan = make_plan(spec(host, volumes=ONE), host.seen)
    assert plan.steps == [] and "a stripe does not get wider: set stripes to the devices that it goes over" in plan.refusals[0]


@pytest.mark.parametrize("grow", [False, True])
def test_pvs_that_are_made_and_in_no_group_yet(grow):
    """As a vgextend that was killed leaves them: they have no extents, and are not to be grown first."""
    host = built(volumes=ONE)
    host.pair(2)
    host.build(rows(host), limit=1)
    members = {pv.devno for pv in host.seen.lvm.pvs}
    for part in [node.devno for node in host.seen.nodes.values() if node.kind == "part" and node.devno not in members]:
        host.pv(part, "", extents=0)
    steps = make_plan(rows(host, grow=grow), host.seen).steps
    assert [step["action"] for step in steps] == ["extend_vg", "grow_lv", "grow_filesystem"]


def test_no_whole_row_is_a_mistake_of_the_spec():
    host = Host()
    host.pair(3)
    with pytest.raises(PlumblineError, match="3 devices are no whole rows of 2; name 1 more"):
        rows(host)


def test_the_free_room_of_earlier_rows_is_used_first():
    volumes = [{"name": "data", "size": "50GiB", "mount": "/data01"}]
    host = built(volumes=volumes)
    host.pair(2)
    larger = [{**volumes[0], "size": "300GiB"}]
    plan = host.build(spec(host, stripes=2, volumes=larger))
    grown = [step for step in plan.steps if step["action"] == "grow_lv"]
    assert [len(step["pvs"]) for step in grown] == [2, 2] and grown[0]["size_bytes"] == grown[1]["from_bytes"]
    assert not set(grown[0]["pvs"]) & set(grown[1]["pvs"])
