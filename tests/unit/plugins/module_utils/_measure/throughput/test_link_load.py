# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sequential reads are held up by a link."""

from __future__ import annotations

import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, SATA, Link, LinkEnd
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import share
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.link_load import is_link_bound, link_loads

MB = 10**6


def sata(speed, name="ata1"):
    return Link(SATA, LinkEnd(name, 6000), LinkEnd("", 6000), speed, 1)


SHARED = Link(PCIE, LinkEnd("0000:00:02.0", 5000, 8), LinkEnd("0000:02:00.0", 5000, 4), 5000, 4)


def measured(*rates):
    """A measurement of sequential reads whose legs, sda and so on, give these bytes per second, and their volume nearly as much."""
    names = ["sd" + chr(97 + number) for number in range(len(rates))]
    dice, options = random.Random(4), share.ShareOptions()

    def run(side):
        noise = dice.uniform(0.99, 1.01)
        legs = tuple((name, rate * noise) for name, rate in zip(names, rates))
        return share.Block(sum(rates) * noise, 10.0, 0.1, 0.1, legs if side == share.LEGS else ())

    return share.drive(share.measure_share(options, dice=dice), run)


@pytest.mark.parametrize("speed, rate, bound", [(1500, 120, True), (3000, 240, True), (3000, 120, False), (6000, 240, False)])
def test_a_drive_of_120_or_240_megabytes_per_second(speed, rate, bound):
    """Case 4: 120 MB/s at 1.5 Gb/s and 240 at 3.0, and alignment was blamed."""
    found = measured(rate * MB)
    links = {"sda": [sata(speed)]}
    (load,) = link_loads("seq_read", found.rates, links)
    assert load.share == pytest.approx(rate * MB / (speed * 93000), rel=0.05)
    shown = share.throughput_as_dict("seq_read", found, links)
    assert (shown["link_bound"], shown["links"][0]["link_bound"], shown["verdict"]) == (bound, bound, "pass")
    lines = [line for line in share.report_throughput("lv", [("seq_read", found)], [], links) if "link-bound" in line]
    assert len(lines) == bound
    if bound:
        text = "seq_read: link-bound: sda read %.1f MiB/s, 86 %% of the %.1f that its link carries (SATA %.1f Gb/s); look at the link before the alignment"
        assert lines[0].strip() == text % (load.rate / 1048576, speed * 93000 / 1048576, speed / 1000)


@pytest.mark.parametrize("rate, bound", [(0.80, False), (0.84, False), (0.86, True), (1.2, True), (1.6, False), (3.0, False)])
def test_the_threshold(rate, bound):
    (load,) = link_loads("seq_read", [("sda", rate * 279 * MB)], {"sda": [sata(3000)]})
    assert load.bound is bound


def test_a_link_that_is_faster_than_it_can_be_is_not_blamed():
    """QEMU's NVMe says 2.5 GT/s x1, and is as fast as its host."""
    found = measured(900 * MB)
    links = {"nvme0n1": [Link(PCIE, LinkEnd("0000:00:05.0", 2500, 1), LinkEnd("0000:01:00.0", 2500, 1), 2500, 1)]}
    found = found._replace(rates=[("nvme0n1", 900 * MB)])
    (line,) = [line for line in share.report_throughput("lv", [("seq_read", found)], [], links) if "link" in line]
    assert "link-bound" not in line and line.endswith("(PCIe 2.5 GT/s x1): the link is not what it says, as of an emulated drive")
    assert share.throughput_as_dict("seq_read", found, links)["link_bound"] is False


def test_legs_behind_one_controller_add_up():
    """Four drives that each leave their link half empty fill the controller's."""
    names = ["sda", "sdb", "sdc", "sdd"]
    links = {name: [SHARED, sata(6000, "ata%d" % number)] for number, name in enumerate(names)}
    loads = link_loads("seq_read", [(name, 400 * MB) for name in names], links)
    assert [(load.link.kind, load.legs, load.bound) for load in loads] == [(PCIE, tuple(names), True), *((SATA, (name,), False) for name in names)]
    assert is_link_bound(loads) is True


@pytest.mark.parametrize("job, rates, links", [
    ("rand_read", [("sda", 279 * MB)], {"sda": [sata(3000)]}),
    ("seq_write", [("sda", 279 * MB)], {"sda": [sata(3000)]}),
    ("seq_read", [], {"sda": [sata(3000)]}),  # a reused baseline
    ("seq_read", [("sda", 279 * MB)], {}),
    ("seq_read", [("sda", 279 * MB)], {"sda": [sata(None)]}),
    ("seq_read", [("sda", 279 * MB)], {"sda": [Link(PCIE, LinkEnd(""), LinkEnd("0000:00:05.0", 8000, 4), 8000, None)]}),
])  # fmt: skip
def test_nothing_is_said(job, rates, links):
    loads = link_loads(job, rates, links)
    assert loads == [] and is_link_bound(loads) is None
