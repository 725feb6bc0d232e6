# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import random
import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import geometry, nvme, scsi
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import fixture


def build_id_ns(nsze=1000, nsfeat=0x10, flbas=0, dlfeat=1, units=(7, 7, 7, 7, 7), formats=((0, 9, 0),)):
    raw = bytearray(4096)
    struct.pack_into("<Q", raw, 0, nsze)
    raw[24], raw[25], raw[26], raw[33] = nsfeat, len(formats) - 1, flbas, dlfeat
    struct.pack_into("<5H", raw, 64, *units)
    for number, (metadata, shift, performance) in enumerate(formats):
        struct.pack_into("<HBB", raw, 128 + 4 * number, metadata, shift, performance)
    return bytes(raw)


def test_id_ns_of_the_lab():
    """QEMU's namespace: NSFEAT bit 4 with NPDG, and eight formats of which the first is in use."""
    found = nvme.parse_id_ns(fixture("id_ns.bin"))
    wanted = {"nsze": 0x1000000, "nuse": 0x1000000, "nsfeat": 0x14, "dlfeat": 1, "npwg": 0, "npwa": 0, "npdg": 7, "npda": 7, "nows": 0}
    assert {key: found[key] for key in wanted} == wanted
    assert [(one["ms"], one["ds"], one["rp"]) for one in found["lbafs"]] == [(ms, ds, 0) for ds in (9, 12) for ms in (0, 8, 16, 64)]
    assert [one["in_use"] for one in found["lbafs"]] == [True] + [False] * 7
    assert geometry.nvme_units(found, 512) == {"npwg": 512, "npwa": 512, "npdg": 4096, "npda": 4096, "nows": 512}


def test_id_ctrl_of_the_lab():
    found = nvme.parse_id_ctrl(fixture("id_ctrl.bin"))
    assert {key: found[key] for key in ("serial", "model", "firmware")} == {"serial": "PLUMB0001", "model": "QEMU NVMe Ctrl", "firmware": "7.2.22"}
    assert found["vwc"] & 1 == 1


def test_id_ctrl_trims_both_ends():
    raw = bytearray(4096)
    raw[4:24], raw[24:64], raw[64:72] = b"        THNSN5512GPU", b"THNSN5512GPU7 TOSHIBA".ljust(40), b"57DA4103"
    struct.pack_into("<H", raw, 78, 5)
    raw[525] = 7
    found = nvme.parse_id_ctrl(bytes(raw))
    assert found == {"serial": "THNSN5512GPU", "model": "THNSN5512GPU7 TOSHIBA", "firmware": "57DA4103", "cntlid": 5, "vwc": 7, "oncs": 0}


@pytest.mark.parametrize("units", [(0, 0, 0, 0, 0), (7, 7, 7, 7, 7), (31, 0, 31, 0, 31), (255, 0, 0, 0, 255), (65535, 1, 2, 3, 65535)])
@pytest.mark.parametrize("nsfeat", [0x00, 0x08, 0x10, 0x14, 0x1F, 0x20, 0x34, 0x76, 0xCF, 0xEF])
@pytest.mark.parametrize("logical", [512, 4096])
def test_units(units, nsfeat, logical):
    """Zero-based counts of blocks, and only where the drive says that the fields mean anything."""
    found = geometry.nvme_units(nvme.parse_id_ns(build_id_ns(nsfeat=nsfeat, units=units)), logical)
    if nsfeat >> 4 & 3 == 2:
        assert found == {name: (units[at] + 1) * logical for at, name in ((0, "npwg"), (1, "npwa"), (4, "nows"))}
    elif nsfeat & 0x10:
        assert found == {name: (count + 1) * logical for name, count in zip(("npwg", "npwa", "npdg", "npda", "nows"), units)}
    else:
        assert found == {}


@pytest.mark.parametrize("number", range(64))
def test_format_in_use(number):
    """FLBAS keeps its upper two bits apart from the lower four, NVM Command Set 1.0 figure 97."""
    flbas = number & 0xF | (number >> 4) << 5 | 0x10
    found = nvme.parse_id_ns(build_id_ns(flbas=flbas, formats=((0, 9, 0),) * 64))
    assert [one["in_use"] for one in found["lbafs"]].index(True) == number and len(found["lbafs"]) == 64


def test_better_format_table():
    """Against the plain rule, for every combination of three formats: the lowest RP without metadata, if it is lower."""
    rows = 0
    kinds = list(itertools.product((0, 8), (0, 9, 12), (0, 1, 2, 3)))
    dice = random.Random(7)
    for _row in range(3000):
        formats = [dice.choice(kinds) for _one in range(3)]
        used = dice.randrange(3)
        parsed = nvme.parse_id_ns(build_id_ns(flbas=used, formats=formats))["lbafs"]
        there = [(rp, number) for number, (ms, ds, rp) in enumerate(formats) if ms == 0 and ds >= 9]
        best = min(there) if there else (9, None)
        assert nvme.better_format(parsed) == (best[1] if best[0] < formats[used][2] else None), formats
        rows += 1
    assert rows == 3000


@pytest.mark.parametrize("formats", [None, [], [{"ms": 0, "ds": 9, "rp": 0, "in_use": False}]])
def test_better_format_unknown(formats):
    assert nvme.better_format(formats) is None


@pytest.mark.parametrize("dlfeat", range(32))
def test_deallocated_reads_ones(dlfeat):
    assert nvme.deallocated_reads_ones({"dlfeat": dlfeat}) is (dlfeat % 8 == 2)


# --- SCSI ------------------------------------------------------------------------------------------


def block_limits(granularity=0, optimal=0, unmap=0, length=64):
    raw = bytearray(length)
    raw[1] = 0xB0
    struct.pack_into(">H", raw, 2, length - 4)
    struct.pack_into(">H", raw, 6, granularity)
    struct.pack_into(">I", raw, 12, optimal)
    if length >= 36:
        struct.pack_into(">I", raw, 28, unmap)
    return bytes(raw)


@pytest.mark.parametrize(
    "raw, logical, expected",
    [
        (b"", 512, {}),
        (bytes(64), 512, {}),
        (block_limits()[:15], 512, {}),
        (block_limits(), 512, {}),
        (block_limits(8, 0, 0), 512, {"granularity": 4096}),
        (block_limits(8, 2048, 8), 512, {"granularity": 4096, "optimal": 1048576, "unmap_granularity": 4096}),
        (block_limits(1, 65535, 262144), 4096, {"granularity": 4096, "optimal": 268431360, "unmap_granularity": 1 << 30}),
        (block_limits(8, 2048, length=16), 512, {"granularity": 4096, "optimal": 1048576}),
        (block_limits(65535, 0xFFFFFFFF, 0xFFFFFFFF), 512, {"granularity": 33553920, "optimal": 2199023255040, "unmap_granularity": 2199023255040}),
    ],
)
def test_block_limits(raw, logical, expected):
    assert scsi.parse_block_limits(raw, logical) == expected
