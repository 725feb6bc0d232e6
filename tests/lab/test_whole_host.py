# SPDX-License-Identifier: GPL-3.0-or-later
"""What each role changes on the host is what the table in the guide says, and nothing else: one host from its first run to the day when all is taken back.

The tests of this file go on from each other, in their order. Each compares with the state in which the one before it left the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.guides import follow
from labkit.harness import Harness
from labkit.specs import said, stack
from labkit.whole_host import Snapshot
from labkit.whole_host_runs import Watch, play
from test_monitor import MASK, UNMASK

pytestmark = pytest.mark.whole_host
# Two for a stack, one that holds something of somebody else's, and one whose health can be read.
DISKS = [*pool(["leg0", "leg1", "foreign"], size="256MiB"), {"name": "spare", "bus": "nvme", "size": "96MiB", "serial": "WHOLESPARE"}]
NEVER = {"policy": "never"}
# Short: what is measured is not what is of interest here.
MEASURES: dict[str, Any] = {
    "policy": "always",
    "inconclusive": "warn",
    "offset_sweep": {"max_seconds": 5},
    "throughput": {"max_seconds": 10, "block_seconds": 0.5, "scratch_size": "16MiB", "span": "16MiB", "depth": 4},
    "sync_latency": {"seconds": 0.2},
}
ONLY_SYNC = {"policy": "always", "offset_sweep": False, "throughput": False, "fstrim_proof": False}


class Scene:
    """The host, its disks, the spec, and the state before the first run."""

    def __init__(self, harness: Harness, disks: dict[str, Disk]) -> None:
        self.harness, self.disks = harness, disks
        self.legs = [disks["p0"], disks["p1"]]
        self.stack = stack(self.legs)
        self.stack["volumes"][0]["required_by"] = [SERVICE]
        harness.must(f"mkfs.ext4 -q -F {disks['p2'].path}; udevadm settle")
        parts = [leg.part().rsplit("/", 1)[-1] for leg in self.legs]
        self.watch = Watch(
            harness,
            {
                "STACK": [self.stack["name"]],
                "MOUNT": ["/pl/pgdata0"],
                "MOUNT_PARENT": ["/pl"],
                "MOUNT_UNIT": ["pl-pgdata0.mount"],
                "REQUIRED_BY": [SERVICE],
                "GONE": ["gone"],
                "DISK": [leg.kernel for leg in self.legs],
                "PARTITION": parts,
            },
        )
        self.base: Snapshot = self.watch.last

    def run(self, role: str, given: dict[str, Any], *options: str, fails: bool | None = False) -> str:
        """Run a role with these variables. *fails*: None where it is all the same."""
        code, text = play(role, given, *options)
        assert fails is None or (code != 0) == fails, text[-4000:]
        return text

    def provision(self, *options: str, fails: bool = False, **more: Any) -> str:
        return self.run("provision", {"plumbline_stacks": [self.stack], "plumbline_verify": NEVER, **more}, *options, fails=fails)

    def module(self, name: str, **options: Any) -> None:
        found = self.harness.module(name, options)
        assert not found["failed"], said(found)


SERVICE = "fstrim.service"  # stands for a database's; it is there, and does not run
# Ansible makes its folder with the first task on a host. Debian enables the timer; here the run has to do it. And what a run rewrites keeps what its
# owner has given it.
OWN = """rm -rf /root/.ansible
systemctl disable --quiet --now fstrim.timer
chgrp adm /etc/fstab /etc/smartd.conf; chmod 0640 /etc/fstab /etc/smartd.conf"""
NOT_OWN = """systemctl enable --quiet --now fstrim.timer
chgrp root /etc/fstab /etc/smartd.conf; chmod 0644 /etc/fstab /etc/smartd.conf"""


@pytest.fixture(scope="module")
def scene(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[Scene]:
    harness.must(UNMASK)
    harness.must(OWN)
    yield Scene(harness, plugged)
    bench.clean()
    harness.must(NOT_OWN)
    harness.must(MASK)


def audit(scene: Scene, folder: Path) -> None:
    scene.run("audit", {"plumbline_stacks": [scene.stack], "plumbline_audit": {"directory": str(folder)}})


CHECK = ("--check", "--diff")


def look(scene: Scene, folder: Path) -> None:
    """Check mode of the main job, the audit, and the modules that read."""
    scene.provision(*CHECK)
    audit(scene, folder)
    for name in ("device_info", "stack_info", "drive_health"):
        scene.module(name)


def look_by_the_other_roles(scene: Scene) -> None:
    """Check mode of each other role that can change something."""
    scene.run("monitor", {}, *CHECK)
    scene.run("health", {"plumbline_health": {"gate": "warn"}}, *CHECK)
    scene.run("write_cache", {"plumbline_stacks": [{**scene.stack, "write_cache": "off"}]}, *CHECK)


def test_looking_at_a_bare_host_changes_nothing(scene: Scene, tmp_path: Path) -> None:
    look(scene, tmp_path)
    scene.watch.must_be_nothing("what only looks")


@pytest.mark.long(minutes=2)
def test_check_mode_of_the_other_roles_on_a_bare_host_changes_nothing(scene: Scene) -> None:
    look_by_the_other_roles(scene)
    scene.watch.must_be_nothing("what only looks")


@pytest.mark.long(minutes=1)
def test_a_refused_run_of_provision(scene: Scene) -> None:
    """A disk that holds something is refused: the host is as it was."""
    refused = stack([scene.disks["p2"]], layout="linear")
    assert "[signature]" in scene.provision(plumbline_stacks=[refused], fails=True)
    scene.watch.must_be_nothing("a refused run")


def test_the_first_run_of_provision(scene: Scene) -> None:
    scene.provision()
    scene.watch.must_be("provision", "first")


def test_the_second_run_of_provision(scene: Scene) -> None:
    scene.provision()
    scene.watch.must_be_nothing("a second run")


@pytest.mark.long(minutes=2)
def test_looking_at_a_built_host_changes_nothing(scene: Scene, tmp_path: Path) -> None:
    look(scene, tmp_path)
    look_by_the_other_roles(scene)
    scene.run("verify", {"plumbline_stacks": [scene.stack], "plumbline_verify": MEASURES}, "--check")
    scene.watch.must_be_nothing("what only looks")


@pytest.mark.long(minutes=2)
def test_verify(scene: Scene) -> None:
    """What the verdict is depends on how busy the computer is that emulates all this; what is written does not."""
    scene.run("verify", {"plumbline_stacks": [scene.stack], "plumbline_verify": MEASURES}, fails=None)
    scene.watch.must_be("verify", "first")


@pytest.mark.long(minutes=2)
def test_a_proof_that_fails(scene: Scene) -> None:
    """A threshold that nothing can meet. The verdict is kept, so that the next run knows it."""
    impossible = {**ONLY_SYNC, "sync_latency": {"seconds": 0.2, "max_p99_ms": {"fdatasync": 0.001}}}
    text = scene.run("verify", {"plumbline_stacks": [scene.stack], "plumbline_verify": impossible}, fails=True)
    assert "fdatasync" in text
    scene.watch.must_be("verify", "failed")


@pytest.mark.long(minutes=2)
def test_a_measurement_that_is_killed(scene: Scene) -> None:
    """Settings of the queues that it had changed, and its files on the volume, are as before."""
    measurements: dict[str, dict[str, Any]] = {
        "throughput": {"paths": ["/pl/pgdata0"], "block_seconds": 5, "scratch_size": "16MiB"},
        "sync_latency": {"path": "/pl/pgdata0", "rows": ["fdatasync"], "seconds": 60},
    }
    for name, options in measurements.items():
        assert scene.harness.cut(name, options, 8), f"{name} had ended before"
    scene.harness.must("for turn in $(seq 100); do pgrep -f '[f]io --' > /dev/null || break; sleep 0.2; done; sleep 2")
    scene.watch.must_be_nothing("a measurement that was killed")


@pytest.mark.long(minutes=1)
def test_health(scene: Scene) -> None:
    scene.run("health", {"plumbline_health": {"gate": "warn"}})
    scene.watch.must_be("health", "first")
    scene.run("health", {"plumbline_health": {"gate": "warn"}})
    scene.watch.must_be_nothing("a second run of health on the same day")


@pytest.mark.long(minutes=3)
def test_monitor(scene: Scene) -> None:
    before = scene.watch.last
    scene.run("monitor", {})
    scene.watch.must_be("monitor", "first")
    scene.run("monitor", {}, "--check", "--diff")
    scene.run("monitor", {})
    scene.watch.must_be_nothing("a second run of monitor")
    scene.run("monitor", {"plumbline_monitor": {"state": "absent"}}, "--check", "--diff")
    scene.watch.must_be_nothing("check mode of taking the monitor back")
    scene.run("monitor", {"plumbline_monitor": {"state": "absent"}})
    scene.watch.must_be("monitor", "taken back", before)


@pytest.mark.long(minutes=1)
def test_the_records_of_a_stack_that_is_gone(scene: Scene) -> None:
    """They are moved, and nothing else on the host changes."""
    for kind in ("proof", "accepted"):
        scene.harness.must(f"install -d -m 700 /var/lib/plumbline /var/lib/plumbline/{kind}; echo '{{}}' > /var/lib/plumbline/{kind}/gone.json")
    scene.watch.look()
    retire = {"plumbline_monitor": {"state": "absent", "retire": ["gone"]}}
    scene.run("monitor", retire, "--check", "--diff")
    scene.watch.must_be_nothing("check mode of retiring")
    scene.run("monitor", retire)
    scene.watch.must_be("monitor", "retired")
    scene.run("monitor", retire)
    scene.watch.must_be_nothing("a second run of retiring")


@pytest.mark.long(minutes=2)
def test_write_cache(scene: Scene) -> None:
    off = {"plumbline_stacks": [{**scene.stack, "write_cache": "off"}]}
    before = scene.watch.last
    scene.run("write_cache", off)
    scene.watch.must_be("write_cache", "first")
    scene.run("write_cache", off, "--check", "--diff")
    scene.run("write_cache", off)
    scene.watch.must_be_nothing("a second run of write_cache")
    scene.module("write_cache", devices=[{"device": leg.by_id, "state": "keep"} for leg in scene.legs])
    scene.watch.must_be("write_cache", "released", before)
    scene.module("write_cache", devices=[{"device": leg.by_id, "state": "on"} for leg in scene.legs])
    scene.module("write_cache", devices=[{"device": leg.by_id, "state": "keep"} for leg in scene.legs])
    scene.watch.look()


@pytest.mark.long(minutes=2)
def test_acceptance(scene: Scene, tmp_path: Path) -> None:
    """Of a drive that nobody uses, by reading it alone."""
    quick = {"cells": ["rand_read_4k_qd16"], "blocks": 3, "block_seconds": 0.5, "max_cpu": 1.0, "fail_if": "never"}
    given = {"plumbline_acceptance_devices": [scene.disks["spare"].by_id], "plumbline_acceptance": {"directory": str(tmp_path), **quick}}
    scene.run("acceptance", given)
    scene.watch.must_be("acceptance", "first")


@pytest.mark.long(minutes=2)
def test_taken_apart_by_the_guide(scene: Scene) -> None:
    """What is left of all these runs when the stack is gone."""
    follow(scene.harness, "volumes", guide="guide_flow", VG=scene.stack["name"], MOUNT="/pl/pgdata0")
    for leg in scene.legs:
        follow(scene.harness, "disk", guide="guide_flow", DISK=f"/dev/disk/by-id/{leg.by_id}")
    scene.harness.must("udevadm settle; chattr -i /pl/pgdata0; rmdir /pl/pgdata0")
    scene.harness.must("rm /etc/systemd/system/*.d/50-plumbline-pgdata.conf; systemctl daemon-reload; udevadm settle")
    scene.watch.must_be("provision", "taken apart", scene.base)
