# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which modules the roles call in which order, and when the lease is given back. The host is an interpreter that returns prepared answers."""

from __future__ import annotations

import re
import shutil

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import GROWTH, MIRROR
from ansible_collections.plumbline.ssd.tests.unit.roles import plays

# One worker: all hosts of the table are one play.
pytestmark = [pytest.mark.xdist_group("build"), pytest.mark.skipif(not shutil.which("ansible-playbook"), reason="ansible-core is not here")]

RUN = "a" * 32
STEPS = {
    "partition": {"action": "partition", "stack": "pgdata", "devices": [{"device": "/dev/x"}], "summary": "tables"},
    "group": {"action": "volume_group", "vg": "pgdata", "pvs": ["/dev/a"], "extent_bytes": 1 << 22, "data_alignment_bytes": 1 << 20, "summary": "VG"},
    "volume": {
        "action": "logical_volume", "vg": "pgdata", "lv": "data", "size_bytes": 1 << 30, "stripes": 1, "stripe_bytes": 0, "pvs": [], "unfinished": False,
        "summary": "LV",
    },
    "filesystem": {
        "action": "filesystem", "device": "/dev/pgdata/data", "fstype": "ext4", "options": "-b 4096", "uuid": "u", "force": False, "summary": "ext4",
    },
    "mount": {"action": "mount", "mounts": [], "drop_ins": {}, "enable_fstrim_timer": False, "accepted": [], "summary": "mount"},
}  # fmt: skip
STEPS["unfinished"] = dict(STEPS["volume"], unfinished=True)
STEPS.update({action: {"action": action, "stack": "pgdata", "disks": [], "summary": action} for action in (*GROWTH, *MIRROR)})
STEPS["refresh_lv"]["unfinished"] = True
ALL = ("partition", "group", "volume", "filesystem", "mount")
BUILT = ["aligned_partition", "lvg", "lvol", "filesystem", "mount_points"]
MEASURED = ["offset_sweep", "stack_proof"]
UNPROVEN = {"verdict": "inconclusive", "proofs": [], "report": [], "paragraphs": ["pgdata: the measured proof is inconclusive: a busy CPU."]}
NOT_THERE = {"failed": True, "msg": "broken"}


FINDING = {"level": "error", "layer": "ext4", "wanted": "64", "text": "ext4 data: stride 16; wanted 64"}


def planned(*steps, due=False, settled=None, missing=(), look=False, findings=()):
    """What a reading of the host comes to."""
    volume = {"stack": "pgdata", "volume": "data", "device": "/dev/pgdata/data", "path": "/data"}
    proof = {"stack": "pgdata", "record": "/var/lib/plumbline/proof/pgdata.json", "due": due, "bare": [], "volumes": [volume]}
    proof["settled"] = not due if settled is None else settled
    verify = {"fetch": "", "inconclusive": "fail", "accept": [], "show": "full", "measures": {"offset_sweep": {}}}
    found = {"changed": bool(steps), "steps": [STEPS[step] for step in steps], "missing_packages": list(missing), "digest": "d" * 64, "stacks": []}
    health = {"due": look, "state": "", "stacks": [{"name": "pgdata", "devices": ["/dev/nvme0n1"]}] if look else []}
    return {**found, "health": health, "proofs": [proof], "verify": verify, "report": ["a report"], "findings": list(findings)}


def plan(*steps, **more):
    """What stack_plan returns on such a host."""
    return plays.read(planned(*steps, **more))


STANDS = plan(due=True)
BACK = ["stack_plan", "run_lease"]  # read back, and the lease given back

ANSWERS = {
    **{name: [{"changed": True}] for name in ("aligned_partition", "stack_growth", "stack_mirror", "lvg", "lvol", "filesystem", "apt")},
    "run_lease": [{"changed": True, "lease": {"run": RUN, "digest": "d" * 64}, "again": False, "released": True}],
    "drive_health": [{"level": "ok", "findings": [], "drives": [], "report": ["the drives"]}],
    "setup": [{"ansible_facts": {"ansible_pkg_mgr": "apt"}}],
    "offset_sweep": [{"measure": "offset_sweep", "verdict": "phase"}],
    "stack_proof": [{"verdict": "pass", "proofs": [], "report": ["measured"], "paragraphs": []}],
    "mount_points": [{"changed": True}],
}
SPEC = {"devices": ["a"], "layout": "separate", "volumes": [{"name": "data"}]}
STACKS = [{"name": "pgdata", **SPEC}]
PROVISION = ({"ansible.builtin.import_role": {"name": "plumbline.ssd.provision"}},)
LOOP = [
    {
        "ansible.builtin.include_role": {"name": "plumbline.ssd.provision"},
        "vars": {"plumbline_stacks": "{{ [item] }}"},
        "loop": [{"name": "one", **SPEC}, {"name": "two", **SPEC}],
    }
]


def play(place, answers_of, tasks=PROVISION, *words):
    """Hosts with a stack, and each with answers of its own beside those of ANSWERS."""
    return plays.play(place, {name: {**ANSWERS, **answers} for name, answers in answers_of.items()}, tasks, *words, plumbline_stacks=STACKS)


def play_one(place, answers, tasks=PROVISION, *words):
    """The same for one host, db07."""
    code, said, calls = play(place, {"db07": answers}, tasks, *words)
    return code, said, calls["db07"]


# A host each: its answers, whether the play ends well for it, and the modules that are called. "take" is run_lease, with which stack_plan takes the lease.
CASES = {
    "as_asked": ({"stack_plan": [plan()]}, True, ["stack_plan"]),
    "only_measured": ({"stack_plan": [plan(due=True)]}, True, ["stack_plan", *MEASURED]),
    # Not proven, and nothing would come of another measurement: it fails without a load.
    "unproven": ({"stack_plan": [plan(settled=False)], "stack_proof": [UNPROVEN]}, False, ["stack_plan", "stack_proof"]),
    "accepted_now": ({"stack_plan": [plan(settled=False)]}, True, ["stack_plan", "stack_proof"]),
    "built": ({"stack_plan": [plan(*ALL), STANDS]}, True, ["stack_plan", "take", *BUILT, *BACK, *MEASURED]),
    "nothing_is_mounted": ({"stack_plan": [plan("partition"), plan()]}, True, ["stack_plan", "take", "aligned_partition", "stack_plan", "run_lease"]),
    "lvcreate_fails": ({"stack_plan": [plan(*ALL)], "lvol": [NOT_THERE]}, False, ["stack_plan", "take", *BUILT[:3], "run_lease"]),
    "unsound": ({"stack_plan": [plan(*ALL), plan(findings=[FINDING])]}, False, ["stack_plan", "take", *BUILT, *BACK]),
    "a_step_is_left": ({"stack_plan": [plan(*ALL), plan("mount")]}, False, ["stack_plan", "take", *BUILT, "stack_plan", "take", "run_lease"]),
    "mount_fails": ({"stack_plan": [plan(*ALL)], "mount_points": [NOT_THERE]}, False, ["stack_plan", "take", *BUILT, "run_lease"]),
    "reading_back_fails": ({"stack_plan": [plan(*ALL), NOT_THERE]}, False, ["stack_plan", "take", *BUILT, *BACK]),
    "packages": (
        {"stack_plan": [plan(*ALL, missing=["lvm2"]), plan(*ALL), STANDS]},
        True,
        ["stack_plan", "take", "apt", "stack_plan", "take", *BUILT, *BACK, *MEASURED],
    ),
    "no_package": ({"stack_plan": [plan(*ALL, missing=["lvm2"])], "apt": [NOT_THERE]}, False, ["stack_plan", "take", "apt", "run_lease"]),
    "tools_still_missing": ({"stack_plan": [plan(*ALL, missing=["lvm2"])]}, False, ["stack_plan", "take", "apt", "stack_plan", "take", "run_lease"]),
    "refused_when_active": ({"stack_plan": [plan("unfinished"), NOT_THERE]}, False, ["stack_plan", "take", "lvol", "stack_plan", "run_lease"]),
    "activated_as_asked": ({"stack_plan": [plan("unfinished"), plan()]}, True, ["stack_plan", "take", "lvol", "stack_plan", "run_lease"]),
    # Room below the volumes comes before they are made, and a filesystem grows when it is mounted.
    "grown": (
        {"stack_plan": [plan("grow_partition", "grow_pv", *ALL[2:3], "grow_lv", *ALL[3:], "grow_filesystem"), STANDS]},
        True,
        ["stack_plan", "take", "stack_growth", "stack_growth", "lvol", "stack_growth", "filesystem", "mount_points", "stack_growth", *BACK, *MEASURED],
    ),
    # An array stands between partitions and the volume group, and grows between the two.
    "mirrored": (
        {"stack_plan": [plan("partition", "mirror_create", *ALL[1:]), STANDS]},
        True,
        ["stack_plan", "take", BUILT[0], "stack_mirror", *BUILT[1:], *BACK, *MEASURED],
    ),
    "mirror_grown": (
        {"stack_plan": [plan("grow_partition", "mirror_grow", "grow_pv"), plan()]},
        True,
        ["stack_plan", "take", "stack_growth", "stack_mirror", "stack_growth", "stack_plan", "run_lease"],
    ),
    "not_mirrored": (
        {"stack_plan": [plan("partition", "mirror_create", *ALL[1:])], "stack_mirror": [NOT_THERE]},
        False,
        ["stack_plan", "take", BUILT[0], "stack_mirror", "run_lease"],
    ),
    "grows_not": ({"stack_plan": [plan("grow_pv")], "stack_growth": [NOT_THERE]}, False, ["stack_plan", "take", "stack_growth", "run_lease"]),
    "refreshed": ({"stack_plan": [plan("refresh_lv"), plan()]}, True, ["stack_plan", "take", "stack_growth", "stack_plan", "run_lease"]),
    "fio_is_missing": ({"stack_plan": [plan(due=True, missing=["fio"]), plan(due=True)]}, True, ["stack_plan", "apt", "stack_plan", *MEASURED]),
    "healthy_drives": ({"stack_plan": [plan(*ALL, look=True), STANDS]}, True, ["stack_plan", "take", "drive_health", *BUILT, *BACK, *MEASURED]),
    "failing_drive": ({"stack_plan": [plan(*ALL, look=True)], "drive_health": [NOT_THERE]}, False, ["stack_plan", "take", "drive_health", "run_lease"]),
    "as_asked_and_read_yesterday": ({"stack_plan": [plan(look=True)]}, True, ["stack_plan", "drive_health"]),
    "smartctl_first": (
        {"stack_plan": [plan(*ALL, missing=["smartmontools"], look=True), plan(*ALL, look=True), STANDS]},
        True,
        ["stack_plan", "take", "apt", "stack_plan", "take", "drive_health", *BUILT, *BACK, *MEASURED],
    ),
    "drift_while_packages_were_installed": (
        {"stack_plan": [plan(due=True, missing=["fio"]), plan(*ALL), STANDS]},
        True,
        ["stack_plan", "apt", "stack_plan", "take", *BUILT, *BACK, *MEASURED],
    ),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """All of them in one play."""
    return play(tmp_path_factory.mktemp("play"), {name: answers for name, (answers, _good, _expected) in CASES.items()}, PROVISION, "--forks", "2")


@pytest.mark.parametrize("name", CASES)
def test_what_is_called_in_which_order(played, name):
    _code, said, calls = played
    _answers, good, expected = CASES[name]
    assert ["take" if args.get("take") else module for module, args in calls[name]] == expected, said
    counts = re.search(rf"^{name} +: .* failed=(\d+)", said, re.MULTILINE)
    assert (counts.group(1) == "0") is good, said
    if "run_lease" in expected:
        assert [args["run"] for module, args in calls[name] if module == "run_lease"][-1] == RUN


def test_the_run_is_summed_up(played):
    """By the callback plugin: how the hosts ended, then what is wrong, alike of several hosts once."""
    _head, _banner, lines = played[1].rpartition("PLUMBLINE ")
    failed = sum(not good for _answers, good, _expected in CASES.values())
    first, *others = lines.splitlines()[1:]
    assert first.startswith(f"{len(CASES)} hosts: ") and f", {failed} failed" in first, first
    assert len(others) <= 9 and any(re.match(r"failed: \w+ and \d more: .*broken", line) for line in others), others


@pytest.mark.parametrize("show, shown", [("full", True), ("summary", False)])
def test_a_summary_takes_the_place_of_the_report(tmp_path, show, shown):
    answers = {"db07": {**ANSWERS, "stack_plan": [plan()]}}
    code, said, _calls = plays.play(tmp_path, answers, PROVISION, plumbline_stacks=STACKS, plumbline_verify={"show": show})
    assert code == 0 and ("[db07]\n  a report" in said) is shown, said
    assert "1 host: 1 as specified" in said


@pytest.mark.parametrize("show, shown", [("full", True), ("summary", False)])
def test_what_was_measured_is_printed_as_it_is(tmp_path, show, shown):
    """As the plan and the drives are: a table in a list of Ansible's would be quoted and folded, whatever the format of results is."""
    due = planned(due=True)
    due["verify"]["show"] = show
    table = "        fdatasync                           661.568 ops/sec    1512 usecs/op  p50    1384  p99    3545"
    proof = {"verdict": "inconclusive", "proofs": [], "report": [table], "paragraphs": ["pgdata: a busy CPU."]}
    code, said, _calls = play_one(tmp_path, {"stack_plan": [plays.read(due)], "stack_proof": [proof]})
    assert code != 0 and (f"\n[db07]\n  {table}\n  pgdata: a busy CPU.\n" in said) is shown, said
    assert said.count("fdatasync") == int(shown), said


def test_tools_that_are_missing_after_the_installation(played):
    assert "were not found after they were installed" in " ".join(played[1].split())


def test_every_plan_is_judged(tmp_path):
    """Also the one after volumes were activated: it may be the last."""
    _code, _said, calls = play_one(tmp_path, {"stack_plan": [plan("unfinished"), plan("partition"), plan()]})
    assert [args["fail_if"] for name, args in calls if name == "stack_plan"] == ["unsound", "unsound", "any"]


def test_the_caller_may_loop_over_the_role(tmp_path):
    """Its own item is in the stacks that are read back."""
    code, said, calls = play_one(tmp_path, {"stack_plan": [plan("mount"), plan()] * 2}, LOOP)
    assert code == 0, said
    read = [args["stacks"][0]["name"] for name, args in calls if name == "stack_plan"]
    assert read == ["one", "one", "two", "two"] and [name for name, _args in calls].count("mount_points") == 2


@pytest.mark.parametrize("role, fail_if", [("provision", "any"), ("filesystem", "unfinished"), ("verify", "any")])
def test_the_tag_reads_and_builds_nothing(tmp_path, role, fail_if):
    tasks = [{"ansible.builtin.import_role": {"name": "plumbline.ssd." + role}}]
    code, said, calls = play_one(tmp_path, {"stack_plan": [plan("partition", findings=[FINDING])]}, tasks, "--tags", "plumbline_verify")
    assert [(name, args["fail_if"], args.get("lease")) for name, args in calls] == [("stack_plan", fail_if, None)] and code != 0, said
    assert "[db07]\n  a report" in said


def test_the_tag_cannot_be_left_out(tmp_path):
    """It would leave out all of the role, and the play would be green."""
    code, said, calls = play_one(tmp_path, {"stack_plan": [plan()]}, PROVISION, "--skip-tags", "plumbline_verify")
    assert code != 0 and calls == [] and "policy: never" in said, said


def test_check_mode_plans_and_prints(tmp_path):
    code, said, calls = play_one(tmp_path, {"stack_plan": [plan(*ALL, missing=["lvm2"])]}, PROVISION, "--check")
    assert ([name for name, _args in calls], code) == (["stack_plan"], 0) and "[db07]\n  a report" in said, said


# A host each: plumbline_health, the steps of its plan, and what fails the reading of its drives.
GATES = {
    "stops": ({}, ALL, "error"),
    "warns": ({"gate": "warn"}, ALL, "never"),
    "no_step": ({}, (), "never"),
    "options": ({"gate": "fail", "timeout": 9}, ("mount",), "error"),
}


def test_what_the_gate_does(tmp_path):
    """It stops a play before a step only. A host in the desired state gets its findings as warnings."""
    answers = {name: {**ANSWERS, "stack_plan": [plan(*steps, look=True), plan()]} for name, (_health, steps, _fail_if) in GATES.items()}
    given = {"plumbline_health": "{{ gates[inventory_hostname] }}", "gates": {name: row[0] for name, row in GATES.items()}}
    code, said, calls = plays.play(tmp_path, answers, PROVISION, "--forks", "2", plumbline_stacks=STACKS, **given)
    assert code == 0, said
    for name, (health, _steps, fail_if) in GATES.items():
        args = next(args for module, args in calls[name] if module == "drive_health")
        assert calls[name][0][1]["health"] == health and f"[{name}]\n  the drives" in said, said
        assert (args["fail_if"], args["baseline"], args["devices"], args.get("timeout")) == (fail_if, True, ["/dev/nvme0n1"], health.get("timeout")), name


def test_check_mode_looks_at_the_drives(tmp_path):
    code, said, calls = play_one(tmp_path, {"stack_plan": [plan(*ALL, look=True)]}, PROVISION, "--check")
    assert ([name for name, _args in calls], code) == (["stack_plan", "drive_health"], 0) and "  the drives" in said, said
