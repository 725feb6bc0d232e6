# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds of a run to the steady state, as its file has them, and what they say so far. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE, NOT_JUDGED, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.amplification import counted_amplification
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.cliff import WINDOW_SHARE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import (
    ROUND_SHARE,
    RUNNING,
    STEADY,
    WINDOW,
    LoadRound,
    Steady,
    judge_steady,
    rate_of,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.picture import Picture, look_at
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import RandomLoad, load_words

_AT_THE_END = 0.1  # of a fill: what the rate of a picture is taken from
_MIB = float(1 << 20)
_LATENCIES = (("p50_ms", "p50_us"), ("p99_ms", "p99_us"), ("p999_ms", "p999_us"))


class Rounds(NamedTuple):
    """The records behind the head, the loaded capacity in bytes, and what the run was asked for."""

    records: Sequence[Mapping[str, Any]]
    capacity: int
    options: Options

    @property
    def filled(self) -> int:
        """Bytes of the sequential fill that are done."""
        return sum(record["bytes"] for record in self.records if record["step"] == "fill")

    @property
    def to_fill(self) -> int:
        """Bytes of the sequential fill that are left."""
        return self.capacity * self.options.sequential_fills - self.filled

    @property
    def freed(self) -> bool:
        """Whether the device was left blank again."""
        return any(record["step"] == "freed" for record in self.records)

    @property
    def resumed(self) -> int:
        """The number of records up to the last time that the run was taken up."""
        return max((number + 1 for number, record in enumerate(self.records) if record["step"] == "resumed"), default=0)

    @property
    def verdict(self) -> Steady:
        """What the rounds of the load say. Those before the run was last taken up count as written and for nothing else."""
        if self.options.is_picture:
            return self._drawn_so_far()
        before = sum(record["bytes"] for record in self.records[: self.resumed] if record["step"] == "load") / self.capacity
        rounds = [round_of(record) for record in self.records[self.resumed :] if record["step"] == "load"]
        options = self.options
        if before:
            least = max(options.min_fills - before, options.tidied_fills + 2 * WINDOW * ROUND_SHARE)
            options = options._replace(min_fills=least, max_fills=max(options.max_fills - before, 0.0))
        steady = judge_steady(rounds, self.capacity, options)
        if before and steady.verdict == INCONCLUSIVE:
            steady = steady._replace(why="%s; it was interrupted after %.1f fills" % (steady.why, before))
        return steady._replace(fills=before + steady.fills)

    def _drawn_so_far(self) -> Steady:
        loaded = [round_of(record) for record in self.records if record["step"] == "load"]
        fills = sum(loaded_round.bytes for loaded_round in loaded) / self.capacity
        late = loaded[-max(round(_AT_THE_END / WINDOW_SHARE), 1) :]
        return Steady(NOT_JUDGED if fills >= self.options.max_fills - 1e-9 else RUNNING, "a picture, not judged", fills, rate_of(late))

    @property
    def picture(self) -> Picture:
        """What a picture shows so far; empty for a run that is no picture."""
        return look_at(self.records, self.capacity, self.options)

    @property
    def share(self) -> float:
        """How much of the run is done, 0 to 1, if it is as long as it may be."""
        verdict, whole = self.verdict, self.options.sequential_fills + self.options.max_fills
        return 1.0 if verdict.verdict != RUNNING else (self.filled / self.capacity + verdict.fills) / whole

    @property
    def seconds(self) -> float:
        """The time of all rounds."""
        return math.fsum(record["seconds"] for record in self.records if record["step"] in ("fill", "load"))


def round_of(record: Mapping[str, Any]) -> LoadRound:
    """A round as it was kept. Raises ValueError, KeyError or TypeError for a record that is no round."""
    # A run that was begun before the last two were kept lacks them.
    more = (record.get("p50_us"), record.get("p999_us"))
    load_round = LoadRound(int(record["bytes"]), float(record["seconds"]), record["p99_us"], record["temperature"], *more)
    if load_round.bytes <= 0:
        raise ValueError(load_round)
    return load_round


def parse_records(text: bytes, path: str) -> List[Dict[str, Any]]:
    """The records of whole lines, the head first. Raises PlumblineError for a file that is no record of a run."""
    try:
        lines: List[Dict[str, Any]] = [json.loads(line) for line in text.decode("ascii").splitlines()]
        if not all(isinstance(line, dict) and "step" in line for line in lines):
            raise ValueError
        for line in lines:
            if line["step"] in ("fill", "load"):
                round_of(line)
    except (ValueError, KeyError, TypeError) as fault:
        raise PlumblineError("%s: it is no record of a run, or damaged; remove it to begin anew" % path) from fault
    return lines


def steady_result(rounds: Rounds, load: RandomLoad, device: str) -> Dict[str, Any]:
    """The result of a run so far, as the module returns it and the report reads it."""
    verdict = rounds.verdict
    is_picture, picture = rounds.options.is_picture, rounds.picture
    return {
        "device": device,
        "mode": rounds.options.mode,
        "verdict": NOT_JUDGED if is_picture else PASS if verdict.verdict == STEADY else INCONCLUSIVE,
        "reasons": [] if is_picture or verdict.verdict == STEADY else [verdict.why],
        "why": verdict.why,
        "pattern": load_words(load, rounds.options),
        "fills": round(verdict.fills, 3),
        "mib_s": _mib(verdict.rate),
        "mib_s_low": _mib(verdict.low),
        "mib_s_high": _mib(verdict.high),
        "iops": round(verdict.rate / load.block, 1),
        "p99_ms": _tail_ms(rounds, verdict),
        **_amplification(rounds, verdict),
        "reserve_percent": round(100 * rounds.options.reserve, 2),
        "stalled_rounds": verdict.stalled,
        "seconds": round(rounds.seconds, 1),
        "first_collapse_fills": picture.collapse,
        "hidden_space": picture.hidden,
        "period_fills": picture.period,
        "doubts": list(picture.doubts),
        **_drawn(rounds, load, verdict),
    }


def _tail_ms(rounds: Rounds, verdict: Steady) -> Optional[float]:
    """The median of the windows' 99th percentiles; of a picture that of its last fill."""
    if rounds.options.is_picture:
        tails = [record["p99_us"] for record in rounds.records if record["step"] == "drawn"][-1:]
    else:
        loaded = [record for record in rounds.records[rounds.resumed :] if record["step"] == "load"]
        tails = sorted(record["p99_us"] for record in loaded[verdict.first :] if record["p99_us"] is not None)
    return _ms(tails[len(tails) // 2]) if tails else None


def _amplification(rounds: Rounds, verdict: Steady) -> Dict[str, Any]:
    """By the drive's own counters, from before the windows of the verdict to their end."""
    loads = [number for number, record in enumerate(rounds.records) if record["step"] == "load" and number >= rounds.resumed]
    amplification = None
    if verdict.verdict == STEADY:
        ends = (rounds.records[loads[verdict.first] - 1], rounds.records[loads[-1]])
        amplification = counted_amplification(*(record.get("counters") or {} for record in ends))
    values = amplification._asdict() if amplification else {}
    names = (("", "value"), ("_low", "low"), ("_high", "high"))
    return {"write_amplification" + end: round(values[key], 3) if values else None for end, key in names}


def _mib(rate: Any) -> Any:
    return None if rate is None else round(rate / _MIB, 2)


def _ms(latency: Optional[float]) -> Optional[float]:
    return None if latency is None else round(latency / 1000, 4)


def _drawn(rounds: Rounds, load: RandomLoad, verdict: Steady) -> Dict[str, Any]:
    """The series over fills, its windows and its marks, for pictures."""
    series: Dict[str, List[Any]] = {"fills": [], "mib_s": [], "iops": [], "p50_ms": [], "p99_ms": [], "p999_ms": []}
    marks: List[Dict[str, Any]] = []
    windows: List[Dict[str, Any]] = []
    written, number, begun = 0, 0, 0.0
    for at, record in enumerate(rounds.records):
        if record["step"] == "resumed":
            marks.append({"fills": round(written / rounds.capacity, 4), "label": "taken up again"})
        if record["step"] == "drawn" and series["fills"]:
            for name, key in _LATENCIES:
                series[name][-1] = _ms(record.get(key))
        if record["step"] not in ("fill", "load"):
            continue
        if record["step"] == "load" and not rounds.options.is_picture and not any(mark["label"] == "random load" for mark in marks):
            marks.append({"fills": round(written / rounds.capacity, 4), "label": "random load"})
        if record["step"] == "load" and at >= rounds.resumed:
            if number == verdict.first:
                begun = written / rounds.capacity
            number += 1
        load_round = round_of(record)
        written += load_round.bytes
        series["fills"].append(round(written / rounds.capacity, 4))
        series["mib_s"].append(_mib(load_round.rate))
        series["iops"].append(round(load_round.rate / load.block, 1) if record["step"] == "load" else None)
        for name, key in _LATENCIES:
            series[name].append(_ms(getattr(load_round, key)))
    if rounds.picture.collapse is not None:
        marks.append({"fills": rounds.picture.collapse, "label": "first collapse"})
    if verdict.verdict == STEADY:
        windows.append({"first_fills": round(begun, 4), "last_fills": round(written / rounds.capacity, 4), "label": "steady"})
    return {"series": series, "windows": windows, "marks": marks}
