# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's command line and its JSON: from a job to an argv list, from the output to numbers. Pure.

Sizes are bytes, times seconds. Everything is on the command line; fio is given no job file, and no text that comes from
outside but the kernel's names of block devices, which are checked, since fio splits a file name at colons.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import held_path
from ansible_collections.plumbline.ssd.plugins.module_utils._block.load_mark import RANDOM_PERCENT, SECTOR, tail_of
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

_DEVICE = re.compile(r"/dev/[A-Za-z0-9_.!-]+(?:/[A-Za-z0-9_.!-]+)*")
# Of an error's text only what a line can hold.
_LONGEST = 300
# Requests of this size are so few that reading the clock for each costs nothing.
_LARGE = 128 * 1024
# What fio prints in a failure, the most telling first: one fault makes it print several lines.
_TELLING = ("io_u error", "engine", "error=", "refus", "error", "failed")


class Load(NamedTuple):
    """One kind of load, of which every place gets a job of its own."""

    name: str
    pattern: str  # fio's rw: read, randread, write, randwrite
    block: int
    depth: int  # requests outstanding for each job

    @property
    def writes(self) -> bool:
        return self.pattern in ("write", "randwrite")


class FioResult(NamedTuple):
    """What a run of fio measured, without its ramp."""

    bytes: int
    rate: float  # bytes per second, of all jobs together
    iops: float
    rates: Mapping[str, float]  # the same by device
    busiest: float  # the share of one CPU that the busiest job took, 0 to 1


def marked(mark: bytes, length: int) -> bytes:
    """Random bytes in whole sectors, each with the mark at its end."""
    tail = tail_of(mark)
    return b"".join(os.urandom(SECTOR - len(tail)) + tail for _sector in range(length // SECTOR))


def load_contents(mark: bytes, fresh: bool) -> List[str]:
    """What a write load writes: random bytes, with the mark at the end of each sector. *fresh*: new ones with each request, which costs a CPU."""
    return [
        "--buffer_compress_percentage=%d" % (100 - RANDOM_PERCENT),
        "--buffer_compress_chunk=%d" % SECTOR,
        "--buffer_pattern=0x" + mark.hex(),
        "--refill_buffers=%d" % fresh,
    ]


def common(fio: str, read_only: bool, output: str = "json") -> List[str]:
    """What every call of fio has: it says what it did as JSON, reads and writes only what is there, past the page cache, and dies with us."""
    return [
        fio,
        "--output-format=" + output,
        "--eta=never",
        *(["--readonly"] if read_only else []),
        "--name=global",
        "--thread=1",  # one process, which dies with us, and not one for each job
        "--ioengine=libaio",
        "--direct=1",
        "--invalidate=0",  # flushing a mounted device's buffers is no business of a probe; direct I/O needs none of it
        "--allow_file_create=0",  # a device that has gone must not come back as a file in /dev
        "--randrepeat=0",  # other addresses in every run
        "--norandommap=1",
        "--exitall_on_error=1",
    ]


def place_words(places: Sequence[Place]) -> List[str]:
    """A job for each place."""
    words = []
    for number, place in enumerate(places):
        if not _DEVICE.fullmatch(place.path):
            raise PlumblineError("%r is no name of a block device that fio can be given; wanted one such as /dev/dm-0" % place.path)
        words += ["--name=j%d" % number, "--filename=" + place.file, "--offset=%d" % place.start, "--size=%d" % place.length]
    return words


def argv(fio: str, load: Load, places: Sequence[Place], seconds: float, ramp: float, mark: bytes = b"") -> List[str]:
    """The command that loads every place at once for *seconds*, after a *ramp* that is not counted. A load that writes leaves its *mark*."""
    return (
        common(fio, not load.writes)
        + ["--rw=" + load.pattern, "--bs=%d" % load.block, "--iodepth=%d" % load.depth]
        + (load_contents(mark, False) if load.writes else [])
        # With it fio looks at its clock at every 64th request only: that spares the CPU with small ones, and with 1 MiB ends each job 64 MiB late.
        + ["--gtod_reduce=%d" % (load.block < _LARGE)]
        + ["--time_based=1", "--runtime=%dms" % round(seconds * 1000), "--ramp_time=%dms" % round(ramp * 1000)]
        + place_words(places)
    )


def fill_argv(fio: str, places: Sequence[Place], block: int, depth: int, mark: bytes) -> List[str]:
    """The command that writes every byte of the places once, with data that a drive can neither compress nor merge."""
    words = ["--rw=write", "--bs=%d" % block, "--iodepth=%d" % depth, *load_contents(mark, True), "--end_fsync=1"]
    return common(fio, False) + words + place_words(places)


def parse_output(text: str, places: Sequence[Place]) -> FioResult:
    """Read fio's JSON for these places. Raises PlumblineError where a job is missing, failed, or moved nothing."""
    rows = report_rows(text)
    if len(rows) != len(places):
        raise PlumblineError("fio reported %d jobs; %d were started" % (len(rows), len(places)))
    total, rate, iops, busiest = 0, 0.0, 0.0, 0.0
    rates: Dict[str, float] = {}
    for row, place in zip(rows, places):
        if row.get("error"):
            raise PlumblineError("fio: its job on %s ended with error %s" % (place.path, row["error"]))
        try:
            sides = [row[side] for side in ("read", "write")]
            moved = sum(int(side["io_bytes"]) for side in sides)
            speed = sum(float(side["bw_bytes"]) for side in sides)
            iops += sum(float(side["iops"]) for side in sides)
            busiest = max(busiest, (float(row["usr_cpu"]) + float(row["sys_cpu"])) / 100)
        except (KeyError, TypeError, ValueError) as fault:
            raise PlumblineError("fio's report lacks what was expected in it: %r; version 3.0 or newer is wanted" % fault) from fault
        if not moved:
            raise PlumblineError("fio moved nothing on %s while it was measured; give it longer blocks (block_seconds)" % place.path)
        total += moved
        rate += speed
        rates[place.path] = rates.get(place.path, 0.0) + speed
    return FioResult(total, rate, iops, rates, busiest)


def report_rows(text: str) -> List[Dict[str, Any]]:
    """The jobs of a report. fio may print lines of its own before the JSON, and behind it."""
    begin = text.find("{") if text.startswith("{") else text.find("\n{") + 1
    end = text.rfind("}")
    try:
        if end < begin or not text[begin : begin + 1] == "{":
            raise ValueError
        jobs = json.loads(text[begin : end + 1])["jobs"]
        if not isinstance(jobs, list):
            raise TypeError
    except (ValueError, KeyError, TypeError) as fault:
        raise PlumblineError("fio's report could not be read: %s" % (" ".join(text.split())[:_LONGEST] or "it is empty")) from fault
    return jobs


def failure(code: int, out: str, err: str) -> str:
    """Why fio failed, in one line: its own words, and what to do where that is known."""
    lines = [line.strip() for line in (err + "\n" + _before_json(out)).splitlines() if line.strip()]
    telling = [line for word in _TELLING for line in lines if word in line] or lines
    said = telling[0][:_LONGEST] if telling else ("it was killed by signal %d" % -code if code < 0 else "it returned %d and said nothing" % code)
    if "engine libaio" in err + out or "ioengine" in said:
        said += "; install the package with fio's libaio engine (fio-engine-libaio)"
    return said[5:] if said.startswith("fio: ") else said


def _before_json(out: str) -> str:
    """What fio printed beside its report."""
    begin = 0 if out.startswith("{") else out.find("\n{") + 1
    return out[:begin] if out[begin : begin + 1] == "{" else out


class Place(NamedTuple):
    """Where a load goes: *length* bytes from *start* of the device at *path*. *fd*: the descriptor by which we hold it, which a load that writes has."""

    path: str
    start: int
    length: int
    fd: int = -1

    @property
    def file(self) -> str:
        """What fio opens: the very device that is held, or else what has its name."""
        return self.path if self.fd < 0 else held_path(self.fd)
