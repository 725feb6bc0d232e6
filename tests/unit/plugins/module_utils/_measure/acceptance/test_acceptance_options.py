# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrix, and what is wrong with options: every error is one line that says what was wanted."""

from __future__ import annotations

import copy
import math

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import (
    BY_NAME,
    CELLS,
    READ_CELLS,
    STEADY_CELL,
    cell_argv,
    cell_for_reads,
    cell_place,
    in_state_filled,
    most_of_block,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import Options, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place

KIB, MIB = 1 << 10, 1 << 20
NAN, INF = math.nan, math.inf
PARAMS = {"cells": [], "record": {}, "floors": {}, "workload": None, "required": [], "blocks": 5, "block_seconds": 2.0, "max_cpu": 0.5, "incumbent": ""}
PARAMS.update(writes=False, serial="", terabytes_written=0, accept_wear=False, steady={})
ONE = "rand_read_4k_qd64"
RECORD = {"drive": {"model": "M", "serial": "S", "blank": 0.1}, "cells": [{"name": ONE, "state": "as_found", "rates": [1000, 1010.5, 990]}]}


def options(**given):
    return read_options({**PARAMS, **given})


def record(*path_and_value):
    """A sound record with one thing in it changed."""
    *path, value = path_and_value
    found = copy.deepcopy(RECORD)
    at = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return found


# --- the matrix -------------------------------------------------------------------------------------------------------------------------


def test_the_cells():
    assert len(READ_CELLS) == 8 and len(BY_NAME) == len(CELLS) + 1
    assert sorted(cell.depth for cell in READ_CELLS if cell.is_random and cell.block == 4 * KIB) == [1, 4, 16, 64, 256]
    for cell in CELLS:
        words = cell.name.split("_")
        assert (words[0] == "fresh") is (cell.state == "fresh")
        pattern, kind, size, depth = words[-4:]
        assert cell.is_random is (pattern == "rand" or kind == "mixed") and depth == "qd%d" % cell.depth and cell.writes is (kind != "read")
        assert cell.synced is (pattern == "sync")
        assert size == ("1m" if cell.block == MIB else "%dk" % (cell.block // KIB)) and cell.unit == ("MiB/s" if size == "1m" else "IOPS")


@pytest.mark.parametrize("cell", READ_CELLS, ids=lambda cell: cell.name)
def test_the_command_only_reads_and_keeps_latencies(cell):
    argv = cell_argv("/usr/bin/fio", cell, Place("/dev/sdb", 0, 64 * MIB), 2, 0.5)
    wanted = {"--readonly", "--output-format=json+", "--direct=1", "--invalidate=0", "--allow_file_create=0", "--rw=" + cell.pattern, "--bs=%d" % cell.block}
    assert wanted | {"--iodepth=%d" % cell.depth, "--runtime=2000ms", "--ramp_time=500ms", "--filename=/dev/sdb", "--size=67108864"} <= set(argv)
    assert not any("gtod_reduce" in word or "write" in word for word in argv)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.writes], ids=lambda cell: cell.name)
def test_the_command_of_a_write_ends_after_its_bytes_and_leaves_its_mark(cell):
    argv = cell_argv("/usr/bin/fio", cell, Place("/dev/sdb", MIB, 64 * MIB), 2, 0.5, b"\x01" * 16, 3 * MIB)
    wanted = {"--io_size=3145728", "--runtime=2000ms", "--offset=1048576", "--buffer_pattern=0x" + "01" * 16, "--rw=" + cell.pattern}
    assert wanted <= set(argv) and not {"--readonly", "--time_based=1"} & set(argv)
    assert ("--sync=1" in argv) is cell.synced and ("--rwmixread=70" in argv) is (cell.pattern == "randrw")


def test_states():
    assert {in_state_filled(cell).state for cell in READ_CELLS} == {"filled"}
    assert [in_state_filled(cell) for cell in CELLS if cell.writes] == [cell for cell in CELLS if cell.writes]
    assert most_of_block(Span(MIB, 100 * MIB)) == 5 * MIB


@pytest.mark.parametrize("name", ["/dev/sda:/dev/sdb", "/etc/passwd", "--rw=write", "/dev/s da", ""])
def test_names_that_fio_may_not_have(name):
    with pytest.raises(PlumblineError, match="no name of a block device"):
        cell_argv("fio", CELLS[0], Place(name, 0, MIB), 1, 0)


@pytest.mark.parametrize("size", [16 * MIB, 16 * MIB + 512, 17 * MIB + 4096, (1 << 30) - 512, 4 << 40])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 0.999999])
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_places_lie_on_the_device(cell, fraction, size):
    place = cell_place(cell, "/dev/sdb", Span(0, size), fraction)
    assert place.start % cell.block == 0 and place.length % cell.block == 0 and place.length >= 8 * MIB
    assert place.start >= 0 and place.start + place.length <= size
    assert cell.is_random is (place.length > size / 2)


@pytest.mark.parametrize("kib, name", [(0.5, "4k"), (1, "4k"), (4, "4k"), (5, "4k"), (5.6, "4k"), (5.7, "8k"), (6, "8k"), (8, "8k"), (16, "8k"), (64, "8k")])
def test_the_nearest_cell(kib, name):
    assert cell_for_reads(round(kib * KIB)).name == "rand_read_%s_qd64" % name


# --- what is asked for ------------------------------------------------------------------------------------------------------------------


def test_defaults():
    assert options() == Options()


@pytest.mark.parametrize("kib, reads, floor", [(4, 1600, 1600), (5, 1600, 2000), (2, 1600, 1600), (8, 1000, 1000), (16, 1000, 2000), (64, 10, 80)])
def test_what_a_workload_asks(kib, reads, floor):
    (demand,) = options(workload={"read_iops": float(reads), "kib": float(kib)}).demands
    assert demand.floor == floor and demand.cell == cell_for_reads(kib * KIB).name


def test_what_a_record_has():
    found = options(record=RECORD).former
    assert (found.of, dict(found.rates)) == ("record of M S", {ONE: (1000.0, 1010.5, 990.0)})
    assert options(record={"cells": RECORD["cells"]}).former.of == "record of a drive without a name"
    assert set(options(record=record("cells", RECORD["cells"] + [{"name": "seq_write_1m_qd1", "state": "fresh"}, {}])).former.rates) == {ONE}


@pytest.mark.parametrize("value", [5, 5.5, "5", "1e5"])
def test_numbers_of_floors(value):
    assert options(floors={ONE: value}).floors == {ONE: float(value)}


STEADY = {
    "verdict": "pass",
    "pattern": "4 KiB, random writes, 32 outstanding",
    "series": {"fills": [0.5, 1.0, 1.5, 2.0, 2.5], "iops": [None, None, 5000.0, 1900.0, 2100.0]},
    "windows": [{"first_fills": 1.5, "last_fills": 2.5, "label": "steady"}],
}


def test_a_steady_state_is_a_cell():
    found = options(steady=STEADY, workload={"write_iops": 1643.0, "kib": 5.0}, floors={STEADY_CELL.name: 1000})
    assert found.steady == (1900.0, 2100.0) and found.floors == {"steady_rand_write_4k": 1000.0}
    assert [(one.cell, one.floor) for one in found.demands] == [("steady_rand_write_4k", 1643 * 1.25)]


def test_writes():
    found = options(writes=True, serial="S1", workload={"read_iops": 100.0, "write_iops": 1643.0, "kib": 5.0})
    assert (len(found.cells), found.serial) == (len(CELLS), "S1") and {cell.state for cell in found.cells} == {"fresh", "filled"}
    assert [(one.cell, one.floor) for one in found.demands] == [("rand_read_4k_qd64", 125.0), ("rand_write_4k_qd64", 1643 * 1.25)]
    assert options(serial="S1").serial == ""
    assert options(writes=True, serial="S1", record=RECORD).former.rates  # reads of data are compared with reads of data
    fresh = {"cells": [{"name": "fresh_seq_write_1m_qd1", "state": "fresh", "rates": [5, 6]}]}
    assert options(writes=True, serial="S1", record=fresh).former.rates == {"fresh_seq_write_1m_qd1": (5.0, 6.0)}


HOSTILE = [
    ({"writes": True}, "wanted its serial too"),
    ({"cells": ["seq_write_1m_qd1"]}, "cells: seq_write_1m_qd1 writes to the drive; wanted writes: true"),
    ({"cells": ["steady_rand_write_4k"]}, "cells: steady_rand_write_4k"),
    ({"writes": True, "serial": "S", "incumbent": "/dev/sda"}, "writes, incumbent: wanted one of them"),
    ({"workload": {"write_iops": 5.0, "kib": 4.0}}, "rand_write_4k_qd64, which is not among cells; give steady, or writes: true"),
    ({"workload": {"write_iops": NAN, "kib": 4.0}}, "workload: write_iops: '"),
    *[({"steady": {**STEADY, "verdict": value}}, "steady: its verdict is") for value in ("fail", "inconclusive", None, 5, [])],
    *[({"steady": {**STEADY, "pattern": value}}, "steady: its load is") for value in ("8 KiB, random writes, 1 outstanding", None, 5, [], "x" * 10000)],
    *[({"steady": {**STEADY, "windows": value}}, "steady: it lacks its series or its windows") for value in (None, 5, [], {}, "x", [{}], [5], [{}, {}])],
    *[({"steady": {**STEADY, "series": value}}, "steady: it lacks its series or its windows") for value in (None, 5, [], {}, "x", {"fills": 5, "iops": 5})],
    ({"steady": {**STEADY, "series": {"fills": [2.0], "iops": [5.0]}}}, "steady: 1 rounds are in its windows"),
    ({"steady": {**STEADY, "series": {"fills": [2.0, "x"], "iops": [5.0, 6.0]}}}, "steady: it lacks its series"),
    ({"steady": {**STEADY, "series": {"fills": [2.0, 2.1], "iops": [5.0, NAN]}}}, "steady: a rate: '"),
    (
        {"record": {"cells": [{"name": "rand_write_4k_qd64", "state": "fresh", "rates": [1, 2]}]}, "writes": True, "serial": "S"},
        "is compared in the state filled",
    ),
    ({"cells": ["rand_read_4k"]}, "cells: there is no cell 'rand_read_4k' (did you mean 'rand_read_4k_qd"),
    ({"cells": [""]}, "wanted some of seq_read_1m_qd1, seq_read_4k_qd32, rand_read_8k_qd64"),
    ({"cells": ["x" * 10000]}, "there is no cell 'xxx"),
    ({"cells": ["a\nb"]}, "there is no cell"),
    ({"required": ["seq_write_1m_qd1"]}, "required: there is no cell 'seq_write_1m_qd1' (did you mean 'seq_read_1m_qd1'?); wanted some of "),
    ({"cells": [ONE], "required": ["seq_read_1m_qd1"]}, "required: there is no cell 'seq_read_1m_qd1'"),
    ({"floors": {"x": 1}}, "floors: there is no cell 'x'"),
    ({"floors": {1: 1}}, "floors: there is no cell '1'"),
    ({"floors": {None: 1}}, "floors: there is no cell 'None'"),
    ({"cells": ["seq_read_1m_qd1"], "floors": {ONE: 1}}, "floors: there is no cell '%s'" % ONE),
    *[
        ({"floors": {ONE: value}}, "floors: %s: '" % ONE)
        for value in (NAN, INF, -INF, 0, -1, "nan", "inf", "", "ten", None, True, [], {}, [1], "1 2", 10**400, "1" * 500, b"5")
    ],
    *[({"workload": {"read_iops": value, "kib": 4.0}}, "workload: read_iops: '") for value in (NAN, INF, 0.0, -5.0)],
    *[({"workload": {"read_iops": 5.0, "kib": value}}, "workload: kib: ") for value in (NAN, INF, 0.0, -4.0, 0.4, 65.0, 1e300)],
    ({"cells": ["seq_read_1m_qd1"], "workload": {"read_iops": 5.0, "kib": 4.0}}, "is judged by the cell %s, which is not among cells" % ONE),
    *[({"blocks": value}, "blocks: %d; wanted 3 to 1000" % value) for value in (2, 0, -1, 1001)],
    *[({"block_seconds": value}, "block_seconds: ") for value in (NAN, INF, 0.0, 0.1, -1.0, 601.0)],
    *[({"max_cpu": value}, "max_cpu: ") for value in (NAN, 0.0, 1.1, -0.5)],
    ({"record": RECORD, "incumbent": "/dev/sda"}, "record, incumbent: wanted one of them"),
    *[({"record": {"cells": value}}, "record: its cells are ") for value in (None, 5, "x", {}, [5], [[]], [None])],
    ({"record": {"x": 1}}, "record: its cells are nothing"),
    ({"record": {"cells": []}}, "record: it has none of the cells that are measured"),
    ({"record": record("cells", 0, "name", "other")}, "record: it has none of the cells"),
    ({"record": record("cells", 0, "name", [])}, "record: it has none of the cells"),
    ({"cells": ["seq_read_1m_qd1"], "record": RECORD}, "record: it has none of the cells that are measured; wanted some of seq_read_1m_qd1"),
    *[({"record": record("cells", 0, "state", value)}, "record: %s was measured in the state" % ONE) for value in ("fresh", "steady", None, 5)],
    *[({"record": record("cells", 0, "rates", value)}, "record: the rates of %s are " % ONE) for value in (None, 5, "12", {}, [], [1000])],
    *[({"record": record("cells", 0, "rates", [1000, value])}, "record: a rate of %s: '" % ONE) for value in (NAN, INF, 0, -1, None, True, "x", [], {})],
    *[({"record": record("drive", "blank", value)}, "record: the drive held nothing") for value in (0.51, 1, NAN, INF)],
]


@pytest.mark.parametrize("given, words", HOSTILE)
def test_what_is_refused(given, words):
    with pytest.raises(PlumblineError) as caught:
        options(**given)
    assert words in caught.value.msg and "\n" not in caught.value.msg and len(caught.value.msg) < 1000, caught.value.msg


@pytest.mark.parametrize("drive", [None, 5, "x", [], {"blank": None}, {"blank": "x"}, {"model": 5, "serial": ["x"]}])
def test_a_drive_that_a_record_does_not_name(drive):
    assert options(record={**RECORD, "drive": drive}).former.rates


def test_all_faults_at_once():
    with pytest.raises(PlumblineError) as caught:
        options(cells=["x"], floors={ONE: NAN}, blocks=0, max_cpu=NAN, record={"cells": 5})
    assert len(caught.value.reasons) == 5
