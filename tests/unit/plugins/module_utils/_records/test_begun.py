# SPDX-License-Identifier: GPL-3.0-or-later
"""Filesystems that are being made: recorded until they stand, so that nobody takes one that lost its superblock for the rest of an mkfs."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._records import begun


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(begun, "MAKING", str(tmp_path / "kept" / "making.json"))
    monkeypatch.setattr(begun, "BY_UUID", str(tmp_path) + "/")
    return tmp_path


def test_what_is_about_to_be_made_is_recorded_until_it_stands(place):
    begun.note_making(["a", "b"], [])
    assert begun.load_making() == ["a", "b"]
    begun.note_making([], ["a"])
    begun.note_making(["c"], [])
    assert begun.load_making() == ["b", "c"]
    begun.note_making([], ["b", "c", "d"])
    assert begun.load_making() == []


def test_a_run_that_fails_behind_mkfs_leaves_no_leave_to_make_it_anew(place):
    """It does not read back. The volume may hold a database when it loses its superblock."""
    begun.note_making(["a", "b", "c"], [])
    (place / "a").write_text("")
    begun.forget_made(["b"])
    assert begun.load_making() == ["c"]
    (place / "c").write_text("")
    begun.forget_made()
    assert begun.load_making() == []


@pytest.mark.parametrize("text", ["", "[]", "3", '{"filesystems": "a"}', '{"filesystems": [3]}'])
def test_a_record_that_says_nothing(place, text):
    (place / "kept").mkdir()
    (place / "kept" / "making.json").write_text(text)
    assert begun.load_making() == []
