# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a record, which may be anything, as what the report expects; and as text, the same on every machine. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable, one_line

NOTHING = "–"
_LONGEST = 600  # characters of one value in a page
_LARGEST = 1e300  # beyond it, differences and sums are no numbers any more


def as_dict(value: Any) -> Mapping[str, Any]:
    """*value* if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """*value* if it is a list, else an empty one."""
    return list(value) if isinstance(value, (list, tuple)) else []


def dicts(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list."""
    return [member for member in as_list(value) if isinstance(member, Mapping)]


def as_number(value: Any) -> float | None:
    """A number that can be drawn and compared: None for NaN, infinities, truth values and texts."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        numeric = float(value)
    except OverflowError:
        return None
    return numeric if abs(numeric) < _LARGEST else None  # NaN compares as false


def words(value: Any) -> str:
    """*value* as one line that can be shown: nothing in it drives a terminal or turns the direction of the text."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(value)
    text = str(value) if isinstance(value, str) else as_json(value)  # a plain one, whatever kind of text it calls itself
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}… ({len(text)} characters)"


def as_json(value: Any) -> str:
    """*value* as JSON in one line, whatever it is; a text in its place where JSON cannot say it."""
    for sort in (True, False):  # keys of several kinds cannot be sorted
        try:
            return json.dumps(value, ensure_ascii=False, sort_keys=sort, default=lambda _strange: "not shown", skipkeys=True)
        except (TypeError, ValueError, RecursionError):
            continue
    return '"not shown"'


def printable(text: str) -> str:
    """Text of several lines as it can be shown; a text that is long stays long."""
    return escape_unprintable(text, keep="\n")


def number(value: Any, digits: int = 3) -> str:
    """A number for people: at least *digits* digits, no more behind the point than that takes, thousands apart. The same on every machine."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15:
        return f"{value:,}"
    numeric = as_number(value)
    if numeric is None:
        return _no_number(value)
    if numeric == 0:
        return "0"
    if abs(numeric) >= 1e15 or abs(numeric) < 1e-4:
        return f"{numeric:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(numeric))))
    text = f"{numeric:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _no_number(value: Any) -> str:
    """What is shown in place of a value that is no finite number."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if isinstance(value, int) and not isinstance(value, bool):
        return ("" if value > 0 else "−") + "a number of more than 300 digits"
    return NOTHING


def percent(value: Any) -> str:
    """A number of percent."""
    share = as_number(value)
    return NOTHING if share is None else f"{number(share)} %"


def size(value: Any) -> str:
    """A number of bytes."""
    count = as_number(value)
    return NOTHING if count is None or not 0 <= count < 2**80 else human(int(count))


def interval(low: Any, high: Any, unit: str = "") -> str:
    """Two ends of an interval, or as much as is known of them."""
    ends = [as_number(low), as_number(high)]
    if None not in ends:
        text = f"{number(ends[0])} to {number(ends[1])}"
    elif ends[0] is not None:
        text = f"≥ {number(ends[0])}"
    elif ends[1] is not None:
        text = f"≤ {number(ends[1])}"
    else:
        return NOTHING
    return f"{text} {unit}".strip()


def counted(count: int, noun: str, many: str = "") -> str:
    """A number of things: ``1 host``, ``1,000 hosts``."""
    return f"{number(count)} {noun if count == 1 else many or noun + 's'}"
