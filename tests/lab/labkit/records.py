# SPDX-License-Identifier: GPL-3.0-or-later
"""A writer that behaves as a database does, and what has to be there of it after a power cut.

Numbered, checksummed records, strictly one after the other; each number is printed when the kernel has said that it is on the
drive, and not before. Run in the guest with a directory: it prints `ready` and waits for a line, then for the end of its input.
Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import select
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

# Of sixteen records eight overwrite a table, seven go to the end of a log, and one replaces a file.
TURN = 16
LOGGED = TURN // 2 - 1
SLOTS = 128
SLOT_BYTES = 8192  # two pages of the drive: it may be torn
ENTRY_BYTES = 1024  # a quarter of a page: the next one writes the same page again
STATE_BYTES = 4096
SEGMENT_ENTRIES = 256
KEPT_SEGMENTS = 3  # one more than is looked at, since acknowledgements may still be on their way when the last but two goes


def record(number: int, size: int) -> bytes:
    """The record of a number: it can be told from every other one, and whether it is whole."""
    head = struct.pack("<Q", number)
    body = head + (hashlib.sha256(head).digest() * (size // 32 + 1))[: size - 12]
    return body + struct.pack("<I", zlib.crc32(body))


def number_in(data: bytes, size: int) -> int:
    """The number of a record that is there as it was written; 0 for anything else."""
    number = struct.unpack_from("<Q", data)[0] if len(data) == size else 0
    return number if number and data == record(number, size) else 0


def is_table(number: int) -> bool:
    return number % 2 == 1


def is_state(number: int) -> bool:
    return number % TURN == 0


def slot_of(number: int) -> int:
    """Where the table has an odd number."""
    return number // 2 % SLOTS


def log_index(number: int) -> int:
    """How many logged numbers there are below this one."""
    return number // TURN * LOGGED + max((number % TURN - 1) // 2, 0)


def segment_name(segment: int) -> str:
    return f"log.{segment:06d}"


class Writer:
    """Writes the records of one directory. Every write() has returned when its record is on the drive."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.number = 0
        home.mkdir()
        self.directory = os.open(home, os.O_RDONLY)
        self.log = -1
        self.table = os.open(home / "table", os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(self.table, os.urandom(SLOTS * SLOT_BYTES), 0)  # what follows overwrites, as in a recycled segment
        os.fsync(self.table)
        os.fsync(self.directory)

    def write(self) -> int:
        """The next record; its number."""
        self.number += 1
        if is_table(self.number):
            self._overwrite()
        elif is_state(self.number):
            self._replace()
        else:
            self._append()
        return self.number

    def _overwrite(self) -> None:
        os.pwrite(self.table, record(self.number, SLOT_BYTES), slot_of(self.number) * SLOT_BYTES)
        os.fdatasync(self.table)

    def _append(self) -> None:
        segment, entry = divmod(log_index(self.number), SEGMENT_ENTRIES)
        if entry == 0:
            if self.log >= 0:
                os.close(self.log)
            self.log = os.open(self.home / segment_name(segment), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.fsync(self.directory)
            (self.home / segment_name(segment - KEPT_SEGMENTS)).unlink(missing_ok=True)
        os.pwrite(self.log, record(self.number, ENTRY_BYTES), entry * ENTRY_BYTES)
        os.fdatasync(self.log)

    def _replace(self) -> None:
        new = self.home / "state.new"
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.pwrite(fd, record(self.number, STATE_BYTES), 0)
        os.fsync(fd)
        os.close(fd)
        new.rename(self.home / "state")
        os.fsync(self.directory)


class Judgement(NamedTuple):
    """Of the acknowledged records: how many had to be there, and the numbers of those that are not."""

    wanted: int
    lost: list[int]


def judge(files: Mapping[str, bytes], acknowledged: int) -> Judgement:
    """Compare the files of the directory with the highest number that was acknowledged before the power went.

    What the writer had overwritten or removed by then is not asked for. At most one number was being written.
    """
    table, log = _table(files), _log(files)
    state = number_in(files.get("state", b""), STATE_BYTES)
    highest = max([state, *table, *log])
    wanted, lost = 0, []
    for number in _last_of_each(acknowledged):
        wanted += 1
        if is_state(number):
            there = state >= number and is_state(state)
        elif is_table(number):
            found = table[slot_of(number)]
            there = found >= number and is_table(found) and slot_of(found) == slot_of(number)
            # The slot that was being written over at that moment: its old record was given up.
            under_way = highest + 1
            there = there or (under_way > acknowledged and is_table(under_way) and slot_of(under_way) == slot_of(number))
        else:
            there = number in log
        if not there:
            lost.append(number)
    return Judgement(wanted, lost)


def _last_of_each(acknowledged: int) -> Iterator[int]:
    """The acknowledged numbers whose records nothing has replaced: the state, of each slot the last, of the log two segments."""
    if acknowledged >= TURN:
        yield acknowledged // TURN * TURN
    yield from (number for number in range(max(acknowledged - 2 * SLOTS + 1, 1), acknowledged + 1) if is_table(number))
    first = (max(log_index(acknowledged), 1) - 1) // SEGMENT_ENTRIES * SEGMENT_ENTRIES - SEGMENT_ENTRIES
    for number in range(2, acknowledged + 1, 2):
        if not is_state(number) and log_index(number) >= first:
            yield number


def _table(files: Mapping[str, bytes]) -> list[int]:
    """By slot."""
    data = files.get("table", b"")
    return [number_in(data[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES], SLOT_BYTES) for slot in range(SLOTS)]


def _log(files: Mapping[str, bytes]) -> set[int]:
    """The numbers that stand where they belong."""
    found = set()
    for name, data in files.items():
        word, _dot, segment_word = name.partition(".")
        if word != "log" or not segment_word.isdecimal():
            continue
        segment = int(segment_word)
        for entry in range(len(data) // ENTRY_BYTES):
            number = number_in(data[entry * ENTRY_BYTES : (entry + 1) * ENTRY_BYTES], ENTRY_BYTES)
            if number and log_index(number) == segment * SEGMENT_ENTRIES + entry:
                found.add(number)
    return found


def main() -> int:
    """Prepare, wait for the word, and write until the input ends."""
    writer = Writer(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    while not select.select([0], [], [], 0)[0]:
        print(writer.write(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
