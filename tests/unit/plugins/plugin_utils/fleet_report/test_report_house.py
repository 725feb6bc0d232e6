# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's files open nothing, and are of a size that can be read: the rules of module_utils hold here as well."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils import fleet_report
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.environment import ENVIRONMENT
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.test_house import LINES, files_below, openings, too_large
from jinja2 import UndefinedError

OWN = Path(fleet_report.__file__).parent


@pytest.mark.parametrize("rule", [openings, too_large])
def test_the_report_is_in_order(rule):
    texts = files_below(OWN, OWN)
    assert len(texts) > 10 and rule(texts) == []


def imports(text):
    """What a file imports, by the first part of its name."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {name.split(".")[0] for node in nodes for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])}


def test_nothing_but_the_standard_library_the_collection_and_in_one_place_jinja():
    library = {"__future__", "ansible_collections", "collections", "itertools", "json", "math", "re", "statistics", "typing"}
    more = {path: imports(text) - library for path, text in files_below(OWN, OWN).items() if imports(text) - library}
    assert list(more.values()) == [{"jinja2", "markupsafe", "os"}] and next(iter(more)).endswith("environment.py")


def texts_of(source):
    """The texts in a Python file, without the docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone]


def test_the_templates_hold_all_markup():
    found = [(path, text) for path, source in files_below(OWN, OWN).items() for text in texts_of(source) if re.search(r"</?[a-z!]|&#?[a-z0-9]+;", text)]
    assert [text for path, text in found if not path.endswith("summary.py")] == []  # which escapes for Markdown, and has nothing but that
    assert sorted(text for _path, text in found) == ["&#64;", "&amp;", "&gt;", "&lt;"]


TEMPLATES = sorted((OWN / "templates").iterdir())


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_leaves_a_value_as_it_is(template):
    """Whatever is printed is escaped, and where it is an attribute it stands in quotes. No template is a leftover."""
    text = template.read_text()
    assert text.startswith("{#\n") and text.count("\n") <= LINES
    assert not re.search(r"\bsafe\b|autoescape|\braw\b *%}|Markup", text)
    assert not re.search(r"=\s*{{", re.sub(r"{%.*?%}", "", text))
    ENVIRONMENT.get_template(template.name)
    others = "".join(path.read_text() for path in [*TEMPLATES, *OWN.glob("*.py")] if path != template)
    assert f'"{template.name}"' in others


def test_a_name_that_no_template_was_given_is_a_mistake():
    with pytest.raises(UndefinedError):
        ENVIRONMENT.from_string("{{ nothing }}").render()


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("<b>", "&lt;b&gt;"),
        ("\x1b[2J\r\n\u202e", "\\x1b[2J\\x0d\n\\u202e"),
        ("'\"&", "&#39;&#34;&amp;"),
        (None, "–"),
        (1234.5, "1,234"),
        (["<"], "[&#34;&lt;&#34;]"),
    ],
)
def test_each_expression_prints_what_can_be_shown(value, printed):
    assert ENVIRONMENT.from_string("{{ value }}").render(value=value) == printed
