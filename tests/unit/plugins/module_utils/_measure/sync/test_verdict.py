# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import math
import os
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.statistics import poisson_bounds, spent
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import options as sync_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import report, rows
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import samples as sync_samples
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import verdict as sync_verdict
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.rows import ROWS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.samples import Piece, Samples

PARAMS = {"cache_states": False, "rows": None, "seconds": 1.0, "max_seconds": 120.0, "min_ops": {}, "max_p99_ms": {}}
KNOWN = {row.name: row for row in ROWS}


def samples(*microseconds, pieces=8):
    """Each latency once, dealt to so many pieces of time."""
    made = Samples()
    for number in range(pieces):
        part = [int(one * 1000) for one in microseconds[number::pieces]]
        if part:
            made.add(part, sum(part))
    return made


# What pg_test_fsync does: bytes of an operation, writes of it, flags, sync.
@pytest.mark.parametrize(
    "name, title, group, write, count, flag, sync",
    [
        ("open_datasync", "open_datasync", 0, 8192, 1, os.O_DSYNC, ""),
        ("fdatasync", "fdatasync", 0, 8192, 1, 0, "fdatasync"),
        ("fsync", "fsync", 0, 8192, 1, 0, "fsync"),
        ("open_sync", "open_sync", 0, 8192, 1, os.O_SYNC, ""),
        ("open_datasync_2", "open_datasync", 1, 8192, 2, os.O_DSYNC, ""),
        ("fdatasync_2", "fdatasync", 1, 8192, 2, 0, "fdatasync"),
        ("fsync_2", "fsync", 1, 8192, 2, 0, "fsync"),
        ("open_sync_2", "open_sync", 1, 8192, 2, os.O_SYNC, ""),
        ("open_sync_1x16k", " 1 * 16kB open_sync write", 2, 16384, 1, os.O_SYNC, ""),
        ("open_sync_2x8k", " 2 *  8kB open_sync writes", 2, 8192, 2, os.O_SYNC, ""),
        ("open_sync_4x4k", " 4 *  4kB open_sync writes", 2, 4096, 4, os.O_SYNC, ""),
        ("open_sync_8x2k", " 8 *  2kB open_sync writes", 2, 2048, 8, os.O_SYNC, ""),
        ("open_sync_16x1k", "16 *  1kB open_sync writes", 2, 1024, 16, os.O_SYNC, ""),
        ("write_fsync_close", "write, fsync, close", 3, 8192, 1, 0, "fsync_close"),
        ("write_close_fsync", "write, close, fsync", 3, 8192, 1, 0, "close_fsync"),
        ("write", "write", 4, 8192, 1, 0, ""),
    ],
)
def test_rows(name, title, group, write, count, flag, sync):
    assert KNOWN[name] == rows.Row(name, group, title, write, count, flag, sync)


def test_the_rows_are_those_and_in_the_order_of_the_groups():
    assert len(ROWS) == len(KNOWN) == 16
    assert [row.group for row in ROWS] == sorted(row.group for row in ROWS)
    assert all(row.group != 2 or row.write * row.times == 16384 for row in ROWS)


def test_options():
    assert sync_options.read_options(PARAMS) == Options()
    asked = dict(PARAMS, rows=["fsync", "fdatasync"], min_ops={"fdatasync": "500"}, max_p99_ms={"fsync": 5})
    found = sync_options.read_options(asked)
    assert [row.name for row in found.rows] == ["fdatasync", "fsync"]
    assert (found.min_ops, found.max_p99_ms) == ({"fdatasync": 500.0}, {"fsync": 5.0})


@pytest.mark.parametrize(
    "params, message",
    [
        ({"seconds": 0}, "seconds: 0; wanted 0.1 to 60"),
        ({"seconds": float("nan")}, "seconds: nan; wanted 0.1 to 60"),
        ({"max_seconds": 4000}, "max_seconds: 4000; wanted 1 to 3600"),
        ({"rows": ["fdatasink"]}, "rows: there is no row 'fdatasink' (did you mean 'fdatasync'?); the rows are open_datasync, fdatasync,"),
        ({"rows": []}, "rows: the list is empty; wanted at least one of open_datasync,"),
        ({"seconds": 10}, "max_seconds: 120; wanted at least 160, which 16 rows of 10 s take; ask for fewer rows, or for less time each"),
        ({"rows": ["fsync"], "min_ops": {"fdatasync": 1}}, "min_ops: the row 'fdatasync' is not measured (did you mean 'fsync'?); measured are fsync"),
        ({"min_ops": {"fsync": 0}}, "min_ops: fsync: '0' is no threshold; wanted a number above 0"),
        ({"min_ops": {"fsync": True}}, "min_ops: fsync: 'True' is no threshold"),
        ({"min_ops": {"fsync": [1]}}, "min_ops: fsync: '[1]' is no threshold"),
        ({"max_p99_ms": {"fsync": "5ms"}}, "max_p99_ms: fsync: '5ms' is no threshold"),
        ({"max_p99_ms": {"fsync": "inf"}}, "max_p99_ms: fsync: 'inf' is no threshold"),
        ({"max_p99_ms": {1: 5}}, "max_p99_ms: the row '1' is not measured"),
    ],
)
def test_options_that_make_no_sense(params, message):
    with pytest.raises(PlumblineError) as caught:
        sync_options.read_options(dict(PARAMS, **params))
    assert caught.value.msg.startswith(message) and "\n" not in caught.value.msg


@pytest.mark.parametrize("share, count", [(0.5, 5), (0.99, 299), (0.999, 2995)])
def test_what_a_percentile_needs(share, count):
    assert sync_samples.samples_for(share) == count
    assert share**count <= 0.05 < share ** (count - 1)
    assert samples(*range(1, count + 1)).percentile(share) is not None
    assert samples(*range(1, count)).percentile(share) is None
    assert samples(*range(1, count)).percentile_interval(share) is None


@pytest.mark.parametrize(
    "values, share, wanted",
    [
        (range(1, 11), 0.5, 5.0),
        (range(1, 12), 0.5, 6.0),
        ([7] * 5, 0.5, 7.0),
        (range(1, 1001), 0.99, 990.0),
        (range(1, 10001), 0.999, 9990.0),
        ([100] * 989 + [5000] * 11, 0.99, 5000.0),
        ([100] * 990 + [5000] * 10, 0.99, 100.0),
    ],
)
def test_percentiles_are_ranks(values, share, wanted):
    values = list(values)
    random.Random(1).shuffle(values)
    assert samples(*values).percentile(share) == wanted


def binomial(count, share, most):
    return sum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(most + 1))


@pytest.mark.parametrize("count, share", [(299, 0.01), (500, 0.01), (5000, 0.01), (2995, 0.001), (40, 0.5)])
def test_exceedances_by_the_binomial_sum(count, share):
    most, least = sync_samples.exceedances(count, share)
    assert binomial(count, share, most) >= 0.95 > binomial(count, share, most - 1)
    assert binomial(count, share, least) <= 0.05 < binomial(count, share, least + 1)


def test_exceedances_of_many_are_near_those_of_few():
    for count in (49_900, 50_100):  # the sum, and the normal law
        most, least = sync_samples.exceedances(count, 0.01)
        half = 1.645 * math.sqrt(count * 0.01 * 0.99)
        assert abs(most - (count * 0.01 + half)) < 3 and abs(least - (count * 0.01 - half)) < 3


def test_the_interval_of_a_percentile_holds_it():
    """Both ends, 400 times each: the true value is outside one of them in about 5 % of the runs."""
    dice = random.Random(7)
    true = -math.log(0.01) * 1000
    missed = [0, 0]
    for _turn in range(400):
        found = samples(*(dice.expovariate(1 / 1000) for _number in range(400))).percentile_interval(0.99)
        assert found.low <= found.value <= found.high
        missed[0] += found.low > true
        missed[1] += found.high < true
    assert max(missed) <= 0.09 * 400 and sum(missed) > 0


def pieces(count, ops=250, seconds=0.5, stalls=()):
    """So many pieces of time; *stalls*: how long the stall was, in seconds, by the number of the piece that had one."""
    made = Samples()
    for number in range(count):
        stalled = round(1e9 * dict(stalls).get(number, 0))
        made.pieces.append(Piece(ops + bool(stalled), round(seconds * 1e9) + stalled, bool(stalled), stalled))
    return made


def test_the_interval_of_a_rate_allows_for_stalls_that_are_too_rare_to_be_seen():
    short, long = pieces(8).rate_interval(), pieces(256).rate_interval()
    assert short.value == short.high == long.value == long.high == 500
    unseen = poisson_bounds(0, spent(sync_samples.RATE_ERROR, 1) / 3)[1]
    assert short.low == pytest.approx(500 / (1 + unseen / 4))
    assert 460 < long.low < 480, "128 s"


def test_one_stall_says_neither_that_there_are_many_nor_that_there_are_few():
    """A second of work and a stall of a second: 250 operations a second, and 500 where it was bad luck."""
    found = pieces(8, ops=63, seconds=0.125, stalls={3: 1.0}).rate_interval()
    assert found.value == pytest.approx(252, rel=0.01) and found.low < 60 and found.high > 495


def test_many_stalls_are_known():
    found = pieces(512, ops=63, seconds=0.125, stalls=dict.fromkeys(range(0, 512, 8), 0.2)).rate_interval()
    assert found.low < 504 / 1.2 < found.high < 504 / 1.1 and found.low > 504 / 1.6


def test_the_interval_of_a_rate_holds_it():
    """Seeded: pieces that scatter by 5 %, each on its own and in runs. `./plumbline bench sync` runs the whole grid."""
    for count, correlation in ((8, 0.0), (8, 0.5), (64, 0.8)):
        dice, missed = random.Random("rates"), 0
        for _turn in range(500):
            made, state = Samples(), dice.gauss(0, 1)
            for _piece in range(count):
                state = correlation * state + math.sqrt(1 - correlation**2) * dice.gauss(0, 1)
                made.pieces.append(Piece(50, round(1e9 * (0.5 + 0.025 * state))))
            found = made.rate_interval()
            assert found.low <= found.value <= found.high
            missed += not found.low < 100 < found.high
        assert missed <= 0.02 * 500, "1 % on each side"


@pytest.mark.parametrize("count, look", [(1, 1), (8, 1), (9, 2), (16, 2), (17, 3), (32, 3), (33, 4), (1000, 8)])
def test_the_number_of_a_look(count, look):
    assert sync_samples.look_of(count) == look


@pytest.mark.parametrize(
    "latencies, stalls",
    [
        ([1] * 100, 0),
        ([1] * 100 + [49], 0),
        ([1] * 100 + [50, 200], 2),
        ([60] * 20, 0),
        ([60] * 20 + [700], 1),
        ([200], 0),
    ],
)
def test_what_a_stall_is(latencies, stalls):
    made = samples(*[1000 * one for one in latencies], pieces=1)
    assert made.pieces[0].stalls == stalls


def test_what_an_open_loop_would_see():
    """999 operations of 1 ms and a stall of a second: half of the time is a stall, though 99.9 % of the operations know nothing of it."""
    made = samples(*[1000] * 999, 1_000_000, pieces=1)
    assert made.percentile(0.99) == 1000.0
    assert made.waiting(0.99) == pytest.approx(980_010, rel=1e-3)  # ((1 s - x) / 1.999 s = 0.01)
    assert made.stalled_share() == pytest.approx(1 / 1.999)
    assert samples(*[1000] * 100).waiting(0.99) == pytest.approx(990)
    assert Samples().waiting(0.99) is None


def test_rates():
    made = samples(2000, 2000, 2000, 2000, pieces=2)
    assert made.rate == 500 and made.rate_interval().high == 500
    assert samples(2000, pieces=1).rate_interval() is None
    assert Samples().rate == 0.0 and Samples().rate_interval() is None


@pytest.mark.parametrize(
    "values, wanted",
    [
        ([0.5], {1: 1}),
        ([1, 1.9], {2: 2}),
        ([2, 3, 4], {4: 2, 8: 1}),
        ([127.9, 128, 255], {128: 1, 256: 2}),
        ([1_000_000], {1 << 20: 1}),
        ([], {}),
    ],
)
def test_histogram(values, wanted):
    found = samples(*values).histogram()
    assert found == wanted and sum(found.values()) == len(values)


STEADY = samples(*[2000] * 400)
CALM = pieces(256)  # 500 operations a second for two minutes
# Half of the time twice as slow.
UNEVEN = Samples()
UNEVEN.pieces += [Piece(50, 100_000_000 * (1 + number % 2)) for number in range(400)]
TAIL = samples(*[2000] * 380 + [50_000] * 20)
EDGE = samples(*[2000] * 396 + [50_000] * 4)
LOOK = "; look at the write cache of the drives, and at what else loads them"


@pytest.mark.parametrize(
    "made, option, limit, verdict, text",
    [
        (CALM, "min_ops", 400, PASS, "fsync: 500 ops/sec (466 to 500); wanted at least 400"),
        (CALM, "min_ops", 500, INCONCLUSIVE, "within that; stalls of 1 s that are too rare to be seen in 128 s could take as much; measure"),
        (CALM, "min_ops", 501, FAIL, "fsync: 500 ops/sec (466 to 500); wanted at least 501" + LOOK),
        (UNEVEN, "min_ops", 330, INCONCLUSIVE, "wanted at least 330, which lies within that"),
        (UNEVEN, "min_ops", 200, PASS, "wanted at least 200"),
        (UNEVEN, "min_ops", 1000, FAIL, "wanted at least 1000" + LOOK),
        (samples(2000, pieces=1), "min_ops", 1, INCONCLUSIVE, "1 operations in 1 rounds are too few to tell; wanted at least 1, and for that two rounds"),
        (STEADY, "max_p99_ms", 2, PASS, "fsync: p99 is 2 ms (2 to 2), closed loop; wanted at most 2 ms"),
        (STEADY, "max_p99_ms", 1.5, FAIL, "fsync: p99 is 2 ms (2 to 2), closed loop; wanted at most 1.5 ms" + LOOK),
        (TAIL, "max_p99_ms", 10, FAIL, "(50 to 50), closed loop, stalled 56.8 % of the time, 50 ms the longest; wanted at most 10 ms" + LOOK),
        (EDGE, "max_p99_ms", 10, INCONCLUSIVE, "(2 to 50), closed loop, stalled 20.2 % of the time, 50 ms the longest; wanted at most 10 ms, which"),
        (samples(*[2000] * 298), "max_p99_ms", 10, INCONCLUSIVE, "298 operations in 8 rounds are too few to tell; wanted at most 10 ms, and for that 299"),
        (Samples("no such writes"), "max_p99_ms", 10, INCONCLUSIVE, "fsync cannot run here: no such writes; wanted at most 10 ms"),
        (Samples("no such writes"), "min_ops", 10, INCONCLUSIVE, "fsync cannot run here: no such writes; wanted at least 10"),
        (Samples(), "min_ops", 10, INCONCLUSIVE, "0 operations in 0 rounds are too few to tell"),
    ],
)
def test_one_threshold(made, option, limit, verdict, text):
    options = Options((KNOWN["fsync"],), **{option: {"fsync": limit}})
    (check,) = sync_verdict.compare([(KNOWN["fsync"], made)], options)
    assert (check.verdict, check.option, check.limit) == (verdict, option, limit)
    assert text in check.text and "\n" not in check.text


@pytest.mark.parametrize(
    "verdicts, verdict, kept",
    [
        ([], PASS, ["no threshold is set"]),
        ([PASS, PASS], PASS, ["0", "1"]),
        ([PASS, INCONCLUSIVE], INCONCLUSIVE, ["1"]),
        ([INCONCLUSIVE, FAIL, PASS], FAIL, ["0", "1"]),
    ],
)
def test_the_worst_decides(verdicts, verdict, kept):
    checks = [sync_verdict.Check("fsync", "min_ops", 1, None, one, str(number)) for number, one in enumerate(verdicts)]
    assert sync_verdict.judge_checks(checks) == (verdict, kept)


@pytest.mark.parametrize(
    "made, limits, wanted",
    [
        (samples(*[1] * 298), {"fsync": 1}, True),
        (samples(*[1] * 299), {"fsync": 1}, False),
        (samples(1), {}, False),
        (samples(1), {"fdatasync": 1}, False),
        (Samples("not here"), {"fsync": 1}, False),
    ],
)
def test_who_needs_more_time(made, limits, wanted):
    assert sync_verdict.wants_more(made, KNOWN["fsync"], Options(max_p99_ms=limits)) is wanted


@pytest.mark.parametrize(
    "count, limit, wanted",
    [(8, 400, True), (8, 100, False), (8, 501, False), (9, 100, True), (15, 501, True), (16, 501, False), (128, 400, False), (Samples("not here"), 1, False)],
)
def test_a_rate_is_looked_at_when_there_is_twice_as_much(count, limit, wanted):
    made = count if isinstance(count, Samples) else pieces(count)
    assert sync_verdict.wants_more(made, KNOWN["fsync"], Options(min_ops={"fsync": limit})) is wanted


REPORT = """\
/data01: ext4 on pgdata-data; 1 s per row in 8 rounds, O_DIRECT for open_datasync and open_sync
Compare file sync methods using one 8kB write:
        fdatasync                            99.773 ops/sec   10023 usecs/op  p50    9500  p99   14900  p99.9       -
        fsync                                           n/a  the time was up
Compare open_sync with different write sizes (16kB in all):
         1 * 16kB open_sync write           500.000 ops/sec    2000 usecs/op  p50       -  p99       -  p99.9       -
        16 *  1kB open_sync writes                      n/a  1024 B is no whole block of 4096 B
Non-sync'ed 8kB writes:
        write                            312500.000 ops/sec       3 usecs/op  p50     3.2  p99     3.2  p99.9     3.2
Operations in percent, by the latency that they stayed below (powers of two: 1ms is 1024us):
                             4us   8us  16us  32us  64us 128us 256us 512us   1ms   2ms   4ms   8ms  16ms
        fdatasync              .     .     .     .     .     .     .     .     .     .     .    <1   100
        open_sync_1x16k        .     .     .     .     .     .     .     .     .   100     .     .     .
        write                100     .     .     .     .     .     .     .     .     .     .     .     .
112 MiB were written in 17.3 s; a percentile is shown from so many operations: p99 299, p99.9 2995, and is that of a program that waits for each
fail: too slow"""


def test_report():
    measured = [
        (KNOWN["fdatasync"], samples(*[9500] * 360 + [14900] * 39 + [8000])),
        (KNOWN["fsync"], Samples()),
        (KNOWN["open_sync_1x16k"], samples(2000, 2000)),
        (KNOWN["open_sync_16x1k"], Samples("1024 B is no whole block of 4096 B")),
        (KNOWN["write"], samples(*[3.2] * 3000)),
    ]
    lines = report.report_sync("/data01: ext4 on pgdata-data", Options(), measured, FAIL, ["too slow"], 17.31, 112 << 20)
    assert "\n".join(lines) == REPORT


def test_a_result_is_small_whatever_was_measured():
    """Every row over all powers of two, every threshold: well below 48 KiB."""
    many = samples(*(one for power in range(-1, 27) for one in [2.0**power * 1.3] * 30))
    limits = {row.name: 1e-3 for row in ROWS}
    options = Options(min_ops=limits, max_p99_ms=limits)
    found = report.result("/data01: ext4 on pgdata-data", options, [(row, many) for row in ROWS], 100.0, 1 << 40)
    assert len(json.dumps(found)) < 40_000
    assert found["verdict"] == FAIL and len(found["checks"]) == 32
    assert max(len(line) for line in found["report"]) < 250


def test_a_result():
    options = Options((KNOWN["fsync"],), min_ops={"fsync": 50})
    found = report.result("/x", options, [(KNOWN["fsync"], STEADY)], 1.234, 5 << 20)
    (row,) = found["rows"]
    assert row == {
        "row": "fsync", "title": "fsync", "unable": "", "ops": 400, "seconds": 0.8, "ops_per_sec": 500.0, "usecs_per_op": 2000.0,
        "p50_us": 2000.0, "p99_us": 2000.0, "p999_us": None, "max_us": 2000.0, "histogram": {"2048": 400},
        "open_p99_us": 1980.0, "method_us": 0.0, "stalls": 0, "stalled_share": 0.0,
    }  # fmt: skip
    assert found["checks"] == [
        {"row": "fsync", "threshold": "min_ops", "wanted": 50, "found": 500.0, "low": 55.579, "high": 500.0, "verdict": PASS}
    ]  # fmt: skip
    assert (found["verdict"], found["seconds"], found["written_bytes"]) == (PASS, 1.23, 5 << 20)


def test_check_mode():
    found = report.unmeasured("/x: ext4 on x")
    assert (found["verdict"], found["rows"], found["checks"], found["written_bytes"]) == (INCONCLUSIVE, [], [], 0)
    assert found["report"] == ["/x: ext4 on x", "inconclusive: check mode: nothing is written, so nothing was measured"]


# --- the two states of the write cache ----------------------------------------------------------------------------------------


def test_both_states_measure_what_the_comparison_needs():
    options = sync_options.read_options(dict(PARAMS, rows=["fsync"], min_ops={"fsync": 5}, max_p99_ms={"fsync": 50}))
    mine, other = sync_options.for_states(options, True), sync_options.for_states(options, False)
    assert [row.name for row in mine.rows] == [row.name for row in other.rows] == ["fdatasync", "fsync", "direct_write", "write_sync_file_range"]
    assert (mine.min_ops, mine.max_p99_ms) == ({"fsync": 5}, {"fsync": 50}), "thresholds are for the state that the drives were in"
    assert (other.min_ops, other.max_p99_ms) == ({}, {})
    assert not {rows.DIRECT.name, rows.WRITTEN.name}.intersection(KNOWN)
    assert (rows.DIRECT.flag, rows.DIRECT.sync, rows.DIRECT.write) == (os.O_DIRECT, "", 8192)


@pytest.mark.parametrize("maximum, refused", [(17, True), (18, False)])
def test_the_rows_beside_have_to_fit(maximum, refused):
    options = sync_options.read_options(dict(PARAMS, max_seconds=float(maximum)))
    if refused:
        with pytest.raises(PlumblineError, match="max_seconds: 17; wanted at least 18 for each state of the write cache, which 18 rows of 1 s take"):
            sync_options.for_states(options, True)
    else:
        assert len(sync_options.for_states(options, True).rows) == 18


def test_only_what_was_asked_for_is_in_the_table():
    options = sync_options.read_options(dict(PARAMS, rows=["fsync"]))
    measured = [(row, samples(*[100.0] * 40)) for row in sync_options.for_states(options, True).rows]
    assert [row.name for row, _samples in sync_verdict.asked(measured, options)] == ["fsync"]


def test_states_are_compared():
    options = sync_options.for_states(sync_options.read_options(dict(PARAMS, rows=["fsync"])), True)
    rates = {"on": [13786, 9385, 14641, 14000], "off": [519, 169, 527, 14000]}  # the article of 2015; the last row is not in it
    on, off = ([(row, samples(*[1e6 / rate] * 80)) for row, rate in zip(options.rows, rates[state])] for state in ("on", "off"))
    returned, lines = report.compare_states(on, off, None)
    assert returned["collapse"] == {"fdatasync": 26.56, "fsync": 55.53, "direct_write": 27.78, "write_sync_file_range": 1.0}
    assert returned["honesty"]["class"] == "ignores_flushes_perhaps"
    assert [row["row"] for row in returned["on"]] == [row["row"] for row in returned["off"]] == [row.name for row in options.rows]
    assert len(lines) == 2 + 4 + 1 and lines[-1].startswith("flushes: ignores_flushes_perhaps")
    json.dumps(returned)


def test_a_row_that_cannot_run_makes_it_unclear():
    options = sync_options.for_states(sync_options.read_options(dict(PARAMS, rows=["fsync"])), True)
    on = [(row, Samples("no such direct writes on this filesystem") if row.flag else samples(*[100.0] * 40)) for row in options.rows]
    returned, _lines = report.compare_states(on, on, True)
    assert returned["honesty"]["class"] == "unclear" and returned["collapse"] == {
        "fdatasync": 1.0, "fsync": 1.0, "direct_write": None, "write_sync_file_range": 1.0
    }  # fmt: skip


FAST = {"verdict": PASS, "reasons": ["fdatasync: 9000 ops/sec"], "report": ["a table"]}
LIAR = {"class": "ignores_flushes_perhaps", "text": "too quick"}


@pytest.mark.parametrize("relies, protected, verdict", [(True, False, FAIL), (True, True, PASS), (False, False, PASS)])
def test_a_drive_that_ignores_flushes_fails_what_relies_on_them(relies, protected, verdict):
    found, warnings = report.with_flushes(FAST, LIAR, relies, protected)
    assert found["verdict"] == verdict
    if verdict == FAIL:
        assert found["reasons"] == ["the drives seem to ignore flushes: too quick; state power_loss_protection if they have it"] and not warnings
        assert found["report"][-1].startswith("fail: the drives seem to ignore flushes")
    else:
        assert warnings == ["the drives seem to ignore flushes: too quick"] and found == FAST


def test_reasons_that_failed_it_before_stay():
    found, _warnings = report.with_flushes({**FAST, "verdict": FAIL, "reasons": ["too slow"]}, LIAR, True, False)
    assert found["reasons"][0] == "too slow" and len(found["reasons"]) == 2


@pytest.mark.parametrize("kind", ["honest", "protected_perhaps", "unclear"])
def test_no_other_class_changes_a_verdict(kind):
    assert report.with_flushes(FAST, {"class": kind, "text": ""}, True, False) == (FAST, [])


def test_a_rate_counts_all_the_time_that_it_took():
    """Operations by time, and not the mean of the pieces' rates: a piece with a stall takes longer, and counts for more."""
    made = Samples()
    for piece in range(8):
        made.add([100_000] * 1000, 1_100_000_000 if piece == 3 else 100_000_000)
    assert made.rate == pytest.approx(8000 / 1.8)
    assert made.rate_error() == pytest.approx(math.sqrt(sum((1000 - 8000 / 1.8 * t) ** 2 for t in [0.1] * 7 + [1.1]) * 8 / 7) / 1.8)
    assert Samples().rate_error() is None
