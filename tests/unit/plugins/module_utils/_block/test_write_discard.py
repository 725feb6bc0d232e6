# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_blank_proof, write_discard
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB

TIB = 1 << 40


class Drive:
    """A device that counts its discards, and fails with *fault* from byte *fails_at* on."""

    def __init__(self, monkeypatch, fails_at=-1, fault=errno.EIO):
        self.spans, self.fails_at, self.fault = [], fails_at, fault
        monkeypatch.setattr(write_discard.block_device, "discard", self.discard)

    def discard(self, _fd, offset, length):
        if 0 <= self.fails_at < offset + length:
            raise OSError(self.fault, "it fails")
        self.spans.append((offset, length))


def node(size=4 * TIB, discard_max=2 * TIB, logical=512, **limits):
    return Node("8:0", "sda", "disk", size, Limits(logical, **limits), discard_max=discard_max)


@pytest.mark.parametrize(
    "size, span",
    [
        (10 * GIB, Span(MIB, 10 * GIB - 2 * MIB)),
        (10 * GIB + 512, Span(MIB, 10 * GIB - 2 * MIB)),  # the backup table lies in the last MiB, wherever that begins
        (10 * GIB - 512, Span(MIB, 10 * GIB - 3 * MIB)),
        (MIB, Span(MIB, 0)),
    ],
)
def test_the_ends_are_kept(size, span):
    assert write_discard.owned(size) == span
    assert span.end <= max(size - MIB, MIB)


@pytest.mark.parametrize(
    "granularity, alignment",
    [(512, 0), (4096, 0), (4096, 3584), (3 * 512, 0), (3 * 512, 512), (MIB, 3584), (GIB, 0), (64 * GIB, MIB)],
)
def test_granules_are_cut_at_the_ends_only(granularity, alignment):
    dice = random.Random(granularity + alignment)
    for _turn in range(50):
        span = Span(dice.randrange(1, 4096) * 512, dice.randrange(1, 4 * TIB // 512) * 512)
        steps = write_discard.discard_steps(span, granularity, alignment)
        assert steps[0].start == span.start and steps[-1].end == span.end
        assert [step.end for step in steps[:-1]] == [step.start for step in steps[1:]]
        assert all(step.start % granularity == alignment % granularity for step in steps[1:])
        assert all(0 < step.length <= 2 * write_discard.STEP for step in steps)


@pytest.mark.parametrize(
    "limits",
    [
        {"discard_granularity": 3 * 512},
        {"discard_granularity": 4096, "discard_alignment": 3584},
        {"discard_granularity": 2 * MIB, "discard_max": 65536},  # less than a granule at once: the kernel splits it, or sends it whole
        {"discard_granularity": TIB},
        {"discard_granularity": None, "discard_alignment": -1},  # what the kernel could not work out
        {"logical": 4096, "discard_granularity": 3 * 512, "discard_alignment": 512},
    ],
)
def test_every_byte_is_asked_for_once_in_whole_blocks(monkeypatch, limits):
    drive, device = Drive(monkeypatch), node(**limits)
    span = write_discard.owned(device.size)
    assert write_discard.discard_span(device, 3, span) == span.length == sum(length for _offset, length in drive.spans)
    assert all(offset % device.limits.logical == 0 == length % device.limits.logical for offset, length in drive.spans)
    assert all(drive.spans[number][0] + drive.spans[number][1] == drive.spans[number + 1][0] for number in range(len(drive.spans) - 1))


@pytest.mark.parametrize("fault", [errno.EIO, errno.ETIMEDOUT, errno.EREMOTEIO, errno.EOPNOTSUPP])
def test_a_discard_that_fails_half_way_is_one_line(monkeypatch, fault):
    drive = Drive(monkeypatch, 2 * TIB, fault)
    with pytest.raises(PlumblineError) as caught:
        write_discard.discard_span(node(), 3, write_discard.owned(4 * TIB))
    at = MIB + 31 * write_discard.STEP
    assert caught.value.msg == (
        "/dev/sda: the discard failed at byte %d, after %d of %d bytes: it fails"
        % (at, at - MIB, 4 * TIB - 2 * MIB)
    )
    assert not caught.value.reasons
    drive.fails_at = -1  # the next run, behind its own proof
    assert write_discard.discard_span(node(), 3, write_discard.owned(4 * TIB)) == 4 * TIB - 2 * MIB


def test_a_device_without_discards(monkeypatch):
    drive = Drive(monkeypatch)
    assert write_discard.discard_span(node(discard_max=0), 3, write_discard.owned(4 * TIB)) == 0 and not drive.spans
    Drive(monkeypatch, 0, errno.EOPNOTSUPP)  # it has a limit, and refuses
    assert write_discard.discard_span(node(), 3, write_discard.owned(4 * TIB)) == 0


def test_a_long_discard_tells_how_far_it_is(monkeypatch):
    told = []
    Drive(monkeypatch)
    monkeypatch.setattr(read_blank_proof.syslog, "syslog", told.append)
    monkeypatch.setattr(read_blank_proof, "TELL_SECONDS", 0.0)
    write_discard.discard_span(node(), 3, write_discard.owned(4 * TIB))
    assert len(told) == 64 and told[0].startswith("plumbline: discard of /dev/sda: 1 %, 64 GiB of ") and "100 %" in told[-1]
