# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule that there is, of the audit, the monitor and the report, has a remedy of its own that speaks of what the rule is about."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from ansible_collections.plumbline.ssd.plugins import module_utils
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import health_rules
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.plugin_utils import fleet_report, plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.checks import CHECKS, check_of, todo_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import read_record
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.remedies import RULES

# What makes a finding → which of its arguments is the rule.
MAKERS = {"Finding": 5, "Problem": 0, "Change": 0, "found_by": 0}
# Where the rule is that of another finding, or comes from a table of the judge; these are all, and the tables are read below.
PASSED_ON = {"change.rule", "problem.rule", "mixed.rule", "name"}
TABLES = {*health_rules._DATA_ERRORS, *health_rules._GROWING, *(row[0] for row in health_rules._WARNING_BITS), *(row[1] for row in health_rules._EXCEPTIONS)}


def rules_of(call):
    """The rules that a call may give, or the text of what it passes on."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in MAKERS:
        return []
    given = call.args[MAKERS[name]] if len(call.args) > MAKERS[name] else next((one.value for one in call.keywords if one.arg == "rule"), ast.Constant(None))
    ends = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
    return [one.value if isinstance(one, ast.Constant) else ast.unparse(one) for one in ends]


FILES = [file for package in (module_utils, plan, fleet_report) for file in sorted(Path(next(iter(package.__path__))).rglob("*.py"))]
GIVEN = [
    (f"{file.name}:{node.lineno}", rule) for file in FILES for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    for rule in rules_of(node)
]  # fmt: skip
# The rule of a variable that is set by a condition: see _of_measured().
CHOSEN = {"rule": {"trim_failed", "measured"}, "kind.stripe_rule": {kind.stripe_rule for kind in FILESYSTEMS.values()}}


def all_rules():
    found = {rule for _where, rule in GIVEN if rule not in PASSED_ON and rule not in CHOSEN}
    return found | TABLES | set().union(*CHOSEN.values())


def test_every_rule_has_a_remedy_and_every_remedy_a_rule():
    assert len(GIVEN) > 60 and [where for where, rule in GIVEN if rule is None] == []
    assert all_rules() == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_remedy_speaks_of_its_subject(name):
    rule = RULES[name]
    assert rule.check in CHECKS and rule.todo.endswith(".") and len(rule.todo) > 20
    assert rule.subject.lower() in rule.todo.lower(), name


def test_rules_of_different_subjects_share_no_remedy():
    by_todo = {}
    for rule in RULES.values():
        by_todo.setdefault(rule.todo, set()).add((rule.check, rule.subject))
    assert [one for one in by_todo.values() if len(one) > 1] == []
    assert max(Counter(rule.todo for rule in RULES.values()).values()) <= 3


# A word that says what to do → the only rules whose remedy may say it.
ALONE = {
    "barrier": set(),  # what is wanted names the option
    "fstrim.timer": {"mount_discard"},
    "discard_max_bytes": {"trim_limit"},
    "nvme format": {"lba_format"},
    "copy the data away": {"phase", "stripe_grain"},
    "stripe_width": {"ext4_stride"},
    "resize2fs": {"ext4_smaller"},
    "firmware": {"firmware", "mixed_firmware", "identity", "trim_limit"},
    "cable": {"crc_errors", "link", "link_slow"},
    "provision": {"plan_step"},
    "air flow": {"temperature", "hot", "hot_minutes", "critical_minutes"},
}


@pytest.mark.parametrize("word", ALONE)
def test_what_helps_against_one_thing_is_told_of_no_other(word):
    assert {name for name, rule in RULES.items() if word in rule.todo.lower()} == ALONE[word]


def finding(layer, rule):
    return {"layer": layer, "level": "warning", "name": "x", "found": "f", "wanted": "w", "rule": rule}


@pytest.mark.parametrize(
    ("layer", "rule", "check", "words"),
    [
        ("mount", "mount_discard", "durability", "Mount with nodiscard, take discard out of fstab, and enable fstrim.timer."),
        ("mount", "not_mounted", "durability", "See why it is not mounted"),
        ("ext4", "ext4_errors", "durability", "e2fsck -f"),
        ("write_cache", "kept_setting", "durability", "Run the role write_cache"),
        ("lv", "not_followed", "alignment", "measure the volume"),
        ("drive", "hot", "drives", "Look at the air flow"),
        ("drive", "link", "link", "Look at the slot"),
        ("drive", "spare", "wear", "spare blocks are below"),
        ("mount", "of another release", "durability", ""),
        ("drive", "", "drives", ""),
        ("nothing known", None, "alignment", ""),
    ],
)
def test_the_remedy_is_that_of_the_rule(layer, rule, check, words):
    found = read_record({"host": "a", "stack_info": {"findings": [finding(layer, rule)]}}, 10).findings
    (one,) = [one for one in found if one.found == "f"]
    assert one.check == check and words in one.todo and bool(words) is bool(one.todo)


def test_a_rule_that_is_not_known_has_no_remedy():
    assert todo_of("x") == todo_of("") == "" and check_of("trim", "x") == "trim"


def test_rules_are_words():
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in RULES)
