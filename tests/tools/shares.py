# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the lab's two machines runs which scenario and which test file: shares.yml, read and held against what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

TABLE = Path(__file__).with_name("shares.yml")
FOLDER = "tests/lab"


@dataclass(frozen=True)
class Shares:
    """Machine → scenario or test → seconds. The order of the tests is that in which they run."""

    scenarios: Mapping[int, Mapping[str, float]]
    tests: Mapping[int, Mapping[str, float]]

    @classmethod
    def read(cls, table: Path = TABLE) -> Shares:
        """The table as it is kept."""
        found = yaml.safe_load(table.read_text(encoding="utf-8"))
        return cls({number: found[number]["scenarios"] for number in (1, 2)}, {number: found[number]["tests"] for number in (1, 2)})

    def of_scenario(self, name: str) -> int:
        """The machine of a scenario; ValueError where it has none."""
        return _machine(self.scenarios, name, "scenario")

    def of_test(self, name: str) -> int:
        """The machine of a test file, which is named without its ending; ValueError where it has none."""
        return _machine(self.tests, name, "test")

    def files(self, chosen: Sequence[str], number: int | None = None) -> list[str]:
        """The chosen test files, or those of them that a machine has, in the order of the table. The folder stands for all."""
        every = {name: at for at in (1, 2) for name in self.tests[at]}
        wanted = set(every) if FOLDER in chosen else {Path(name).stem for name in chosen}
        for name in sorted(wanted):
            self.of_test(name)
        return [f"{FOLDER}/{name}.py" for name, at in every.items() if name in wanted and number in (None, at)]

    def seconds(self, number: int) -> float:
        """What a machine has to do."""
        return sum(self.scenarios[number].values()) + sum(self.tests[number].values())


def _machine(shares: Mapping[int, Mapping[str, float]], name: str, kind: str) -> int:
    for number in (1, 2):
        if name in shares[number]:
            return number
    raise ValueError(f"{kind} {name} has no machine; write it down in {TABLE.name}, with the seconds that it takes")
