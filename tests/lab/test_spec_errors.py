# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in a spec: one line that says what stands where and what was wanted, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import Harness
from labkit.specs import assert_error, said, stack

DISKS = [
    *({"name": f"one{number}", "bus": "scsi", "size": "64MiB", "serial": f"SPECONE{number}", "model": "TWIN"} for number in range(2)),
    *({"name": f"wide{number}", "bus": "scsi", "size": "64MiB", "serial": f"SPECWIDE{number}", "model": "WIDE", "min_io_size": 65536} for number in range(2)),
]
# What is wrong: the stack's keys (None: left out), and what the answer says. "legs" picks the disks.
ROWS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "stack-key": ({"layuot": "striped"}, ("layuot", "did you mean 'layout'?")),
    "volume-key": ({"volumes": [{"name": "a", "muont": "/pl/a"}]}, ("muont", "did you mean 'mount'?", "volumes[0]")),
    "layout": ({"layout": "stripped"}, ("'stripped'", "did you mean 'striped'?")),
    "unit": ({"stripe_size": "64KB"}, ("stripe_size", "did you mean '64KiB'?")),
    "missing-name": ({"name": None}, ("'name' is missing",)),
    "missing-volumes": ({"volumes": None}, ("'volumes' is missing",)),
    "over-100-percent": ({"volumes": [{"name": "a", "size": "70%"}, {"name": "b", "size": "40%"}]}, ("add up to 110% (70% + 40%)", "at most 100%")),
    "one-share-over-100": ({"volumes": [{"name": "a", "size": "130%"}]}, ("'130%' is out of range",)),
    "sizes-over-the-space": ({"volumes": [{"name": "a", "size": "1GiB"}]}, ("the volumes want more than there is", "a 1 GiB")),
    "missing-device": ({"layout": "separate", "devices": ["scsi-nowhere"]}, ("device /dev/disk/by-id/scsi-nowhere is not there",)),
    "selector-finds-two": ({"legs": (), "layout": "separate", "devices": {"model": "QEMU TWIN", "count": 1}}, ("exactly 1 unused devices and found 2",)),
    "selector-finds-none": ({"legs": (), "layout": "separate", "devices": {"model": "NOBODY*", "count": 1}}, ("found 0 of 0",)),
    "one-leg": ({"legs": ("one0",)}, ("a stripe wants two devices or more; found 1",)),
    "the-same-leg-twice": ({"legs": ("one0", "one0")}, ("is named twice",)),
    "stripe-96k": ({"legs": ("wide0", "wide1"), "stripe_size": "96KiB"}, ("96 KiB is no power of two", "64 KiB and 128 KiB")),
    "stripe-below-64k-grain": ({"legs": ("wide0", "wide1"), "stripe_size": "32KiB"}, ("no multiple of the flash's grain of 64 KiB", "wanted one of 64 KiB")),
    "grain-that-nothing-fits": ({"geometry": [{"model": "*", "grain": "96KiB"}]}, ("no stripe size fits a grain of 96 KiB", "use layout 'separate'")),
    "grain-that-nothing-fits-explicit": ({"geometry": [{"model": "*", "grain": "96KiB"}], "stripe_size": "64KiB"}, ("no multiple of", "grain of 96 KiB")),
    "reserve": ({"reserve": "95%"}, ("leaves too little",)),
    "system-directory": ({"volumes": [{"name": "a", "mount": "/etc"}]}, ("'/etc' belongs to the system",)),
    "risk": ({"volumes": [{"name": "a", "mount": "/pl/a", "mount_options": ["nobarrier"]}]}, ("accept: [data_loss_on_power_cut]",)),
    "unknown-owner": ({"volumes": [{"name": "a", "mount": "/pl/a", "owner": "nobodyknows"}]}, ("owner 'nobodyknows'", "is not known to this host")),
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[dict[str, dict[str, Any]]]:
    """The answer to every mistake, while the host counts what reaches the disks."""
    found = {}
    with bench.untouched():
        for name, (keys, _words) in ROWS.items():
            changes = dict(keys)
            legs = [plugged[leg] for leg in changes.pop("legs", ("one0", "one1"))]
            spec = {**stack(legs), **changes}
            found[name] = harness.module("stack_plan", {"stacks": [{key: value for key, value in spec.items() if value is not None}]})
        near = plugged["one1"].by_id[:-1] + "X"
        found["near"] = harness.module("stack_plan", {"stacks": [{**stack([plugged["one0"]]), "devices": [plugged["one0"].by_id, near]}]})
        found["alias"] = harness.module("stack_plan", {"stacks": [{**stack([plugged["one0"]]), "devices": [plugged["one0"].by_id, plugged["one0"].path]}]})
        found["variable"] = harness.module("stack_plan", {"stacks": [], "variables": ["plumbline_stacks", "plumbline_instal"]})
    yield found
    bench.clean()


@pytest.mark.parametrize("name", ROWS)
def test_one_line_says_what_is_wrong(answers: dict[str, dict[str, Any]], name: str) -> None:
    assert_error(answers[name], *ROWS[name][1])


def test_a_device_that_is_not_there_and_the_nearest_name(answers: dict[str, dict[str, Any]], plugged: dict[str, Disk]) -> None:
    assert_error(answers["near"], "is not there", f"did you mean '{plugged['one1'].by_id}'?")


def test_one_disk_by_two_names(answers: dict[str, dict[str, Any]]) -> None:
    assert_error(answers["alias"], "already a leg of")


def test_an_unknown_variable(answers: dict[str, dict[str, Any]]) -> None:
    assert_error(answers["variable"], "plumbline_instal", "did you mean 'plumbline_install'?")


def test_a_selector_that_finds_exactly_what_is_asked(harness: Harness, plugged: dict[str, Disk]) -> None:
    """The counter-proof: both twins, where two are wanted."""
    plan = harness.module("stack_plan", {"stacks": [{**stack([]), "devices": {"model": "QEMU TWIN", "count": 2}, "volumes": [{"name": "a"}]}]})
    assert not plan["failed"], said(plan)
    assert {device["serial"] for device in plan["steps"][0]["devices"]} == {"SPECONE0", "SPECONE1"}
