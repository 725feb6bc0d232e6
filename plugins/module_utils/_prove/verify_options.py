# SPDX-License-Identifier: GPL-3.0-or-later
"""``plumbline_verify``, read and checked. Pure.

The options of a measurement are those of its module, and are checked by the module's own code: a mistake is found when the
host is planned, and not when it has been built.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.checks import check_keys, choice, kind, strings
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.kept_proof import ACCEPTANCES
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.measurements import MEASUREMENTS

POLICIES = ("unproven", "always", "never")
INCONCLUSIVE = ("fail", "warn")
SHOW = ("full", "summary")
_KEYS = ("policy", "inconclusive", "accept", "fetch", "show", *MEASUREMENTS)
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {measure: {} for measure in MEASUREMENTS}
# A type of an argument spec: what YAML makes of it, and the word for it.
_TYPES: Mapping[str, Tuple[Tuple[type, ...], str]] = {
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
    accept: Tuple[str, ...] = ()  # what may be unproven
    # The options that were given, by measurement. A measurement that is missing here is switched off.
    measures: Mapping[str, Mapping[str, Any]] = _DEFAULTS

    def as_dict(self) -> Dict[str, Any]:
        return dict(self._asdict(), accept=list(self.accept), measures={measure: dict(options) for measure, options in self.measures.items()})


def read_verify(raw: Any) -> Verify:
    """Read ``plumbline_verify``. Raises PlumblineError naming the first thing that is wrong, and where it stands."""
    entry = check_keys(raw, _KEYS, "plumbline_verify")
    fetch = entry.get("fetch", "")
    if not isinstance(fetch, str):
        raise PlumblineError("plumbline_verify.fetch: found %s; wanted a directory of the controller, or nothing" % kind(fetch))
    return Verify(
        policy=choice(entry.get("policy", "unproven"), POLICIES, "plumbline_verify.policy"),
        inconclusive=choice(entry.get("inconclusive", "fail"), INCONCLUSIVE, "plumbline_verify.inconclusive"),
        fetch=fetch,
        show=choice(entry.get("show", "full"), SHOW, "plumbline_verify.show"),
        accept=tuple(choice(one, tuple(ACCEPTANCES), "plumbline_verify.accept") for one in strings(entry.get("accept", []), "plumbline_verify.accept")),
        measures={measure: _read_options(measure, entry.get(measure, {})) for measure in MEASUREMENTS if entry.get(measure) is not False},
    )


def _read_options(measure: str, raw: Any) -> Dict[str, Any]:
    """The options of one measurement as they were given, checked."""
    if raw is True or raw == {}:
        return {}
    where = "plumbline_verify." + measure
    arguments, read, target = MEASUREMENTS[measure][:3]
    given = check_keys(raw, tuple(arguments), where)
    for key, value in given.items():
        wanted, words = _TYPES[arguments[key]["type"]]
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise PlumblineError("%s.%s: found %s; wanted %s" % (where, key, kind(value), words))
        inner, words = _TYPES[arguments[key].get("elements", "str")]
        strange = [one for one in value if not isinstance(one, inner)] if isinstance(value, list) else []
        if strange:
            raise PlumblineError("%s.%s: found %s in it; wanted %s" % (where, key, kind(strange[0]), words))
    params = {key: argument.get("default") for key, argument in arguments.items()}
    try:
        read({**params, **given, **target})
    except PlumblineError as fault:
        raise PlumblineError("%s.%s" % (where, fault.msg)) from fault
    except OverflowError as fault:  # YAML takes a whole number of any length
        raise PlumblineError("%s: a number in it is larger than anything that is measured" % where) from fault
    return given
