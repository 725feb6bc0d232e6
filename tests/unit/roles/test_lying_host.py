# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that lies in every answer to its controller: where files are written, what is printed, and what fails stays what the controller's spec says."""

from __future__ import annotations

import base64
import json
import os
import shutil

import pytest
from ansible_collections.plumbline.ssd.tests.unit.roles import plays
from ansible_collections.plumbline.ssd.tests.unit.roles.test_build import ALL, ANSWERS, PROVISION, STACKS, planned

pytestmark = pytest.mark.skipif(not shutil.which("ansible-playbook"), reason="ansible-core is not here")

ESCAPES = "\x1b[2J\x1b]52;c;ZXZpbA==\x07\x9b31m\u202eevil"
PROOF = {"format": 1, "stack": "pgdata", "digest": "d", "time": "t", "verdict": "pass", "measured": [], "host": "db02", "text": ESCAPES}


def wanted(place, **more):
    """plumbline_verify of the controller, as the plan has it."""
    return {"fetch": str(place / "proofs"), "inconclusive": "fail", "accept": [], "show": "full", "measures": {"offset_sweep": {}}, **more}


def evil(place):
    """What a plan of the host's own would have the controller do."""
    return {"fetch": str(place / "evil"), "inconclusive": "warn", "show": "full", "measures": {}}


def lies(place):
    """Module → what a host returns that lies wherever it can."""
    plan = planned(*ALL)
    own = {**planned(due=True), "verify": evil(place), "report": [ESCAPES]}
    variables = {"plumbline_verify": {"fetch": str(place / "evil"), "inconclusive": "warn"}, "verify_wanted": evil(place), "verify_reading": own}
    facts = {
        "ansible_facts": {**variables, "inventory_hostname": "db02", "ansible_control_path": str(place / "evil")},
        "add_host": {"host_name": "db99"},
        "warnings": [ESCAPES, {"event": 1}, 7],
        "deprecations": [{"msg": ESCAPES}, 3],
        "_ansible_verbose_override": True,
        "_ansible_delegated_vars": {"ansible_delegated_host": "db02"},
        "diff": [{"before": ESCAPES, "after": "x", "before_header": ESCAPES}, 7],
        "item": {"stack": "../../db02"},
        "msg": ESCAPES,
        "skipped": False,
        "ansible_stats": 5,
        "failed_when_result": False,
        "results": [{"skipped": True}],
    }
    answers = {name: [{**one, **facts} for one in ones] for name, ones in ANSWERS.items() if name not in ("setup", "apt")}
    stands = plays.read({**planned(due=True), "verify": wanted(place)})
    answers["stack_plan"] = [{**read, **own, **facts} for read in (plays.read({**plan, "verify": wanted(place)}), stands)]
    answers["mount_points"] = [{"changed": True, **facts, "reading": own, "released": ["x"]}]
    kept = {"stack": "../../db02", "record": "/etc/shadow", "verdict": "pass"}
    answers["stack_proof"] = [{"verdict": "pass", "proofs": [kept], "report": [ESCAPES], "paragraphs": [ESCAPES], **facts}]
    answers["slurp"] = [{"content": base64.b64encode(json.dumps(PROOF).encode()).decode(), "encoding": "base64", "source": "/x", **facts}]
    return answers


def files_of(place):
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.relative_to(place).parts[0] not in ("host-db01", "callback")}


def play(place, answers, *words):
    return plays.play(place, {"db01": answers}, PROVISION, *words, plumbline_stacks=STACKS, plumbline_verify={"fetch": str(place / "proofs")})


def printed(said):
    """That nothing in the output drives a terminal."""
    return [char for char in said if not char.isprintable() and char != "\n"]


def test_no_word_of_a_host_decides_where_the_controller_writes_or_what_it_shows(tmp_path):
    code, said, calls = play(tmp_path, lies(tmp_path), "--diff")
    assert code == 0, said
    assert files_of(tmp_path) == {"ansible.cfg", "hosts.json", "play.yml", "proofs/db01-pgdata.json"}, said
    assert [args["src"] for module, args in calls["db01"] if module == "slurp"] == ["/var/lib/plumbline/proof/pgdata.json"]
    kept = json.loads((tmp_path / "proofs/db01-pgdata.json").read_text())
    assert kept.pop("kept").startswith("20")  # by the controller's clock
    assert kept == {key: value for key, value in PROOF.items() if key != "host"}
    assert (tmp_path / "proofs/db01-pgdata.json").stat().st_mode & 0o777 == 0o600 and (tmp_path / "proofs").stat().st_mode & 0o777 == 0o700
    assert "offset_sweep" in [module for module, _args in calls["db01"]], "what is measured is what the controller wants"
    assert not printed(said), said
    assert "db99" not in said[said.index("PLAY RECAP") :]


@pytest.mark.parametrize("fact", ["ansible_control_path", "ansible_sftp_executable", "plumbline_verify"])
def test_facts_that_are_the_controllers_end_the_run_of_their_host(tmp_path, fact):
    """Of a task of the play itself: Ansible would take the socket of a connection from them, or a program to run on the controller."""
    answers = lies(tmp_path)
    answers["filesystem"] = [{"changed": True, "ansible_facts": {fact: str(tmp_path / "evil")}}]
    other = {"community.general.filesystem": {"dev": "/dev/other", "fstype": "ext4"}}
    code, said, calls = plays.play(tmp_path, {"db01": answers}, [other, {"plumbline.ssd.stack_plan": {"stacks": STACKS}}])
    assert code != 0 and f"{fact.removeprefix('ansible_')}, which only the inventory and the play may set" in " ".join(said.split()), said
    assert [module for module, _args in calls["db01"]][-1] == "filesystem"
    assert not any(name.startswith("evil") for name in files_of(tmp_path)) and not printed(said)


# What the host answers in place of a plan, or of what it read back; the modules that are called by then.
NO_PLAN = "what the host returned is no reading of this release: it has no answer"
WITHOUT = [
    ["stack_plan"],
    ["stack_plan", "run_lease", "aligned_partition", "lvg", "lvol", "filesystem", "mount_points", "stack_plan", "run_lease"],
]


@pytest.mark.parametrize("reading", [0, 1], ids=["plan", "read-back"])
def test_a_success_without_an_answer_is_a_failure(tmp_path, reading):
    answers = lies(tmp_path)
    del answers["stack_plan"][reading]["answer"]
    code, said, calls = play(tmp_path, answers)
    assert code != 0 and NO_PLAN in " ".join(said.split()), said
    assert [name for name, _args in calls["db01"]] == WITHOUT[reading]
    assert not any(name.startswith(("evil", "proofs/")) for name in files_of(tmp_path)) and not printed(said)


@pytest.mark.parametrize(
    "proof, words",
    [
        ("x" * 9, "this is not JSON"),
        ("[" * 50_000, "nested too deeply"),
        ("9" * 5000, "this is not JSON"),
        ("[1]", "no mapping"),
        (None, "no text of at most 32 MiB"),
    ],
)
def test_a_proof_that_is_none_is_not_kept(tmp_path, proof, words):
    answers = lies(tmp_path)
    answers["slurp"] = [{"content": proof and base64.b64encode(proof.encode()).decode()}]
    code, said, _calls = play(tmp_path, answers)
    assert code != 0 and words in said and "Traceback" not in said, said
    assert os.listdir(tmp_path / "proofs") == []


@pytest.mark.parametrize(
    "verdict, inconclusive, accept, good",
    [
        ("pass", "fail", [], True),
        ("inconclusive", "warn", [], True),
        ("perfect", "warn", [], False),
        ("fail", "warn", [], False),
        ("accepted", "fail", ["unproven_writes"], True),
        ("accepted", "warn", [], False),  # the host accepts for nobody
        ("inconclusive", "fail", ["unproven_writes"], False),
    ],
)
def test_a_verdict_that_there_is_not_is_no_pass(tmp_path, verdict, inconclusive, accept, good):
    answers = lies(tmp_path)
    answers["stack_plan"] = [plays.read({**planned(due=True), "verify": wanted(tmp_path, fetch="", inconclusive=inconclusive, accept=accept)})]
    answers["stack_proof"] = [{"verdict": verdict, "report": [], "paragraphs": []}]
    code, said, _calls = play(tmp_path, answers)
    assert (code == 0) is good, said
