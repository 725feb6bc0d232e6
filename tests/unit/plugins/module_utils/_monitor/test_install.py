# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the monitor on a host in a folder: written once, told to services only when they change, and taken back to the byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.write_program_archive import program_bytes
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor import install, program, unit_files
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor.unit_files import SmartdLine, can_be_watched, smartd_text, unit_texts

OLD = "DEVICESCAN -m root\n"
LINES = (SmartdLine("/dev/disk/by-id/nvme-A"), SmartdLine("/dev/bus/0", "megaraid,8"))


class Host:
    """A root directory, and a systemctl that notes what it was told."""

    def __init__(self, root, monkeypatch):
        self.root, self.told, self.active, self.enabled = root, [], set(), set()
        for name in ("PROGRAM", "SETTINGS", "SERVICE", "TIMER", "HOME", "OLD_HOME"):
            monkeypatch.setattr(unit_files, name, str(root) + getattr(unit_files, name))
        monkeypatch.setattr(install, "RECORD", str(root) + install.RECORD)
        self.conf = str(root / "etc/smartd.conf")
        monkeypatch.setattr(install, "_SMARTD_CONFS", (str(root / "nowhere/smartd.conf"), self.conf))
        monkeypatch.setattr(install, "_UNIT_HOMES", (str(root / "units"),))
        (root / "etc").mkdir()
        (root / "units").mkdir()
        (root / "units/smartmontools.service").write_text("")
        (root / "etc/smartd.conf").write_text(OLD)
        self.prom = str(root / "plumbline.prom")

    def run(self, argv):
        self.told.append(" ".join(word for word in argv[1:] if word != "--quiet"))
        verb, unit = argv[1], argv[-1]
        if verb == "stop":
            self.active.discard(unit)
        if verb in ("start", "restart", "enable"):
            (self.enabled if verb == "enable" else self.active).add(unit)
        if "disable" in argv:
            self.enabled.discard(unit)
            self.active -= {unit} if "--now" in argv else set()
        known = {"is-active": self.active, "is-enabled": self.enabled}
        return (0 if verb not in known or unit in known[verb] else 3), "", ""

    def texts(self, minutes=15, smartd=True):
        texts = {**unit_texts(("/usr/bin/python3", "-I"), minutes, {"textfile": self.prom}, os.path.dirname(self.prom)), unit_files.PROGRAM: "PK\udc80"}
        return {**texts, **({self.conf: smartd_text(LINES, "root", "")} if smartd else {})}

    def apply(self, texts, check=False):
        self.told.clear()
        return install.apply_files(self.run, texts, [self.prom] if texts else [], check)

    def files(self):
        return sorted(os.path.relpath(os.path.join(place, name), self.root) for place, _dirs, names in os.walk(self.root) for name in names)


@pytest.fixture
def host(tmp_path, monkeypatch):
    return Host(tmp_path, monkeypatch)


BARE = ["etc/smartd.conf", "units/smartmontools.service"]


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as handle:
        return handle.read()


def test_written_once_and_taken_back(host):
    assert host.apply(host.texts(), check=True).changed and host.files() == BARE
    first = host.apply(host.texts())
    assert first.changed and not first.warnings and "restart smartmontools.service" in host.told and "daemon-reload" in host.told
    assert read(host.conf) == smartd_text(LINES, "root", "") and first.diff[unit_files.PROGRAM] == ("", "3 bytes\n")
    again = host.apply(host.texts())
    assert not again.changed and again.diff == {} and host.told == ["is-active plumbline-monitor.timer"]
    open(host.prom, "w", encoding="utf-8").close()
    assert host.apply({}).changed and host.files() == BARE and read(host.conf) == OLD and host.enabled == set()
    assert not host.apply({}).changed


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("active", [True, False])
def test_smartd_is_again_as_it_was(host, enabled, active):
    """Enabled or not, running or not: whatever was changed of its unit is taken back, and nothing else."""
    unit = "smartmontools.service"
    host.enabled |= {unit} if enabled else set()
    host.active |= {unit} if active else set()
    host.apply(host.texts())
    assert unit in host.enabled and unit in host.active
    host.apply(host.texts(minutes=30))
    host.apply({})
    assert (unit in host.enabled, unit in host.active) == (enabled, active)


def test_only_what_changed_is_told(host):
    host.active.add("smartmontools.service")
    host.apply(host.texts())
    host.apply(host.texts(minutes=30))
    assert [line for line in host.told if "smart" in line] == [] and "restart plumbline-monitor.timer" in host.told
    host.apply(host.texts(minutes=30, smartd=False))
    assert read(host.conf) == OLD and "try-restart smartmontools.service" in host.told


def test_a_timer_that_was_stopped_is_started(host):
    host.apply(host.texts())
    host.active.clear()
    assert host.apply(host.texts()).changed and "restart plumbline-monitor.timer" in host.told


def test_what_somebody_else_wrote_since_is_left_alone(host):
    host.apply(host.texts())
    with open(host.conf, "w", encoding="utf-8") as handle:
        handle.write("/dev/sda -a\n")
    host.apply({})
    assert read(host.conf) == "/dev/sda -a\n" and host.files() == BARE


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"files": 5}', '{"files": ["a", 5], "before": null, "enabled": ""}', None])
def test_a_record_that_is_lost_leaves_nothing_of_ours(host, damage):
    """The old smartd.conf is lost with it. It is never replaced by our own."""
    host.apply(host.texts())
    if damage is None:
        os.unlink(install.RECORD)
    else:
        with open(install.RECORD, "w", encoding="utf-8") as handle:
            handle.write(damage)
    host.apply(host.texts(minutes=20))
    host.apply({})
    assert host.files() == ["units/smartmontools.service"]


def test_smartd_that_fails_is_told(host):
    def run(argv):
        return (1, "", "no") if argv[1:3] == ["restart", "--quiet"] and "smart" in argv[-1] else host.run(argv)

    with pytest.raises(PlumblineError) as fault:
        install.apply_files(run, host.texts(), [host.prom], False)
    assert "smartd could not be started with its new configuration: no" in str(fault.value)
    assert json.loads(read(install.RECORD))["before"] == OLD
    host.apply({})
    assert read(host.conf) == OLD


def test_lines_of_smartd():
    assert smartd_text(LINES, "dba@x.org", "/run-it").splitlines()[1:] == [
        "/dev/disk/by-id/nvme-A -d removable -a -m dba@x.org -M exec /run-it",
        "/dev/bus/0 -d megaraid,8 -d removable -a -m dba@x.org -M exec /run-it",
    ]
    assert "removable" not in smartd_text(LINES, "", "", proof=True) and " -m " not in smartd_text(LINES, "", "")
    assert can_be_watched(LINES[1]) and not can_be_watched(SmartdLine("/dev/a b")) and not can_be_watched(SmartdLine("/dev/a", "x\n/dev/b"))


# --- the program ---------------------------------------------------------------------------------------


def test_the_archive_has_all_that_the_program_imports_and_no_ansible(tmp_path):
    (tmp_path / "p.pyz").write_bytes(program_bytes(program))
    with zipfile.ZipFile(tmp_path / "p.pyz") as found:
        names = found.namelist()
        texts = {name: found.read(name).decode() for name in names}
    assert "__main__.py" in names and any(name.endswith("_monitor/program.py") for name in names)
    assert not [name for name, text in texts.items() if "import ansible." in text or "from ansible." in text]
    assert program_bytes(program) == program_bytes(program)


@pytest.mark.parametrize(("fault", "raised"), [(PlumblineError("it hangs"), False), (ZeroDivisionError("of ours"), True)])
def test_a_reading_that_fails_is_told(tmp_path, monkeypatch, fault, raised):
    settings = tmp_path / "s.json"
    settings.write_text(json.dumps({"textfile": str(tmp_path / "out.prom"), "timeout": 5, "members": [], "endurance": [], "advisories": [], "leave_out": []}))
    (tmp_path / "out.prom").write_text("plumbline_reading_success 1\n")

    def fail(_settings, _now):
        raise fault

    monkeypatch.setattr(program, "read_for_metrics", fail)
    if raised:
        with pytest.raises(ZeroDivisionError):
            program.main([str(settings)])
    else:
        assert program.main([str(settings)]) == 1
    assert "plumbline_reading_success 0\n" in (tmp_path / "out.prom").read_text()


READING = """
import sys, time
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_bound_tools import bound_runner
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor import program

def hang(_settings, _now):
    print("reading", flush=True)
    try:
        if sys.argv[2] == "tool":
            bound_runner(program._Host, 600)(["sleep", "600"])
        time.sleep(600)
    except Exception:  # as of one drive, beside which the others are read
        time.sleep(600)

program.read_for_metrics = hang
sys.exit(program.main(sys.argv[1:2]))
"""


@pytest.mark.parametrize("where", ["tool", "python"])
def test_a_reading_that_systemd_ends_is_told(tmp_path, where):
    """Or the metrics of the last one would go on saying that all is well, whatever it is that keeps every reading from its end."""
    settings = tmp_path / "s.json"
    settings.write_text(json.dumps({"textfile": str(tmp_path / "out.prom"), "timeout": 5}))
    (tmp_path / "out.prom").write_text("plumbline_reading_success 1\n")
    with subprocess.Popen([sys.executable, "-c", READING, str(settings), where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reading:
        assert reading.stdout.readline() == "reading\n"
        time.sleep(0.3)  # for the tool to start
        reading.send_signal(signal.SIGTERM)
        _out, told = reading.communicate()
    assert reading.returncode == 1 and "the reading was ended after" in told and "Traceback" not in told
    assert "plumbline_reading_success 0\n" in (tmp_path / "out.prom").read_text()


def test_while_a_run_has_the_host_the_last_metrics_stay(tmp_path, monkeypatch):
    settings = tmp_path / "s.json"
    settings.write_text(json.dumps({"textfile": str(tmp_path / "out.prom"), "timeout": 5}))
    (tmp_path / "out.prom").write_text("as it was\n")
    monkeypatch.setattr(program, "peek", lambda run: (None, "another run is at work"))
    assert program.main([str(settings)]) == 0 and (tmp_path / "out.prom").read_text() == "as it was\n"


def test_a_masked_smartd_is_told_with_the_way_out(host):
    install.check_not_masked()
    (host.root / "units/smartmontools.service").unlink()
    install.check_not_masked()
    os.symlink("/dev/null", str(host.root / "units/smartmontools.service"))
    with pytest.raises(PlumblineError, match=r"smartmontools.service is masked .*systemctl unmask smartmontools.service\), or set smartd: false"):
        install.check_not_masked()
