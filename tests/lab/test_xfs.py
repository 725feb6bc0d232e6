# SPDX-License-Identifier: GPL-3.0-or-later
"""XFS as a kind of filesystem: made by rule, read back by xfsprogs and by our reader, mounted with its options, grown, lost and refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from labkit.audits import audit_host
from labkit.bench import MIB, Bench, Disk
from labkit.everyday import everyday
from labkit.guides import follow
from labkit.harness import HOME, Harness
from labkit.runs import next_plan
from labkit.specs import assert_error, said

DISKS = [{"name": f"leg{number}", "bus": "scsi", "size": "1GiB", "serial": f"XFS{number}", "physical_block_size": 4096} for number in range(5)]
DISKS += [{"name": f"new{number}", "bus": "scsi", "size": "1GiB", "serial": f"NEW{number}", "logical_block_size": 4096} for number in range(2)]
DISKS += [{"name": f"old{number}", "bus": "scsi", "size": "1GiB", "serial": f"OLD{number}"} for number in range(2)]
DATA, DEVICE = "/pl/data", "/dev/mapper/pgdata-data"
# The legs, and what the stack is asked for.
LAYOUTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "512e-2": (["leg0", "leg1"], {}),
    "512e-3-of-512KiB": (["leg0", "leg1", "leg2"], {"stripe_size": "512KiB"}),
    "512e-5-of-1MiB": (["leg0", "leg1", "leg2", "leg3", "leg4"], {"stripe_size": "1MiB"}),
    "512e-4-of-8KiB": (["leg0", "leg1", "leg2", "leg3"], {"stripe_size": "8KiB"}),
    "512e-linear": (["leg0"], {"layout": "linear"}),
    "512e-separate": (["leg0"], {"layout": "separate"}),
    "4Kn-2": (["new0", "new1"], {}),
    "512n-2": (["old0", "old1"], {}),
}
# Mounts with each option by itself, and asks what a run would still want to change.
TRY_OPTIONS = """
import json, subprocess, sys
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.xfs import OPTIONS
from ansible_collections.plumbline.ssd.plugins.module_utils._block.proc_files import parse_mountinfo
device, target = sys.argv[1:]
wrong = {}
for option in OPTIONS.known():
    done = subprocess.run(["mount", "-o", option, device, target], capture_output=True, text=True)
    if done.returncode:
        wrong[option] = done.stderr
        continue
    (live,) = (mount.options for mount in parse_mountinfo(open("/proc/self/mountinfo").read()) if mount.target == target)
    asked = option.split(",")
    drift, unmount = OPTIONS.drift(asked, live), OPTIONS.wants_unmount(asked, live)
    if drift != ([], []) or unmount:
        wrong[option] = (drift, unmount, live)
    subprocess.run(["umount", target], check=True)
print(json.dumps({"tried": len(OPTIONS.known()), "wrong": wrong}))
"""


# Makes an XFS in a file by the rules of each stripe and number of legs, and reads it back by our reader and by xfs_info.
TRY_STRIPES = """
import json, os, re, subprocess, sys
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import Making
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.xfs import XFS
path, rows, wrong = sys.argv[1], 0, []
for stripe in [8192 << shift for shift in range(8)]:
    for legs in range(1, 6):
        for grain in sorted({4096, min(stripe, 65536)}):
            stride = stripe // 4096
            for size in (XFS.least(stride, stride * legs), 9 << 30, 600 << 30):
                size = -(-size // (4 << 20)) * (4 << 20)
                uuid = "0b7c1ad4-0c2e-4e0e-8e3a-%012x" % rows
                made = Making("pl-data", uuid, stride, stride * legs, size=size, grain=grain)
                with open(path, "wb") as handle:
                    handle.truncate(size)
                done = subprocess.run(["mkfs.xfs", "-q", *XFS.mkfs_options(made).split(), path], capture_output=True, text=True)
                rows += 1
                if done.returncode:
                    wrong.append([stripe, legs, grain, size, done.stderr])
                    continue
                with open(path, "rb") as handle:
                    raw = handle.read(4096)
                    found = XFS.parse(raw)
                    copies = [XFS.copy(handle.read(4096)) for at in range(1, 8) if at * found.group + 4096 <= size and handle.seek(at * found.group)]
                text = subprocess.run(["xfs_info", path], capture_output=True, text=True, check=True).stdout
                shown = [int(re.search(pattern, text, re.S).group(1)) for pattern in (
                    r"agcount=(\\d+)", r"agsize=(\\d+)", r"data .*?blocks=(\\d+)", r"sunit=(\\d+) +swidth", r"swidth=(\\d+)", r"\\nlog .*?sunit=(\\d+) blks")]
                groups = -(-found.blocks * 4096 // found.group)
                ours = [groups, found.group // 4096, found.blocks, found.stride, found.stripe_width, found.log_unit // 4096]
                begin = {number * (found.group // 4096) // stride % legs for number in range(groups)}
                if ours != shown or begin != set(range(legs)) or found.uuid != uuid or any(one is None or one.uuid != uuid for one in copies):
                    wrong.append([stripe, legs, grain, size, ours, shown, sorted(begin)])
os.unlink(path)
print(json.dumps({"rows": rows, "wrong": wrong}))
"""


@pytest.fixture
def legs(bench: Bench, declared: dict[str, Disk]) -> Iterator[list[Disk]]:
    yield [declared["leg0"], declared["leg1"]]
    bench.clean()


def spec_of(
    disks: list[Disk], size: str = "600MiB", volumes: tuple[dict[str, Any], ...] = (), more: dict[str, Any] | None = None, **data: Any
) -> dict[str, Any]:
    volume = {"name": "data", "mount": DATA, "filesystem": "xfs", **({"size": size} if size else {}), **data}
    return {"stacks": [{"name": "pgdata", "devices": [disk.by_id for disk in disks], "volumes": [volume, *volumes], **(more or {})}]}


def actions(harness: Harness, spec: dict[str, Any]) -> list[str]:
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    assert not plan.get("warnings"), plan["warnings"]
    return [step["action"] for step in plan["steps"]]


def info(harness: Harness, mount: str = DATA) -> dict[str, int]:
    """What xfs_info says: in bytes, but for the counts of groups and blocks."""
    text = harness.must(f"xfs_info {mount}")
    patterns = {
        "groups": r"agcount=(\d+)", "group": r"agsize=(\d+)", "sector": r"sectsz=(\d+)\s+attr", "block": r"data\s+=\s+bsize=(\d+)",
        "blocks": r"data .*?blocks=(\d+)", "sunit": r"sunit=(\d+)\s+swidth", "swidth": r"swidth=(\d+)", "log_unit": r"sectsz=\d+\s+sunit=(\d+) blks, lazy",
    }  # fmt: skip
    return {name: int(re.findall(pattern, text)[0]) for name, pattern in patterns.items()}


@pytest.mark.parametrize("name", everyday(LAYOUTS, "512e-linear"))
def test_it_is_made_by_rule(bench: Bench, harness: Harness, declared: dict[str, Disk], name: str) -> None:
    """Read back by xfs_info and by our reader; nothing is left to do; the groups begin on all legs."""
    names, more = LAYOUTS[name]
    disks = [declared[leg] for leg in names]
    spec = spec_of(disks, "" if "separate" in name else "600MiB", more=more)
    try:
        harness.build(spec["stacks"])
        assert actions(harness, spec) == []
        found = info(harness)
        (facts,) = [one for one in stack_of(harness)["layers"] if one["layer"] == "filesystem"]
        assert (found["sunit"], found["swidth"], found["block"]) == (facts["stride"], facts["stripe_width"], facts["block_size"])
        assert (found["sector"], found["log_unit"] * 4096) == (4096, 4096)
        size = int(harness.must(f"blockdev --getsize64 $(findmnt -no SOURCE {DATA})"))
        assert 0 <= size - found["blocks"] * 4096 < 16 * MIB
        width = found["swidth"] // found["sunit"]
        assert {number * found["group"] // found["sunit"] % width for number in range(found["groups"])} == set(range(width))
        assert f"UUID={facts['uuid']}" in harness.must(f"grep {DATA} /etc/fstab") and harness.must(f"grep {DATA} /etc/fstab").split()[-2:] == ["0", "0"]
    finally:
        bench.clean()


@pytest.mark.long(minutes=4)
def test_the_matrix_of_stripes(harness: Harness, figure: Callable[..., None]) -> None:
    """8 KiB to 1 MiB on 1 to 5 legs, from the least size on: made, and read back the same by xfsprogs and by our reader; groups begin on all legs."""
    place = "mkdir -p /run/pl-xfs; mount -t tmpfs -o size=1g tmpfs /run/pl-xfs"
    try:
        command = f"cat > /run/pl-try.py <<'EOF'\n{TRY_STRIPES}\nEOF\n{place}; PYTHONPATH={HOME} python3 /run/pl-try.py /run/pl-xfs/image"
        tried = json.loads(harness.must(command, 1500))
    finally:
        harness.run("umount /run/pl-xfs")
    print(f"\nxfs: {tried['rows']} rows of the matrix")
    figure("xfs", rows=tried["rows"], wrong=len(tried["wrong"]))
    assert tried["wrong"] == [] and tried["rows"] > 200


def stack_of(harness: Harness) -> dict[str, Any]:
    """What the audit says of the stack below the volume."""
    (found,) = [one for one in audit_host(harness)["stack_info"]["stacks"] if any(DATA in layer["names"] for layer in one["layers"])]
    assert not [one for one in found["findings"] if one["level"] == "error"], found["findings"]
    return dict(found)


def test_below_its_minimum_nothing_is_written(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    with bench.untouched(*legs):
        for size, more, words in (
            ("299MiB", {}, "299 MiB is too small; wanted at least 300 MiB"),
            ("512MiB", {}, "in which mkfs.xfs makes no log of 64 MiB; wanted at least 520.50 MiB"),
            ("600MiB", {"logbsize": "logbsize=1k"}, "'logbsize=1k' does not fit"),
        ):
            options = {"mount_options": list(more.values())} if more else {}
            assert_error(harness.module("stack_plan", spec_of(legs, size, **options)), words)


@pytest.mark.long(minutes=2)
def test_beside_ext4_over_a_reboot_and_grown(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    """Data on XFS and the log on ext4; a reboot; the volume and then the devices grow under the mount."""
    wal = {"name": "wal", "size": "200MiB", "mount": "/pl/wal"}
    spec = spec_of(legs, volumes=(wal,))
    harness.build(spec["stacks"])
    assert actions(harness, spec) == []
    digest = harness.must(f"head -c 20971520 /dev/urandom > {DATA}/table; sync; sha256sum {DATA}/table")
    bench.boot_again()
    bench.wait(f"mountpoint -q {DATA}", 120)
    assert harness.must(f"sha256sum {DATA}/table") == digest and actions(harness, spec) == []
    before = info(harness)
    spec = spec_of(legs, "900MiB", volumes=(wal,))
    assert actions(harness, spec) == ["grow_lv", "grow_filesystem"]
    harness.build(spec["stacks"])
    assert actions(harness, spec) == []
    for disk in legs:
        bench.resize(disk, 1536 * MIB)
    spec = spec_of(legs, "1400MiB", volumes=(wal,), more={"grow": True})
    harness.build(spec["stacks"])
    assert actions(harness, spec) == []
    after = info(harness)
    assert after["blocks"] * 4096 == int(harness.must(f"blockdev --getsize64 {DEVICE}")) == 1400 * MIB
    assert {**after, "blocks": 0, "groups": 0} == {**before, "blocks": 0, "groups": 0} and after["groups"] > before["groups"]
    assert harness.must(f"sha256sum {DATA}/table") == digest
    harness.must(f"umount {DATA}; xfs_repair -n {DEVICE} 2>&1; mount {DATA}")


def test_its_options(harness: Harness, legs: list[Disk]) -> None:
    """Each is taken by the kernel and shown as the table says; what a remount does not change wants an unmount."""
    spec = spec_of(legs)
    harness.build(spec["stacks"])
    harness.must(f"umount {DATA}")
    tried = json.loads(harness.must(f"cat > /run/pl-try.py <<'EOF'\n{TRY_OPTIONS}\nEOF\nPYTHONPATH={HOME} python3 /run/pl-try.py {DEVICE} {DATA}"))
    assert tried["wrong"] == {} and tried["tried"] > 30
    harness.must(f"mount {DATA}")
    for options in (["noatime", "discard"], ["noatime", "logbufs=4"], ["noatime", "allocsize=1024k"]):
        changed = spec_of(legs, mount_options=options)
        assert_error(harness.module("stack_plan", changed), options[1], f"umount {DATA}")
    harness.must(f"umount {DATA}")
    changed = spec_of(legs, mount_options=["noatime", "allocsize=1024k", "logbsize=256k", "logbufs=4"])
    assert actions(harness, changed) == ["mount"]
    harness.build(changed["stacks"])
    assert actions(harness, changed) == []
    again = spec_of(legs, mount_options=["relatime", "inode32", "allocsize=1024k", "logbsize=256k", "logbufs=4"])
    assert actions(harness, again) == ["mount"]
    harness.build(again["stacks"])
    assert actions(harness, again) == [] and "inode32" in harness.must(f"findmnt -no OPTIONS {DATA}")


LOST = {"512-bytes": 512, "64-KiB": 64 << 10, "128-KiB": 128 << 10, "1-MiB": 1 << 20}


@pytest.mark.parametrize("name", everyday(LOST, "64-KiB"))
def test_what_lost_its_head_is_refused(bench: Bench, harness: Harness, legs: list[Disk], name: str) -> None:
    """Mounted and down; and what the advice says of each case is so."""
    spec = spec_of(legs)
    harness.build(spec["stacks"])
    harness.must(f"head -c 20971520 /dev/urandom > {DATA}/table; sync; sha256sum {DATA}/table > /run/pl-table")
    for mounted in (True, False):
        if not mounted:
            harness.must(f"umount {DATA}")
        harness.must(f"sync; dd if=/dev/zero of={DEVICE} bs=512 count={LOST[name] // 512} conv=notrunc,fsync oflag=direct status=none; udevadm settle")
        with bench.untouched(*legs):
            for more, check in (({}, False), ({}, True), ({"lease": {}}, False)):
                refused = harness.module("stack_plan", {**spec, **more}, check=check)
                assert_error(refused, "[damaged]" if mounted else "[data]", f"xfs_repair -n {DEVICE}", "64 KiB", "make a copy of the device first")
    if LOST[name] > 64 << 10:
        assert harness.run(f"xfs_repair {DEVICE}", timeout=120)[0] != 0
    else:
        follow(harness, "xfs-superblock", "guide_data_back", VOLUME=DEVICE)
        harness.must(f"mount {DATA}; sha256sum --check --quiet /run/pl-table")
        assert actions(harness, spec) == []


@pytest.mark.long(minutes=1)
@pytest.mark.parametrize("lost", [4 << 10, 64 << 10])
def test_what_lost_its_head_with_a_log_to_be_replayed(harness: Harness, legs: list[Disk], lost: int) -> None:
    """As a crash leaves it, by the guide's table: the repair does not begin. xfsprogs 6.13 writes a superblock first, and a mount replays the log then."""
    spec = spec_of(legs)
    harness.build(spec["stacks"])
    harness.must(f"for i in $(seq 200); do echo $i > {DATA}/$i; done; sync; xfs_io -x -c 'shutdown -f' {DATA}; umount {DATA}")
    harness.must(f"dd if=/dev/zero of={DEVICE} bs=512 count={lost // 512} conv=notrunc,fsync oflag=direct status=none; udevadm settle")
    assert harness.run(f"xfs_repair {DEVICE}", timeout=120)[0] == 2
    major, minor = harness.must("mkfs.xfs -V").split()[-1].split(".")[:2]
    comes_back = lost == 4 << 10 and (int(major), int(minor)) >= (6, 13)
    assert harness.run(f"mount {DEVICE} {DATA}")[0] == (0 if comes_back else 32)
    if comes_back:
        harness.must(f"for i in $(seq 200); do test $(cat {DATA}/$i) = $i; done; umount {DATA}; xfs_repair -n {DEVICE}")


def test_an_empty_one_whose_ends_are_gone_is_not_blank(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    """Made as we do, and as mkfs.xfs does by itself; the volume is to get an ext4."""
    spec = spec_of(legs)
    harness.build(spec["stacks"])
    harness.must(f"umount {DATA}")
    wanted = spec_of(legs, filesystem="ext4")
    zero = f"dd if=/dev/zero of={DEVICE} bs=1M oflag=direct status=none"
    for make in ("", f"wipefs -qa {DEVICE}; mkfs.xfs -q -f {DEVICE}; "):
        harness.must(f"{make} {zero} count=64; {zero} seek=536 || true; udevadm settle")
        with bench.untouched(*legs):
            for asked in (spec, wanted):
                assert_error(harness.module("stack_plan", asked), "[data]", "xfs backup superblock", "at byte", "xfs_repair")


@pytest.mark.long(minutes=2)
def test_an_mkfs_that_was_cut_off(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    """Carried on where the host's record and its own superblock say that it is ours; else it is damaged."""
    spec = spec_of(legs)
    harness.apply(harness.module("stack_plan", {**spec, "through": "striped_lvm"})["steps"])
    (step,) = [step for step in next_plan(harness, spec)["steps"] if step["action"] == "filesystem"]
    record = "/var/lib/plumbline/making.json"
    assert step["uuid"] in harness.must(f"cat {record}") and step["force"] is False
    harness.must(f"cp {record} /run/pl-making")
    group = int(re.findall(r"agsize=(\d+)", step["options"])[0])
    count = -(-int(harness.must(f"blockdev --getsize64 {DEVICE}")) // group)
    # A copy is what the first superblock is until the end: without a root directory, and mkfs at work. Its last writes tell it to the copies named here.
    put = f"dd if={DEVICE} of={DEVICE} bs=4096 skip={group // 4096} count=1 conv=notrunc,fsync status=none seek="
    front = f"{put}0"
    head = "; ".join([front, *(f"{put}{number * group // 4096}" for number in sorted({count - 1, count // 2 - 1, count // 2} - {0, 1}))])
    for more in ("", f"; dd if=/dev/zero of={DEVICE} bs=1M seek=1 oflag=direct status=none || true"):
        harness.must(f"mkfs.xfs -q -f {step['options']} {DEVICE}; {head} {more}; udevadm settle; echo 3 > /proc/sys/vm/drop_caches")
        assert harness.run(f"mount {DEVICE} /mnt")[0] != 0
        again = next_plan(harness, spec)
        assert [(one["action"], one.get("force")) for one in again["steps"]] == [("filesystem", True), ("mount", None)], said(again)
        assert step["uuid"] in harness.must(f"cat {record}"), "udev has a link to it, and it is not made to the end"
        harness.must(f"mv {record} /run/pl-away")
        with bench.untouched(*legs):
            assert_error(harness.module("stack_plan", spec), "[damaged]", "not made to the end", "xfs_repair")
        harness.must(f"mv /run/pl-away {record}")
    other = step["options"].replace(step["uuid"], "11111111-2222-4333-8444-555555555555")
    harness.must(f"mkfs.xfs -q -f {other} {DEVICE}; {head}; udevadm settle")
    with bench.untouched(*legs):
        assert_error(harness.module("stack_plan", spec), "[damaged]", "not made to the end")
    # A record that stayed does not tell it from a filesystem that was made to the end: its last copies do.
    harness.must(f"mkfs.xfs -q -f {step['options']} {DEVICE}; {front}; udevadm settle")
    with bench.untouched(*legs):
        assert_error(harness.module("stack_plan", spec), "[damaged]", "not made to the end, or the copy of a superblock")
    harness.must(f"mkfs.xfs -q -f {step['options']} {DEVICE}; {head}; udevadm settle")
    harness.apply(next_plan(harness, spec)["steps"])
    harness.must(f"mountpoint -q {DATA}")
    assert actions(harness, spec) == [] and step["uuid"] not in harness.run(f"cat {record}")[1]


@pytest.mark.long(minutes=8)
def test_an_mkfs_that_is_killed_at_each_of_its_writes(bench: Bench, harness: Harness, legs: list[Disk], figure: Callable[..., None]) -> None:
    """Carried on by the record of the host, or refused as damaged. Without that record it is another's: nothing but a blank volume is taken."""
    spec, record = spec_of(legs, "528MiB"), "/var/lib/plumbline/making.json"
    harness.apply(harness.module("stack_plan", {**spec, "through": "striped_lvm"})["steps"])
    (step,) = [step for step in next_plan(harness, spec)["steps"] if step["action"] == "filesystem"]
    trace, make = "strace -f -qq -e trace=pwrite64", f"mkfs.xfs -q -f {step['options']} {DEVICE}"
    harness.must(f"cp {record} /run/pl-making")
    writes = int(harness.must(f"{trace} -o /run/pl-trace {make}; grep -c pwrite64 /run/pl-trace"))
    blank = f"cmp {DEVICE} /dev/zero 2>&1"
    assert "EOF" in harness.run(f"blkdiscard -f {DEVICE}; {blank}")[1], "what is discarded does not read as zeros"
    outcomes: dict[str, int] = {}
    for number in range(1, writes + 1):
        harness.must(f"blkdiscard -f {DEVICE}; cp /run/pl-making {record}; udevadm settle")
        assert harness.run(f"{trace} -e inject=pwrite64:signal=KILL:when={number} -o /dev/null {make}")[0] != 0
        harness.must("udevadm settle; echo 3 > /proc/sys/vm/drop_caches")
        plan = harness.module("stack_plan", {**spec, "lease": {}})
        if plan.get("lease"):
            harness.module("run_lease", {"run": plan["lease"]["run"]})
        if plan["failed"]:
            assert_error(plan, "[damaged]", "not made to the end")
            outcome = "damaged"
        else:
            assert [one["action"] for one in plan["steps"]] == ["filesystem", "mount"] and plan["steps"][0]["uuid"] == step["uuid"], (number, plan["steps"])
            outcome = "carried on"
            if number % 8 == 0 or number == writes:
                harness.apply(plan["steps"])
                assert actions(harness, spec) == []
                harness.must(f"umount {DATA}; sed -i '\\|{DATA}|d' /etc/fstab; systemctl daemon-reload; udevadm settle")
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if number % 4 == 0 and "EOF" not in harness.run(blank)[1]:
            harness.must(f"blkdiscard -f {DEVICE}; rm {record}; udevadm settle")
            harness.run(f"{trace} -e inject=pwrite64:signal=KILL:when={number} -o /dev/null {make}; udevadm settle; echo 3 > /proc/sys/vm/drop_caches")
            with bench.untouched(*legs):
                other = harness.module("stack_plan", spec)
                assert other["failed"] and any(word in said(other) for word in ("[damaged]", "[data]")), (number, said(other))
            outcomes["another's, refused"] = outcomes.get("another's, refused", 0) + 1
    print(f"\nxfs: killed at each of {writes} writes: {outcomes}")
    figure("xfs", cuts=writes, **{word.replace(" ", "_").replace("'s,", "s"): count for word, count in outcomes.items()})
