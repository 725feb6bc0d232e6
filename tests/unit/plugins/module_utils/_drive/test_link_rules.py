# SPDX-License-Identifier: GPL-3.0-or-later
"""Which links are found slow, how bad that is, and what a link carries."""

from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, INFO, WARNING
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, SAS, SATA, Link, LinkEnd, payload_bytes, rate_text
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.link_rules import judge_links
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import fixture

RECORDS = json.loads(fixture("links.json"))


def sata(found, host, drive, limit=None):
    return Link(SATA, LinkEnd("ata1", host), LinkEnd("", drive), found, 1, limit)


def sas(found, host, drive, limit=None):
    return Link(SAS, LinkEnd("phy-0:0", host), LinkEnd("end_device-0:0", drive), found, 1, limit)


def pcie(found, host, drive):
    return Link(PCIE, LinkEnd("0000:00:1d.0", *host), LinkEnd("0000:01:00.0", *drive), *found)


@pytest.mark.parametrize("record", RECORDS, ids=[record["id"] for record in RECORDS])
def test_the_recorded_links(record):
    """smartctl's word on real drives: what is negotiated, and the most that the drive can do. Nothing of the host's end."""
    speeds = {key: round(value * 1000) for key, value in (record["link"] or {}).items()}
    link = sata(speeds.get("current_gbps"), None, speeds.get("max_gbps"))
    assert link.below is record["expect"]["link_degraded"]
    assert [finding.level for finding in judge_links({"sda": [link]})] == [WARNING] * bool(record["expect"]["link_degraded"])


def test_the_records_have_all_cases():
    found = [record["expect"]["link_degraded"] for record in RECORDS]
    assert (found.count(True), found.count(False)) == (4, 4)


QEMU = [
    pcie((2500, 1), (16000, 32), (2500, 1)),  # NVMe behind pcie-root-port
    pcie((2500, 1), (2500, 1), (2500, 1)),
    sata(1500, 1500, None),  # AHCI; ide-hd says nothing in word 76 of its speed
    sas(3000, 3000, None, 3000),  # mptsas1068
]


@pytest.mark.parametrize("link", QEMU)
@pytest.mark.parametrize("building", [False, True])
def test_no_findings_on_what_qemu_shows(link, building):
    assert judge_links({"sda": [link]}, building) == []


@pytest.mark.parametrize("link, existing, building, words", [
    (sata(3000, 6000, 6000), WARNING, ERROR, "link sda: SATA 3.0 Gb/s at ata1: both ends can do more; wanted 6.0 Gb/s: another cable"),
    (sata(1500, None, 6000), WARNING, ERROR, "ata1: the drive can do more, and ata1 does not say what it can; wanted 6.0 Gb/s"),
    (sata(1500, 6000, 6000, 1500), WARNING, ERROR, "ata1 is the slow end, the kernel slowed it down after errors; wanted 6.0 Gb/s: another cable or bay"),
    (sata(1500, None, None, 1500), WARNING, WARNING, "ata1 is the slow end, the kernel slowed it down after errors; wanted what both ends can do"),
    (sata(3000, 3000, 6000), INFO, INFO, "SATA 3.0 Gb/s: the port ata1 limits the drive, which can do 6.0 Gb/s"),
    (sata(1500, 3000, 6000), WARNING, ERROR, "wanted 3.0 Gb/s"),
    (sas(1500, 3000, 6000, 1500), WARNING, ERROR, "set to that; wanted 3.0 Gb/s: a higher one, by the controller's setup (SAS1068: lsiutil, menu 13)"),
    (sas(3000, 3000, 6000), INFO, INFO, "SAS 3.0 Gb/s: the port phy-0:0 limits the drive, which can do 6.0 Gb/s"),
    (sas(12000, 22500, 22500), WARNING, ERROR, "wanted 22.5 Gb/s"),  # half as much data: the codes differ
    (pcie((8000, 2), (16000, 16), (8000, 4)), WARNING, ERROR, "x2 at 0000:00:1d.0: both ends can do more; wanted 8.0 GT/s x4: the drive seated anew"),
    (pcie((5000, 4), (8000, 4), (8000, 4)), WARNING, WARNING, "wanted 8.0 GT/s x4"),  # 51 % of the data
    (pcie((2500, 4), (8000, 4), (8000, 4)), WARNING, ERROR, "PCIe 2.5 GT/s x4"),
    (pcie((8000, 8), (8000, 8), (16000, 8)), INFO, INFO, "limits the drive, which can do 16.0 GT/s x8"),
    (pcie((8000, 8), (8000, 8), (8000, 16)), INFO, INFO, "limits the drive, which can do 8.0 GT/s x16"),
    (Link(PCIE, LinkEnd(""), LinkEnd("0000:00:05.0", 8000, 4), 8000, 1), WARNING, ERROR, "the drive can do more, and its port does not say what it can"),
])  # fmt: skip
def test_findings(link, existing, building, words):
    (found,) = judge_links({"sda": [link]})
    (planned,) = judge_links({"sda": [link]}, True)
    assert (found.level, planned.level) == (existing, building)
    assert found.text == planned.text
    assert words in found.text


@pytest.mark.parametrize("link", [
    sata(6000, 6000, 6000), sata(3000, 6000, 3000), sata(None, 6000, 6000), sata(None, 3000, 6000), sata(3000, 6000, None), sata(6000, None, 6000),
    sata(6000, 3000, 3000), sas(6000, 12000, None), pcie((None, None), (8000, 4), (8000, 4)), pcie((8000, 4), (None, None), (None, None)),
    pcie((8000, None), (8000, 4), (8000, 4)),
    sata(3000, 6000, 3000, 3000),  # slowed, and the drive can do no more
])  # fmt: skip
def test_no_findings(link):
    assert judge_links({"sda": [link]}, True) == []


def test_a_link_that_drives_share_is_told_once():
    shared, own = pcie((8000, 4), (8000, 16), (8000, 8)), sata(6000, 6000, 6000)
    found = judge_links({"sda": [shared, own], "sdb": [shared, own], "sdc": [own]})
    assert [(finding.layer, finding.name) for finding in found] == [("link", "sda, sdb")]


@pytest.mark.parametrize("kind, speed, width, payload", [
    (SATA, 1500, 1, 139_500_000), (SATA, 3000, 1, 279_000_000), (SATA, 6000, 1, 558_000_000),
    (SAS, 12000, 1, 1_116_000_000), (SAS, 12000, 4, 4_464_000_000), (SAS, 22500, 1, 2_232_000_000),
    (PCIE, 2500, 1, 225_000_000), (PCIE, 5000, 4, 1_800_000_000), (PCIE, 8000, 4, 3_544_615_384), (PCIE, 64000, 4, 26_550_000_000),
    (SATA, None, 1, None), (PCIE, 8000, None, None),
])  # fmt: skip
def test_what_a_link_carries(kind, speed, width, payload):
    assert payload_bytes(kind, speed, width) == payload


def test_speeds_for_people():
    assert [rate_text(*one) for one in ((SATA, 6000, 1), (SAS, 22500, 4), (PCIE, 2500, 1), (PCIE, 8000, 4), (PCIE, None, None))] == [
        "6.0 Gb/s", "22.5 Gb/s x4", "2.5 GT/s x1", "8.0 GT/s x4", "unknown",
    ]  # fmt: skip
