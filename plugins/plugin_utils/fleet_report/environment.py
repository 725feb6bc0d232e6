# SPDX-License-Identifier: GPL-3.0-or-later
"""The templates of the page, and how they print a value: each is escaped, and none drives a terminal or turns the direction of the text.

The templates hold all markup. They come from the files beside this one and are compiled once.
"""

from __future__ import annotations

import os

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import px
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.charts import Bars
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import GLYPHS, LEVELS, MEANS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.lines import LINES, Lines
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.pieces import Chip, Link, Phrase
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import printable, words
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


def printed(value: object) -> str:
    """What every expression of a template goes through before it is escaped. Markup comes from a macro alone: words() makes plain text of a record's."""
    if isinstance(value, Markup):
        return value
    return printable(value) if isinstance(value, str) else words(value)


ENVIRONMENT = Environment(
    loader=FileSystemLoader(os.path.join(os.path.dirname(__file__), "templates")),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=printed,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    auto_reload=False,
)
ENVIRONMENT.globals.update(GLYPHS=GLYPHS, LEVELS=LEVELS, MEANS=MEANS, LINES=LINES)
ENVIRONMENT.filters.update(words=words, px=px)
# A macro asks what a value is by its type: a mapping of a host may have any key.
ENVIRONMENT.tests.update(
    chip=lambda value: isinstance(value, Chip),
    link=lambda value: isinstance(value, Link),
    piece=lambda value: isinstance(value, (Chip, Link, Phrase)),
    bars=lambda value: isinstance(value, Bars),
)


def render_template(name: str, **context: object) -> str:
    """The text of a template."""
    return ENVIRONMENT.get_template(name).render(context)


def render_picture(plot: Bars | Lines) -> str:
    """A plot as a file of its own, with its style."""
    return render_template("picture.svg.j2", plot=plot)
