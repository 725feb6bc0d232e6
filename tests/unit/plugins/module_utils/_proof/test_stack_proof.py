# SPDX-License-Identifier: GPL-3.0-or-later
"""When a stack is measured, what the measurements come to, and what is kept of them."""

from __future__ import annotations

import json
import os

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.module_utils._core import files
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._proof import stack_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.measurements import MEASUREMENTS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_proofs as records_proofs
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import needed_proof
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.verify_options import Verify, read_verify
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import VOLUMES, Host, spec

SWEPT = {"verdict": "phase", "measure": "offset_sweep", "contradicts": False, "report": ["fine"]}
OFF = {
    "verdict": "phase",
    "measure": "offset_sweep",
    "contradicts": True,
    "report": ["dm-0: fastest at offset 512 of 4 KiB", "partition sda1 (…)"],
    "reasons": ["by the kernel it is offset 0"],
    "culprit": "partition sda1",
}
UNSURE = {"verdict": "inconclusive", "measure": "offset_sweep", "contradicts": False, "report": ["dm-0: inconclusive, the byte budget was spent"]}
HIDDEN = {"verdict": "no_preference", "measure": "offset_sweep", "contradicts": False, "report": ["no offset is faster"]}
FAST = {"verdict": "pass", "reasons": [], "report": ["0.97"]}
SLOW = {"verdict": "fail", "reasons": ["rand_read: 0.52 of the raw devices; wanted 0.90"], "report": []}
BUSY = {"verdict": "inconclusive", "reasons": ["the CPU was 83 % busy"], "report": []}
PROOF = {"stack": "pgdata", "digest": "d1", "writes_digest": "w1", "made": [7]}
BARE = dict(PROOF, made=[0])  # before its filesystem is made


TASKS = os.path.join(os.path.dirname(__file__), *[".."] * 5, "roles", "verify", "tasks")


def task_file(name):
    with open(os.path.join(TASKS, name), encoding="utf-8") as handle:
        tasks = yaml.safe_load(handle)
    return [inner for task in tasks for inner in task.get("block", [task])]


def of(result, volume="data", stack="pgdata"):
    """A registered result as a loop leaves it."""
    item = {"stack": stack, "volume": volume} if volume else {"stack": stack}
    return dict(result, item=item, ansible_loop_var="item", changed=False, failed=False)


@pytest.fixture
def host():
    one = Host()
    one.pair()
    return one


def proofs(host, verify=None, records=None, stacks=None):
    return needed_proof.proofs(make_plan(stacks or spec(host), host.seen), host.seen, verify or Verify(), records or {}, {})


# --- whether to measure ------------------------------------------------------------------------------


def test_a_new_stack_is_due_and_its_volumes_are_bare(host):
    (proof,) = proofs(host)
    assert (proof["stack"], proof["stored"], proof["due"]) == ("pgdata", "", True)
    assert proof["bare"] == ["/dev/pgdata/data", "/dev/pgdata/wal"] == [volume["device"] for volume in proof["volumes"]]
    assert [volume["path"] for volume in proof["volumes"]] == ["/data01", "/data02"]
    assert proof["state"] == "pgdata: not proven by measurement yet"


@pytest.mark.parametrize(
    "policy, stored, due",
    [
        ("unproven", None, True),
        ("unproven", "pass", False),
        ("unproven", "fail", True),
        ("unproven", "inconclusive", True),
        ("unproven", "unfinished", True),
        ("unproven", "PASS", True),
        ("always", None, True),
        ("always", "pass", True),
        ("always", "fail", True),
        ("never", None, False),
        ("never", "pass", False),
        ("never", "fail", False),
    ],
)
def test_policy(host, policy, stored, due):
    verify = read_verify({"policy": policy})
    first = proofs(host, verify)[0]
    records = {} if stored is None else {"pgdata": {"digest": first["digest"], "made": first["made"], "verdict": stored, "time": "2026-01-02T03:04:05Z"}}
    (proof,) = proofs(host, verify, records)
    assert proof["due"] is due
    assert proof["stored"] == (stored or "")
    if stored and policy != "never":
        assert "2026-01-02T03:04:05Z" in proof["state"]


def test_nothing_is_due_where_nothing_is_wanted(host):
    (proof,) = proofs(host, read_verify({"offset_sweep": False, "throughput": False, "sync_latency": False, "fstrim_proof": False}))
    assert not proof["due"] and "switched off" in proof["state"]


def test_writes_alone_are_no_proof(host):
    (bare,) = proofs(host)
    record = stack_proof.record_of(bare, [FAST], "then", False, {})
    host.build(spec(host))
    (proof,) = proofs(host, records={"pgdata": record})
    assert proof["due"] and proof["state"] == "pgdata: not proven yet; its writes were measured on then"


def test_a_record_of_something_else_proves_nothing(host):
    (proof,) = proofs(host, records={"pgdata": {"digest": "another", "verdict": "pass", "time": "then"}})
    assert proof["due"] and proof["stored"] == "" and "the last record, of then, is of another stack" in proof["state"]


def test_the_digest_holds_over_building(host):
    before = proofs(host)[0]["digest"]
    host.build(spec(host))
    (after,) = proofs(host)
    assert after["digest"] == before and after["bare"] == []


def test_the_digest_names_devices_stack_and_thresholds(host):
    first = proofs(host)[0]["digest"]
    assert proofs(host, read_verify({"throughput": {"min_share": 0.9}}))[0]["digest"] != first
    assert proofs(host, read_verify({"sync_latency": False}))[0]["digest"] != first
    assert proofs(host, read_verify({"policy": "always", "inconclusive": "warn", "fetch": "here"}))[0]["digest"] == first
    assert proofs(host, stacks=spec(host, stripe_size="128KiB"))[0]["digest"] != first
    stacks = spec(host)
    devno = next(iter(host.seen.geometries))
    host.edit(devno, identity=host.seen.nodes[devno].identity._replace(wwid="eui.ffff"))
    assert proofs(host, stacks=stacks)[0]["digest"] != first


# --- what it comes to --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "measured, verdict, words",
    [
        ([SWEPT, FAST], "pass", []),
        ([HIDDEN, FAST], "pass", []),
        ([OFF, FAST], "fail", ["dm-0: fastest at offset 512 of 4 KiB", "by the kernel it is offset 0", "look first at partition sda1"]),
        ([UNSURE, FAST], "inconclusive", ["dm-0: inconclusive, the byte budget was spent"]),
        ([SWEPT, SLOW], "fail", ["rand_read: 0.52 of the raw devices; wanted 0.90"]),
        ([SWEPT, BUSY], "inconclusive", ["the CPU was 83 % busy"]),
        ([UNSURE, SLOW], "fail", ["rand_read: 0.52 of the raw devices; wanted 0.90", "dm-0: inconclusive, the byte budget was spent"]),
        ([], "inconclusive", ["nothing was measured"]),
        ([{"msg": "boom"}], "inconclusive", ["a measurement gave no verdict: boom"]),
        ([{"verdict": "splendid"}], "inconclusive", ["a measurement gave no verdict: splendid"]),
        ([{"verdict": "fail"}], "fail", ["fail"]),
    ],
)
def test_judge(measured, verdict, words):
    assert stack_proof.judge_measured(measured) == (verdict, words)


def test_results_belong_to_the_stack_of_their_item():
    measured = [of(SWEPT), of(FAST, "wal"), of(SLOW, "data", "other"), dict(FAST), of(FAST, "")]
    ours = stack_proof.results_of_stack("pgdata", measured)
    assert [one["of"] for one in ours] == ["pgdata/data", "pgdata/wal", "pgdata"]
    assert not any(key in one for one in ours for key in ("item", "ansible_loop_var", "failed"))


def test_a_reason_names_its_volume():
    record = stack_proof.record_of(PROOF, stack_proof.results_of_stack("pgdata", [of(OFF), of(FAST, "wal")]), "now", True, {})
    assert record["verdict"] == "fail" and record["reasons"][0] == "pgdata/data: dm-0: fastest at offset 512 of 4 KiB"
    text = stack_proof.paragraph(dict(record, record="/var/lib/plumbline/proof/pgdata.json"))
    assert text.startswith("pgdata: the measured proof failed: pgdata/data: dm-0") and text.endswith("on the host.") and "\n" not in text


# --- what is kept ------------------------------------------------------------------------------------

WRITES = [SLOW]


def test_writes_are_kept_before_there_is_a_verdict():
    record = stack_proof.record_of(PROOF, WRITES, "now", False, {})
    assert record["verdict"] == "unfinished" and record["writes"] == WRITES and record["reasons"]


def test_failed_writes_do_not_turn_green_by_reads():
    first = stack_proof.record_of(BARE, WRITES, "then", False, {})
    second = stack_proof.record_of(PROOF, [FAST, SWEPT], "now", True, first)
    third = stack_proof.record_of(PROOF, [FAST, SWEPT], "later", True, second)
    assert [record["verdict"] for record in (second, third)] == ["fail", "fail"]
    assert third["writes"] == WRITES and third["measured"] == [FAST, SWEPT]


def test_writes_of_another_stack_do_not_count():
    first = stack_proof.record_of(BARE, WRITES, "then", False, {})
    again = stack_proof.record_of(dict(PROOF, digest="d2", writes_digest="w2"), [FAST], "now", True, first)
    assert again["verdict"] == "pass" and again["writes"] == []


@pytest.mark.parametrize(
    "verify, kept",
    [
        ({"sync_latency": {"seconds": 3}}, True),
        ({"offset_sweep": False}, True),
        ({"throughput": {"min_share": 0.8}}, False),
        ({"throughput": False}, False),
    ],
)
def test_failed_writes_are_forgotten_with_their_own_thresholds_only(host, verify, kept):
    host.build(spec(host))
    (before,) = proofs(host)
    (after,) = proofs(host, read_verify(verify))
    first = stack_proof.record_of(before, WRITES, "then", True, stack_proof.record_of(before, WRITES, "then", False, {}))
    again = stack_proof.record_of(after, [FAST], "now", True, first)
    assert after["digest"] != before["digest"] and again["verdict"] == ("fail" if kept else "pass")


def test_other_mount_options_forget_no_writes(host):
    host.build(spec(host))
    (before,) = proofs(host)
    other = [dict(volume, mount_options=["noatime", "lazytime"]) for volume in VOLUMES]
    (after,) = proofs(host, stacks=spec(host, volumes=other))
    assert after["digest"] != before["digest"] and after["writes_digest"] == before["writes_digest"]


def test_a_stack_that_has_grown_is_proven_anew_and_forgets_no_writes(host):
    host.build(spec(host))
    (before,) = proofs(host)
    for node in [node for node in host.seen.nodes.values() if node.kind == "disk"]:
        host.resize(node.devno, 150 << 30)
    host.build(spec(host, grow=True))
    (after,) = proofs(host, stacks=spec(host, grow=True))
    assert after["digest"] != before["digest"] and after["writes_base"] == before["writes_base"] and after["due"]
    first = stack_proof.record_of(before, WRITES, "then", False, {})
    grown = dict(after, made=before["made"])
    assert stack_proof.record_of(grown, [FAST], "now", True, stack_proof.record_of(before, [FAST], "then", True, first))["writes"] == WRITES


def test_a_volume_that_came_beside_forgets_no_writes():
    first = stack_proof.record_of(PROOF, [FAST], "now", True, stack_proof.record_of(BARE, WRITES, "then", False, {}))
    again = stack_proof.record_of(dict(PROOF, digest="d2", made=[7, 8]), [FAST], "later", True, first)
    assert again["writes"] == WRITES and again["verdict"] == "fail"


def test_a_stack_that_was_built_anew_is_another(host):
    host.build(spec(host))
    (proof,) = proofs(host)
    record = stack_proof.record_of(proof, [FAST], "then", True, stack_proof.record_of(proof, [FAST], "before", False, {}))
    assert not proofs(host, records={"pgdata": record})[0]["due"]
    for devno, found in host.seen.filesystems.items():
        host.seen.filesystems[devno] = found._replace(made=1234)
    (anew,) = proofs(host, records={"pgdata": record})
    assert anew["due"] and anew["digest"] == proof["digest"] and anew["made"] == [1234, 1234]
    assert stack_proof.record_of(anew, [FAST], "now", True, record)["writes"] == []


def test_writes_that_were_measured_again_replace_the_old():
    first = stack_proof.record_of(BARE, WRITES, "then", False, {})
    again = stack_proof.record_of(BARE, [FAST], "now", False, first)
    assert stack_proof.record_of(PROOF, [FAST], "later", True, again)["verdict"] == "pass"


@pytest.mark.parametrize(
    "proof",
    [
        {},
        {"stack": "pgdata"},
        {"stack": "pgdata", "digest": "d"},
        {"stack": "../etc/x", "digest": "d", "made": []},
        {"stack": "", "digest": "d", "made": []},
        {"stack": 3, "digest": "d", "made": []},
    ],
)
def test_what_is_no_proof(proof):
    with pytest.raises(PlumblineError, match="wanted what stack_plan lists as proofs"):
        stack_proof.check_proofs([proof])


def test_the_record_is_roots_alone_and_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HOME", str(tmp_path / "plumbline"))
    monkeypatch.setattr(records_proofs, "DIRECTORY", str(tmp_path / "plumbline" / "proof"))
    assert records_proofs.load_proof("pgdata") == {}
    path = records_proofs.save_proof("pgdata", {"verdict": "pass"})
    assert records_proofs.load_proof("pgdata") == {"verdict": "pass"} == json.loads((tmp_path / "plumbline" / "proof" / "pgdata.json").read_text())
    assert [entry.stat().st_mode & 0o777 for entry in (tmp_path / "plumbline", tmp_path / "plumbline" / "proof")] == [0o700, 0o700]
    assert (tmp_path / "plumbline" / "proof" / "pgdata.json").stat().st_mode & 0o777 == 0o600 and path.endswith("pgdata.json")
    assert [one.name for one in (tmp_path / "plumbline" / "proof").iterdir()] == ["pgdata.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '"pass"', "\x00"])
def test_a_broken_record_proves_nothing(tmp_path, monkeypatch, text):
    monkeypatch.setattr(records_proofs, "DIRECTORY", str(tmp_path))
    (tmp_path / "pgdata.json").write_text(text)
    assert records_proofs.load_proof("pgdata") == {}


# --- what a user writes ------------------------------------------------------------------------------


def test_defaults():
    assert read_verify({}) == Verify()
    assert list(Verify().measures) == ["offset_sweep", "throughput", "sync_latency", "fstrim_proof"]


@pytest.mark.parametrize(
    "raw, words",
    [
        ({"polciy": "always"}, "plumbline_verify: unknown key 'polciy' (did you mean 'policy'?)"),
        ({"policy": "allways"}, "plumbline_verify.policy: 'allways' is not known (did you mean 'always'?)"),
        ({"accept": ["unproven_write"]}, "plumbline_verify.accept: 'unproven_write' is not known (did you mean 'unproven_writes'?)"),
        ({"accept": "unproven_writes"}, "plumbline_verify.accept: found a string; wanted a list of strings"),
        ({"inconclusive": "ignore"}, "plumbline_verify.inconclusive: 'ignore' is not known"),
        ({"throughput": {"min_shar": 0.5}}, "plumbline_verify.throughput: unknown key 'min_shar' (did you mean 'min_share'?)"),
        ({"throughput": {"min_share": 90}}, "plumbline_verify.throughput.min_share: 90; wanted 0.01 to 2"),
        ({"throughput": {"min_share": True}}, "plumbline_verify.throughput.min_share: found a boolean; wanted a number"),
        ({"offset_sweep": {"max_bytes": "lots"}}, "plumbline_verify.offset_sweep.max_bytes"),
        ({"sync_latency": {"min_ops": {"fdatsync": 500}}}, "sync_latency.min_ops: the row 'fdatsync' is not measured (did you mean 'fdatasync'?)"),
        ({"sync_latency": {"min_ops": 500}}, "plumbline_verify.sync_latency.min_ops: found a number; wanted a mapping"),
        ({"offset_sweep": {"max_grain": "12KiB"}}, "plumbline_verify.offset_sweep.max_grain: 12KiB; wanted a power of two"),
        ({"offset_sweep": {"layers": False}}, "plumbline_verify.offset_sweep: unknown key 'layers'"),
        ({"sync_latency": "yes"}, "plumbline_verify.sync_latency: found a string"),
        ({"fstrim_proof": {"scratch_size": "1MiB"}}, "plumbline_verify.fstrim_proof.scratch_size: 1MiB; wanted 16MiB to 16GiB"),
        ({"fstrim_proof": {"min_ratio": 1}}, "plumbline_verify.fstrim_proof.min_ratio: 1; wanted 1.1 to 100"),
        ({"fstrim_proof": {"max_seconds": 0}}, "plumbline_verify.fstrim_proof.max_seconds: 0; wanted 1 to 3600"),
        ({"fetch": 3}, "plumbline_verify.fetch: found a number"),
        ([], "plumbline_verify: found an empty list"),
    ],
)
def test_a_mistake_is_named(raw, words):
    with pytest.raises(PlumblineError) as fault:
        read_verify(raw)
    assert words in fault.value.msg and "\n" not in fault.value.msg


def test_switches():
    verify = read_verify({"offset_sweep": False, "fstrim_proof": False, "throughput": True, "sync_latency": {"min_ops": {"fsync": 500}}})
    assert verify.measures == {"throughput": {}, "sync_latency": {"min_ops": {"fsync": 500}}}


@pytest.mark.parametrize("file, measures", [("measure.yml", ("offset_sweep", "throughput", "sync_latency", "fstrim_proof")), ("writes.yml", ("throughput",))])
def test_the_role_hands_over_every_option(file, measures):
    """An option that is checked and then forgotten would be a threshold that nobody holds."""
    for measure in measures:
        (task,) = (task for task in task_file(file) if "plumbline.ssd." + measure in task)
        handed = {key for key, value in task["plumbline.ssd." + measure].items() if "__verify_options." + key in str(value)}
        assert handed == set(MEASUREMENTS[measure].arguments)


@pytest.mark.parametrize(
    "verdict, offered, expected",
    [("pass", True, "pass"), ("fail", True, "fail"), ("fail", False, "pass"), ("inconclusive", True, "pass"), (None, True, "inconclusive")],
)
def test_a_trim_fails_only_where_it_was_sent_and_did_not_arrive(verdict, offered, expected):
    one = {"verdict": verdict, "measure": "fstrim_proof", "offered": offered, "reasons": ["nvme0n1: the data are still there"]}
    assert stack_proof.judge_measured([one])[0] == expected


@pytest.mark.parametrize(
    "excluded, verdict",
    [(1.25, "pass"), (1.1, "pass"), (1.3, "inconclusive"), (0.0, "inconclusive"), (None, "inconclusive"), ("1.1", "inconclusive")],
)
def test_a_sweep_that_excludes_the_penalty_that_matters(excluded, verdict):
    one = {"verdict": "inconclusive", "measure": "offset_sweep", "contradicts": False, "report": ["no verdict"], "excluded_ratio": excluded}
    assert stack_proof.judge_measured([one])[0] == verdict


def test_a_sweep_that_compared_nothing_is_no_verdict():
    verdict, reasons = stack_proof.judge_measured([{"measure": "offset_sweep", "verdict": "phase", "report": ["a phase"]}])
    assert verdict == "inconclusive" and "gave no verdict" in reasons[0]


def test_a_sweep_that_cannot_tell_leaves_the_static_proof():
    assert stack_proof.judge_measured([{"verdict": "cannot_tell", "measure": "offset_sweep", "contradicts": False, "report": ["a cache"]}])[0] == "pass"
