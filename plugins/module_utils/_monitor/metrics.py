# SPDX-License-Identifier: GPL-3.0-or-later
"""What was read of a host as metrics for Prometheus, in its text format (prometheus.io, "Exposition formats", version 0.0.4). Pure.

Drives are distinguished by WWN or serial, never by the kernel's names, which change. What is not known has no sample.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, INFO, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import Link, payload_bytes
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import CHECKING, SYNCING
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DURABILITY

Number = Union[int, float]
Labels = Tuple[Tuple[str, str], ...]

# Name → what it says. All are gauges, except those whose name ends in _total.
METRICS: Mapping[str, str] = {
    "plumbline_reading_success": "1 if this reading of the host came to its end, 0 if it failed.",
    "plumbline_reading_time_seconds": "When the host was read, in seconds since 1970.",
    "plumbline_reading_duration_seconds": "How long the reading took.",
    "plumbline_drives_unidentified": "Drives without a WWN or serial of their own. They have no other metric.",
    "plumbline_drive_info": "1 for each drive, with what it says of itself.",
    "plumbline_drive_read": "1 if the health of the drive was read, 0 if it could not be read. Missing for a virtual disk, which has none.",
    "plumbline_drive_left_out": "1 for a drive that plumbline_health.leave_out names. It is not read, and has no other metric but drive_info.",
    "plumbline_drive_failing": "1 if the drive fails, 0 if it is sound. Missing if it gives no verdict.",
    "plumbline_drive_findings": "Findings on the health of the drive, by level.",
    "plumbline_drive_used_ratio": "Share of the rated endurance that is used. It can exceed 1.",
    "plumbline_drive_spare_ratio": "Share of the spare blocks that is left.",
    "plumbline_drive_days_left": "Days until the rated endurance is used, at least.",
    "plumbline_drive_temperature_celsius": "Temperature of the drive.",
    "plumbline_drive_written_bytes_total": "Bytes that the host wrote over the drive's life.",
    "plumbline_link_bytes_per_second": "What the slowest link on the way to the drive carries.",
    "plumbline_link_target_bytes_per_second": "What that link would carry if both ends did what they can.",
    "plumbline_stack_findings": "Findings on a stack that stands, by level and layer.",
    "plumbline_stack_aligned": "1 if every layer of the stack begins where it should on every leg, 0 if not. Missing if a layer cannot be followed.",
    "plumbline_stack_size_bytes": "Size of the volume.",
    "plumbline_raid_info": "1 for each array with redundancy, of md or of LVM, with its level and who made it.",
    "plumbline_raid_degraded_members": "Members of the array that are absent, failed or not in sync yet.",
    "plumbline_raid_syncing": "1 while the array is brought in sync or reshaped, or that is due; else 0. A check is no sync.",
    "plumbline_raid_checking": "1 while a check or a repair of the array runs, else 0.",
    "plumbline_raid_progress_ratio": "Share that is done of the sync or check that runs. Missing if none runs.",
    "plumbline_raid_mismatch_sectors": "Sectors that differed between members at the last check. Missing if none was made since the array was assembled.",
    "plumbline_host_findings": "Findings on the host itself and on the write caches that it keeps, by level and layer.",
    "plumbline_proof_passed": "1 if the last measured proof of the stack passed, 0 if not. Also 1 if it passed, except what is accepted.",
    "plumbline_proof_accepted": "1 if it passed, except what plumbline_verify.accept accepts.",
    "plumbline_proof_time_seconds": "When the last measured proof of the stack was made, in seconds since 1970.",
}
_LEVELS = (ERROR, WARNING, INFO)


class Sample(NamedTuple):
    name: str
    value: Optional[Number]
    labels: Labels = ()


class Proof(NamedTuple):
    """The last measured proof of a stack. *when*: seconds since 1970, None if the record does not say; *accepted*: it passed except what is accepted."""

    stack: str
    passed: bool
    when: Optional[int]
    accepted: bool = False


class HostReading(NamedTuple):
    """All that was read of a host. *drives*: as drive_health returns them; *links*: by the kernel's name of a disk; *stacks*: as stack_info returns them.

    *findings*: on the host itself, and on the write caches that it keeps. *raids*: as arrays_of_host() returns them.
    """

    when: int
    seconds: float
    drives: Sequence[Mapping[str, Any]] = ()
    links: Mapping[str, Sequence[Link]] = {}
    stacks: Sequence[Mapping[str, Any]] = ()
    proofs: Sequence[Proof] = ()
    findings: Sequence[Finding] = ()
    raids: Sequence[Mapping[str, Any]] = ()


def metrics_text(reading: HostReading) -> str:
    """The file for node_exporter's textfile collector."""
    end = [
        Sample("plumbline_reading_success", 1),
        Sample("plumbline_reading_time_seconds", reading.when),
        Sample("plumbline_reading_duration_seconds", round(reading.seconds, 3)),
    ]
    return _text([*end, *_drives(reading), *_stacks(reading.stacks), *_raids(reading.raids), *_host(reading.findings), *_proofs(reading.proofs)])


def failure_text(when: int, seconds: float) -> str:
    """The same of a reading that failed: nothing is known but that."""
    return _text(
        [
            Sample("plumbline_reading_success", 0),
            Sample("plumbline_reading_time_seconds", when),
            Sample("plumbline_reading_duration_seconds", round(seconds, 3)),
        ]
    )


def _drives(reading: HostReading) -> Iterator[Sample]:
    yield Sample("plumbline_drives_unidentified", sum(not drive["key"] for drive in reading.drives))
    for drive in reading.drives:
        if drive["key"]:
            labels = (("drive", drive["key"]),)
            yield from _drive(drive, labels)
            yield from () if drive["left_out"] else _link([link for name in drive["disks"] for link in reading.links.get(name, ())], labels)


def _drive(drive: Mapping[str, Any], labels: Labels) -> Iterator[Sample]:
    about = tuple((name, str(drive[name])) for name in ("model", "serial", "firmware", "protocol"))
    wear, projection = drive["wear"], drive["projection"] or {}
    yield Sample("plumbline_drive_info", 1, labels + about)
    if drive["left_out"]:
        yield Sample("plumbline_drive_left_out", 1, labels)
        return
    yield Sample("plumbline_drive_read", None if drive["not_applicable"] else int(drive["read"]), labels)
    yield Sample("plumbline_drive_failing", None if drive["failing"] is None else int(drive["failing"]), labels)
    for level in _LEVELS:
        yield Sample("plumbline_drive_findings", sum(finding["level"] == level for finding in drive["findings"]), (*labels, ("level", level)))
    yield Sample("plumbline_drive_used_ratio", _ratio(wear["used_percent"]), labels)
    yield Sample("plumbline_drive_spare_ratio", _ratio(wear["spare_percent"]) if wear["spare_threshold_percent"] else None, labels)
    yield Sample("plumbline_drive_days_left", projection.get("days_min"), labels)
    yield Sample("plumbline_drive_temperature_celsius", drive["temperature_celsius"], labels)
    yield Sample("plumbline_drive_written_bytes_total", drive["counters"].get("host_bytes_written"), labels)


def _ratio(percent: Optional[int]) -> Optional[float]:
    return None if percent is None else percent / 100


def _link(links: Sequence[Link], labels: Labels) -> Iterator[Sample]:
    """The slowest link on the way, of those whose rate is known."""
    known = [(link.payload, link) for link in links if link.payload]
    if known:
        payload, link = min(known, key=lambda rated: rated[0] or 0)
        yield Sample("plumbline_link_bytes_per_second", payload, labels)
        target = payload_bytes(link.kind, link.target_speed, link.target_width or link.width)
        yield Sample("plumbline_link_target_bytes_per_second", target, labels)


def _stacks(stacks: Sequence[Mapping[str, Any]]) -> Iterator[Sample]:
    for stack in stacks:
        label = ("stack", stack["name"])
        for (layer, level), number in _counted((finding["layer"], finding["level"]) for finding in stack["findings"]):
            yield Sample("plumbline_stack_findings", number, (label, ("layer", layer), ("level", level)))
        off = any(finding["level"] == ERROR and finding["layer"] not in DURABILITY for finding in stack["findings"])
        yield Sample("plumbline_stack_aligned", 0 if off else None if stack["not_followed"] else 1, (label,))
        yield Sample("plumbline_stack_size_bytes", stack.get("size_bytes"), (label,))


def _raids(raids: Sequence[Mapping[str, Any]]) -> Iterator[Sample]:
    for raid in raids:
        array = (("array", raid["name"]),)
        yield Sample("plumbline_raid_info", 1, (*array, ("level", raid["level"]), ("maker", raid["maker"])))
        yield Sample("plumbline_raid_degraded_members", raid["degraded"], array)
        yield Sample("plumbline_raid_syncing", int(raid["action"] in SYNCING), array)
        yield Sample("plumbline_raid_checking", int(raid["action"] in CHECKING), array)
        yield Sample("plumbline_raid_progress_ratio", raid["progress"], array)
        yield Sample("plumbline_raid_mismatch_sectors", raid["mismatch_sectors"], array)


def _host(findings: Sequence[Finding]) -> Iterator[Sample]:
    for (layer, level), number in _counted((finding.layer, finding.level) for finding in findings):
        yield Sample("plumbline_host_findings", number, (("layer", layer), ("level", level)))


def _counted(places: Iterable[Tuple[str, str]]) -> List[Tuple[Tuple[str, str], int]]:
    count: Dict[Tuple[str, str], int] = {}
    for place in places:
        count[place] = count.get(place, 0) + 1
    return sorted(count.items())


def _proofs(proofs: Sequence[Proof]) -> Iterator[Sample]:
    for proof in proofs:
        yield Sample("plumbline_proof_passed", int(proof.passed), (("stack", proof.stack),))
        yield Sample("plumbline_proof_accepted", int(proof.accepted), (("stack", proof.stack),))
        yield Sample("plumbline_proof_time_seconds", proof.when, (("stack", proof.stack),))


def _text(samples: Sequence[Sample]) -> str:
    """All samples of a name stand together, below its help and type, each label set once."""
    lines: List[str] = []
    for name, words in METRICS.items():
        rows = {sample.labels: sample.value for sample in samples if sample.name == name and sample.value is not None}
        if rows:
            lines += ["# HELP %s %s" % (name, words), "# TYPE %s %s" % (name, "counter" if name.endswith("_total") else "gauge")]
            lines += ["%s%s %s" % (name, _labels(labels), value) for labels, value in rows.items()]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return "{%s}" % ",".join('%s="%s"' % (name, _escape(text)) for name, text in labels) if labels else ""


def _escape(text: str) -> str:
    """A label's value: any UTF-8, with backslash, quote and line feed escaped. Other control characters, and bytes that are no text, become a dot."""
    plain = "".join(character if character == "\n" or character.isprintable() else "." for character in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
