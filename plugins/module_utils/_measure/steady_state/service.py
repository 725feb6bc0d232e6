# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as a transient systemd unit: begun, looked at, ended and cleaned up after. I/O.

The unit is a service of its own, so that the run goes on when its controller and its connection are gone. One that is killed is started again by
systemd; after a boot it is gone, and the next start takes the run up.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.load_mark import MARK_BYTES
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import read_json, write_json
from ansible_collections.plumbline.ssd.plugins.module_utils._core.interpreter import root_interpreter
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Run, release, take
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._core.systemd import systemctl
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import slug
from ansible_collections.plumbline.ssd.plugins.module_utils._core.write_program_archive import program_bytes
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import find_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.raw_device import free_device, hold_device
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import driver
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.files import check_places, earlier_paths, read_runs, stopped_path
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import (
    DIRECTORY,
    Paths,
    RandomLoad,
    Request,
    ReserveTarget,
    as_record,
    paths_of,
    read_record,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.rounds import Rounds
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.search import Search, search_lines, search_of

NONE, STARTING, RUNNING, FINISHED, FAILED, INTERRUPTED, STOPPED = "none", "starting", "running", "finished", "failed", "interrupted", "stopped"
_BEGIN_SECONDS = 300  # for the proof of a device that is read whole
_ACTIVE = ("active", "activating", "deactivating", "reloading")
_NOT_LOADED = 5  # exit status of `systemctl stop` for a unit that is gone, as one that --collect removed at its end
# systemd starts the program again where a signal ended it, but not where it refused.
_UNIT = ("Restart=on-abnormal", "RestartSec=1", "StartLimitIntervalSec=3600", "StartLimitBurst=60", "TimeoutStopSec=60")


class KeptRun(NamedTuple):
    """What the host keeps of a run, or of a search by several. *rounds*: of the last run; None where none was begun."""

    name: str
    paths: Paths
    request: Optional[Request]
    rounds: Optional[Rounds]
    active: bool
    finished: Sequence[Rounds] = ()  # the runs that are over, of a search

    @property
    def state(self) -> str:
        if self.active:
            return RUNNING if self.begun or self.status.get("state") == driver.LOADING else STARTING
        if self.is_stopped and not self.begun:
            return STOPPED
        if self.rounds is not None and self.rounds.freed and not self.unfinished:
            return FINISHED
        if self.status.get("state") == driver.FAILED:
            return FAILED
        return INTERRUPTED if self.begun or self.unfinished else NONE

    @property
    def share(self) -> float:
        """How much of the run is done, or of the search, 0 to 1, if it is as long as it may be."""
        own = self.rounds.share if self.rounds else 0.0
        search = self.search
        if search is None or search.is_over:
            return own
        over = len(search.finished)
        return (over + (own if self.begun else 0.0)) / search.target.runs

    @property
    def is_stopped(self) -> bool:
        return os.path.exists(stopped_path(self.paths))

    @property
    def search(self) -> Optional[Search]:
        """The search for a reserve that the runs are part of."""
        return search_of(self.request, self.finished)

    @property
    def unfinished(self) -> bool:
        """Whether a search has runs left, of which the next one was not begun."""
        search = self.search
        return search is not None and bool(self.finished) and not self.begun and not self.is_stopped and not search.is_over

    @property
    def begun(self) -> bool:
        """Whether anything of the run may be on the device."""
        return self.rounds is not None and bool(self.rounds.records) and not self.rounds.freed

    @property
    def status(self) -> Dict[str, Any]:
        """What the program reported last."""
        status = read_json(self.paths.status)
        return status if isinstance(status, dict) else {}


def name_of_run(device: str) -> str:
    """The run of a device: by the path that a run was given, so that a drive that is gone can be asked about, else by the identity of the disk."""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(DIRECTORY)):
            record = read_json(paths_of(name).request)
            if isinstance(record, dict) and record.get("path") == device:
                return name
    (node,), _names = find_disks([device], False)
    return slug(node.identity.key)


def unit_of(name: str) -> str:
    return "plumbline-steady-%s.service" % name


def find_run(run: Runner, name: str) -> KeptRun:
    """What is there of a run. Raises PlumblineError for files that are damaged."""
    paths = paths_of(name)
    record = read_json(paths.request)
    request = read_record(record, paths.request) if record is not None else None
    rounds, finished = read_runs(paths, request.options) if request is not None else (None, ())
    active = _is_active(run, name)
    return KeptRun(name, paths, request, rounds, active, finished)


def _is_active(run: Runner, name: str) -> bool:
    """Whether the unit is active, also between a kill and the start by systemd that follows it."""
    return systemctl(run, "is-active", unit_of(name))[1].strip() in _ACTIVE


def new_mark() -> str:
    return secrets.token_hex(MARK_BYTES)


def is_done(kept: KeptRun, asked: Tuple[RandomLoad, Options, Optional[ReserveTarget]], anew: bool, device: str) -> bool:
    """Whether nothing has to be begun, because the run is under way or has its verdict. Raises PlumblineError where that is another one."""
    was = kept.request
    why = "is under way on %s: wait for it, or stop it first" if kept.active else ""
    if not why and kept.state == FINISHED and not anew:
        why = "has its verdict on %s: anew: true begins another"
    done = bool(why)
    if not why and (kept.begun or kept.unfinished):
        why = "was begun on %s, and interrupted: start it with the same ones, or stop it first"
    if why and was is not None and (was.load, was.options._replace(hot=None), was.target) != asked:
        raise PlumblineError("a run with other options " + why % device)
    return done


def begin(run: Runner, kept: KeptRun, request: Request) -> None:
    """Start the unit, and wait until it holds the device. Raises PlumblineError with its reasons where it does not."""
    paths = kept.paths
    check_places(paths)
    python = root_interpreter("the run")
    if not kept.begun and not kept.unfinished:
        for stale in (paths.rounds, stopped_path(paths), *earlier_paths(paths)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(stale)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(paths.status)
    write_json(paths.request, as_record(request), "the request of the run")
    try:
        with open(paths.program, "wb") as handle:
            handle.write(program_bytes(driver))
    except OSError as fault:
        raise PlumblineError("%s could not be written: %s; nothing was written to the device" % (paths.program, fault.strerror or fault)) from fault
    words = ["systemd-run", "--quiet", "--collect", "--unit=" + unit_of(kept.name), "--description=Steady state of " + request.path]
    words += ["--property=" + setting for setting in _UNIT] + [*python, paths.program, paths.home]
    must_succeed(run(words), "the run could not be started; nothing was written to the device")
    _wait(run, kept)


def _wait(run: Runner, kept: KeptRun) -> None:
    end = time.monotonic() + _BEGIN_SECONDS
    while time.monotonic() < end:
        active = _is_active(run, kept.name)  # before the status, which comes first
        status = kept.status
        if status and status.get("state") != driver.FAILED:
            return
        if not active:  # not before: the next call would take a unit that is still ending for a run under way
            if status:
                raise PlumblineError(str(status.get("msg")), [str(reason) for reason in status.get("reasons") or []])
            raise PlumblineError("the run ended before it held the device; see journalctl -u %s" % unit_of(kept.name))
        time.sleep(0.2)
    raise PlumblineError("the run did not hold the device within %d s; see journalctl -u %s" % (_BEGIN_SECONDS, unit_of(kept.name)))


def end_run(run: Runner, kept: KeptRun) -> bool:
    """End a run, and leave its device blank. Returns whether there was anything to do; raises PlumblineError where the device is not the run's alone."""
    stopped = False
    if kept.active:
        stopped = _stop_unit(run, kept.name)
        kept = find_run(run, kept.name)
    request = kept.request
    if not kept.begun or request is None:
        between = kept.unfinished
        if between:
            _set_aside(kept.paths)
        return stopped or between
    lease, _before, _warnings = take(Run(controller="the end of the steady state of %s" % request.path), "", own=True)
    try:
        with hold_device(run, request.path, request.serial, request.drive, bytes.fromhex(request.mark), True) as device:
            free_device(device)
        _set_aside(kept.paths)
    finally:
        release(lease.run)
    return True


def _stop_unit(run: Runner, name: str) -> bool:
    """Returns whether there was a unit to stop: the run may have ended by itself since it was looked at."""
    result = systemctl(run, "stop", "--quiet", unit_of(name))
    if result[0] == _NOT_LOADED:
        return False
    must_succeed(result, "the run could not be stopped")
    return True


def _set_aside(paths: Paths) -> None:
    """The rounds of a run that was ended, so that none goes on with it. Raises PlumblineError where that fails."""
    last = paths.rounds if os.path.exists(paths.rounds) else earlier_paths(paths)[-1]
    try:
        os.replace(last, stopped_path(paths))
    except OSError as fault:
        text = "the device is blank, and %s could not be renamed: %s; remove it, or the run counts as begun"
        raise PlumblineError(text % (last, fault.strerror or fault)) from fault


def progress_lines(kept: KeptRun, result: Dict[str, Any]) -> List[str]:
    """The run for people."""
    rounds = kept.rounds
    if rounds is None or not rounds.records:
        return ["%s: %s" % (unit_of(kept.name), kept.state)]
    share = kept.share
    took = sum(run.seconds for run in kept.finished) + (0.0 if rounds.freed else rounds.seconds)
    left = took * (1 - share) / share / 60 if share else 0.0
    step = "random load, %.2f fills" % result["fills"]
    if rounds.to_fill > 0:
        step = "sequential fill, %.0f %%" % (100 * rounds.filled / rounds.capacity)
    lines = ["%s: %s; %s" % (result["device"], kept.state, step)]
    if kept.state == RUNNING:
        lines.append("%.0f %% of the longest run; at most %.0f minutes left at this rate" % (100 * share, left))
    lines.append("%.1f MiB/s: %s" % (result["mib_s"], result["why"]))
    if kept.search is not None:
        lines += search_lines(kept.search)
    return lines + _picture_lines(result) if rounds.options.is_picture else lines


def _picture_lines(result: Dict[str, Any]) -> List[str]:
    """What a picture shows, for people."""
    collapse, hidden, period = (result[key] for key in ("first_collapse_fills", "hidden_space", "period_fills"))
    lines = ["no collapse was seen"]
    if collapse is not None:
        lines = ["first collapse after %.2f fills: hidden space %.0f %%" % (collapse, 100 * hidden)]
    if period is not None:
        lines.append("the collapses come back after %.2f fills" % period)
    return lines + ["doubt: " + doubt for doubt in result["doubts"]]
