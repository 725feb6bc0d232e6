# SPDX-License-Identifier: GPL-3.0-or-later
"""How many tests a stage ran, by the closing lines that pytest left in its log."""

from __future__ import annotations

import re
from dataclasses import dataclass

# "4284 passed, 4 skipped in 152.70s (0:02:32)", alone or between "=" signs.
_CLOSING = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in \d+\.\d+s\b", re.MULTILINE)
_KINDS = {"passed": "passed", "failed": "failed", "error": "failed", "errors": "failed", "skipped": "skipped"}


@dataclass(frozen=True)
class Counts:
    """Tests by their outcome; an error before or after a test is a failure."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def count(log: str, succeeded: bool) -> Counts:
    """The tests of a stage by its log. A stage without tests of pytest's, or one that failed beside them, is one test itself."""
    found = {"passed": 0, "failed": 0, "skipped": 0}
    for closing in _CLOSING.findall(log):
        for number, word in re.findall(r"(\d+) ([a-z]+)", closing):
            if word in _KINDS:
                found[_KINDS[word]] += int(number)
    counted = Counts(**found)
    if counted == Counts() or (not succeeded and not counted.failed):
        counted += Counts(passed=int(succeeded), failed=int(not succeeded))
    return counted
