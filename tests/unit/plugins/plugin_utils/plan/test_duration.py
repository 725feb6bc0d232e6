# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a run will take: what counts in it, and how a range is written."""

from __future__ import annotations

import os

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.measurements import MEASUREMENTS, PROOF_ROWS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.duration import duration_lines, span
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.verify_options import read_verify

GB = 10**9
VOLUMES = [{"name": "data", "size": "80%", "mount": "/data01"}, {"name": "wal", "size": "20%", "mount": "/data02"}]
STACKS = read_stacks([{"name": "pgdata", "devices": ["a", "b"], "volumes": VOLUMES}])
SEPARATE = read_stacks([{"name": "pgdata", "devices": ["a", "b"], "layout": "separate", "volumes": [{"name": "one"}, {"name": "two"}]}])


def proof(due=True, bare=(), path=True):
    volumes = [{"stack": "pgdata", "volume": one["name"], "device": "/dev/x", "path": one["mount"] if path else ""} for one in VOLUMES]
    return {"stack": "pgdata", "due": due, "bare": list(bare), "volumes": volumes}


def partition(full=False, size=4000 * GB):
    return {"action": "partition", "stack": "pgdata", "devices": [{"full_proof": full, "size_bytes": size, "length_bytes": size * 9 // 10}] * 2}


def steps(full=False):
    lvs = [{"action": "logical_volume", "stack": "pgdata", "lv": name, "size_bytes": size} for name, size in (("data", 5600 * GB), ("wal", 1400 * GB))]
    made = [{"action": "filesystem", "stack": "pgdata", "volume": volume["name"]} for volume in VOLUMES]
    return [partition(full), {"action": "volume_group", "stack": "pgdata"}, *lvs, *made, {"action": "mount"}]


def result(steps=(), proofs=(), **verify):
    return {"steps": list(steps), "proofs": list(proofs), "verify": read_verify(verify).as_dict()}


@pytest.mark.parametrize("found", [{}, result(), result(proofs=[proof(due=False)])])
def test_where_nothing_is_left_no_time_is_told(found):
    assert duration_lines(found, STACKS) == []


def test_a_first_run_is_the_steps_and_the_measurements():
    assert duration_lines(result(steps(), [proof(bare=["x", "y"])]), STACKS) == [
        "time: 1 to 24 min in all",
        "  7 steps: at most 9 min, without packages that are fetched and what a drive takes for a discard",
        "  offset_sweep of 2 volumes: at most 5 min",
        "  throughput of 1 stack, writes too: at most 5 min",
        "  sync_latency of 2 volumes: at most 4 min",
        "  fstrim_proof of 2 volumes: at most 2 min",
    ]


def test_what_is_due_on_a_host_that_stands():
    found = duration_lines(result(proofs=[proof()], offset_sweep=False, fstrim_proof={"max_seconds": 10}, throughput={"max_seconds": 60}), STACKS)
    assert found == [
        "time: at most 6 min in all",
        "  throughput of 1 stack: 24 to 60 s",
        "  sync_latency of 2 volumes: at most 4 min",
        "  fstrim_proof of 2 volumes: 2 to 40 s",
    ]


def test_a_volume_without_a_mount_is_swept_only():
    assert [line.split()[0] for line in duration_lines(result(proofs=[proof(path=False)]), STACKS)[1:]] == ["offset_sweep"]


def test_a_full_proof_counts_the_largest_device():
    lines = duration_lines(result(steps(full=True)), STACKS)
    assert lines[1] == "  2 devices of 7.28 TiB read whole (blank_proof): at most 6 h"
    assert not any("read whole" in line for line in duration_lines(result(steps()), STACKS))


def test_volumes_without_lvm_have_the_size_of_their_partitions():
    made = [{"action": "filesystem", "stack": "pgdata", "volume": name} for name in ("one", "two")]
    assert duration_lines(result([partition(size=8000 * GB), *made]), SEPARATE)[1].startswith("  3 steps: ")
    lazy = [stack._replace(volumes=tuple(volume._replace(lazy_init=True) for volume in stack.volumes)) for stack in SEPARATE]
    assert duration_lines(result([partition(), *made]), lazy)[1].startswith("  3 steps: 3 to 90 s")


@pytest.mark.parametrize(
    "seconds, text",
    [
        ((0.2, 0.9), "at most 1 s"),
        ((2, 40), "2 to 40 s"),
        ((30, 119.5), "30 to 120 s"),
        ((59, 120), "at most 2 min"),
        ((60, 7199), "1 to 120 min"),
        ((60, 7200), "at most 2 h"),
        ((7300, 1e6), "2 to 278 h"),
        ((60, 60), "60 s"),
    ],
)
def test_a_range_has_the_unit_of_its_upper_end(seconds, text):
    assert span(*seconds) == text


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_each_measurement_says_its_time(name):
    """Within the limit that its options give, and more devices take no less."""
    measurement = MEASUREMENTS[name]
    for seconds in (1.0, 30.0, 3600.0):
        options = measurement.options({"max_seconds": seconds})
        (least, most), (_more, longest) = measurement.seconds(options, 1), measurement.seconds(options, 8)
        assert least > 0 and seconds <= most <= longest and (least <= most or name == "sync_latency")


def test_the_rows_are_those_that_the_role_asks_for():
    path = os.path.join(os.path.dirname(__file__), *[".."] * 5, "roles", "verify", "tasks", "measure.yml")
    with open(path, encoding="utf-8") as handle:
        text = handle.read()
    (rows,) = (line.split("default(")[1].split(")")[0] for line in text.split("\n") if "__verify_options.rows" in line)
    assert len(yaml.safe_load(rows)) == PROOF_ROWS
