# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a run will take, said before it begins: a range, by the number of devices, their sizes, and what is measured. Pure.

Nobody knows the drives' rates before they are measured, so each range reaches from a quick NVMe drive to a slow SATA one. Limits are those of the options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import parse_size
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.measurements import MEASUREMENTS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Stack

_SLOW, _FAST = 200e6, 5e9  # bytes a second of one drive, of reads and writes in sequence
_STEP = (1.0, 30.0)  # seconds of a step, whatever it moves
_INODE, _INODE_SHARE = 256, 16384  # bytes of an inode, and of the volume for each (mke2fs.conf)

Range = tuple[float, float]
Result = Mapping[str, Any]


def duration_lines(result: Result, stacks: Sequence[Stack]) -> list[str]:
    """For people. *result*: of plan_reading() for these stacks. None where nothing is left to be done or measured."""
    parts = [*_steps(result, stacks), *_measurements(result, stacks)]
    if not parts:
        return []
    least, most = (sum(seconds[end] for seconds, _words in parts) for end in (0, 1))
    return [f"time: {span(least, most)} in all", *(f"  {words}" for _seconds, words in parts)]


def _steps(result: Result, stacks: Sequence[Stack]) -> list[tuple[Range, str]]:
    steps, parts = result.get("steps", []), []
    if not steps:
        return []
    full = [device for step in steps for device in step.get("devices", ()) if device.get("full_proof")]
    if full:  # all at once: the largest one counts
        sizes = [device["size_bytes"] for device in full]
        seconds = _moved(max(sizes))
        parts.append((seconds, f"{_count(len(full), 'device')} of {human(sum(sizes))} read whole (blank_proof): {span(*seconds)}"))
    moved = _moved(_inodes(steps, stacks))
    seconds = (_STEP[0] * len(steps) + moved[0], _STEP[1] * len(steps) + moved[1])
    parts.append((seconds, f"{_count(len(steps), 'step')}: {span(*seconds)}, without packages that are fetched and what a drive takes for a discard"))
    return parts


def _inodes(steps: Sequence[Result], stacks: Sequence[Stack]) -> float:
    """Bytes of inodes that mkfs writes to one drive."""
    legs, made = {stack.name: max(stack.legs, 1) for stack in stacks}, 0.0
    volumes = {(stack.name, volume.name): volume for stack in stacks for volume in stack.volumes}
    sizes = {(step.get("stack"), step["lv"]): step["size_bytes"] / legs.get(step.get("stack", ""), 1) for step in steps if step["action"] == "logical_volume"}
    parts = {step.get("stack"): max(device.get("length_bytes", 0) for device in step["devices"]) for step in steps if step.get("devices")}
    for step in steps:
        key = (step.get("stack", ""), step.get("volume", ""))
        if step["action"] == "filesystem" and key in volumes and not volumes[key].lazy_init and "lazy_init" in volumes[key].kind.keys:
            made += sizes.get(key, parts.get(key[0], 0)) * _INODE / (volumes[key].bytes_per_inode or _INODE_SHARE)
    return made


def _measurements(result: Result, stacks: Sequence[Stack]) -> list[tuple[Range, str]]:
    due = [proof for proof in result.get("proofs", []) if proof.get("due")]
    legs = {stack.name: max(stack.legs, 1) for stack in stacks}
    parts = []
    for name, given in result.get("verify", {}).get("measures", {}).items() if due else ():
        measurement, seconds, targets = MEASUREMENTS[name], (0.0, 0.0), 0
        options = measurement.options(given)
        for proof in due:
            volumes = proof["volumes"] if name == "offset_sweep" else [volume for volume in proof["volumes"] if volume["path"]]
            count = min(len(volumes), 1) if measurement.of_stack else len(volumes)
            each = measurement.seconds(options, legs.get(proof["stack"], 1))
            seconds, targets = _plus(seconds, each, count), targets + count
            if measurement.writes and proof["bare"]:
                seconds = _plus(_plus(seconds, each, 1), _moved(_filled(result, proof, options) / legs.get(proof["stack"], 1)), 1)
        if targets:
            writes = ", writes too:" if measurement.writes and any(proof["bare"] for proof in due) else ":"
            parts.append((seconds, f"{name} of {_count(targets, 'stack' if measurement.of_stack else 'volume')}{writes} {span(*seconds)}"))
    return parts


def _filled(result: Result, proof: Result, options: Mapping[str, Any]) -> int:
    """Bytes that are written before writes can be compared."""
    sizes = [step["size_bytes"] for step in result["steps"] if step["action"] == "logical_volume" and step.get("stack") == proof["stack"]]
    most = parse_size(options["span"], "span")
    return sum(min(size, most) for size in sizes) if sizes else most * len(proof["bare"])


def _moved(number: float) -> Range:
    return number / _FAST, number / _SLOW


def _plus(seconds: Range, more: Range, count: int) -> Range:
    return seconds[0] + count * more[0], seconds[1] + count * more[1]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def span(least: float, most: float) -> str:
    """A range of seconds, in the unit of its upper end."""
    for size, unit, above in ((3600, "h", 2 * 3600), (60, "min", 120), (1, "s", 0)):
        if most >= above:
            low, high = int(least // size), max(int(-(-most // size)), 1)
            return f"at most {high} {unit}" if not low else f"{low} to {high} {unit}" if low < high else f"{high} {unit}"
    raise AssertionError("every number is above 0")
