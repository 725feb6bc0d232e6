# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of drives by the real smartctl on QEMU's ATA, SCSI and NVMe disks, and by stand-ins for one that hangs, dies or prints half."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from labkit.bench import SATA, Bench, Disk
from labkit.harness import ROOT, Harness
from labkit.specs import said, stack
from plumblab.errors import LabError
from plumblab.qmp import Qmp

DISKS = [*SATA, *({"name": f"dh{bus}", "bus": bus, "size": "64MiB", "serial": f"DH{bus.upper()}1"} for bus in ("scsi", "nvme"))]
HOME = "/var/tmp/plumbline-smartctl"  # /run is mounted noexec
KEPT = "/var/lib/plumbline/health"
BENCH_FILES = ROOT / "tests/bench"
BITS = ("spare_low", "temperature", "unreliable", "read_only", "backup_failed")


@pytest.fixture(scope="module")
def drives(bench: Bench, plugged: dict[str, Disk]) -> Bench:
    """With drives of each kind."""
    return bench


def read(harness: Harness, *disks: Disk, tool: str = "", check: bool = False, **options: Any) -> dict[str, Any]:
    """The result of the module; *tool*: what stands in for smartctl."""
    env = None
    if tool:
        harness.must(f"mkdir -p {HOME}; cat > {HOME}/smartctl <<'END'\n#!/bin/sh\n{tool}\nEND\nchmod 755 {HOME}/smartctl")
        env = {"PATH": f"{HOME}:/usr/sbin:/usr/bin:/sbin:/bin"}
    result = harness.module("drive_health", {"devices": [disk.by_id for disk in disks], **options}, check=check, env=env)
    assert not result["failed"], said(result)
    assert not result["traceback"]
    return result


def only(result: dict[str, Any]) -> dict[str, Any]:
    (drive,) = result["drives"]
    return dict(drive)


def rules(drive: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in drive["findings"]]


def warn(bench: Bench, disk: Disk, bits: int) -> None:
    """Set the critical warning of a QEMU NVMe drive that runs."""
    with Qmp(bench.paths) as qmp:
        qmp.command("qom-set", {"path": f"/machine/peripheral/{disk.name}", "property": "smart_critical_warning", "value": bits})


def test_all_drives_of_the_host(harness: Harness, drives: Bench) -> None:
    """The virtual disks of the root and of QEMU's scsi-hd have no health to be read, which is told once and is no warning; nothing is written."""
    with drives.untouched():
        result = read(harness)
    found = {drive["serial"]: drive for drive in result["drives"]}
    for name, protocol, failing in (("sata0", "ATA", False), ("dhnvme", "NVMe", False)):
        drive = found[drives.disks[name].serial]
        assert (drive["protocol"], drive["read"], drive["failing"], drive["source"]) == (protocol, True, failing, "smartctl"), drive
        assert drive["key"] and drive["temperature_celsius"] is not None
    scsi = found[drives.disks["dhscsi"].serial]
    assert (scsi["protocol"], scsi["failing"]) == ("SCSI", None), scsi  # scsi-hd has no page of informational exceptions
    root = next(drive for drive in result["drives"] if drive["device"] == "/dev/vda")
    assert all((one["read"], one["failing"], one["not_applicable"], rules(one)) == (False, None, True, ["not_applicable"]) for one in (root, scsi))
    (told,) = (finding for finding in result["findings"] if finding["rule"] == "not_applicable")
    assert {"vda", drives.disks["dhscsi"].kernel} <= set(told["name"].split(", ")) and "virtual (QEMU, virtio)" in told["text"]
    assert result["level"] == "info" and result["changed"] is False


def test_spare_and_wear_that_are_not_reported(harness: Harness, drives: Bench) -> None:
    """QEMU: 0 of 0, which says nothing."""
    drive = only(read(harness, drives.disks["dhnvme"]))
    assert (drive["wear"]["spare_percent"], drive["wear"]["spare_threshold_percent"], drive["failing"]) == (None, None, False)


@pytest.mark.parametrize("way", ["smartctl", "nvme"])
def test_each_critical_warning_is_found_by_the_next_call_and_gone_when_reset(harness: Harness, drives: Bench, way: str) -> None:
    disk = drives.disks["dhnvme"]
    if way == "nvme":
        harness.must("mv /usr/sbin/smartctl /usr/sbin/smartctl.away")
    try:
        for bit, rule in enumerate(BITS):
            warn(drives, disk, 1 << bit)
            drive = only(read(harness, disk))
            # smartctl calls every warning a failed status: the bits count, whoever reads them.
            assert drive["source"] == way and rule in rules(drive) and "status" not in rules(drive), (bit, drive["findings"])
            assert drive["failing"] is (bit in (0, 2, 3))
            warn(drives, disk, 0)
            drive = only(read(harness, disk))
            assert drive["failing"] is False and not set(rules(drive)) & {*BITS, "status"}
        warn(drives, disk, 16)
        stack = {"name": "pgdata", "devices": [disk.by_id], "power_loss_protection": True}
        level = {finding["rule"]: finding["level"] for finding in only(read(harness, disk, stacks=[stack]))["findings"]}
        assert level["backup_failed"] == "error"
    finally:
        warn(drives, disk, 0)
        harness.run("test ! -e /usr/sbin/smartctl.away || mv /usr/sbin/smartctl.away /usr/sbin/smartctl")


def test_a_scsi_drive_that_tests_its_prediction_of_a_failure(harness: Harness, drives: Bench) -> None:
    """scsi_debug: the TEST bit of its page of informational exceptions (1Ch). It reports 5Dh FFh then, which smartctl calls a failed status."""
    with drives.scsi_debug(1, size_mib=32) as (disk,):
        assert only(read(harness, disk))["failing"] is False
        harness.must(f"sdparm --quiet --set=TEST=1 {disk.path}")
        drive = only(read(harness, disk))
        assert drive["failing"] is None and drive["level"] == "warning" and "exception" in rules(drive) and "status" not in rules(drive), drive


def test_a_baseline_is_kept_once_a_day_and_compared(harness: Harness, drives: Bench) -> None:
    disk = drives.disks["dhnvme"]
    harness.must(f"rm -rf {KEPT}")
    assert read(harness, disk, baseline=True, check=True)["changed"] is True and harness.run(f"ls {KEPT}")[1] == ""
    assert [read(harness, disk, baseline=True)["changed"] for _turn in range(2)] == [True, False]
    assert harness.must(f"stat -c %a {KEPT}/*").split() == ["600"] * 2
    (line,) = harness.must(f"cat {KEPT}/*.jsonl").splitlines()
    assert json.loads(line)["serial"] == disk.serial
    assert only(read(harness, disk))["baseline"]["readings"] == 1
    harness.must(rf"""sed -i 's/"power_cycles": [0-9]*/"power_cycles": 99999/' {KEPT}/*.jsonl""")
    assert "power_cycles fell from 99999" in str(read(harness, disk)["warnings"])
    harness.must(f"rm -rf {KEPT}")


REAL = 'exec /usr/sbin/smartctl "$@"'
STAND_INS = {
    "hang": ("exec sleep 1000", "did not end within"),
    "crash": ("kill -SEGV $$", "ended by signal 11"),
    "half": ('/usr/sbin/smartctl "$@" | head -c 300', "no complete JSON"),
    "nothing": ("exit 0", "no complete JSON"),
    "refused": ("exit 2", "virtual (QEMU)"),  # as on any virtual disk; a physical one is a warning
    "not-json": ("echo hello", "no complete JSON"),
}


@pytest.mark.parametrize(
    ("what", "timeout"),
    [*((what, 5) for what in STAND_INS), pytest.param("hang", 30, marks=pytest.mark.long)],  # 30 s is the default
)
def test_one_that_fails_is_one_finding_and_the_rest_are_judged(harness: Harness, drives: Bench, figure: Any, what: str, timeout: int) -> None:
    disk, other = drives.disks["sata0"], drives.disks["dhnvme"]
    doing, words = STAND_INS[what]
    before = harness.seconds
    result = read(harness, disk, other, tool=f'case "$*" in *{disk.path}) {doing} ;; *) {REAL} ;; esac', timeout=timeout)
    figure(f"drive health, {what}, timeout {timeout} s", seconds=round(harness.seconds - before, 1))
    found = {drive["serial"]: drive for drive in result["drives"]}
    bad = found[disk.serial]
    assert (bad["read"], bad["failing"], rules(bad)) == (False, None, ["not_applicable" if what == "refused" else "unread"])
    assert words in bad["findings"][0]["found"]
    assert (found[other.serial]["read"], found[other.serial]["failing"]) == (True, False)
    assert harness.run("pgrep -f 'sleep 1000'")[0] == 1, "what hung was left behind"


def test_a_replayed_drive(harness: Harness, drives: Bench) -> None:
    """A worn drive with media errors, on an old stack and on one to be built."""
    disk = drives.disks["sata0"]
    log = {"critical_warning": 0, "percentage_used": 100, "media_errors": 7, "power_on_hours": 20000, "available_spare": 90, "available_spare_threshold": 10}
    worn = {
        "smartctl": {"exit_status": 0},
        "device": {"protocol": "NVMe"},
        "model_name": "<script>",
        "serial_number": "WORN1",
        "smart_status": {"passed": True},
        "nvme_smart_health_information_log": log,
    }
    tool = f"cat <<'X'\n{json.dumps(worn)}\nX"
    old = only(read(harness, disk, tool=tool))
    assert (old["failing"], old["level"], old["projection"]["days_min"], old["serial"]) == (False, "warning", 0, "WORN1")
    new = only(read(harness, disk, tool=tool, stacks=[{"name": "pgdata", "devices": [disk.by_id], "new": True}]))
    assert (new["failing"], new["level"]) == (False, "error")
    assert {finding["rule"] for finding in new["findings"] if finding["level"] == "error"} == {"media_errors", "wear"}


def test_while_a_run_has_the_host_no_command_is_sent(harness: Harness, drives: Bench) -> None:
    disk = drives.disks["dhnvme"]
    run = "0123456789abcdef" * 2
    boot = harness.must("cat /proc/sys/kernel/random/boot_id").strip()
    now = float(harness.must("python3 -c 'import time; print(time.clock_gettime(time.CLOCK_BOOTTIME))'"))
    lease = {
        "run": run, "controller": "a test", "process": "", "digest": "", "boot": boot, "pid": 0, "started": 0, "taken": now, "renewed": now,
        "grace": 600, "since": "2026-01-01T00:00:00Z", "free": False,
    }  # fmt: skip
    harness.must(f"mkdir -p -m 0700 /run/plumbline; echo '{json.dumps(lease)}' > /run/plumbline/lease.json")
    try:
        drive = only(read(harness, disk, tool=f"touch {HOME}/asked; {REAL}"))
        assert (drive["read"], rules(drive)) == (False, ["unread"]) and "another run has this host" in drive["findings"][0]["found"]
        assert harness.run(f"test -e {HOME}/asked")[0] == 1
        assert only(read(harness, disk, lease={"run": run}))["read"] is True
    finally:
        harness.must(f"rm -f /run/plumbline/lease.json {HOME}/asked")


def test_refused_options(harness: Harness, drives: Bench) -> None:
    gone = harness.module("drive_health", {"devices": ["nvme-NONE_1"]})
    assert gone["failed"] and gone["msg"].startswith("device /dev/disk/by-id/nvme-NONE_1 is not there")
    late = harness.module("drive_health", {"timeout": 0})
    assert late["failed"] and late["msg"] == "timeout: 0; wanted 1 to 600 seconds"


def test_a_member_of_a_megaraid_is_read_once(harness: Harness, drives: Bench, figure: Any) -> None:
    """QEMU's megasas, where it answers smartctl's pass-through."""
    with Qmp(drives.paths) as qmp:
        try:
            qmp.command("blockdev-add", {"driver": "null-co", "node-name": "node-mega", "size": 64 << 20, "read-zeroes": True})
            qmp.command("device_add", {"driver": "megasas-gen2", "id": "mega", "bus": "port13"})
            qmp.command(
                "device_add", {"driver": "scsi-hd", "id": "megadisk", "bus": "mega.0", "drive": "node-mega", "serial": "DHMEGA1", "scsi-id": 0, "lun": 0}
            )
        except LabError as fault:
            pytest.skip(f"QEMU has no megasas to plug in: {fault}")
    code, _out, _err = harness.run(
        "modprobe megaraid_sas; for i in $(seq 30); do grep -l megaraid_sas /sys/class/scsi_host/*/proc_name && exit; sleep 1; done; exit 1"
    )
    scan = harness.run("smartctl --scan --json=c; ls -l /dev/bus /dev/megaraid_sas_ioctl_node; lsscsi 2>/dev/null; dmesg | grep -i megaraid | tail -15")[1]
    if code or "megaraid," not in scan:
        pytest.skip(f"the guest finds no member behind QEMU's megasas: {scan[-1500:]}")
    found = [drive for drive in read(harness)["drives"] if "megaraid" in drive["member"]]
    figure("drive health, megasas", members=[[drive["member"], drive["read"], drive["failing"], rules(drive), drive["serial"]] for drive in found])
    assert found, scan
    assert all(drive["read"] or rules(drive) == ["unread"] for drive in found)


def play(bench: Bench, *words: str, **variables: Any) -> str:
    """What the role provision says on the stack of one drive. It fails if a drive does."""
    stacks = [stack([bench.disks["dhnvme"]], layout="linear")]
    argv = ["ansible-playbook", "-i", str(BENCH_FILES / "inventory.yml"), *words, "playbooks/provision_db_storage.yml", "-e"]
    env = dict(os.environ, ANSIBLE_CONFIG=str(BENCH_FILES / "ansible.cfg"), ANSIBLE_COLLECTIONS_PATH=str(ROOT / "playbooks/collections"))
    given = json.dumps({"plumbline_stacks": stacks, "plumbline_verify": {"policy": "never"}, **variables})
    done = subprocess.run([*argv, given], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return f"exit {done.returncode}\n{done.stdout}"


@pytest.fixture
def failing(harness: Harness, drives: Bench) -> Iterator[Disk]:
    """A drive that says that it fails. The host knows nothing of it yet."""
    harness.must(f"rm -rf {KEPT}")
    warn(drives, drives.disks["dhnvme"], 4)
    yield drives.disks["dhnvme"]
    warn(drives, drives.disks["dhnvme"], 0)
    harness.must(f"rm -rf {KEPT}")


@pytest.mark.long(minutes=1)
def test_the_gate_stops_a_play_before_its_first_step(drives: Bench, failing: Disk) -> None:
    with drives.untouched():
        refused = play(drives)
    assert refused.startswith("exit 2"), refused[-3000:]
    assert "refused: nothing was written. The drives are not as they should be" in refused and "the reliability is degraded" in refused, refused[-3000:]
    assert f"error: drive {failing.kernel} ({failing.serial}): the drive says that it fails" in refused, refused[-3000:]


@pytest.mark.long
def test_the_gate_otherwise(harness: Harness, drives: Bench, failing: Disk) -> None:
    """Check mode prints, warn builds. On a stack that stands no step can be stopped: its findings are told, and the drives not read again that day."""
    with drives.untouched():
        checked = play(drives, "--check")
    assert checked.startswith("exit 0") and "step 1: partition " in checked and "error: drive " in checked, checked[-3000:]
    built = play(drives, plumbline_health={"gate": "warn"})
    assert built.startswith("exit 0") and "error: drive " in built and "changed=0" not in built, built[-3000:]
    again = play(drives)
    assert again.startswith("exit 0") and "changed=0" in again and re.search("drives: health read [0-9]+ min ago, error: drive", again), again[-3000:]
    warn(drives, failing, 0)
    harness.must(f"rm -rf {KEPT}")
    healthy = play(drives)
    assert healthy.startswith("exit 0") and "error: drive" not in healthy and "changed=0" in healthy, healthy[-3000:]
