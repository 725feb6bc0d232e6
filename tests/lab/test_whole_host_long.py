# SPDX-License-Identifier: GPL-3.0-or-later
"""What the longer runs change on the host: a first run that measures, one whose controller is killed, and a run to the steady state."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from labkit.bench import Disk, pool
from labkit.harness import Harness
from labkit.runs import end_playbook, kill_playbook, wait_for_lease
from labkit.specs import stack
from labkit.whole_host_runs import Watch, begin, play
from test_whole_host import MEASURES, NEVER

pytestmark = pytest.mark.whole_host
AGEING = {"page_size": 4096, "channels": 4, "read_us": 50, "program_us": 300, "erase_us": 2000, "op": 12.5, "block_pages": 64}
DISKS = [*pool(["leg0", "leg1"], size="256MiB"), {"name": "aging", "bus": "nvme", "size": "96MiB", "serial": "WHOLESTEADY", "simulated": AGEING}]


@pytest.fixture
def watch(harness: Harness, disks: dict[str, Disk]) -> Iterator[Watch]:
    """The host before; two of its disks are to be a stack."""
    harness.must("systemctl disable --quiet --now fstrim.timer")
    legs = [disks["p0"], disks["p1"]]
    names = {"DISK": [leg.kernel for leg in legs], "PARTITION": [leg.part().rsplit("/", 1)[-1] for leg in legs]}
    yield Watch(harness, {"STACK": ["pgdata"], "MOUNT": ["/pl/pgdata0"], "MOUNT_PARENT": ["/pl"], "MOUNT_UNIT": ["pl-pgdata0.mount"], **names})
    harness.must("systemctl enable --quiet --now fstrim.timer")


@pytest.mark.long(minutes=4)
def test_a_first_run_that_measures(watch: Watch, disks: dict[str, Disk]) -> None:
    """What the verdict is depends on how busy the computer is that emulates all this; what is written does not."""
    play("provision", {"plumbline_stacks": [stack([disks["p0"], disks["p1"]])], "plumbline_verify": {**MEASURES, "policy": "unproven"}})
    watch.must_be("provision", "measured")


@pytest.mark.long(minutes=5)
def test_the_controller_is_killed_and_another_run_goes_to_the_end(watch: Watch, harness: Harness, disks: dict[str, Disk]) -> None:
    """What the killed run had begun is no more than what one run leaves."""
    given = {"plumbline_stacks": [stack([disks["p0"], disks["p1"]])], "plumbline_verify": NEVER}
    process = begin("provision", given)
    wait_for_lease(harness, process)
    time.sleep(4)
    assert process.poll() is None, end_playbook(process)
    kill_playbook(process)
    end = time.monotonic() + 120  # what it had begun on the host runs to its end
    while True:
        code, text = play("provision", given)
        if code == 0 or time.monotonic() > end:
            break
    assert code == 0, text[-3000:]
    watch.must_be("provision", "killed")


@pytest.mark.long(minutes=8)
def test_the_steady_state(watch: Watch, disks: dict[str, Disk]) -> None:
    drive = {"device": disks["aging"].by_id, "serial": disks["aging"].serial, "accept_wear": True}
    code, text = play("steady_state", {"plumbline_steady_state": {"drives": [drive], "mode": "passes", "poll_seconds": 5}}, seconds=900)
    assert code == 0, text[-3000:]
    watch.must_be("steady_state", "first")
