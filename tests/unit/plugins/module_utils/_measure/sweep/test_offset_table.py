# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.offset_table import (
    TablePlan,
    TableRow,
    arguments,
    plan,
    quantile,
    render,
    rows,
    winners,
)

KIB, MIB = 1 << 10, 1 << 20
# The article's figures, by offset.
ARTICLE = dict(zip(range(0, 4097, 512), (19223, 3656, 3634, 3633, 3615, 3604, 3603, 3598, 20051)))


def keep(_order):
    """No shuffle."""


@pytest.mark.parametrize(
    "grain, logical, phase, seconds, offsets, each_ms",
    [
        (4 * KIB, 512, 0, 30, list(range(0, 4097, 512)), 1111),
        (4 * KIB, 512, 512, 6, list(range(0, 4097, 512)), 222),
        (8 * KIB, 4096, 4096, 30, [0, 4096, 8192], 3333),
        (16 * KIB, 512, 0, 30, list(range(0, 16385, 512)), 303),
        (64 * KIB, 512, 512, 30, sorted([512, *range(0, 65537, 2048)]), 294),
        (4 * KIB, 512, 3584, 1, [0, 3584, 4096], 111),
    ],
)
def test_plan(grain, logical, phase, seconds, offsets, each_ms):
    made = plan(grain, logical, phase, seconds, keep)
    assert (sorted(set(made.order)), made.each_ms, made.grain) == (offsets, each_ms, grain)
    assert sorted(made.order) == sorted(offsets * 3)


def test_every_round_has_an_order_of_its_own():
    made = plan(4 * KIB, 512, 0, 30, random.Random(1).shuffle)
    parts = [made.order[number : number + 9] for number in (0, 9, 18)]
    assert all(sorted(part) == list(range(0, 4097, 512)) for part in parts)
    assert len(set(parts)) == 3


@pytest.mark.parametrize("span", [(0, 64 * MIB), (MIB + 512, 3 * MIB + 1536)])
def test_arguments(span):
    made = TablePlan(4 * KIB, (512, 4096), 250)
    argv = arguments(made, "/dev/disk/by-path/pci-0:0", span)
    assert "--filename=/dev/disk/by-path/pci-0\\:0" in argv and "--iodepth=32" in argv and "--randrepeat=0" in argv and "--readonly" in argv
    # Of a device that is mounted nothing is flushed, one that has gone does not come back as a file, and one error ends all.
    assert {"--invalidate=0", "--allow_file_create=0", "--exitall_on_error=1", "--direct=1", "--thread=1"} <= set(argv)
    assert "--runtime=250ms" in argv and "--bs=4096" in argv
    assert argv[-6:] == ["--name=0", "--stonewall", "--offset=%d" % (span[0] + 512), "--name=1", "--stonewall", "--offset=%d" % (span[0] + 4096)]
    (size,) = (int(word[7:]) for word in argv if word.startswith("--size="))
    assert size > 0 and size % 4096 == 0 and span[0] + 4096 + size <= sum(span)


def job(number, ios, runtime=1000, bins=None, error=0):
    return {"jobname": str(number), "error": error, "read": {"total_ios": ios, "runtime": runtime, "clat_ns": {"bins": bins or {"1000": ios}}}}


def test_rounds_are_added_up():
    made = TablePlan(4 * KIB, (0, 512, 512, 0), 500)
    jobs = [job(0, 100, 500, {"1000": 99, "9000": 1}), job(1, 50, 500), job(2, 30, 300), job(3, 300, 500, {"2000": 300})]
    table = rows(made, "fio: a warning\n" + json.dumps({"jobs": jobs}))
    assert table == [TableRow(0, 400.0, 2.0, 2.0, 400), TableRow(512, 100.0, 1.0, 1.0, 80)]
    assert table[0].as_dict() == {"offset_bytes": 0, "iops": 400.0, "p50_us": 2.0, "p99_us": 2.0, "reads": 400}


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "fio's report could not be read"),
        ("{]", "fio's report could not be read"),
        ('{"jobs": [{}]}', "fio's report could not be read"),
        (json.dumps({"jobs": [job(0, 1)]}), "fio's report lacks job 2 of 2"),
        (json.dumps({"jobs": [job(0, 1), job(1, 1, error=5)]}), "fio could not read at offset 512: error 5"),
        (json.dumps({"jobs": [job(0, 1), job(1, 0)]}), "fio read nothing at offset 512"),
    ],
)
def test_reports_that_are_none(text, message):
    with pytest.raises(PlumblineError, match=message):
        rows(TablePlan(4 * KIB, (0, 512), 500), text)


@pytest.mark.parametrize("share, value", [(0.5, 20), (0.99, 30), (0.1, 10), (1.0, 30)])
def test_quantile(share, value):
    assert quantile({30: 2, 10: 4, 20: 4}, share) == value


def test_the_article_reads_as_it_did():
    table = [TableRow(offset, iops, 32e6 / iops, 64e6 / iops, iops * 60) for offset, iops in ARTICLE.items()]
    assert [row.offset_bytes for row in winners(table)] == [4096, 0]
    lines = render("pgdata-data", table, 4096)
    assert lines[0] == "pgdata-data: random reads of 4 KiB, 32 at a time, by offset"
    assert lines[2].split()[:2] == ["0", "19223"] and len(lines) == 2 + 9 + 1
    assert lines[-1] == "ahead: offset 0, 4096, by a factor of 5.26 and more"


def test_nobody_is_ahead():
    table = [TableRow(offset, 1000 + offset / 512, 1, 1, 10) for offset in range(0, 4097, 512)]
    assert not any("ahead" in line for line in render("x", table, 4096))
    assert winners(table[:1]) == table[:1]
