# SPDX-License-Identifier: GPL-3.0-or-later
"""The write cache of real ATA, SCSI and NVMe disks: set, kept over boots, hot-plug and resets, and left to itself again.

Of each kind there are two: number 0 is kept as asked, number 1 is only set, which is what each of these tests is worth
without our rule. A new boot and a plugging come with the drive's default, which is on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from labkit.bench import SATA, Bench, Disk
from labkit.caches import link, put, question, state
from labkit.harness import HOME, Harness
from labkit.nvme_tcp import nvme_target
from labkit.specs import assert_error, assert_refused, said, stack
from labkit.targets import fixed_scsi

KINDS = ("ata", "scsi", "nvme")
DISKS = [*SATA, *({"name": f"wc{bus}{number}", "bus": bus, "size": "64MiB", "serial": f"WC{bus.upper()}{number}"} for bus in KINDS[1:] for number in (0, 1))]
DISKS.append({"name": "wcoff", "bus": "scsi", "size": "64MiB", "serial": "WCOFF", "write_cache": "off"})  # its default is off
RULES = "/etc/udev/rules.d/90-plumbline-write-cache.rules"
FILES = (
    RULES,
    "/etc/plumbline/write-cache",
    "/etc/systemd/system/plumbline-write-cache.service",
    "/var/lib/plumbline/write_cache.json",
)
UNIT = "plumbline-write-cache.service"
OLD_TIMER = "/etc/systemd/system/plumbline-write-cache.timer"  # of an earlier release
TOOLS = {"ata": "hdparm", "scsi": "sdparm", "nvme": "nvme-cli"}


@pytest.fixture(scope="module")
def drives(bench: Bench, plugged: dict[str, Disk]) -> Bench:
    """`drives.disks` has them by name."""
    return bench


def disk_of(bench: Bench, kind: str, number: int = 0) -> Disk:
    return bench.disks[f"{'sata' if kind == 'ata' else 'wc' + kind}{number}"]


def call(harness: Harness, *asked: tuple[Disk, str], check: bool = False, **options: Any) -> dict[str, Any]:
    return harness.module("write_cache", {"devices": [{"device": disk.by_id, "state": wanted} for disk, wanted in asked], **options}, check=check)


def ok(result: dict[str, Any]) -> dict[str, Any]:
    assert not result["failed"], said(result)
    return result


def kept_files(harness: Harness) -> str:
    """Names, sizes and times of what keeps the settings."""
    return harness.run("stat -c '%n %s %y' " + " ".join(FILES) + " 2>/dev/null")[1]


def forget(harness: Harness, bench: Bench) -> None:
    """Every drive left to itself."""
    ok(call(harness, *((disk, "keep") for disk in bench.disks.values())))
    assert kept_files(harness) == ""


# --- what a drive says -----------------------------------------------------------------------------


def test_what_the_drives_say(harness: Harness, drives: Bench) -> None:
    """device_info asks the drive; the virtual disk of the root cannot be asked, and is no guess."""
    found = {one["identity"]["serial"]: one["write_cache"] for one in ok(harness.module("device_info", {}))["devices"]}
    for kind in KINDS:
        disk = disk_of(drives, kind)
        told = found[disk.serial]
        assert (told["present"], told["enabled"], told["saved"], told["protected"], told["fault"]) == (True, True, None, None, ""), (kind, told)
        assert told["changeable"] is (None if kind == "ata" else True), (kind, told)
        assert told["belief"] == "write back"
    root = next(told for serial, told in found.items() if serial.startswith("PLUMBROOT"))
    assert root["enabled"] is None and "virtio" in root["fault"]


# --- states ----------------------------------------------------------------------------------------


@pytest.mark.quick("write_cache")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "asked"), [("on", "off"), *(pytest.param("off", asked, marks=pytest.mark.long) for asked in ("on", "keep"))])
def test_first_run_rerun_and_check(harness: Harness, drives: Bench, kind: str, before: str, asked: str) -> None:
    """Check writes nothing, the first run sets, the second changes nothing, and the plan has no step left."""
    disk, wanted = disk_of(drives, kind), before if asked == "keep" else asked
    put(harness, disk, before)
    specs = [{**stack([disk], "separate"), "volumes": [{"name": "data"}], "write_cache": asked}]
    plan = ok(harness.module("stack_plan", {"stacks": specs, "through": "write_cache"}))
    assert [step["devices"][0]["state"] for step in plan["steps"]] == ([] if asked == "keep" else [asked])
    with drives.untouched(disk):
        checked = ok(call(harness, (disk, asked), check=True))
    assert (checked["changed"], checked["devices"][0]["before"], checked["devices"][0]["after"]) == (asked != "keep", before, wanted)
    assert state(harness, disk) == before and kept_files(harness) == ""
    first = ok(call(harness, (disk, asked)))
    assert first["changed"] is (asked != "keep") and state(harness, disk) == wanted
    (told,) = first["devices"]
    assert (told["before"], told["after"], told["kept"], told["findings"]) == (before, wanted, "" if asked == "keep" else asked, [])
    assert told["belief"] == "write back" if wanted == "on" else told["belief"] in ("write back", "write through")
    files = kept_files(harness)
    assert len(files.splitlines()) == (0 if asked == "keep" else len(FILES))
    again = ok(call(harness, (disk, asked)))
    assert again["changed"] is False and kept_files(harness) == files and state(harness, disk) == wanted
    assert harness.module("stack_plan", {"stacks": specs, "through": "write_cache"})["steps"] == []
    specs[0]["write_cache"] = "keep"
    left = harness.module("stack_plan", {"stacks": specs, "through": "write_cache"})["steps"]
    assert [step["devices"][0]["state"] for step in left] == ([] if asked == "keep" else ["keep"])
    harness.apply(left)
    assert state(harness, disk) == wanted and kept_files(harness) == ""
    assert harness.run(f"systemctl is-active {UNIT}")[1].split() == ["inactive"]
    put(harness, disk, "on")


def test_all_drives_in_one_call_and_by_the_plan(harness: Harness, drives: Bench) -> None:
    specs = [
        {**stack([disk], "separate", name=f"s{kind}"), "volumes": [{"name": kind}], "write_cache": "off"}
        for kind, disk in ((kind, disk_of(drives, kind)) for kind in KINDS)
    ]
    plan = ok(harness.module("stack_plan", {"stacks": specs, "through": "write_cache"}))
    (step,) = plan["steps"]
    assert len(step["devices"]) == len(KINDS) and plan["missing_packages"] == []
    harness.apply(plan["steps"])
    assert [state(harness, disk_of(drives, kind)) for kind in KINDS] == ["off"] * 3
    assert ok(harness.module("stack_plan", {"stacks": specs, "through": "write_cache"}))["changed"] is False
    harness.must(f"systemctl is-enabled {UNIT}")
    assert harness.run("systemd-analyze verify --man=no default.target 2>&1 | grep -E 'cycle|plumbline'")[1] == ""
    for kind in KINDS:
        disk = disk_of(drives, kind)
        told = harness.must(f"udevadm test --action=add /sys/class/block/{disk.kernel} 2>&1; true")
        tool = TOOLS[kind].split("-", maxsplit=1)[0]
        runs = [line for line in told.splitlines() if line.strip().startswith(("run: ", "RUN{program} : "))]  # systemd 252, 257
        assert [line for line in runs if f"/{tool} " in line and disk.path in line], told[-1500:]
    harness.must(f"echo '# meddled' >> {RULES}")
    (step,) = ok(harness.module("stack_plan", {"stacks": specs, "through": "write_cache"}))["steps"]
    harness.apply([step])
    assert harness.module("stack_plan", {"stacks": specs, "through": "write_cache"})["steps"] == []
    forget(harness, drives)
    for kind in KINDS:
        put(harness, disk_of(drives, kind), "on")


@pytest.mark.parametrize("kind", KINDS)
def test_a_belief_that_drops_flushes_is_mended(harness: Harness, drives: Bench, kind: str) -> None:
    """Somebody wrote queue/write_cache. Left to itself that is a critical finding; asked on, the kernel is made to look again."""
    disk = disk_of(drives, kind)
    harness.must(f"echo 'write through' > /sys/block/{disk.kernel}/queue/write_cache")
    (finding,) = ok(call(harness, (disk, "keep")))["devices"][0]["findings"]
    assert finding["level"] == "error" and disk.serial in finding["text"] and "flushes are dropped" in finding["text"]
    told = ok(call(harness, (disk, "on"), persist=False))
    assert told["changed"] is True and told["devices"][0]["belief"] == "write back" and told["devices"][0]["findings"] == []
    assert harness.must(f"cat /sys/block/{disk.kernel}/queue/write_cache").strip() == "write back"


# --- drives that do not do as they are told, and hosts that cannot ---------------------------------


def test_a_virtual_disk_is_refused(harness: Harness, drives: Bench) -> None:
    result = harness.module("write_cache", {"devices": [{"device": "/dev/vda", "state": "off"}]})
    assert_error(result, "device vda (PLUMBROOT)", "virtio", "wanted off", "write keep")
    assert kept_files(harness) == ""


@pytest.mark.parametrize(("cache", "wanted"), [(True, "off"), pytest.param(False, "on", marks=pytest.mark.long)])
def test_a_drive_that_says_it_cannot_be_changed(harness: Harness, drives: Bench, cache: bool, wanted: str) -> None:
    """Nothing is set on the others of the call either, and the plan refuses as well."""
    good = disk_of(drives, "nvme")
    with fixed_scsi(drives, harness, cache) as fixed:
        assert_error(call(harness, (good, "off"), (fixed, wanted)), fixed.kernel, f"is {'on' if cache else 'off'}", "cannot be changed", f"wanted {wanted}")
        assert state(harness, good) == "on" and kept_files(harness) == ""
        assert_refused(harness, [{**stack([fixed], "separate"), "volumes": [{"name": "data"}], "write_cache": wanted}], "cannot be changed")
        told = ok(call(harness, (fixed, "on" if cache else "off")))
        assert told["changed"] is False and told["devices"][0]["kept"] == ""


def test_a_controller_that_refuses_and_one_that_is_shared(harness: Harness, drives: Bench) -> None:
    """The kernel's NVMe target has a write cache and takes no Set Features for it. What was set before it is put back."""
    good = disk_of(drives, "scsi")
    with nvme_target(drives, harness, disk_of(drives, "ata"), disk_of(drives, "ata", 1)) as (first, second):
        assert_error(call(harness, (first, "off")), first.kernel, f"behind which is also {second.kernel}", "wanted all namespaces behind it")
        assert_error(call(harness, (first, "off"), (second, "on")), "wanted off here and another state")
        refused = call(harness, (good, "off"), (first, "off"), (second, "off"))
        assert_error(refused, f"{first.kernel} (SHAREDSSD01)", "its write cache is on and nvme refused to change it", "wanted off")
        assert state(harness, good) == "on" and kept_files(harness) == ""


@pytest.mark.long
def test_drives_of_which_one_undoes_the_other(harness: Harness, drives: Bench) -> None:
    """scsi_debug has one caching page for all its disks: setting the second takes the first back, without an error of any tool."""
    with drives.scsi_debug(2) as (first, second):
        result = call(harness, (first, "off"), (second, "on"))
        assert_error(result, second.kernel, "its write cache is off", "wanted on")
        assert [state(harness, disk) for disk in (first, second)] == ["on", "on"] and kept_files(harness) == ""


@pytest.mark.parametrize("kind", ["ata", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("scsi", "nvme"))])
def test_a_tool_is_missing(harness: Harness, drives: Bench, kind: str) -> None:
    tool = harness.must(f"readlink -f $(command -v {TOOLS[kind].split('-', maxsplit=1)[0]})").strip()
    disk, other = disk_of(drives, kind), disk_of(drives, "scsi" if kind != "scsi" else "ata")
    harness.must(f"mv {tool} {tool}.away")
    try:
        assert_error(call(harness, (other, "off"), (disk, "off")), f"install the package {TOOLS[kind]}")
        specs = [{**stack([disk], "separate"), "volumes": [{"name": "data"}], "write_cache": "off"}]
        assert ok(harness.module("stack_plan", {"stacks": specs}))["missing_packages"] == [TOOLS[kind]]
        assert ok(harness.module("stack_plan", {"stacks": [{**specs[0], "write_cache": "keep"}]}))["missing_packages"] == []
    finally:
        harness.must(f"mv {tool}.away {tool}")
    assert kept_files(harness) == ""
    assert [state(harness, one) for one in (disk, other)] == ["on", "on"]


def test_not_root(harness: Harness, drives: Bench) -> None:
    asked = {"module": "plumbline.ssd.write_cache", "args": {"devices": [{"device": "/dev/vda", "state": "off"}]}, "check": False, "diff": False}
    program = f"""
import os, sys
sys.path.insert(0, {HOME!r})
import guest_server
guest_server.load({asked["module"]!r})
from ansible.module_utils._internal._json._profiles import _module_legacy_c2m, _module_legacy_m2c  # what nobody else may read is read before
os.setuid(65534)
guest_server.run_module({asked!r})
"""
    code, out, err = harness.run(f"python3 - <<'PROGRAM'\n{program}PROGRAM")
    assert code == 1 and "root is missing" in out and "become: true" in out, out + err


@pytest.mark.parametrize("name", ["scsi-nosuchdrive", "nvme-WCNVME"])
def test_a_drive_that_is_not_there(harness: Harness, drives: Bench, name: str) -> None:
    good = disk_of(drives, "scsi")
    result = harness.module("write_cache", {"devices": [{"device": good.by_id, "state": "off"}, {"device": name, "state": "off"}]})
    assert_error(result, f"device /dev/disk/by-id/{name} is not there")
    assert state(harness, good) == "on"


# --- kept ------------------------------------------------------------------------------------------


def witness(harness: Harness, kind: str, disk: Disk) -> None:
    """A filesystem in fstab, and a unit that writes down what the drive says right before that is mounted."""
    # The filesystem is on the whole disk, so that nothing but the disk's own event stands between it and the mount.
    harness.must(
        f"mkfs.ext4 -q -F {link(disk)}; udevadm settle; mkdir -p /pl/{disk.name}; uuid=$(blkid -o value -s UUID {link(disk)})\n"
        f"echo UUID=$uuid /pl/{disk.name} ext4 noatime,nofail,x-systemd.device-timeout=300s 0 0 >> /etc/fstab\n"
        f"device=$(systemd-escape --path --suffix=device /dev/disk/by-uuid/$uuid)\n"
        f"cat > /etc/systemd/system/lab-witness-{disk.name}.service <<UNIT\n[Unit]\nDefaultDependencies=no\nAfter=$device\nRequires=$device\n"
        f"[Service]\nType=oneshot\nExecStart=/bin/bash /etc/lab-witness-{disk.name}\nUNIT\n"
        f"cat > /etc/lab-witness-{disk.name} <<'ASK'\n({question(disk)}) > /run/witness-{disk.name}\nASK\n"
        f"mkdir -p /etc/systemd/system/pl-{disk.name}.mount.d\n"
        f"printf '[Unit]\\nRequires=lab-witness-{disk.name}.service\\nAfter=lab-witness-{disk.name}.service\\n' "
        f"> /etc/systemd/system/pl-{disk.name}.mount.d/witness.conf; systemctl daemon-reload"
    )


def witnessed(bench: Bench, disk: Disk) -> str:
    """What the drive said before the mount."""
    bench.wait(f"systemctl is-active --quiet pl-{disk.name}.mount", 300)
    return bench.guest.must(f"cat /run/witness-{disk.name}").strip()


@pytest.fixture(scope="module")
def kept(harness: Harness, drives: Bench) -> Bench:
    """All six are off, with a filesystem each; the first of each kind is kept so, the second is not."""
    for kind in KINDS:
        for number in (0, 1):
            witness(harness, kind, disk_of(drives, kind, number))
    ok(call(harness, *((disk_of(drives, kind, 1), "off") for kind in KINDS), persist=False))
    assert kept_files(harness) == ""
    ok(call(harness, *((disk_of(drives, kind), "off") for kind in KINDS)))
    assert states(harness, drives) == [("off", "off")] * 3
    return drives


def states(harness: Harness, bench: Bench, kinds: Sequence[str] = KINDS) -> list[tuple[str, str]]:
    """(kept drive, its twin) of each kind."""
    return [(state(harness, disk_of(bench, kind)), state(harness, disk_of(bench, kind, 1))) for kind in kinds]


def until_off(harness: Harness, bench: Bench, kinds: Sequence[str], seconds: float) -> float:
    """How long until the kept drives are off again."""
    begin = time.monotonic()
    while any(first != "off" for first, _second in states(harness, bench, kinds)):
        assert time.monotonic() - begin < seconds, f"not off after {seconds} s: {states(harness, bench, kinds)}"
    return time.monotonic() - begin


def reset_without_an_event(harness: Harness, bench: Bench) -> None:
    """Nothing sets them by the clock. What looks next does: here the service."""
    for kind in KINDS:
        for number in (0, 1):
            put(harness, disk_of(bench, kind, number), "on")
    time.sleep(7)
    assert states(harness, bench) == [("on", "on")] * 3
    harness.must(f"systemctl start {UNIT}")
    assert states(harness, bench) == [("off", "on")] * 3, "the twins have no rule"


# What the kernel sent to drives beside reads, writes, flushes and discards: its own events for SCSI and ATA, and the admin queue of NVMe.
TRACED = """cd /sys/kernel/tracing && echo > trace && echo 1 > events/scsi/scsi_dispatch_cmd_start/enable && echo 1 > events/nvme/nvme_setup_cmd/enable
sleep {seconds}; echo 0 > events/enable
grep -E 'scsi_dispatch|nvme_setup' trace | grep -vE 'cmnd=\\((READ|WRITE|SYNCHRONIZE_CACHE|UNMAP)' | grep -vE 'nvme_setup.*qid=[1-9]' || true"""
COUNTED = "cat /sys/block/{kernel}/device/iorequest_cnt"


def test_an_idle_host_sends_its_drives_nothing(harness: Harness, kept: Bench) -> None:
    """Over a time in which a timer of five seconds would have asked six times. On a SATA drive each question would wait for an empty queue."""
    harness.must("mkdir -p /sys/kernel/tracing; mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing")
    commands = TRACED.format(seconds=2)
    asked = harness.must(f"({question(disk_of(kept, 'ata'))}; {question(disk_of(kept, 'nvme'))}) > /dev/null & {commands}")
    assert "scsi_dispatch_cmd_start" in asked and "nvme_setup_cmd" in asked, "a question is seen"
    harness.must("sync; systemctl stop smartmontools.service 2>/dev/null || true; umount /pl/* || true")
    counts = "; ".join(COUNTED.format(kernel=disk_of(kept, kind).kernel) for kind in ("ata", "scsi"))
    before = harness.must(counts)
    assert harness.must(TRACED.format(seconds=30)) == ""
    assert harness.must(counts) == before


def test_a_default_that_came_back_without_any_event_stays_until_the_next_look(harness: Harness, kept: Bench) -> None:
    """The next run would set it, and the service says once what it had to set."""
    harness.must("journalctl --rotate --vacuum-time=1s > /dev/null 2>&1 || true; date +%s > /run/lab-since")
    put(harness, disk_of(kept, "ata"), "on")
    assert ok(call(harness, (disk_of(kept, "ata"), "off"), check=True))["changed"]
    reset_without_an_event(harness, kept)
    said_so = harness.must(f"journalctl -o cat -u {UNIT} --since @$(cat /run/lab-since)").splitlines()
    assert len(said_so) == len(KINDS) and all("was set again" in line for line in said_so), said_so


def test_flushes_that_somebody_switched_off_come_back_with_the_next_look(harness: Harness, kept: Bench) -> None:
    """By the service, which says it once, and leaves a drive alone whose cache is kept off; and by the next run."""
    disks = [disk_of(kept, kind, 1) for kind in KINDS]
    ok(call(harness, *((disk, "on") for disk in disks)))
    off = disk_of(kept, "nvme")
    beliefs = "cat " + " ".join(f"/sys/block/{disk.kernel}/queue/write_cache" for disk in disks)
    names = " ".join(disk.kernel for disk in (*disks, off))
    drop = f"for name in {names}; do echo 'write through' > /sys/block/$name/queue/write_cache; done"
    harness.must(f"date +%s > /run/lab-since; {drop}; systemctl start {UNIT}")
    assert set(harness.must(beliefs).splitlines()) == {"write back"}
    said = harness.must(f"journalctl -o cat -u {UNIT} --since @$(cat /run/lab-since)").splitlines()
    assert len(said) == len(KINDS) and all("the kernel sent it no flushes" in line for line in said), said
    assert harness.must(f"cat /sys/block/{off.kernel}/queue/write_cache").strip() == "write through"
    harness.must(drop)
    assert ok(call(harness, *((disk, "on") for disk in disks)))["changed"] and set(harness.must(beliefs).splitlines()) == {"write back"}
    harness.must(f"echo 'write back' > /sys/block/{off.kernel}/queue/write_cache")
    ok(call(harness, *((disk, "keep") for disk in disks)))


def test_the_timer_of_an_earlier_release_goes_with_the_next_run(harness: Harness, kept: Bench) -> None:
    """Stopped, disabled and removed; the diff shows it, and a second run finds nothing to do."""
    harness.must(
        f"printf '[Timer]\\nOnActiveSec=1s\\nOnUnitActiveSec=5s\\nAccuracySec=1s\\n[Install]\\nWantedBy=timers.target\\n' > {OLD_TIMER}; "
        f"systemctl daemon-reload; systemctl enable --quiet --now {OLD_TIMER.rsplit('/', 1)[-1]}; systemctl is-active {OLD_TIMER.rsplit('/', 1)[-1]}"
    )
    asked = [(disk_of(kept, kind), "off") for kind in KINDS]
    done = ok(call(harness, *asked))
    assert done["changed"] and f"{OLD_TIMER}: asks every drive every five seconds" in done["diff"]["before"], done
    assert harness.run(f"ls {OLD_TIMER} /etc/systemd/system/*.wants/plumbline-write-cache.timer")[1] == ""
    assert harness.must("systemctl list-units --all --no-legend 'plumbline-write-cache.timer'") == ""
    assert ok(call(harness, *asked))["changed"] is False


@pytest.mark.long
def test_without_rule_and_service_the_default_stays(harness: Harness, kept: Bench) -> None:
    harness.must(f"mv {RULES} /run/; udevadm control --reload")
    try:
        for kind in KINDS:
            put(harness, disk_of(kept, kind), "on")
        harness.must("nvme reset $(readlink -f /dev/disk/by-id/{} | sed 's/n[0-9]*$//')".format(disk_of(kept, "nvme").by_id))
        reset_of_a_scsi_drive(harness, disk_of(kept, "scsi"))
        time.sleep(11)
        assert [first for first, _second in states(harness, kept)] == ["on"] * 3
    finally:
        harness.must(f"mv /run/{RULES.rsplit('/', 1)[-1]} {RULES}; udevadm control --reload; systemctl start {UNIT}")
    until_off(harness, kept, KINDS, 10)


def reset_of_a_controller(harness: Harness, bench: Bench) -> None:
    """By the event of the reconnected controller alone."""
    for number in (0, 1):
        disk = disk_of(bench, "nvme", number)
        put(harness, disk, "on")
        harness.must(f"nvme reset {disk.path.rsplit('n', 1)[0]}")
    until_off(harness, bench, ["nvme"], 10)
    assert states(harness, bench, ["nvme"]) == [("off", "on")]


def reset_of_a_scsi_drive(harness: Harness, disk: Disk) -> None:
    """A reset of the logical unit, which the drive reports with the next command. QEMU's keeps its setting over it, so that comes before."""
    put(harness, disk, "on")
    # scsi/sg.h: SG_SCSI_RESET, SG_SCSI_RESET_DEVICE
    program = f"import fcntl, os; fcntl.ioctl(os.open('{link(disk)}', os.O_RDWR | os.O_NONBLOCK), 0x2284, b'\\1\\0\\0\\0')"
    harness.must(f'python3 -c "{program}"')


def test_a_scsi_drive_that_was_reset_is_off_again(harness: Harness, kept: Bench) -> None:
    """By the event that the kernel makes of the drive's own report. It is said in the kernel's log."""
    harness.must("dmesg --clear")
    for number in (0, 1):
        reset_of_a_scsi_drive(harness, disk_of(kept, "scsi", number))
    until_off(harness, kept, ["scsi"], 10)
    assert states(harness, kept, ["scsi"]) == [("off", "on")]
    assert "its write cache was not off any more and was set again" in harness.must("dmesg")


def test_a_controller_that_was_reset_is_off_again(harness: Harness, kept: Bench) -> None:
    reset_of_a_controller(harness, kept)


def replugged(harness: Harness, bench: Bench, kind: str, with_rule: bool = True) -> None:
    """Both drives of a kind are pulled and plugged in, with the mounts already waiting for them."""
    disks = [disk_of(bench, kind, number) for number in (0, 1)]
    harness.must(f"umount {' '.join(f'/pl/{disk.name}' for disk in disks)} || true")
    harness.must("systemctl stop " + " ".join(f"lab-witness-{disk.name}" for disk in disks) + "; rm -f /run/witness-*")
    if not with_rule:
        harness.must(f"mv {RULES} /run/; udevadm control --reload")
    try:
        bench.pull(*disks)
        harness.must("systemctl start --no-block " + " ".join(f"pl-{disk.name}.mount" for disk in disks))
        bench.plug(*disks)
        assert [witnessed(bench, disk) for disk in disks] == (["off", "on"] if with_rule else ["on", "on"])
        assert states(harness, bench, [kind]) == [("off", "on") if with_rule else ("on", "on")]
    finally:
        if not with_rule:
            harness.must(f"mv /run/{RULES.rsplit('/', 1)[-1]} {RULES}; udevadm control --reload; systemctl start {UNIT}")


@pytest.mark.parametrize("kind", [pytest.param("scsi", marks=pytest.mark.long), "nvme"])
def test_plugged_in_again_it_is_off_before_the_mount(harness: Harness, kept: Bench, kind: str) -> None:
    replugged(harness, kept, kind)


@pytest.mark.parametrize("kind", [pytest.param("scsi", marks=pytest.mark.long), "nvme"])
def test_plugged_in_again_without_the_rule_it_is_on(harness: Harness, kept: Bench, kind: str) -> None:
    replugged(harness, kept, kind, with_rule=False)
    until_off(harness, kept, [kind], 10)


def test_a_drive_that_comes_off_is_on_again_and_gets_its_flushes(harness: Harness, kept: Bench) -> None:
    """sd has read "off" before the rule ran: a belief "write through" that stayed would drop flushes. By the rule alone."""
    disk = kept.disks["wcoff"]
    told = ok(call(harness, (disk, "on")))["devices"][0]
    assert (told["before"], told["after"], told["belief"]) == ("off", "on", "write back")
    kept.pull(disk)
    kept.plug(disk)
    disk = kept.disks["wcoff"]
    assert state(harness, disk) == "on"
    assert harness.must(f"cat /sys/block/{disk.kernel}/queue/write_cache").strip() == "write back"
    ok(call(harness, (disk, "keep")))


def booted(harness: Harness, bench: Bench) -> None:
    bench.boot_again()
    for kind in KINDS:
        assert [witnessed(bench, disk_of(bench, kind, number)) for number in (0, 1)] == ["off", "on"], kind
    assert states(harness, bench) == [("off", "on")] * 3


@pytest.mark.long(minutes=2)
def test_after_a_new_boot_it_is_off_before_the_mount(harness: Harness, kept: Bench) -> None:
    """The twins, that nobody keeps, come with their default, and are on."""
    booted(harness, kept)


@pytest.mark.long(minutes=8)
def test_five_of_five(harness: Harness, kept: Bench) -> None:
    """Boot, plugging, a controller's reset, a SCSI drive's, and a default that came back without an event, five times each."""
    for _turn in range(5):
        booted(harness, kept)
        reset_without_an_event(harness, kept)
        reset_of_a_controller(harness, kept)
        reset_of_a_scsi_drive(harness, disk_of(kept, "scsi"))
        until_off(harness, kept, ["scsi"], 10)
        for kind in ("scsi", "nvme"):
            replugged(harness, kept, kind)


def test_keep_leaves_nothing_behind(harness: Harness, kept: Bench) -> None:
    """One by one: with the last drive goes the last file; the drives stay as they are."""
    put(harness, disk_of(kept, "scsi", 1), "on")
    for number, kind in enumerate(KINDS, 1):
        told = ok(call(harness, (disk_of(kept, kind), "keep")))
        assert told["changed"] is True
        assert len(kept_files(harness).splitlines()) == (len(FILES) if number < len(KINDS) else 0)
        assert (disk_of(kept, kind).serial in harness.run("cat /var/lib/plumbline/write_cache.json")[1]) is False
    assert [first for first, _second in states(harness, kept)] == ["off"] * 3
    assert harness.run(f"systemctl list-units --all --no-legend {UNIT} | grep -v not-found")[1] == ""
    assert harness.run("ls /etc/plumbline /etc/systemd/system/*.wants/plumbline-*")[1] == ""
    put(harness, disk_of(kept, "nvme"), "on")
    time.sleep(7)
    assert state(harness, disk_of(kept, "nvme")) == "on"
