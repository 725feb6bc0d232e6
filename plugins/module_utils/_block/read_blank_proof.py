# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof that a device holds nothing: where it looks, and the look itself. blank_proof_odds says how likely it is to see what is there. I/O."""

from __future__ import annotations

import ctypes
import mmap
import os
import syslog
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.block_device import open_read
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, human

# What the sampled proof reads: whole ends, and random places between them.
PROOF_END = 64 * MIB
PROOF_SAMPLES = 1024
PROOF_SAMPLE = 4 * KIB


def proof_spans(size: int, full: bool, starts: Sequence[int], dice: Callable[[int], bytes] = os.urandom) -> Tuple[List[Tuple[int, int]], List[int]]:
    """Which spans (offset, length) are read whole, and at which offsets 4 KiB samples are taken.

    *starts* are places where something of ours is to begin; each is sampled. One random page is drawn
    from every one of PROOF_SAMPLES equal strata, so that no long run of data falls between them; every
    page of a stratum is as likely as any other.
    """
    if full or size <= 2 * PROOF_END + PROOF_SAMPLES * PROOF_SAMPLE:
        return [(0, size)], []
    spans = [(0, PROOF_END), (size - PROOF_END, PROOF_END)]
    edges = _edges(size)
    thrown = dice(8 * PROOF_SAMPLES)
    samples = []
    for stratum in range(PROOF_SAMPLES):
        low, high = edges[stratum], edges[stratum + 1]
        page = low + int.from_bytes(thrown[8 * stratum : 8 * stratum + 8], "little") % (high - low)
        samples.append(PROOF_END + page * PROOF_SAMPLE)
    samples += [start // PROOF_SAMPLE * PROOF_SAMPLE for start in starts if PROOF_END <= start < size - PROOF_END]
    return spans, samples


def pages_between(size: int) -> int:
    """Pages between the ends; the last may lap over the tail."""
    return -(-(size - 2 * PROOF_END) // PROOF_SAMPLE)


def _edges(size: int) -> List[int]:
    """The first page of every stratum, counted from the end of the head, and the end of the last."""
    pages = pages_between(size)
    return [stratum * pages // PROOF_SAMPLES for stratum in range(PROOF_SAMPLES + 1)]


_CHUNK = MIB


def prove_blank(
    path: str,
    size: int,
    full: bool = False,
    ones_are_blank: bool = False,
    starts: Sequence[int] = (),
    fd: int = -1,
    between: Optional[Tuple[int, int]] = None,
    offset: int = 0,
    tails: Sequence[bytes] = (),
) -> BlankProof:
    """Show that a device holds nothing, or say what it holds and where. An unreadable place is never blank.

    *ones_are_blank*: uniform 0xFF counts as blank as well, where the drive says that it returns that for
    deallocated blocks. *fd*: an already open descriptor of the device, left open. *between*: whole pages, from
    byte to byte, where what lies outside is known otherwise. *offset*: the *size* bytes that are looked at begin there;
    *starts* count from it. *tails*: a sector that ends with one of these is of a load of ours, and counts as blank.
    """
    spans, samples = proof_spans(size, full, starts)
    own = open_read(path) if fd < 0 else fd
    buffer = mmap.mmap(-1, _CHUNK)  # one for all reads: mapping anew costs more than a sample
    blanks = [_filled(b"\0")] + ([_filled(b"\xff")] if ones_are_blank else [])
    try:
        chunks = [(at, min(_CHUNK, start + length - at)) for start, length in spans for at in range(start, start + length, _CHUNK)]
        chunks += [(sample, PROOF_SAMPLE) for sample in samples]
        if between:
            cut = [(max(at, between[0]), min(at + length, between[1])) for at, length in chunks]
            chunks = [(first, end - first) for first, end in cut if first < end]
        tell = Progress("blank proof of %s" % path, sum(length for _at, length in chunks))
        data, data_at, unread = _first_fault(own, [(offset + at, length) for at, length in chunks], buffer, blanks, tuple(tails), tell)
    finally:
        if fd < 0:
            os.close(own)
    return BlankProof(sum(length for _offset, length in chunks), len(samples), (data,) if data else (), data_at, (unread,) if unread else ())


TELL_SECONDS = 30.0


class Progress:
    """How far the proof or the discard of a device is, in the host's log: it can take hours, and nothing else shows its progress."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, max(total, 1), 0
        self.began = self.reported = time.monotonic()

    def __call__(self, length: int) -> None:
        self.done += length
        now = time.monotonic()
        if now - self.reported >= TELL_SECONDS:
            self.reported = now
            rate = self.done / (now - self.began)
            left = (self.total - self.done) / rate / 60
            text = "plumbline: %s: %d %%, %s of %s at %s/s, %d minutes left"
            syslog.syslog(text % (self.what, 100 * self.done // self.total, human(self.done), human(self.total), human(int(rate)), left))


def _filled(byte: bytes) -> mmap.mmap:
    """_CHUNK bytes of one value, to compare with."""
    filled = mmap.mmap(-1, _CHUNK)
    if byte != b"\0":  # as which it came
        filled.write(byte * _CHUNK)
    return filled


def _first_fault(
    fd: int, chunks: Sequence[Tuple[int, int]], buffer: mmap.mmap, blanks: Sequence[mmap.mmap], tails: Tuple[bytes, ...], tell: Callable[[int], None]
) -> Tuple[str, int, str]:
    """The first thing in the chunks (offset, length) that is not blank: (data as a sentence, where it is or -1, what could not be read as a sentence).

    The C library compares in place, and other threads run meanwhile: a copy of each chunk would cost more than its read.
    """
    differ = ctypes.CDLL(None).memcmp
    differ.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    here, zero, others = _address(buffer), _address(blanks[0]), [_address(blank) for blank in blanks[1:]]
    views = {length: [memoryview(buffer)[:length]] for length in {length for _offset, length in chunks}}
    for offset, length in chunks:
        try:
            got = os.preadv(fd, views[length], offset)
        except OSError as fault:
            return "", -1, "byte %d could not be read: %s" % (offset, fault.strerror or fault)
        tell(length)
        if got != length:
            return "", -1, "byte %d could not be read: the device ended early" % (offset + got)
        if differ(here, zero, length) and all(differ(here, other, length) for other in others):
            first = _first_byte(buffer[:length], tails, b"\0\xff" if others else b"\0")
            if first is not None:
                at = offset + first
                return "unrecognised data that is not zero, first at byte %d (%s from the start)" % (at, human(at)), at, ""
    return "", -1, ""


def _first_byte(chunk: bytes, tails: Tuple[bytes, ...], blanks: bytes) -> Optional[int]:
    """Where the first sector with data begins; None where each of them ends with one of *tails*, or holds one of the bytes *blanks* and no other."""
    for at in range(0, len(chunk), 512):
        sector = chunk[at : at + 512]
        if not (tails and (sector.endswith(tails) or any(sector.count(byte) == len(sector) for byte in blanks))) and any(sector):
            return at
    return None


def _address(buffer: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def prove_all(jobs: Sequence[Dict[str, Any]]) -> List[BlankProof]:
    """prove_blank() for several devices at once, one thread each, since each waits for its own device."""
    # What is not proven is not blank, whatever may end a thread early.
    results = [BlankProof(0, 0, unread=("the device could not be proven blank",))] * len(jobs)

    def work(number: int) -> None:
        try:
            results[number] = prove_blank(**jobs[number])
        except OSError as fault:
            results[number] = BlankProof(0, 0, unread=("could not be opened: %s" % (fault.strerror or fault),))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
