# SPDX-License-Identifier: GPL-3.0-or-later
"""The module from its options to its result, with drives in memory: what is kept, in check mode as well, and what is warned of."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._model.drive_health import Health, Source
from ansible_collections.plumbline.ssd.plugins.module_utils._records import health_baseline
from ansible_collections.plumbline.ssd.plugins.modules import drive_health

DRIVE = Health(source="smartctl", protocol="NVMe", model="M", serial="S1X2", firmware="F", passed=True, critical_warning=0, counters={"power_cycles": 5})
PARAMS = {"devices": [], "members": [], "timeout": 30, "baseline": True, "stacks": [], "endurance": [], "advisories": [], "fail_if": "never", "lease": {}}


@pytest.fixture
def call(tmp_path, monkeypatch):
    """(drive, check mode, options) → (result, warnings)."""
    monkeypatch.setattr(health_baseline, "DIRECTORY", str(tmp_path / "health"))
    monkeypatch.setattr(drive_health, "need_root", lambda: None)
    monkeypatch.setattr(drive_health, "peek", lambda run: (None, ""))
    monkeypatch.setattr(drive_health, "find_disks", lambda asked, everything: ([], {}))

    def run(drive=DRIVE, check=False, **options):
        result, warnings = {}, []

        class Module:
            params, check_mode, warn = {**PARAMS, **options}, check, staticmethod(warnings.append)
            get_bin_path = exit_json = fail_json = staticmethod(lambda **found: result.update(found))

        monkeypatch.setattr(drive_health, "AnsibleModule", lambda **spec: Module)
        monkeypatch.setattr(drive_health, "read_drives", lambda *asked: [(Source("/dev/nvme0", ("nvme0n1",)), drive)])
        with pytest.raises(SystemExit):
            drive_health.main()
        return result, warnings

    run.kept = lambda: sorted(path.name for path in (tmp_path / "health").glob("*"))
    return run


def test_a_reading_is_kept_once_a_day_and_never_in_check_mode(call):
    assert call(check=True)[0]["changed"] is True and call.kept() == []
    assert call(baseline=False)[0]["changed"] is False and call.kept() == []
    assert [call()[0]["changed"] for _turn in range(2)] == [True, False] and call.kept() == ["M_S1X2.jsonl"]
    (drive,) = call()[0]["drives"]
    assert (drive["baseline"]["readings"], drive["failing"], drive["key"]) == (1, False, "serial:M/S1X2")


def test_counters_that_fall_are_warned_of(call):
    call()
    result, warnings = call(DRIVE._replace(counters={"power_cycles": 4}))
    assert warnings == ["the baseline of serial:M/S1X2: power_cycles fell from 5 to 4; a new baseline begins"] and result["changed"] is True


def test_a_drive_that_was_not_read_is_not_kept(call):
    result, _warnings = call(DRIVE._replace(fault="it went away"))
    assert (result["changed"], result["level"], result["drives"][0]["failing"], call.kept()) == (False, "warning", None, [])


@pytest.mark.parametrize(
    ("drive", "fail_if", "unfit"),
    [
        (DRIVE, "warning", 0),
        (DRIVE._replace(passed=False), "never", 0),
        (DRIVE._replace(passed=False), "error", 1),
        (DRIVE._replace(fault="it went away"), "error", 0),
        (DRIVE._replace(fault="it went away"), "warning", 1),
    ],
)
def test_fail_if(call, drive, fail_if, unfit):
    """A failure has the findings as its reasons, and the report; in check mode there is none. What was read is kept."""
    result, _warnings = call(drive, fail_if=fail_if)
    assert len(result.get("reasons", [])) == unfit and result["report"] and ("drives" not in result) is bool(unfit)
    if unfit:
        assert result["msg"].startswith("the drives are not as they should be: drive nvme0n1 (S1X2): ")
    assert len(call.kept()) == (not drive.fault)
    assert "drives" in call(drive, check=True, fail_if=fail_if)[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "timeout: 0; wanted 1 to 600 seconds"),
        ({"endurance": [{"model": "M", "terabytes_written": 0}]}, "endurance: terabytes_written of M is 0; wanted more than 0"),
        ({"members": [{"path": "-h", "type": "areca,1"}]}, "members: path '-h'; wanted a node below /dev"),
    ],
)
def test_options_that_are_refused(call, options, words):
    assert call(**options)[0] == {"msg": words}
