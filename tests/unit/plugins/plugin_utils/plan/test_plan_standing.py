# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands and differs from the spec: refused, a step, or a warning; what somebody changed since."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment, Signature, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, VOLUMES, Host, spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.plan.test_make_plan import _fresh, refusals, with_discard
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.plan.test_plan_devices import _segment

# --- refusals: what stands and differs ---------------------------------------------------------------


def built(limit=99, **more):
    host = _fresh()
    host.build(spec(host, **more), limit=limit)
    return host


LEFT = "it is left alone; look at it, and wipe it by your own tools if nothing on it is needed"
REBUILT = "; this can only be rebuilt, which is never done here"


def test_other_reserve():
    found = refusals(spec(built(), reserve="20%"), built())
    wanted = "pgdata: partition 'plumbline:pgdata:0' on nvme0n1 has 89.99 GiB (%d bytes); wanted 79.99 GiB (%d bytes), by size and reserve"
    usable = (100 * GIB * 9 // 10) // MIB * MIB - MIB, (100 * GIB * 8 // 10) // MIB * MIB - MIB
    assert found[0].startswith(wanted[: wanted.index(" has")]) and str(usable[0]) in found[0] and str(usable[1]) in found[0]
    assert found[0].endswith("by size and reserve" + REBUILT)


@pytest.mark.parametrize("start", [63 * 512, 34 * 512, MIB + 512, MIB + 3584])
def test_wrong_start(start):
    host = _fresh()
    stacks = spec(host)
    host.build(stacks, limit=1)
    part = next(n for n in host.seen.nodes.values() if n.kind == "part")
    entry = host.seen.tables[part.parent].entries[0]
    host.seen.tables[part.parent] = Table("gpt", "G", (entry._replace(start=start),))
    host.edit(part.devno, start=start)
    line = "pgdata: partition 'plumbline:pgdata:0' on nvme0n1 has start %d (phase %d); wanted phase 0 of 4 KiB" % (start, start % 4096)
    assert refusals(stacks, host) == [line + REBUILT]


def test_start_63_is_right_where_the_flash_says_so():
    host = Host()
    host.pair(2, limits=Limits(512, 4096, 4096, 0, 3584))
    stacks = spec(host)
    host.build(stacks, limit=1)
    assert make_plan(stacks, host.seen).refusals == []
    for disk in ("259:0", "259:16"):
        table = host.seen.tables[disk]
        host.seen.tables[disk] = table._replace(entries=(table.entries[0]._replace(start=MIB),))
    assert "has start 1048576 (phase 0); wanted phase 3584 of 4 KiB" in refusals(stacks, host)[0]


def test_partition_names_twice():
    host = _fresh()
    stacks = spec(host)
    host.build(stacks, limit=1)
    entry = host.seen.tables["259:16"].entries[0]
    host.seen.tables["259:16"] = Table("gpt", "G", (entry._replace(name="plumbline:pgdata:0"),))
    assert refusals(stacks, host) == ["pgdata: two legs carry the same partition name; one is perhaps a copy of the other"]


@pytest.mark.parametrize(
    "change, line",
    [
        ({"stripes": 1, "stripe_bytes": 0, "kinds": ("linear",)}, "a layout of linear; wanted 2 stripes"),
        ({"stripes": 3}, "a layout of 3 stripes; wanted 2 stripes"),
        ({"kinds": ("linear", "striped"), "segments": 2}, "a layout of linear, striped; wanted 2 stripes"),
        ({"kinds": ("raid1",)}, "a layout of raid1; wanted 2 stripes"),
        ({"stripe_bytes": 2048}, "stripes of 2 KiB; wanted 64 KiB"),
    ],
)
def test_lv_differs(change, line):
    host = built()
    host.seen.lvm = host.seen.lvm._replace(lvs=tuple(lv._replace(**change) if lv.name == "data" else lv for lv in host.seen.lvm.lvs))
    found = refusals(spec(host), host)
    assert found[0].startswith("pgdata: LV pgdata/data has " + line.split("%")[0]) and found[0].endswith(REBUILT)


def test_an_lv_that_is_larger_than_asked_for():
    host = built()
    host.seen.lvm = host.seen.lvm._replace(lvs=tuple(lv._replace(size=500 * GIB) if lv.name == "data" else lv for lv in host.seen.lvm.lvs))
    line = refusals(spec(host), host)[0]
    assert line.startswith("pgdata: LV pgdata/data has 500 GiB (536870912000 bytes); wanted 125.88 GiB (")
    assert line.endswith("; nothing is ever made smaller here: set its size to what it has, if that is meant")


def test_other_stripe_size():
    host = built(stripe_size="32KiB")
    assert refusals(spec(host, stripe_size="64KiB"), host)[0] == "pgdata: LV pgdata/data has stripes of 32 KiB; wanted 64 KiB" + REBUILT


def test_an_inactive_lv_that_is_just_the_planned_one_is_activated():
    """What comes on it is planned when it can be seen: a filesystem may be there."""
    host = built()
    host.deactivate("pgdata", "data")
    plan = make_plan(spec(host), host.seen)
    assert plan.refusals == [] and [(step["action"], step["lv"], step["unfinished"]) for step in plan.steps] == [("logical_volume", "data", True)]
    assert plan.steps[0]["summary"] == "activate LV pgdata/data, which was left inactive; what is on it is planned then"
    host.carry_out(plan.steps[0])
    assert make_plan(spec(host), host.seen).steps == []


@pytest.mark.parametrize("change", [{"segments": 2}, {"stripe_bytes": 128 * KIB}, {"size": 500 * GIB}, {"stripes": 3}, {"kinds": ("linear",)}])
def test_an_inactive_lv_that_is_anything_else_is_refused(change):
    host = built()
    host.deactivate("pgdata", "data")
    host.seen.lvm = host.seen.lvm._replace(lvs=tuple(lv._replace(**change) if lv.name == "data" else lv for lv in host.seen.lvm.lvs))
    (line,) = refusals(spec(host), host)
    assert line.startswith("pgdata: LV pgdata/data has ") or line == "pgdata: LV pgdata/data exists but is not active; run: lvchange -ay pgdata/data"


def test_an_inactive_lv_in_a_group_with_another_pv_is_refused():
    host = built()
    stacks = spec(host)
    host.deactivate("pgdata", "data")
    host.pv(host.part(host.disk(), MIB), "pgdata")
    assert any("VG 'pgdata' exists on other devices" in line for line in refusals(stacks, host))


def test_other_extent_size():
    host = built()
    assert refusals(spec(host, extent_size="4MiB"), host)[0] == "pgdata: VG 'pgdata' has extents of 64 MiB; wanted 4 MiB" + REBUILT


def test_existing_extent_size_counts():
    host = built(extent_size="4MiB")
    assert make_plan(spec(host, extent_size="4MiB"), host.seen).steps == []


def test_lvs_that_nobody_asked_for_are_left():
    host = built()
    host.seen.lvm = host.seen.lvm._replace(lvs=host.seen.lvm.lvs + (Lv("pgdata", "scratch", GIB, 1, 0, 1, ("linear",)),))
    plan = make_plan(spec(host), host.seen)
    assert plan.steps == [] and plan.warnings == ["pgdata: VG 'pgdata' holds LVs that are not in the spec and are left alone: scratch"]


def test_no_room_beside_what_the_spec_does_not_have():
    """A volume that was renamed in the spec, or somebody's snapshot: lvcreate would find no room."""
    host = built()
    volumes = [dict(VOLUMES[0]), dict(VOLUMES[1], name="wal2")]
    (line,) = refusals(spec(host, volumes=volumes), host)
    assert line.startswith("pgdata: what is to be made or grown (wal2) wants 35.88 GiB, and VG 'pgdata' has ")
    assert " free for it; it holds what is not in the spec: wal; if one of these is a volume of the spec under another name, lvrename it; else " in line
    volumes[1].update(size="9%", mount="/data03")
    assert make_plan(spec(host, volumes=volumes), host.seen).refusals == []


@pytest.mark.parametrize("kind", ["crypt", "lvm"])
def test_a_map_that_has_the_name_of_a_volume(host, kind):
    """cryptsetup took it, or a volume stayed whose disks were pulled."""
    other = host.disk(name="sdx", blank=False)
    host.mapped("pgdata-wal", [Segment(0, GIB, "linear", 0, ((other, 0),))], kind)
    (line,) = refusals(spec(host, ["259:0", "259:16"]), host)
    assert line.startswith("pgdata: device-mapper has a map pgdata-wal that is no volume of this stack [name]")


@pytest.mark.parametrize("limit", range(3))
def test_a_copy_of_our_partition_on_another_disk(limit):
    """As dd and sgdisk -R leave it: mkfs would be led to the copy, which may hold a database without any signature."""
    host = Host()
    devnos = host.pair(1)
    stacks = spec(host, devnos, layout="separate", volumes=[{"name": "data", "mount": "/data01"}])
    plan = host.build(stacks, limit=limit)
    copy_of = host.part(host.disk(name="sdx"), MIB, name="plumbline:pgdata:0")
    link = plan.steps[1]["device"]
    host.seen.led_to[link] = copy_of
    (line,) = refusals(stacks, host)
    assert line.startswith("pgdata: %s leads to sdx1, which is not on device nvme0n1 [identity]" % link)
    own = next((node.devno for node in host.seen.nodes.values() if node.parent == devnos[0]), "")
    host.seen.led_to[link] = own
    assert make_plan(stacks, host.seen).steps == [with_discard(step) if limit else step for step in plan.steps[limit:]]


@pytest.mark.parametrize("limit, mounted", [(0, False), (5, False), (6, False), (7, True)])
def test_a_copy_of_our_filesystem(host, limit, mounted):
    """A snapshot of a volume that is mounted is none of our business."""
    stacks = spec(host, ["259:0", "259:16"])
    plan = host.build(stacks, limit=limit)
    host.seen.led_to["/dev/disk/by-uuid/" + plan.steps[4]["uuid"]] = host.disk(name="sdx", blank=False)
    found = make_plan(stacks, host.seen).refusals
    assert len(found) == (not mounted) and all("pgdata: volume 'data': /dev/sdx has a filesystem with this volume's UUID " in line for line in found)


@pytest.mark.parametrize("through", ["partition", "striped_lvm", "filesystem"])
def test_what_lvm_would_not_take_is_told_before_the_tables_whatever_the_layer(through):
    """The role partition alone wrote a table on the disk by which the spec had grown, and on disks whose VG would be too small."""
    host = built()
    host.disk()
    assert "holds 2 of its 3 PVs" in refusals(spec(host), host, through)[0]
    host = Host()
    host.pair()
    assert "want more than there is" in refusals(spec(host, volumes=[{"name": "data", "size": "1TiB"}]), host, through)[0]


def test_volumes_that_lvm_does_not_know_any_more():
    """As vgcfgrestore of an older backup leaves them: to take them down would lose what they hold."""
    host = built()
    host.seen.lvm = host.seen.lvm._replace(lvs=())
    found = refusals(spec(host), host)
    assert [line.split(" is on ")[0] for line in found] == ["pgdata: /dev/mapper/pgdata-data", "pgdata: /dev/mapper/pgdata-wal"]
    assert all("LVM knows no such volume [damaged]; bring back what LVM knew of it" in line for line in found)


def test_a_kernel_that_shows_an_older_table(host):
    host.build(spec(host), limit=1)
    part = next(node for node in host.seen.nodes.values() if node.kind == "part")
    host.edit(part.devno, size=part.size + MIB)
    (line,) = refusals(spec(host), host)
    assert "shows partition nvme0n1p1 with %d bytes, and its table says %d [stale]" % (part.size + MIB, part.size) in line


def test_vg_of_that_name_elsewhere(host):
    third = host.disk(serial="T")
    host.pv(host.part(third, MIB), "pgdata")
    host.vg("pgdata")
    assert refusals(spec(host, ["259:0", "259:16"]), host) == ["pgdata: VG 'pgdata' exists on other devices: /dev/nvme2n1p1; rename the stack"]


def test_vg_holds_one_of_two():
    host = built(limit=2)
    pvs = host.seen.lvm.pvs
    host.seen.lvm = host.seen.lvm._replace(pvs=pvs[:1])
    (line,) = refusals(spec(host), host)
    assert line.startswith("pgdata: VG 'pgdata' holds 1 of its 2 PVs; a stripe does not get wider: set stripes to the devices that it goes over")


def test_pv_data_off_the_grain():
    host = built(limit=2)
    host.seen.lvm = host.seen.lvm._replace(pvs=tuple(pv._replace(data_start=65535 * 512) for pv in host.seen.lvm.pvs))
    assert refusals(spec(host), host)[0] == "pgdata: PV /dev/nvme0n1p1 has its data at phase 3584 (pe_start 33553920); wanted phase 0" + REBUILT


def part_of(host):
    return next(n.devno for n in host.seen.nodes.values() if n.kind == "part")


@pytest.mark.parametrize(
    "fill, line",
    [
        (lambda h, p: h.pv(p, "other"), "a PV of VG 'other'"),
        (lambda h, p: h.ext4(p, "old"), "an ext filesystem labelled 'old'"),
        (lambda h, p: h.seen.signatures.update({p: [Signature("xfs", "filesystem", 0)]}), "xfs filesystem at byte 0"),
        (
            lambda h, p: h.seen.faults.update({p: "the first sectors could not be read: Input/output error"}),
            "the first sectors could not be read: Input/output error",
        ),
        (lambda h, p: h.mapped("luks-x", [_segment(p)], kind="crypt"), "another layer (luks-x)"),
    ],
)
def test_our_partition_with_something_foreign_in_it(fill, line):
    host = built(limit=1)
    fill(host, part_of(host))
    assert refusals(spec(host), host)[0] == "pgdata: partition nvme0n1p1 carries %s [signature]; %s" % (line, LEFT)


def test_our_partition_is_mounted():
    host = built(limit=1)
    host.ext4(part_of(host), "old")
    host.mount(part_of(host), "/old")
    assert "pgdata: partition nvme0n1p1 is mounted on /old [mounted]; it is left alone; unmount it if it may be used" in refusals(spec(host), host)


@pytest.mark.parametrize(
    "change, found",
    [
        ({"stride": 0, "stripe_width": 0}, "blocks of 4096, stride 0, stripe_width 0"),
        ({"stride": 128, "stripe_width": 256}, "blocks of 4096, stride 128, stripe_width 256"),
        ({"stripe_width": 48}, "blocks of 4096, stride 16, stripe_width 48"),
        ({"block": 1024}, "blocks of 1024, stride 16, stripe_width 32"),
    ],
)
def test_wrong_stride(change, found):
    host = built()
    devno = host.seen.lv_node("pgdata", "wal").devno
    host.seen.filesystems[devno] = host.seen.filesystems[devno]._replace(**change)
    line = "pgdata: the filesystem of volume 'wal' has %s; wanted blocks of 4096, stride 16, stripe_width 32" % found
    assert refusals(spec(host), host) == [line + REBUILT]


def test_other_label_is_a_warning():
    host = built()
    devno = host.seen.lv_node("pgdata", "wal").devno
    host.seen.filesystems[devno] = host.seen.filesystems[devno]._replace(label="x")
    plan = make_plan(spec(host), host.seen)
    assert plan.steps == [] and plan.warnings == ["pgdata: the filesystem of volume 'wal' is labelled 'x', not 'pgdata-wal'; change it with tune2fs -L"]


@pytest.mark.parametrize(
    "fill, what",
    [
        (lambda h, d: h.seen.signatures.update({d: [Signature("btrfs", "filesystem", 65600)]}), "btrfs filesystem at byte 65600"),
        (
            lambda h, d: h.seen.faults.update({d: "the first sectors could not be read: Input/output error"}),
            "the first sectors could not be read: Input/output error",
        ),
        (lambda h, d: h.mapped("luks-x", [_segment(d)], kind="crypt"), "another layer (luks-x)"),
        (lambda h, d: h.pv(d, "inner"), "another layer ()"),
    ],
)
def test_our_volume_with_something_foreign_in_it(fill, what):
    host = built(limit=4)
    fill(host, host.seen.lv_node("pgdata", "data").devno)
    assert refusals(spec(host), host) == ["pgdata: volume 'data' (/dev/mapper/pgdata-data) carries %s [signature]; %s" % (what, LEFT)]


UNCLAIMED = {
    "open": (lambda h, d: h.seen.openers.update({d: ["mysqld (77)"]}), "is open in mysqld (77) [open]"),
    "backing": (lambda h, d: h.seen.backings.update({d: ["namespace 1 of NVMe target x"]}), "backs namespace 1 of NVMe target x [backing]"),
}


@pytest.mark.parametrize("use", UNCLAIMED)
@pytest.mark.parametrize("limit", [1, 4])
def test_a_use_without_a_mark_of_what_is_ours_and_looks_empty(use, limit):
    """A raw partition or volume that a database writes to, or that is exported: pvcreate and mkfs would overwrite it."""
    host = built(limit=limit)
    fill, words = UNCLAIMED[use]
    fill(host, part_of(host) if limit == 1 else host.seen.lv_node("pgdata", "data").devno)
    assert any(words in line for line in refusals(spec(host), host))

# --- what somebody changed since ------------------------------------------------------------------


def warned(host, **more):
    plan = make_plan(spec(host, **more), host.seen)
    assert not plan.refusals and not plan.steps, (plan.refusals, plan.steps)
    return plan.warnings


def test_something_is_mounted_over_a_volume():
    host = built()
    host.seen.covers = {"/data01": "tmpfs (none)", "/elsewhere": "tmpfs (none)"}
    (line,) = refusals(spec(host), host)
    assert line.startswith("pgdata: volume 'data' is mounted on /data01, and tmpfs (none) is mounted over it [covered]")


@pytest.mark.parametrize(
    "change, words",
    [
        ({"reserved": 1 << 18}, "it keeps 1 GiB for root alone; wanted none, by tune2fs -m 0"),
        ({"errors": "panic"}, "by its superblock the answer to an error is 'panic'; wanted 'continue'"),
    ],
)
def test_settings_of_the_filesystem(change, words):
    host = built()
    devno = host.seen.lv_node("pgdata", "data").devno
    host.seen.filesystems[devno] = host.seen.filesystems[devno]._replace(**change)
    (line,) = warned(host)
    assert words in line


def test_another_stripe_in_force():
    host = built()
    devno = host.seen.lv_node("pgdata", "data").devno
    host.seen.in_force[devno] = ("rw", "stripe=16")
    (line,) = warned(host)
    assert "it is mounted with stripe=16, and its superblock says 32; wanted one stripe for both, by mount -o remount,stripe=32" in line


def test_another_type_of_partition():
    host = built()
    table = host.seen.tables["259:0"]
    host.seen.tables["259:0"] = table._replace(entries=(table.entries[0]._replace(type="0FC63DAF-8483-4772-8E79-3D69D8477DE4"),))
    (line,) = warned(host)
    assert "has the type 0FC63DAF-8483-4772-8E79-3D69D8477DE4; wanted E6D6D379" in line and "sfdisk --part-type /dev/nvme0n1 1 E6D6D379" in line


def test_a_line_of_fstab_for_where_a_volume_was_before():
    """The spec has another mount point, and somebody unmounted the volume as the refusal said."""
    host = built()
    volumes = [dict(VOLUMES[0], mount="/moved"), dict(VOLUMES[1])]
    host.seen.mounts = [mount for mount in host.seen.mounts if mount.target != "/data01"]
    plan = make_plan(spec(host, volumes=volumes), host.seen)
    (line,) = plan.warnings
    assert plan.refusals == [] and line.startswith("pgdata: fstab mounts volume 'data' on /data01 as well, and the spec has /moved")
    host.build(spec(host, volumes=volumes))
    assert len(make_plan(spec(host, volumes=volumes), host.seen).warnings) == 1


def test_a_mount_that_the_spec_has_no_more():
    host = built()
    volumes = [{"name": "data", "size": "70%"}, {"name": "wal", "size": "20%", "mount": "/data02"}]
    (line,) = warned(host, volumes=volumes)
    assert "volume 'data' has no mount in the spec, and it is mounted on /data01, fstab mounts it on /data01; that is left alone" in line


def test_a_volume_of_ours_in_pieces_of_different_stripes():
    """Made longer by hand, with another stripe: nothing is made on it, mounted or not."""
    host = built()
    lvs = host.seen.lvm.lvs
    host.seen.lvm = host.seen.lvm._replace(lvs=(lvs[0]._replace(segments=2, layouts=((2, 64 * KIB), (2, 4 * KIB))), *lvs[1:]))
    (line,) = refusals(spec(host), host)
    assert line == "pgdata: LV pgdata/data has segments of 2 stripes of 64 KiB, then 2 stripes of 4 KiB; wanted 2 stripes of 64 KiB in all of it" + REBUILT
