# SPDX-License-Identifier: GPL-3.0-or-later
"""The mounts of a plan: mount points, fstab, the drift of options, and what would fail when the tables are written already."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import FstabEntry, PathState
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lvm
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import mounts
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_reading import questions
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import KIB, SHOWN, VOLUMES, Host, as_kernel_shows, spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.plan.test_make_plan import FULL, actions, refusals
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.plan.test_plan_standing import built

# --- mounts ----------------------------------------------------------------------------------------


def test_mount_point_of_somebody_else(host):
    other = host.disk(serial="T")
    stacks = spec(host, ["259:0", "259:16"])
    host.mount(other, "/data01")
    assert refusals(stacks, host) == ["pgdata: /data01 is the mount point of /dev/nvme2n1 [mounted]; name another for volume 'data'"]


def test_volume_is_mounted_elsewhere():
    host = built()
    host.seen.mounts = [mount._replace(target="/old") if mount.target == "/data02" else mount for mount in host.seen.mounts]
    assert refusals(spec(host), host)[0] == "pgdata: volume 'wal' is mounted on /old; wanted /data02; unmount it first"


@pytest.mark.parametrize("source", ["/dev/sdz1", "UUID=0000", "LABEL=x", "/dev/mapper/pgdata-data"])
def test_fstab_clash(host, source):
    stacks = spec(host)
    host.seen.fstab.append(FstabEntry(source, "/data01", "ext4", ("defaults",), 0, 0))
    (line,) = refusals(stacks, host)
    assert line.startswith("pgdata: fstab has %s for /data01 already; wanted UUID=" % source) and line.endswith("; take that line out first")


@pytest.mark.parametrize(
    "state, line",
    [
        (PathState(True, True, other=True), "pgdata: mount point /data01 is the root of another filesystem [mounted]; unmount it, or name another"),
        (PathState(True, True, 3), "pgdata: mount point /data01 holds 3 entries, which the mount would hide; empty it or name another"),
        (PathState(True, False, symlink="/mnt"), "pgdata: mount point /data01 is a symbolic link to /mnt; wanted an empty directory or nothing"),
        (PathState(True, False), "pgdata: mount point /data01 is no directory; wanted an empty directory or nothing"),
        (
            PathState(True, True, owner=1000, mode="0755", way=(Part("/", "directory", 0, 0o1777),)),
            (
                "pgdata: mount point /data01 is not safe: /data01 belongs to user 1000, who can put something else in its place, since / is not root's alone; "
                "wanted root as its owner: chown root /data01 [mount_point]"
            ),
        ),
        (
            PathState(True, True, fault="Input/output error"),
            "pgdata: mount point /data01 could not be read: Input/output error [unreadable]; look at the kernel's log and at what lies there, and run again",
        ),
    ],
)
def test_mount_point_refused(host, state, line):
    stacks = spec(host)
    host.seen.directories["/data01"] = state
    assert refusals(stacks, host) == [line]


@pytest.mark.parametrize("state", [PathState(), PathState(True, True, 0), PathState(True, True, 0, immutable=True)])
def test_mount_point_taken(host, state):
    stacks = spec(host)
    host.seen.directories["/data01"] = state
    assert actions(make_plan(stacks, host.seen)) == FULL


@pytest.mark.parametrize("key", ["owner", "group"])
def test_unknown_owner(host, key):
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", key: "postgres"}])
    assert refusals(stacks, host) == ["pgdata: %s 'postgres' of volume 'data' is not known to this host; create it first" % key]


def test_owner_group_and_mode(host):
    host.seen.users, host.seen.groups = {"postgres": 105}, {"postgres": 110}
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "owner": "postgres", "group": "postgres", "mode": "0700"}])
    plan = host.build(stacks)
    (mount,) = plan.steps[-1]["mounts"]
    assert (mount["owner"], mount["group"], mount["mode"]) == (105, 110, "0700")
    assert make_plan(stacks, host.seen).steps == []
    host.seen.directories["/data01"] = host.seen.directories["/data01"]._replace(owner=0, mode="0755")
    (step,) = make_plan(stacks, host.seen).steps
    assert step["mounts"][0]["changes"] == ["owner 0 → 105", "mode 0755 → 0700"]


def test_selinux_context_only_where_there_is_selinux(host):
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "selinux_context": "a:b:c:s0"}])
    assert make_plan(stacks, host.seen).steps[-1]["mounts"][0]["selinux_context"] == ""
    host.seen.selinux = True
    assert make_plan(stacks, host.seen).steps[-1]["mounts"][0]["selinux_context"] == "a:b:c:s0"


def test_a_volume_without_mount(host):
    stacks = spec(host, volumes=[{"name": "data"}])
    assert actions(make_plan(stacks, host.seen)) == ["partition", "volume_group", "logical_volume", "filesystem"]


@pytest.mark.parametrize(
    "change, changes",
    [
        ({"options": ("noatime",)}, ["fstab options noatime → noatime,nofail,x-systemd.device-timeout=5min"]),
        ({"passno": 0}, ["fstab options noatime,nofail,x-systemd.device-timeout=5min → noatime,nofail,x-systemd.device-timeout=5min"]),
        ({"options": ("nofail", "x-systemd.device-timeout=5min", "noatime")}, None),
        ({"freq": 1}, None),
    ],
)
def test_fstab_drift(change, changes):
    host = built()
    host.seen.fstab = [entry._replace(**change) if entry.target == "/data01" else entry for entry in host.seen.fstab]
    plan = make_plan(spec(host), host.seen)
    assert [mount["changes"] for step in plan.steps for mount in step["mounts"]] == ([changes] if changes else [])


def test_fstab_line_gone_or_unmounted():
    host = built()
    host.seen.fstab = [entry for entry in host.seen.fstab if entry.target != "/data01"]
    host.seen.mounts = [mount for mount in host.seen.mounts if mount.target != "/data02"]
    host.seen.directories["/data02"] = PathState(True, True, 0, True)
    (step,) = make_plan(spec(host), host.seen).steps
    assert [(mount["path"], mount["changes"]) for mount in step["mounts"]] == [("/data01", ["fstab line"]), ("/data02", ["mounted"])]
    assert step["summary"] == "mount /data01: fstab line; /data02: mounted"


def test_mounts_of_all_stacks_are_one_step_and_the_last(host):
    host.disk()
    host.disk()
    one = {"name": "one", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x", "mount": "/x/y", "required_by": ["a.service"]}]}
    outer = {"name": "y", "mount": "/x", "required_by": ["b.service"], "discard": "none"}
    two = {"name": "two", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [outer]}
    host.seen.timer_enabled = False
    steps = make_plan(read_stacks([one, two]), host.seen).steps
    assert [step["action"] for step in steps].count("mount") == 1
    last = steps[-1]
    assert [(mount["stack"], mount["path"]) for mount in last["mounts"]] == [("one", "/x/y"), ("two", "/x")]
    assert (len(last["drop_ins"]), last["enable_fstrim_timer"]) == (2, True)
    assert last["summary"].count("mount /") == 1 and "; /x: fstab line, mounted" in last["summary"]


def test_a_mount_in_another_namespace_is_not_ours():
    host = built()
    host.seen.mounts = [mount._replace(here=False) for mount in host.seen.mounts]
    for path in ("/data01", "/data02"):
        host.seen.directories[path] = PathState(True, True, 0)
    (step,) = make_plan(spec(host), host.seen).steps
    assert [mount["changes"] for mount in step["mounts"]] == [["mounted"], ["mounted"]]


def test_the_order_of_volumes_changes_no_drop_in(host):
    volumes = [dict(volume, required_by=["db.service", "db.service"]) for volume in VOLUMES]
    host.build(spec(host, volumes=volumes))
    plan = make_plan(spec(host, volumes=volumes[::-1]), host.seen)
    assert (plan.steps, plan.refusals) == ([], [])


def test_drop_ins(host):
    volumes = [dict(VOLUMES[0], required_by=["postgresql.service", "x.socket"]), dict(VOLUMES[1], required_by=["postgresql.service"])]
    stacks = spec(host, volumes=volumes)
    name = "/etc/systemd/system/postgresql.service.d/50-plumbline-pgdata.conf"
    assert mounts.drop_in_files(stacks) == [name, "/etc/systemd/system/x.socket.d/50-plumbline-pgdata.conf"]
    plan = host.build(stacks)
    text = "# Written by plumbline.ssd: this unit does not start without its volumes.\n[Unit]\nRequiresMountsFor=/data01 /data02\n"
    assert plan.steps[-1]["drop_ins"][name] == text
    assert make_plan(stacks, host.seen).steps == []
    host.seen.drop_ins[name] = text.strip()  # as it is read
    assert make_plan(stacks, host.seen).steps == []
    host.seen.drop_ins[name] = "changed"
    (step,) = make_plan(stacks, host.seen).steps
    assert (list(step["drop_ins"]), step["mounts"]) == ([name], [])


@pytest.mark.parametrize("discard, enabled, wanted", [("timer", False, True), ("timer", True, False), ("none", False, False)])
def test_fstrim_timer(host, discard, enabled, wanted):
    host.seen.timer_enabled = enabled
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "discard": discard}])
    assert make_plan(stacks, host.seen).steps[-1]["enable_fstrim_timer"] is wanted


def not_shown(host):
    """The tables are written, and the kernel does not show the partitions."""
    host.build(spec(host), "partition")
    for devno in [devno for devno, node in host.seen.nodes.items() if node.kind == "part"]:
        del host.seen.nodes[devno], host.seen.proofs[devno]


@pytest.mark.parametrize(
    "more, prepare, wanted",
    [
        ({}, lambda host: None, True),
        ({}, not_shown, False),
        ({"discard": False}, lambda host: None, False),
        ({}, lambda host: host.edit("259:0", discard_max=0), False),  # one leg that takes none
        ({}, lambda host: host.build(spec(host), "partition"), False),  # who knows what was written to them since
        ({}, lambda host: host.carry_out({"action": "partition", "devices": make_plan(spec(host), host.seen).steps[0]["devices"][:1]}), False),
    ],
)
def test_mkfs_discards_what_this_plan_did_not(host, more, prepare, wanted):
    prepare(host)
    plan = make_plan(spec(host, **more), host.seen)
    assert [step["options"].count("nodiscard") for step in plan.steps if step["action"] == "filesystem"] == [int(wanted)] * 2
    devices = [device for step in plan.steps if step["action"] == "partition" for device in step["devices"]]
    assert all(device["discard"] is not (more.get("discard") is False) for device in devices)


def test_mkfs_options(host):
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "bytes_per_inode": "64KiB", "lazy_init": True, "label": "pg"}])
    options = make_plan(stacks, host.seen).steps[3]["options"]
    assert options.startswith("-b 4096 -m 0 -L pg -U ") and options.endswith(
        "-E stride=16,stripe_width=32,lazy_itable_init=1,lazy_journal_init=1,nodiscard -i 65536"
    )


# --- option drift: against what Linux showed ---------------------------------------------------------


@pytest.mark.parametrize("asked", sorted(SHOWN))
def test_no_drift_right_after_a_mount(asked):
    """Whatever Linux shows for an option that was just mounted is what was asked."""
    assert EXT4.options.drift(asked.split(","), SHOWN[asked]) == ([], [])


@pytest.mark.parametrize("asked", sorted(SHOWN))
def test_drift_is_seen_where_linux_shows_one(asked):
    """An option that Linux shows is missing from a plain mount; one that it does not show never is."""
    plain = SHOWN["defaults"]
    missing, extra = EXT4.options.drift(asked.split(","), plain)
    visible = set(SHOWN[asked]) - set(plain) - {"quota"}
    if asked in ("data=ordered", "noatime,nodiratime"):
        assert set(missing) <= visible
    elif asked == "data=journal":
        assert missing == ["data=journal"]
    else:
        assert set(missing) == visible
    assert extra == (["relatime"] if asked == "strictatime" else [])


DRIFTING = (
    "noatime", "nodiratime", "lazytime", "nodelalloc", "nobarrier", "noauto_da_alloc", "sync",
    "data=writeback", "data=journal", "discard", "nosuid", "nodev", "noexec",
)  # fmt: skip


@pytest.mark.parametrize("live", DRIFTING)
def test_unasked_options_are_extra(live):
    wanted = [live] if live != "data=journal" else ["nodelalloc", "data=journal"]
    assert set(EXT4.options.drift([], SHOWN[live])[1]) == set(wanted)


def test_pairs_of_options():
    """Every pair of options that Linux shows apart: right after the mount there is no drift, and dropping one of them is one."""
    words = [word for word in DRIFTING if not word.startswith("data=")]
    rows = 0
    for first in words:
        for second in words:
            if first != second:
                live = as_kernel_shows((first, second))
                assert EXT4.options.drift((first, second), live) == ([], [])
                assert EXT4.options.drift((first,), live) == ([], [second])
                rows += 1
    assert rows == len(words) * (len(words) - 1)


def test_option_drift_is_a_step():
    host = built()
    host.seen.mounts = [mount._replace(options=("rw", "relatime", "nobarrier")) if mount.target == "/data01" else mount for mount in host.seen.mounts]
    (step,) = make_plan(spec(host), host.seen).steps
    assert [(mount["path"], mount["changes"]) for mount in step["mounts"]] == [("/data01", ["remounted: +noatime, -nobarrier"])]


@pytest.mark.parametrize(
    "live, changes",
    [
        (("ro", "noatime"), "remounted: -ro"),  # remount,ro
        (("rw", "noatime", "ro"), "remounted: -ro"),  # errors=remount-ro, which leaves the mount's own flag
        (("rw", "noatime", "errors=remount-ro", "data_err=abort"), "remounted: -errors=remount-ro, -data_err=abort"),
    ],
)
def test_a_volume_that_became_read_only_is_a_step(live, changes):
    host = built()
    host.seen.mounts = [mount._replace(options=live) if mount.target == "/data01" else mount for mount in host.seen.mounts]
    (step,) = make_plan(spec(host), host.seen).steps
    assert [(mount["path"], mount["changes"]) for mount in step["mounts"]] == [("/data01", [changes])]


@pytest.mark.parametrize(
    "change, refusal",
    [
        ({"journal": False}, "it has no journal: a crash can damage it; wanted a journal, which tune2fs -O has_journal makes"),
        ({"faulty": True}, "the kernel has found errors in it; wanted a check, by e2fsck -f"),
        ({"blocks": 1 << 40}, "larger than what it stands on: its end is cut off"),
    ],
)
def test_a_filesystem_that_is_not_well_is_refused(change, refusal):
    host = built()
    host.seen.filesystems = {devno: found._replace(**change) for devno, found in host.seen.filesystems.items()}
    plan = make_plan(spec(host), host.seen)
    assert not plan.steps and any(refusal in one and "the filesystem of volume" in one for one in plan.refusals), plan.refusals


def test_a_volume_that_is_read_only_is_refused():
    host = built()
    devno = next(iter(host.seen.filesystems))
    host.edit(devno, read_only=True)
    plan = make_plan(spec(host), host.seen)
    assert not plan.steps and any("is read-only; wanted one that can be written to; lvchange --permission rw" in one for one in plan.refusals)


@pytest.mark.parametrize("options", [["strictatime"], ["noatime", "nodiscard"], ["relatime", "data=ordered"], [], ["noatime", "lazytime", "commit=30"]])
def test_options_converge(host, options):
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "mount_options": options}])
    host.build(stacks)
    assert make_plan(stacks, host.seen).steps == []


# --- what would fail late, or is asked in vain ----------------------------------------------------


def test_a_name_that_something_has_below_dev_is_refused_before_the_tables(host):
    host.seen.taken_names = {"pgdata": "a directory that holds 2 entries"}
    assert refusals(spec(host), host, "partition") == [
        "pgdata: /dev/pgdata is a directory that holds 2 entries, so that LVM makes no volume group of that name [name]; rename the stack, or remove that"
    ]


def test_the_name_of_our_own_group_is_ours(host):
    host.build(spec(host))
    host.seen.taken_names = {"pgdata": "there already"}
    assert make_plan(spec(host), host.seen).refusals == []


@pytest.mark.parametrize(
    "geometry, words",
    [
        ({"model": "Flsh 9*"}, "model 'Flsh 9*', which no disk of this host has (did you mean 'Flash 9000'?)"),
        ({"device": "nvme-Flash-9000_SER0000"}, "device 'nvme-Flash-9000_SER0000', which no disk of this host has (did you mean 'nvme-Flash_9000_SER0000'?)"),
        ({"device": "/dev/disk/by-id/nothing"}, "device '/dev/disk/by-id/nothing', which no disk of this host has; correct it, or take it out"),
    ],
)
def test_a_geometry_for_nobody_is_refused(host, geometry, words):
    (line,) = refusals(spec(host, geometry=[{"model": "Flash*", "grain": "8KiB"}, dict(geometry, grain="16KiB")]), host)
    assert line.startswith("pgdata: geometry[1] is for " + words)


def test_a_geometry_for_other_hosts_is_told_where_no_grain_is_assumed(host):
    for devno in ("259:0", "259:16"):
        host.limits(devno, physical=4096, min_io=16 * KIB)
    plan = make_plan(spec(host, geometry=[{"model": "Other*", "grain": "16KiB"}]), host.seen)
    assert plan.refusals == [] and any("geometry[0] is for model 'Other*', which no disk of this host has" in line for line in plan.warnings)


def test_geometries_that_contradict_each_other(host):
    """Neither the order of the stacks nor that of the list decides."""
    host.pair()
    wide, narrow = {"model": "Flash*", "grain": "32KiB"}, {"model": "*9000", "grain": "16KiB"}
    one = {"name": "one", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x"}], "geometry": [wide]}
    two = {"name": "two", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y"}], "geometry": [narrow]}
    found = both_orders(host, [one, two]).refusals
    words = "two: the geometry of device nvme2n1 contradicts itself: grain 16 KiB of two.geometry[0] and 32 KiB of one.geometry[0]; "
    assert len(found) == 4 and found[2].startswith(words)
    own = [{"device": "nvme%dn1" % number, "grain": "64KiB"} for number in range(4)]
    assert both_orders(host, [one, dict(two, geometry=[narrow, *own])]).refusals == []
    assert both_orders(host, [one, dict(two, geometry=[wide, {"model": "*", "alignment_offset": "0B"}])]).refusals == []


@pytest.mark.parametrize("wwid", ["naa.0000000000000000", "eui.ffffffffffffffff"])
def test_drives_with_a_placeholder_for_a_wwid_are_known_by_their_serials(wwid):
    """Backups, erases and kept write caches are filed by that, and what is made has identifiers of it."""
    host = Host()
    devnos = host.pair(4, wwid=wwid)
    assert [host.seen.nodes[devno].identity.key for devno in devnos] == ["serial:Flash 9000/SER000%d" % number for number in range(4)]
    off = {"name": "one", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "write_cache": "off", "volumes": [{"name": "x"}]}
    keep = {"name": "two", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y"}]}
    stacks = read_stacks([off, keep])
    host.build(stacks)
    plan = make_plan(stacks, host.seen)
    assert (plan.steps, plan.refusals) == ([], [])


def test_links_of_volumes_that_are_gone_are_in_the_way(host):
    """Unless they are of our own volumes, which is told otherwise."""
    host.build(spec(host), limit=3)
    host.seen.taken_names = {"pgdata": "a directory that holds 1 entries"}
    host.seen.lvm = Lvm()
    assert not any("[name]" in line for line in refusals(spec(host), host))


def test_more_extents_than_lvm_counts():
    host = Host()
    host.pair(size=6 << 50)
    (line,) = refusals(spec(host, extent_size="1MiB"), host)
    assert line.startswith("pgdata: extent_size: 1 MiB makes 57") and "LVM counts them in 32 bits" in line


def test_one_ssd_by_two_controllers_is_no_pair():
    host = Host()
    host.pair(serial="SAME")
    found = refusals(spec(host, [], devices=["/dev/nvme0n1", "/dev/nvme1n1"], accept=["shared_controller"]), host)
    assert [line for line in found if "[twin]" in line], found


def test_two_targets_with_one_serial_are_two():
    """Over a network: other subsystems, whatever they say of their serial."""
    host = Host()
    for number, devno in enumerate(host.pair(serial="SAME")):
        host.edit(devno, identity=host.seen.nodes[devno].identity._replace(subsystem="nqn.2026-01.org.example:%d" % number))
    assert make_plan(spec(host, [], devices=["/dev/nvme0n1", "/dev/nvme1n1"]), host.seen).refusals == []


def test_two_namespaces_by_two_controllers_share_an_ssd():
    host = Host()
    host.pair(serial="SAME")
    host.edit("259:16", identity=host.seen.nodes["259:16"].identity._replace(nsid=2))
    (line,) = refusals(spec(host, [], devices=["/dev/nvme0n1", "/dev/nvme1n1"]), host)
    assert line.startswith("pgdata: nvme0n1 and nvme1n1 are namespaces of one SSD (nvme0, nvme1)")


def test_a_name_that_several_devices_ask_for(host):
    stacks = spec(host)
    host.seen.twice_named = {host.name("259:0"): ("259:0", "259:16")}
    (line,) = refusals(stacks, host)
    assert "is the name of several devices, nvme0n1 (SER0000), nvme1n1 (SER0001): udev gives it to one of them" in line


def test_a_bind_mount_of_a_part_is_no_other_place():
    host = built()
    data = next(mount for mount in host.seen.mounts if mount.target == "/data01")
    host.seen.mounts.append(data._replace(target="/elsewhere", root="/sub"))
    host.seen.mounts.append(data._replace(target="/again"))
    plan = make_plan(spec(host), host.seen)
    assert (plan.steps, plan.refusals) == ([], [])
    host.seen.mounts.remove(data)
    assert "pgdata: volume 'data''s directory /sub is mounted on /elsewhere; wanted /data01; unmount it first" in refusals(spec(host), host)
    host.seen.mounts = [data._replace(root="/sub")]
    assert refusals(spec(host), host)[0] == "pgdata: volume 'data''s directory /sub is mounted on /data01; wanted /data01; unmount it first"


def both_orders(host, stacks):
    """The same answer in any order of the stacks."""
    plans = [make_plan(read_stacks(some), host.seen) for some in (stacks, stacks[::-1])]
    assert sorted(plans[0].refusals) == sorted(plans[1].refusals)
    assert sorted(step["summary"] for step in plans[0].steps if step["action"] != "mount") == sorted(
        step["summary"] for step in plans[1].steps if step["action"] != "mount"
    )
    return plans[0]


def test_a_selector_takes_none_that_another_stack_names():
    host = Host()
    host.pair(4)
    named = {"name": "named", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x"}]}
    chosen = {"name": "chosen", "devices": {"model": "Flash*", "count": 2}, "volumes": [{"name": "y"}]}
    plan = both_orders(host, [chosen, named])
    assert plan.refusals == [] and plan.steps


def test_of_two_selectors_that_overlap_the_one_that_fits_comes_first():
    host = Host()
    host.pair(2)
    host.pair(2, model="Other")
    one = {"name": "one", "devices": {"model": "Flash*", "count": 2}, "volumes": [{"name": "x"}]}
    rest = {"name": "rest", "devices": {"model": "*", "count": 2}, "volumes": [{"name": "y"}]}
    plan = both_orders(host, [rest, one])
    legs = {stack.spec.name: [leg.devno for leg in stack.legs] for stack in plan.stacks}
    assert (plan.refusals, legs) == ([], {"one": ["259:0", "259:16"], "rest": ["259:32", "259:48"]})


def test_two_selectors_for_the_same_devices_are_refused_in_any_order():
    host = Host()
    host.pair(2)
    one = {"name": "one", "devices": {"model": "Flash*", "count": 2}, "volumes": [{"name": "x"}]}
    for stacks in ([one, dict(one, name="two")], [dict(one, name="two"), one]):
        stacks[1] = dict(stacks[1], volumes=[{"name": "y"}])
        plan = make_plan(read_stacks(stacks), host.seen)
        assert not plan.steps and len([line for line in plan.refusals if "is already a leg of" in line]) == 2


def test_a_mount_inside_another_stacks_volume():
    """Its directory may belong to anybody: the outer mount will cover it."""
    host = Host()
    host.pair(4)
    outer = {"name": "outer", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x", "mount": "/outer"}]}
    inner = {"name": "inner", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y", "mount": "/outer/inner"}]}
    way = (Part("/", "directory"), Part("/outer", "directory", 999))
    host.seen.directories = {"/outer/inner": PathState(way=way)}
    plan = both_orders(host, [inner, outer])
    assert plan.refusals == []


def nested(where, **outer):
    """A volume inside another one, whose root directory belongs to somebody."""
    volumes = [dict({"name": "x", "size": "50%", "mount": "/outer"}, **outer), {"name": "y", "size": "50%", "mount": where}]
    host = Host()
    host.pair()
    host.seen.users = {"postgres": 999}
    host.seen.directories = {where: PathState(way=(Part("/", "directory"),))}
    return host, spec(host, volumes=volumes)


@pytest.mark.parametrize("outer", [{"owner": "postgres"}, {"mode": "0770"}])
def test_a_mount_deep_inside_a_volume_of_somebody_else_is_told_before_the_tables(outer):
    """mount_points would refuse its way when the outer volume is mounted and given away."""
    host, stacks = nested("/outer/a/b", **outer)
    (line,) = refusals(stacks, host)
    assert line.startswith("pgdata: mount point /outer/a/b is not safe: /outer ")
    assert line.endswith("; or name it right in that volume's root, such as /outer/b [mount_point]")
    host, stacks = nested("/outer/b", **outer)
    assert make_plan(stacks, host.seen).refusals == []


def test_a_mount_deep_inside_a_volume_that_stands():
    """Directories that are still to be made come between its root and the mount point."""
    for where, found in (("/data01/a/b", 1), ("/data01/b", 0)):
        host = built()
        host.disk(), host.disk()
        inner = {"name": "inner", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y", "mount": where}]}
        host.seen.directories[where] = PathState(way=(Part("/", "directory"), Part("/data01", "directory", 999)))
        assert len(make_plan(spec(host, ["259:0", "259:16"]) + read_stacks([inner]), host.seen).refusals) == found


def test_what_a_mount_will_cover_is_not_on_the_way():
    host, stacks = nested("/outer/a/b")
    host.seen.directories["/outer/a/b"] = PathState(way=(Part("/", "directory"), Part("/outer", "directory", 999)))
    assert make_plan(stacks, host.seen).refusals == []


@pytest.mark.parametrize(
    "change, words",
    [
        ({"fstab_fault": "/etc is mounted read-only"}, "/etc/fstab could not be written: /etc is mounted read-only; mend that first"),
        ({"kernel_lacks": ("device-mapper",)}, "the running kernel has not loaded device-mapper, and its modules are gone"),
        ({"kernel_lacks": ("ext4",)}, "the running kernel has not loaded ext4, and its modules are gone"),
        ({"directories": {"/data01": PathState(read_only="/")}}, "mount point /data01 could not be made: / is on a filesystem that is mounted read-only"),
    ],
)
def test_what_the_last_step_would_fail_by_is_told_before_the_first(host, change, words):
    for name, value in change.items():
        setattr(host.seen, name, value)
    (line,) = refusals(spec(host), host)
    assert line.startswith("pgdata: " + words)


@pytest.mark.parametrize(
    "option, selinux, strange, words",
    [
        ("context=a:b:c:s0", False, (), "mount option 'context=a:b:c:s0' wants SELinux, which this host does not run; take it out, or set selinux_context"),
        ("context=a:b:c:s0", True, ("a:b:c:s0",), "the SELinux policy of this host knows no context a:b:c:s0; correct context, or install the policy"),
        ("selinux_context", True, ("a:b:c:s0",), "the SELinux policy of this host knows no context a:b:c:s0; correct selinux_context, or install the policy"),
        ("context=a:b:c:s0", True, (), ""),
        ("selinux_context", False, (), ""),
    ],
)
def test_contexts_that_a_host_does_not_have(host, option, selinux, strange, words):
    keys = {"selinux_context": "a:b:c:s0"} if option == "selinux_context" else {"mount_options": [option]}
    stacks = spec(host, volumes=[dict(keys, name="data", mount="/data01")])
    host.seen.selinux, host.seen.strange_contexts = selinux, strange
    found = make_plan(stacks, host.seen).refusals
    assert len(found) == bool(words) and all(line.startswith(("pgdata: volume 'data': " + words, "pgdata: " + words)) for line in found)
    assert "a:b:c:s0" in questions(stacks).contexts


@pytest.mark.parametrize("discard, enabled, found", [("timer", False, 1), ("timer", True, 0), ("none", False, 0)])
def test_a_timer_that_cannot_be_enabled_is_told_before_the_tables(host, discard, enabled, found):
    host.seen.timer_enabled, host.seen.timer_fault = enabled, "it is masked (systemctl unmask fstrim.timer)"
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "discard": discard}])
    line = "pgdata: fstrim.timer could not be enabled: it is masked (systemctl unmask fstrim.timer); mend that, or set discard: none on the volumes"
    assert make_plan(stacks, host.seen).refusals == [line] * found


def test_what_nothing_needs_is_no_obstacle():
    host = built()
    host.seen.fstab_fault, host.seen.kernel_lacks = "/etc/fstab is immutable", ("device-mapper", "ext4")
    assert (make_plan(spec(host), host.seen).steps, make_plan(spec(host), host.seen).refusals) == ([], [])
