# SPDX-License-Identifier: GPL-3.0-or-later
"""What a template prints by a macro: a level, a link, a phrase of these, a table, a plot with its figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.charts import Bars
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import GLYPHS, UNKNOWN
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.lines import Lines


class Chip(NamedTuple):
    """A level, shown by its glyph and in words: its own, or *text*."""

    level: str
    text: str = ""


class Link(NamedTuple):
    """A link within the page."""

    ident: str
    text: str


class Phrase(NamedTuple):
    """Chips, links and texts on one line. The blanks of a text stay, and nothing is put in the place of an empty one."""

    parts: tuple[object, ...]


class Table(NamedTuple):
    """The first cell of a row is its name. *left_out*: the text about rows that are not shown; *empty*: the text where there is no row."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    left_out: str = ""
    empty: str = ""


class Figure(NamedTuple):
    """A plot, what it shows in words, and its figures, which are folded below it."""

    plot: Bars | Lines
    name: str
    caption: str
    figures: Table


class Subject(NamedTuple):
    """What a section says of one subject: what was found, plots, and a table of all."""

    findings: Table
    listed: Table
    figures: Sequence[Figure] = ()


def chip(level: str, text: str = "") -> Chip:
    """A level as it is shown, whatever it is."""
    return Chip(level if level in GLYPHS else UNKNOWN, text)


def joined(parts: Iterable[object], between: str) -> Phrase:
    """Pieces of one line with a text between each two of them."""
    return Phrase(tuple(piece for part in parts for piece in (between, part))[1:])
