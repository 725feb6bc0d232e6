# SPDX-License-Identifier: GPL-3.0-or-later
"""The database's volumes, and the database on them, as the system's own tools see them."""

from proofs import MIB, StripedLegs, StripedVolume, reading
from reading import Reading

__all__ = ["reading"]


class TestLegs(StripedLegs):
    stack = "pgdata"
    sizes = {"PLUMBPG1": 2048 * MIB, "PLUMBPG2": 2048 * MIB}
    reserves = dict.fromkeys(sizes, 214748365)
    lengths = dict.fromkeys(sizes, 1842 * MIB)
    extents = 460


class TestData(StripedVolume):
    vg = "pgdata"
    lv = "data"
    size = 2576 * MIB
    stripe = 64 * 1024
    starts = {"PLUMBPG1": 2 * MIB, "PLUMBPG2": 2 * MIB}
    label = "pgdata-data"
    mount = "/var/lib/pgdata"
    stride = 16
    width = 32
    options = ("noatime",)
    device_timeout = "2min"
    shown = ("noatime",)
    owner = "postgres:postgres"
    mode = "700"


def test_its_files_are_on_the_volumes(reading: Reading) -> None:
    assert reading.shell("findmnt --noheadings --output SOURCE --target /var/lib/pgdata/main") == "/dev/mapper/pgdata-data"
    assert reading.shell("findmnt --noheadings --output SOURCE --target $(readlink -f /var/lib/pgdata/main/pg_wal)") == "/dev/mapper/pgdata-wal"
