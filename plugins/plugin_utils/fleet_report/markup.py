# SPDX-License-Identifier: GPL-3.0-or-later
"""Pieces of the page: text, tables, chips, folded parts. Everything that is no markup already is escaped. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import GLYPHS, UNKNOWN
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import escaped, words


class Html(str):
    """Markup: what has been escaped."""

    __slots__ = ()


def as_html(value: object) -> Html:
    """A value as markup."""
    return value if isinstance(value, Html) else Html(escaped(words(value)))


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Pieces one behind the other, each escaped unless it is markup."""
    return Html(escaped(between).join(part if isinstance(part, Html) else _in_line(part) for part in parts))


def _in_line(part: object) -> str:
    """A piece of a sentence, printable already: its blanks stay, and nothing is put in the place of an empty one."""
    return escaped(part) if isinstance(part, str) else as_html(part)


def chip(level: str, text: str = "") -> Html:
    """A level: its glyph, and in words what it is."""
    shown = level if level in GLYPHS else UNKNOWN
    return Html(f'<span class="chip {shown}"><span aria-hidden="true">{GLYPHS[shown]}</span> {as_html(text or shown)}</span>')


def paragraph(*parts: object) -> Html:
    return Html(f"<p>{joined(parts)}</p>")


def heading(level: int, ident: str, text: object) -> Html:
    return Html(f'<h{level} id="{ident}">{as_html(text)}</h{level}>')


def link(ident: str, text: object) -> Html:
    """A link within the page."""
    return Html(f'<a href="#{ident}">{as_html(text)}</a>')


def bullets(items: Iterable[object]) -> Html:
    return Html("<ul>" + "".join(f"<li>{as_html(item)}</li>" for item in items) + "</ul>")


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], left_out: str = "") -> Html:
    """A table with the names of its columns and rows; the first cell of a row is its name. *left_out*: what is said of rows that are not shown."""
    top = "".join(f'<th scope="col">{as_html(name)}</th>' for name in heads)
    body = "".join(_row(row) for row in rows)
    if not body:
        return paragraph(f"{caption}: none.")
    foot = f"<p class=note>{as_html(left_out)}</p>" if left_out else ""
    kind = ' class="texts"' if len(heads) < 6 else ""
    inner = f"<table{kind}><caption>{as_html(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return Html(f'<div class="scroll" role="group" aria-label="{as_html(caption)}" tabindex="0">{inner}</div>{foot}')


def _row(row: Sequence[object]) -> str:
    return f'<tr><th scope="row">{as_html(row[0])}</th>' + "".join(f"<td>{as_html(cell)}</td>" for cell in row[1:]) + "</tr>"


def figure(plot: str, name: str, caption: object, data: Html | None = None) -> Html:
    """A plot with what it shows in words, and its figures folded below it."""
    below = folded("The figures of this plot", data) if data else ""
    held = f'<div class="scroll" role="group" aria-label="{as_html(name)}" tabindex="0">{plot}</div>'
    return Html(f"<figure>{held}<figcaption>{as_html(caption)}</figcaption></figure>{below}")


def folded(summary: object, content: Html, ident: str = "", opened: bool = False) -> Html:
    """A part that is unfolded by a click or a key, without a script."""
    attributes = (f' id="{ident}"' if ident else "") + (" open" if opened else "")
    return Html(f"<details{attributes}><summary>{as_html(summary)}</summary>{content}</details>")


def preformatted(text: str) -> Html:
    """Text whose lines and blanks stay; it is printable already."""
    return Html(f'<pre tabindex="0">{html.escape(text, quote=False)}</pre>')
