# SPDX-License-Identifier: GPL-3.0-or-later
"""What the raw devices did before: a file on the host with their identities, and whether it is about these devices.

Reading and comparing is pure but for load() and save().
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import read_own, replace_file
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human

FORMAT = 1
_LARGEST = 1 << 20


class RawLeg(NamedTuple):
    """The identity of a raw device."""

    key: str
    serial: str
    model: str
    size: int  # bytes

    @property
    def text(self) -> str:
        return "%s %s (%s, %s)" % (self.model or "device", self.serial or "without serial", self.key or "no stable identity", human(self.size))


class Raw(NamedTuple):
    """What the raw devices did in one job. *parameters* must be equal for two to be compared; rates in bytes per second."""

    parameters: Mapping[str, Any]
    rates: Tuple[float, ...]
    when: str  # UTC, ISO 8601


class Baseline(NamedTuple):
    legs: Tuple[RawLeg, ...] = ()
    jobs: Mapping[str, Raw] = {}


def raw_leg(node: Node) -> RawLeg:
    """The identity of a disk."""
    return RawLeg(node.identity.key, node.identity.serial, node.identity.model, node.size)


def to_text(baseline: Baseline) -> str:
    jobs = {name: {"parameters": dict(raw.parameters), "rates": list(raw.rates), "when": raw.when} for name, raw in baseline.jobs.items()}
    return json.dumps({"format": FORMAT, "legs": [leg._asdict() for leg in baseline.legs], "jobs": jobs}, indent=1, sort_keys=True) + "\n"


def parse_baseline(text: str, path: str) -> Baseline:
    """Raises PlumblineError for anything that to_text() has not written."""
    try:
        raw = json.loads(text)
        if raw["format"] != FORMAT:
            raise PlumblineError("baseline %s: its format is %r; wanted %d: remove it, and measure again" % (path, raw["format"], FORMAT))
        legs = tuple(RawLeg(str(row["key"]), str(row["serial"]), str(row["model"]), int(row["size"])) for row in raw["legs"])
        jobs = {str(name): _raw(row) for name, row in raw["jobs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as fault:
        raise PlumblineError("baseline %s could not be read as one: %s; remove it, and measure again" % (path, fault)) from fault
    return Baseline(legs, jobs)


def _raw(row: Mapping[str, Any]) -> Raw:
    rates = tuple(float(rate) for rate in row["rates"])
    if len(rates) < 2 or not all(math.isfinite(rate) and rate > 0 for rate in rates):
        raise ValueError("rates %r" % (rates,))
    return Raw(dict(row["parameters"]), rates, str(row["when"]))


def check_baseline_legs(baseline: Baseline, legs: Sequence[RawLeg], path: str) -> None:
    """Raise PlumblineError, naming both, where the baseline is of other devices, or of devices that cannot be told apart."""
    if sorted(baseline.legs) == sorted(legs) and all(leg.key for leg in legs):
        return
    raise PlumblineError("baseline %s is of %s; these are %s: name another file for them, or remove this one" % (path, _names(baseline.legs), _names(legs)))


def _names(legs: Sequence[RawLeg]) -> str:
    return " and ".join(leg.text for leg in sorted(legs)) or "no device"


def differing_parameters(raw: Raw, parameters: Mapping[str, Any]) -> List[str]:
    """The parameters in which a stored job differs from a wanted one, as text."""
    names = sorted(set(raw.parameters) | set(parameters))
    return ["%s %s (now %s)" % (name, raw.parameters.get(name), parameters.get(name)) for name in names if raw.parameters.get(name) != parameters.get(name)]


def load_baseline(path: str) -> Baseline:
    """The stored baseline; an empty one where there is no file. A file that others may write proves nothing, and is refused."""
    try:
        text = read_own(path, _LARGEST).decode("utf-8", "replace")
    except FileNotFoundError:
        return Baseline()
    except OSError as fault:
        words = "baseline %s: %s; wanted a file of root's that nobody else may write, of at most %s"
        raise PlumblineError(words % (path, fault.strerror or fault, human(_LARGEST))) from fault
    return parse_baseline(text, path)


def check_path(path: str) -> None:
    """Raise PlumblineError where no baseline could be kept at *path*."""
    if not os.path.isabs(path) or not os.path.isdir(os.path.dirname(path)):
        raise PlumblineError("baseline: %s; wanted an absolute path in a directory that exists on the host" % path)


def save_baseline(path: str, baseline: Baseline) -> None:
    """Put the baseline on the host, in one step and through to the disk; root only."""
    try:
        replace_file(path, to_text(baseline), 0o600)
    except OSError as fault:
        raise PlumblineError("baseline %s could not be written: %s" % (path, fault.strerror or fault)) from fault


def baseline_as_dict(baseline: Baseline) -> Dict[str, Any]:
    """What a module returns of it."""
    return {
        "legs": [leg._asdict() for leg in baseline.legs],
        "jobs": {name: {"raw_mib_s": round(math.fsum(raw.rates) / len(raw.rates) / (1 << 20), 2), "when": raw.when} for name, raw in baseline.jobs.items()},
    }
