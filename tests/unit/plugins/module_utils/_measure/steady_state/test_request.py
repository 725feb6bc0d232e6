# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is asked for, what it may cost, and what its rounds come to."""

from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import write_discard
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits, make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stack_addresses import partition_end
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import drive_load, request, rounds
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import ROUND_SHARE, WINDOW
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS, WINDOW_FILLS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import RandomLoad, Request

TB = 10**12
ASKED = {key: option.get("default") for key, option in request.ARGUMENTS.items()}
LOAD = RandomLoad(4096, 32, 0)
ONE = Request("/dev/x", "wwid:1", "S1", LOAD, DEFAULTS, "ab" * 16)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"block_size": "4"}, "block_size"),
        ({"block_size": "6KiB"}, "wanted a power of two from 4KiB to 1MiB"),
        ({"block_size": "2MiB"}, "wanted a power of two"),
        ({"block_size": "2KiB"}, "wanted a power of two"),
        ({"depth": 0}, "depth: 0; wanted 1 to 1024"),
        ({"depth": 1025}, "depth: 1025"),
        ({"read_percent": -1}, "read_percent: -1"),
        ({"read_percent": 96}, "without writes no drive has a steady state"),
    ],
)
def test_loads_that_are_refused(given, told):
    with pytest.raises(PlumblineError, match=told):
        request.read_random_load({**ASKED, **given})


@pytest.mark.parametrize(
    "given", [{"max_fills": 0.99}, {"max_fills": 21.0}, {"max_fills": float("nan")}, {"precision": 0.0}, {"precision": 51.0}, {"precision": float("nan")}]
)
def test_bounds_that_are_refused(given):
    with pytest.raises(PlumblineError, match=next(iter(given))):
        request.read_run_options({**ASKED, **given})


@pytest.mark.parametrize("mode", ["saturation", "passes"])
@pytest.mark.parametrize("given", [{"snia": True}, {"read_percent": 30}])
def test_a_picture_is_of_writes_and_not_judged(mode, given):
    with pytest.raises(PlumblineError, match="%s: only mode steady knows it" % next(iter(given))):
        request.read_run_options({**ASKED, "mode": mode, **given})
    options = request.read_run_options({**ASKED, "mode": mode})
    assert options.is_picture and request.most_written(4 * TB, options) == 16 * TB
    assert "(4 fills of 3.64 TiB at random)" in request.check_wear(4 * TB, options, {**ASKED, "accept_wear": True})
    assert ("each block once per pass" in request.load_words(LOAD, options)) is (mode == "passes")


@pytest.mark.parametrize(
    "given, told",
    [
        ({"reserve": "51%"}, "reserve: 51%; wanted at most 50%"),
        ({"reserve": "10"}, "reserve: '10' is not a percentage"),
        ({"reserve": "-1%"}, "reserve: '-1%' is not a percentage"),
        ({"reserve": "50%", "max_fills": 2.0}, "max_fills: 2; wanted 2.5 to 20 with a reserve of 50%"),
    ],
)
def test_reserves_that_are_refused(given, told):
    with pytest.raises(PlumblineError, match=told):
        request.read_run_options({**ASKED, **given})


@pytest.mark.parametrize(
    "size, reserve, length",
    [(100 * MIB, 0.0, 98 * MIB), (100 * MIB + 4096, 0.0, 98 * MIB), (100 * MIB, 0.005, 98 * MIB), (100 * MIB, 0.1, 89 * MIB), (100 * MIB, 0.1001, 88 * MIB)],
)
def test_what_is_loaded_beside_a_reserve(size, reserve, length):
    """As long as a partition with that reserve; without one, all that a stack owns."""
    assert request.loaded_span(size, reserve) == (MIB, length)
    end = partition_end(size, {"percent": 100 * reserve}, make_geometry(Limits(physical=4096)))
    assert end == MIB + length
    if not reserve:
        assert request.loaded_span(size, reserve) == write_discard.owned(size)


def test_a_reserve_that_leaves_too_little():
    with pytest.raises(PlumblineError, match="reserve: 50% of 96 MiB leave 47 MiB; a round of the load needs 64 MiB at least"):
        request.loaded_span(96 * MIB, 0.5)


def test_a_reserve_makes_the_load_longer_before_a_verdict():
    """Until the physical space has been written once, any drive is as flat as a steady one."""
    assert pytest.approx(2 * WINDOW * ROUND_SHARE) == WINDOW_FILLS and DEFAULTS.with_reserve(0.0) == DEFAULTS
    found = request.read_run_options({**ASKED, "reserve": "25%"})
    assert (found.reserve, found.min_fills) == (0.25, 1.5) and DEFAULTS.tidied_fills == 0.25 and found.tidied_fills == 0.5
    assert request.most_written(3 * TB, found) == 15 * TB


@pytest.mark.parametrize(
    "given, told",
    [
        ({"target": {}}, "target: wanted exactly one of 'p99_write_ms' and 'wa'"),
        ({"target": {"wa": 3.0, "p99_write_ms": 2.0}}, "wanted exactly one of"),
        ({"target": {"hidden": "7%"}}, "wanted exactly one of"),
        ({"target": {"p99_write_ms": 0.0}}, "target.p99_write_ms: 0; wanted more than 0"),
        ({"target": {"p99_write_ms": float("nan")}}, "target.p99_write_ms: nan"),
        ({"target": {"wa": 1.0}}, "target.wa: 1; wanted more than 1"),
        ({"target": {"wa": 1.01}}, "target: wa: 1.01 needs a reserve of"),
        ({"target": {"wa": 3.0, "hidden": "60%"}}, "target.hidden: 60%; wanted at most 50%"),
        ({"target": {"wa": 3.0, "hidden": "x"}}, "target.hidden: 'x' is not a percentage"),
        ({"target": {"wa": 3.0}, "mode": "passes"}, "leave out mode and reserve"),
        ({"target": {"wa": 3.0}, "reserve": "10%"}, "leave out mode and reserve"),
        ({"target": {"wa": 3.0}, "max_fills": 2.0}, "target: max_fills: 2; wanted 2.5 to 20 with a reserve of 50%"),
    ],
)
def test_targets_that_are_refused(given, told):
    with pytest.raises(PlumblineError, match=told):
        request.read_target({**ASKED, **given})


@pytest.mark.parametrize(
    "given, guess, runs",
    [
        ({"p99_write_ms": 2.0}, 0.2282, 4),  # the theory's reserve for an amplification of 2
        ({"p99_write_ms": 2.0, "wa": None, "hidden": "28%"}, 0.0767, 4),
        ({"wa": 3.0}, 0.1204, 2),
        ({"wa": 3.0, "hidden": "50%"}, 0.0, 2),
    ],
)
def test_where_a_search_begins(given, guess, runs):
    found = request.read_target({**ASKED, "target": given})
    assert found.guess == pytest.approx(guess, abs=0.0002) and found.runs == runs
    assert request.read_target(ASKED) is None
    kept = request.read_record(json.loads(json.dumps(request.as_record(ONE._replace(target=found, model="M", firmware="F")))), "f")
    assert kept.target == found and (kept.model, kept.firmware) == ("M", "F")


def test_a_search_costs_all_of_its_runs():
    told = request.check_wear(4 * TB, DEFAULTS, {**ASKED, "accept_wear": True}, 4)
    assert "it writes 72.76 TiB at most (4 runs, each with one fill of 3.64 TiB in sequence, and up to 4 at random)" in told


def test_a_mix_wants_a_steady_latency():
    assert request.read_run_options(ASKED) == DEFAULTS
    assert request.read_run_options({**ASKED, "read_percent": 70}).latency


@pytest.mark.parametrize(
    "capacity, rated, accepted, told",
    [
        (4 * TB, 7000, False, None),  # 20 TB are 0.29 %
        (4 * TB, 4000, False, None),  # exactly 0.5 %
        (4 * TB, 3999, False, "more than 0.5 % needs accept_wear: true"),
        (4 * TB, 3999, True, None),
        (4 * TB, 0, False, "say what the drive is rated for"),
        (4 * TB, 0, True, None),
        (4 * TB, -1, True, "terabytes_written: -1"),
    ],
)
def test_the_wear_is_announced_and_bounded(capacity, rated, accepted, told):
    given = {**ASKED, "terabytes_written": rated, "accept_wear": accepted}
    if told is None:
        assert "at most (one fill of 3.64 TiB in sequence, and up to 4 at random)" in request.check_wear(capacity, DEFAULTS, given)
        return
    with pytest.raises(PlumblineError, match=told):
        request.check_wear(capacity, DEFAULTS, given)


def test_a_request_comes_back_as_it_was():
    assert request.read_record(json.loads(json.dumps(request.as_record(ONE))), "f") == ONE


@pytest.mark.parametrize(
    "damage",
    [None, [], "x", {}, {**request.as_record(ONE), "more": 1}, {**request.as_record(ONE), "load": 3}, {**request.as_record(ONE), "mark": "xy"},
     {**request.as_record(ONE), "mark": ""}, {**request.as_record(ONE), "path": ""}, {**request.as_record(ONE), "serial": None}],
)  # fmt: skip
def test_a_damaged_request_is_one_line(damage):
    with pytest.raises(PlumblineError, match="no request of a run, or damaged"):
        request.read_record(damage, "f")


def test_the_command_of_a_round():
    place = fio.Place("/dev/nvme0n1", 1 << 20, 100 << 20)
    words = drive_load.round_argv("fio", place, RandomLoad(8192, 16, 70), 5 << 20, b"\1" * 16, False)
    assert {"--rw=randrw", "--rwmixread=70", "--bs=8192", "--iodepth=16", "--io_size=5242880", "--offset=1048576", "--size=104857600"} <= set(words)
    assert "--output-format=json+" in words and "--direct=1" in words and "--gtod_reduce=1" not in words and "--readonly" not in words
    words = drive_load.round_argv("fio", place, drive_load.FILL, 5 << 20, b"\1" * 16, True)
    assert "--rw=write" in words and not [word for word in words if word.startswith("--rwmixread")]

    words = drive_load.round_argv("fio", place, LOAD, 5 << 20, b"\1" * 16, False, True)
    assert words.index("--norandommap=0") > words.index("--norandommap=1"), "the later word counts"


def report(**more):
    side = {"io_bytes": 1 << 20, "runtime": 500, "total_ios": 256, "clat_ns": {"bins": {"1000000": 25600}}}
    return json.dumps({"jobs": [{"error": 0, "write": {**side, **more}}]})


def test_a_round_as_fio_reports_it():
    found = drive_load.read_round(report(), 40)
    assert (found.bytes, found.seconds, found.temperature) == (1 << 20, 0.5, 40) and found.p99_us == 1000.0
    assert (found.p50_us, found.p999_us) == (1000.0, 1000.0)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"jobs": []}', '{"jobs": [{}, {}]}', '{"jobs": [{"error": 5, "write": {}}]}', report(runtime="x"), report(clat_ns={})]
)
def test_a_report_that_says_nothing(text):
    with pytest.raises(PlumblineError, match="fio"):
        drive_load.read_round(text, None)


def kept(step, count=1, rate=50.0, p99=900.0):
    return [{"step": step, "bytes": 50, "seconds": 50 / rate, "p99_us": p99, "temperature": 40}] * count


STEP = {"step": "discard", "written": None}


def test_what_a_run_comes_to():
    records = [STEP, *kept("fill", 20, 100.0), *kept("load", 40)]
    found = rounds.steady_result(rounds.Rounds(records, 1000, DEFAULTS), LOAD, "/dev/x")
    assert found["verdict"] == "pass" and found["reasons"] == [] and found["fills"] == 2.0
    assert found["iops"] == round(50 / 4096, 1) and found["p99_ms"] == 0.9
    assert set(found["series"]["p99_ms"]) == {0.9} and set(found["series"]["p50_ms"]) == {None}, "a run that was begun before p50 was kept"
    lengths = {len(line) for line in found["series"].values()}
    assert lengths == {60} and found["series"]["fills"][-1] == 3.0 and found["series"]["iops"][:20] == [None] * 20
    assert found["marks"] == [{"fills": 1.0, "label": "random load"}]
    (window,) = found["windows"]
    assert 1.0 < window["first_fills"] < window["last_fills"] == 3.0
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    "first, each, wa",
    [
        ({"host_pages": 1000, "background_pages": 0}, {"host_pages": 100, "background_pages": 230}, 3.3),
        ({"host_bytes_written": 0, "flash_bytes_written": 0}, {"host_bytes_written": 50 << 30, "flash_bytes_written": 150 << 30}, 3.0),
        ({"host_bytes_written": 0}, {"host_bytes_written": 50 << 30}, None),
        ({}, {}, None),
    ],
)
def test_write_amplification_of_the_windows(first, each, wa):
    """By the counters before and behind the windows; the fill before them amplifies nothing, and does not count."""
    loads = [{**one, "counters": {name: start + each[name] * (number + 1) for name, start in first.items()}} for number, one in enumerate(kept("load", 40))]
    found = rounds.steady_result(rounds.Rounds([STEP, *kept("fill", 20, 100.0), *loads], 1000, DEFAULTS), LOAD, "/dev/x")
    assert found["verdict"] == "pass" and found["write_amplification"] == (None if wa is None else pytest.approx(wa, abs=0.001))
    if wa:
        assert found["write_amplification_low"] <= wa <= found["write_amplification_high"]
    unsteady = rounds.steady_result(rounds.Rounds([STEP, *kept("fill", 20, 100.0), *loads[:12]], 1000, DEFAULTS), LOAD, "/dev/x")
    assert unsteady["write_amplification"] is None


def test_hidden_space_beside_a_reserve_is_a_share_of_the_whole_drive():
    """With a fifth left free, a drive with 12 % collapses after 1.4 fills of the rest."""
    found = drawn("saturation", [(140, 100.0), (200, 25.0)], reserve=0.2)
    assert (found["first_collapse_fills"], found["hidden_space"], found["doubts"], found["reserve_percent"]) == (1.4, pytest.approx(0.12), [], 20.0)


def test_a_run_that_was_taken_up():
    records = [STEP, *kept("fill", 20), *kept("load", 10), {"step": "resumed", "written": None}, *kept("load", 40)]
    whole = rounds.Rounds(records, 1000, DEFAULTS)
    found = rounds.steady_result(whole, LOAD, "/dev/x")
    assert found["fills"] == 2.5 and {"fills": 1.5, "label": "taken up again"} in found["marks"]
    assert found["windows"][0]["first_fills"] >= 1.5 and not whole.freed
    assert rounds.Rounds([*records, {"step": "freed"}], 1000, DEFAULTS).freed


def test_a_run_that_has_just_begun():
    found = rounds.steady_result(rounds.Rounds([STEP, *kept("fill", 3)], 1000, DEFAULTS), LOAD, "/dev/x")
    assert found["verdict"] == "inconclusive" and found["reasons"] and found["windows"] == [] and found["p99_ms"] is None


@pytest.mark.parametrize(
    "text", [b"[]\n", b"{}\n", b"{\n", b"\xff\n", b'{"step": "load"}\n', b'{"step": "load", "bytes": 0, "seconds": 1, "p99_us": 1, "temperature": 1}\n']
)
def test_rounds_that_are_damaged(text):
    with pytest.raises(PlumblineError, match="no record of a run, or damaged"):
        rounds.parse_records(text, "f")


def drawn(mode, parts, cut_behind=None, reserve=0.0):
    """The result of a picture: (windows of 1 %, rate) in a row, cut off behind so many windows."""
    windows = [kept("load", 1, rate)[0] for count, rate in parts for _window in range(count)]
    for one in windows:
        one.update(bytes=10, seconds=10 / (50 / one["seconds"]), p99_us=None)
    records = [STEP, *windows, {"step": "drawn", "p50_us": 100.0, "p99_us": 900.0, "p999_us": 1500.0, "written": None}]
    if cut_behind is not None:
        records.insert(1 + cut_behind, {"step": "resumed", "written": None})
    return rounds.steady_result(rounds.Rounds(records, 1000, DEFAULTS._replace(mode=mode, max_fills=3.0, reserve=reserve)), LOAD, "/dev/x")


SAW = [(112, 100.0), (38, 25.0), *[(62, 100.0), (38, 25.0)] * 2, (50, 100.0)]


@pytest.mark.parametrize(
    "mode, parts, cut, collapse, period, doubts",
    [
        ("saturation", [(112, 100.0), (288, 25.0)], None, 1.12, None, 0),
        ("saturation", [(400, 100.0)], None, None, None, 0),
        ("saturation", [(150, 100.0), (250, 25.0)], None, 1.5, None, 1),  # no drive is known to hide so much
        ("saturation", [(50, 300.0), (62, 100.0), (288, 25.0)], None, 1.12, None, 1),  # a cache
        ("saturation", [(112, 100.0), (288, 25.0)], 60, 1.12, None, 1),
        ("saturation", [(112, 100.0), (288, 25.0)], 200, 1.12, None, 0),  # the collapse had been seen
        ("passes", SAW, None, 1.12, 1.0, 0),
        ("passes", SAW, 50, 1.12, 1.0, 2),  # three fills and a half are behind the cut
        ("passes", SAW, 150, 1.12, None, 1),
    ],
)
def test_what_a_picture_shows(mode, parts, cut, collapse, period, doubts):
    found = drawn(mode, parts, cut)
    assert (found["mode"], found["verdict"], found["reasons"], found["why"]) == (mode, "not_judged", [], "a picture, not judged")
    assert found["first_collapse_fills"] == collapse and len(found["doubts"]) == doubts, found["doubts"]
    assert found["hidden_space"] == (None if collapse is None else pytest.approx(collapse - 1))
    assert found["period_fills"] == (None if period is None else pytest.approx(period, abs=0.011))
    assert {mark["fills"] for mark in found["marks"] if mark["label"] == "first collapse"} == ({collapse} if collapse else set())
    assert not [mark for mark in found["marks"] if mark["label"] == "random load"] and found["windows"] == []
    assert found["p99_ms"] == 0.9 and found["series"]["p99_ms"][-2:] == [None, 0.9], "the latency is that of the whole fill"
    json.dumps(found, allow_nan=False)


def test_a_steady_state_shows_no_collapse():
    found = rounds.steady_result(rounds.Rounds([STEP, *kept("fill", 20, 100.0), *kept("load", 40)], 1000, DEFAULTS), LOAD, "/dev/x")
    assert (found["mode"], found["first_collapse_fills"], found["hidden_space"], found["period_fills"], found["doubts"]) == ("steady", None, None, None, [])
