# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a page back as a browser would, and says what in it is not as it should be."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.environment import ENVIRONMENT

TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "nav", "main", "footer", "section", "h1", "h2", "h3", "p", "ul", "li", "a", "div", "table",
    "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary", "pre", "span", "strong",
    "svg", "desc", "g", "path", "rect", "text",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "scope", "role", "tabindex", "open", "aria-hidden", "aria-label",
    "aria-labelledby", "d", "x", "y", "width", "height", "viewbox", "stroke-dasharray", "text-anchor",
}  # fmt: skip
EMPTY = {"meta", "path", "rect"}


def printed_by(macro, *values):
    """What a macro of the page's pieces prints."""
    return str(getattr(ENVIRONMENT.get_template("pieces.html.j2").module, macro)(*values))


class Page(HTMLParser):
    """*wrong*: what no page of ours has. *text*: all that is shown. *cells*: the texts of table cells."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.headings: list[int] = []
        self.cells: list[str] = []
        self.tables: list[tuple[int, int]] = []  # heads with and without a scope
        self.shown: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        if self._open:
            self.wrong.append(f"left open: {self._open}")
        self.wrong += [f"twice: {one}" for one in {one for one in self.ids if self.ids.count(one) > 1}] if len(self.ids) < 3000 else []
        self.wrong += [f"to nowhere: {one}" for one in set(self.targets) - {f"#{one}" for one in self.ids}]
        self.wrong += [f"h{later} behind h{earlier}" for earlier, later in zip(self.headings, self.headings[1:], strict=False) if later > earlier + 1]
        odd = {char for char in source if not char.isprintable() and char != "\n"}
        self.wrong += [f"characters {odd}"] if odd else []
        self.wrong += ["an address in the style"] if re.search(r"url\(|@import", source.split("</style>")[0]) else []
        for one in re.findall(r"<svg.*?</svg>", source, re.S):
            ET.fromstring(one)

    @property
    def text(self) -> str:
        return "\n".join(self.shown)

    def handle_starttag(self, tag, attrs):
        if tag not in TAGS:
            self.wrong.append(f"<{tag}>")
        given = dict(attrs)
        self.wrong += [f"<{tag} {key}>" for key in given if key not in ATTRIBUTES]
        if tag not in EMPTY:
            self._open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if "href" in given:
            self.targets.append(given["href"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and given.get("scope") not in ("row", "col"):
            self.wrong.append("a head without a scope")
        if tag == "svg" and (given.get("role") != "img" or len(given.get("aria-labelledby", "").split()) != 2):
            self.wrong.append("a picture without a name")
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.shown.append(data)
        if {"td", "th"} & set(self._open):
            self.cells[-1] += data

    def handle_comment(self, data):
        self.wrong.append(f"<!--{data}-->")

    def handle_pi(self, data):
        self.wrong.append(f"<?{data}>")

    def unknown_decl(self, data):
        self.wrong.append(f"<![{data}]>")
