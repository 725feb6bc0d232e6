# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated SSDs: what the stack's own writes cost them, counted by the SSDs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from proofs import MIB, StripedLegs, StripedVolume, reading
from reading import Reading

__all__ = ["reading"]

LAB = Path(__file__).parents[2] / "lab" / "lab.py"
SERIALS = ("PLUMBSIM1", "PLUMBSIM2")
PAGE = 16 * 1024


def counters(reset: bool = False) -> dict[str, int]:
    """Both SSDs' counters, added up."""
    argv = [sys.executable, str(LAB), "counters", "sim1", "sim2", *(["--reset"] if reset else [])]
    one, two = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout).values()
    return {key: one[key] + two[key] for key in one}


class TestLegs(StripedLegs):
    stack = "sim"
    sizes = dict.fromkeys(SERIALS, 2048 * MIB)
    reserves = dict.fromkeys(SERIALS, 429496730)
    start = 1 * MIB + 8192
    lengths = dict.fromkeys(SERIALS, 1637 * MIB)
    extents = 409
    grain = PAGE
    phase = 8192


class TestData(StripedVolume):
    vg = "sim"
    lv = "data"
    size = 2 * 204 * 4 * MIB
    stripe = 64 * 1024
    starts = dict.fromkeys(SERIALS, 2 * MIB + 8192)
    grain = PAGE
    phase = 8192
    label = "sim-data"
    mount = "/srv/simulated/data"
    stride = 16
    width = 32


@pytest.fixture
def idle(reading: Reading) -> Iterator[None]:
    """Nobody but the test reads or writes the volume: it is not mounted, and udev does not look at what was closed."""
    reading.run("umount /srv/simulated/data; udevadm settle; udevadm control --stop-exec-queue")
    yield
    reading.run("udevadm control --start-exec-queue; udevadm settle; mount /srv/simulated/data")


def rewrite(reading: Reading, count: int, shift: int) -> dict[str, int]:
    """Read `count` pages of the volume, each in one request, and write them back where they were. What the SSDs did."""
    counters(reset=True)
    flags = "iflag=direct,skip_bytes oflag=direct,seek_bytes conv=notrunc"
    reading.run(f"dd if=/dev/sim/data of=/dev/sim/data bs={PAGE} count={count} skip={shift} seek={shift} {flags} status=none")
    return counters()


def test_a_page_written_is_a_page_programmed(reading: Reading, idle: None) -> None:
    found = rewrite(reading, 512, 0)
    assert (found["host_writes"], found["host_write_bytes"]) == (512, 512 * PAGE)
    assert (found["rmw"], found["straddles"]) == (0, 0)
    assert (found["media_page_programs"], found["media_write_bytes"]) == (512, 512 * PAGE)


def test_the_counters_would_have_shown_a_straddle(reading: Reading, idle: None) -> None:
    """The same 4 KiB further on: every write programs two pages in part, and reads both before.

    Every fourth request crosses the end of a 64 KiB stripe and is cut there, by chance where a page ends: two requests that straddle
    nothing, and program two pages all the same. The other 96 straddle, read and written.
    """
    found = rewrite(reading, 128, 4096)
    assert found["straddles"] == 2 * 96
    assert (found["rmw"], found["media_page_programs"]) == (256, 256)
    assert found["media_write_bytes"] == 2 * found["host_write_bytes"] == 2 * 128 * PAGE
