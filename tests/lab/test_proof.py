# SPDX-License-Identifier: GPL-3.0-or-later
"""The measured proof of a stack: made once, kept on the host, and never green by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from labkit import sweeps
from labkit.bench import Bench, Disk
from labkit.harness import Harness
from labkit.specs import said, stack

pytestmark = pytest.mark.measured
KIB = 1 << 10
FLASH = {"page_size": 16 * KIB, "channels": 2, "program_us": 500, "read_us": 500, "transfer_us": 10, "straddle_parallel": 0}
DISKS = [{"name": f"proof{number}", "bus": "nvme", "size": "512MiB", "serial": f"PROOF{number}", "simulated": FLASH} for number in range(2)]
RECORD = "/var/lib/plumbline/proof/pgdata.json"
SWEEP_ONLY = {"throughput": False, "sync_latency": False}


@pytest.fixture(scope="module")
def built(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Any:
    """A striped volume, mounted."""
    stacks = [stack(plugged.values())]
    harness.build(stacks)
    yield stacks
    bench.change(*plugged.values(), page_phase=0)
    bench.clean()


@pytest.fixture
def unproven(harness: Harness) -> None:
    harness.must("rm -rf /var/lib/plumbline")


def plan(harness: Harness, stacks: list[dict[str, Any]], **verify: Any) -> dict[str, Any]:
    """The proof of the one stack, as planned; nothing else is left to be done."""
    found = harness.module("stack_plan", {"stacks": stacks, "verify": {**SWEEP_ONLY, **verify}})
    assert not found["failed"], said(found)
    assert found["steps"] == []
    (proof,) = found["proofs"]
    assert proof["state"] in found["report"]
    return proof


def prove(harness: Harness, proof: dict[str, Any], layers: bool = False) -> dict[str, Any]:
    """Sweep as the role does, and judge. The role sweeps all layers; that takes its time, so that here only one test does."""
    measured = []
    for item in proof["volumes"]:
        swept = sweeps.sweep(harness, item["path"], layers=layers)
        measured.append({**swept, "item": item})
    return judge(harness, proof, measured)


def judge(harness: Harness, proof: dict[str, Any], measured: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    found = harness.module("stack_proof", {"proofs": [proof], "measured": measured, **more})
    assert not found["failed"], said(found)
    assert found["changed"] is False
    return found


def test_what_passed_is_not_measured_again(bench: Bench, harness: Harness, built: Any, unproven: None) -> None:
    proof = plan(harness, built)
    assert (proof["due"], proof["stored"], proof["bare"]) == (True, "", [])
    free = harness.must("df --output=avail /pl/pgdata0")
    found = prove(harness, proof)
    assert (found["verdict"], found["paragraphs"]) == ("pass", []), found
    assert harness.must("df --output=avail /pl/pgdata0; ls -A /pl/pgdata0") == free + "lost+found\n"
    assert harness.must(f"stat -c '%a %U' {RECORD} /var/lib/plumbline/proof /var/lib/plumbline").split() == ["600", "root", *["700", "root"] * 2]
    record = json.loads(harness.must(f"cat {RECORD}"))
    assert (record["verdict"], record["digest"]) == ("pass", proof["digest"])
    (swept,) = record["measured"]
    assert (swept["verdict"], swept["phase_bytes"], swept["grain_bytes"], swept["of"]) == ("phase", 0, 16 * KIB, "pgdata/vol0")
    again = plan(harness, built)
    assert (again["due"], again["stored"]) == (False, "pass")
    # Another threshold is another proof; the other policies do as they say.
    assert plan(harness, built, offset_sweep={"min_ratio": 1.2})["due"] is True
    assert plan(harness, built, policy="always")["due"] is True
    assert plan(harness, built, policy="never")["due"] is False


@pytest.mark.long
def test_what_failed_fails_again(bench: Bench, harness: Harness, plugged: dict[str, Disk], built: Any, unproven: None) -> None:
    """The drives' pages lie elsewhere than they say: the static proof cannot know, and the measured one names the device."""
    bench.change(*plugged.values(), page_phase=8 * KIB)
    try:
        for layers in (True, False):
            proof = plan(harness, built)
            assert proof["due"] is True
            found = prove(harness, proof, layers)
            assert found["verdict"] == "fail"
            (text,) = found["paragraphs"]
            assert "pgdata/vol0" in text and "fastest at offset 8192 of 16 KiB" in text and RECORD in text
            assert not layers or ("the device lies about its alignment" in text and "look first at device nvme" in text)
    finally:
        bench.change(*plugged.values(), page_phase=0)
    assert plan(harness, built)["stored"] == "fail"
    assert prove(harness, plan(harness, built))["verdict"] == "pass"


def test_failed_writes_stay_failed(harness: Harness, built: Any, unproven: None) -> None:
    proof = plan(harness, built)
    item = proof["volumes"][0]
    slow = {"verdict": "fail", "reasons": ["rand_write: 0.51 of the raw devices; wanted 0.90"], "report": [], "item": item}
    assert judge(harness, proof, [slow], final=False)["verdict"] == "unfinished"
    assert plan(harness, built)["due"] is True
    found = judge(harness, proof, [{"verdict": "pass", "reasons": [], "report": [], "item": item}])
    assert found["verdict"] == "fail" and "rand_write: 0.51" in found["paragraphs"][0]
    assert plan(harness, built)["stored"] == "fail"


def test_writes_without_a_result_are_not_paid_for_again(harness: Harness, built: Any, unproven: None) -> None:
    """Nothing is measured again, whatever the reads say; the acceptance is kept in the record, and goes with its word in the spec."""
    proof = plan(harness, built)
    item = proof["volumes"][0]
    noisy = {"verdict": "inconclusive", "reasons": ["seq_write: the CPU was 83 % busy"], "report": [], "item": item}
    judge(harness, proof, [noisy], final=False)
    found = judge(harness, proof, [{"verdict": "pass", "reasons": [], "report": [], "item": item}])
    assert found["verdict"] == "inconclusive" and "accept it by plumbline_verify: {accept: [unproven_writes]}" in found["paragraphs"][0]
    again = plan(harness, built)
    assert (again["due"], again["settled"]) == (False, False) and "the CPU was 83 % busy; its writes are not measured again" in again["state"]
    assert judge(harness, again, [])["verdict"] == "inconclusive", "it still fails, and nothing was measured"
    accepting = plan(harness, built, accept=["unproven_writes"])
    assert judge(harness, accepting, [], accept=["unproven_writes"])["verdict"] == "accepted"
    record = json.loads(harness.must(f"cat {RECORD}"))
    assert (record["accepted"], record["conditions"]["kernel"]) == (["unproven_writes"], harness.must("uname -r").strip())
    shown = plan(harness, built, accept=["unproven_writes"])
    assert shown["settled"] and "except what is accepted (unproven_writes)" in shown["state"]
    assert plan(harness, built)["settled"] is False


@pytest.mark.quick("stack_proof")
def test_check_mode_keeps_nothing(harness: Harness, built: Any, unproven: None) -> None:
    proof = plan(harness, built)
    swept = harness.module("offset_sweep", {"device": "/pl/pgdata0"}, check=True)
    assert (swept["failed"], swept["verdict"], swept["reads"]) == (False, "inconclusive", 0)
    found = harness.module("stack_proof", {"proofs": [proof], "measured": [{**swept, "item": proof["volumes"][0]}]}, check=True)
    assert found["verdict"] == "inconclusive"
    assert harness.run("test -e /var/lib/plumbline")[0] != 0


@pytest.mark.parametrize(
    "verify, words",
    [
        ({"polciy": "always"}, "plumbline_verify: unknown key 'polciy' (did you mean 'policy'?)"),
        ({"offset_sweep": {"max_sceonds": 3}}, "plumbline_verify.offset_sweep: unknown key 'max_sceonds' (did you mean 'max_seconds'?)"),
    ],
)
def test_a_mistyped_key(harness: Harness, built: Any, verify: dict[str, Any], words: str) -> None:
    found = harness.module("stack_plan", {"stacks": built, "verify": verify})
    assert found["failed"] and words in found["msg"] and "\n" not in found["msg"]
