# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the stand-in for get-pip.py."""

from __future__ import annotations

from pathlib import Path

import ansible_test_pip
import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ansible_test_pip, "pip_version", lambda: "24.2")
    return tmp_path


def test_it_is_put_where_ansible_test_looks(home: Path) -> None:
    path = ansible_test_pip.provide()
    assert path == home / ".ansible/test/cache/get_pip_24_2.py"
    compile(path.read_text(), str(path), "exec")


def test_a_second_call_changes_nothing(home: Path) -> None:
    before = ansible_test_pip.provide().stat()
    after = ansible_test_pip.provide().stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_an_older_one_of_ours_is_replaced_and_a_genuine_one_stays(home: Path) -> None:
    path = ansible_test_pip.provide()
    ours = path.read_text()
    path.write_text("# made by plumbline.ssd\nold")
    assert ansible_test_pip.provide().read_text() == ours
    path.write_text("#!/usr/bin/env python\n# the genuine one\n")
    assert ansible_test_pip.provide().read_text().endswith("genuine one\n")


def test_the_installed_ansible_test_names_its_pip() -> None:
    assert ansible_test_pip.pip_version()[0].isdigit()
