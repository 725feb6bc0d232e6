# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs on one host at once: one has it, the other is told by whom, and what stands in the end is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.runs import changed, end_playbook, reading_of, spec_of, start_playbook, wait_for_lease
from labkit.specs import assert_error, said

DISKS = pool(["leg0", "leg1"])
LEASE = "/run/plumbline/lease.json"
RACES = [pytest.param(2, id="2"), pytest.param(50, id="50", marks=pytest.mark.long)]


@pytest.fixture
def spec(disks: dict[str, Disk]) -> dict[str, Any]:
    return spec_of(list(disks.values()), "one")


def edit(harness: Harness, **more: Any) -> None:
    """Change what the lease says, as time would."""
    lease = {**json.loads(harness.must(f"cat {LEASE}")), **more}
    harness.must(f"printf %s '{json.dumps(lease)}' > {LEASE}")


@pytest.mark.parametrize("races", RACES)
def test_two_writers_of_tables(bench: Bench, harness: Harness, spec: dict[str, Any], races: int, figure: Callable[..., None]) -> None:
    """Called without a run around them, each takes the lease for itself."""
    for _race in range(races):
        (step,) = harness.module("stack_plan", {**spec, "through": "partition"})["steps"]
        results = harness.together("aligned_partition", {"devices": step["devices"]}, {"devices": step["devices"]})
        winners = [one for one in results if not one["failed"]]
        assert len(winners) == 1, [said(one) for one in results]
        (loser,) = (one for one in results if one["failed"])
        # The one that came when the other was done finds a table where none was planned.
        assert any(word in said(loser) for word in ("another run has this host [lease]", "[table]", "[busy]")), said(loser)
        assert not loser["traceback"]
        assert harness.module("stack_plan", {**spec, "through": "partition"})["steps"] == []
        bench.clean()
    figure("races", races_of_modules=races, other_winners=0)


@pytest.mark.parametrize("races", RACES)
def test_two_plans_that_mean_to_write(harness: Harness, spec: dict[str, Any], races: int, figure: Callable[..., None]) -> None:
    asked = [{**spec, "lease": {"controller": f"run{number}@test"}} for number in range(3)]
    for _race in range(races):
        results = harness.together("stack_plan", *asked)
        winners = [one for one in results if not one["failed"]]
        assert len(winners) == 1, [said(one) for one in results]
        (winner,) = winners
        number = results.index(winner)
        for loser in (one for one in results if one["failed"]):
            assert_error(loser, "another run has this host [lease]", f"run{number}@test")
            assert loser["holder"]["run"] == winner["lease"]["run"]
        assert harness.module("run_lease", {"run": winner["lease"]["run"]})["released"]
    figure("races", races_of_modules=races, other_winners=0)


def test_a_plan_that_fails_by_what_is_left_keeps_no_lease(bench: Bench, harness: Harness, spec: dict[str, Any], disks: dict[str, Disk]) -> None:
    with bench.untouched(*disks.values()):
        failed = harness.module("stack_plan", {**spec, "lease": {}, "fail_if": "any"})
    assert_error(failed, "The stack is not as it should be", "still to be done: ")
    assert failed["released"] and failed["report"] and json.loads(harness.must(f"cat {LEASE}"))["free"]


@pytest.mark.quick("run_lease")
def test_a_run_from_its_lease_to_its_end(harness: Harness, spec: dict[str, Any]) -> None:
    """Every writer of ours knows its run; the last gives the host back."""
    plan = harness.module("stack_plan", {**spec, "lease": {}})
    lease = plan["lease"]
    assert lease["digest"] == plan["digest"]
    assert_error(harness.module("stack_plan", {**spec, "lease": {}}), "another run has this host [lease]")
    assert harness.module("stack_plan", spec)["steps"] == plan["steps"], "who does not mean to write may look"
    (table,) = (step for step in plan["steps"] if step["action"] == "partition")
    for wrong, words in (({}, "another run has this host"), ({**lease, "run": "0" * 32}, "is now that of"), ({**lease, "digest": "0" * 64}, "for the plan")):
        assert_error(harness.module("aligned_partition", {"devices": table["devices"], "lease": wrong}), words)
    assert not harness.module("aligned_partition", {"devices": table["devices"], "lease": lease})["failed"]
    harness.apply([step for step in plan["steps"] if step["action"] in ("volume_group", "logical_volume", "filesystem")])
    (mount,) = (step for step in plan["steps"] if step["action"] == "mount")
    given = {key: mount[key] for key in ("mounts", "drop_ins", "enable_fstrim_timer", "accepted")}
    assert not harness.module("mount_points", {**given, "lease": lease})["failed"]
    done = harness.module("stack_plan", {**spec, "lease": lease, "fail_if": "any"})
    assert (done["failed"], done["steps"], done["released"]) == (False, [], lease["run"])
    assert json.loads(harness.must(f"cat {LEASE}"))["free"] is True
    again = harness.module("stack_plan", {**spec, "lease": {}})
    assert (again["steps"], again["lease"]) == ([], {})


@pytest.mark.parametrize(
    "change, words",
    [
        ({"boot": "00000000-0000-0000-0000-000000000000"}, "the host was started anew since"),
        ({"renewed": 0.0, "taken": 0.0, "pid": 0, "grace": 0}, "nothing was heard of it for"),
        ({"pid": 999999, "started": 1, "renewed": 0.0, "grace": 1}, "its connection is closed"),
    ],
)
def test_an_expired_lease_is_taken_over(harness: Harness, spec: dict[str, Any], change: dict[str, Any], words: str) -> None:
    first = harness.module("stack_plan", {**spec, "lease": {"controller": "gone@elsewhere"}})["lease"]
    edit(harness, **change)
    second = harness.module("stack_plan", {**spec, "lease": {}})
    assert not second["failed"] and second["lease"]["run"] != first["run"]
    assert any("gone@elsewhere" in line and words in line for line in map(str, second["warnings"])), second["warnings"]
    (table,) = (step for step in second["steps"] if step["action"] == "partition")
    assert_error(harness.module("aligned_partition", {"devices": table["devices"], "lease": first}), "is now that of")
    assert harness.module("run_lease", {"run": first["run"]})["released"] is False


def test_what_is_no_lease_is_refused_and_nothing_is_written(bench: Bench, harness: Harness, spec: dict[str, Any]) -> None:
    (step,) = harness.module("stack_plan", {**spec, "through": "partition"})["steps"]
    harness.must(f"mkdir -m 0700 -p /run/plumbline; echo garbage > {LEASE}")
    with bench.untouched():
        assert_error(harness.module("aligned_partition", {"devices": step["devices"]}), "is no lease of this collection [lease]")
        assert_error(harness.module("stack_plan", {**spec, "lease": {}}), "is no lease of this collection [lease]")
    assert harness.module("stack_plan", spec)["steps"], "who does not mean to write may look"


@pytest.mark.long(minutes=2)
@pytest.mark.parametrize("turn", range(3))
def test_two_playbooks(harness: Harness, spec: dict[str, Any], turn: int, figure: Callable[..., None]) -> None:
    """The second, begun while the first is at work, fails and names it; the first is not disturbed; a third changes nothing."""
    first = start_playbook(spec)
    wait_for_lease(harness, first)
    code, text = end_playbook(start_playbook(spec))
    assert code != 0 and "another run has this host [lease]" in text, text[-3000:]
    code, text = end_playbook(first)
    assert code == 0, text[-3000:]
    code, text = end_playbook(start_playbook(spec))
    assert (code, changed(text)) == (0, 0), text[-3000:]
    assert reading_of(harness, spec)
    figure("races", races_of_playbooks=1)


@pytest.mark.long
def test_a_failed_playbook_gives_the_host_back(harness: Harness, spec: dict[str, Any]) -> None:
    """A step fails, for a tool is missing; whoever comes next need not wait."""
    harness.must("mv /usr/sbin/vgcreate /usr/sbin/vgcreate.away")
    try:
        code, text = end_playbook(start_playbook(spec))
        assert code != 0 and "vgcreate" in text, text[-3000:]
    finally:
        harness.must("mv /usr/sbin/vgcreate.away /usr/sbin/vgcreate")
    assert json.loads(harness.must(f"cat {LEASE}"))["free"] is True
    code, text = end_playbook(start_playbook(spec))
    assert code == 0 and "taken over" not in text, text[-3000:]
    assert reading_of(harness, spec)
