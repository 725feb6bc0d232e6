# SPDX-License-Identifier: GPL-3.0-or-later
"""Filesystems that are being made: recorded until they stand, so that nobody takes one that lost its superblock for the rest of an mkfs."""

from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import fixture, sparse_file


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(keep_begun, "MAKING", str(tmp_path / "kept" / "making.json"))
    monkeypatch.setattr(keep_begun, "GROWN", str(tmp_path / "kept" / "grown.json"))
    monkeypatch.setattr(keep_begun, "BY_UUID", str(tmp_path) + "/")
    return tmp_path


def test_what_is_about_to_be_made_is_recorded_until_it_stands(place):
    keep_begun.note_making(["a", "b"], [])
    assert keep_begun.load_making() == ["a", "b"]
    keep_begun.note_making([], ["a"])
    keep_begun.note_making(["c"], [])
    assert keep_begun.load_making() == ["b", "c"]
    keep_begun.note_making([], ["b", "c", "d"])
    assert keep_begun.load_making() == []


def test_a_run_that_fails_behind_mkfs_leaves_no_leave_to_make_it_anew(place):
    """It does not read back. The volume may hold a database when it loses its superblock."""
    keep_begun.note_making(["a", "b", "c"], [])
    (place / "a").write_text("")
    keep_begun.forget_made(["b"])
    assert keep_begun.load_making() == ["c"]
    (place / "c").write_text("")
    keep_begun.forget_made()
    assert keep_begun.load_making() == []


@pytest.mark.parametrize("text", ["", "[]", "3", '{"filesystems": "a"}', '{"filesystems": [3]}'])
def test_a_record_that_says_nothing(place, text):
    (place / "kept").mkdir()
    (place / "kept" / "making.json").write_text(text)
    assert keep_begun.load_making() == []


def test_an_xfs_that_was_not_made_to_the_end_stays_recorded(place):
    """udev has a link to it as soon as mkfs has written the first superblock."""
    row = json.loads(fixture("xfs.json"))["ours"][2]
    keep_begun.note_making(["cut", "whole"], [])
    for name, raw in (("cut", row["copy"]), ("whole", row["superblock"])):
        sparse_file(place, 1 << 20, (0, bytes.fromhex(raw)), name=name)
    keep_begun.forget_made()
    assert keep_begun.load_making() == ["cut"]


def test_the_groups_of_what_grew_are_kept_once_each_and_not_without_end(place):
    for size in (5, 7, 5):
        keep_begun.add_group(size)
    assert keep_begun.load_groups() == [5, 7]
    for size in range(100, 200):
        keep_begun.add_group(size)
    assert keep_begun.load_groups() == list(range(136, 200))


@pytest.mark.parametrize("text", ["", "[]", '{"groups": 3}', '{"groups": ["a", 0, -4]}'])
def test_groups_that_say_nothing(place, text):
    (place / "kept").mkdir()
    (place / "kept" / "grown.json").write_text(text)
    assert keep_begun.load_groups() == []
