# SPDX-License-Identifier: GPL-3.0-or-later
"""Blank proofs on files: O_DIRECT on a sparse file reads as a disk's zeros do."""

from __future__ import annotations

import errno
import functools
import itertools
import os
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, read_blank_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_blank_proof import (
    PROOF_END,
    PROOF_SAMPLE,
    PROOF_SAMPLES,
    proof_spans,
    prove_all,
    prove_blank,
)
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, sparse_file

LIMIT = 2 * PROOF_END + PROOF_SAMPLES * PROOF_SAMPLE


@pytest.fixture
def sparse(tmp_path):
    """A maker of sparse files."""
    return functools.partial(sparse_file, tmp_path)


# --- where it looks --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4096, MIB, PROOF_END, LIMIT])
def test_a_small_device_is_read_whole(size):
    assert proof_spans(size, False, []) == ([(0, size)], [])


@pytest.mark.parametrize("size", [LIMIT + 512, 10 * GIB, 8 << 40])
def test_full_reads_all(size):
    assert proof_spans(size, True, [MIB]) == ([(0, size)], [])


@pytest.mark.parametrize("size", [LIMIT + 512, LIMIT + 4096 * 3 + 512, GIB, 10 * GIB + 512 * 3, 240057409536, 3840755982336, 15 << 40])
def test_spans_and_samples(size):
    """Both ends whole, a sample in every stratum, all inside the device and on whole pages."""
    for _try in range(3):
        spans, samples = proof_spans(size, False, [])
        assert spans == [(0, PROOF_END), (size - PROOF_END, PROOF_END)]
        assert len(samples) == PROOF_SAMPLES
        width = (size - 2 * PROOF_END) / PROOF_SAMPLES
        for stratum, at in enumerate(samples):
            assert at % PROOF_SAMPLE == 0 and PROOF_END <= at <= size - PROOF_SAMPLE
            assert PROOF_END + stratum * width - 2 * PROOF_SAMPLE <= at <= PROOF_END + (stratum + 1) * width + PROOF_SAMPLE
        gaps = [high - low for low, high in itertools.pairwise(samples)]
        assert max(gaps) <= 2 * width + 2 * PROOF_SAMPLE


def test_samples_differ_between_runs():
    assert proof_spans(GIB, False, [])[1] != proof_spans(GIB, False, [])[1]


@pytest.mark.parametrize(
    "start, sampled",
    [
        (MIB, None),
        (PROOF_END, PROOF_END),
        (PROOF_END + 5000, PROOF_END + 4096),
        (GIB - PROOF_END, None),
        (GIB - PROOF_END - 512, GIB - PROOF_END - 4096),
        (2 * GIB, None),
    ],
)
def test_our_own_starts_are_looked_at(start, sampled):
    samples = proof_spans(GIB, False, [start])[1]
    assert samples[PROOF_SAMPLES:] == ([sampled] if sampled is not None else [])


# --- what it sees ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [512 * 9, 4 * MIB, 4 * MIB + 512, 9 * MIB + 4096, LIMIT + MIB])
def test_blank(sparse, size):
    proof = prove_blank(sparse(size), size)
    assert proof.faults == () and proof.read_bytes == min(size, LIMIT)


PLACES = [0, 1, 511, 512, 446, 510, 1080, 4095, 32256, 34 * 512, MIB - 1, MIB, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 8 * MIB - 1, 9 * MIB - 1]


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("byte", [b"\x01", b"\x80", b"\xff"])
def test_one_byte_is_seen_and_told(sparse, at, byte):
    size = 9 * MIB
    proof = prove_blank(sparse(size, (at, byte)), size)
    (fault,) = proof.faults
    assert fault.startswith("unrecognised data that is not zero, first at byte %d (" % (at // 512 * 512))


def test_one_byte_anywhere_under_a_full_proof(sparse):
    dice = random.Random(11)
    size = 24 * MIB
    for number in range(40):
        at = dice.randrange(size)
        path = sparse(size, (at, b"\x01"), name="d%d" % number)
        assert prove_blank(path, size, full=True).faults


def test_a_long_proof_tells_how_far_it_is(sparse, monkeypatch):
    told = []
    monkeypatch.setattr(read_blank_proof.syslog, "syslog", told.append)
    monkeypatch.setattr(read_blank_proof, "TELL_SECONDS", 0.0)
    path = sparse(5 * MIB)
    assert read_blank_proof.prove_blank(str(path), 5 * MIB, full=True).faults == ()
    assert told and told[-1].startswith("plumbline: blank proof of %s: 100 %%, 5 MiB of 5 MiB at " % path) and told[-1].endswith("/s, 0 minutes left")
    monkeypatch.setattr(read_blank_proof, "TELL_SECONDS", 3600.0)
    told.clear()
    read_blank_proof.prove_blank(str(path), 5 * MIB, full=True)
    assert told == []


def test_both_ends_of_a_large_device(sparse):
    size = 4 * GIB
    for at in (0, 100, PROOF_END - 1, size - PROOF_END, size - 1, size - 512):
        assert prove_blank(sparse(size, (at, b"x")), size).faults, at
    assert prove_blank(sparse(size, (2 * GIB, b"x")), size).read_bytes == 2 * PROOF_END + PROOF_SAMPLES * PROOF_SAMPLE


def test_a_run_as_long_as_two_strata_is_always_found(sparse):
    """Data that covers two strata covers every sample of one of them."""
    size = GIB
    width = (size - 2 * PROOF_END) // PROOF_SAMPLES
    run = 2 * width + 2 * PROOF_SAMPLE
    path = sparse(size, *((PROOF_END + 300 * width + 777 + part * 65536, b"\x5a" * 65536) for part in range(run // 65536 + 1)))
    for _try in range(5):
        assert prove_blank(path, size).faults


def test_a_filesystem_behind_a_zapped_table(sparse):
    """A scattered fill of one per mille, none of it in the ends, is found nearly always; here of a pattern that must be."""
    size = GIB
    path = sparse(size, *((at, b"\x01" * 4096) for at in range(PROOF_END, size - PROOF_END, 64 * 4096)))
    found = sum(bool(prove_blank(path, size).faults) for _try in range(3))
    assert found == 3


def test_our_start_is_seen_between_the_samples(sparse):
    size, start = 4 * GIB, 3 * GIB + 12288
    path = sparse(size, (start + 1080, b"\x53\xef"))
    assert prove_blank(path, size, starts=[start]).faults


@pytest.mark.parametrize(
    "ones, data, blank",
    [
        (True, [(0, b"\xff" * 9 * MIB)], True),
        (False, [(0, b"\xff" * 9 * MIB)], False),
        (True, [(0, b"\xff" * 512)], False),
        (True, [(0, b"\xff" * 9 * MIB), (5 * MIB, b"\xfe")], False),
        (True, [(0, b"\xff" * 4 * MIB)], True),
        (True, [], True),
    ],
)
def test_ones_are_blank_only_where_the_drive_says_so(sparse, ones, data, blank):
    assert (prove_blank(sparse(9 * MIB, *data), 9 * MIB, ones_are_blank=ones).faults == ()) is blank


def test_a_device_that_ends_early_is_not_blank(sparse):
    proof = prove_blank(sparse(4 * MIB), 8 * MIB)
    assert proof.faults == ("byte 4194304 could not be read: the device ended early",)


def test_a_place_that_cannot_be_read_is_not_blank(sparse, monkeypatch):
    real = os.preadv

    def fail(fd, buffers, offset):
        if offset >= 4 * MIB:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, buffers, offset)

    monkeypatch.setattr(block_device.os, "preadv", fail)
    proof = prove_blank(sparse(9 * MIB), 9 * MIB)
    assert proof.faults == ("byte 4194304 could not be read: Input/output error",)


def test_an_open_descriptor_stays_open(sparse):
    path = sparse(MIB)
    fd = block_device.open_read(path)
    assert prove_blank(path, MIB, fd=fd).faults == ()
    assert block_device.read_at(fd, 0, 4096) == bytes(4096)
    os.close(fd)


def test_several_at_once_keep_their_order(sparse):
    jobs = [{"path": sparse(MIB, *([(number * 512, b"x")] if number % 2 else []), name="d%d" % number), "size": MIB} for number in range(7)]
    jobs[4]["path"] += "-gone"
    proofs = prove_all(jobs)
    assert [bool(proof.faults) for proof in proofs] == [False, True, False, True, True, True, False]
    assert proofs[4].faults == ("could not be opened: No such file or directory",)


def test_a_thread_that_ends_early_proves_nothing(sparse, monkeypatch):
    """Every job keeps its own result, and a job without one is not blank."""
    monkeypatch.setattr(read_blank_proof.threading, "excepthook", lambda _args: None)
    jobs = [{"path": sparse(MIB, name="d%d" % number), "size": MIB} for number in range(3)]
    jobs[1]["size"] = "nonsense"
    assert [proof.faults for proof in prove_all(jobs)] == [(), ("the device could not be proven blank",), ()]


def test_read_head(sparse):
    path = sparse(MIB, (0, b"head"), (4096, b"more"))
    assert block_device.read_head(path, 34 * 512) == b"head" + bytes(4092) + b"more" + bytes(16 * 1024 - 4)
    with pytest.raises(OSError, match="short read"):
        block_device.read_head(path, 2 * MIB)


def test_why_busy(sparse, monkeypatch):
    assert block_device.why_busy("/no/such/device") == "No such file or directory"

    def busy(*_args):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(block_device.os, "open", busy)
    assert block_device.why_busy("/dev/x") == "in use by the kernel or another program"


def test_identify_namespace_of_what_is_none(sparse):
    assert block_device.identify_namespace(sparse(MIB), 1) is None and block_device.identify_namespace("/no/such/device", 1) is None
