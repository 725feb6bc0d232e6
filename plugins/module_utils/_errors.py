# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The one exception of the library code.

``main()`` of every module catches it once and fails from it, so nothing below the modules
knows how Ansible reports a failure.
"""

from __future__ import annotations

from typing import Callable, Iterable, List, Sequence, TypeVar

_LONGEST = 4000  # characters of a message: what comes from outside may be of any length


def shown(text: str, keep: str = "") -> str:
    r"""*text* as a person may see it: what is no printable character is written as ``\x1b`` or ``\u202e``, but for those in *keep*.

    Models, labels and names come from devices, which may hold anything: control characters that drive a terminal, marks that turn the
    direction of the text round it (Unicode TR 36), bytes that are no UTF-8 (kept by Python as U+DC80 to U+DCFF), line ends that forge a line.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _code(ord(char)) for char in text)


def _code(number: int) -> str:
    if 0xDC80 <= number <= 0xDCFF:
        return "\\x%02x" % (number - 0xDC00)
    return "\\x%02x" % number if number < 0x100 else "\\u%04x" % number if number < 0x10000 else "\\U%08x" % number


def one_line(text: str) -> str:
    """*text* as one line of a message: its lines joined, nothing in it that is not printable, and of a bounded length."""
    line = text.strip() if text.isprintable() else shown("; ".join(part.strip() for part in text.splitlines() if part.strip()))
    return line if len(line) <= _LONGEST else "%s … (%d characters)" % (line[:_LONGEST], len(line))


class PlumblineError(Exception):
    """A refusal or an unusable input: *msg* is one line, *reasons* name each cause on its own line."""

    def __init__(self, msg: str, reasons: Sequence[str] = ()) -> None:
        # What a tool says (mount, sfdisk, lvm) may be several lines.
        self.msg = one_line(msg)
        super().__init__(self.msg)
        self.reasons = [one_line(reason) for reason in reasons]


def several(prefix: str, faults: Sequence[str]) -> PlumblineError:
    """One error for all faults. Its message has the first, and how many more there are and of what; all of them are its reasons.

    A fault begins with what it is about and a colon; one that begins with a blank belongs to the fault before it.
    """
    rest = [fault for fault in faults[1:] if not fault.startswith(" ")]
    where = list(dict.fromkeys(fault.split(": ", 1)[0] for fault in rest))
    about = ", ".join(where[:4]) + (" …" if len(where) > 4 else "")
    return PlumblineError("%s%s%s" % (prefix, faults[0], " (and %d more, of %s: see reasons)" % (len(rest), about) if rest else ""), faults)


T = TypeVar("T")


class Faults:
    """Collects what is wrong with an input, so that all of it is told at once."""

    def __init__(self) -> None:
        self.lines: List[str] = []

    def take(self, default: T, reader: Callable[..., T], *args: object) -> T:
        """What *reader* returns of *args*; *default* where it raises PlumblineError, which is kept."""
        try:
            return reader(*args)
        except PlumblineError as fault:
            self.lines += fault.reasons or [fault.msg]
            return default

    def tell(self) -> None:
        """Raise PlumblineError with all that was found, if anything was."""
        if self.lines:
            raise several("", self.lines) if len(self.lines) > 1 else PlumblineError(self.lines[0])


def nearest(word: object, valid: Iterable[str]) -> str:
    """Return ``' (did you mean x?)'`` for the valid word nearest to *word*, or an empty string."""
    import difflib  # pylint: disable=import-outside-toplevel # wanted by mistakes only

    match = difflib.get_close_matches(str(word)[:200], list(valid), n=1, cutoff=0.5)
    return " (did you mean '%s'?)" % match[0] if match else ""
