# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a trim reached the drives, from what was seen on each of them. Pure; the cheapest evidence comes first."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.evidence import Level, median

REACHED, NOT_REACHED, UNKNOWN = "reached", "not_reached", "cannot_tell"
VERDICTS = {REACHED: PASS, NOT_REACHED: FAIL, UNKNOWN: INCONCLUSIVE}
# What places read that held random data before the trim.
BLANK, KEPT, CHANGED = "blank", "kept", "changed"
COUNTED = 0.99  # of the bytes that the trim was of, for a drive to have been sent it
ERROR = 1e-4  # the probability that the timing of a drive says what is wrong


class DriveSeen(NamedTuple):
    """What was seen of a trim on one drive. None: it cannot be asked, or was not."""

    name: str
    asked: int  # bytes of the trimmed file on it
    counted: Optional[int] = None  # bytes by which the kernel's account of its discards grew
    used: Optional[Tuple[int, int, int]] = None  # bytes in use as the drive reports them (NUSE): before the file, with it, after the trim
    contents: str = CHANGED  # of the places that were looked at
    promised: bool = False  # the drive says what it returns for discarded blocks
    faster: Optional[bool] = None  # whether these are read faster by the ratio than the written ones beside them
    ratio: float = 0.0  # by which they are, as an estimate


def by_counter(seen: DriveSeen) -> Optional[Tuple[str, str]]:
    """A drive that was not sent it. That one was says nothing of what it did."""
    if seen.counted is None or seen.counted >= COUNTED * seen.asked:
        return None
    return NOT_REACHED, "the kernel sent it discards of %s, and %s of it were trimmed" % (human(seen.counted), human(seen.asked))


def by_use(seen: DriveSeen) -> Optional[Tuple[str, str]]:
    """NUSE that follows what is written and trimmed. On many drives it is fixed, and says nothing."""
    if seen.used is None:
        return None
    before, full, after = seen.used
    if full - after >= seen.asked // 2:
        return REACHED, "its namespace utilisation (NUSE) fell by %s" % human(full - after)
    if full - before >= seen.asked // 2 and full - after < seen.asked // 20:
        return NOT_REACHED, "its namespace utilisation (NUSE) rose by %s with the file, and did not fall with the trim" % human(full - before)
    return None


def by_contents(seen: DriveSeen) -> Optional[Tuple[str, str]]:
    """Random data that is gone was discarded. Data that is still there was not, on a drive that says what it returns."""
    if seen.contents == BLANK:
        return REACHED, "the trimmed blocks read as blank"
    if seen.contents == KEPT and seen.promised:
        return NOT_REACHED, "it returns fixed values for discarded blocks, by its own word, and the data are still there"
    return None


def by_timing(seen: DriveSeen) -> Optional[Tuple[str, str]]:
    """Unmapped blocks are answered without the flash. Where others took the trimmed blocks meanwhile, only the faster reads count."""
    if seen.faster:
        return REACHED, "the trimmed blocks are read %.2f times as fast as those beside them" % seen.ratio
    if seen.faster is False and seen.contents == KEPT:
        return NOT_REACHED, "the data are still there, and are read no faster than those beside them (%.2f times)" % seen.ratio
    return None


EVIDENCE = (by_counter, by_use, by_contents)  # what costs next to nothing


def judge_drive(seen: DriveSeen) -> Tuple[str, str]:
    """(verdict, why) of one drive: of the first evidence that says something."""
    for evidence in (*EVIDENCE, by_timing):
        judgement = evidence(seen)
        if judgement:
            return judgement
    return UNKNOWN, "neither its counters nor its contents nor the time of its reads tell"


def wants_timing(seen: DriveSeen) -> bool:
    return not any(evidence(seen) for evidence in EVIDENCE)


class Timing:
    """A sequential test of whether unmapped blocks are read faster by a ratio, from pairs of latencies."""

    def __init__(self, min_ratio: float) -> None:
        self.min_ratio = min_ratio
        self.level = Level(2, ERROR, 1.0)
        self.pairs: List[Tuple[float, float]] = []

    def add(self, trimmed: float, written: float) -> None:
        """The latencies of two reads beside each other, in any unit."""
        self.level.add([trimmed * self.min_ratio, written])
        self.pairs.append((trimmed, written))

    @property
    def faster(self) -> Optional[bool]:
        """Whether they certainly are, or certainly are not; None: not certain yet."""
        winner = self.level.winner()
        return None if winner is None else winner == 0

    @property
    def ratio(self) -> float:
        trimmed = median([latency for latency, _written in self.pairs]) if self.pairs else 0.0
        return median([latency for _trimmed, latency in self.pairs]) / trimmed if trimmed else 0.0


def trim_result(title: str, drives: Sequence[DriveSeen], trimmed: int, seconds: float, why: Sequence[str] = (), offered: bool = True) -> Dict[str, Any]:
    """What the module returns. *why*: reasons beside those of the drives; *offered* False: the filesystem takes no trim."""
    judged = [(drive, *judge_drive(drive)) for drive in drives]
    words = [word for _drive, word, _why in judged]
    trim = NOT_REACHED if NOT_REACHED in words or not offered else REACHED if words and set(words) == {REACHED} and not why else UNKNOWN
    reasons = [*why, *("%s: %s" % (drive.name, text) for drive, word, text in judged if word != REACHED)]
    report = ["%s: trim %s (%s trimmed, %.1f s)" % (title, trim.replace("_", " "), human(trimmed), seconds)]
    return {
        "verdict": VERDICTS[trim],
        "trim": trim,
        "offered": offered,
        "trimmed_bytes": trimmed,
        "seconds": round(seconds, 2),
        "drives": [
            {
                "device": drive.name,
                "trim": word,
                "why": text,
                "asked_bytes": drive.asked,
                "counted_bytes": drive.counted,
                "used_bytes": list(drive.used) if drive.used else None,
                "contents": drive.contents,
                "promised": drive.promised,
                "faster": drive.faster,
                "ratio": round(drive.ratio, 2) if drive.faster is not None else None,
            }
            for drive, word, text in judged
        ],
        "reasons": reasons,
        "report": report + ["  " + text for text in why] + ["  %s: %s: %s" % (drive.name, word.replace("_", " "), text) for drive, word, text in judged],
    }
