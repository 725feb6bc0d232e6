# SPDX-License-Identifier: GPL-3.0-or-later
"""What one host may take of a report, whatever it says: a bounded part of it, its own place and no other host's, and no date."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import build, limits, record, summary
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import make_fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.page import render_html
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_report.page_reader import Page
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_report.test_peers import record as cell_record
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_report.test_peers import told

MANY = 20_000


def finding(number, level="error", wanted="w", layer="drive"):
    return {"level": level, "layer": layer, "name": f"sd{number}", "found": f"fault {number}", "wanted": f"{wanted} {number}", "rule": "status"}


# What a host may have very many of → the record of it, and the words of what is left out.
CROWDS = {
    "findings": lambda n: {"drive_health": {"findings": [finding(one) for one in range(n)]}},
    "drives": lambda n: {"drive_health": {"drives": [{"name": f"sd{one}", "level": "ok"} for one in range(n)]}},
    "devices": lambda n: {"device_info": {"devices": [{"name": f"sd{one}"} for one in range(n)]}},
    "links": lambda n: {"device_info": {"devices": [{"name": "sda", "link": {"links": [{"kind": "SATA"}] * n}}]}},
    "stacks": lambda n: {"stack_info": {"stacks": [{"name": f"s{one}"} for one in range(n)]}},
    "layers": lambda n: {"stack_info": {"stacks": [{"name": "s", "layers": [{"layer": "lv", "names": [f"l{one}"], "legs": []} for one in range(n)]}]}},
    "legs": lambda n: {"stack_info": {"stacks": [{"name": "s", "layers": [{"layer": "lv", "legs": [{"start": one} for one in range(n)]}]}]}},
    "accepted": lambda n: {"stack_info": {"stacks": [{"name": "s", "accepted": [f"a{one}" for one in range(n)]}]}},
    "steps": lambda n: {"stack_plan": {"steps": [{"stack": "s", "summary": f"step {one}"} for one in range(n)]}},
    "reasons": lambda n: {"stack_proof": {"proofs": [{"stack": "s", "verdict": "fail", "reasons": [f"r{one}" for one in range(n)]}]}},
    "reasons of a module": lambda n: {"stack_plan": {"failed": True, "reasons": [f"r{one}" for one in range(n)]}},
    "measured": lambda n: {"proofs": [{"stack": "s", "measured": [{"measure": "throughput", "verdict": "fail", "seconds": one} for one in range(n)]}]},
    "proofs": lambda n: {"proofs": [{"stack": f"s{one}", "measured": [{"measure": "throughput", "verdict": "fail"}]} for one in range(n)]},
    "results": lambda n: {"throughput": {"results": [{"measure": "throughput", "verdict": "fail", "seconds": one} for one in range(n)]}},
    "steady_state": lambda n: {"steady_state": [{"device": f"sd{one}", "verdict": "fail"} for one in range(n)]},
    "windows": lambda n: {"steady_state": {"device": "a", "verdict": "pass", "series": {"fills": [1.0, 2.0], "mib_s": [1.0, 2.0]},
                                           "windows": [{"first_fills": 1, "last_fills": 2, "label": f"w{one}"} for one in range(n)]}},
    "cells": lambda n: {"acceptance": {"cells": [{"name": f"c{one}", "verdict": "fail"} for one in range(n)]}},
    "conditions": lambda n: {"conditions": {f"c{one}": one for one in range(n)}},
    "keys": lambda n: {"drive_health": {f"k{one}": {} for one in range(n)}},
    "nested": lambda n: {"stack_info": {"stacks": [{"name": f"s{one}", "layers": [{"legs": [{"start": 1}] * 100}] * 10} for one in range(n // 100)]}},
}  # fmt: skip


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_host_has_a_bounded_part_of_the_report(crowd):
    """As many of anything as a host may say are a page of a size that is known, and a word on what is left out."""
    texts = build.render(make_fleet([{"host": "big", **CROWDS[crowd](MANY)}, {"host": "other", "device_info": {"devices": [{"name": "sdz"}]}}]), build.FORMATS)
    assert {name: len(text) < 3_000_000 for name, text in texts.items()} == dict.fromkeys(texts, True)
    page = Page(texts["html"])
    assert page.wrong == [] and "sdz" in page.text
    assert "left out of its record" in page.text and "left out of its record" in texts["json"]


def test_nothing_is_left_out_of_what_a_large_host_has():
    """A host with 200 disks, six findings on each."""
    devices = [{"name": f"sd{one}", "rotational": False, "link": {"links": [{"kind": "SAS"}], "findings": []}} for one in range(200)]
    drives = [{"name": f"sd{one}", "level": "info", "findings": [finding(one, "info")] * 6} for one in range(200)]
    layers = [{"layer": "lv", "names": ["l"], "legs": [{"device": f"sd{one}", "start": 0} for one in range(200)]}] * 5
    steady = {"device": "sda", "verdict": "pass", "series": {"seconds": list(range(200_000)), "mib_s": [1.5] * 200_000}}
    whole = {"host": "a", "device_info": {"devices": devices}, "drive_health": {"drives": drives}, "stack_info": {"stacks": [{"name": "s", "layers": layers}]}}
    whole["steady_state"] = steady
    bounded, left = limits.bound(whole)
    assert left == {} and json.dumps(bounded) == json.dumps(whole)


def test_the_worst_of_too_many_findings_stay():
    findings = [finding(one, "info") for one in range(MANY)] + [finding(MANY, "error")]
    host = record.read_record({"host": "a", "drive_health": {"findings": findings, "drives": [{"name": "sda"}]}}, 10)
    assert host.level == "error" and len(host.findings) <= limits.MOST + 1
    assert [one.found for one in host.findings if "left out" in one.found] == [f"{MANY + 1 - limits.MOST:,} findings are left out of its record"]


def test_memory_does_not_grow_with_what_a_host_says():
    def peak(count):
        given = [{"host": "a", **CROWDS["findings"](count)}]
        tracemalloc.start()
        render_html(make_fleet(given))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(16 * limits.MOST) < 2 * peak(2 * limits.MOST)


def test_reasons_are_compared_in_linear_time():
    """32 times as many take less than 150 times as long; each with each would be 1,024 times."""

    def seconds(count):
        proof = {"stack": "s", "verdict": "fail", "reasons": [f"s/data: {one} is slow" for one in range(count)]}
        measured = [record.Measured("throughput", "s/data", "error", tuple(f"{one} is late" for one in range(count)), {})]
        modules = {"stack_proof": [{"proofs": [proof]}], "stack_plan": []}
        best = 1e9
        for _turn in range(5):
            gc.collect()
            began = time.thread_time()  # of the CPU: what runs beside it does not count
            assert len(record.of_proof(modules, measured)) == count
            best = min(best, time.thread_time() - began)
        return best

    assert seconds(9600) < 150 * seconds(300)


def test_a_reason_that_a_measurement_gave_is_told_once():
    proof = {"stack": "s", "verdict": "fail", "reasons": ["s/data: sda: half of it", "s/data: nothing else"]}
    measured = {"measure": "throughput", "of": "s/data", "verdict": "fail", "reasons": ["sda: half of it"]}
    host = record.read_record({"host": "a", "stack_proof": {"proofs": [proof]}, "throughput": measured}, 10)
    assert sorted(one.found for one in host.findings) == ["s/data: nothing else", "sda: half of it"]


# --- its own place, and no other host's ----------------------------------------------------------------------------------------------


def test_a_host_does_not_push_the_others_out():
    """The crowd is worse than all others, and each of these has its first finding in the summary, the lines and the page."""
    crowd = {"host": "crowd", "drive_health": {"findings": [finding(one, wanted="crowd") for one in range(900)]}}
    others = [{"host": f"h{one}", "drive_health": {"findings": [finding(one, "warning", f"h{one}")]}} for one in range(20)]
    fleet = make_fleet([crowd, *others])
    markdown, lines, page = summary.render_markdown(fleet), "\n".join(summary.report_lines(fleet)), Page(render_html(fleet)).text
    first = markdown.partition("## Hosts and checks")[0]
    for one in range(20):
        assert f"Wanted: h{one} {one}." in lines and f"Wanted: h{one} {one}" in first.replace("\\", ""), one
    assert "more kinds of findings" in markdown and "more kinds of findings" in lines
    verdict = page.partition("Findings on drives")[0]
    assert all(f"Wanted: h{one} {one}." in verdict for one in range(20)) and "are in the parts of their hosts below" in page


def drive(number, level="warning"):
    return {"name": f"sd{number}", "level": level, "wear": {"used_percent": 99 if level == "error" else 50}, "projection": {"days_min": 1}}


# A table or plot of all hosts → what a host may have many of, and how its own line is known.
PLACES = {
    "Drives: health, wear and days left": lambda n, level: {"drive_health": {"drives": [drive(one, level) for one in range(n)]}},
    "Links": lambda n, level: {"device_info": {"devices": [{"name": "sda", "link": {"links": [{"kind": "SAS", "below": level == "error"}] * n}}]}},
    "Static and measured proof": lambda n, level: {"stack_info": {"stacks": [{"name": f"s{one}"} for one in range(n)]}},
    "Durability and write caches": lambda n, level: {"device_info": {"devices": [{"name": f"sd{one}"} for one in range(n)]}},
    "Acceptance": lambda n, level: {"acceptance": [{"drive": {"device": f"/dev/sd{one}"}, "cells": [{"name": "c", "verdict": "fail"}]} for one in range(n)]},
    "Steady state": lambda n, level: {"steady_state": [{"device": f"sd{one}", "verdict": "fail", "series": {"fills": [1], "iops": [1]}} for one in range(n)]},
    "Conditions": lambda n, level: {"conditions": {f"{'a' if level == 'error' else 'z'}{one}": one for one in range(n)}},
}  # fmt: skip


@pytest.mark.parametrize("title", PLACES)
def test_a_host_has_its_place_in_each_section(title):
    fleet = make_fleet([{"host": "a-crowd", **PLACES[title](900, "error")}, *({"host": f"other-{one}", **PLACES[title](1, "warning")} for one in range(5))])
    page = render_html(fleet)
    (part,) = [one for one in page.split("<section ") if f">{title}</h2>" in one]
    assert all(f"other-{one}" in part for one in range(5))


def test_a_fair_part():
    ones = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)]
    for most, numbers in ((0, []), (1, [1]), (3, [1, 4, 5]), (4, [1, 2, 4, 5]), (5, [1, 2, 4, 5, 6]), (9, [1, 2, 3, 4, 5, 6])):
        assert [number for _host, number in limits.fair(ones, lambda one: one[:1], most)] == numbers


def test_what_hosts_share_is_in_the_place_of_any_of_them():
    """One that says what another says, behind much of its own, does not take it out of sight."""
    ones = [("crowd", 1), ("crowd", 2), ("crowd", 3), ("crowd+small", 4)]
    assert [number for _hosts, number in limits.fair(ones, lambda one: one[0].split("+"), 2)] == [1, 4]


def test_a_host_takes_no_other_hosts_serial():
    """One that says the others' serials has its own drives beside theirs, not in their place."""
    fleet = [cell_record(number, 1000 if number < 5 else 500) for number in range(6)]
    liar = {"host": "z", "acceptance": [cell_record(number, 1000)["acceptance"][0] for number in range(3, 6)]}
    assert [level for level, _found in told([*fleet, liar])["h5"]] == ["warning"]


def test_a_host_is_not_the_median():
    """With more drives than all others together, it is compared with itself, and does not outnumber them."""
    fleet = [cell_record(number, 1000) for number in range(6)]
    liar = {"host": "z", "acceptance": [cell_record(f"z{number}", 3000)["acceptance"][0] for number in range(50)]}
    assert {host: ones for host, ones in told([*fleet, liar]).items() if ones} == {}
    own = {"host": "z", "acceptance": [cell_record(f"z{number}", 1000 if number else 500)["acceptance"][0] for number in range(24)]}
    assert [level for level, _found in told([own, cell_record(1, 1000)])["z"]] == ["warning"]


# --- and no date -----------------------------------------------------------------------------------------------------------------------

PROOF = {"stack": "pg", "digest": "d", "time": "2099-01-01T00:00:00Z", "measured": [{"measure": "throughput", "verdict": "pass", "reasons": []}]}


def test_a_proof_does_not_date_the_report():
    """It says itself when it was made, and a host wrote it."""
    whole = build.merge({"host": "a", "time": "2026-01-02T00:00:00Z"}, build.of_proof(PROOF))
    fleet = make_fleet([whole])
    assert (fleet.time, fleet.hosts[0].time) == ("2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z")
    assert make_fleet([{"host": "a", **build.of_proof(PROOF)}]).time == ""
    kept = build.of_proof({**PROOF, "kept": "2026-01-03T00:00:00Z"})  # as keep_record notes on the controller
    assert make_fleet([build.merge(whole, kept)]).time == "2026-01-03T00:00:00Z" == make_fleet([build.merge({"host": "a", **kept}, whole)]).time


@pytest.mark.parametrize("strange", ["2099-01-01T00:00:00Z", "9999", "zzz", "2026-13-40", ["2026"], 7])
def test_what_is_no_time_that_has_passed_dates_nothing(strange):
    fleet = make_fleet([{"host": "a", "time": strange, "device_info": {}}, {"host": "b", "time": "2026-01-02", "device_info": {}}], now="2026-03-01T00:00:00Z")
    assert fleet.time == "2026-01-02"
    told_of = [one.level for host in fleet.hosts if host.host == "a" for one in host.findings if "has not come yet" in one.found]
    assert told_of == (["unknown"] if strange == "2099-01-01T00:00:00Z" else [])


def test_the_oldest_reading_is_told():
    """The latest time alone would make old readings look new."""
    fleet = make_fleet([{"host": "a", "time": "2026-01-02T00:00:00Z"}, {"host": "b", "time": "2026-03-01T09:00:00Z"}, {"host": "c"}])
    page, markdown = Page(render_html(fleet)).text, summary.render_markdown(fleet).replace("\\", "")
    told_of = "State of 2026-01-02T00:00:00Z to 2026-03-01T09:00:00Z."
    assert told_of in page and told_of in markdown and json.loads(summary.render_json(fleet))["oldest"] == "2026-01-02T00:00:00Z"
    assert "State of 2026-03-01T09:00:00Z." in Page(render_html(make_fleet([{"host": "b", "time": "2026-03-01T09:00:00Z"}]))).text


def test_times_that_have_passed_are_told_as_they_are():
    fleet = make_fleet([{"host": "a", "time": "2026-03-01T00:00:00Z"}, {"host": "b", "time": "2026-02-28"}, {"host": "c"}], now="2026-03-01T00:00:00Z")
    assert fleet.time == "2026-03-01T00:00:00Z" and not any("has not come yet" in one.found for host in fleet.hosts for one in host.findings)
    assert make_fleet([{"host": "a", "time": "2099-01-01"}], time="by hand", now="2026-03-01T00:00:00Z").time == "by hand"


# --- and no line of another ------------------------------------------------------------------------------------------------------------

ENDS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\x1b[2K\r", "\x1b[1A", "\x08" * 9, " " * 120, "\u3000" * 80)


@pytest.mark.parametrize("end", ENDS)
def test_a_label_draws_no_line(end):
    """Names of hosts, stacks, drives and files: each is one line, without room in it for a line that looks like another host's."""
    label = f"x{end}[db02]{end}ok: all is well"
    module = {"layer": label, "name": label, "found": label, "wanted": label, "level": "error"}
    steady = {"device": label, "verdict": "fail", "series": {"mib_s": [1, 2]}, "reasons": [label]}
    records = [
        {"host": label, "drive_health": {"findings": [module]}, "steady_state": steady, "stack_info": {"stacks": [{"name": label, "accepted": [label]}]}},
        {"host": "b", "unreachable": label, "unreadable": [{"file": label, "fault": label}]},
    ]
    lines = summary.report_lines(make_fleet(records, [label + "2"]))
    assert all(line.isprintable() and "  [db02]" not in line and "  ok: all" not in line for line in lines), lines
    assert sum("[db02]" in line for line in lines) and not any(line.lstrip().startswith(("[db02]", "ok: all")) for line in lines)
