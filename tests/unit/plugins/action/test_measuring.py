# SPDX-License-Identifier: GPL-3.0-or-later
"""Who waits for a measurement is told what begins, and how long it may take."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.measuring import begin_line
from ansible_collections.plumbline.ssd.tests.unit.roles.plays import play

FILLING = ", and what the filling takes before"


@pytest.mark.parametrize(
    "name, arguments, line",
    [
        ("offset_sweep", {"device": "/data01"}, "offset_sweep of /data01 begins: at most 30 s for each layer"),
        ("throughput", {"paths": ["/data01", "/data02"], "volumes": []}, "throughput of /data01, /data02 begins: at most 2 min" + FILLING),
        ("throughput", {"volumes": ["/dev/pg/data"], "max_seconds": "600"}, "throughput of /dev/pg/data begins: at most 10 min" + FILLING),
        ("sync_latency", {"path": "/data01", "max_seconds": 7200.0}, "sync_latency of /data01 begins: at most 2 h"),
        ("sync_latency", {"path": "/data01", "max_seconds": "soon"}, "sync_latency of /data01 begins"),
        ("fstrim_proof", {"path": "/data01", "max_seconds": 0.2}, "fstrim_proof of /data01 begins: at most 1 s for each drive"),
    ],
)
def test_the_line_has_the_target_and_the_limit(name, arguments, line):
    assert begin_line(name, arguments) == line


@pytest.mark.parametrize("words, told", [((), 1), (("--check",), 0)])
def test_it_is_told_before_the_host_is_asked(tmp_path, words, told):
    code, output, calls = play(tmp_path, {"one": {"sync_latency": [{}]}}, [{"plumbline.ssd.sync_latency": {"path": "/data01"}}], *words)
    assert code == 0 and output.count("[one]\n  sync_latency of /data01 begins: at most 2 min") == told
    assert [name for name, _arguments in calls["one"]] == ["sync_latency"]
