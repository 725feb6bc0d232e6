# SPDX-License-Identifier: GPL-3.0-or-later
"""The acceptance of a drive on simulated SSDs: which of two is the faster one, what fio says of it by itself, and that nothing is written."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import ROOT, Harness, HarnessError, until_counted
from labkit.specs import assert_error, said

BENCH_FILES = ROOT / "tests/bench"
# One channel and long reads against four and short ones: so slow, both of them, that the guest's processors are not what is measured.
SLOW: dict[str, Any] = {"page_size": 64 << 10, "channels": 1, "read_us": 3000, "unmapped_us": 20}
FAST = {"page_size": 16 << 10, "channels": 4, "read_us": 800, "unmapped_us": 20}
DISKS = [
    {"name": "old", "bus": "scsi", "size": "96MiB", "serial": "ACCEPTOLD", "simulated": SLOW},
    {"name": "new", "bus": "scsi", "size": "96MiB", "serial": "ACCEPTNEW", "simulated": FAST},
    {"name": "bare", "bus": "scsi", "size": "96MiB", "serial": "ACCEPTBARE", "simulated": FAST},
]
# What an SSD costs beside its reads: programs of a page, and a flush for each write that is synced. It ages, and says so of itself.
WRITES: dict[str, Any] = {**FAST, "program_us": 1500, "unmapped_us": 20}
DISKS.append({"name": "blank", "bus": "scsi", "size": "256MiB", "serial": "ACCEPTBLANK", "simulated": WRITES})
DISKS.append({"name": "slow", "bus": "scsi", "size": "256MiB", "serial": "ACCEPTSLOW", "simulated": {**SLOW, "program_us": 4000}})
FILL = "dd if=/dev/urandom of={} bs=1M count=96 oflag=direct conv=notrunc status=none"
CELL = "rand_read_4k_qd16"
QUICK = {"cells": [CELL], "blocks": 3, "block_seconds": 0.5, "max_cpu": 1.0}


@pytest.fixture(scope="module")
def filled(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[dict[str, Disk]]:
    """Two of the disks hold random bytes."""
    for name in ("old", "new"):
        harness.must(FILL.format(plugged[name].path))
    yield plugged
    bench.clean()


def accept(harness: Harness, device: Disk, check: bool = False, **options: Any) -> dict[str, Any]:
    found = harness.module("acceptance", {"device": device.by_id, **QUICK, **options}, check=check, timeout=590)
    assert not found["failed"], said(found)
    assert found["changed"] is False
    print("\n" + "\n".join(found["report"]))
    return found


@pytest.mark.long(minutes=10)
@pytest.mark.measured
def test_the_right_winner_in_all_cells(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    """Beside each other, and the other way round against the record. No byte is written to either."""
    all_cells = {"cells": [], "block_seconds": 2}
    with bench.untouched():
        better = accept(harness, filled["new"], incumbent=filled["old"].by_id, **all_cells)
        worse = accept(harness, filled["old"], record=better, **all_cells)
    assert len(better["cells"]) == len(worse["cells"]) == 8
    assert {cell["name"]: cell["verdict"] for cell in better["cells"]} == {cell["name"]: "pass" for cell in better["cells"]}
    assert {cell["name"]: cell["verdict"] for cell in worse["cells"]} == {cell["name"]: "fail" for cell in worse["cells"]}
    assert (better["verdict"], worse["verdict"]) == ("pass", "fail")
    for mine, other in zip(better["cells"], worse["cells"], strict=True):
        print(mine["name"], mine["ratio"], 1 / other["ratio"], "p99", mine["p99_us"], other["p99_us"])
        assert mine["ratio"] > 1.5
    # What its one channel can, at any depth: 333 requests per second.
    deep = {cell["name"]: cell["value"] for cell in worse["cells"] if cell["name"].startswith("rand") and not cell["name"].endswith("qd1")}
    assert all(value == pytest.approx(1e6 / SLOW["read_us"], rel=0.1) for value in deep.values()), deep


@pytest.mark.long(minutes=2)
@pytest.mark.measured
def test_the_rate_is_what_fio_says_by_itself(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    """The same load by hand, for as long as all blocks together."""
    disk = filled["new"]
    line = f"fio --name=x --filename={disk.path} --readonly --thread --ioengine=libaio --direct=1 --rw=randread --bs=4k --iodepth=16 --norandommap"
    own = json.loads(harness.must(f"{line} --time_based --ramp_time=1 --runtime=10 --output-format=json"))["jobs"][0]["read"]
    (cell,) = accept(harness, disk, cells=[CELL], blocks=5, block_seconds=2, floors={CELL: own["iops"] / 2})["cells"]
    again = json.loads(harness.must(f"{line} --time_based --ramp_time=1 --runtime=10 --output-format=json"))["jobs"][0]["read"]
    iops, median = (own["iops"] + again["iops"]) / 2, own["clat_ns"]["percentile"]["50.000000"] / 1000
    alone = f"fio alone {own['iops']:.1f} and {again['iops']:.1f}, p50 {median:.0f}"
    print(f"{alone}; the cell {cell['value']} ({cell['low']} to {cell['high']}), p50 {cell['p50_us']}")
    assert abs(math.log(cell["value"] / iops)) <= 0.03
    assert cell["p50_us"] == pytest.approx(median, rel=0.1)


@pytest.mark.long(minutes=10)
@pytest.mark.measured
def test_two_equal_drives(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    """One of the same kind beside it: at most one false fail in forty runs."""
    other = filled["bare"]
    harness.must(FILL.format(other.path))
    try:
        with bench.untouched():
            cells = [accept(harness, filled["new"], incumbent=other.by_id)["cells"][0] for _run in range(40)]
    finally:
        bench.clean(other)  # it holds nothing for the other tests
    verdicts, ratios = Counter(cell["verdict"] for cell in cells), sorted(cell["ratio"] for cell in cells)
    print(dict(verdicts), ratios[0], ratios[-1])
    assert verdicts["fail"] <= 1, verdicts


def test_a_mounted_drive_is_read_and_not_written(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    disk = filled["new"]
    harness.must(f"mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 {disk.path}; mkdir -p /pl/accept; mount {disk.path} /pl/accept")
    try:
        with bench.untouched(disk):
            found = accept(harness, disk, floors={CELL: 1})
        assert found["verdict"] == "pass" and found["drive"]["blank"] < 0.5 and found["drive"]["serial"] == disk.serial
        assert (bench.counters(disk)[disk.name]["host_read_bytes"] or 0) >= 0.5 * found["read_bytes"] > 0
    finally:
        harness.must("umount /pl/accept; rmdir /pl/accept")
        harness.must(FILL.format(disk.path))


@pytest.mark.quick("acceptance")
def test_a_drive_that_holds_nothing(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    with bench.untouched():
        found = accept(harness, filled["bare"], floors={CELL: 1})
        assert (found["verdict"], found["drive"]["blank"]) == ("inconclusive", 1.0)
        assert found["reasons"] == [f"{CELL}: the drive holds nothing; reads of trimmed blocks say nothing of the flash"]
        beside = accept(harness, filled["new"], incumbent=filled["bare"].by_id)
        assert beside["verdict"] == "inconclusive" and "the incumbent holds nothing" in beside["reasons"][0]


def test_check_mode_and_bad_input(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    disk = filled["new"]
    bench.counters(disk, reset=True)
    found = accept(harness, disk, check=True, incumbent=filled["old"].path)
    assert (found["verdict"], found["cells"]) == ("inconclusive", [])
    assert bench.counters(disk)[disk.name]["host_read_bytes"] == 0
    part = f"printf 'label: gpt\\nstart=2048\\n' | sfdisk -q {filled['bare'].path}; udevadm settle"
    harness.must(part)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"device": "/dev/null"}, "/dev/null is no block device"),
        ({"device": "/etc/fstab"}, "/etc/fstab is no block device"),
        ({"device": "nvme-NOT_THERE"}, "is not there"),
        ({"device": disk.path, "incumbent": disk.by_id}, "lies on the same drive"),
        ({"device": filled["bare"].part(), "incumbent": filled["bare"].path}, "lies on the same drive"),
        ({"device": disk.path, "cells": ["rand_read_4k_qd2"]}, "there is no cell 'rand_read_4k_qd2' (did you mean"),
        ({"device": disk.path, "floors": {CELL: "nan"}}, "wanted a number above 0"),
        ({"device": disk.path, "block_seconds": "nan"}, "block_seconds: nan"),
    ]
    with bench.untouched():
        for options, words in bad:
            assert_error(harness.module("acceptance", options), words)
        for name in ("bare", "new"):
            assert_error(harness.module("acceptance", {"device": filled[name].path}, env={"PATH": "/nowhere"}), "fio is not on this host")


WRITTEN = {"writes": True, "serial": "ACCEPTBLANK", "accept_wear": True}
WRITE_CELLS = ["fresh_rand_write_4k_qd64", "rand_read_4k_qd16", "seq_write_1m_qd1", "rand_write_4k_qd64", "rand_mixed_8k_qd64", "sync_write_4k_qd1"]


@pytest.mark.long(minutes=2)
def test_a_blank_drive_is_written_to_and_left_blank(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    """Check mode writes nothing. The cells name their states, and what was written is counted by the drive too. Afterwards the drive is blank."""
    disk = filled["blank"]
    options = {"cells": WRITE_CELLS, **WRITTEN, "workload": {"write_iops": 1, "read_iops": 1, "kib": 5}, "required": ["rand_read_4k_qd16"]}
    options["cells"] = [*WRITE_CELLS, "rand_read_4k_qd64"]
    with bench.untouched():
        planned = accept(harness, disk, check=True, **options)
    assert "one fill of" in planned["wear"] and planned["written_bytes"] == 0
    bench.counters(disk, reset=True)
    found = harness.module("acceptance", {"device": disk.by_id, **QUICK, **options, "block_seconds": 0.5}, timeout=590)
    assert not found["failed"], said(found)
    print("\n" + "\n".join(found["report"]))
    cells = {cell["name"]: cell for cell in found["cells"]}
    assert {name: cell["state"] for name, cell in cells.items()} == {name: "fresh" if name.startswith("fresh") else "filled" for name in options["cells"]}
    assert found["changed"] is True and found["drive"]["blank"] < 0.1
    assert [name for name, cell in cells.items() if cell["required"]] == ["rand_read_4k_qd16", "rand_write_4k_qd64", "rand_read_4k_qd64"]
    assert all(cells[name]["verdict"] == "pass" for name in ("rand_write_4k_qd64", "rand_read_4k_qd64")) and found["workload"]["headroom"] > 1
    # The drive counts the fill and the blocks, and the zeros at its ends; nothing is written that the result does not name.
    counted = bench.counters(disk)[disk.name]["host_write_bytes"] or 0
    assert 0.8 * found["written_bytes"] <= counted <= 1.05 * found["written_bytes"] + (8 << 20)
    again = harness.module("acceptance", {"device": disk.by_id, **QUICK, **WRITTEN, "cells": ["fresh_seq_write_1m_qd1"], "block_seconds": 0.5}, timeout=590)
    assert not again["failed"], said(again)  # blank again, so it is taken again


@pytest.mark.long(minutes=2)
def test_a_measurement_that_was_cut_off_is_known_again(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    """The drive holds our load, and is discarded by the next measurement. One foreign page in the load is refused, and nothing is written."""
    disk = filled["blank"]
    options = {"device": disk.by_id, **QUICK, **WRITTEN, "cells": ["sync_write_4k_qd1"]}
    harness.cut_when(until_counted(disk.path, 7, (64 << 20) // 512), "acceptance", {**options, "blocks": 20, "block_seconds": 5})
    harness.must(f"until ! pgrep -x fio; do sleep 0.1; done; ! cmp -s -i 1048576:0 -n 4096 {disk.path} /dev/zero")
    page = f"bs=4k count=1 oflag=direct conv=notrunc status=none of={disk.path} seek=1000"
    harness.must(f"dd bs=4k count=1 skip=1000 status=none if={disk.path} of=/run/page; dd if=/dev/urandom {page}")
    with bench.untouched():
        assert_error(harness.module("acceptance", options), "refused: nothing was written")
    harness.must(f"dd if=/run/page {page}; rm /run/page")
    found = harness.module("acceptance", {**options, "block_seconds": 0.5}, timeout=590)
    assert not found["failed"], said(found)
    harness.must(f"cmp -n {256 << 20} {disk.path} /dev/zero")


# In place of fio: notes the calls that measure a cell, and kills the module at the beginning of the one that is told, between two cells. It does not lie
# below /run, which is mounted noexec.
COUNTING_FIO = """
rm -rf /var/tmp/pl-fio; mkdir /var/tmp/pl-fio; touch /var/tmp/pl-fio/calls
cat > /var/tmp/pl-fio/fio <<'END'
#!/bin/sh
case "$*" in *json+*) echo "$*" >> /var/tmp/pl-fio/calls; test "$(wc -l < /var/tmp/pl-fio/calls)" != "$KILL_AT" || kill -9 $PPID;; esac
exec /usr/bin/fio "$@"
END
chmod +x /var/tmp/pl-fio/fio
"""
KEPT = "/var/lib/plumbline/acceptance/*"


@pytest.mark.long(minutes=4)
def test_a_killed_measurement_goes_on_behind_the_cells_that_are_done(bench: Bench, harness: Harness, filled: dict[str, Disk]) -> None:
    """Killed between two cells of the filled drive: the others are measured, and there is no second fill. A drive that was emptied begins anew."""
    disk, path = filled["blank"], "/var/tmp/pl-fio:/usr/sbin:/usr/bin:/sbin:/bin"
    cells = ["fresh_rand_write_4k_qd64", "sync_write_4k_qd1", "rand_read_4k_qd16"]
    options = {"device": disk.by_id, **QUICK, **WRITTEN, "cells": cells, "block_seconds": 0.5}

    def kill() -> None:
        harness.must(COUNTING_FIO)
        with pytest.raises(HarnessError, match="returned -9"):
            harness.module("acceptance", options, env={"PATH": path, "KILL_AT": "6"}, timeout=590)
        assert harness.must(f"stat -c %a {KEPT}; cat {KEPT} | wc -l").split() == ["600", str(1 + 5 + 1)]  # what was asked, the rounds, the fill
        harness.must("echo -n > /var/tmp/pl-fio/calls")

    def measure() -> dict[str, Any]:
        found = harness.module("acceptance", options, env={"PATH": path}, timeout=590)
        assert not found["failed"], said(found)
        print("\n" + "\n".join(found["report"]))
        harness.must(f"cmp -n {256 << 20} {disk.path} /dev/zero; ! ls {KEPT} 2> /dev/null")
        return found

    kill()
    bench.counters(disk, reset=True)
    resumed = measure()
    assert resumed["resumed"] == 5 and harness.must("wc -l < /var/tmp/pl-fio/calls").strip() == "4"
    assert (bench.counters(disk)[disk.name]["host_write_bytes"] or 0) < 128 << 20
    kill()
    harness.must(f"blkdiscard {disk.path}")
    whole = measure()
    assert whole["resumed"] == 0 and harness.must("wc -l < /var/tmp/pl-fio/calls").strip() == "9"
    assert sorted(resumed) == sorted(whole)
    for mine, other in zip(resumed["cells"], whole["cells"], strict=True):
        assert sorted(mine) == sorted(other) and len(mine["rates"]) == len(other["rates"]) == 3
        assert (mine["name"], mine["state"], mine["verdict"]) == (other["name"], other["state"], other["verdict"])
    assert resumed["written_bytes"] == pytest.approx(whole["written_bytes"], rel=0.3)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"serial": "OTHER"}, "its serial is 'ACCEPTBLANK'"),
        ({"accept_wear": False}, "say what the drive is rated for"),
        ({"accept_wear": False, "terabytes_written": 0}, "say what the drive is rated for"),
        ({"cells": ["fresh_seq_write_1m_qd1"], "incumbent": "scsi-x"}, "writes, incumbent: wanted one of them"),
    ],
)
def test_writes_that_are_refused(bench: Bench, harness: Harness, filled: dict[str, Disk], options: dict[str, Any], words: str) -> None:
    with bench.untouched():
        assert_error(harness.module("acceptance", {"device": filled["blank"].by_id, **QUICK, **WRITTEN, **options}), words)


@pytest.mark.parametrize(
    "made", ["printf 'label: gpt\\nstart=2048\\n' | sfdisk -q {0}", "mkfs.ext4 -q {0}", "pvcreate -q {0}", "dd if=/dev/urandom of={0} bs=4k count=1"]
)
def test_a_drive_that_holds_something_is_not_written_to(bench: Bench, harness: Harness, filled: dict[str, Disk], made: str) -> None:
    disk = filled["blank"]
    harness.must(made.format(disk.path) + "; udevadm settle")
    try:
        with bench.untouched():
            found = harness.module("acceptance", {"device": disk.by_id, **QUICK, **WRITTEN, "cells": ["fresh_seq_write_1m_qd1"]})
            assert_error(found, "refused: nothing was written")
    finally:
        harness.must(f"wipefs -afq {disk.path}; blkdiscard {disk.path}; udevadm settle")


# What a team ran by hand before it bought drives: 1 MiB at depth 1, 4 KiB in sequence at depth 32, 4 KiB at random at depth 64, each way.
BY_HAND = ["seq_write_1m_qd1", "seq_read_1m_qd1", "seq_write_4k_qd32", "seq_read_4k_qd32", "rand_write_4k_qd64", "rand_read_4k_qd64"]
BEFORE = ["fresh_seq_write_1m_qd1", "fresh_rand_write_4k_qd64"]


@pytest.mark.long(minutes=8)
@pytest.mark.measured
def test_two_drives_by_one_playbook(bench: Bench, harness: Harness, filled: dict[str, Disk], tmp_path: Path) -> None:
    """Two blank drives in one run of the playbook: the slow one is told from the fast one in all cells, and is too slow for the workload."""
    drives = {name: filled[name].by_id for name in ("slow", "blank")}
    asked = {
        "directory": str(tmp_path),
        "cells": [*BY_HAND, *BEFORE],
        "workload": {"write_iops": 1000, "read_iops": 1000, "kib": 4},
        "writes": {drives[name]: {"serial": filled[name].serial, "accept_wear": True} for name in drives},
        "max_cpu": 1.0,
    }
    given = {"plumbline_acceptance_devices": list(drives.values()), "plumbline_acceptance": asked}
    argv = ["ansible-playbook", "-i", str(BENCH_FILES / "inventory.yml"), "-e", json.dumps(given), "playbooks/accept_drives.yml"]
    env = dict(os.environ, ANSIBLE_CONFIG=str(BENCH_FILES / "ansible.cfg"), ANSIBLE_COLLECTIONS_PATH=str(ROOT / "playbooks/collections"))
    done = subprocess.run(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=1200)
    print(done.stdout)
    (record,) = [json.loads(path.read_text()) for path in (tmp_path / "records").glob("*.json")]
    slow, fast = record["acceptance"]
    assert done.returncode and (slow["verdict"], fast["verdict"]) == ("fail", "pass"), (slow["reasons"], fast["reasons"])
    for mine, other in zip(slow["cells"], fast["cells"], strict=True):
        print(mine["name"], mine["state"], mine["value"], other["value"])
        assert other["value"] > 1.5 * mine["value"]
    assert len(slow["cells"]) == 8 and (tmp_path / "report.html").stat().st_size > 10_000
