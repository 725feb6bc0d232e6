# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception of the library code.

``main()`` of every module catches it once and fails from it, so nothing below the modules
knows how Ansible reports a failure.
"""

from __future__ import annotations

from typing import Callable, Iterable, List, Sequence, TypeVar

from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import one_line


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


# How a refusal begins.
NOTHING_WRITTEN = "refused: nothing was written. "

T = TypeVar("T")


class Faults:
    """Collects what is wrong with an input, so that all of it is reported at once."""

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
