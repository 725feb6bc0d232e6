# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounts and fstab: what drifts is repaired online, what is foreign stays to the byte, what is in the way is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import assert_error, assert_refused, said, stack

DISKS = pool(["one", "other"])
# Tabs, comments, blanks, escapes, a line without options, and no newline at the end.
FOREIGN = (
    "# made by hand\\n/dev/vda / ext4 noatime,errors=remount-ro 0 0\\n\\n\\t\\n"
    "/dev/null\\t/pl/a\\\\040b\\text4   noauto\\t0 0 # why\\nLABEL=none  /pl/none  xfs  noauto,nofail"
)
MOUNT = "/pl/pgdata0"
UNIT = "plumbline-database.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/50-plumbline-pgdata.conf"


def spec_of(disk: Disk, accept: Sequence[str] = (), **volume: Any) -> list[dict[str, Any]]:
    """One filesystem on one disk, mounted."""
    return [stack([disk], "separate", volumes=1, accept=list(accept)) | {"volumes": [{"name": "vol0", "mount": MOUNT, **volume}]}]


@pytest.fixture(scope="module")
def mounted(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[Disk]:
    """A volume that the collection built and mounted, below foreign lines in fstab."""
    harness.must(f"printf '{FOREIGN}' > /etc/fstab; chmod 0640 /etc/fstab; cp /etc/fstab /run/fstab.before; systemctl disable -q --now fstrim.timer")
    harness.build(spec_of(plugged["p0"], required_by=[UNIT], mode="0750", owner="daemon"))
    yield plugged["p0"]
    bench.clean()


def plan_of(harness: Harness, disk: Disk, **volume: Any) -> dict[str, Any]:
    """The plan, which must not be refused."""
    plan = harness.module("stack_plan", {"stacks": spec_of(disk, required_by=[UNIT], mode="0750", owner="daemon", **volume)})
    assert not plan["failed"], said(plan)
    return plan


def options(harness: Harness) -> set[str]:
    """The options of the live mount."""
    return set(harness.must(f"findmnt -no OPTIONS --mountpoint {MOUNT}").strip().split(","))


@pytest.mark.quick("mount_points")
def test_foreign_lines_of_fstab_stay_to_the_byte(harness: Harness, mounted: Disk) -> None:
    """Ours is appended behind the last; a missing newline is all that may be added. The file keeps its mode."""
    harness.must(
        "size=$(stat -c %s /run/fstab.before); cmp /run/fstab.before <(head -c $size /etc/fstab)\n"
        "test $(stat -c %a /etc/fstab) = 640; test $(wc -l < /etc/fstab) = $(($(wc -l < /run/fstab.before) + 2))"
    )
    assert harness.must("tail -n 1 /etc/fstab").split()[1:] == [MOUNT, "ext4", "noatime,nofail,x-systemd.device-timeout=5min", "0", "2"]


def test_the_root_directory_has_its_owner_and_mode(harness: Harness, mounted: Disk) -> None:
    assert harness.must(f"stat -c '%U %a' {MOUNT}").split() == ["daemon", "750"]


def test_the_service_wants_its_volume_and_the_trim_timer_runs(harness: Harness, mounted: Disk) -> None:
    assert f"RequiresMountsFor={MOUNT}" in harness.must(f"cat {DROP_IN}")
    assert harness.must("systemctl is-enabled fstrim.timer").strip() == "enabled"


def test_nothing_is_left_to_do(harness: Harness, mounted: Disk) -> None:
    assert plan_of(harness, mounted)["steps"] == []


@pytest.mark.parametrize(
    ("drift", "missing", "unwanted"),
    [
        ("mount -o remount,strictatime {m}", "noatime", "relatime"),
        ("mount -o remount,discard {m}", "noatime", "discard"),
        ("mount -o remount,nosuid,nodev {m}", "noatime", "nosuid"),
    ],
    ids=["atime", "discard", "nosuid"],
)
def test_options_that_drifted_are_repaired_by_remount(harness: Harness, mounted: Disk, drift: str, missing: str, unwanted: str) -> None:
    """The same mount goes on: its number does not change, and fstab is not touched."""
    before = harness.must(f"findmnt -no ID --mountpoint {MOUNT}; sha256sum /etc/fstab")
    harness.must(drift.format(m=MOUNT))
    plan = plan_of(harness, mounted)
    assert [step["action"] for step in plan["steps"]] == ["mount"]
    assert "remounted" in plan["steps"][0]["summary"]
    harness.apply(plan["steps"])
    assert missing in options(harness) and unwanted not in options(harness)
    assert plan_of(harness, mounted)["steps"] == []
    assert harness.must(f"findmnt -no ID --mountpoint {MOUNT}; sha256sum /etc/fstab") == before


def test_an_fstab_line_that_drifted_is_put_back_in_its_place(harness: Harness, mounted: Disk) -> None:
    before = harness.must("cat /etc/fstab")
    harness.must(f"echo '# behind' >> /etc/fstab; sed -i 's,\\({MOUNT} ext4\\) [^ ]*,\\1 defaults,' /etc/fstab")
    plan = plan_of(harness, mounted)
    harness.apply(plan["steps"])
    assert harness.must("cat /etc/fstab") == before + "# behind\n"
    harness.must("sed -i '/^# behind$/d' /etc/fstab")


def test_an_owner_that_drifted_is_put_back(harness: Harness, mounted: Disk) -> None:
    harness.must(f"chown root {MOUNT}; chmod 0777 {MOUNT}")
    harness.apply(plan_of(harness, mounted)["steps"])
    assert harness.must(f"stat -c '%U %a' {MOUNT}").split() == ["daemon", "750"]


def test_what_is_mounted_over_a_volume_is_left_alone(harness: Harness, mounted: Disk) -> None:
    """The owner of the volume's root can put something of his own over it, with fusermount, between plan and write. It keeps its nosuid and nodev."""
    harness.must(f"mount -o remount,strictatime {MOUNT}; chmod 0777 {MOUNT}")
    (step,) = plan_of(harness, mounted)["steps"]
    given = {key: step[key] for key in ("mounts", "drop_ins", "enable_fstrim_timer")}
    harness.must(f"mount -t tmpfs -o nosuid,nodev,mode=0755 over {MOUNT}")
    shown = f"findmnt -no FSTYPE,OPTIONS {MOUNT}; stat -c '%U %a' {MOUNT}"
    try:
        before = harness.must(shown)
        assert_error(harness.module("mount_points", given), f"{MOUNT}: something that is on no block device is mounted over it [covered]; take that away")
        assert harness.must(shown) == before and "nosuid" in before
    finally:
        harness.must(f"umount {MOUNT}")
    harness.apply(plan_of(harness, mounted)["steps"])
    assert "noatime" in options(harness) and harness.must(f"stat -c %a {MOUNT}").strip() == "750"


def test_a_mount_point_inside_a_volume_that_is_covered_is_none(harness: Harness, mounted: Disk) -> None:
    """What its owner puts over a volume can show directories of root (fusermount with allow_other): nothing is mounted into that."""
    harness.must(f"mount -o remount,strictatime {MOUNT}")
    (step,) = plan_of(harness, mounted)["steps"]
    inner = {**step["mounts"][0], "path": MOUNT + "/wal"}
    harness.must(f"mount -t tmpfs -o mode=0755 over {MOUNT}; mkdir {MOUNT}/wal; cp /etc/fstab /run/fstab.covered")
    try:
        error = "something that is on no block device is mounted over it [covered]; take that away"
        assert_error(harness.module("mount_points", {"mounts": [inner]}), f"mount point {MOUNT}/wal is not safe: {MOUNT}: {error}")
        harness.must(f"! findmnt --mountpoint {MOUNT}/wal; cmp /etc/fstab /run/fstab.covered")
    finally:
        harness.must(f"umount -R {MOUNT}/wal 2>/dev/null || true; umount {MOUNT}")
    harness.apply(plan_of(harness, mounted)["steps"])


def test_a_wrong_option_is_refused_by_the_kernel_and_said(harness: Harness, mounted: Disk) -> None:
    """Neither the mount nor its line of fstab is changed."""
    before = harness.must(f"findmnt -no ID,OPTIONS --mountpoint {MOUNT}; sha256sum /etc/fstab")
    plan = plan_of(harness, mounted, accept=["unknown_mount_options"], mount_options=["noatime", "nosuchoption"])
    (step,) = plan["steps"]
    result = harness.module("mount_points", {key: step[key] for key in ("mounts", "drop_ins", "enable_fstrim_timer")})
    assert_error(result, f"{MOUNT} could not be remounted, and its line of fstab is as it was")
    assert harness.must(f"findmnt -no ID,OPTIONS --mountpoint {MOUNT}; sha256sum /etc/fstab") == before
    harness.apply(plan_of(harness, mounted)["steps"])


@pytest.mark.quick("mount_points")
def test_the_mount_point_is_immutable_while_unmounted(harness: Harness, mounted: Disk) -> None:
    """Nothing, not even root, can put a file where the volume should be; mounted, the volume itself takes files."""
    harness.must(f"touch {MOUNT}/written; test -e {MOUNT}/written; rm {MOUNT}/written")
    harness.must(f"umount {MOUNT}")
    code, _out, err = harness.run(f"touch {MOUNT}/written")
    assert code != 0 and "Operation not permitted" in err
    assert "i" in harness.must(f"lsattr -d {MOUNT}").split()[0]
    plan = plan_of(harness, mounted)
    assert [step["action"] for step in plan["steps"]] == ["mount"]
    harness.apply(plan["steps"])
    assert "i" not in harness.must(f"lsattr -d {MOUNT}").split()[0], "the volume's own root is frozen"
    assert plan_of(harness, mounted)["steps"] == []


# What is where the mount point should be, and the refusal.
IN_THE_WAY = {
    "files": ("mkdir -p {m}; touch {m}/a {m}/b", "holds 2 entries, which the mount would hide"),
    "a-file": ("touch {m}", "no directory"),
    "a-link": ("ln -s /var {m}", "a symbolic link to /var"),
    "a-mount": ("mkdir -p {m}; mkfs.ext4 -q {o}; mount -o ro {o} {m}", "[mounted]"),
    "an-fstab-line": ("echo 'LABEL=else {m} ext4 noauto 0 0' >> /etc/fstab", "fstab has LABEL=else for"),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_a_mount_point_that_is_not_free(bench: Bench, harness: Harness, mounted: Disk, plugged: dict[str, Disk], name: str) -> None:
    """The volume stands already; it should also be mounted elsewhere, where something is in the way."""
    command, words = IN_THE_WAY[name]
    other = f"/pl/taken-{name}"
    harness.must(command.format(m=other, o=plugged["p1"].path))
    try:
        with bench.untouched(mounted):
            assert_refused(harness, spec_of(mounted, mount=other, required_by=[UNIT]), words)
    finally:
        harness.must(f"umount -q {other} || true; rm -rf --one-file-system {other}; sed -i '/LABEL=else/d' /etc/fstab; wipefs -qa {plugged['p1'].path}")


def test_a_mount_point_that_filled_since_the_plan(harness: Harness, mounted: Disk) -> None:
    """mount_points looks again, before it changes fstab."""
    harness.must(f"umount {MOUNT}")
    plan = plan_of(harness, mounted)
    before = harness.must(f"chattr -i {MOUNT}; touch {MOUNT}/late; sha256sum /etc/fstab")
    (step,) = plan["steps"]
    try:
        result = harness.module("mount_points", {key: step[key] for key in ("mounts", "drop_ins", "enable_fstrim_timer")})
        assert_error(result, "is not empty since the plan")
        assert harness.must("sha256sum /etc/fstab") == before
    finally:
        harness.must(f"rm {MOUNT}/late")
    harness.apply(plan_of(harness, mounted)["steps"])
