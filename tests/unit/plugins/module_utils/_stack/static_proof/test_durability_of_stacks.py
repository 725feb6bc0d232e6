# SPDX-License-Identifier: GPL-3.0-or-later
"""The durability table at work: what a plan refuses, what it records, and what is found on a host that nobody planned."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Accepted, FstabEntry, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import view
from ansible_collections.plumbline.ssd.plugins.plugin_utils import stack_table
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import NOW, Host, as_kernel_shows, spec

ON, OFF, NONE, UNKNOWN = WriteCache(True, True), WriteCache(True, False), WriteCache(False), WriteCache(fault="it does not say")
POWER_CUT, STALE = "data_loss_on_power_cut", "stale_data_after_crash"
LOSS = ": without barriers a power cut loses what was acknowledged"
AGAIN = ", as soon as it is on again"
UNPROTECTED = " (power-loss protection not known)" + LOSS
BOTH = "devices nvme0n1 (SER0000), nvme1n1 (SER0001)"


def pair(*caches, belief="write back", **more):
    """Two blank disks with these caches; None: not looked at."""
    host = Host()
    for cache in caches or (ON, ON):
        devno = host.disk(write_cache=belief, **more)
        host.seen.caches.pop(devno, None)
        if cache is not None:
            host.seen.caches[devno] = cache
    return host


def one_volume(host, options=None, **more):
    volume = {"name": "data", "mount": "/data01"}
    if options is not None:
        volume["mount_options"] = list(options)
    return spec(host, volumes=[volume], **more)


def refused(stacks, host, through="filesystem"):
    plan = make_plan(stacks, host.seen, through)
    assert not plan.steps
    return plan.refusals


# --- plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["write_cache", "partition", "striped_lvm", "filesystem"])
@pytest.mark.parametrize("option", ["barrier=0", "nobarrier"])
def test_no_barriers_over_a_volatile_cache(option, through):
    host = pair()
    assert refused(one_volume(host, ["noatime", option]), host, through) == [
        "pgdata: volume 'data': mount option '%s' on %s: its write cache is on%s; it wants accept: [data_loss_on_power_cut] on the stack, "
        "or power_loss_protection: [SER0000, SER0001], where they have it" % (option, BOTH, UNPROTECTED)
    ]


@pytest.mark.parametrize("layout", ["striped", "separate"])
def test_no_cache_is_set_below_mount_options_that_are_refused(layout):
    """The role write_cache may come first in a play: what the whole plan refuses, it must refuse too."""
    host = pair(OFF, OFF)
    volumes = [{"name": name, "mount": "/" + name, "mount_options": ["noatime", "barrier=0"]} for name in ("one", "two")]
    if layout == "striped":
        volumes = [dict(volume, size="40%") for volume in volumes]
    assert len(refused(spec(host, layout=layout, volumes=volumes, write_cache="on"), host, "write_cache")) == 2
    plan = make_plan(spec(host, layout=layout, volumes=volumes, write_cache="on", accept=[POWER_CUT]), host.seen, "write_cache")
    assert [step["action"] for step in plan.steps] == ["write_cache"] and not plan.refusals


@pytest.mark.parametrize(
    "caches, groups",
    [
        ((ON, NONE), [("device nvme0n1 (SER0000)", "its write cache is on" + UNPROTECTED)]),
        (
            (ON, OFF),
            [
                ("device nvme0n1 (SER0000)", "its write cache is on" + UNPROTECTED),
                ("device nvme1n1 (SER0001)", "its write cache is off, and a reset can bring it back" + UNPROTECTED + AGAIN),
            ],
        ),
        ((UNKNOWN, UNKNOWN), [(BOTH, "its write cache could not be read" + UNPROTECTED)]),
        ((None, None), [(BOTH, "its write cache could not be read" + UNPROTECTED)]),
        ((ON, ON._replace(protected=True)), [("device nvme0n1 (SER0000)", "its write cache is on" + UNPROTECTED)]),
        ((NONE, NONE), []),
        ((ON._replace(protected=True), NONE), []),
    ],
)
def test_the_guilty_drives_are_named(caches, groups):
    host = pair(*caches)
    found = refused(one_volume(host, ["nobarrier"]), host) if groups else make_plan(one_volume(host, ["nobarrier"]), host.seen).refusals
    assert len(found) == len(groups)
    for line, (drives, text) in zip(found, groups):
        assert line.startswith("pgdata: volume 'data': mount option 'nobarrier' on %s: %s; it wants accept: [%s] on the stack, or " % (drives, text, POWER_CUT))


def test_a_profile_is_refused_with_all_that_it_wants():
    host = pair()
    volumes = [{"name": "data", "mount": "/data01", "mount_profile": "benchmark_2016"}]
    barrier, data = refused(spec(host, volumes=volumes), host)
    assert barrier.startswith("pgdata: volume 'data': mount option 'barrier=0' (of mount_profile 'benchmark_2016') on %s: " % BOTH)
    assert data == (
        "pgdata: volume 'data': mount option 'data=writeback' (of mount_profile 'benchmark_2016') on %s: "
        "files can show old blocks after a crash; it wants accept: [stale_data_after_crash] on the stack" % BOTH
    )
    assert [line.count("accept: [%s]" % STALE) for line in refused(spec(host, volumes=volumes, accept=[POWER_CUT]), host)] == [1]
    assert [line.count("accept: [%s]" % POWER_CUT) for line in refused(spec(host, volumes=volumes, accept=[STALE]), host)] == [1]
    assert make_plan(spec(host, volumes=volumes, accept=[POWER_CUT, STALE]), host.seen).refusals == []


def test_the_default_wants_nothing_whatever_the_drive():
    for first, second in itertools.product((ON, OFF, NONE, UNKNOWN, None), repeat=2):
        for belief in ("write back", "write through", ""):
            host = pair(first, second, belief=belief)
            host.build(spec(host))
            plan = make_plan(spec(host), host.seen)
            assert (plan.steps, plan.refusals, plan.warnings, host.seen.accepted) == ([], [], [], [])


def test_a_serial_that_yaml_takes_for_a_number_is_offered_in_quotes():
    """Copied without them it was another serial, and the same refusal came again."""
    host = Host()
    host.disk(serial="0012345"), host.disk(serial="S4YPNC0R")
    volumes = [{"name": "data", "mount": "/data01", "mount_options": ["nobarrier"]}]
    (line,) = make_plan(spec(host, volumes=volumes), host.seen).refusals
    assert line.endswith("or power_loss_protection: ['0012345', S4YPNC0R], where they have it")


def test_separate_volumes_are_judged_each_over_its_own_drive():
    host = pair(NONE, ON)
    volumes = [{"name": name, "mount": "/" + name, "mount_options": ["nobarrier"]} for name in ("a", "b")]
    (line,) = refused(spec(host, layout="separate", volumes=volumes), host)
    assert line.startswith("pgdata: volume 'b': mount option 'nobarrier' on device nvme1n1 (SER0001): its write cache is on")
    assert line.endswith("or power_loss_protection: [SER0001], where they have it")


@pytest.mark.parametrize("accept", [(), (POWER_CUT,)])
def test_the_operators_word_allows_it_and_is_recorded(accept):
    host = pair()
    stacks = one_volume(host, ["nobarrier"], power_loss_protection=["SER0000", "SER0001"], accept=list(accept))
    host.build(stacks)
    assert [(one.acceptance, one.serials) for one in host.seen.accepted] == [("power_loss_protection", ("SER0000", "SER0001"))]
    assert make_plan(stacks, host.seen).steps == []
    half = one_volume(host, ["nobarrier"], power_loss_protection=["SER0001"], accept=list(accept))
    if accept:
        host.build(half)
        assert {(one.acceptance, one.serials) for one in host.seen.accepted} == {(POWER_CUT, ("SER0000",)), ("power_loss_protection", ("SER0001",))}
    else:
        assert "device nvme0n1 (SER0000): its write cache is on" in refused(half, host)[0]


def test_what_is_accepted_is_recorded_once_and_taken_out_again():
    host = pair()
    accepted = one_volume(host, EXT4.options.profiles["benchmark_2016"], accept=[POWER_CUT, STALE])
    host.build(accepted)
    serials = ("SER0000", "SER0001")
    uuid = next(iter(host.seen.filesystems.values())).uuid
    assert sorted(host.seen.accepted) == [
        Accepted("pgdata", "data", "/data01", uuid, "barrier=0", POWER_CUT, serials, NOW),
        Accepted("pgdata", "data", "/data01", uuid, "data=writeback", STALE, serials, NOW),
    ]
    assert make_plan(accepted, host.seen).steps == [], "nothing is left to record"
    # barriers again: a remount, and half of the record goes
    safe = one_volume(host, ["noatime", "nodiratime", "nodelalloc", "data=writeback"], accept=[POWER_CUT, STALE])
    plan = host.build(safe)
    (step,) = plan.steps
    assert step["summary"] == (
        "mount /data01: fstab options noatime,nodiratime,nodelalloc,barrier=0,data=writeback,nofail,x-systemd.device-timeout=5min → "
        "noatime,nodiratime,nodelalloc,data=writeback,nofail,x-systemd.device-timeout=5min, remounted: -nobarrier; "
        "record that 'barrier=0' on /data01 is not accepted any more"
    )
    assert [one.option for one in host.seen.accepted] == ["data=writeback"] and make_plan(safe, host.seen).steps == []


def test_a_record_that_is_missing_is_a_step_of_its_own():
    host = pair()
    stacks = one_volume(host, ["nobarrier"], accept=[POWER_CUT])
    host.build(stacks)
    host.seen.accepted = []
    (step,) = make_plan(stacks, host.seen).steps
    assert step["mounts"] == [] and step["summary"] == "mount record that 'nobarrier' is accepted on /data01 [data_loss_on_power_cut]"
    assert [one["stack"] for one in step["accepted"]] == ["pgdata"]


def test_the_records_of_other_stacks_stay():
    host = pair()
    host.seen.accepted = [Accepted("else", "data", "/x", "u", "nobarrier", POWER_CUT, (), NOW)]
    plan = host.build(spec(host))
    assert plan.steps[-1]["accepted"] == [] and [one.stack for one in host.seen.accepted] == ["else"]


UNMOUNT = (
    "pgdata: volume 'data' is mounted on /data01 with %s; wanted %s; ext4 changes this by no remount, so neither the mount nor fstab was changed; "
    "stop what uses it, umount /data01, and run again"
)


@pytest.mark.parametrize(
    "live, options, found, wanted",
    [
        (["noatime", "data=writeback"], ["noatime"], "data=writeback", "data=ordered"),
        (["noatime", "data=writeback"], ["noatime", "data=ordered"], "data=writeback", "data=ordered"),
        (["noatime", "data=journal"], ["noatime"], "data=journal", "data=ordered"),
        (["noatime"], ["noatime", "data=journal"], "data=ordered", "data=journal"),
        (["noatime"], ["noatime", "data=writeback"], "data=ordered", "data=writeback"),
        (["data=journal"], ["data=journal", "journal_async_commit"], "no journal_async_commit", "journal_async_commit"),
        (["data=journal", "journal_async_commit"], ["data=journal"], "journal_async_commit", "no journal_async_commit"),
        (["noatime"], ["noatime", "nojournal_checksum"], "no nojournal_checksum", "nojournal_checksum"),
    ],
)
def test_drift_that_no_remount_repairs_is_refused(live, options, found, wanted):
    host = pair()
    host.build(one_volume(host, live, accept=[STALE]))
    if live == ["data=journal", "journal_async_commit"]:  # which the builder's Linux was not asked to show
        host.seen.mounts = [mount._replace(options=(*mount.options, "journal_async_commit")) for mount in host.seen.mounts]
    assert UNMOUNT % (found, wanted) in refused(one_volume(host, options, accept=[STALE]), host)


def test_data_ordered_is_what_a_plain_mount_has():
    host = pair()
    host.build(one_volume(host, ["noatime"]))
    plan = make_plan(one_volume(host, ["noatime", "data=ordered"]), host.seen)
    assert plan.refusals == [] and [step["mounts"][0]["changes"] for step in plan.steps] == [
        ["fstab options noatime,nofail,x-systemd.device-timeout=5min → noatime,data=ordered,nofail,x-systemd.device-timeout=5min"]
    ]


@pytest.mark.parametrize("unasked", ["nobarrier", "nodelalloc", "noauto_da_alloc", "sync", "commit=60"])
def test_drift_that_a_remount_repairs_is_a_step(unasked):
    host = pair()
    host.build(one_volume(host))
    host.seen.mounts = [mount._replace(options=(*mount.options, unasked)) for mount in host.seen.mounts]
    (step,) = make_plan(one_volume(host), host.seen).steps
    assert step["mounts"][0]["changes"] == ["remounted: -" + unasked]


# --- a host without a spec -------------------------------------------------------------------------


def mounted(host, *options):
    """The host with a striped volume, mounted as Linux shows these options."""
    host.build(one_volume(host))
    devno = host.seen.lv_node("pgdata", "data").devno
    host.seen.mounts = [mount._replace(options=as_kernel_shows(["noatime", *options])) for mount in host.seen.mounts]
    host.seen.fstab = []
    return devno


def found(host, devno):
    return [(finding.level, finding.layer, finding.name, finding.text) for finding in view(host.seen, devno).findings]


DEFAULT = "; wanted barrier=1, or accept: [data_loss_on_power_cut]"


@pytest.mark.parametrize(
    "caches, level, text",
    [
        ((ON, ON), "error", "its write cache is on"),
        ((OFF, OFF), "warning", "its write cache is off, and a reset can bring it back"),
        ((UNKNOWN, UNKNOWN), "warning", "its write cache could not be read"),
        ((None, None), "warning", "its write cache could not be read"),
    ],
)
def test_no_barriers_on_a_host_that_nobody_planned(caches, level, text):
    host = pair(*caches)
    devno = mounted(host, "nobarrier")
    text += UNPROTECTED + (AGAIN if caches == (OFF, OFF) else "")
    assert found(host, devno) == [(level, "mount", "/data01", "mount /data01: 'nobarrier' on %s: %s%s" % (BOTH, text, DEFAULT))]


def test_no_barriers_where_there_is_nothing_to_lose():
    host = pair(NONE, NONE)
    assert found(host, mounted(host, "nobarrier")) == []
    host = pair(ON._replace(protected=True), NONE)
    devno = mounted(host, "nobarrier")
    assert found(host, devno) == []
    assert view(host.seen, devno).accepted == (
        "'nobarrier' on /data01 over device nvme0n1 (SER0000): its write cache is on (power-loss protected by its own word)",
    )


@pytest.mark.parametrize(
    "option, text, wanted",
    [
        ("data=writeback", "files can show old blocks after a crash", "data=ordered, or accept: [stale_data_after_crash]"),
        (
            "noauto_da_alloc",
            "a file that was replaced without fsync can be empty after a crash",
            "auto_da_alloc, or accept: [data_loss_on_power_cut]",
        ),
    ],
)
def test_what_is_synced_is_safe_but_not_the_rest(option, text, wanted):
    host = pair()
    devno = mounted(host, option)
    assert found(host, devno) == [("warning", "mount", "/data01", "mount /data01: '%s' on %s: %s; wanted %s" % (option, BOTH, text, wanted))]


@pytest.mark.parametrize("belief", ["write through", ""])
@pytest.mark.parametrize("cache", [ON, ON._replace(protected=True), OFF, OFF._replace(saved=False), NONE, UNKNOWN, None])
@pytest.mark.parametrize("transport", ["nvme", "scsi", "sata"])
def test_what_the_kernel_believes(cache, belief, transport):
    """Of a drive that was not looked at nothing is said."""
    host = pair(cache, NONE, belief=belief, transport=transport)
    levels = [(level, layer, name) for level, layer, name, _text in found(host, mounted(host))]
    if cache in (ON, ON._replace(protected=True)) and belief:
        assert levels == [("error", "write_cache", "nvme0n1 (SER0000)")]
    elif cache in (NONE, None, OFF._replace(saved=False)) or (cache == OFF and transport == "sata"):
        assert levels == []
    else:
        assert levels == [("warning", "write_cache", "nvme0n1 (SER0000)")]


@pytest.mark.parametrize("belief", ["write back", "write through"])
@pytest.mark.parametrize(
    ("cache", "transport", "level"),
    [
        (ON, "nvme", "error"),
        (ON, "sata", "error"),
        (OFF, "nvme", "warning"),
        (OFF, "sata", "warning"),
        (OFF._replace(saved=False), "scsi", ""),
        (NONE, "nvme", ""),
    ],
)
def test_a_mapped_device_that_drops_flushes_counts_like_the_drive(cache, transport, level, belief):
    """Made while the cache was off, and never looking again: what is believed of the drive does not matter then."""
    host = pair(cache, NONE, belief=belief, transport=transport)
    devno = mounted(host)
    host.edit(devno, write_cache="write through")
    lines = found(host, devno)
    assert [one[0] for one in lines] == ([level] if level else [])
    for one in lines:
        # A drive of sd whose cache is off is believed to have none: no rescan changes that, and so no new activation.
        off = cache == OFF and transport == "sata" and belief == "write through"
        wanted = "a cache that stays off, as write_cache: off keeps it; or" if off else "a kernel that believes 'write back' of it"
        assert "drops flushes" in one[3] and ": at dm-0 (pgdata-data); wanted " + wanted in one[3] and "SER0000" in one[3]
    host.edit(devno, write_cache="write back")
    if cache == ON and belief == "write back":
        assert found(host, devno) == []


def test_a_cache_that_is_off_is_not_to_be_rescanned():
    """A run that sets the cache off and then partitions the drive has it so: the kernel reads a drive again with its table."""
    host = pair(OFF, NONE, belief="write through", transport="scsi")
    devno = mounted(host)
    host.edit(devno, write_cache="write back")
    (line,) = [one[3] for one in found(host, devno)]
    assert line.endswith("wanted a cache that stays off, as write_cache: off keeps it; or one that is on and flushed: write_cache: on")
    host.edit(devno, write_cache="write through")
    (line,) = [one[3] for one in found(host, devno)]
    assert line.endswith("write_cache: on, then vgchange -an and -ay")


def test_a_belief_is_judged_without_a_mount_too():
    host = pair(ON, ON, belief="write through")
    host.build(one_volume(host), limit=4)
    devno = host.seen.lv_node("pgdata", "data").devno
    assert [(level, layer) for level, layer, _name, _text in found(host, devno)] == [("error", "write_cache")] * 2


def test_what_the_superblock_sets_is_found_though_no_mount_shows_it():
    """tune2fs -o nobarrier,journal_data_writeback: the default of that very filesystem, and so not in mountinfo."""
    host = pair()
    devno = mounted(host)
    host.seen.in_force[devno] = ("rw", "delalloc", "nobarrier", "auto_da_alloc", "data=writeback")
    assert found(host, devno) == [
        (
            "error",
            "mount",
            "/data01",
            "mount /data01: 'nobarrier' (a default of the filesystem itself) on %s: its write cache is on%s; "
            "wanted barrier=1 (tune2fs, and a new mount), or accept: [data_loss_on_power_cut]" % (BOTH, UNPROTECTED),
        ),
        (
            "warning",
            "mount",
            "/data01",
            "mount /data01: 'data=writeback' (a default of the filesystem itself) on %s: files can show old blocks after a crash; "
            "wanted data=ordered (tune2fs, and a new mount), or accept: [stale_data_after_crash]" % BOTH,
        ),
    ]
    host.seen.in_force[devno] = ("rw", "barrier", "data=ordered")
    assert found(host, devno) == []


@pytest.mark.parametrize("mode, count", [("rw", 1), ("ro", 0)])
def test_a_mount_without_its_journal(mode, count):
    host = pair()
    devno = mounted(host)
    host.seen.mounts = [mount._replace(options=(mode, "noatime", "norecovery")) for mount in host.seen.mounts]
    expected = ("error", "mount", "/data01", "mount /data01: 'norecovery': the filesystem runs without its journal; wanted a mount without this option")
    assert found(host, devno) == [expected] * count


@pytest.mark.parametrize(
    "line, live, text",
    [
        ("noatime,barrier=0,nofail", [], "fstab has nobarrier, the mount has not"),
        ("noatime,data=writeback", [], "fstab has data=writeback, the mount has not"),
        ("noatime", ["nosuid"], "the mount has nosuid, fstab has not"),
        ("noatime,commit=60", ["nodelalloc"], "fstab has commit=60, the mount has not; the mount has nodelalloc, fstab has not"),
        ("defaults,user,acl,usrquota,x-systemd.automount,comment=x,noatime", ["nosuid", "nodev", "noexec"], ""),
        ("noatime,barrier=1,data=ordered,auto_da_alloc,errors=remount-ro,_netdev,nofail", [], ""),
    ],
)
def test_a_mount_that_the_next_boot_makes_otherwise(line, live, text):
    host = pair()
    devno = mounted(host, *live)
    host.seen.fstab = [FstabEntry("UUID=x", "/data01", "ext4", tuple(line.split(",")), 0, 2), FstabEntry("LABEL=y", "/y", "xfs", ("nobarrier",), 0, 0)]
    wanted = "; wanted a mount as fstab has it, or a line of fstab as the mount is"
    assert found(host, devno) == ([("warning", "mount", "/data01", "mount /data01: " + text + wanted)] if text else [])


def test_other_filesystems_are_not_taken_for_ext4():
    """btrfs and vfat show other words than fstab has, and know nothing of a journaling mode; barriers are barriers."""
    host = pair()
    devno = mounted(host)
    host.seen.filesystems.clear()
    host.seen.mounts = [mount._replace(fstype="btrfs", options=("rw", "relatime", "ssd", "subvol=/")) for mount in host.seen.mounts]
    host.seen.fstab = [FstabEntry("UUID=x", "/data01", "btrfs", ("noatime", "ssd"), 0, 0)]
    assert found(host, devno) == []
    host.seen.mounts = [mount._replace(options=("rw", "nobarrier")) for mount in host.seen.mounts]
    assert [(level, layer) for level, layer, _name, _text in found(host, devno)] == [("error", "mount")]


@pytest.mark.parametrize(
    ("line", "words"), [("noatime,logbufs=8", []), ("relatime,logbufs=8", ["the mount has noatime"]), ("noatime,discard", ["fstab has discard"])]
)
def test_the_next_mount_of_an_xfs(line, words):
    host = pair()
    devno = mounted(host)
    host.seen.filesystems.clear()
    shown = ("rw", "noatime", "attr2", "inode64", "logbufs=8", "logbsize=32k", "sunit=128", "swidth=256", "noquota")
    host.seen.mounts = [mount._replace(fstype="xfs", options=shown) for mount in host.seen.mounts]
    host.seen.fstab = [FstabEntry("UUID=x", "/data01", "xfs", tuple(line.split(",")), 0, 0)]
    texts = [text for _level, _layer, _name, text in found(host, devno)]
    assert len(texts) == len(words) and all(word in text for word, text in zip(words, texts))


# --- what was accepted is shown in every later run ---------------------------------------------------


def test_accepted_risks_are_shown_with_their_time_by_the_record_alone():
    host = pair()
    host.build(one_volume(host, EXT4.options.profiles["benchmark_2016"], accept=[POWER_CUT, STALE]))
    devno = host.seen.lv_node("pgdata", "data").devno
    seen = view(host.seen, devno)
    assert seen.findings == () and seen.as_dict()["accepted"] == list(seen.accepted)
    lines = [line for line in stack_table.view_report(seen) if "accepted" in line or "aligned" in line]
    assert lines == [
        "  accepted: 'nobarrier' on /data01 over %s: its write cache is on%s [data_loss_on_power_cut, since %s]" % (BOTH, UNPROTECTED, NOW),
        "  accepted: 'data=writeback' on /data01 over %s: files can show old blocks after a crash [stale_data_after_crash, since %s]" % (BOTH, NOW),
        "  aligned: every layer on every leg",
    ]


def test_a_record_of_another_filesystem_accepts_nothing():
    host = pair()
    host.build(one_volume(host, ["nobarrier"], accept=[POWER_CUT]))
    host.seen.accepted = [one._replace(uuid="another") for one in host.seen.accepted]
    devno = host.seen.lv_node("pgdata", "data").devno
    assert [level for level, _layer, _name, _text in found(host, devno)] == ["error"] and view(host.seen, devno).accepted == ()


def test_what_is_accepted_and_not_in_force_is_not_shown():
    host = pair()
    host.build(one_volume(host, ["nobarrier"], accept=[POWER_CUT]))
    devno = host.seen.lv_node("pgdata", "data").devno
    host.seen.mounts = [mount._replace(options=("rw", "noatime")) for mount in host.seen.mounts]
    assert view(host.seen, devno).accepted == ()


def test_an_error_of_durability_does_not_make_an_aligned_stack_look_misaligned():
    host = pair()
    devno = mounted(host, "nobarrier")
    lines = stack_table.view_report(view(host.seen, devno))
    assert lines[-2].startswith("  FAIL: mount /data01: 'nobarrier'") and lines[-1] == "  aligned: every layer on every leg"
