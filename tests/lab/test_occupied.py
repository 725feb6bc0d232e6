# SPDX-License-Identifier: GPL-3.0-or-later
"""Foreign contents of every kind: on a whole disk, on a partition, behind a holder; planned, planned in check mode, written, probed.

The disks of a batch are planned while they are blank, then get their contents, and then everything that writes is asked to.
All must refuse, for the right reason; the host counts no write, and each disk's file has the same digest afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from labkit.audits import audit_host
from labkit.bench import Bench, Disk, pool
from labkit.contents import KINDS, SHORT
from labkit.harness import Harness, HarnessError
from labkit.specs import assert_error, said, stack
from plumblab import machine, storage
from plumblab import state as states

BATCH = 16
DISKS = pool(range(BATCH))
PLACES = ("whole", "partition", "behind")
PROBED = 3  # of a batch each probe is asked about so many devices; they refuse one device a call, for the same reasons


@dataclass(frozen=True)
class Case:
    """One kind of content in one place."""

    kind: str
    place: str

    @property
    def reason(self) -> str:
        return {"whole": KINDS[self.kind].reason, "partition": "[table]", "behind": "[held]"}[self.place]


def cases() -> list[Case]:
    """Every kind in every place where it can be."""
    return [Case(kind, place) for place in PLACES for kind, made in KINDS.items() if place != "behind" or made.behind]


def batches() -> Iterator[Any]:
    """The representative batches first, then the rest; each of at most BATCH disks."""
    short = [Case(kind, "whole") for kind in SHORT]
    mixed = [Case(kind, "partition") for kind in SHORT[:3]] + [Case(kind, "behind") for kind in SHORT if KINDS[kind].behind][:3]
    rest = [case for case in cases() if case not in short + mixed]
    yield pytest.param(short, id="representative", marks=pytest.mark.long(minutes=2))
    yield pytest.param(mixed, id="partitions-and-holders", marks=pytest.mark.long)
    for at in range(0, len(rest), BATCH):
        yield pytest.param(rest[at : at + BATCH], id=f"all-{at // BATCH}", marks=pytest.mark.long)


def put(harness: Harness, case: Case, disk: Disk) -> None:
    """Make the content."""
    make = KINDS[case.kind].make
    if case.place == "whole":
        harness.must(make.replace("{d}", disk.path))
    elif case.place == "partition":
        harness.must(f"printf 'label: gpt\\nstart=2048\\n' | sfdisk -q {disk.path}; udevadm settle")
        harness.must(make.replace("{d}", disk.part()))
    else:
        name = f"pl-under-{disk.kernel}"
        harness.must(f"dmsetup create {name} --table \"0 $(blockdev --getsz {disk.path}) linear {disk.path} 0\"; udevadm settle")
        harness.must(make.replace("{d}", f"/dev/mapper/{name}"))


def digests(bench: Bench, disks: list[Disk]) -> dict[str, str]:
    """Of the disks' files on the host, with everything that the guest holds back written out."""
    bench.guest.must("sync; udevadm settle --timeout=30")
    with states.exclusive(bench.paths):
        known = {disk.name: disk for disk in machine.require_up(bench.paths).disks()}
    found = {}
    for disk in disks:
        digest = hashlib.sha256()
        with storage.file_of(bench.paths, known[disk.name]).open("rb") as handle:
            while piece := handle.read(1 << 20):
                digest.update(piece)
        found[disk.name] = digest.hexdigest()
    return found


def separate(number: int, disk: Disk) -> dict[str, Any]:
    return stack([disk], "separate", name=f"s{number}")


def lines_of(result: dict[str, Any], disk: Disk) -> list[str]:
    """The reasons that are about a disk, by either of the names that plan and writer use."""
    return [line for line in result.get("reasons", []) if f"device {disk.kernel} " in line or line.startswith((f"{disk.path}:", f"{disk.part()}:"))]


@pytest.mark.parametrize("batch", list(batches()))
def test_foreign_contents_are_refused_and_left_alone(
    bench: Bench, harness: Harness, disks: dict[str, Disk], batch: list[Case], figure: Callable[..., None]
) -> None:
    on = dict(zip(batch, disks.values(), strict=False))
    used = list(on.values())
    spec = [separate(number, disk) for number, disk in enumerate(used)]
    blank = harness.module("stack_plan", {"stacks": spec, "through": "partition"})
    assert not blank["failed"], said(blank)
    request = [device for step in blank["steps"] for device in step["devices"]]
    assert len(request) == len(batch)

    unmade = {}
    for case, disk in on.items():
        try:
            put(harness, case, disk)
        except HarnessError as error:
            unmade[case] = str(error)[-300:]
    assert not unmade, unmade

    before = digests(bench, used)
    with bench.untouched(*used):
        for check in (False, True):
            result = harness.module("stack_plan", {"stacks": spec}, check=check)
            assert_error(result, "refused: nothing was written")
            for case, disk in on.items():
                assert any(case.reason in line for line in lines_of(result, disk)), (case, lines_of(result, disk))
        for check in (True, False):
            assert_writer_refuses(harness, request, on, check)
        for case, disk in list(on.items())[:PROBED]:
            device = disk.part() if case.place == "partition" else disk.path
            assert_error(harness.module("offset_sweep", {"device": device, "write": True}))
            assert_error(harness.module("throughput", {"volumes": [device], "write": True}))
        audit_host(harness)
    assert digests(bench, used) == before
    figure("occupied", contents=len(batch), not_refused=0, write_requests=0, digests_changed=0)


def assert_writer_refuses(harness: Harness, request: list[dict[str, Any]], on: dict[Case, Disk], check: bool) -> None:
    """With the plan of the blank disks. What is held cannot even be opened alone, which the writer waits for a while: one of those is enough.

    Whole devices are read for data only where nothing else speaks against any of them, so those that carry nothing but data are asked about by themselves.
    """
    free = [(case, disk, device) for (case, disk), device in zip(on.items(), request, strict=True) if case.place != "behind"]
    for only_data in (False, True):
        asked = [one for one in free if (one[0].reason == "[data]") == only_data]
        if asked:
            result = harness.module("aligned_partition", {"devices": [device for _case, _disk, device in asked]}, check=check)
            assert_error(result, "refused at the write")
            for case, disk, _device in asked:
                assert any(case.reason in line for line in lines_of(result, disk)), (case, lines_of(result, disk))
    held = [device for device, case in zip(request, on, strict=True) if case.place == "behind"]
    for device in held[:1]:
        assert_error(harness.module("aligned_partition", {"devices": [device]}, check=check), "[busy]")


# --- uses that claim nothing -----------------------------------------------------------------------

_LIO = """
modprobe target_core_mod target_core_file
mkdir -p /sys/kernel/config/target/core/fileio_0/plumb
echo fd_dev_name={d},fd_dev_size=$(blockdev --getsize64 {d}) > /sys/kernel/config/target/core/fileio_0/plumb/control
echo 1 > /sys/kernel/config/target/core/fileio_0/plumb/enable
"""
_LIO_AWAY = "rmdir /sys/kernel/config/target/core/fileio_0/plumb /sys/kernel/config/target/core/fileio_0"
_NVMET = """
modprobe nvmet
mkdir -p /sys/kernel/config/nvmet/subsystems/plumb/namespaces/1
echo -n {d} > /sys/kernel/config/nvmet/subsystems/plumb/namespaces/1/device_path
echo 1 > /sys/kernel/config/nvmet/subsystems/plumb/namespaces/1/enable
"""
_NVMET_AWAY = """
cd /sys/kernel/config/nvmet/subsystems
echo 0 > plumb/namespaces/1/enable; rmdir plumb/namespaces/1 plumb
"""
_READER = (
    'systemd-run -q --unit=plumbline-reader python3 -c \'import os,time; os.open("{d}", os.O_RDONLY); open("/run/opened", "w"); time.sleep(900)\''
    "; for n in $(seq 100); do test -e /run/opened && break; sleep 0.1; done; rm /run/opened"
)
UNCLAIMED = {
    "loop": ("losetup /dev/loop6 {d}", "losetup -d /dev/loop6", "[backing]", "loop device loop6"),
    "lio-fileio": (_LIO, _LIO_AWAY, "[backing]", "SCSI target fileio_0/plumb"),
    "nvmet": (_NVMET, _NVMET_AWAY, "[backing]", "namespace 1 of NVMe target plumb"),
    "reader": (_READER, "systemctl stop plumbline-reader", "[open]", "python3"),
}


@pytest.mark.parametrize("use", [use if use == "reader" else pytest.param(use, marks=pytest.mark.long) for use in UNCLAIMED])
def test_a_use_that_claims_nothing(bench: Bench, harness: Harness, disks: dict[str, Disk], use: str, figure: Callable[..., None]) -> None:
    """On a blank disk, which could be opened exclusively all the same."""
    begin, end, reason, words = UNCLAIMED[use]
    disk = disks["p0"]
    request = harness.module("stack_plan", {"stacks": [separate(0, disk)], "through": "partition"})["steps"][0]["devices"]
    harness.must(begin.replace("{d}", disk.path))
    try:
        with bench.untouched(disk):
            assert_error(harness.module("stack_plan", {"stacks": [separate(0, disk)]}), reason, words)
            assert_error(harness.module("aligned_partition", {"devices": request}), reason, words)
    finally:
        harness.run(end)
    assert not harness.module("stack_plan", {"stacks": [separate(0, disk)]})["failed"], "the use has ended"
    figure("occupied", uses_that_claim_nothing=1)


@pytest.mark.parametrize("use", ["reader", pytest.param("nvmet", marks=pytest.mark.long)])
def test_a_use_of_an_empty_volume_of_ours(bench: Bench, harness: Harness, disks: dict[str, Disk], use: str, figure: Callable[..., None]) -> None:
    """A raw volume without any signature: mkfs could open it exclusively, and would overwrite it."""
    begin, end, reason, words = UNCLAIMED[use]
    legs = [disks["p0"], disks["p1"]]
    spec = {"stacks": [stack(legs)]}
    plan = harness.module("stack_plan", {**spec, "through": "striped_lvm"})
    harness.apply(plan["steps"])
    (volume,) = spec["stacks"][0]["volumes"]
    harness.must("udevadm settle; " + begin.replace("{d}", f"/dev/{spec['stacks'][0]['name']}/{volume['name']}"))
    try:
        with bench.untouched(*legs):
            assert_error(harness.module("stack_plan", spec), reason, words)
    finally:
        harness.run(end)
    assert [step["action"] for step in harness.module("stack_plan", spec)["steps"]] == ["filesystem", "mount"]
    figure("occupied", uses_that_claim_nothing=1)


# --- erase -----------------------------------------------------------------------------------------

ERASED = ("ext4", "pv-with-lv", "luks2", "md-1.2", "gpt-with-partitions", "noise", "asm")


def signature_of(result: dict[str, Any], disk: Disk) -> dict[str, str]:
    """What the refusal offers for a disk."""
    (line,) = (line for line in lines_of(result, disk) if line.endswith("[erase]"))
    (offered,) = yaml.safe_load(line.split(" erase: ")[1].rpartition(" [erase]")[0])
    return dict(offered)


@pytest.mark.long  # the scenario of this name erases one disk, with playbooks
def test_erase_with_what_the_refusal_printed(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """Seven disks, each with something else; the eighth stands by and is not touched. A signature of another disk fits none."""
    on = dict(zip(ERASED, disks.values(), strict=False))
    bystander = disks[f"p{len(ERASED)}"]
    harness.must(f"mkfs.ext4 -q -F {bystander.path}")
    for kind, disk in on.items():
        put(harness, Case(kind, "whole"), disk)
    spec = [separate(number, disk) for number, disk in enumerate(on.values())]
    refused = harness.module("stack_plan", {"stacks": spec})
    assert_error(refused)
    wishes = [signature_of(refused, disk) for disk in on.values()]
    before = digests(bench, [bystander])
    with bench.untouched():
        wrong = [{**one, "erase": [{**wishes[number], "signature": wishes[number - 1]["signature"]}]} for number, one in enumerate(spec)]
        assert_error(harness.module("stack_plan", {"stacks": wrong}), "[erase]", "and it carries")
        right = [{**one, "erase": [wishes[number]]} for number, one in enumerate(spec)]
        planned = harness.module("stack_plan", {"stacks": right}, check=True)
        assert not planned["failed"], said(planned)
        assert all(device["erase"] and device["removes"] for step in planned["steps"] if step["action"] == "partition" for device in step["devices"])
        assert planned["diff"]["before"].count("to be erased: ") >= len(on)
    with bench.untouched(bystander):
        plan = harness.build(right)
        assert [step["action"] for step in plan["steps"]].count("partition") == len(on)
        again = harness.module("stack_plan", {"stacks": right})
        assert not again["failed"] and again["steps"] == [], said(again)
    assert digests(bench, [bystander]) == before
    kept = harness.must("find /var/lib/plumbline/backup -type f -printf '%m %f\\n'")
    assert kept.count("600 head.img") == len(on) and "600 luks-" in kept and "600 table.sfdisk" in kept and "600 vg-oldlv" in kept


def test_erase_never_takes_a_device_in_use(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """The signature is right, and the filesystem is mounted after it was printed: before the plan, and between plan and write."""
    disk = disks["p0"]
    harness.must(f"mkfs.ext4 -q -F {disk.path}")
    wish = signature_of(harness.module("stack_plan", {"stacks": [separate(0, disk)]}), disk)
    spec = [{**separate(0, disk), "erase": [wish]}]
    plan = harness.module("stack_plan", {"stacks": spec, "through": "partition"})
    harness.must(f"mkdir -p /pl/live; mount -o ro,noload {disk.path} /pl/live")
    try:
        with bench.untouched(disk):
            assert_error(harness.module("stack_plan", {"stacks": spec}), "[mounted]")
            assert_error(harness.module("aligned_partition", {"devices": plan["steps"][0]["devices"]}), "[busy]")
    finally:
        harness.must("umount /pl/live")


def test_erase_of_what_changed_since_the_plan(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["p0"]
    harness.must(f"mkfs.ext4 -q -F {disk.path}")
    wish = signature_of(harness.module("stack_plan", {"stacks": [separate(0, disk)]}), disk)
    plan = harness.module("stack_plan", {"stacks": [{**separate(0, disk), "erase": [wish]}], "through": "partition"})
    harness.must(f"tune2fs -L changed {disk.path} >/dev/null")
    with bench.untouched(disk):
        assert_error(harness.module("aligned_partition", {"devices": plan["steps"][0]["devices"]}), "what it carries changed since the plan")
