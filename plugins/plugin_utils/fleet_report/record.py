# SPDX-License-Identifier: GPL-3.0-or-later
"""One host of the report, from its record: a mapping of module → what the module returned. Pure.

A record comes from outside. Whatever is wrong in it is left out or reported as a finding, and never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import ACCEPTED, FAIL, INCONCLUSIVE, NOT_JUDGED, PASS, UNFINISHED
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.measurements import MEASUREMENTS, judge_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.checks import CHECKS, check_of, todo_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import ERROR, INFO, LEVELS, MISSING, NONE, OK, UNKNOWN, WARNING, rank, worst_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.limits import MOST, bound
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.remedies import RULES
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_dict, as_json, as_list, as_number, dicts, words

# The check that a module answers, which is wrong if the module failed.
MODULES: Mapping[str, str] = {
    "device_info": "answer",
    "drive_health": "drives",
    "stack_info": "alignment",
    "stack_plan": "plan",
    "stack_proof": "proof",
    **{measure: "trim" if measure == "fstrim_proof" else "proof" for measure in MEASUREMENTS},
    "steady_state": "steady_state",
    "acceptance": "acceptance",
}
UNREADABLE = "unreadable"  # key of a record: the host's files that are no record, each with what is wrong with it
OF_VERDICT = {PASS: OK, ACCEPTED: INFO, FAIL: ERROR, INCONCLUSIVE: UNKNOWN, UNFINISHED: UNKNOWN, NOT_JUDGED: NONE}
_LEVELS = {"error": ERROR, "warning": WARNING, "info": INFO}
_FACTS = {
    "ansible_distribution": "distribution",
    "ansible_distribution_version": "release",
    "ansible_kernel": "kernel",
    "ansible_python_version": "Python",
    "ansible_processor_vcpus": "CPUs",
    "ansible_memtotal_mb": "memory (MiB)",
    "ansible_product_name": "machine",
}


class HostFinding(NamedTuple):
    """A finding and the check it belongs to; *level* may be unknown as well. *kind*: the layer, module or measurement that it is of."""

    check: str
    level: str
    kind: str
    name: str
    found: str
    wanted: str
    todo: str = ""

    @property
    def where(self) -> str:
        return f"{self.kind} {self.name}"


def found_by(rule: str, level: str, kind: str, name: str, found: str, wanted: str) -> HostFinding:
    """A finding of the report itself, by one of its rules."""
    return HostFinding(RULES[rule].check, level, kind, name, found, wanted, RULES[rule].todo)


class Measured(NamedTuple):
    """A measurement of a proof: what was measured, its level in the proof, the reasons, and all that the module returned."""

    measure: str
    of: str
    level: str
    reasons: tuple[str, ...]
    result: Mapping[str, Any]


class HostReport(NamedTuple):
    """One host. *levels*: check → level. *raw*: its record as JSON text, as far as it is to be shown."""

    host: str
    time: str
    levels: Mapping[str, str]
    findings: tuple[HostFinding, ...]
    drives: tuple[Mapping[str, Any], ...]
    devices: tuple[Mapping[str, Any], ...]
    stacks: tuple[Mapping[str, Any], ...]
    measured: tuple[Measured, ...]
    steady: tuple[Mapping[str, Any], ...]
    accepted: tuple[Mapping[str, Any], ...]
    conditions: Mapping[str, str]
    raw: str

    @property
    def level(self) -> str:
        return worst_of(self.levels.values())

    @property
    def cells(self) -> tuple[Mapping[str, Any], ...]:
        """The cells of all acceptances."""
        return tuple(cell for result in self.accepted for cell in dicts(result.get("cells")))


def has_ssd(devices: Iterable[Mapping[str, Any]], drives: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any drive is an SSD: one that is not known to be rotational."""
    turning = {words(device.get("name")) for device in devices if device.get("rotational") is True}
    return any(words(device.get("name")) not in turning for device in (*devices, *drives))


def missing_host(host: str, why: str = "") -> HostReport:
    """A host that was expected, and of which there is no record, or one without an answer."""
    finding = found_by("unreachable", MISSING, "host", host, why or "there is no record of it", "an answer")
    levels = dict.fromkeys((check for check in CHECKS if check not in ("steady_state", "acceptance")), MISSING)
    return HostReport(host, "", levels, (finding,), (), (), (), (), (), (), {}, "")


# As keep_record and the audit write it, on the controller: what is of another form is shown, and dates nothing.
_TIME = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(T([01][0-9]|2[0-3])(:[0-5][0-9]){2}Z)?")


def is_past(time: str, now: str) -> bool:
    """Whether this is a time, and not after *now*; empty where that is not known."""
    return bool(_TIME.fullmatch(time)) and not (now and time > now)


def read_record(record: Mapping[str, Any], raw_characters: int, now: str = "") -> HostReport:
    """The report of one host. *raw_characters*: records that are longer as JSON are not kept as such; *now*: see make_fleet()."""
    host = words(record.get("host"))
    record, left = bound(record)
    modules = {name: results_of(record, name) for name in MODULES}
    silent = [result for results in modules.values() for result in results if result.get("unreachable") is True]
    why = record.get("unreachable")
    if why or (silent and not any(_worked(result) for results in modules.values() for result in results)):
        return missing_host(host, _message(silent[0]) if silent else words(why) if isinstance(why, str) else "it was unreachable")
    findings = [finding for name, results in modules.items() for result in results if not _worked(result) for finding in _failed(name, result)]
    drives = [drive for result in modules["drive_health"] for drive in dicts(result.get("drives"))]
    devices = [device for result in modules["device_info"] for device in dicts(result.get("devices"))]
    stacks = _stacks(modules)
    findings += _static(modules, stacks)
    measured = _measured(record, modules)
    findings += [finding for measurement in measured for finding in _of_measured(measurement)]
    findings += _unreadable(record) + of_proof(modules, measured) + _of_plan(modules["stack_plan"]) + _of_load(modules)
    if not has_ssd(devices, drives) and any(_worked(result) for name in ("device_info", "drive_health") for result in modules[name]):
        findings.append(found_by("no_ssd", INFO, "host", host, "it has no SSD", "nothing: there is no drive to judge"))
    time = words(record.get("time")) if record.get("time") else ""
    if _TIME.fullmatch(time) and not is_past(time, now):
        findings.append(found_by("time_ahead", UNKNOWN, "record", host, f"it was read on {time}, which has not come yet", "a time that has passed"))
    unique = sorted(dict.fromkeys(findings), key=lambda finding: (rank(finding.level), list(CHECKS).index(finding.check)))
    if len(unique) > MOST:
        left["findings"] = left.get("findings", 0) + len(unique) - MOST
    shown = sorted([*unique[:MOST], *_left_out(left)], key=lambda finding: rank(finding.level))
    report = HostReport(
        host=host,
        time=time,
        levels={},
        findings=tuple(shown),
        drives=tuple(drives),
        devices=tuple(devices),
        stacks=tuple(stacks),
        measured=tuple(measured),
        steady=tuple(result for result in modules["steady_state"] if _worked(result)),
        accepted=tuple(modules["acceptance"]),
        conditions=_conditions(record),
        raw=_raw(record, raw_characters),
    )
    return report._replace(levels=_levels(report, modules))


def results_of(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """What a module returned, as one result, a list of them, or the register of a loop; without those of tasks that were skipped."""
    given = record.get(name)
    results = dicts(given) if not isinstance(given, Mapping) else dicts(given["results"]) if isinstance(given.get("results"), list) else [given]
    return [result for result in results if not result.get("skipped")]


def _worked(result: Mapping[str, Any]) -> bool:
    return not result.get("failed") and not result.get("unreachable")


def _message(result: Mapping[str, Any]) -> str:
    return words(result.get("msg") or "the module failed without a message")


def _failed(name: str, result: Mapping[str, Any]) -> list[HostFinding]:
    """A module that failed: each of its reasons, or its message."""
    level = MISSING if result.get("unreachable") else ERROR
    reasons = [words(reason) for reason in as_list(result.get("reasons"))] or [_message(result)]
    expected = "a module that ends without an error"
    return [found_by("module_failed", level, "module", name, reason, expected)._replace(check=MODULES[name]) for reason in reasons]


def _unreadable(record: Mapping[str, Any]) -> list[HostFinding]:
    """Files of the host that are no record of it."""
    files = [(words(entry.get("file")), words(entry.get("fault"))) for entry in dicts(record.get(UNREADABLE))]
    return [found_by("unreadable_file", ERROR, "file", name, fault, "the record of this host") for name, fault in files]


def _left_out(left: Mapping[str, int]) -> list[HostFinding]:
    """What of the record was not read: more than any host has."""
    expected = f"a record of at most {MOST:,} of a kind"
    texts = [(words(key), f"{count:,} {words(key)} are left out of its record") for key, count in left.items()]
    return [found_by("left_out", WARNING, "record", name, text, expected) for name, text in texts]


def _stacks(modules: Mapping[str, list[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """The stacks of the host, each once: as stack_info sees it, else as the plan does."""
    by_name: dict[str, Mapping[str, Any]] = {}
    for result in modules["stack_info"] + modules["stack_plan"]:
        for stack in dicts(result.get("stacks")):
            by_name.setdefault(words(stack.get("name")), stack)
    return list(by_name.values())


def _static(modules: Mapping[str, list[Mapping[str, Any]]], stacks: list[Mapping[str, Any]]) -> list[HostFinding]:
    """What the reading modules found, and mappings that could not be followed."""
    given = [finding for name in ("drive_health", "stack_info", "stack_plan") for result in modules[name] for finding in dicts(result.get("findings"))]
    for result in modules["device_info"]:
        for device in dicts(result.get("devices")):
            given += dicts(as_dict(device.get("link")).get("findings"))
    findings = [_finding(finding) for finding in given]
    for stack in stacks:
        name = words(stack.get("name"))
        blind = [words(node) for node in as_list(stack.get("not_followed"))]
        if blind:
            findings.append(found_by("not_followed", UNKNOWN, "stack", name, f"not followed above {', '.join(blind)}", "mappings whose bytes can be followed"))
        accepted = [f"accepted: {words(text)}" for text in as_list(stack.get("accepted"))]
        findings += [found_by("accepted", INFO, "stack", name, text, "nothing: somebody accepted it") for text in accepted]
    return findings


def _finding(finding: Mapping[str, Any]) -> HostFinding:
    layer, name, found, wanted, rule = (words(finding.get(key)) for key in ("layer", "name", "found", "wanted", "rule"))
    check, level = check_of(layer, rule), _LEVELS.get(str(finding.get("level")), UNKNOWN)
    return HostFinding(check, level, layer, name, found, wanted, todo_of(rule) if level != INFO else "")


def _measured(record: Mapping[str, Any], modules: Mapping[str, list[Mapping[str, Any]]]) -> list[Measured]:
    """All measurements: those of the record, and those in proofs that were fetched from the host, each once."""
    given: list[tuple[str, Mapping[str, Any]]] = [(_subject(result), result) for name in MEASUREMENTS for result in modules[name] if _worked(result)]
    for proof in dicts(record.get("proofs")):
        given += [(words(result.get("of") or proof.get("stack")), result) for key in ("measured", "writes") for result in dicts(proof.get(key))]
    measured, seen = [], set()
    for of, result in given:
        measure = str(result.get("measure"))
        same = as_json([of, measure, result.get("verdict"), result.get("report"), result.get("seconds")])
        if same not in seen:
            seen.add(same)
            measured.append(_judged(measure, of, result))
    return measured


def _subject(result: Mapping[str, Any]) -> str:
    item = as_dict(result.get("item"))
    parts = [words(item[key]) for key in ("stack", "volume") if item.get(key)]
    return "/".join(parts) or words(result.get("of") or result.get("path") or result.get("device") or ", ".join(map(words, as_list(result.get("volumes")))))


def _judged(measure: str, of: str, result: Mapping[str, Any]) -> Measured:
    try:
        verdict, reasons = judge_of(measure)(result)
    except (TypeError, ValueError, AttributeError):
        verdict, reasons = INCONCLUSIVE, ["the result cannot be read"]
    level = OF_VERDICT.get(verdict, UNKNOWN)
    if measure == "fstrim_proof" and level == OK and result.get("verdict") != PASS:  # the proof passes, although nothing is known of the trim, or there is none
        level, reasons = WARNING if result.get("verdict") == FAIL else UNKNOWN, as_list(result.get("reasons"))
    return Measured(words(measure), of, level, tuple(map(words, reasons)), result)


def _of_measured(measurement: Measured) -> list[HostFinding]:
    rule = "trim_failed" if MODULES.get(measurement.measure) == "trim" else "measured"
    reasons = (measurement.reasons or (words(measurement.result.get("verdict")),)) if measurement.level not in (OK, NONE) else ()
    findings = [found_by(rule, measurement.level, measurement.measure, measurement.of, reason, "a measurement that passes") for reason in reasons]
    for job in dicts(measurement.result.get("jobs")):
        for link in dicts(job.get("links")):
            if link.get("link_bound") is True:
                read = f"reads reach {words(link.get('share'))} of what {words(link.get('negotiated'))} at {words(link.get('host'))} carries"
                legs = ", ".join(map(words, as_list(link.get("legs"))))
                findings.append(found_by("link_filled", INFO, "read of", legs, read, "nothing: the link is the limit, not the alignment"))
    return findings


def of_proof(modules: Mapping[str, list[Mapping[str, Any]]], measured: list[Measured]) -> list[HostFinding]:
    """Verdicts on whole stacks, where no measurement says the same already; and proofs that must still run."""
    known = {reason for measurement in measured for reason in measurement.reasons}
    findings = []
    for result in modules["stack_proof"]:
        for proof in dicts(result.get("proofs")):
            level = OF_VERDICT.get(str(proof.get("verdict")), UNKNOWN)
            reasons = [words(reason) for reason in as_list(proof.get("reasons"))]
            fresh = [reason for reason in reasons if not any(end in known for end in _ends_of(reason))]
            named = words(proof.get("stack"))
            findings += [found_by("measured", level, "stack", named, reason, "a proof that passes") for reason in fresh if level != OK]
    proven = {words(proof.get("stack")) for result in modules["stack_proof"] for proof in dicts(result.get("proofs"))}
    proven |= {measurement.of.split("/")[0] for measurement in measured}
    for result in modules["stack_plan"]:
        for proof in dicts(result.get("proofs")):
            named, state = words(proof.get("stack")), words(proof.get("state"))
            accepted = ", ".join(map(words, as_list(proof.get("accepted"))))
            if accepted:
                findings.append(found_by("proof_accepted", INFO, "stack", named, f"accepted ({accepted}): {state}", "nothing: somebody accepted it"))
            if proof.get("due") is True and named not in proven:
                findings.append(found_by("proof_due", UNKNOWN, "stack", named, state, "a measured proof"))
            elif proof.get("due") is False and proof.get("settled") is False and named not in proven:
                level = OF_VERDICT.get(str(proof.get("stored")), UNKNOWN)
                findings.append(found_by("proof_settled", UNKNOWN if level in (OK, INFO) else level, "stack", named, state, "a measured proof"))
    return findings


def _ends_of(reason: str) -> Iterable[str]:
    """A reason, and what is left of it without the words before its colons, which say what was measured."""
    yield reason
    at = reason.find(": ")
    while at >= 0:
        yield reason[at + 2 :]
        at = reason.find(": ", at + 2)


def _of_plan(results: list[Mapping[str, Any]]) -> list[HostFinding]:
    steps = [step for result in results for step in dicts(result.get("steps"))]
    left = [(words(step.get("stack") or "all"), f"still to be done: {words(step.get('summary'))}") for step in steps]
    return [found_by("plan_step", WARNING, "stack", name, text, "no step left") for name, text in left]


def _ended(run: Mapping[str, Any]) -> bool:
    return run.get("state") in (None, "finished")


def steady_level(run: Mapping[str, Any]) -> str:
    """The level of a run to the steady state. One that is under way, or was cut off, has none, whatever its rounds say; nor has a picture."""
    return OF_VERDICT.get(str(run.get("verdict")), UNKNOWN) if _ended(run) else UNKNOWN


def _of_load(modules: Mapping[str, list[Mapping[str, Any]]]) -> list[HostFinding]:
    """Findings of runs to the steady state, and of the cells of acceptances."""
    findings = []
    for run in modules["steady_state"]:
        ended, level = _ended(run), steady_level(run)
        device = words(run.get("device"))
        doubts = [words(doubt) for doubt in as_list(run.get("doubts"))]
        findings += [found_by("steady_doubt", INFO, "device", device, doubt, "nothing: it is a picture, not judged") for doubt in doubts]
        if _worked(run) and level not in (OK, NONE):
            state = words(run.get("fault")) if run.get("fault") else words(run.get("verdict")) if ended else f"the run is {words(run.get('state'))}"
            reasons = [words(reason) for reason in as_list(run.get("reasons"))] if ended else []
            reasons = reasons or [state]
            findings += [found_by("steady", level, "device", device, reason, "a steady state that passes") for reason in reasons]
    return findings + [finding for result in modules["acceptance"] for finding in _of_acceptance(result)]


def _of_acceptance(result: Mapping[str, Any]) -> list[HostFinding]:
    """The cells that decide and did not pass; where none of them says why the drive did not, its own reasons do."""
    findings = []
    for cell in dicts(result.get("cells")):
        level = OF_VERDICT.get(str(cell.get("verdict")), UNKNOWN)
        if level != OK and cell.get("required") is not False:
            expected = f"{words(cell.get('wanted'))} {words(cell.get('unit'))}"
            value = f"{words(cell.get('value'))} {words(cell.get('unit'))}"
            findings.append(found_by("acceptance" if level == ERROR else "acceptance_unsure", level, "cell", words(cell.get("name")), value, expected))
    level = OF_VERDICT.get(str(result.get("verdict")), UNKNOWN)
    if not findings and _worked(result) and level not in (OK, NONE):
        reasons = [words(reason) for reason in as_list(result.get("reasons"))] or [words(result.get("verdict"))]
        findings = [
            found_by("acceptance" if level == ERROR else "acceptance_unsure", level, "device", words(result.get("device")), reason, "an acceptance that passes")
            for reason in reasons
        ]
    return findings


def _conditions(record: Mapping[str, Any]) -> dict[str, str]:
    """The conditions of the record: those that it names itself, and facts of the host."""
    facts = {**as_dict(record.get("ansible_facts")), **as_dict(as_dict(record.get("setup")).get("ansible_facts"))}
    conditions = {name: words(facts[key]) for key, name in _FACTS.items() if key in facts}
    conditions.update({words(key): words(value) for key, value in as_dict(record.get("conditions")).items()})
    return dict(sorted(conditions.items()))


def _levels(report: HostReport, modules: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, str]:
    """Check → the worst level found; ok where it was checked without a finding; none where it was not checked."""
    looked = {"answer"} if any(modules.values()) else set()
    looked |= {MODULES[name] for name, results in modules.items() if any(map(_worked, results))}
    looked |= {MODULES.get(measurement.measure, "proof") for measurement in report.measured}
    if report.steady and all(steady_level(run) == NONE for run in report.steady):
        looked.discard("steady_state")  # pictures judge nothing
    if report.stacks:
        looked |= {"durability", "trim"}
    else:
        looked.discard("alignment")
    looked |= {"wear"} if any(as_number(as_dict(drive.get("wear")).get("used_percent")) is not None for drive in report.drives) else set()
    if not report.drives:
        looked.discard("drives")
    looked |= {"link"} if any(as_list(as_dict(device.get("link")).get("links")) for device in report.devices) else set()
    # A plan whose proofs all stand was measured before.
    stored = [proof.get("stored") == PASS for result in modules["stack_plan"] for proof in dicts(result.get("proofs"))]
    looked |= {"proof"} if stored and all(stored) else set()
    by_check: dict[str, list[str]] = {check: [OK] if check in looked else [] for check in CHECKS}
    for finding in report.findings:
        by_check[finding.check].append(finding.level)
    return {check: worst_of(sorted(levels, key=LEVELS.index)) for check, levels in by_check.items() if levels or check not in ("steady_state", "acceptance")}


def _raw(record: Mapping[str, Any], longest: int) -> str:
    text = as_json(record)
    return text if len(text) <= longest else ""
