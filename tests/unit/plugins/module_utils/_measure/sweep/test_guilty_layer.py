# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layer is off: a table of stacks whose flash has its pages somewhere, measured without error, and with it."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.guilty_layer import (
    AGREES,
    CONTRADICTS,
    UNPROVEN,
    Swept,
    locate_guilty,
    report_guilty,
    stack_layers,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.search import NO_PREFERENCE, PHASE, Verdict
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host

LIE = "the device lies about its alignment"
MAP = "a layer's map is not what the kernel says"


def phase(number, grain=4 * KIB):
    return Verdict(PHASE, number % grain, grain, 1.5)


def stack(true, *starts, offset=0, grain=4 * KIB, unswept=()):
    """A disk whose pages begin at *true*, and layers at *starts* (names and bytes), each measured as it is."""
    layers = [Swept("device", "sda", (("sda", 0),), phase(true, grain), offset)]
    for name, start in starts:
        layers.append(Swept(*name.split(), (("sda", start),), None if name in unswept else phase(true - start, grain)))
    return layers


PART, LV, PV = "partition sda1", "lv vg-lv", "pv sda1"
ROWS = {
    "all is well": (stack(0, (PART, MIB), (LV, 2 * MIB)), "", "", AGREES, ()),
    "start 63": (stack(0, (PART, 63 * 512), (LV, 63 * 512 + MIB)), PART, PART, AGREES, ()),
    "start 34": (stack(0, (PART, 34 * 512)), PART, PART, AGREES, ()),
    "a partition that the PV makes good": (stack(0, (PART, 63 * 512), (LV, 2 * MIB)), "", "", AGREES, ()),
    "pe_start of 65535 sectors": (stack(0, (PART, MIB), (LV, MIB + 65535 * 512)), LV, LV, AGREES, ()),
    "the same, with the PV in the list": (stack(0, (PART, MIB), (PV, MIB + 65535 * 512), (LV, MIB + 65535 * 512), unswept=(PV,)), PV, PV, AGREES, ()),
    "linear plus one sector": (stack(0, (PART, MIB), ("dm skewed", MIB + 512)), "dm skewed", "dm skewed", AGREES, ()),
    "alignment_offset 3584, start 63": (stack(3584, (PART, 63 * 512), offset=3584), "", "", AGREES, ()),
    "alignment_offset 3584, start 2048": (stack(3584, (PART, MIB), offset=3584), PART, PART, AGREES, ()),
    "16 KiB pages, start at 4 KiB": (stack(0, (PART, MIB + 4096), grain=16 * KIB), PART, PART, AGREES, ()),
    "the device lies": (stack(512, (PART, MIB), (LV, 2 * MIB)), "device sda", "", CONTRADICTS, (LIE,)),
    "the device lies, and somebody knew": (stack(512, (PART, MIB + 512)), "", PART, CONTRADICTS, (LIE,)),
    "a map that is another": (
        [*stack(0, (PART, MIB)), Swept("lv", "vg-lv", (("sda", 2 * MIB),), phase(512))], LV, "", CONTRADICTS, (MAP,),
    ),
    "a partition that is elsewhere": (
        [*stack(0), Swept("partition", "sda1", (("sda", MIB),), phase(1024)), Swept("lv", "vg-lv", (("sda", 2 * MIB),), phase(1024))],
        PART, "", CONTRADICTS, (MAP,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_the_culprit(row):
    layers, culprit, static, agreement, words = ROWS[row]
    found = locate_guilty(layers)
    assert (found.culprit, found.static, found.agreement) == (culprit, static, agreement), found
    assert len(found.reasons) == len(words)
    for word, reason in zip(words, found.reasons):
        assert word in reason and "\n" not in reason
    lines = report_guilty(layers, found)
    assert len(lines) == len(layers) + 2 and lines[-2] == "culprit: %s" % (culprit or "none")


@pytest.mark.parametrize("verdict", [NO_PREFERENCE, INCONCLUSIVE])
def test_a_disk_without_a_phase_is_judged_by_the_layers_above(verdict):
    layers = stack(0, (PART, 63 * 512), (LV, 63 * 512 + MIB))
    layers[0] = layers[0]._replace(verdict=Verdict(verdict, grain=64 * KIB))
    assert locate_guilty(layers)[:3] == (PART, PART, AGREES)
    layers = [layer._replace(verdict=Verdict(verdict)) for layer in layers]
    found = locate_guilty(layers)
    assert found[:3] == ("", "", UNPROVEN) and report_guilty(layers, found)[-1] == found.reasons[0]


def test_an_offset_that_the_kernel_does_not_know_is_no_lie():
    layers = stack(512, (PART, MIB), offset=None)
    found = locate_guilty(layers)
    assert found.agreement == CONTRADICTS and LIE not in found.reasons[0] and "by measurement device sda is off" in found.reasons[0]


def test_different_grains_are_compared_at_the_smaller():
    layers = stack(4096, (PART, MIB), offset=4096, grain=16 * KIB)
    layers.append(Swept("lv", "vg-lv", (("sda", 2 * MIB),), phase(0, 4 * KIB)))
    assert locate_guilty(layers)[:3] == ("", "", AGREES)


def pair(second, measured):
    """Two legs, the second's partition at *second*; the volume measured at *measured*."""
    layers = [Swept("device", disk, ((disk, 0),), phase(0), 0) for disk in ("sda", "sdb")]
    for disk, start in (("sda", MIB), ("sdb", second)):
        layers.append(Swept("partition", disk + "1", ((disk, start),), phase(-start)))
    return [*layers, Swept("lv", "vg-lv", (("sda", 2 * MIB), ("sdb", second + MIB)), phase(measured))]


@pytest.mark.parametrize(
    "second, measured, culprit, agreement",
    [
        (MIB, 0, "", AGREES),
        (63 * 512, 0, "partition sdb1", AGREES),  # whichever leg the volume's phase is of
        (63 * 512, 512, "partition sdb1", AGREES),
        (MIB, 1024, "lv vg-lv", CONTRADICTS),
        (63 * 512, 1024, "lv vg-lv, partition sdb1", CONTRADICTS),
    ],
)
def test_two_legs(second, measured, culprit, agreement):
    found = locate_guilty(pair(second, measured))
    assert (found.culprit, found.agreement) == (culprit, agreement), found


def test_the_layers_of_a_host():
    host = Host()
    disks = host.pair(2)
    host.limits(disks[0], alignment_offset=3584)
    parts = [host.part(disk, MIB) for disk in disks]
    for part in parts:
        host.pv(part, "vg")
    volume = host.mapped("vg-lv", [Segment(0, GIB, "striped", 64 * KIB, tuple((part, MIB) for part in parts))])
    host.edit(disks[1], limits=Limits(512, 512, 512, 0, -1))
    host.seen.geometries.clear()
    found = stack_layers(host.seen, volume)
    assert [(layer.kind, layer.name, layer.starts) for _devno, layer in found] == [
        ("device", "nvme0n1", (("nvme0n1", 0),)),
        ("device", "nvme1n1", (("nvme1n1", 0),)),
        ("partition", "nvme0n1p1", (("nvme0n1", MIB),)),
        ("partition", "nvme1n1p1", (("nvme1n1", MIB),)),
        ("pv", "nvme0n1p1", (("nvme0n1", 2 * MIB),)),
        ("pv", "nvme1n1p1", (("nvme1n1", 2 * MIB),)),
        ("lv", "vg-lv", (("nvme0n1", 2 * MIB), ("nvme1n1", 2 * MIB))),
    ]
    assert [layer.offset for _devno, layer in found][:3] == [3584, None, None]
    assert [devno for devno, _layer in found] == [*disks, *parts, "", "", volume]
