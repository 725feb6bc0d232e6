# SPDX-License-Identifier: GPL-3.0-or-later
"""The three layouts of case 1 on every kind of disk: right at every layer of every leg, by an independent reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from labkit import oracle
from labkit.bench import MIB, Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import errors, said, stack


@dataclass(frozen=True)
class Kind:
    """A kind of disk: how the lab declares it, and what its flash wants (bytes), by its data sheet and not by the collection."""

    declaration: dict[str, Any] | None
    grain: int
    phase: int = 0


KINDS = {
    "nvme512": Kind({"bus": "nvme"}, 4096),
    "scsi512e": Kind({"bus": "scsi", "physical_block_size": 4096}, 4096),
    "nvme4kn": Kind({"bus": "nvme", "logical_block_size": 4096}, 4096),
    "scsi16k": Kind({"bus": "scsi", "physical_block_size": 4096, "min_io_size": 16384}, 16384),
    "offset3584": Kind(None, 4096, 3584),
}
# Name → layout and number of striped volumes.
LAYOUTS = {"one": ("striped", 1), "three": ("striped", 3), "each": ("separate", 0)}
GROUPS = [
    pytest.param("nvme512", 2, id="nvme512-2legs", marks=pytest.mark.long),
    pytest.param("scsi512e", 2, id="scsi512e-2legs", marks=pytest.mark.long),
    pytest.param("scsi512e", 3, id="scsi512e-3legs", marks=pytest.mark.long),
    pytest.param("nvme4kn", 2, id="nvme4kn-2legs", marks=pytest.mark.long),
    pytest.param("offset3584", 2, id="offset3584-2legs"),
    pytest.param("scsi16k", 2, id="scsi16k-2legs", marks=pytest.mark.long),
    pytest.param("scsi512e", 5, id="scsi512e-5legs", marks=pytest.mark.long),
]


@dataclass(frozen=True)
class Built:
    """A host with all three layouts, built by one plan and read once more."""

    kind: Kind
    legs: int
    disks: dict[str, list[Disk]]
    specs: dict[str, dict[str, Any]]
    plan: dict[str, Any]
    again: dict[str, Any]


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest, bench: Bench, harness: Harness) -> Iterator[Built]:
    """All layouts on disks of one kind."""
    name, legs = request.param
    kind = KINDS[name]
    with ExitStack() as stacked:
        if kind.declaration is None:
            bench.replace([])
            disks = stacked.enter_context(bench.scsi_debug(3 * legs, size_mib=96, physblk_exp=3, lowest_aligned=7))
        else:
            wanted = pool(map(str, range(3 * legs)))
            if name != "scsi512e":
                wanted = [{"name": f"leg{number}", "size": "96MiB", "serial": f"{name.upper()}{number}", **kind.declaration} for number in range(3 * legs)]
            disks = list(bench.replace(wanted).values())
        shares = {layout: disks[at * legs : (at + 1) * legs] for at, layout in enumerate(LAYOUTS)}
        specs = {layout: stack(shares[layout], *LAYOUTS[layout], name=layout) for layout in LAYOUTS}
        plan = harness.build(list(specs.values()))
        again = harness.module("stack_plan", {"stacks": list(specs.values())})
        yield Built(kind, legs, shares, specs, plan, again)


@pytest.mark.parametrize("built", [pytest.param(group.values, id=group.id, marks=group.marks) for group in GROUPS], indirect=True)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layer_of_every_leg_is_on_the_grain(harness: Harness, built: Built, layout: str) -> None:
    shape, volumes = LAYOUTS[layout]
    disks = built.disks[layout]
    own = [step["action"] for step in built.plan["steps"] if step["action"] == "mount" or step["stack"] == layout]
    assert own == expected_actions(shape, volumes, built.legs)
    mounts = [mount["volume"] for mount in built.plan["steps"][-1]["mounts"] if mount["stack"] == layout]
    assert sorted(mounts) == sorted(volume["name"] for volume in built.specs[layout]["volumes"])
    read = [oracle.read_volume(harness, volume["mount"]) for volume in built.specs[layout]["volumes"]]
    for volume in read:
        check_volume(volume, built.kind, shape, built.legs)
    check_disks(read, disks, shape)
    if shape == "striped":
        check_pvs(harness, disks, built.kind, read)
    check_report(built.again, read)


@pytest.mark.parametrize("built", [pytest.param(group.values, id=group.id, marks=group.marks) for group in GROUPS], indirect=True)
def test_a_second_run_has_nothing_to_do(built: Built) -> None:
    assert not built.again["failed"], said(built.again)
    assert (built.again["steps"], built.again["changed"], errors(built.again)) == ([], False, [])


def expected_actions(shape: str, volumes: int, legs: int) -> list[str]:
    """The steps from bare disks to mounts, in order."""
    if shape == "separate":
        return ["partition"] + ["filesystem"] * legs + ["mount"]
    return ["partition", "volume_group"] + ["logical_volume"] * volumes + ["filesystem"] * volumes + ["mount"]


def check_volume(volume: oracle.Volume, kind: Kind, shape: str, legs: int) -> None:
    """Partition, data and chunks of every leg are on the grain; ext4 knows the stripes; the mount is the one of fstab."""
    for leg in volume.legs:
        assert leg.partition % kind.grain == kind.phase
        assert leg.data % kind.grain == kind.phase
        assert leg.partition % MIB == kind.phase, "not on a whole MiB plus the device's own offset"
    assert volume.chunk % kind.grain == 0
    assert volume.size % kind.grain == 0
    if shape == "striped":
        assert len(volume.legs) == legs
        assert volume.chunk == max(65536, kind.grain)
        assert (volume.stride * volume.block, volume.stripe_width * volume.block) == (volume.chunk, volume.chunk * legs)
    else:
        assert (volume.chunk, len(volume.legs)) == (0, 1)
        assert (volume.stride * volume.block, volume.stripe_width * volume.block) == (kind.grain, kind.grain)
    assert volume.block == 4096
    assert "noatime" in volume.options
    assert volume.fstab.split() == [f"UUID={volume.uuid}", volume.target, "ext4", "noatime,nofail,x-systemd.device-timeout=5min", "0", "2"]


def check_disks(read: list[oracle.Volume], disks: list[Disk], shape: str) -> None:
    """Every disk is used, in the order asked, at the same place."""
    names = [disk.kernel for disk in disks]
    if shape == "striped":
        assert all([leg.disk for leg in volume.legs] == names for volume in read)
        for volume in read:
            assert len({leg.data for leg in volume.legs}) == 1
        assert len({volume.legs[0].data for volume in read}) == len(read)
    else:
        assert [volume.legs[0].disk for volume in read] == names


def check_pvs(harness: Harness, disks: list[Disk], kind: Kind, read: list[oracle.Volume]) -> None:
    """The data area of each PV, as LVM tells it."""
    starts = oracle.pv_starts(harness)
    assert {disk.part().rsplit("/", 1)[-1] for disk in disks} <= set(starts)
    for leg in read[0].legs:
        (start,) = {starts[disk.part().rsplit("/", 1)[-1]] for disk in disks if disk.kernel == leg.disk}
        assert (leg.partition + start) % kind.grain == kind.phase
        assert leg.data == leg.partition + start, "the first volume begins where the data area does"


def check_report(plan: dict[str, Any], read: list[oracle.Volume]) -> None:
    """The collection's own static proof tells the same bytes."""
    told = {one["mount"]: one["layers"] for one in plan["stacks"]}
    for volume in read:
        layers = {layer["layer"]: layer for layer in told[volume.target]}
        assert {(leg["device"], leg["start"]) for leg in layers["filesystem"]["legs"]} == {(leg.disk, leg.data) for leg in volume.legs}
        assert {(leg["device"], leg["start"]) for leg in layers["partition"]["legs"]} == {(leg.disk, leg.partition) for leg in volume.legs}
        assert layers["filesystem"]["uuid"] == volume.uuid
