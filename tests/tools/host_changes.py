# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run changes on the host: the one table, which the guide shows and the tests of the whole host hold each run against.

`python tests/tools/host_changes.py` writes the table into docs/docsite/rst/guide_flow.rst; with `--check` it only says whether it is there.
The rows are in tests/lab/labkit/host_changes.yml.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "tests/lab/labkit/host_changes.yml"
GUIDE = ROOT / "docs/docsite/rst" / "guide_flow.rst"  # in two parts, since the tests of the host do not depend on what it shows: see affected.py
BEGIN, END = ".. begin: made by tests/tools/host_changes.py", ".. end: made by tests/tools/host_changes.py"
KINDS = {
    "path": "file",
    "unit": "unit",
    "kernel": "kernel setting",
    "mount": "mount",
    "storage": "block device",
    "port": "port",
    "process": "process",
    "nobody": "what users can read",
}
LINK = "0777"  # the mode of a symbolic link, which means nothing
HOW = {"added": "new", "changed": "changed", "gone": "removed"}


class Change(NamedTuple):
    """One thing that is other than before."""

    kind: str
    name: str
    how: str  # added, changed, gone
    fields: tuple[str, ...]
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.how}: {self.before or '-'} → {self.after or '-'}"


@dataclass(frozen=True)
class Row:
    """One row: what it says of these runs must be there after each of them, and nothing else may be."""

    runs: Mapping[str, Sequence[str]]  # role → its runs
    kind: str
    names: tuple[str, ...]  # {STACK} and its like stand for what the spec says, * for anything without a slash, ** for anything
    how: str  # one word of HOW, or several
    what: str
    why: str
    fields: tuple[str, ...] = ()  # of a changed path: those that may differ
    mode: str = ""  # of a new path
    public: bool = False  # every user may read or list it
    sometimes: bool = False  # it depends on what else happens on the host at that moment; `why` says on what

    def of(self, role: str, run: str) -> bool:
        return run in self.runs.get(role, ())

    def fits(self, change: Change, variables: Mapping[str, Sequence[str]]) -> bool:
        """Whether it says just this."""
        return (
            change.kind == self.kind
            and change.how in self.how.split()
            and set(change.fields) <= {*self.fields, "value"}
            and (not self.mode or change.how != "added" or change.after.split()[1] == self.mode)
            and any(_pattern(name, tuple((key, tuple(values)) for key, values in variables.items())).fullmatch(change.name) for name in self.names)
        )


@cache
def _pattern(name: str, variables: tuple[tuple[str, tuple[str, ...]], ...]) -> re.Pattern[str]:
    given = dict(variables)

    def part(word: str) -> str:
        if word in ("*", "**"):
            return ".*" if word == "**" else "[^/]*"
        if word[1:-1] not in given:
            raise KeyError(f"{name}: the test does not say what {word} is")
        return "(?:{})".format("|".join(map(re.escape, given[word[1:-1]])) or "(?!)")

    words = re.split(r"(\*\*|\*|\{[A-Z_]+\})", name)
    return re.compile("".join(part(word) if at % 2 else re.escape(word) for at, word in enumerate(words)))


@dataclass(frozen=True)
class Table:
    """The rows, what changes by itself, and the runs by their names."""

    rows: tuple[Row, ...]
    noise: tuple[Row, ...]
    runs: Mapping[str, str]
    notes: Mapping[str, str]


def _row(entry: Mapping[str, Any], runs: Mapping[str, Sequence[str]]) -> Row:
    names = entry["name"] if isinstance(entry["name"], list) else [entry["name"]]
    plain = {key: entry[key] for key in ("kind", "how", "what", "why", "mode", "public", "sometimes") if key in entry}
    return Row(runs=runs, names=tuple(names), fields=tuple(entry.get("fields", "").split()), **{"how": "", "what": "", **plain})


@cache
def read(path: Path = ROWS) -> Table:
    """The table. A row of an unknown kind, role or run is an error."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    rows = []
    for entry in data["rows"]:
        runs = {role: [run.strip() for run in text.split(",")] for role, text in entry["runs"].items()}
        unknown = {run for of_role in runs.values() for run in of_role}.difference(data["runs"])
        if unknown or entry["kind"] not in KINDS or not set(entry["how"].split()) <= set(HOW):
            raise ValueError(f"{entry['name']}: unknown are {', '.join(unknown) or entry['kind'] + ' ' + entry['how']}")
        rows.append(_row(entry, runs))
    return Table(tuple(rows), tuple(_row(entry, {}) for entry in data["by_itself"]), data["runs"], data.get("notes", {}))


def without_noise(changes: Iterable[Change], table: Table) -> list[Change]:
    """The changes but those that happen on an idle host as well."""

    def noise(change: Change) -> bool:
        return any(change.kind == row.kind and any(_pattern(name, ()).fullmatch(change.name) for name in row.names) for row in table.noise)

    return [change for change in changes if not noise(change)]


class Explained(NamedTuple):
    """What no row lists, and the rows that did not come true."""

    unlisted: list[Change]
    missing: list[Row]

    def __str__(self) -> str:
        lines = [f"not in the table: {change}" for change in self.unlisted]
        return "\n".join([*lines, *(f"in the table, and not seen: {row.kind} {', '.join(row.names)} {row.how}" for row in self.missing)]) or "as the table says"


def explain(changes: Iterable[Change], role: str, run: str, variables: Mapping[str, Sequence[str]], table: Table | None = None) -> Explained:
    """Hold the changes of a run against the rows of it."""
    table = table or read()
    if run not in table.runs:
        raise ValueError(f"{run} is no run of the table: {', '.join(table.runs)}")
    rows = [row for row in table.rows if row.of(role, run)]
    real = without_noise(changes, table)
    told = {change: row for change in real for row in rows if row.fits(change, variables)}
    unlisted = [change for change in real if change not in told and not (change.kind == "nobody" and _follows(change, told))]
    return Explained(unlisted, [row for row in rows if not row.sometimes and row not in told.values()])


def _follows(change: Change, told: Mapping[Change, Row]) -> bool:
    """Whether what an unprivileged user sees follows from a path that a row lists: it is gone, or new and closed, or said to be public."""
    own = [(path, row) for path, row in told.items() if path.kind == "path" and path.name in (change.name, change.name + " (mounted)")]
    if change.how == "gone":
        return any(path.how == "gone" for path, _row_ in own)
    return any(path.how == "added" and (row.public or not set(change.after) & {"r", "l"}) for path, row in own)


# --- the guide -------------------------------------------------------------------------------------


def _rst(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"``\1``", text)


def _cell(row: Row) -> str:
    names = ", ".join(f"``{re.sub('[{}]', '', name)}``" for name in row.names)
    extra = [
        " or ".join(HOW[how] for how in row.how.split()),
        *([f"mode {row.mode}"] if row.mode not in ("", LINK) else []),
        *(["sometimes"] if row.sometimes else []),
    ]
    return f"{names} ({', '.join(extra)})"


def made(table: Table) -> str:
    """The generated part of the guide."""
    lines = [BEGIN, ""]
    for role in dict.fromkeys(role for row in table.rows for role in row.runs):
        lines += [f"**{role}**" + (f": {_rst(table.notes[role])}" if role in table.notes else ""), ""]
        lines += [".. list-table::", "   :header-rows: 1", "   :widths: 14 40 46", "", "   * - Run", "     - What", "     - Why"]
        for row in table.rows:
            if role in row.runs:
                lines += [f"   * - {', '.join(row.runs[role])}", f"     - {_rst(row.what)}: {_cell(row)}", f"     - {_rst(row.why)}"]
        lines.append("")
    for role in (role for role in table.notes if not any(role in row.runs for row in table.rows)):
        lines += [f"**{role}**: {_rst(table.notes[role])}", ""]
    lines += ["The runs:", "", *(f"- {name}: {_rst(text)}" for name, text in table.runs.items()), ""]
    lines += ["Not compared, because it changes without a run as well:", ""]
    lines += [*(f"- {', '.join(f'``{name}``' for name in row.names)}: {_rst(row.why)}" for row in table.noise), ""]
    return "\n".join([*lines, END])


def put(text: str, table: Table) -> str:
    """The guide with its generated part replaced. ValueError where the marks are not there."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{GUIDE.name} has lost one of its marks: {BEGIN}, {END}")
    return before + made(table) + after


def main(argv: Sequence[str]) -> int:
    """Write the table; with --check, exit status 1 where the guide has another one."""
    text = GUIDE.read_text(encoding="utf-8")
    new = put(text, read())
    if "--check" in argv:
        if new != text:
            print(f"{GUIDE.name} is not what {ROWS.name} yields: run python tests/tools/host_changes.py", file=sys.stderr)
        return int(new != text)
    GUIDE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
