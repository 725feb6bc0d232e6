# SPDX-License-Identifier: GPL-3.0-or-later
"""Three volumes over three legs, 30 % of the group each, as the system's own tools see them."""

import json

from proofs import MIB, StripedLegs, StripedVolume, reading
from reading import Reading

__all__ = ["reading"]

SERIALS = ("PLUMBMULTI1", "PLUMBMULTI2", "PLUMBMULTI3")
ARTICLE = ("noatime", "nodiratime", "nodelalloc", "barrier=0", "data=writeback")


class TestLegs(StripedLegs):
    stack = "pg"
    sizes = dict.fromkeys(SERIALS, 2048 * MIB)
    reserves = dict.fromkeys(SERIALS, 214748365)
    lengths = dict.fromkeys(SERIALS, 1842 * MIB)
    extent = 128 * MIB
    extents = 14


class Striped(StripedVolume):
    """30 % of 14 extents are 4.2: rounded down, on each of three legs."""

    vg = "pg"
    size = 3 * 4 * 128 * MIB
    stripe = 8 * 1024
    stride = 2
    width = 6
    options = ARTICLE
    shown = ("noatime", "nodiratime", "nodelalloc", "nobarrier", "data=writeback")


class TestData01(Striped):
    lv = "data01"
    label = "pg-data01"
    mount = "/srv/multi/data01"
    starts = dict.fromkeys(SERIALS, 2 * MIB)


class TestData02(Striped):
    lv = "data02"
    label = "pg-data02"
    mount = "/srv/multi/data02"
    starts = dict.fromkeys(SERIALS, (2 + 4 * 128) * MIB)


class TestWal(Striped):
    lv = "wal"
    label = "journal"
    mount = "/srv/multi/wal"
    starts = dict.fromkeys(SERIALS, (2 + 8 * 128) * MIB)
    options = ("noatime",)
    shown = ("noatime",)

    def test_it_keeps_its_barriers(self, reading: Reading) -> None:
        assert {"nobarrier", "nodelalloc", "data=writeback"}.isdisjoint(reading.mount(self.mount)["options"].split(","))


def test_what_was_accepted_is_recorded(reading: Reading) -> None:
    """The two volumes with the article's options, and not the one without."""
    record = json.loads(reading.shell("cat /var/lib/plumbline/accepted/pg.json"))
    assert sorted((risk["volume"], risk["option"], risk["acceptance"]) for risk in record) == [
        (volume, option, acceptance)
        for volume in ("data01", "data02")
        for option, acceptance in (("barrier=0", "data_loss_on_power_cut"), ("data=writeback", "stale_data_after_crash"))
    ]
    assert all(sorted(risk["serials"]) == sorted(SERIALS) and risk["since"] for risk in record)


def test_the_disk_that_the_selector_does_not_mean_is_bare(reading: Reading) -> None:
    assert reading.shell(f"wipefs --noheadings {reading.disk('PLUMBSMALL')}") == ""
