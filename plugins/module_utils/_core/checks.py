# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what a user writes: keys, kinds and choices, with the nearest valid word. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import Faults, PlumblineError, nearest


def check_unique(words: Sequence[str], message: str, faults: Optional[Faults] = None) -> None:
    twice = [word for word, count in Counter(words).items() if count > 1]
    if twice and faults is None:
        raise PlumblineError(message % twice[0])
    if faults is not None:
        faults.lines += [message % word for word in twice]


def kind(value: Any) -> str:
    """What a value is, for people."""
    if value == []:
        return "an empty list"
    names = {dict: "a mapping", list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), type(value).__name__)


def check_keys(entry: Any, valid: Sequence[str], where: str) -> Dict[str, Any]:
    """A mapping that has none but these keys. Raises PlumblineError naming each other one and the nearest valid one."""
    if not isinstance(entry, dict):
        raise PlumblineError("%s: found %s; wanted a mapping with %s" % (where, kind(entry), ", ".join(valid)))
    faults = Faults()
    faults.lines += ["%s: unknown key '%s'%s; valid keys: %s" % (where, key, nearest(str(key), valid), ", ".join(valid)) for key in entry if key not in valid]
    faults.tell()
    return entry


def choice(value: Any, valid: Sequence[str], where: str) -> str:
    """One of these words. Raises PlumblineError for another."""
    if value not in valid:
        raise PlumblineError("%s: '%s' is not known%s; wanted one of %s" % (where, value, nearest(str(value), valid), ", ".join(valid)))
    return str(value)


def flag(raw: Any, where: str) -> bool:
    if not isinstance(raw, bool):
        raise PlumblineError("%s: '%s' does not fit; wanted true or false" % (where, raw))
    return raw


def strings(value: Any, where: str) -> List[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise PlumblineError("%s: found %s; wanted a list of strings" % (where, kind(value)))
    return value


def match_text(value: Any, pattern: "re.Pattern[str]", where: str, expected: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not pattern.fullmatch(str(value)):
        raise PlumblineError("%s: '%s' does not fit; wanted %s" % (where, value, expected))
    return str(value)


def check_entry(raw: Any, valid: Sequence[str], needed: Sequence[str], where: str, faults: Faults) -> Mapping[str, Any]:
    """The keys of a mapping that are known, with a fault for each that is not, and for each that is *needed* and missing."""
    if not isinstance(raw, dict):
        check_keys(raw, valid, where)
    entry: Dict[str, Any] = dict(raw)
    faults.take(entry, check_keys, raw, valid, where)
    faults.lines += ["%s: '%s' is missing" % (where, key) for key in needed if key not in raw]
    return entry
