# SPDX-License-Identifier: GPL-3.0-or-later
"""The readings that are kept of drives: bounded, root's alone, begun anew where they cannot be of the same drive."""

from __future__ import annotations

import os
import stat

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import keep_readings
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.keep_readings import (
    compare_readings,
    load_readings,
    parse_readings,
    path_of_drive,
    save_reading,
)

DAY = 86400
NOW = 1_800_000_000
DRIVE = Health(model="M", serial="S1", firmware="F", used=3, wwn="naa.5002538e403e1157", counters={"power_on_hours": 100, "pending": 2, "media_errors": 0})


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr(keep_readings, "DIRECTORY", str(tmp_path / "plumbline" / "health"))
    return tmp_path / "plumbline" / "health"


def keep(drive=DRIVE, now=NOW):
    kept = compare_readings(drive, load_readings(drive.key), now)
    if kept.due:
        save_reading(drive.key, kept.readings, drive, now)
    return kept


def test_one_a_day(directory):
    assert keep() == ((), True, "")
    (path,) = directory.iterdir()
    assert path.name == "naa.5002538e403e1157.jsonl" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keep(now=NOW + DAY - 1).due is False
    assert keep(now=NOW + DAY).due is True
    assert [one.when for one in load_readings(DRIVE.key)] == [NOW, NOW + DAY]
    assert load_readings(DRIVE.key)[0].counters == DRIVE.counters


def test_the_first_stays_and_the_oldest_after_it_go():
    keep()
    (first,) = load_readings(DRIVE.key)
    full = tuple(first._replace(when=NOW + number) for number in range(keep_readings.MAX_READINGS))
    save_reading(DRIVE.key, full, DRIVE, NOW + DAY)
    found = load_readings(DRIVE.key)
    assert len(found) == keep_readings.MAX_READINGS
    assert [one.when - NOW for one in (*found[:2], found[-1])] == [0, 2, DAY]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counters": {"power_on_hours": 99}}, "power_on_hours fell from 100 to 99"),
        ({"serial": "S2"}, "another drive answers: M S2, it was M S1"),
        ({"model": "N"}, "another drive answers: N S1"),
        ({"counters": {"power_on_hours": 100, "pending": 0}}, ""),
        ({"counters": {}}, ""),
        ({"firmware": "F2"}, ""),
    ],
)
def test_what_falls_begins_anew(change, words):
    keep()
    kept = keep(DRIVE._replace(**change), NOW + DAY)
    assert kept.warning.startswith(words) and bool(kept.warning) is bool(words)
    assert len(load_readings(DRIVE.key)) == (1 if words else 2)


def test_a_clock_that_was_set_back():
    keep()
    assert "has not come yet" in keep(now=NOW - 1).warning


@pytest.mark.parametrize(
    "line", ["", "x", "[]", "{}", '{"when": true}', '{"when": 5, "model": 1, "serial": "", "firmware": "", "used": null, "counters": {}}', "[" * 10000]
)
def test_a_line_that_is_no_reading(line):
    keep()
    with open(path_of_drive(DRIVE.key), "a", encoding="utf-8") as handle:
        handle.write(line + "\n")
    assert len(load_readings(DRIVE.key)) == 1
    assert parse_readings(line) == ()


def test_a_file_of_others_is_no_baseline():
    keep()
    os.chmod(path_of_drive(DRIVE.key), 0o666)
    assert load_readings(DRIVE.key) == ()
    os.unlink(path_of_drive(DRIVE.key))
    os.symlink("/etc/passwd", path_of_drive(DRIVE.key))
    assert load_readings(DRIVE.key) == ()


@pytest.mark.parametrize("key", ["serial:../../etc/x/y", "serial:<script>/\n", "wwn:" + "a" * 500])
def test_a_name_stays_in_its_directory(key):
    path = path_of_drive(key)
    assert os.path.dirname(os.path.realpath(path)) == keep_readings.DIRECTORY and len(os.path.basename(path)) < 255 and path.isprintable()


def test_no_two_drives_have_one_file():
    keys = ["wwn:a_b", "wwn:a b", "wwn:a.b", "serial:a/b", "serial:a b/c", "serial:a/b c", "serial:a/b_c", "serial:a_b/c"]
    keys += ["wwn:" + "a" * 300, "wwn:" + "a" * 301]
    assert len({path_of_drive(key) for key in keys}) == len(keys)
    assert path_of_drive("wwn:naa.5002538e4035a1b2") == keep_readings.DIRECTORY + "/naa.5002538e4035a1b2.jsonl"


def test_what_cannot_be_kept_is_told(directory):
    directory.parent.mkdir()
    directory.write_text("x")
    with pytest.raises(PlumblineError, match="the reading could not be kept"):
        keep()
