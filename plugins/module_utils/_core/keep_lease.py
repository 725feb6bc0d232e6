# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of the host's lease: taken, renewed and given back under a lock. I/O lives here.

It is below /run, which a boot empties. It is replaced by rename, and what is given back stays as a note that a run has been: whoever
planned before and takes the lease after it plans again.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
import uuid
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import lock, read_own
from ansible_collections.plumbline.ssd.plugins.module_utils._core.lease import (
    GRACE_SECONDS,
    MAX_BYTES,
    REFUSE,
    TAKE_OVER,
    Lease,
    decide,
    dump,
    is_free,
    name_of,
    parse_lease,
    still_ours,
    valid_process,
    valid_run,
)

DIRECTORY = "/run/plumbline"
# The option of a writer that takes the lease of its run, as stack_plan returned it.
LEASE = {"type": "dict", "default": {}, "options": {"run": {"type": "str", "default": ""}, "digest": {"type": "str", "default": ""}}}
_UNREADABLE = "%s is no lease of this collection [lease]: %s; nothing was written. Find out who put it there, and remove it"
_ANCESTORS = 64
LOCK_SECONDS = 10  # the lock is held for milliseconds


class Process(NamedTuple):
    """A process, distinguished from a later one with the same number. A number of 0: no process."""

    pid: int = 0
    started: int = 0


def path() -> str:
    """Where the lease is."""
    return os.path.join(DIRECTORY, "lease.json")


# --- processes -------------------------------------------------------------------------------------


def _stat_of(pid: int) -> Tuple[int, int]:
    """(parent, start in ticks since boot) of a process, proc_pid_stat(5); (0, 0) where it is gone or a zombie."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as handle:
            words = handle.read().rpartition(b")")[2].split()  # the name before it may hold blanks and brackets
    except OSError:
        return 0, 0
    if len(words) < 20 or words[0] in (b"Z", b"X"):
        return 0, 0
    return int(words[1]), int(words[19])


def process(pid: int) -> Process:
    """A process as it is now."""
    started = _stat_of(pid)[1]
    return Process(pid, started) if started else Process()


def is_alive(known: Process) -> bool:
    """Whether exactly this process is still there."""
    return bool(known.pid) and process(known.pid) == known


def connection() -> Process:
    """The process of sshd that carries this call: the parent of the outermost one that sshd gave SSH_CONNECTION. None over other connections.

    It lives as long as the controller keeps the connection, from call to call where that is shared (ControlPersist).
    """
    pid, outermost = os.getpid(), 0
    for _step in range(_ANCESTORS):
        if pid <= 1:
            break
        parent = _stat_of(pid)[0]
        with contextlib.suppress(OSError), open("/proc/%d/environ" % pid, "rb") as handle:
            if b"\0SSH_CONNECTION=" in b"\0" + handle.read():
                outermost = parent
        pid = parent
    return process(outermost) if outermost > 1 else Process()


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
            return handle.read().strip()
    except OSError:
        return ""


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# --- the file --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Holds the lock of the lease. The directory is root's own, so nobody else can have put a link into it."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(DIRECTORY, 0o700)
        status = os.lstat(DIRECTORY)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PlumblineError("%s is no directory of root's alone [lease]; nothing was written. Find out who made it, and remove it" % DIRECTORY)
        fd = os.open(os.path.join(DIRECTORY, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as fault:
        raise PlumblineError("the lease in %s cannot be reached: %s; nothing was written" % (DIRECTORY, fault.strerror or fault)) from fault
    try:
        try:
            lock(fd, LOCK_SECONDS)
        except OSError as fault:
            raise PlumblineError("another run is just taking the lease in %s [lease]; nothing was written; run again" % DIRECTORY) from fault
        yield
    finally:
        os.close(fd)


def _load() -> Optional[Lease]:
    """The lease that is there. Raises PlumblineError for a file that is no lease: nobody but us writes here, and by rename."""
    try:
        raw = read_own(path(), MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise PlumblineError(_UNREADABLE % (path(), fault.strerror or fault)) from fault
    try:
        return parse_lease(raw.decode("utf-8"))
    except ValueError as fault:  # of json and of utf-8 as well
        if is_free(raw.decode("utf-8", "replace")):
            return None
        raise PlumblineError(_UNREADABLE % (path(), fault)) from fault


def _store(lease: Lease) -> None:
    """Put a lease in the place of the last one, in one step. Under the lock, so what a killed writer left there is in nobody's use."""
    temporary = path() + ".new"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as handle:
            handle.write(dump(lease))
        os.rename(temporary, path())
    except OSError as fault:
        raise PlumblineError("the lease could not be kept in %s: %s; nothing was written" % (path(), fault.strerror or fault)) from fault


# --- what modules do -------------------------------------------------------------------------------


class Held(PlumblineError):
    """Another run has the lease."""

    def __init__(self, msg: str, lease: Optional[Lease]) -> None:
        super().__init__(msg, [msg])
        self.lease = lease

    @property
    def holder(self) -> Dict[str, str]:
        """Who it is, as a module returns it."""
        return {key: getattr(self.lease, key) for key in ("run", "controller", "process", "since")} if self.lease else {}


class Run(NamedTuple):
    """A run as its controller names it. Empty *run*: a new one. *gone*: a run whose process is no more, as its own controller reports."""

    run: str = ""
    controller: str = ""
    process: str = ""
    gone: str = ""


def peek(me: Run) -> Tuple[Optional[Lease], str]:
    """The lease as it is, and why this run would be refused now; nothing is changed. To be looked at before an observation."""
    if not os.path.isdir(DIRECTORY):
        return None, ""
    with _locked():
        lease = _load()
    decision = decide(lease, me.run, _boot_id(), _now(), _alive(lease), path(), me.gone)
    return lease, decision.text if decision.act == REFUSE else ""


def _alive(lease: Optional[Lease]) -> bool:
    """Whether the connection of its run is open; without one (ansible-pull, connection local) whether the process that runs it is there.

    A connection that we share with it (ControlPersist) is open for us alone as well. It is then our own controller that can tell, and does.
    """
    if lease is None:
        return False
    if lease.pid:
        return is_alive(Process(lease.pid, lease.started))
    _here, _colon, rest = lease.process.partition(":")
    number, _colon, started = rest.partition(":")  # of a process on another host there is hardly one here that began in the same tick
    return number.isdigit() and started.isdigit() and is_alive(Process(int(number), int(started)))


def take(me: Run, digest: str, own: bool = False) -> Tuple[Lease, Optional[Lease], List[str]]:
    """Take or renew the lease. Returns (the lease, the one before it, warnings); raises Held where another run has it.

    *own*: for the life of this very process, as a module without a run around it does it; else for that of its connection.
    """
    if me.run and not valid_run(me.run):
        raise PlumblineError("lease: '%s' is no run; it stands in the lease that stack_plan returned" % me.run)
    if not valid_process(me.process):
        raise PlumblineError("lease: '%s' names no process of a controller" % me.process)
    boot = _boot_id()
    with _locked():
        now, before = _now(), _load()  # not earlier: another run may have been seen while this one waited for the lock
        decision = decide(before, me.run, boot, now, _alive(before), path(), me.gone)
        if decision.act == REFUSE:
            raise Held("refused: nothing was written. " + decision.text, before)
        mine = before if before is not None and before.run == me.run and not before.free else None
        life = process(os.getpid()) if own else connection()
        lease = Lease(
            run=me.run or uuid.uuid4().hex,
            controller=name_of(me.controller),
            process=me.process,
            digest=digest,
            boot=boot,
            pid=life.pid,
            started=life.started,
            taken=mine.taken if mine else now,
            renewed=now,
            grace=0 if own else GRACE_SECONDS,
            since=mine.since if mine else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )
        _store(lease)
    return lease, before, [decision.text] if decision.act == TAKE_OVER else []


def renew(asked: Mapping[str, Any]) -> None:
    """Show a sign of life of the run that a writer belongs to. Raises PlumblineError where the lease is not its own any more."""
    boot = _boot_id()
    with _locked():
        now, lease = _now(), _load()
        fault = still_ours(lease, asked, boot, now)
        if fault or lease is None:
            raise PlumblineError("refused: nothing was written. " + fault)
        life = connection()
        _store(lease._replace(renewed=now, pid=life.pid, started=life.started))


def release(run: str) -> bool:
    """Give the lease back. Returns whether it was this run's; that of another stays."""
    if not os.path.isdir(DIRECTORY):
        return False
    with _locked():
        lease = _load()
        if lease is None or lease.run != run or lease.free:
            return False
        _store(lease._replace(free=True, renewed=_now()))
    return True


@contextlib.contextmanager
def writing(asked: Optional[Mapping[str, Any]], check: bool) -> Iterator[List[str]]:
    """Around a writer: under the lease of its run (*asked*: run and digest), or, called alone, under one of its own for as long as it takes.

    Yields warnings.
    """
    if check:
        yield []
    elif asked and asked.get("run"):
        renew({"run": asked["run"], "digest": asked.get("digest") or ""})
        yield []
    else:
        lease, _before, warnings = take(Run(controller="a module called alone"), "", own=True)
        try:
            yield warnings
        finally:
            release(lease.run)
