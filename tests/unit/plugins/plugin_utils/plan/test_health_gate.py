# SPDX-License-Identifier: GPL-3.0-or-later
"""When the drives' health is read for a plan: before a step always, else once a day; and what is told of the last reading."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import keep_last_reading
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.keep_last_reading import load_last, parse_last, save_last, update_last
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.last_reading import VALID_SECONDS, LastReading
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.health_gate import needed_reading, needs_smartctl, read_gate
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host, spec

NOW = 1_800_000_000
HOUR = 3600
WORN = "drive nvme0n1: 90 % used"


@pytest.fixture
def host():
    """Two NVMe drives with a stack that stands."""
    one = Host()
    one.pair()
    one.build(spec(one))
    return one


def keys_of(host):
    return [host.seen.nodes[leg.devno].identity.key for leg in make_plan(spec(host), host.seen).stacks[0].legs]


def needed(host, last, stacks=None):
    return needed_reading(make_plan(stacks or spec(host), host.seen), host.seen, last, NOW)


@pytest.mark.parametrize(
    ("ages", "due", "state"),
    [
        ((HOUR, 3 * HOUR), False, "drives: health read 3 h ago, warning"),
        ((60, 59), False, "drives: health read 1 min ago, warning"),
        ((0, 0), False, "drives: health read 0 min ago, warning"),
        ((HOUR, VALID_SECONDS - 1), False, "drives: health read 23 h ago, warning"),
        ((HOUR, VALID_SECONDS), True, "drives: no reading of their health that is at most a day old"),
        ((HOUR, -1), True, "drives: no reading of their health that is at most a day old"),  # the clock was set back
        ((HOUR,), True, "drives: no reading of their health that is at most a day old"),  # another drive was read
        ((), True, "drives: no reading of their health that is at most a day old"),
    ],
)
def test_a_host_that_is_as_asked_is_read_once_a_day(host, ages, due, state):
    last = {key: LastReading(NOW - age, level, (WORN,)) for key, age, level in zip(keys_of(host), ages, ("warning", "ok"))}
    found, warnings = needed(host, last)
    assert (found["due"], found["state"]) == (due, state)
    assert found["stacks"] == [{"name": "pgdata", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "new": False, "power_loss_protection": False}]
    assert len(warnings) == (0 if due else 2) and all(text.endswith(WORN) and " ago, " in text for text in warnings)


def test_before_a_step_the_drives_are_read_in_any_case():
    host = Host()
    host.pair()
    last = {key: LastReading(NOW, "ok") for key in keys_of(host)}
    found, warnings = needed(host, last)
    assert found["due"] and found["stacks"][0]["new"] and warnings == []


def test_who_trusts_capacitors_says_so(host):
    serials = [node.identity.serial for node in host.seen.nodes.values() if node.kind == "disk"]
    found, _warnings = needed(host, {}, spec(host, power_loss_protection=serials))
    assert found["stacks"][0]["power_loss_protection"] is True


@pytest.mark.parametrize(
    ("names", "due", "smartctl"),
    [(("sda", "sdb"), True, True), (("nvme0n1", "nvme1n1"), True, False), (("mmcblk0", "mmcblk1"), True, False), (("vda", "vdb"), False, False)],
)
def test_which_disks_have_a_health(names, due, smartctl):
    host = Host()
    for name in names:
        host.disk(name)
    found, _warnings = needed(host, {})
    assert (found["due"], needs_smartctl(found), bool(found["stacks"]), bool(found["state"])) == (due, smartctl, due, due)


@pytest.mark.parametrize(("raw", "gate"), [({}, "fail"), ({"gate": "warn", "timeout": 9}, "warn"), ({"gate": "off"}, "off"), ({"gate": False}, "off")])
def test_the_gate(raw, gate):
    assert read_gate(raw) == gate


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"gat": "off"}, "plumbline_health: unknown key 'gat'"),
        ({"gate": "of"}, "plumbline_health.gate: 'of' is not known, did you mean 'off'"),
        ({"gate": True}, "plumbline_health.gate: 'True' is not known"),
        ([], "plumbline_health: found an empty list; wanted a mapping"),
    ],
)
def test_what_is_no_gate(raw, words):
    with pytest.raises(PlumblineError) as fault:
        read_gate(raw)
    assert words.split(",")[0] in str(fault.value)


# --- what the host keeps -----------------------------------------------------------------------------

GOOD = {"when": NOW, "level": "warning", "findings": ["a"]}


def test_it_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(keep_last_reading, "PATH", str(tmp_path / "plumbline" / "health" / "last.json"))
    assert load_last() == {}
    save_last({"serial:M/S1": LastReading(NOW, "error", ("it fails",))})
    assert load_last() == {"serial:M/S1": LastReading(NOW, "error", ("it fails",))}


@pytest.mark.parametrize(
    "raw",
    [None, [], "x", 5, {"k": None}, {"k": []}, {"k": dict(GOOD, when="1")}, {"k": dict(GOOD, when=True)}, {"k": dict(GOOD, level="fine")},
     {"k": dict(GOOD, level=[])}, {"k": dict(GOOD, findings="a")}, {"k": {"when": NOW, "level": "ok"}}],
)  # fmt: skip
def test_what_is_no_reading_is_passed_over(raw):
    assert parse_last(raw) == {}


def test_an_entry_is_made_anew_once_a_day_or_when_its_level_changes():
    first = update_last({}, {"a": LastReading(NOW, "ok"), "b": LastReading(NOW, "ok")}, NOW)
    same = update_last(first, {"a": LastReading(NOW + HOUR, "ok", ("x",))}, NOW + HOUR)
    worse = update_last(same, {"a": LastReading(NOW + 2 * HOUR, "error", ("y",))}, NOW + 2 * HOUR)
    later = update_last(worse, {"a": LastReading(NOW + VALID_SECONDS, "error")}, NOW + VALID_SECONDS)
    assert same == first and worse["a"] == LastReading(NOW + 2 * HOUR, "error", ("y",)) and worse["b"] == first["b"]
    assert later == {"a": worse["a"]}, "the other drive's reading is a day old"
