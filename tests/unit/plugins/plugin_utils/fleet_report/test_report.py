# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: what each kind of host comes to, what the page, the summary and the JSON say, and that nothing in a record is more than text."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import subprocess
import sys

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import build, load_plots, rows, summary
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import make_fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import LEVELS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.page import render_html
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import MODULES, read_record
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.hostile import HOSTILE, VALUES, damaged_tree, text
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_records import KINDS, make_record
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_report.page_reader import Page, printed_by
from markupsafe import Markup

ALL = [json.loads(json.dumps(make_record(f"db-{number}", kind, "1"))) for number, kind in enumerate(KINDS, 1)]
BY_KIND = dict(zip(KINDS, ALL))
UNPROVEN = {"stack": "a", "due": False, "settled": False, "accepted": [], "state": "a: not measured again"}
STEADY = {
    "device": "nvme0n1",
    "verdict": "fail",
    "reasons": ["2,100 IOPS; wanted at least 4,000"],
    "mib_s": 164.1,
    "hidden_space": 0.07,
    "series": {"fills": [number / 50 for number in range(200)], "mib_s": [400.0] * 60 + [160.0] * 140, "iops": [40_000.0] * 200, "p99_ms": [1.5] * 200},
    "windows": [{"first_fills": 3, "last_fills": 3.5, "label": "first window"}],
    "marks": [{"fills": 1.2, "label": "first collapse"}],
}
PICTURE = {**STEADY, "mode": "passes", "verdict": "not_judged", "state": "finished", "reasons": [], "first_collapse_fills": 1.2, "period_fills": 0.998}
FILLED = {"link_bound": True, "legs": ["sda"], "share": 0.97, "negotiated": "SATA 3.0 Gb/s", "host": "ata1"}
CELLS = [
    {"name": "4k random write qd64", "verdict": "fail", "value": 1200, "unit": "IOPS", "low": 1100, "high": 1300, "wanted": 4000, "state": "steady"},
    {"name": "1M read qd1", "verdict": "fail", "required": False, "value": 200, "unit": "MiB/s", "wanted": 400},
]


def only(kind, **more):
    return read_record({**BY_KIND[kind], **more}, 10**6)


@pytest.mark.parametrize(
    ("kind", "check", "level"),
    [
        ("healthy", "alignment", "ok"), ("healthy", "proof", "ok"), ("healthy", "trim", "ok"), ("healthy", "link", "ok"), ("healthy", "plan", "none"),
        ("sector_63", "alignment", "error"), ("sector_63", "proof", "error"), ("wrong_stripe", "alignment", "error"), ("wrong_stripe", "proof", "ok"),
        ("no_barriers", "durability", "error"), ("slow_link", "link", "warning"), ("worn", "wear", "warning"), ("worn", "drives", "info"),
        ("fixed_use", "trim", "unknown"), ("fixed_use", "proof", "ok"), ("unfinished", "plan", "warning"), ("unfinished", "alignment", "none"),
        ("failing", "drives", "error"), ("failing", "wear", "ok"), ("no_ssd", "answer", "info"), ("no_ssd", "alignment", "none"),
        ("unreachable", "answer", "missing"), ("unreachable", "drives", "missing"), ("failed_module", "drives", "error"), ("failed_module", "wear", "none"),
    ],
)  # fmt: skip
def test_a_fault_is_found_by_its_check(kind, check, level):
    assert only(kind).levels[check] == level


def test_a_check_beside_the_fault_is_well():
    for kind in ("sector_63", "wrong_stripe", "no_barriers", "slow_link", "worn", "failing"):
        bad = {check for check, level in only(kind).levels.items() if level in ("error", "missing", "warning", "unknown")}
        assert bad == {"sector_63": {"alignment", "proof"}, "wrong_stripe": {"alignment"}, "no_barriers": {"durability"}}.get(
            kind, {{"slow_link": "link", "worn": "wear", "failing": "drives"}.get(kind)}
        )


@pytest.mark.parametrize(("blind", "words"), [(["v-thin"], "1 leg on the grain, not followed above v-thin"), ([], "1 leg on the grain")])
def test_a_stack_that_is_not_followed_is_not_shown_as_right(blind, words):
    stack = {"name": "v-lv", "not_followed": blind, "layers": [{"layer": "device", "names": ["sda"], "legs": [{"device": "sda", "aligned": True}]}]}
    page = render_html(make_fleet([{"host": "a", "stack_info": {"stacks": [stack]}}], [], "t", ""))
    (row,) = [line for line in re.findall("<tr.*?</tr>", page, re.DOTALL) if words in line and "v-lv" in line]
    assert ("unknown" in row) is bool(blind), row


@pytest.mark.parametrize(
    ("record", "check", "level", "words"),
    [
        ({}, "answer", "none", ""),
        ({"stack_info": {"unreachable": True, "msg": "ssh: timed out"}}, "answer", "missing", "ssh: timed out"),
        ({"unreachable": True}, "answer", "missing", "it was unreachable"),
        ({"stack_plan": {"failed": True, "msg": "no", "reasons": ["a disk is mounted", "another is in use"]}}, "plan", "error", "another is in use"),
        ({"stack_info": {"skipped": True}}, "alignment", "none", ""),
        ({"stack_info": {"stacks": [{"name": "a", "not_followed": ["pool"]}]}}, "alignment", "unknown", "not followed above pool"),
        ({"stack_info": {"stacks": [{"name": "a", "accepted": ["data_loss_on_power_cut"]}]}}, "durability", "info", "accepted: data_loss"),
        ({"stack_plan": {"proofs": [{"stack": "a", "due": True, "stored": "", "state": "a: not proven"}]}}, "proof", "unknown", "a: not proven"),
        ({"stack_plan": {"proofs": [{"stack": "a", "due": False, "stored": "pass"}]}}, "proof", "ok", ""),
        ({"stack_plan": {"proofs": [{**UNPROVEN, "stored": "inconclusive"}]}}, "proof", "unknown", "a: not measured again"),
        ({"stack_plan": {"proofs": [{**UNPROVEN, "stored": "fail"}]}}, "proof", "error", "a: not measured again"),
        ({"stack_plan": {"proofs": [{**UNPROVEN, "stored": "pass"}]}}, "proof", "unknown", "a: not measured again"),
        (
            {"stack_plan": {"proofs": [{**UNPROVEN, "stored": "accepted", "settled": True, "accepted": ["unproven_writes"]}]}},
            "proof",
            "info",
            "accepted (unproven_writes): a: not measured again",
        ),
        ({"stack_proof": {"proofs": [{"stack": "a", "verdict": "fail", "reasons": ["too slow"]}]}}, "proof", "error", "too slow"),
        ({"proofs": [{"stack": "a", "measured": [{"measure": "throughput", "verdict": "fail", "reasons": ["half"]}]}]}, "proof", "error", "half"),
        ({"throughput": {"measure": "throughput", "verdict": "inconclusive", "reasons": []}}, "proof", "unknown", "inconclusive"),
        ({"fstrim_proof": {"measure": "fstrim_proof", "verdict": "fail", "offered": True, "reasons": ["sda: kept"]}}, "trim", "error", "sda: kept"),
        ({"fstrim_proof": {"measure": "fstrim_proof", "verdict": "fail", "offered": False, "reasons": ["no trim"]}}, "trim", "warning", "no trim"),
        ({"throughput": {"measure": "throughput", "verdict": "pass", "jobs": [{"links": [FILLED]}]}}, "link", "info", "reads reach 0.97 of what SATA"),
        ({"steady_state": STEADY}, "steady_state", "error", "2,100 IOPS"),
        ({"steady_state": {**STEADY, "verdict": "pass", "state": "failed", "fault": "sda is gone"}}, "steady_state", "unknown", "sda is gone"),
        ({"steady_state": {**STEADY, "verdict": "pass", "state": "interrupted"}}, "steady_state", "unknown", "the run is interrupted"),
        ({"steady_state": {**STEADY, "verdict": "pass", "state": "finished", "reasons": []}}, "steady_state", "ok", ""),
        ({"steady_state": PICTURE}, "steady_state", "none", ""),
        ({"steady_state": {**PICTURE, "doubts": ["it may compress"]}}, "steady_state", "info", "it may compress"),
        ({"steady_state": {**PICTURE, "state": "interrupted"}}, "steady_state", "unknown", "the run is interrupted"),
        ({"steady_state": [PICTURE, {**STEADY, "verdict": "pass", "reasons": []}]}, "steady_state", "ok", ""),
        ({"acceptance": {"cells": CELLS}}, "acceptance", "error", "1,200 IOPS"),
        ({"acceptance": {"verdict": "inconclusive", "reasons": ["the host was busy"], "cells": []}}, "acceptance", "unknown", "the host was busy"),
        ({"acceptance": {"verdict": "inconclusive", "cells": [{"verdict": "pass"}]}}, "acceptance", "unknown", "inconclusive"),
        ({"device_info": {"devices": []}}, "answer", "info", "it has no SSD"),
        ({"device_info": {"devices": [{"name": "sda", "rotational": True}]}}, "answer", "info", "it has no SSD"),
        ({"device_info": {"devices": [{"name": "sda", "rotational": False}]}}, "answer", "ok", ""),
    ],
)  # fmt: skip
def test_records_in_every_state(record, check, level, words):
    host = read_record({"host": "a", **record}, 10**6)
    assert host.levels.get(check, "none") == level
    assert words in " ".join(one.found for one in host.findings) and bool(words) is bool(host.findings)
    assert Page(render_html(make_fleet([{"host": "a", **record}]))).wrong == []


@pytest.mark.parametrize(
    "rule, words",
    [
        ("media_errors", "Check the data against a backup or a replica; replace the drive if errors are added."),
        ("unread", "Ask it by hand, with smartctl. The health of a virtual disk can be read on its hypervisor only."),
    ],
)
def test_what_to_do_about_a_drive(rule, words):
    """Nothing says that a drive fails that was not read."""
    finding = {"layer": "drive", "level": "warning", "name": "vda", "found": "what it is", "wanted": "what it should be", "rule": rule}
    found = read_record({"host": "a", "drive_health": {"findings": [finding]}}, 10**6).findings
    assert [one.todo for one in found if one.check == "drives"] == [words]


SAID, DAYS = "– not reported", "– not known"


@pytest.mark.parametrize(
    "drive, shown",
    [
        ({"wear": {"used_percent": 0, "spare_percent": 0}, "counters": {"power_on_hours": 0}, "temperature_celsius": 0}, ["0 %", "0 %", DAYS, "0", "0"]),
        ({"wear": {"used_percent": 3, "spare_percent": None}}, ["3 %", SAID, DAYS, SAID, SAID]),
        ({"wear": {}, "not_applicable": True, "read": False}, ["– virtual"] * 5),
        ({"wear": {}, "not_applicable": False, "read": False}, ["– not read"] * 5),
        ({"wear": {"used_percent": "x", "spare_percent": float("nan")}}, [SAID, SAID, DAYS, SAID, SAID]),
    ],
)  # fmt: skip
def test_a_figure_that_nobody_said_is_a_dash_with_its_reason(drive, shown):
    page = render_html(make_fleet([{"host": "a", "drive_health": {"drives": [{"name": "sda", **drive}]}}]))
    (part,) = [one for one in page.split("<table") if "<caption>Drives of a</caption>" in one]
    cells = re.findall("<td>(.*?)</td>", part.partition("</table>")[0])
    assert cells[rows.DRIVES.index("Used") - 1 : rows.DRIVES.index("°C")] == shown


def test_each_module_may_be_the_only_one():
    for name in MODULES:
        whole = next((record[name] for record in ALL if name in record), {"changed": False})
        host = read_record({"host": "a", name: whole}, 10**6)
        assert host.levels["answer"] in ("ok", "info") and Page(render_html(make_fleet([{"host": "a", name: whole}]))).wrong == []


def test_the_worst_comes_first_and_missing_hosts_are_told():
    fleet = make_fleet(ALL, ["db-1", "db-99", "db-98"])
    ranks = [LEVELS.index(host.level) for host in fleet.hosts]
    assert ranks == sorted(ranks) and len(fleet.hosts) == len(ALL) + 2
    assert [host.host for host in fleet.hosts if host.level == "missing"] == ["db-11", "db-98", "db-99"]
    assert fleet.verdict() == "Of 14 hosts, 5 have errors, 3 did not answer, 3 have warnings, 1 cannot be told, 2 are as wanted."
    assert make_fleet([], []).verdict() == "There is no record of any host."


def test_hosts_are_ordered_by_the_value_of_their_numbers():
    names = ["db-10", "db-9", "db-2", "db-1", "a10b2", "a10b10", "a9b1"]
    fleet = make_fleet([], names)
    assert [host.host for host in fleet.hosts] == ["a9b1", "a10b2", "a10b10", "db-1", "db-2", "db-9", "db-10"]


def test_the_page_is_whole():
    """Read back: known tags, one heading behind the other, no script, no address; each host has its part, each table its heads."""
    fleet = make_fleet([*ALL, {"host": "load", "steady_state": STEADY, "acceptance": {"cells": CELLS}}], ["db-99"], "Drives of the fleet")
    source = render_html(fleet)
    page = Page(source)
    assert page.wrong == []
    assert page.headings[0] == 1 and page.headings.count(1) == 1
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in source.replace("&#x27;", "'")
    assert not re.search(r"(https?:)?//[a-z]", source) and "<script" not in source
    for host in fleet.hosts:
        assert host.host in page.cells
    for words in ("first collapse", "first window", "Reserve against write amplification", "4k random write qd64", "tune2fs -E", "no route to host"):
        assert words in page.text
    for finding in (one for host in fleet.hosts for one in host.findings):
        assert finding.wanted in page.text


def test_one_host_is_small_and_unfolded():
    source = render_html(make_fleet([BY_KIND["sector_63"]]))
    assert len(source.encode()) < 300_000 and source.count("<details") > source.count(" open>") == 1 and 'id="sums"' not in source


def test_a_hundred_hosts_are_small():
    records = [{**ALL[number % len(ALL)], "host": f"h{number}"} for number in range(100)]
    assert len(render_html(make_fleet(records)).encode()) < 3_000_000


def test_what_does_not_fit_is_said():
    records = [{**BY_KIND["healthy"], "host": f"h{number}"} for number in range(150)]
    text = Page(render_html(make_fleet(records))).text
    assert "The 60 worst of 150 hosts; the table has all." in text and "more are in the parts of their hosts below" in text
    large = {"host": "large", "conditions": {"note": "x" * 300_000}}
    assert "1 host had no record, or one that is too large" in Page(render_html(make_fleet([large]))).text


def test_markdown_and_json_say_the_same():
    fleet = make_fleet(ALL, ["db-99"], "The *fleet*", "2026-03-02")
    markdown, found = summary.render_markdown(fleet), json.loads(summary.render_json(fleet))
    assert markdown.startswith("# The \\*fleet\\*\n") and fleet.verdict().replace(".", "\\.") in markdown
    assert [host["host"] for host in found["hosts"]] == [host.host for host in fleet.hosts] and found["counts"] == fleet.counts()
    assert found["format"] == summary.FORMAT and found["time"] == "2026-03-02" and found["level"] == "error"
    assert len({line.count(" | ") for line in markdown.splitlines() if line.startswith("| ")}) == 2  # two tables, each of one width
    lines = summary.report_lines(make_fleet([{"host": "load", "steady_state": STEADY}]))
    assert lines[0] == "Of 1 host, 1 has errors." and lines[-1].endswith("█" * 18 + "▁" * 42)


def test_time_comes_from_the_records():
    assert make_fleet([{"host": "a", "time": "2026-01-02"}, {"host": "b", "time": "2026-01-03"}, {"host": "c"}]).time == "2026-01-03"
    assert make_fleet([{"host": "a"}]).time == "" and make_fleet([{"host": "a", "time": "x"}], time="y").time == "y"


PROGRAM = """
import hashlib, json, sys
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import build, fleet
texts = build.render(fleet.make_fleet(json.load(open(sys.argv[1])), ["db-99"]), build.FORMATS)
print(hashlib.sha256("".join(texts.values()).encode()).hexdigest())
"""


def test_the_same_records_give_the_same_bytes(tmp_path):
    """In another process, with another order of hashes, another locale and another order of the keys."""
    (tmp_path / "one.json").write_text(json.dumps(ALL))
    (tmp_path / "two.json").write_text(json.dumps([dict(reversed(record.items())) for record in ALL]))
    found = set()
    for hashes, name, locale in (("1", "one", "C"), ("2", "one", "C.UTF-8"), ("3", "two", "C.UTF-8")):
        env = {**os.environ, "PYTHONHASHSEED": hashes, "LC_ALL": locale, "TZ": "Asia/Tokyo", "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / f"{name}.json")], env=env, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


def test_records_of_one_host_are_merged():
    one, two = {"host": "a", "time": "1", "proofs": [1], "device_info": {"x": 1}}, {"host": "a", "time": "2", "proofs": [2]}
    assert build.merge(one, two) == {"host": "a", "time": "2", "proofs": [1, 2], "device_info": {"x": 1}}
    proof = {"stack": "pg", "digest": "d", "time": "t", "measured": []}
    assert build.is_proof(proof) and not build.is_proof({"host": "a", "proofs": [proof]})
    assert build.of_proof(proof) == {"proofs": [proof]}
    assert build.host_of_file("db-1-pg", [proof], ()) == "db-1"


@pytest.mark.parametrize(
    ("amplification", "hidden", "reserve"), [(1.5, 7, 35.1), (2, 7, 22.8), (3, 7, 12.0), (4, 7, 7.0), (1.5, 28, 22.3), (2, 28, 7.7), (3, 28, 0)]
)
def test_the_curve_of_the_reserve(amplification, hidden, reserve):
    assert load_plots.reserve_percent(amplification, hidden) == pytest.approx(reserve, abs=0.06)


def test_series_with_strange_points():
    for series in ({}, {"fills": [1.0], "mib_s": [2.0]}, {"fills": [1.0, 2.0], "mib_s": [float("nan")] * 2}, {"fills": "x", "seconds": [1], "iops": [{}]}):
        page = Page(render_html(make_fleet([{"host": "a", "steady_state": {**STEADY, "series": series}}])))
        assert page.wrong == []


def test_a_million_points_are_a_small_picture():
    ys = [400.0] * 10**6
    ys[777_777] = 1.0
    plots = load_plots.series_plots("p", "drive", {"series": {"seconds": list(range(10**6)), "mib_s": ys}})
    (figure,) = [printed_by("figure", one) for one in plots]
    assert len(figure) < 60_000 and "1,000,000 values from 1 to 400 MiB/s" in figure


# --- nothing in a record is more than text -------------------------------------------------------------------------------------------

BAD = (
    *HOSTILE,
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>",
    "</pre></details>",
    "<!--",
    "]]>",
    "&#60;b&#62;",
    "javascript:x",
)
BAD = (*BAD, "{{ 7 * 7 }}", "[x](//example)", "| a | b |", "`x`", "\u202e\u2066\u200f", "\x00\x08\x1b[31m", "\ud800", "NaN", "&lt;/title&gt;")


def planted(dice, tree, found):
    """*tree* with a hostile value in the place of each text and number, each with a mark of its own."""
    if isinstance(tree, dict):
        return {(key if dice.randrange(40) else dice.choice(BAD)): planted(dice, value, found) for key, value in tree.items()}
    if isinstance(tree, list):
        return [planted(dice, value, found) for value in tree]
    found.append(f"M{len(found)}M" + dice.choice(BAD))
    return found[-1] if dice.randrange(3) else dice.choice(VALUES[:16]) if dice.randrange(3) == 0 else tree


def check_inert(records, expected=()):
    """All three formats of a report, read back."""
    fleet = make_fleet(records, expected, "{{ title }}<script>", "")
    texts = build.render(fleet, build.FORMATS)
    page = Page(texts["html"])
    assert page.wrong == []
    assert len(page.headings) >= 10 and "<script" not in texts["html"] and "{{ title }}<script>" in page.text
    assert not re.search(r"<[a-z/!]", texts["markdown"]) and all(char.isprintable() or char == "\n" for char in texts["markdown"])
    assert not re.search(r"(?<!\\)\]\(|(?<!\\)`|://", texts["markdown"])
    assert [host["host"] for host in json.loads(texts["json"])["hosts"]] == [host.host for host in fleet.hosts]
    assert not re.search(r"NaN(?=[,\s])|Infinity(?=[,\s])", re.sub(r'"(\\.|[^"\\])*"', '""', texts["json"]))
    assert all(line.isprintable() for line in summary.report_lines(fleet))
    return page


@pytest.mark.parametrize("seed", range(5))
def test_hostile_values_show_as_text(seed):
    """Each text and most numbers of whole records: 1,000 values and more for each seed, 5,000 in all."""
    dice, count, shown = random.Random(seed), 0, 0
    while count < 1200:
        found: list[str] = []
        record = {**planted(dice, copy.deepcopy(dice.choice(ALL)), found), "host": f"M{seed}H" + dice.choice(BAD)}
        for key in ("findings", "report"):
            record.setdefault(key, [{key: dice.choice(BAD)}])
        page = check_inert([record, {"host": dice.choice(BAD) or "x", "steady_state": planted(dice, STEADY, found)}], [dice.choice(BAD), "db-1"])
        count += len(found)
        shown += sum(f"M{number}M" in page.text for number in range(len(found)))
    assert count >= 1000 and shown > count / 4  # the rest stands in keys that the page does not show, or was exchanged for a number


@pytest.mark.parametrize("seed", range(10))
def test_damaged_records_are_told(seed):
    """Branches exchanged, dropped, moved, of other types: 300 records in all, and no mistake of ours comes of them."""
    dice = random.Random(1000 + seed)
    records = []
    for number in range(30):
        whole = damaged_tree(dice, {**dice.choice(ALL), "steady_state": STEADY, "acceptance": {"cells": CELLS}})
        records.append({**(whole if isinstance(whole, dict) else {}), "host": f"h{number}{text(dice)}"})
    check_inert(records, ["db-99"])


def test_a_picture_is_shown_with_its_collapse():
    page = render_html(make_fleet([{"host": "a", "steady_state": PICTURE}]))
    told = Page(page)
    assert "Mode" in page and "passes" in page and "0.998" in page and page.count("first collapse") >= 3  # a mark in each plot
    assert "Reserve against write amplification, with 7 % of hidden space" in page and told


def test_what_calls_itself_markup_shows_as_text():
    """A template prints markup as it is. A value of that type in a record, such as a playbook's filter e makes, is a text like any other."""
    read = {"device_info": {"devices": [{"name": "sda"}]}, "drive_health": {"drives": [{"name": "sda", "model": "m"}]}, "steady_state": STEADY}
    record = marked({"host": "a", "time": "t", **read, "conditions": {"kernel": "6.1"}, "throughput": {"failed": True, "msg": "no"}})
    page = Page(render_html(make_fleet([record], [Markup("<b>expected</b>")], Markup("<b>title</b>"))))
    assert page.wrong == [] and {"<b>m</b>", "<b>6.1</b>", "<b>kernel</b>", "<b>title</b>"} <= {*page.shown, *page.cells}
    assert all(f"<b>{text}</b>" in page.text for text in ("a", "expected", "t", "no", "first window"))


def marked(value, key=""):
    """A record all of whose texts are markup by their type, but for the names by which the report reads it."""
    if isinstance(value, dict):
        return {(Markup(f"<b>{name}</b>") if key == "conditions" else name): marked(one, name) for name, one in value.items()}
    return [marked(one) for one in value] if isinstance(value, list) else Markup(f"<b>{value}</b>") if isinstance(value, str) else value
