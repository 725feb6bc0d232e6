# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of stacks that are gone: reported, and moved aside at an explicit word only. Nothing is lost, and a stack that may be there is refused."""

from __future__ import annotations

import os

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import files
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor import program, retire
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_proofs, keep_risks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_stacks import records_of_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.stacks_gone import gone_stacks, why_not_gone
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host, spec

PROOF = {"stack": "old", "verdict": "fail", "time": "2026-01-02T03:04:05Z"}


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with the stack pgdata, and records of it and of a stack "old" that is gone."""
    home = str(tmp_path / "plumbline")
    monkeypatch.setattr(files, "HOME", home)
    monkeypatch.setattr(keep_proofs, "DIRECTORY", home + "/proof")
    monkeypatch.setattr(keep_risks, "ACCEPTED", home + "/accepted")
    one = Host()
    one.pair()
    one.build(spec(one))
    monkeypatch.setattr(retire, "observe", lambda run, ask: one.seen)
    monkeypatch.setattr(retire, "peek", lambda run: (None, one.held))
    one.held, one.home = "", home
    for stack in ("old", "pgdata"):
        keep_proofs.save_proof(stack, {**PROOF, "stack": stack})
    files.write_json(home + "/accepted/old.json", [], "what was accepted")
    (tmp_path / "plumbline/proof/NOTES.txt").write_text("not ours")
    return one


def tree(home):
    return sorted(os.path.relpath(os.path.join(at, name), home) for at, _folders, names in os.walk(home) for name in names)


def test_what_is_left_over_is_reported(host):
    (finding,) = gone_stacks(host.seen, records_of_stacks(), [])
    assert (finding.level, finding.layer, finding.name) == ("info", "record", "old") and "plumbline_monitor: {retire: [old]}" in finding.wanted
    assert gone_stacks(host.seen, records_of_stacks(), ["old"]) == []


def test_it_is_moved_aside_and_its_metric_is_gone(host):
    assert [proof.stack for proof in program.read_proofs()] == ["old", "pgdata"]
    before = tree(host.home)
    checked = retire.retire_stacks(None, ["old"], [], True)
    assert [after for _before, after in checked.moved] == ["", ""] and tree(host.home) == before
    done = retire.retire_stacks(None, ["old"], ["pgdata"], False)
    (accepted, proof) = sorted((before, after) for before, after in done.moved)
    assert accepted[0].endswith("/accepted/old.json") and "/retired/" in proof[1] and proof[1].endswith("/proof/old.json")
    assert files.read_json(proof[1]) == PROOF and os.stat(proof[1]).st_mode & 0o777 == 0o600
    assert [os.stat(os.path.dirname(proof[1]) + up).st_mode & 0o777 for up in ("", "/..", "/../..")] == [0o700] * 3
    assert [one.stack for one in program.read_proofs()] == ["pgdata"] and gone_stacks(host.seen, records_of_stacks(), []) == []
    assert "proof/NOTES.txt" in tree(host.home) and len(tree(host.home)) == len(before)
    assert retire.retire_stacks(None, ["old"], [], False) == retire.Retiring((), []), "a second run changes nothing"


def test_a_name_that_nothing_is_kept_of_is_told(host):
    found = retire.retire_stacks(None, ["olt"], [], False)
    assert (found.moved, list(found.warnings)) == ((), ["retire: this host keeps no record of a stack olt"])


@pytest.mark.parametrize(
    ("stack", "specified", "change", "words"),
    [
        ("pgdata", [], None, "retire: pgdata: its volume group is on this host"),
        ("pgdata", [], "no_lvm", "retire: pgdata: a partition of it is on nvme"),
        ("old", ["old"], None, "retire: old: plumbline_stacks has it"),
        ("old", [], "unread", "could not be read, and may have a part of it"),
        ("old", [], "held", "another run is at work"),
    ],
)
def test_a_stack_that_may_be_there_is_not_retired(host, stack, specified, change, words):
    if change == "no_lvm":
        host.seen.lvm = host.seen.lvm._replace(vgs=())
    if change == "unread":
        host.seen.faults[next(iter(host.seen.tables))] = "Input/output error"
    if change == "held":
        host.held = "another run is at work"
    before = tree(host.home)
    with pytest.raises(PlumblineError) as fault:
        retire.retire_stacks(None, ["old", stack], specified, False)
    assert words in fault.value.msg and tree(host.home) == before
    assert change == "held" or why_not_gone(host.seen, stack, specified)
