# SPDX-License-Identifier: GPL-3.0-or-later
"""The module from its options to its result, with drives in memory: what is kept, in check mode as well, and what is warned of."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import keep_last_reading, keep_readings, read_other_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Source
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.keep_last_reading import load_last
from ansible_collections.plumbline.ssd.plugins.modules import drive_health

DRIVE = Health(source="smartctl", protocol="NVMe", model="M", serial="S1X2", firmware="F", passed=True, critical_warning=0, counters={"power_cycles": 5})
NODE = Node("259:0", "nvme0n1", "disk", 1 << 30, Limits(512, 512, 512, 0, 0), identity=Identity(serial="S1X2", model="M"))
PARAMS = {
    **{name: [] for name in ("devices", "members", "stacks", "endurance", "advisories", "leave_out")},
    "timeout": 30, "baseline": True, "fail_if": "never", "lease": {},
}


@pytest.fixture
def call(tmp_path, monkeypatch):
    """(drive, check mode, options) → (result, warnings)."""
    monkeypatch.setattr(keep_readings, "DIRECTORY", str(tmp_path / "health"))
    monkeypatch.setattr(keep_last_reading, "PATH", str(tmp_path / "health" / "last.json"))
    monkeypatch.setattr(drive_health, "need_root", lambda: None)
    monkeypatch.setattr(drive_health, "peek", lambda run: (None, ""))
    monkeypatch.setattr(drive_health, "find_disks", lambda asked, everything: ([NODE], {}))

    def run(drive=DRIVE, check=False, **options):
        result, warnings = {}, []

        class Module:
            params, check_mode, warn = {**PARAMS, **options}, check, staticmethod(warnings.append)
            get_bin_path = exit_json = fail_json = staticmethod(lambda **found: result.update(found))

        monkeypatch.setattr(drive_health, "AnsibleModule", lambda **spec: Module)
        monkeypatch.setattr(read_other_drives, "read_drives", lambda _means, nodes, *asked: [(Source("/dev/nvme0", ("nvme0n1",)), drive) for _one in nodes])
        with pytest.raises(SystemExit):
            drive_health.main()
        return result, warnings

    run.kept = lambda: sorted(path.name for path in (tmp_path / "health").glob("*"))
    return run


def test_a_reading_is_kept_once_a_day_and_never_in_check_mode(call):
    assert call(check=True)[0]["changed"] is True and call.kept() == []
    assert call(baseline=False)[0]["changed"] is False and call.kept() == []
    assert [call()[0]["changed"] for _turn in range(2)] == [True, False] and call.kept() == ["M_S1X2.jsonl", "last.json"]
    (drive,) = call()[0]["drives"]
    assert (drive["baseline"]["readings"], drive["failing"], drive["key"]) == (1, False, "serial:M/S1X2")


def test_counters_that_fall_are_warned_of(call):
    call()
    result, warnings = call(DRIVE._replace(counters={"power_cycles": 4}))
    assert warnings == ["the baseline of serial:M/S1X2: power_cycles fell from 5 to 4; a new baseline begins"] and result["changed"] is True


def test_that_a_drive_was_not_read_is_kept_but_no_reading(call):
    """So that it is asked once a day, and not in each run."""
    results = [call(DRIVE._replace(fault="it went away"))[0] for _turn in range(2)]
    assert [(one["changed"], one["level"], one["drives"][0]["failing"]) for one in results] == [(True, "warning", None), (False, "warning", None)]
    last = next(iter(load_last().values()))
    assert call.kept() == ["last.json"] and last.level == "warning" and "it went away" in last.findings[0]


def test_while_another_run_measures_nothing_is_kept(call, monkeypatch):
    monkeypatch.setattr(drive_health, "peek", lambda run: (None, "another run is at work"))
    assert call()[0]["changed"] is False and call.kept() == []


def test_the_gate_of_a_run_says_that_nothing_was_written(call):
    result, _warnings = call(DRIVE._replace(passed=False), fail_if="error", lease={"run": "a" * 32, "digest": ""})
    assert result["msg"].startswith("refused: nothing was written. The drives are not as they should be, and plumbline_health: {gate: warn} would")


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
    assert call.kept() == ([] if drive.fault else ["M_S1X2.jsonl"]) + ["last.json"]
    assert "drives" in call(drive, check=True, fail_if=fail_if)[0]


ROOT = {"serial": "S1X2", "reason": "it is the virtual root disk"}


def test_a_drive_that_is_left_out_is_told_and_fails_nothing(call):
    """Neither now, nor in a plan later, which asks for no reading because of it."""
    result, _warnings = call(DRIVE._replace(passed=False), leave_out=[ROOT], fail_if="warning")
    (drive,) = result["drives"]
    assert (drive["left_out"], drive["failing"], drive["read"], drive["level"], result["level"]) == (ROOT["reason"], None, False, "info", "info")
    assert "info: drive nvme0n1 (S1X2): left out, because it is the virtual root disk; wanted nothing" in result["report"][-1]
    (last,) = list(load_last().values())
    assert last.level == "info" and "left out, because it is the virtual root disk" in last.findings[0] and call.kept() == ["last.json"]
    assert call(leave_out=[ROOT])[0]["changed"] is False
    assert call(leave_out=[{**ROOT, "reason": "another"}])[0]["changed"] and "another" in next(iter(load_last().values())).findings[0]


@pytest.mark.parametrize(
    ("entry", "devices", "level", "told"),
    [
        ({"serial": "S9"}, [], "warning", "drive serial S9: no drive of this host fits"),
        ({"device": "nvme-X"}, [], "warning", "drive device /dev/disk/by-id/nvme-X: no drive of this host fits"),
        ({"model": "Virtual*"}, [], "info", "drive model Virtual*: no drive of this host fits"),  # meant for other hosts
        ({"serial": "S9"}, ["nvme-M_S1X2"], "ok", ""),  # not all drives were asked for
    ],
)
def test_an_entry_that_fits_no_drive_is_told(call, entry, devices, level, told):
    result, _warnings = call(leave_out=[{**entry, "reason": "r"}], devices=devices)
    texts = [one["text"] for one in result["findings"] if one["rule"] == "left_out_nothing"]
    assert (result["level"], len(texts)) == (level, int(bool(told))) and told in "".join(texts)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "timeout: 0; wanted 1 to 600 seconds"),
        ({"endurance": [{"model": "M", "terabytes_written": 0}]}, "endurance: terabytes_written of M is 0; wanted more than 0"),
        ({"leave_out": [{"serial": "S", "reason": " "}]}, "leave_out[0]: it has no reason; wanted why the drive is left out"),
        ({"leave_out": [{"reason": "r"}]}, "leave_out[0]: found no drive; wanted one of device, serial, model"),
        ({"leave_out": [{"serial": "S", "model": "M", "reason": "r"}]}, "leave_out[0]: found serial and model; wanted one of"),
        ({"leave_out": [{"device": "/dev/sda", "reason": "r"}]}, "leave_out[0].device: '/dev/sda' can be another drive after the next boot"),
        ({"members": [{"path": "-h", "type": "areca,1"}]}, "members: path '-h'; wanted a node below /dev"),
    ],
)
def test_options_that_are_refused(call, options, words):
    assert call(**options)[0]["msg"].startswith(words)
