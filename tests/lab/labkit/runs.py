# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds that are ended half way and carried on, step by step or as whole playbooks, and what has to stand in the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from . import oracle
from .bench import Bench, Disk
from .harness import ROOT, Harness
from .roles import Task, tasks_for
from .specs import said, stack

# Name → layout and number of striped volumes: the three layouts of case 1.
LAYOUTS = {"one": ("striped", 1), "three": ("striped", 3), "each": ("separate", 0)}
_BENCH = ROOT / "tests" / "bench"


def spec_of(disks: Sequence[Disk], layout: str) -> dict[str, Any]:
    """The arguments of stack_plan for a layout on these disks."""
    name, volumes = LAYOUTS[layout]
    return {"stacks": [stack(disks, layout=name, volumes=volumes)]}


def next_plan(harness: Harness, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of what is left, as of a run that means to carry it out: the host records what is begun. Its lease is given back at once."""
    plan = harness.module("stack_plan", {**spec, "lease": {}})
    assert not plan["failed"], said(plan)
    if plan["lease"]:
        harness.module("run_lease", {"run": plan["lease"]["run"]})
    return plan


def first_task(plan: Mapping[str, Any]) -> Task:
    """The call by which the roles carry out the first step that is left."""
    return next(tasks_for(ROOT, plan["steps"][:1]))


def carry_on(harness: Harness, spec: Mapping[str, Any], before: Callable[[Task], None] = lambda task: None) -> None:
    """Carry out one step after the other, each planned anew. *before* is done before each, and may have carried it out."""
    for _step in range(40):
        plan = next_plan(harness, spec)
        if not plan["steps"]:
            return
        begun = plan["steps"][0]["summary"]
        before(first_task(plan))
        plan = next_plan(harness, spec)
        if plan["steps"] and plan["steps"][0]["summary"] == begun:
            harness.apply(plan["steps"][:1])
    raise AssertionError(f"it does not converge: {plan['steps']}")


def reading_of(harness: Harness, spec: Mapping[str, Any]) -> list[oracle.Volume]:
    """What stands, by an independent reading; and no step is left."""
    plan = harness.module("stack_plan", spec)
    assert (plan["failed"], plan["steps"], plan["changed"]) == (False, [], False), said(plan) or plan["steps"]
    return [oracle.read_volume(harness, volume["mount"]) for volume in spec["stacks"][0]["volumes"]]


def comparable(volumes: Sequence[oracle.Volume], disks: Sequence[Disk]) -> list[oracle.Volume]:
    """The same with the disks by their serial: kernel names may be others after a boot."""
    names = {disk.kernel: disk.serial for disk in disks}
    return [replace(one, legs=tuple(replace(leg, disk=names[leg.disk]) for leg in one.legs)) for one in volumes]


@contextmanager
def bystander(bench: Bench, disk: Disk) -> Iterator[None]:
    """A disk with a filesystem that is in no spec stays as it is, to the bit."""
    path = f"/dev/disk/by-id/{disk.by_id}"  # which stays over a boot
    content = f"sha256sum < {path}"
    bench.guest.must(f"mkfs.ext4 -q -F {path}; sync")
    before = bench.guest.must(content)
    yield
    assert bench.guest.must(content) == before


# --- whole playbooks -------------------------------------------------------------------------------


def start_playbook(spec: Mapping[str, Any]) -> subprocess.Popen[str]:
    """Begin to provision the lab's machine, as a user does; in a group of its own, so that it can be killed as a whole."""
    given = {"plumbline_stacks": spec["stacks"], "plumbline_verify": {"policy": "never"}}
    words = ["ansible-playbook", "-i", str(_BENCH / "inventory.yml"), "-e", json.dumps(given), str(ROOT / "playbooks" / "provision_db_storage.yml")]
    environment = dict(os.environ, ANSIBLE_CONFIG=str(_BENCH / "ansible.cfg"), ANSIBLE_NOCOLOR="1")
    return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def end_playbook(process: subprocess.Popen[str], seconds: float = 400) -> tuple[int, str]:
    """Its return code and all that it said."""
    out, _err = process.communicate(timeout=seconds)
    return process.returncode, " ".join(out.split())


def kill_playbook(process: subprocess.Popen[str]) -> None:
    """The controller is gone, from one instruction to the next."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)


def wait_for_lease(harness: Harness, process: subprocess.Popen[str], seconds: float = 120) -> None:
    """Until a run has the host."""
    end = time.monotonic() + seconds
    while harness.run("grep -q '\"free\": false' /run/plumbline/lease.json")[0]:
        assert process.poll() is None, end_playbook(process)
        assert time.monotonic() < end, "no run took the lease"
        time.sleep(0.2)


def changed(text: str) -> int:
    """Changed tasks of a run."""
    found = re.search(r"changed=(\d+)", text)
    assert found, text[-2000:]
    return int(found.group(1))
