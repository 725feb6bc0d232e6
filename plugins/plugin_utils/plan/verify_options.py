# SPDX-License-Identifier: GPL-3.0-or-later
"""``plumbline_verify``, read and checked. Pure.

The options of a measurement are those of its module, and are checked by the module's own code: a mistake is found when the
host is planned, and not when it has been built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.checks import check_entry, choice, kind, strings
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import Faults, PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.kept_proof import ACCEPTANCES
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.measurements import MEASUREMENTS

POLICIES = ("unproven", "always", "never")
INCONCLUSIVE = ("fail", "warn")
SHOW = ("full", "summary")
_KEYS = ("policy", "inconclusive", "accept", "fetch", "show", *MEASUREMENTS)
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {measure: {} for measure in MEASUREMENTS}
# A type of an argument spec: what YAML makes of it, and the word for it.
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a string"),
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "list": ((list,), "a list"),
    "dict": ((dict,), "a mapping"),
}


class Verify(NamedTuple):
    """When to measure, what, and against which thresholds."""

    policy: str = "unproven"
    inconclusive: str = "fail"
    fetch: str = ""
    show: str = "full"
    accept: tuple[str, ...] = ()  # what may be unproven
    # The options that were given, by measurement. A measurement that is missing here is switched off.
    measures: Mapping[str, Mapping[str, Any]] = _DEFAULTS

    def as_dict(self) -> dict[str, Any]:
        return dict(self._asdict(), accept=list(self.accept), measures={measure: dict(options) for measure, options in self.measures.items()})


def read_verify(raw: Any) -> Verify:
    """Read ``plumbline_verify``. Raises PlumblineError naming all that is wrong, and where it stands."""
    faults = Faults()
    entry = check_entry(raw, _KEYS, (), "plumbline_verify", faults)
    no_words: list[str] = []
    words = faults.take(no_words, strings, entry.get("accept", []), "plumbline_verify.accept")
    no_options: dict[str, Any] = {}
    verify = Verify(
        policy=faults.take("", choice, entry.get("policy", "unproven"), POLICIES, "plumbline_verify.policy"),
        inconclusive=faults.take("", choice, entry.get("inconclusive", "fail"), INCONCLUSIVE, "plumbline_verify.inconclusive"),
        fetch=faults.take("", _read_fetch, entry.get("fetch", "")),
        show=faults.take("", choice, entry.get("show", "full"), SHOW, "plumbline_verify.show"),
        accept=tuple(faults.take("", choice, word, tuple(ACCEPTANCES), "plumbline_verify.accept") for word in words),
        measures={
            measure: faults.take(no_options, _read_options, measure, entry.get(measure, {})) for measure in MEASUREMENTS if entry.get(measure) is not False
        },
    )
    faults.tell()
    return verify


def _read_fetch(raw: Any) -> str:
    if not isinstance(raw, str):
        raise PlumblineError("plumbline_verify.fetch: found %s; wanted a directory of the controller, or nothing" % kind(raw))
    return raw


def _read_options(measure: str, raw: Any) -> dict[str, Any]:
    """The options of one measurement as they were given, checked."""
    if raw is True or raw == {}:
        return {}
    where = "plumbline_verify." + measure
    arguments, read, target = MEASUREMENTS[measure][:3]
    faults = Faults()
    given = dict(check_entry(raw, tuple(arguments), (), where, faults))
    for key in [key for key in given if key in arguments]:
        faults.take(None, _check_type, given[key], arguments[key], "%s.%s" % (where, key))
    faults.tell()
    params = {key: argument.get("default") for key, argument in arguments.items()}
    try:
        read({**params, **given, **target})
    except PlumblineError as fault:
        raise PlumblineError("%s.%s" % (where, fault.msg)) from fault
    except OverflowError as fault:  # YAML takes a whole number of any length
        raise PlumblineError("%s: a number in it is larger than anything that is measured" % where) from fault
    return given


def _check_type(value: Any, argument: Mapping[str, Any], where: str) -> None:
    expected, words = _TYPES[argument["type"]]
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        raise PlumblineError("%s: found %s; wanted %s" % (where, kind(value), words))
    inner, words = _TYPES[argument.get("elements", "str")]
    strange = [element for element in value if not isinstance(element, inner)] if isinstance(value, list) else []
    if strange:
        raise PlumblineError("%s: found %s in it; wanted %s" % (where, kind(strange[0]), words))
