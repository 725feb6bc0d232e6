# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of what a run changes: the guide shows it, a test runs each of its runs, and what it does not list is told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from host_changes import GUIDE, ROOT, Change, Row, Table, explain, main, put, read, without_noise

TESTS = sorted((ROOT / "tests/lab").glob("test_whole_host*.py"))


def test_the_guide_shows_the_table() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert put(text, read()) == text, "run python tests/tools/host_changes.py"
    assert main(["--check"]) == 0


def test_a_guide_without_the_marks_is_an_error() -> None:
    with pytest.raises(ValueError, match="lost one of its marks"):
        put("text", read())


def test_every_run_of_the_table_is_run_by_a_test() -> None:
    """A row that nothing holds to the truth would rot."""
    called = {pair for path in TESTS for pair in re.findall(r'must_be\("(\w+)", "([^"]+)"', path.read_text(encoding="utf-8"))}
    listed = {(role, run) for row in read().rows for role, runs in row.runs.items() for run in runs}
    assert listed <= called, f"no test runs {listed - called}"
    assert {run for _role, run in called} <= set(read().runs)


def test_every_row_says_what_and_why() -> None:
    for row in (*read().rows, *read().noise):
        assert row.why.strip(), row
    for row in read().rows:
        assert row.what.strip() and (row.how != "added" or row.kind != "path" or row.mode), row


def row(name: str, how: str = "added", kind: str = "path", run: str = "first", **more: Any) -> Row:
    return Row({"provision": [run]}, kind, (name,), how, "what", "why", **more)


def path(name: str, how: str = "added", after: str = "file 0600 0:0", fields: Sequence[str] = ()) -> Change:
    return Change("path", name, how, tuple(fields), "", after)


@pytest.mark.parametrize(
    ("rows", "changes", "unlisted", "missing"),
    [
        ([row("/etc/x")], [path("/etc/x")], 0, 0),
        ([row("/etc/x")], [], 0, 1),
        ([row("/etc/x", sometimes=True)], [], 0, 0),
        ([], [path("/etc/x")], 1, 0),
        ([row("/etc/x")], [path("/etc/xy")], 1, 1),
        ([row("/etc/x", run="second")], [path("/etc/x")], 1, 0),
        # the mode of what is new is part of the row
        ([row("/etc/x", mode="0600")], [path("/etc/x")], 0, 0),
        ([row("/etc/x", mode="0600")], [path("/etc/x", after="file 0644 0:0")], 1, 1),
        ([row("/etc/x", how="added changed", mode="0600", fields=("size",))], [path("/etc/x", "changed", "size=2", ["size"])], 0, 0),
        # of what is changed, only what the row names
        ([row("/etc/x", how="changed", fields=("content",))], [path("/etc/x", how="changed", fields=["content"])], 0, 0),
        ([row("/etc/x", how="changed", fields=("content",))], [path("/etc/x", how="changed", fields=["content", "mode"])], 1, 1),
        # names
        ([row("/etc/{STACK}.conf")], [path("/etc/pgdata.conf")], 0, 0),
        ([row("/etc/{STACK}.conf")], [path("/etc/other.conf")], 1, 1),
        ([row("/etc/*.conf")], [path("/etc/a.conf"), path("/etc/b.conf")], 0, 0),
        ([row("/etc/*.conf")], [path("/etc/a/b.conf")], 1, 1),
        ([row("/etc/**")], [path("/etc/a/b.conf")], 0, 0),
        # what an unprivileged user sees: closed, said to be public, and neither
        ([row("/etc/x")], [path("/etc/x"), Change("nobody", "/etc/x", "added", ("value",), "", "")], 0, 0),
        ([row("/etc/x", public=True)], [path("/etc/x"), Change("nobody", "/etc/x", "added", ("value",), "", "r")], 0, 0),
        ([row("/etc/x")], [path("/etc/x"), Change("nobody", "/etc/x", "added", ("value",), "", "r")], 1, 0),
        ([row("/etc/x", how="gone")], [path("/etc/x", how="gone"), Change("nobody", "/etc/x", "gone", ("value",), "r", "")], 0, 0),
        (
            [row("/etc/x", how="changed", fields=("mode",))],
            [path("/etc/x", "changed", fields=["mode"]), Change("nobody", "/etc/x", "changed", ("value",), "r", "")],
            1,
            0,
        ),
    ],
)
def test_changes_are_held_against_the_rows(rows: list[Row], changes: list[Change], unlisted: int, missing: int) -> None:
    table = Table(tuple(rows), (), {"first": "", "second": ""}, {})
    found = explain(changes, "provision", "first", {"STACK": ["pgdata"]}, table)
    assert (len(found.unlisted), len(found.missing)) == (unlisted, missing), str(found)


def test_what_changes_by_itself_is_left_out() -> None:
    table = Table((), (Row({}, "path", ("/run/log/**",), "", "", "the journal"),), {}, {})
    other = path("/run/other")
    assert without_noise([path("/run/log/journal/x"), other, Change("unit", "/run/log/x", "added", (), "", "")], table)[0] == other


def test_mistakes_are_errors() -> None:
    with pytest.raises(ValueError, match="no run of the table"):
        explain([], "provision", "third", {})
    with pytest.raises(KeyError, match="the test does not say what"):
        row("/dev/{DISK}").fits(path("/etc/x"), {})
