# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds of cells that are done, kept on the host, so that a measurement that was cut off goes on behind them. I/O.

A file is named by the drive, and its first line says what was measured there: other drives, other cells or other blocks begin anew. So does a
measurement that nobody took up for a day. What only judges the rates (floors, a workload, a record) may change meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lines import LineFile
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import slug
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.judge import CellRound, ReadBlock
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import Options

DIRECTORY = "/var/lib/plumbline/acceptance"
FORMAT = 1
MOST_SECONDS = 86400  # since the last line
_BUSY = "another acceptance of this drive is under way; wait for it"
_FILLED = "filled"


def options_digest(options: Options) -> str:
    """A digest of all options that the rates depend on."""
    asked = [[[cell.name, cell.state] for cell in options.cells], options.blocks, options.block_seconds, options.serial]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


class KeptCells:
    """What is done of a measurement. *rounds*: by cell; *read*, *written* and *seconds*: what they took."""

    def __init__(self, drives: Sequence[str], options: Options, now: float) -> None:
        """*drives*: by what each is known for good, the one that is measured first; an empty one is not known again, and then nothing is kept."""
        self.problem = ""
        self._head = {"format": FORMAT, "drives": list(drives), "options": options_digest(options)}
        self._names = [cell.name for cell in options.cells]
        self._lines: List[Mapping[str, Any]] = []
        self._file: Optional[LineFile] = None
        if all(drives):
            self._file = LineFile(os.path.join(DIRECTORY, slug(drives[0]) + ".jsonl"), _BUSY)
            self._take_up(now)
        self.kept = len([line for line in self._lines if line["cell"] != _FILLED])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def finish(self) -> None:
        """The measurement is complete."""
        if self._file is not None:
            self._file.remove()

    def restart(self) -> None:
        """Forget all of it: the drive no longer holds what was left on it."""
        self._lines, self.kept = [], 0
        if self._file is not None:
            self._file.empty()

    @property
    def rounds(self) -> Dict[str, List[CellRound]]:
        rounds: Dict[str, List[CellRound]] = {name: [] for name in self._names}
        for line in self._lines:
            if line["cell"] != _FILLED:
                rounds[line["cell"]].append(CellRound(*(tuple(map(_block, line[side])) for side in ("own", "base"))))
        return rounds

    @property
    def filled(self) -> bool:
        """Whether the drive was filled since it was discarded."""
        return any(line["cell"] == _FILLED for line in self._lines)

    def sum_of(self, key: str) -> Any:
        """The sum of *read*, *written* or *seconds* over all rounds."""
        return sum(line[key] for line in self._lines)

    def add(self, cell: str, done: CellRound, now: float, **took: Any) -> None:
        self._keep({"cell": cell, "time": now, **took, **{side: [block._asdict() for block in blocks] for side, blocks in done._asdict().items()}})

    def add_fill(self, now: float, **took: Any) -> None:
        self._keep({"cell": _FILLED, "time": now, **took})

    def _keep(self, record: Mapping[str, Any]) -> None:
        """A record that cannot be kept ends no measurement: if that is cut off, it is taken up where the records end."""
        try:
            if self._file is not None:
                if not self._lines:
                    self._file.append(self._head)
                self._file.append(record)
        except OSError as fault:
            self.problem = "%s: the rounds could not be kept: %s" % (self._file.path if self._file else "", fault.strerror or fault)
            self.close()
        self._lines.append(record)

    def _take_up(self, now: float) -> None:
        """The records of this measurement, if there are any that can be used. Those of another one are removed."""
        try:
            head, *lines = self._file.read() if self._file else [{}]
            last = float(lines[-1]["time"])
            self._lines = lines
            if dict(head) == self._head and abs(now - last) <= MOST_SECONDS and self._is_sound():
                return
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            pass
        self.restart()

    def _is_sound(self) -> bool:
        return all(self.sum_of(key) >= 0 for key in ("read", "written", "seconds")) and all(
            block.rate > 0 and block.busy >= 0 for rounds in self.rounds.values() for cell_round in rounds for block in (*cell_round.own, *cell_round.base)
        )


def _block(record: Mapping[str, Any]) -> ReadBlock:
    """A block as it was kept: JSON has no numbers as keys."""
    bins = {int(key): int(count) for key, count in record["bins"].items()}
    return ReadBlock(float(record["rate"]), bins, float(record["busy"]), float(record["busiest"]))
