# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_disk_activity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ata import zeros_after_trim
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_disk_activity import Account
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim import run
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import KIB, MIB, sparse_file


@pytest.mark.parametrize(
    "accounts, counted",
    [
        ([Account(0, 0), Account(64 * MIB, 0), Account(70 * MIB, 64 * MIB)], 64 * MIB),
        ([Account(0, 9), Account(64 * MIB, 9), Account(64 * MIB, 9)], 0),
        ([Account(0, 0), Account(0, 0), Account(0, 0)], None),  # the head of a multipath, which counts nothing
        ([None, None, None], None),
    ],
)
def test_what_the_kernel_counted(accounts, counted):
    assert run._counted(64 * MIB, accounts) == counted


def test_whole_block_groups_are_trimmed(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(run.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(run.ask_file, "trim", lambda fd, start, length: calls.append((start, length)) or 5)
    monkeypatch.setattr(run.os, "fstatvfs", lambda _fd: type("Room", (), {"f_bsize": 4096}))
    assert run._trim(3, [Span(300 * MIB, MIB), Span(130 * MIB, MIB)]) == 5 * run.TURNS
    assert calls == [(128 * MIB, 256 * MIB)] * run.TURNS


@pytest.mark.parametrize("words, zeros", [(0, False), (1 << 14, False), (1 << 5, False), (1 << 14 | 1 << 5, True), (0xFFFF, True)])
def test_a_drive_that_promises_zeros(words, zeros):
    raw = bytearray(512)
    struct.pack_into("<H", raw, 2 * 69, words)
    assert zeros_after_trim(bytes(raw)) is zeros
    assert zeros_after_trim(b"") is False


@pytest.mark.parametrize(
    "stat, iostats, account",
    [
        ("1 0 8 2 1 0 16 2 0 4 4 3 0 24 1 0 0", "1", Account(16 * 512, 24 * 512)),
        ("1 0 8 2 1 0 16 2 0 4 4", "1", None),  # before Linux 4.18
        ("1 0 8 2 1 0 16 2 0 4 4 3 0 24 1 0 0", "0", None),
    ],
)
def test_the_account_of_a_disk(monkeypatch, stat, iostats, account):
    monkeypatch.setattr(read_disk_activity, "read_text", lambda path: iostats if path.endswith("iostats") else stat)
    assert read_disk_activity.read_account("sda") == account


@pytest.mark.parametrize("what, contents", [(b"", "kept"), (b"\0", "blank"), (b"\xff", "changed"), (b"x", "changed")])
def test_what_became_of_the_contents(monkeypatch, tmp_path, what, contents):
    """A file stands for the drive; *what* it holds after the trim."""
    path = sparse_file(tmp_path, 2 * MIB, (0, bytes(range(1, 251)) * 8389))
    drive = Node("8:0", "sda", "disk", 2 * MIB, Limits(512, discard_granularity=64 * KIB))
    monkeypatch.setattr(Node, "path", path)
    monkeypatch.setattr(read_disk_activity, "read_account", lambda _name: None)
    look = run._Look(drive, [Span(100 * KIB, MIB)], (None, None))
    assert all(place >= 128 * KIB and place + run.READ <= 1088 * KIB for place in look.samples)  # no granule that the trim may not free
    with open(path, "r+b") as handle:
        handle.write(what * 2 * MIB)
    assert look._contents((b"\0",)) == contents


def test_a_place_that_held_no_data_before_tells_nothing(monkeypatch, tmp_path):
    path = sparse_file(tmp_path, 2 * MIB)
    monkeypatch.setattr(Node, "path", path)
    monkeypatch.setattr(read_disk_activity, "read_account", lambda _name: None)
    look = run._Look(Node("8:0", "sda", "disk", 2 * MIB, Limits(512)), [Span(0, MIB)], (None, None))
    assert look._contents((b"\0",)) == "changed"
