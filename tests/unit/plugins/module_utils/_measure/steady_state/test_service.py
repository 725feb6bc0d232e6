# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit of a run, what is told of it, and the program that it runs; systemd and the device are stand-ins."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.interpreter import root_interpreter
from ansible_collections.plumbline.ssd.plugins.module_utils._core.write_program_archive import program_bytes
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import raw_device
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import driver, files, request, search, service
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import LoadRound
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import RandomLoad, Request, ReserveTarget
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, Host

ASKED = Request("/dev/x", "wwid:1", "S1", RandomLoad(4096, 32, 0), DEFAULTS, "ab" * 16)
NAME = "x-1"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(request, "DIRECTORY", str(tmp_path / "kept"))
    monkeypatch.setattr(service, "DIRECTORY", str(tmp_path / "kept"))
    monkeypatch.setattr(request, "STATUS_DIRECTORY", str(tmp_path / "run" / "steady"))
    return request.paths_of(NAME)


class Systemd:
    """is-active answers by *active*; systemd-run has the program say *says*. A unit that *ends* does so after so many questions."""

    def __init__(self, place, active=False, says=None, ends=None):
        self.place, self.active, self.says, self.ends, self.calls = place, active, says, ends, []

    def __call__(self, argv):
        self.calls.append(list(argv))
        if argv[:2] == ["systemctl", "is-active"]:
            word = self.active if isinstance(self.active, str) else "active" if self.active else "inactive"
            if self.ends is not None:
                self.active, self.ends = self.active and self.ends > 0, self.ends - 1
            return (0 if word == "active" else 3), word + "\n", ""
        if argv[0] == "systemd-run":
            self.active = self.ends != 0
            if self.says is not None:
                service.write_json(self.place.status, self.says, "status")
        if argv[:2] == ["systemctl", "stop"]:
            if not self.active:
                return 5, "", "Failed to stop %s: Unit %s not loaded.\n" % (argv[-1], argv[-1])  # systemd 252 and 257
            self.active = False
        return 0, "", ""


def keep(place, *records, asked=ASKED):
    service.write_json(place.request, request.as_record(asked), "request")
    with open(place.rounds, "w", encoding="ascii") as handle:
        for one in ({"step": "head", "capacity": 1000}, *records):
            handle.write(json.dumps(one) + "\n")


def round_kept(step="fill"):
    return {"step": step, "bytes": 50, "seconds": 1.0, "p99_us": None, "temperature": None}


DISCARDED = {"step": "discard"}


@pytest.mark.parametrize(
    "records, active, status, state",
    [
        (None, False, None, service.NONE),
        ((), True, None, service.STARTING),
        ((), True, {"state": "loading"}, service.RUNNING),  # the device is held, and its discard takes time
        ((DISCARDED,), True, None, service.RUNNING),
        ((DISCARDED, round_kept()), "activating", None, service.RUNNING),  # it was killed, and systemd waits a second before it starts it again
        ((DISCARDED, round_kept()), "failed", None, service.INTERRUPTED),
        ((DISCARDED, round_kept()), False, None, service.INTERRUPTED),
        ((DISCARDED, round_kept()), False, {"state": "failed", "msg": "gone"}, service.FAILED),
        ((DISCARDED, round_kept(), {"step": "freed"}), False, {"state": "freed"}, service.FINISHED),
    ],
)
def test_states(place, records, active, status, state):
    if records is not None:
        keep(place, *records)
    if status:
        service.write_json(place.status, status, "status")
    assert service.find_run(Systemd(place, active), NAME).state == state


@pytest.mark.parametrize("name", ["rounds", "program", "request", "status", "stopped", "earlier"])
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_stands_where_the_run_will_write_is_found_before_the_load(place, name, kind):
    path = {"stopped": files.stopped_path(place), "earlier": place.earlier(4)}.get(name) or getattr(place, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if kind == "folder":
        os.mkdir(path)
    else:
        os.symlink("/etc/passwd", path)
    systemd = Systemd(place)
    with pytest.raises(PlumblineError, match=r"is no regular file; .* nothing was written"):
        service.begin(systemd, service.KeptRun(NAME, place, None, None, False), ASKED)
    assert not any(call[0] == "systemd-run" for call in systemd.calls)


@pytest.mark.parametrize(
    ("free", "inodes", "words"),
    [(1 << 30, 9, ""), (1 << 20, 9, "No space left on device: 1 MiB free, and a run keeps up to 2 MiB there"), (1 << 30, 0, "no inode free")],
)
def test_the_room_that_the_rounds_need(place, monkeypatch, free, inodes, words):
    monkeypatch.setattr(files.os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1, f_files=10, f_favail=inodes))
    if not words:
        files.check_places(place)
        return
    with pytest.raises(PlumblineError, match=words):
        files.check_places(place)


def test_a_folder_that_is_none_or_is_mounted_read_only(place, monkeypatch):
    os.makedirs(os.path.dirname(place.home))
    with monkeypatch.context() as patched:
        patched.setattr(files.os, "access", lambda path, mode: False)
        with pytest.raises(PlumblineError, match=r"cannot be written to; .*mount it read-write"):
            files.check_places(place)
    with open(place.home, "w", encoding="ascii"):
        pass
    with pytest.raises(PlumblineError, match="is no folder; a run is kept below it, and nothing was written"):
        files.check_places(place)


def test_rounds_that_cannot_be_set_aside(place, monkeypatch):
    """The drive is blank by then: that is said, with what to do, and no traceback."""
    keep(place, DISCARDED, round_kept())
    monkeypatch.setattr(service, "take", lambda *_args, **_more: (type("Lease", (), {"run": "r"}), None, []))
    monkeypatch.setattr(service, "release", lambda _run: None)
    monkeypatch.setattr(service, "hold_device", lambda *args: contextlib.nullcontext("held"))
    monkeypatch.setattr(service, "free_device", lambda device: None)
    os.mkdir(files.stopped_path(place))
    systemd = Systemd(place)
    with pytest.raises(PlumblineError, match=r"the device is blank, and .*rounds.jsonl could not be renamed: .*; remove it"):
        service.end_run(systemd, service.find_run(systemd, NAME))


def test_a_stopped_run(place, monkeypatch):
    keep(place, DISCARDED, round_kept())
    seen = []
    monkeypatch.setattr(service, "take", lambda *_args, **_more: (seen.append("lease") or type("Lease", (), {"run": "r"}), None, []))
    monkeypatch.setattr(service, "release", lambda _run: seen.append("released"))
    monkeypatch.setattr(service, "hold_device", lambda *args: seen.append(args[1:]) or contextlib.nullcontext("held"))
    monkeypatch.setattr(service, "free_device", seen.append)
    systemd = Systemd(place, active=True)
    assert service.end_run(systemd, service.find_run(systemd, NAME))
    assert seen == ["lease", ("/dev/x", "S1", ASKED.drive, b"\xab" * 16, True), "held", "released"]
    assert service.find_run(systemd, NAME).state == service.STOPPED
    assert not service.end_run(systemd, service.find_run(systemd, NAME))


def test_no_python_of_another_user_is_started(place, monkeypatch):
    """The unit is root's, and begins the program again for hours."""
    systemd = Systemd(place)
    monkeypatch.setattr(sys, "_base_executable", "/tmp/venv/bin/python3", raising=False)
    monkeypatch.setattr(sys, "executable", "/tmp/venv/bin/python3")
    with pytest.raises(PlumblineError, match=r"the Python for the run, which root runs, can be exchanged by others: .*; nothing was written"):
        service.begin(systemd, service.find_run(systemd, NAME), ASKED)
    assert not [call for call in systemd.calls if call[0] == "systemd-run"] and not os.path.exists(place.request)


def test_a_start_waits_until_the_device_is_held(place):
    systemd = Systemd(place, says={"state": "loading"})
    service.begin(systemd, service.find_run(systemd, NAME), ASKED)
    (words,) = [call for call in systemd.calls if call[0] == "systemd-run"]
    assert words[-5:] == [*root_interpreter("it"), place.program, place.home] and "--unit=plumbline-steady-x-1.service" in words
    assert "--property=Restart=on-abnormal" in words
    assert service.find_run(systemd, NAME).request == ASKED
    assert service.name_of_run("/dev/x") == NAME  # of a drive that is gone


@pytest.mark.parametrize("ends", [0, 2])
@pytest.mark.parametrize(
    "says, told", [({"state": "failed", "msg": "refused: why", "reasons": ["/dev/x: why"]}, "refused: why"), (None, "ended before it held the device")]
)
def test_a_start_that_fails(place, says, told, ends):
    """It is told when its unit is gone, so that none is under way for the next call."""
    systemd = Systemd(place, says=says)
    found = service.find_run(systemd, NAME)
    systemd.ends = ends
    with pytest.raises(PlumblineError, match=told) as caught:
        service.begin(systemd, found, ASKED)
    assert caught.value.reasons == (says or {}).get("reasons", [])
    assert not service.find_run(systemd, NAME).active


@pytest.mark.parametrize("records, state", [((), service.NONE), ((DISCARDED, round_kept(), {"step": "freed"}), service.FINISHED)])
def test_a_run_that_ends_by_itself_before_it_is_stopped(place, records, state):
    """There is nothing to stop, and that is no error."""
    keep(place, *records)
    systemd = Systemd(place, active=True, ends=0)
    found = service.find_run(systemd, NAME)
    assert found.active and not service.end_run(systemd, found)
    assert ["systemctl", "stop", "--quiet", service.unit_of(NAME)] in systemd.calls
    assert service.find_run(systemd, NAME).state == state


def test_a_run_that_is_stopped_before_it_wrote_is_a_change(place):
    keep(place)
    systemd = Systemd(place, active=True)
    assert service.end_run(systemd, service.find_run(systemd, NAME)) and not systemd.active


def test_a_unit_that_cannot_be_stopped(place):
    keep(place)
    systemd = Systemd(place, active=True)
    found = service.find_run(systemd, NAME)
    with pytest.raises(PlumblineError, match="the run could not be stopped: Access denied"):
        service.end_run(lambda _argv: (1, "", "Access denied\n"), found)


FILLED, FREED = (DISCARDED, round_kept()), (DISCARDED, round_kept(), {"step": "freed"})


@pytest.mark.parametrize(
    "records, active, anew, done, told",
    [
        (None, False, False, False, None),
        ((), True, False, True, "is under way on /dev/x: wait for it"),
        (FILLED, True, True, True, "is under way on /dev/x: wait for it"),
        (FILLED, False, False, False, "was begun on /dev/x, and interrupted: start it with the same ones"),
        (FREED, False, False, True, "has its verdict on /dev/x: anew: true begins another"),
        (FREED, False, True, False, None),
    ],
)
def test_a_start_beside_another_run(place, records, active, anew, done, told):
    """The same one is left or taken up; a verdict of another load, mode or target would be taken for an answer."""
    if records is not None:
        keep(place, *records)
    found = service.find_run(Systemd(place, active), NAME)
    assert service.is_done(found, (ASKED.load, ASKED.options, None), anew, "/dev/x") is done
    for other in [(RandomLoad(8192, 32, 0), DEFAULTS, None), (ASKED.load, DEFAULTS._replace(mode="passes"), None), (ASKED.load, DEFAULTS, SOUGHT)]:
        if told is None:
            assert service.is_done(found, other, anew, "/dev/x") is done
            continue
        with pytest.raises(PlumblineError, match="a run with other options " + told):
            service.is_done(found, other, anew, "/dev/x")


def test_what_is_left_of_a_run_that_wrote_nothing_is_no_run(place):
    keep(place)
    systemd = Systemd(place, says={"state": "loading"})
    service.begin(systemd, service.find_run(systemd, NAME), ASKED)
    assert not os.path.exists(place.rounds)


def test_progress(place):
    keep(place, DISCARDED, round_kept())
    found = service.find_run(Systemd(place, active=True), NAME)
    lines = service.progress_lines(found, {"fills": 0.0, "device": "/dev/x", "mib_s": 1.5, "why": "it has just begun"})
    assert lines[0] == "/dev/x: running; sequential fill, 5 %" and lines[1].startswith("1 % of the longest run; at most ")


class Drive:
    """Of the driver: what writes to the device."""

    def __init__(self, node, load, mark, reserve):
        self.span, self.held = type("Span", (), {"length": 1000}), None

    def hold(self, device):
        self.held = device

    def discard(self):
        assert self.held

    def fill(self, _offset, length):
        assert self.held
        return LoadRound(length, length / 100)

    def load(self, length):
        assert self.held
        return LoadRound(length, length / 50)

    def counters(self):
        return {}


@pytest.fixture
def driven(place, monkeypatch):
    """A driver without devices; what it did."""
    seen = []
    host = Host()
    devno = host.disk()
    node = host.seen.nodes[devno]
    monkeypatch.setattr(driver, "find_disks", lambda paths, everything: ([node], {}))
    monkeypatch.setattr(driver, "FioDrive", Drive)
    monkeypatch.setattr(driver, "take", lambda me, digest, own: (seen.append("taken") or type("Lease", (), {"run": "r"}), None, []))
    monkeypatch.setattr(driver, "release", lambda run: seen.append("released"))
    monkeypatch.setattr(driver, "hold_device", lambda run, path, serial, key, mark, resumed: seen.append(("held", resumed)) or contextlib.nullcontext("device"))
    monkeypatch.setattr(driver, "free_device", lambda device: seen.append("freed"))
    service.write_json(place.request, request.as_record(ASKED._replace(drive=node.identity.key)), "request")
    return seen


def test_the_driver(place, driven):
    assert driver.main([place.home]) == 0
    assert driven == ["taken", ("held", False), "freed", "released"]
    found = service.find_run(Systemd(place), NAME)
    assert found.state == service.FINISHED and found.rounds.verdict.verdict == "steady"
    assert driver.main([place.home]) == 0
    assert driven[4:] == ["taken", "released"]  # what was freed is not touched again


SOUGHT = ReserveTarget(p99_write_ms=2.0)


class TailDrive(Drive):
    """The larger the reserve, the shorter its latencies: 18 % are enough for 2 ms. *stops*: the number of the run that ends with an error."""

    runs, stops = [], 0

    def __init__(self, node, load, mark, reserve):
        super().__init__(node, load, mark, reserve)
        self.reserve = reserve

    def discard(self):
        super().discard()
        self.runs.append(self.reserve)

    def load(self, length):
        if self.stops == len(self.runs):
            raise PlumblineError("/dev/x went away")
        return super().load(length)._replace(p99_us=1e3 * (2.0 + 10 * (0.18 - self.reserve)))


@pytest.fixture
def searching(place, driven, monkeypatch):
    """A search by a driver without devices; (what the driver did, the drive)."""
    drive = type("OneDrive", (TailDrive,), {"runs": []})
    monkeypatch.setattr(driver, "FioDrive", drive)
    record = service.read_json(place.request)
    asked = request.read_record(record, "f")._replace(target=SOUGHT, model="M", firmware="F", options=DEFAULTS._replace(latency=True))
    service.write_json(place.request, request.as_record(asked), "request")
    return driven, drive


def shares(found):
    return [one["share"] for one in found.search.points]


WANTED = [0.2282, 0.1141, 0.1711, 0.1996]  # by bisection


def test_a_search_by_the_driver(place, searching):
    driven, drive = searching
    assert driver.main([place.home]) == 0
    found = service.find_run(Systemd(place), NAME)
    assert (found.state, found.share) == (service.FINISHED, 1.0) and shares(found) == pytest.approx(WANTED, abs=0.0002)
    assert drive.runs == shares(found), "each begins with a discard of the whole drive"
    assert driven == ["taken", *[("held", False), "freed"] * 4, "released"], "one lease, and a proof for each run"
    assert search.search_result(found.search, found.request)["measured"]["share"] == pytest.approx(0.1996, abs=0.0002)
    lines = service.progress_lines(found, {"fills": 2.0, "device": "/dev/x", "mib_s": 1.5, "why": "steady"})
    assert [line for line in lines if line.startswith("reserve 11.4 %: p99 (ms) 2.659")] and lines[-1].startswith("p99 (ms) of 2: 20.0 % are enough")
    assert driver.main([place.home]) == 0 and len(drive.runs) == 4


@pytest.mark.parametrize("run", [1, 2, 3, 4])
def test_a_search_that_was_cut_off_goes_on(place, searching, run):
    """In any of its runs; those that are over are not made again."""
    _driven, drive = searching
    drive.stops = run
    assert driver.main([place.home]) == 1
    found = service.find_run(Systemd(place), NAME)
    assert found.state == service.FAILED and found.begun and len(found.finished) == run - 1
    drive.stops = 0
    assert driver.main([place.home]) == 0
    found = service.find_run(Systemd(place), NAME)
    assert found.state == service.FINISHED and shares(found) == pytest.approx(WANTED, abs=0.0002) and drive.runs == shares(found)


def test_a_search_between_two_runs(place, searching):
    """Cut off before the next run was begun, and in the middle of that step; both are taken up, and nothing is measured twice."""
    _driven, drive = searching
    drive.stops = 2
    driver.main([place.home])
    os.unlink(place.rounds)  # the second run, before its first line
    os.unlink(place.status)
    found = service.find_run(Systemd(place), NAME)
    assert (found.state, found.begun, found.unfinished, len(found.finished)) == (service.INTERRUPTED, False, True, 1)
    os.rename(place.earlier(1), place.rounds)
    assert service.find_run(Systemd(place), NAME).state == service.INTERRUPTED
    systemd = Systemd(place, says={"state": "loading"})
    service.begin(systemd, service.find_run(systemd, NAME), found.request)
    assert len(service.find_run(systemd, NAME).finished) == 1, "what is over is kept"
    drive.stops, drive.runs[1:] = 0, []
    assert driver.main([place.home]) == 0 and drive.runs == pytest.approx(WANTED, abs=0.0002)


@pytest.mark.parametrize("begun", [True, False])
def test_a_search_that_is_stopped(place, searching, monkeypatch, begun):
    """Its runs are none of the next search."""
    _driven, drive = searching
    drive.stops = 2
    driver.main([place.home])
    if not begun:
        os.rename(place.earlier(1), place.rounds)
    monkeypatch.setattr(service, "take", lambda *_args, **_more: (type("Lease", (), {"run": "r"}), None, []))
    monkeypatch.setattr(service, "release", lambda _run: None)
    monkeypatch.setattr(service, "hold_device", lambda *args: contextlib.nullcontext("held"))
    monkeypatch.setattr(service, "free_device", lambda device: None)
    systemd = Systemd(place, says={"state": "loading"})
    found = service.find_run(systemd, NAME)
    assert service.end_run(systemd, found) and service.find_run(systemd, NAME).state == service.STOPPED
    assert not service.end_run(systemd, service.find_run(systemd, NAME))
    service.begin(systemd, service.find_run(systemd, NAME), found.request)
    assert sorted(os.listdir(place.home)) == ["request.json", "steady.pyz"]


def test_rounds_with_options_that_are_none(place):
    keep(place, DISCARDED)
    with open(place.rounds, "w", encoding="ascii") as handle:
        handle.write('{"step": "head", "options": {"colour": "red"}}\n')
    with pytest.raises(PlumblineError, match="no record of a run, or damaged"):
        service.find_run(Systemd(place), NAME)


def test_a_driver_that_is_refused_says_why(place, driven, monkeypatch, capsys):
    def refuse(*_args):
        raise PlumblineError("refused: nothing was written to /dev/x: why", ["/dev/x: why"])

    monkeypatch.setattr(driver, "hold_device", refuse)
    assert driver.main([place.home]) == 1
    assert "why" in capsys.readouterr().err and driven[-1] == "released"
    found = service.find_run(Systemd(place), NAME)
    assert found.status["reasons"] == ["/dev/x: why"]


def test_a_driver_on_another_drive(place, driven):
    service.write_json(place.request, request.as_record(ASKED), "request")
    assert driver.main([place.home]) == 1 and driven == []
    assert "another drive" in service.find_run(Systemd(place), NAME).status["msg"]


def test_the_program_runs_without_ansible(place):
    program = place.program
    os.makedirs(place.home)
    with open(program, "wb") as handle:
        handle.write(program_bytes(driver))
    done = subprocess.run([sys.executable, "-I", "-c", "import runpy, sys; sys.argv = ['x', '/nothing']; runpy.run_path(%r, run_name='here')" % program],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert "ModuleNotFoundError" not in done.stderr, done.stderr


def disk(**more):
    host = Host()
    devno = host.disk(**more)
    return host, devno, host.seen.nodes[devno].identity.serial


@pytest.mark.parametrize(
    "change, name",
    [({}, None), ({"rotational": True}, "rotational"), ({"size": 1 << 20}, "size"), ({"read_only": True}, "read_only"), ({"removable": True}, "removable")],
)
@pytest.mark.parametrize("resumed", [False, True])
def test_what_speaks_against_a_load(change, name, resumed):
    host, devno, serial = disk(size=GIB)
    if change:
        host.edit(devno, **change)
    assert name in [None, *(reason.name for reason in raw_device.raw_device_reasons(host.seen, devno, serial, resumed))]
    assert bool(raw_device.raw_device_reasons(host.seen, devno, serial, resumed)) is (name is not None)
    assert "identity" in [reason.name for reason in raw_device.raw_device_reasons(host.seen, devno, serial + "x", resumed)]
