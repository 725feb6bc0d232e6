# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings are put back whatever happens to the process that changed them."""

from __future__ import annotations

import os
import signal
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import change_sysfs_settings
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError


@pytest.fixture
def files(tmp_path):
    """Files that stand for settings: one at 0, one at 1, one as it is wanted already."""
    found = {}
    for number, value in enumerate("012"):
        path = tmp_path / ("nomerges%d" % number)
        path.write_text(value)
        found[str(path)] = value
    return found


def read(files):
    return {path: change_sysfs_settings._read(path) for path in files}


def test_changed_within_and_put_back_afterwards(files):
    with change_sysfs_settings.changed(dict.fromkeys(files, "2")) as old:
        assert old == files
        assert set(read(files).values()) == {"2"}
    assert read(files) == files


def test_a_name_that_is_another_device_s_when_it_is_put_back(tmp_path):
    """Each device gets its own back, and the one that has the name by then is left alone."""
    for name, value in (("own", "0"), ("other", "1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nomerges").write_text(value)
    (tmp_path / "sda").symlink_to(tmp_path / "own")
    with change_sysfs_settings.changed({str(tmp_path / "sda/nomerges"): "2"}):
        (tmp_path / "sda").unlink()
        (tmp_path / "sda").symlink_to(tmp_path / "other")
    assert [(tmp_path / name / "nomerges").read_text() for name in ("own", "other")] == ["0", "1"]


def test_put_back_after_an_error(files):
    with pytest.raises(ValueError), change_sysfs_settings.changed(dict.fromkeys(files, "2")):
        raise ValueError
    assert read(files) == files


def test_nothing_to_change_starts_no_guardian(monkeypatch, files):
    monkeypatch.setattr(change_sysfs_settings.os, "fork", lambda: pytest.fail("a guardian was started"))
    with change_sysfs_settings.changed(files):
        assert read(files) == files
    with change_sysfs_settings.changed({}):
        pass


def test_one_that_cannot_be_read(files):
    with pytest.raises(PlumblineError, match="/not/there could not be read"), change_sysfs_settings.changed({"/not/there": "2"}):
        pass


def test_one_that_goes_away_with_its_device(files):
    gone = min(files)
    with change_sysfs_settings.changed(dict.fromkeys(files, "2")):
        os.unlink(gone)
    assert {path: value for path, value in files.items() if path != gone} == read(sorted(files)[1:])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_put_back_by_the_guardian_when_we_are_killed(files, number):
    child = os.fork()
    if child == 0:
        try:
            with change_sysfs_settings.changed(dict.fromkeys(files, "2")):
                time.sleep(60)
        finally:
            os._exit(1)
    end = time.monotonic() + 20
    while set(read(files).values()) != {"2"} and time.monotonic() < end:
        time.sleep(0.01)
    assert set(read(files).values()) == {"2"}
    os.kill(child, number)
    os.waitpid(child, 0)
    while read(files) != files and time.monotonic() < end:
        time.sleep(0.01)
    assert read(files) == files


def test_the_guardian_outlives_its_group_and_holds_nothing_open(files):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            with change_sysfs_settings.changed(dict.fromkeys(files, "2")):
                os.write(writing, b"x")
                time.sleep(60)
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 1) == b"x"
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.read(reading, 1) == b""  # nobody holds the other end, the guardian neither
    os.close(reading)
    end = time.monotonic() + 20
    while read(files) != files and time.monotonic() < end:
        time.sleep(0.01)
    assert read(files) == files
