# SPDX-License-Identifier: GPL-3.0-or-later
"""The reserve by target: what is read of a spec, what it comes to on a device, and what is found where a stack stands."""

from __future__ import annotations

import math

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import parse_written
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import Workload
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.drawing import diff, steps_report
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, spec

S = "plumbline_stacks[pgdata]"
R, T, M, W = S + ".reserve", S + ".reserve.target", S + ".reserve.measured", S + ".workload"
MEASURED = {"model": "Flash 9000", "firmware": "1.0", "share": 0.2}
LIFE = {"years": 5, "tbw": "1.2PB"}
TERA = 10**12


@pytest.fixture
def host():
    one = Host()
    one.pair()
    return one


def stacks_with(reserve, workload=None):
    more = {} if workload is None else {"workload": workload}
    return [{"name": "pgdata", "devices": ["nvme-A", "nvme-B"], "volumes": [{"name": "data"}], "reserve": reserve, **more}]


def lengths(plan):
    return [device["length_bytes"] for step in plan.steps if step["action"] == "partition" for device in step["devices"]]


def share_left(plan, seen):
    """What a plan leaves unpartitioned of the first device, in percent."""
    leg = plan.stacks[0].legs[0]
    return 100 * (1 - (leg.start + leg.size) / seen.nodes[leg.devno].size)


# --- the spec ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reserve, workload, wanted",
    [
        ({"target": {"wa": 3}}, None, {"wa": 3.0, "hidden": 0.07, "hidden_is_known": False, "workload": Workload(1.0, 1.0)}),
        ({"target": {"wa": 1.5, "hidden": "28%"}}, None, {"wa": 1.5, "hidden": 0.28, "hidden_is_known": True}),
        ({"target": {"wa": 3, "hidden": 0}}, {"random": "80%"}, {"hidden": 0.0, "workload": Workload(1.0, 0.8)}),
        ({"target": {"wa": 1}}, {"random": 0}, {"wa": 1.0, "workload": Workload(1.0, 0.0)}),
        ({"target": LIFE}, {"writes_per_day": 1.5, "random": "80%"}, {"years": 5.0, "rated": 1200 * TERA, "workload": Workload(1.5, 0.8)}),
        ({"target": LIFE}, {"writes_per_day": 0}, {"workload": Workload(0.0, 1.0)}),
        ({"measured": MEASURED}, None, {"measured": ("Flash 9000", "1.0", 0.2, 0.0, "", ""), "hidden": 0.07, "hidden_is_known": False}),
        (
            {"measured": {**MEASURED, "hidden": 0.136, "wa": 0.9}}, {"random": "50%"},
            {"measured": ("Flash 9000", "1.0", 0.2, 0.9, "", ""), "hidden": 0.136, "hidden_is_known": True},
        ),
        ({"measured": {**MEASURED, "share": 0}}, None, {}),
        ({"measured": {**MEASURED, "share": 0.5}}, None, {}),
    ],
)  # fmt: skip
def test_what_is_read(reserve, workload, wanted):
    (found,) = read_stacks(stacks_with(reserve, workload))
    assert found.reserve == {} and {key: getattr(found.goal, key) for key in wanted} == wanted
    (plain,) = read_stacks(stacks_with("12.5%"))
    assert (plain.reserve, plain.goal) == ({"percent": 12.5}, None)


OUT = "wanted a number from 0 to 1000"
BAD = [
    ({}, None, R + ": wanted exactly one of 'target' and 'measured'"),
    ({"target": {"wa": 3}, "measured": MEASURED}, None, R + ": wanted exactly one of 'target' and 'measured'"),
    ({"traget": {"wa": 3}}, None, R + ": unknown key 'traget' (did you mean 'target'?); valid keys: target, measured"),
    ({"target": 3}, None, T + ": found a number; wanted a mapping with wa, years, p99_write_ms, tbw, hidden"),
    ({"target": None}, None, T + ": found nothing"),
    ({"target": [{"wa": 3}]}, None, T + ": found a list"),
    ({"target": {}}, None, T + ": wanted exactly one of 'wa' and 'years'"),
    ({"target": {"wa": 3, **LIFE}}, None, T + ": wanted exactly one of 'wa' and 'years'"),
    ({"target": {"hidden": "7%"}}, None, T + ": wanted exactly one of 'wa' and 'years'"),
    ({"target": {"wa": 3, "hiden": "7%"}}, None, T + ": unknown key 'hiden' (did you mean 'hidden'?)"),
    ({"target": {"p99_write_ms": 2}}, None, T + ".p99_write_ms: a latency has no model, it needs a measurement: give it to the role plumbline.ssd"),
    ({"target": {"wa": 3, "p99_write_ms": 2}}, None, T + ".p99_write_ms: a latency"),
    ({"target": {"wa": 3, "tbw": "1PB"}}, None, T + ".tbw: only 'years' depends on it"),
    *(({"target": {"wa": wa}}, None, T + ".wa: '%s' does not fit; %s" % (wa, OUT)) for wa in (math.nan, math.inf, -1, "3", True, None, [3], {}, 1e9, 10**400)),
    *(({"target": {"wa": wa}}, None, T + ".wa: %g; wanted a number above 1" % wa) for wa in (0, 0.5, 1)),
    ({"target": {"wa": 0.9}}, {"random": 0}, T + ".wa: 0.9; wanted a number above 1"),
    ({"target": {"wa": 1.1}}, None, T + ".wa: 1.1 needs a reserve of 59 %; at most 50 % are sensible; buy a larger drive"),
    ({"target": {"wa": 3, "hidden": 0.07}}, None, T + ".hidden: '0.07' is not a percentage"),
    ({"target": {"wa": 3, "hidden": "-7%"}}, None, T + ".hidden: '-7%' is not a percentage"),
    ({"target": {"wa": 3, "hidden": "101%"}}, None, T + ".hidden: '101%' is out of range"),
    ({"target": {"wa": 3, "hidden": False}}, None, T + ".hidden: 'False' is not a percentage"),
    ({"target": {"years": 5}}, {"writes_per_day": 1}, T + ": 'years' needs 'tbw': no drive says what it is rated for"),
    ({"target": LIFE}, None, T + ": 'years' needs the writes of a day, in capacities of the drives; wanted %s: {writes_per_day" % W),
    ({"target": LIFE}, {"random": "80%"}, T + ": 'years' needs the writes of a day"),
    *(({"target": {**LIFE, "years": years}}, {"writes_per_day": 1}, T + ".years: '%s' does not fit; wanted a number from 0.1 to 100" % years)
      for years in (0, -5, 101, math.nan, math.inf, "5", True)),
    *(({"target": {**LIFE, "tbw": tbw}}, {"writes_per_day": 1}, T + ".tbw: '%s' does not fit; wanted the TBW of the data sheet" % tbw)
      for tbw in (0, 1200, "1200", "1.2PiB", "0TB", "-1PB", "nanPB", None, ["1PB"], True, "1e3TB", "9999999PB", "1" * 40 + "TB")),
    ("10%", {"random": "80%"}, W + ": only a reserve with 'target' or 'measured' depends on it; leave it out"),
    ({"target": {"wa": 3}}, {"writes": 1}, W + ": unknown key 'writes' (did you mean 'writes_per_day'?)"),
    ({"target": {"wa": 3}}, [], W + ": found an empty list"),
    ({"target": {"wa": 3}}, {"random": 0.8}, W + ".random: '0.8' is not a percentage"),
    ({"target": {"wa": 3}}, {"random": "120%"}, W + ".random: '120%' is out of range"),
    *(({"target": LIFE}, {"writes_per_day": one}, W + ".writes_per_day: '%s' does not fit; %s" % (one, OUT)) for one in (-1, math.nan, "1.5", None, 1e4)),
    ({"measured": "reserve.json"}, None, M + ": found a string; wanted what a file of measurements holds, for example \"{{ lookup('file', inventory_dir ~ '/"),
    ({"measured": None}, None, M + ": found nothing; wanted what a file"),
    ({"measured": {**MEASURED, "p99": 2}}, None, M + ": unknown key 'p99'"),
    *(({"measured": {key: value for key, value in MEASURED.items() if key != gone}}, None, M + ": '%s' is missing" % gone) for gone in MEASURED),
    *(({"measured": {**MEASURED, "share": share}}, None, M + ".share: '%s' does not fit; wanted a number from 0 to 0.5" % share)
      for share in (0.51, -0.1, math.nan, "12%", True, None)),
    *(({"measured": {**MEASURED, "hidden": one}}, None, M + ".hidden: '%s' does not fit; wanted a number from 0 to 1" % one) for one in ("7%", 1.5, -1)),
    *(({"measured": {**MEASURED, "wa": one}}, None, M + ".wa: '%s' does not fit; wanted a number from 0.01 to 1000" % one) for one in (0, math.inf, "3")),
    *(({"measured": {**MEASURED, "model": one}}, None, M + ".model: '%s' does not fit" % one) for one in ("", "  ", 7, None, ["x"])),
    *(({"measured": {**MEASURED, key: one}}, None, M + f".{key}: '{one}' does not fit") for key in ("host", "time") for one in (7, None, ["x"])),
    ({"measured": {**MEASURED, "firmware": 1.0}}, None, M + ".firmware: '1.0' does not fit"),
]  # fmt: skip


@pytest.mark.parametrize("reserve, workload, words", BAD)
def test_what_is_refused(reserve, workload, words):
    with pytest.raises(PlumblineError) as caught:
        read_stacks(stacks_with(reserve, workload))
    assert caught.value.msg.startswith(words) and "\n" not in caught.value.msg


@pytest.mark.parametrize("text, count", [("1.2PB", 1200 * TERA), (" 600 TB ", 600 * TERA), ("0.5TB", TERA // 2)])
def test_rated_writes(text, count):
    assert parse_written(text, "tbw") == count


# --- a stack that is still to be built ---------------------------------------------------------------


@pytest.mark.parametrize(
    "wa, hidden, share",
    [(1.5, 7, 35.1), (2, 7, 22.8), (3, 7, 12.0), (4, 7, 7.0), (1.5, 28, 22.3), (2, 28, 7.7), (3, 28, 0), (4, 28, 0)],
)
def test_a_new_stack_gets_what_the_target_comes_to(wa, hidden, share):
    host = Host()
    host.pair(2, size=4 * TERA // 4096 * 4096)
    plan = make_plan(spec(host, reserve={"target": {"wa": wa, "hidden": "%d%%" % hidden}}), host.seen)
    assert plan.refusals == plan.warnings == plan.findings == []
    assert share_left(plan, host.seen) == pytest.approx(share, abs=0.06)
    words = "reserve %.1f %% (for a write amplification of %.1f; hidden space %d %%)" % (share, wa, hidden)
    assert "pgdata: %s on nvme0n1, nvme1n1" % words in steps_report(plan)
    assert words in diff(plan, host.seen)["after"]


def test_it_is_rounded_as_a_share_is(host):
    """At a share that is none of ours: the same bytes as by the percentage itself."""
    by_share = make_plan(spec(host, reserve="20%"), host.seen)
    measured = make_plan(spec(host, reserve={"measured": MEASURED}), host.seen)
    assert lengths(by_share) == lengths(measured) != lengths(make_plan(spec(host), host.seen))
    assert steps_report(measured)[-2] == ("pgdata: reserve 20.0 % (as measured on this model and firmware; hidden space taken as 7 %) on nvme0n1, nvme1n1")


def test_hidden_space_that_was_not_stated_is_told_as_such(host):
    plan = make_plan(spec(host, reserve={"target": {"wa": 3}}, workload={"random": "80%"}), host.seen)
    text = "(for a write amplification of 3.0; 80 % of the writes at random places; hidden space taken as 7 %)"
    assert any(text in line for line in steps_report(plan))


def test_without_random_writes_nothing_but_the_last_mebibyte_is_left(host):
    plan = make_plan(spec(host, reserve={"target": {"wa": 1}}, workload={"random": "0%"}), host.seen)
    assert lengths(plan) == [100 * GIB - 2 * MIB] * 2 == lengths(make_plan(spec(host, reserve="0%"), host.seen))


def test_a_life_in_years():
    """4 TB, 1.2 PB rated: 300 cycles over 1826.25 days at 0.1 a day leave a write amplification of 1.643, as for 1.643 itself."""
    host = Host()
    host.pair(2, size=4 * TERA // 4096 * 4096)
    plan = make_plan(spec(host, reserve={"target": LIFE}, workload={"writes_per_day": 0.1}), host.seen)
    same = make_plan(spec(host, reserve={"target": {"wa": 300 / 182.625}}), host.seen)
    assert plan.refusals == [] and lengths(plan) == pytest.approx(lengths(same), abs=2 * MIB)
    assert any("(for 5 years of 0.1 drive writes a day, and 1200 TB rated; hidden space taken as 7 %)" in line for line in steps_report(plan))


def test_each_device_has_its_own_life_and_a_stripe_the_smallest():
    host = Host()
    devnos = [host.disk(size=size * TERA // 4096 * 4096) for size in (4, 5)]
    reserve = {"reserve": {"target": LIFE}, "workload": {"writes_per_day": 0.1}}
    plan = make_plan(spec(host, devnos, **reserve), host.seen)
    assert len(set(lengths(plan))) == 1 and len([line for line in steps_report(plan) if line.startswith("pgdata: reserve ")]) == 2
    volumes = [{"name": "a"}, {"name": "b"}]
    small, large = lengths(make_plan(spec(host, devnos, layout="separate", volumes=volumes, **reserve), host.seen))
    # 300 and 240 cycles allow 1.643 and 1.314: the larger drive needs the larger share, 43.1 and not 30.6 %.
    assert (small / (4 * TERA), large / (5 * TERA)) == (pytest.approx(0.694, abs=0.001), pytest.approx(0.569, abs=0.001))


@pytest.mark.parametrize(
    "more, words",
    [
        (
            {"reserve": {"target": {**LIFE, "tbw": "150TB"}}, "workload": {"writes_per_day": 1}},
            "pgdata: reserve of device nvme0n1 (SER0000): years: 5 with 1 writes a day need 1826 cycles even without amplification; the drive has 1397",
        ),
        (
            {"reserve": {"target": {**LIFE, "tbw": "200TB"}}, "workload": {"writes_per_day": 1}},
            "pgdata: reserve of device nvme0n1 (SER0000): years: 5 with 1 writes a day allow a write amplification of 1.02, which needs a reserve of",
        ),
        (
            {"reserve": {"measured": {**MEASURED, "firmware": "1.1"}}},
            "pgdata: reserve of device nvme0n1 (SER0000): it is model 'Flash 9000' with firmware '1.0', and the reserve was measured on 'Flash 9000' with",
        ),
        ({"reserve": {"measured": {**MEASURED, "model": "Flash 9"}}}, "pgdata: reserve of device nvme0n1 (SER0000): it is model 'Flash 9000'"),
    ],
)
def test_a_new_stack_is_refused(host, more, words):
    plan = make_plan(spec(host, **more), host.seen)
    assert plan.steps == [] and plan.refusals[0].startswith(words)
    assert len(plan.refusals) == 2 and plan.refusals[1].startswith(words.replace("nvme0n1 (SER0000)", "nvme1n1 (SER0001)"))


def test_too_small_a_drive():
    host = Host()
    host.pair(2, size=24 * MIB)
    (refusal,) = make_plan(spec(host, reserve={"target": {"wa": 1.5}}), host.seen).refusals
    assert refusal.startswith("pgdata: device nvme0n1 of 24 MiB leaves 14 MiB after the reserve")


# --- a stack that stands -----------------------------------------------------------------------------


def again(host, devnos=None, more=None, **keys):
    """The plan of a stack that stands by another spec: without a step, a refusal or another address than it has."""
    plan = make_plan(spec(host, devnos, **(more or {}), **keys), host.seen)
    assert (plan.steps, plan.refusals) == ([], [])
    return plan


ASKED = "wanted 12.0 % (for a write amplification of 3.0; hidden space taken as 7 %), write amplification 3.0 expected"


@pytest.mark.parametrize("built, level, has", [("10%", "warning", "10.0 %, write amplification 3.3"), ("20%", "info", "20.0 %, write amplification 2.2")])
def test_what_stands_is_a_finding_and_no_drift(host, built, level, has):
    host.build(spec(host, reserve=built))
    plan = again(host, reserve={"target": {"wa": 3}})
    (found,) = plan.findings
    tail = "; what stands is left as it is" if level == "warning" else ""
    assert (found.level, found.layer, found.name) == (level, "reserve", "nvme0n1, nvme1n1")
    assert found.text == "reserve nvme0n1, nvme1n1: %s expected; %s%s" % (has, ASKED, tail)
    assert plan.warnings == (["pgdata: " + found.text] if tail else [])
    assert steps_report(plan) == ["as specified: nothing to do", "pgdata: " + found.text]
    drawn = diff(plan, host.seen)
    assert drawn["before"] == drawn["after"] and "at the end  reserve %s %%; wanted 12.0 %% (for" % built.replace("%", ".0") in drawn["after"]


def test_what_was_built_by_its_target_is_enough_for_it():
    for size in (100 * GIB, 4 * TERA // 512 * 512, 96 * MIB + 512):
        for reserve in ({"target": {"wa": 2.7}}, {"measured": {**MEASURED, "share": 0.3337}}):
            host = Host()
            host.pair(2, size=size)
            host.build(spec(host, reserve=reserve))
            (found,) = again(host, reserve=reserve).findings
            assert found.level == "info"


@pytest.mark.parametrize("built, wa", [("0%", 4.4), ("12.5%", 2.4), ("25%", 1.7), ("50%", 1.2)])
def test_four_terabytes_that_are_offered_as_less(built, wa):
    """The drive of case 4, with 13.6 % of hidden space."""
    host = Host()
    host.pair(2, size=4 * TERA // 4096 * 4096)
    host.build(spec(host, reserve=built))
    (found,) = again(host, reserve={"target": {"wa": 2, "hidden": "13.6%"}}).findings
    assert "write amplification %.1f expected" % wa in found.found
    assert found.level == ("info" if wa < 2 else "warning")


def test_without_spare_space_amplification_has_no_bound():
    host = Host()
    host.pair(2, size=4 * TERA // 4096 * 4096)
    host.build(spec(host, reserve="0%"))
    (found,) = again(host, reserve={"target": {"wa": 2, "hidden": 0}}).findings
    assert "0.0 %, write amplification without bound expected" in found.text


@pytest.mark.parametrize(
    "more, words",
    [
        ({"reserve": {"measured": {**MEASURED, "firmware": "1.1"}}}, "it is model 'Flash 9000' with firmware '1.0', and the reserve was measured"),
        ({"reserve": {"target": {**LIFE, "tbw": "1TB"}}, "workload": {"writes_per_day": 1}}, "years: 5 with 1 writes a day need 1826 cycles"),
        ({"reserve": {"measured": {**MEASURED, "host": "db07", "time": "2026-03-01T12:00:00Z"}}}, "(as measured by db07 on 2026-03-01 on this model and"),
        ({"reserve": {"measured": {**MEASURED, "host": "db\n07", "time": "a" * 10**5}}}, "(as measured by db; 07 on aaaaaaaaaa on this model and"),
        ({"reserve": {"measured": {**MEASURED, "wa": 2.5}}}, "(as measured on this model and firmware; hidden space taken as 7 %), write amplification 2.5 m"),
    ],
)  # fmt: skip
def test_what_would_refuse_a_new_stack_is_a_warning_where_one_stands(host, more, words):
    host.build(spec(host))
    plan = again(host, more=more)
    (found,) = plan.findings
    assert found.level == "warning" and words in found.text and plan.warnings == ["pgdata: " + found.text]


@pytest.mark.parametrize("done", range(1, 7))
def test_a_run_that_was_cut_off_goes_on_with_another_target(host, done):
    """As from the partitions that stand, to the byte."""
    built = spec(host)
    rest = [step["summary"] for step in make_plan(built, host.seen).steps[done:]]
    host.build(built, limit=done)
    plan = make_plan(spec(host, reserve={"target": {"wa": 1.5}}), host.seen)
    assert plan.refusals == [] and [step["summary"] for step in plan.steps] == rest


def test_a_further_leg_of_a_stripe_is_as_long_as_those_that_stand(host):
    stacks = spec(host)
    (step, *_rest) = make_plan(stacks, host.seen).steps
    host.carry_out(dict(step, devices=step["devices"][:1]))
    plan = make_plan(spec(host, reserve={"target": {"wa": 1.5}}), host.seen)
    assert plan.refusals == [] and lengths(plan) == [step["devices"][1]["length_bytes"]]
    assert [found.name for found in plan.findings] == ["nvme0n1, nvme1n1"]


def test_a_further_leg_that_is_too_small():
    host = Host()
    devnos = [host.disk(), host.disk(size=80 * GIB)]
    own = spec(host, devnos[:1], layout="separate", volumes=[{"name": "data"}])
    host.carry_out(make_plan(own, host.seen).steps[0])
    (refusal,) = make_plan(spec(host, devnos, reserve={"target": {"wa": 3}}), host.seen).refusals[:1]
    assert refusal.startswith("pgdata: device nvme1n1 of 80 GiB is too small for the partition of 90.00 GiB that the other legs have")


def test_separate_legs_stand_for_themselves(host):
    volumes = [{"name": "a"}, {"name": "b"}]
    (step, *_rest) = make_plan(spec(host, layout="separate", volumes=volumes), host.seen).steps
    host.carry_out(dict(step, devices=step["devices"][:1]))
    plan = make_plan(spec(host, layout="separate", volumes=volumes, reserve={"target": {"wa": 1.5}}), host.seen)
    assert plan.refusals == [] and [found.name for found in plan.findings] == ["nvme0n1"]
    assert lengths(plan)[0] < step["devices"][1]["length_bytes"]


def test_a_plain_reserve_is_drift_as_ever(host):
    host.build(spec(host))
    assert "this can only be rebuilt" in make_plan(spec(host, reserve="20%"), host.seen).refusals[0]
