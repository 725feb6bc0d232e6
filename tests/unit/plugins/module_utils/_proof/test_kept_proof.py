# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof that did not pass: when it is measured again, when nothing could come of that, what is accepted, and what is said of it."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._proof import stack_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.kept_proof import MOST_TRIES, read_kept_proof
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import needed_proof
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.verify_options import read_verify
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host, spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.hostile import HOSTILE

REASONS = {"pass": "pass", "fail": "fail", "inconclusive": "the CPU was 83 % busy"}
RESULTS = {verdict: {"verdict": verdict, "reasons": [reason], "report": []} for verdict, reason in REASONS.items()}
NOW = {"kernel": "6.1.0", "fio": "3.33"}
ACCEPT = {"accept": ["unproven_writes"]}


@pytest.fixture
def host():
    """A stack that stands."""
    one = Host()
    one.pair()
    one.build(spec(one))
    return one


def planned(host, record, verify=None, conditions=None):
    (proof,) = needed_proof.proofs(
        make_plan(spec(host), host.seen), host.seen, read_verify(verify or {}), {"pgdata": record} if record else {}, conditions or NOW
    )
    return proof


def measured(host, reads, writes="", times=1, accept=(), conditions=None):
    """The record after the writes were measured once, and the reads several times."""
    proof, record, rules = planned(host, {}), {}, stack_proof.Rules(accept, conditions or NOW)
    if writes:
        record = stack_proof.record_of(dict(proof, made=[0, 0]), [RESULTS[writes]], "t0", False, {}, rules)
    for _time in range(times):
        record = stack_proof.record_of(proof, [RESULTS[reads]], "t1", True, record, rules)
    return record


@pytest.mark.parametrize(
    ("reads", "writes", "times", "verify", "due", "settled", "words"),
    [
        ("pass", "pass", 1, {}, False, True, "measured on t1 and passed"),
        # Writes that came to no result: nothing that is measured now can change that.
        ("pass", "inconclusive", 1, {}, False, False, "not measured again, because its volumes have filesystems now"),
        ("inconclusive", "inconclusive", 1, {}, False, False, "accept it by plumbline_verify: {accept: [unproven_writes]}"),
        ("pass", "fail", 1, {}, False, False, "find the cause and build the stack anew"),
        ("pass", "inconclusive", 1, {"policy": "always"}, True, False, "measured again, by policy; its writes are not"),
        ("pass", "inconclusive", 1, {"policy": "never"}, False, True, "not measured (policy never)"),
        ("pass", "inconclusive", 1, {"inconclusive": "warn"}, False, False, "is inconclusive: the CPU was 83 % busy"),
        # Accepted: only the reads count. What failed is never accepted.
        ("pass", "inconclusive", 1, ACCEPT, False, False, "passed, except what is accepted (unproven_writes): the CPU was 83 % busy"),
        ("inconclusive", "inconclusive", 1, ACCEPT, True, False, "measured again, as attempt 2 of 3"),
        ("pass", "fail", 1, ACCEPT, False, False, "is fail: fail"),
        ("pass", "pass", 1, ACCEPT, False, True, "measured on t1 and passed"),
        # Reads are tried again so often, and no more.
        ("inconclusive", "", 1, {}, True, False, "measured again, as attempt 2 of 3"),
        ("fail", "pass", 2, {}, True, False, "measured again, as attempt 3 of 3"),
        ("inconclusive", "", MOST_TRIES, {}, False, False, "not measured again after 3 attempts under the same conditions (fio 3.33, kernel 6.1.0)"),
        ("fail", "", 9, {}, False, False, "plumbline_verify: {policy: always} measures it in each run"),
        ("inconclusive", "", 9, {"policy": "always"}, True, False, "measured again, by policy"),
        ("inconclusive", "", 9, {"offset_sweep": {"max_seconds": 60}}, True, False, "it is proven anew"),
    ],
)
def test_whether_it_is_measured_again(host, reads, writes, times, verify, due, settled, words):
    proof = planned(host, measured(host, reads, writes, times), verify)
    assert (proof["due"], proof["settled"]) == (due, settled), proof["state"]
    assert words in proof["state"] and proof["state"].startswith("pgdata: ")


@pytest.mark.parametrize(
    ("conditions", "writes", "due"),
    [
        (NOW, "", False),
        ({**NOW, "kernel": "6.12.0"}, "", True),
        ({**NOW, "fio": "3.39"}, "", True),
        ({**NOW, "fio": ""}, "", False),  # it was removed, and cannot measure better
        ({**NOW, "kernel": "6.12.0"}, "inconclusive", False),  # no kernel measures the writes again
    ],
)
def test_other_conditions_are_a_new_chance(host, conditions, writes, due):
    record = measured(host, "inconclusive", writes, times=MOST_TRIES)
    proof = planned(host, record, conditions=conditions)
    assert proof["due"] is due and (not due or "because the conditions are others" in proof["state"])
    again = stack_proof.record_of(proof, [RESULTS["inconclusive"]], "t2", True, record, stack_proof.Rules((), conditions))
    assert again["tries"] == (1 if conditions.get("fio") and conditions != NOW else MOST_TRIES + 1)


def test_what_passes_begins_to_count_anew(host):
    record = measured(host, "inconclusive", times=2)
    assert record["tries"] == 2
    record = stack_proof.record_of(planned(host, record), [RESULTS["pass"]], "t2", True, record, stack_proof.Rules((), NOW))
    assert (record["verdict"], record["tries"]) == ("pass", 0)
    assert stack_proof.record_of(planned(host, record), [RESULTS["fail"]], "t3", True, record, stack_proof.Rules((), NOW))["tries"] == 1


def test_an_acceptance_is_kept_until_it_is_gone(host):
    """Given after the measurement, and taken back: the record is judged again, and nothing is measured."""
    record = measured(host, "pass", "inconclusive")
    assert (record["verdict"], record["accepted"]) == ("inconclusive", [])
    accepted = stack_proof.judge_again(planned(host, record, ACCEPT), record, ACCEPT["accept"])
    assert (accepted["verdict"], accepted["accepted"], accepted["time"], accepted["writes"]) == ("accepted", ["unproven_writes"], "t1", record["writes"])
    proof = planned(host, accepted, ACCEPT)
    assert (proof["due"], proof["settled"], proof["accepted"]) == (False, True, ["unproven_writes"]) and "accepted (unproven_writes)" in proof["state"]
    proof = planned(host, accepted)
    assert (proof["due"], proof["settled"]) == (False, False)
    back = stack_proof.judge_again(proof, accepted, [])
    assert (back["verdict"], back["accepted"]) == ("inconclusive", [])


def test_it_is_accepted_from_the_first_run_on(host):
    record = measured(host, "pass", "inconclusive", accept=ACCEPT["accept"])
    assert (record["verdict"], record["accepted"]) == ("accepted", ["unproven_writes"]) and planned(host, record, ACCEPT)["settled"]
    assert measured(host, "fail", "inconclusive", accept=ACCEPT["accept"])["verdict"] == "fail"
    assert measured(host, "pass", "pass", accept=ACCEPT["accept"])["accepted"] == []


def test_the_failure_says_how_it_ends(host):
    record = measured(host, "pass", "inconclusive")
    text = stack_proof.paragraph(stack_proof.as_result(record, "/var/lib/plumbline/proof/pgdata.json", ()))
    assert "the measured proof is inconclusive: the CPU was 83 % busy" in text and "\n" not in text
    assert text.endswith("or build the stack anew (the guide on how a run works takes one apart).")


@pytest.mark.parametrize("change", [{"digest": "x"}, {"made": [9]}, {"verdict": "unfinished"}, {"verdict": ""}])
def test_a_record_that_was_exchanged_is_not_judged(host, change):
    record = measured(host, "pass", "inconclusive")
    with pytest.raises(PlumblineError, match="the record of its proof was changed since it was read"):
        stack_proof.judge_again(planned(host, record), {**record, **change}, [])


LIES = (None, 7, -1, 1.5, True, "x", [], [[]], {}, {"writes": 3}, {"reads": "pass"}, {"k": "pass"}, ["unproven_writes", 3], *HOSTILE)


@pytest.mark.parametrize("key", ["verdict", "time", "parts", "accepted", "tries", "conditions", "reasons"])
@pytest.mark.parametrize("value", LIES)
def test_a_record_that_lies_is_no_pass(host, key, value):
    record = {**measured(host, "inconclusive", "inconclusive"), key: value}
    proof = planned(host, record)
    assert not proof["settled"] and isinstance(proof["state"], str) and "\n" not in proof["state"]
    assert read_kept_proof(record).open_parts([]) or not read_kept_proof(record).finished


def test_a_record_without_parts_is_measured_once_more(host):
    """Of an earlier release: it does not say what came to no result."""
    record = {key: value for key, value in measured(host, "inconclusive").items() if key in ("stack", "digest", "made", "verdict", "time")}
    assert planned(host, record)["due"] and planned(host, {**record, "verdict": "pass"})["settled"]
