# SPDX-License-Identifier: GPL-3.0-or-later
"""What the runs of a stack's later life change on the host: it grows, it is built on a mirror, a member of the mirror is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.harness import Harness
from labkit.specs import stack
from labkit.whole_host_runs import Watch, play
from test_whole_host import NEVER

pytestmark = pytest.mark.whole_host
DISKS = [{"name": f"gro{number}", "bus": "scsi", "size": "512MiB", "serial": f"GRO{number}", "physical_block_size": 4096} for number in range(2)]
DISKS += [{"name": f"mir{number}", "bus": "nvme", "size": "192MiB", "serial": f"MIR{number}"} for number in range(5)]
BOTH = [{"name": "data", "size": "60%", "mount": "/pl/data", "filesystem": "xfs"}, {"name": "wal", "size": "20%", "mount": "/pl/wal"}]
ONE = [{"name": "data", "size": "80%", "mount": "/pl/data"}]


def watched(harness: Harness, disks: Sequence[Disk], spec: dict[str, Any]) -> Watch:
    """The host as it is now; these disks carry the stack, or are to carry it."""
    mounts = [volume["mount"] for volume in spec["volumes"]]
    names = {
        "STACK": [spec["name"]],
        "MOUNT": mounts,
        "MOUNT_PARENT": ["/pl"],
        "MOUNT_UNIT": [mount.strip("/").replace("/", "-") + ".mount" for mount in mounts],
        "DISK": [disk.kernel for disk in disks],
        "PARTITION": [disk.part().rsplit("/", 1)[-1] for disk in disks],
    }
    watch = Watch(harness, names)
    watch.look()
    return watch


def provision(*stacks: dict[str, Any]) -> None:
    code, text = play("provision", {"plumbline_stacks": list(stacks), "plumbline_verify": NEVER})
    assert code == 0, text[-4000:]


@pytest.mark.long(minutes=4)
def test_a_stack_that_grows(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    """Its devices became larger, and the specification says that it may grow."""
    disks = [declared[f"gro{number}"] for number in range(2)]
    spec = {**stack(disks), "volumes": BOTH}
    provision(spec)
    for disk in disks:
        bench.resize(disk, 768 * MIB)
    harness.must("udevadm settle")
    watch = watched(harness, disks, spec)
    provision(spec)
    watch.must_be_nothing("a run that may not grow anything")
    grown = {**spec, "grow": True}
    provision(grown)
    watch.must_be("provision", "grown")
    provision(grown)
    watch.must_be_nothing("a second run of a stack that has grown")
    bench.clean()


@pytest.mark.long(minutes=5)
def test_a_mirror(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    """Built, and one member replaced while it works."""
    disks = [declared[f"mir{number}"] for number in range(5)]
    spec = {**stack(disks[:4]), "volumes": ONE, "mirror": True}
    harness.must("systemctl disable --quiet --now fstrim.timer")
    watch = watched(harness, disks, spec)
    provision(spec)
    watch.must_be("provision", "mirrored")
    provision(spec)
    watch.must_be_nothing("a second run of a mirrored stack")
    other = {**spec, "devices": [disk.by_id for disk in [disks[4], *disks[1:4]]], "replace": {disks[0].serial: disks[4].serial}}
    provision(other)
    watch.must_be("provision", "replaced")
    provision(other)
    watch.must_be_nothing("a second run of a stack whose member was replaced")
    bench.clean()
