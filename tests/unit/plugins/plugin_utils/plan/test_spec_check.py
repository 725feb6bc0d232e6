# SPDX-License-Identifier: GPL-3.0-or-later
"""All mistakes in the variables of a host are told at once, by the code that reads them, and no host is asked for it."""

from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.action import check_spec as action
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.modules import check_spec as documented
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import spec_check
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import VARIABLES
from ansible_collections.plumbline.ssd.tests.unit.roles.plays import play

STACK = {"name": "pgdata", "devices": ["a", "b"], "volumes": [{"name": "data", "mount": "/data01"}]}
DRIVE = {"device": "x", "serial": "y"}
# Variables → what their mistakes begin with, in this order; none: they are sound.
CASES = [
    ({}, []),
    ({"plumbline_stacks": [STACK], "plumbline_verify": {"policy": "never"}, "plumbline_install": False, "plumbline_x_own": 1}, []),
    ({"plumbline_hosts": "databases", "plumbline_audit": {"directory": "audit"}, "plumbline_monitor": {"state": "absent"}}, []),
    ({"plumbline_health": {"gate": False, "timeout": 60, "endurance": [{"model": "M", "terabytes_written": 7}]}}, []),
    ({"plumbline_steady_state": {"drives": [{**DRIVE, "terabytes_written": 7000}], "target": {"wa": 3}}}, []),
    ({"plumbline_acceptance_devices": ["a"], "plumbline_acceptance": {"writes": {"a": {"serial": "S", "accept_wear": True}}}}, []),
    ({"plumbline_stacks": [{**STACK, "layot": 1}], "plumbline_verfy": {}}, ["plumbline_stacks[0]: unknown key 'layot'", "unknown variable 'plumbline_verfy'"]),
    ({"plumbline_stacks": [STACK, STACK]}, ["plumbline_stacks: two stacks are named 'pgdata'"]),
    ({"plumbline_verify": {"throughput": {"min_share": 7}}}, ["plumbline_verify.throughput.min_share"]),
    ({"plumbline_health": {"gaet": "off"}}, ["plumbline_health: unknown key 'gaet' (did you mean 'gate'?)"]),
    ({"plumbline_health": {"timeout": 0}}, ["plumbline_health.timeout: 0; wanted 1 to 600 seconds"]),
    ({"plumbline_health": {"endurance": [{"model": "M"}]}}, ["plumbline_health: missing required arguments: terabytes_written"]),
    ({"plumbline_monitor": {"interval": 0}}, ["plumbline_monitor.interval: 0; wanted 1 to 1440 minutes"]),
    ({"plumbline_monitor": {"mail": "a b"}}, ["plumbline_monitor.mail: 'a b'"]),
    ({"plumbline_monitor": {"mial": "x"}}, ["plumbline_monitor: unknown key 'mial' (did you mean 'mail'?); valid keys: state, "]),
    (
        {"plumbline_audit": {"titel": "x", "directry": "y"}},
        ["plumbline_audit: unknown key 'titel' (did you mean 'title'?)", "plumbline_audit: unknown key 'directry' (did you mean 'directory'?)"],
    ),
    (
        {"plumbline_steady_state": {"drives": [{**DRIVE, "seriel": 1}, 3], "dept": 1}},
        [
            "plumbline_steady_state: unknown key 'dept' (did you mean 'depth'?)",
            "plumbline_steady_state.drives[0]: unknown key 'seriel' (did you mean 'serial'?)",
            "plumbline_steady_state.drives[1]: found a number; wanted a mapping",
        ],
    ),
    ({"plumbline_steady_state": {"drives": DRIVE}}, ["plumbline_steady_state.drives: found a mapping; wanted a list"]),
    (
        {
            "plumbline_verify": {
                "polcy": "always",
                "show": "x",
                "accept": ["a", "b"],
                "throughput": {"min_shares": 1, "span": 3},
                "sync_latency": {"min_ops": 5},
            }
        },
        [
            "plumbline_verify: unknown key 'polcy' (did you mean 'policy'?)",
            "plumbline_verify.show: 'x' is not known",
            "plumbline_verify.accept: 'a' is not known",
            "plumbline_verify.accept: 'b' is not known",
            "plumbline_verify.throughput: unknown key 'min_shares' (did you mean 'min_share'?)",
            "plumbline_verify.throughput.span: found a number; wanted a string",
            "plumbline_verify.sync_latency.min_ops: found a number; wanted a mapping",
        ],
    ),
    (
        {"plumbline_stacks": [{**STACK, "devices": [{"name": "a"}, 5, "b"]}]},
        ["plumbline_stacks[pgdata].devices[0]: found a mapping; wanted a name", "plumbline_stacks[pgdata].devices[1]: found a number; wanted a name"],
    ),
    ({"plumbline_install": []}, ["plumbline_install: argument"]),
    ({"plumbline_acceptance": {"blocks": 1, "cells": ["nope"]}}, ["plumbline_acceptance.cells: there is no cell 'nope'", "plumbline_acceptance.blocks: 1;"]),
    (
        {"plumbline_acceptance_devices": ["a"], "plumbline_acceptance": {"writes": {"b": {"serial": "S"}}}},
        ["plumbline_acceptance.writes: names b; wanted names out of plumbline_acceptance_devices: a"],
    ),
    ({"plumbline_acceptance_devices": ["a"], "plumbline_acceptance": {"writes": {"a": {}}}}, ["plumbline_acceptance.writes: they destroy"]),
    (
        {"plumbline_acceptance_devices": ["a"], "plumbline_acceptance": {"writes": {"a": {"serial": "S", "accept_wear": True, "serail": "S"}}}},
        ["plumbline_acceptance.writes.a: unknown key 'serail' (did you mean 'serial'?)"],
    ),
    (
        {"plumbline_acceptance_devices": {}, "plumbline_acceptance": {"blocks": 2}},
        ["plumbline_acceptance_devices: found a mapping", "plumbline_acceptance.blocks: 2;"],
    ),
    ({"plumbline_steady_state": {"depth": 0, "drives": [DRIVE, DRIVE]}}, ["plumbline_steady_state.depth: 0; wanted 1 to 1024 requests"]),
    ({"plumbline_steady_state": {"drives": [{"device": "x"}]}}, ["plumbline_steady_state: missing required arguments: serial"]),
    ({"plumbline_steady_state": {"target": {"wa": 3}, "mode": "passes"}}, ["plumbline_steady_state.target: it looks for the reserve"]),
]


@pytest.mark.parametrize("variables, begin", CASES)
def test_all_mistakes_are_told(variables, begin):
    try:
        stacks = spec_check.check_spec(variables)
    except PlumblineError as fault:
        lines = fault.reasons
    else:
        lines = []
        assert [stack.name for stack in stacks] == [one["name"] for one in variables.get("plumbline_stacks", [])]
    assert len(lines) == len(begin) and all(line.startswith(words) for line, words in zip(lines, begin)), lines


PLAIN = [None, [], {}, "", "x", 3, True, [3], {"x": 1}, [[]], [{}]]
INSIDE = [{"drives": [3]}, {"writes": [3], "steady": "x"}, {"endurance": 3}, {"target": 3}, {"interval": []}]


@pytest.mark.parametrize("value", PLAIN + INSIDE)
@pytest.mark.parametrize("name", VARIABLES)
def test_nothing_that_yaml_can_say_breaks_it(name, value):
    """A spec is checked by who has just begun one: a mistake is a line, and no traceback."""
    try:
        spec_check.check_spec({name: value})
    except PlumblineError as fault:
        assert fault.reasons and all(name in line for line in fault.reasons)


def test_each_variable_of_the_roles_is_declared_by_one():
    assert set(spec_check._declared()) | {"plumbline_hosts"} == set(VARIABLES)
    assert all("options" in spec_check._declared()[name] for name in spec_check._VALUES)


def test_documented_options_are_those_that_are_taken():
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert {name: {key: value for key, value in option.items() if key != "description"} for name, option in options.items()} == action.ARGUMENTS


def test_hosts_are_checked_and_none_is_asked(tmp_path):
    """One host is sound, one has mistakes in variables, templates and all."""
    tasks = [{"plumbline.ssd.check_spec": None, "vars": {"plumbline_stacks": "{{ stacks[inventory_hostname] }}", "plumbline_verify": {"policy": "{{ word }}"}}}]
    hosts = {"one": [STACK], "two": [{**STACK, "reserve": "100GB"}]}

    def run(word, *names):
        place = tmp_path / ("-".join(names) + str(len(list(tmp_path.iterdir()))))
        place.mkdir()
        (place / "stacks.json").write_text(json.dumps({"stacks": hosts, "word": word}))
        code, output, calls = play(place, {name: {} for name in names}, tasks, "-e", "@%s" % (place / "stacks.json"))
        assert not any(calls.values())
        return code, output

    code, output = run("nevr", "one", "two")
    assert code != 0 and "did you mean 'never'" in output and "did you mean '100GiB'" in output
    code, output = run("never", "one")
    assert code == 0 and "pgdata: striped, 2 devices; data on /data01" in output
    tasks[0]["plumbline.ssd.check_spec"] = {"variables": ["plumbline_verify"]}
    code, output = run("never", "two")
    assert code == 0 and "no mistake" not in output
    tasks[0]["vars"]["plumbline_steadystate"] = {}
    code, output = run("nevr", "two")
    assert code != 0 and "did you mean 'plumbline_steady_state'" in output and "did you mean 'never'" in output and "100GiB" not in output
    del tasks[0]["vars"]["plumbline_steadystate"]
    tasks[0]["plumbline.ssd.check_spec"] = None
    code, output = run("{{ nowhere }}", "one")
    assert code != 0 and "plumbline_verify: its template gives no value" in output
