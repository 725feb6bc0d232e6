# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads, to the letter."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._core import text
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import view
from ansible_collections.plumbline.ssd.plugins.plugin_utils import stack_table
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import drawing
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, spec


@pytest.fixture
def host():
    one = Host()
    one.pair(2, limits=Limits(512, 4096, 4096, 0, 0))
    return one


WANTED = """\
pgdata: striped over 2 devices, stripe 64 KiB, grain 4 KiB (physical_block_size = minimum_io_size)
  nvme0n1  Flash 9000  SER0000  100 GiB
    1 MiB + 90.00 GiB  partition plumbline:pgdata:0
    10 GiB at the end  reserve
  nvme1n1  Flash 9000  SER0001  100 GiB
    1 MiB + 90.00 GiB  partition plumbline:pgdata:1
    10 GiB at the end  reserve
  VG pgdata  extents of 64 MiB, data at 1 MiB of each partition
    LV data  125.88 GiB, 2 stripes of 64 KiB
      ext4 'pgdata-data' on LV data  blocks of 4096, stride 16, stripe_width 32
      mounted on /data01  noatime,nofail,x-systemd.device-timeout=5min
    LV wal  35.88 GiB, 2 stripes of 64 KiB
      ext4 'pgdata-wal' on LV wal  blocks of 4096, stride 16, stripe_width 32
      mounted on /data02  noatime,nofail,x-systemd.device-timeout=5min
"""


def test_diff_of_a_bare_pair(host):
    plan = make_plan(spec(host), host.seen)
    diff = drawing.diff(plan, host.seen)
    assert diff["after"] == WANTED
    assert diff["before"] == "pgdata:\n  nvme0n1  Flash 9000  SER0000  100 GiB  blank\n  nvme1n1  Flash 9000  SER0001  100 GiB  blank\n"
    assert (diff["before_header"], diff["after_header"]) == ("stacks as found", "stacks as planned")


def test_no_diff_when_all_stands(host):
    stacks = spec(host)
    host.build(stacks)
    diff = drawing.diff(make_plan(stacks, host.seen), host.seen)
    assert diff["before"] == diff["after"] and diff["after"] == WANTED


@pytest.mark.parametrize(
    "done, line",
    [
        (0, None),
        (1, "  in place: partitions"),
        (2, "  in place: partitions, VG"),
        (3, "  in place: partitions, VG"),
        (4, "  in place: partitions, VG, LVs"),
        (5, "  in place: partitions, VG, LVs"),
        (6, "  in place: partitions, VG, LVs, filesystems"),
    ],
)
def test_what_is_in_place(host, done, line):
    stacks = spec(host)
    host.build(stacks, limit=done)
    before = drawing.diff(make_plan(stacks, host.seen), host.seen)["before"].splitlines()
    assert [row for row in before if "in place" in row] == ([line] if line else [])


@pytest.mark.parametrize("through, done, line", [("partition", 0, None), ("striped_lvm", 0, None), ("striped_lvm", 1, "  in place: partitions")])
def test_nothing_is_claimed_of_layers_that_were_not_looked_at(host, through, done, line):
    stacks = spec(host)
    host.build(stacks, limit=done)
    before = drawing.diff(make_plan(stacks, host.seen, through), host.seen)["before"].splitlines()
    assert [row for row in before if "in place" in row] == ([line] if line else [])


def test_separate_layout(host):
    stacks = spec(host, layout="separate", volumes=[{"name": "a", "mount": "/a"}, {"name": "b"}])
    diff = drawing.diff(make_plan(stacks, host.seen), host.seen)
    lines = diff["after"].splitlines()
    assert lines[0] == "pgdata: one filesystem per device, grain 4 KiB (physical_block_size = minimum_io_size)"
    assert lines[-3:] == [
        "      ext4 'pgdata-a' on partition 0  blocks of 4096, stride 1, stripe_width 1",
        "      mounted on /a  noatime,nofail,x-systemd.device-timeout=5min",
        "      ext4 'pgdata-b' on partition 1  blocks of 4096, stride 1, stripe_width 1",
    ]
    assert "in place" not in diff["before"] and "VG" not in diff["after"]


def test_steps_report(host):
    stacks = spec(host)
    plan = host.build(stacks)
    lines = drawing.steps_report(plan)
    assert lines[0] == "step 1: partition nvme0n1, nvme1n1"
    assert lines[1] == "step 2: VG pgdata on 2 PVs, extents of 64 MiB, data at 1 MiB"
    assert lines[2] == "step 3: LV pgdata/data, 125.88 GiB over 2 stripes of 64 KiB"
    assert lines[4] == "step 5: ext4 'pgdata-data' on /dev/pgdata/data, stride 16, stripe_width 32"
    assert lines[6] == "step 7: mount /data01: fstab line, mounted; /data02: fstab line, mounted"
    assert drawing.steps_report(make_plan(stacks, host.seen)) == ["as specified: nothing to do"]


def test_table():
    rows = [("a", "bb", ""), ("ccc", "d", "e")]
    assert text.table(rows) == ["a    bb", "ccc  d   e"]


SOUND = """\
pgdata-data on /data01
  layer       name                  leg    start (bytes)  phase
  device      nvme0n1, nvme1n1      all 2  0              0 of 4096  Flash 9000
  partition   nvme0n1p1, nvme1n1p1  all 2  1048576        0 of 4096
  pv          nvme0n1p1, nvme1n1p1  all 2  2097152        0 of 4096  VG pgdata
  lv          pgdata-data           all 2  2097152        0 of 4096  2 stripes of 64 KiB
  filesystem  pgdata-data           all 2  2097152        0 of 4096  ext4, stride 16, stripe_width 32
  mount       /data01                                                rw,noatime
  aligned: every layer on every leg"""


def test_view_report(host):
    host.build(spec(host))
    assert stack_table.view_report(view(host.seen, host.seen.lv_node("pgdata", "data").devno)) == SOUND.splitlines()


OFF = """\
pgdata-data
  layer      name                  leg      start (bytes)  phase
  device     nvme0n1, nvme1n1      all 2    0              0 of 4096               Flash 9000
  partition  nvme0n1p1, nvme1n1p1  nvme0n1  32256          3584 of 4096, wanted 0
                                   nvme1n1  1048576        0 of 4096
  lv         pgdata-data           nvme0n1  1080832        3584 of 4096, wanted 0  2 stripes of 8 KiB
                                   nvme1n1  2097152        0 of 4096"""


def test_view_report_of_one_leg_that_is_off(host):
    parts = [host.part("259:0", 63 * 512, 8 * GIB), host.part("259:16", MIB, 8 * GIB)]
    lv = host.mapped("pgdata-data", [Segment(0, GIB, "striped", 8192, tuple((part, MIB) for part in parts))])
    host.ext4(lv, "pg")
    lines = stack_table.view_report(view(host.seen, lv))
    assert [" ".join(line.split()) for line in lines[:7]] == [" ".join(line.split()) for line in OFF.splitlines()]
    assert lines[-2:] == [
        "  FAIL: partition nvme0n1p1: starts at byte 32256 of nvme0n1, phase 3584 of 4 KiB; wanted phase 0",
        "  note: filesystem pg: no stride and stripe_width; wanted stride 2 and stripe_width 4, for 2 stripes of 8 KiB in pgdata-data",
    ]
