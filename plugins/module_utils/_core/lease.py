# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of a host: who may write to it now. Pure.

A flock dies with the module that holds it, and a run is many modules; so what says "one run at a time" is a file,
and what says that its holder is gone is the host itself: another boot, or a holder that shows no sign of life any
more. A sign of life is a call of one of our writers, and the connection of the run as long as it is open.
"""

from __future__ import annotations

import json
import re
from typing import Any, Mapping, NamedTuple, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable

# How long a run counts as alive after its last sign of life, in seconds. A connection that is open is such a sign, and every tool
# of a run runs within one, however long it takes; what has to fit in here is only a run that waits for other hosts or its operator
# with no connection open (OpenSSH's ControlPersist, 60 s in Ansible, ended). Too short would let a second run begin behind the back of
# a first, whose next writer then refuses, since the lease is not its own any more; too long makes the next run wait after a dead one.
GRACE_SECONDS = 600
MAX_BYTES = 4096  # of a lease's file
MAX_NAME = 80  # characters

TAKE, TAKE_OVER, RENEW, REFUSE = "take", "take over", "renew", "refuse"

_NUMBER = (int, float)
_RUN = re.compile(r"[0-9a-f]{32}")
_BOOT = re.compile(r"[0-9a-f-]{0,40}")
_DIGEST = re.compile(r"(?:[0-9a-f]{64})?")
_PROCESS = re.compile(r"[0-9A-Za-z:._-]{0,120}")
_SINCE = re.compile(r"[0-9TZ:-]{1,32}")


class Lease(NamedTuple):
    """What the file says. Times are seconds of the clock that counts from boot and through suspend, which no administrator sets."""

    run: str  # 32 hexadecimal digits, drawn for each run
    controller: str = ""  # who runs it, for people
    process: str = ""  # its process on the controller, as stack_plan's action names it; the same controller can tell whether it lives
    digest: str = ""  # of the plan that is carried out
    boot: str = ""  # the kernel's boot id
    pid: int = 0  # the process whose life is the run's connection; 0 where there is none to be seen
    started: int = 0  # when that process began, in the kernel's ticks: numbers of processes are given out again
    taken: float = 0.0
    renewed: float = 0.0
    grace: int = GRACE_SECONDS
    since: str = ""  # when it was taken, for people
    free: bool = False  # given back; what is left says that a run has been


class Decision(NamedTuple):
    """What to do about a lease, and the words for it."""

    act: str
    text: str = ""


def dump(lease: Lease) -> str:
    """The lease as it is kept."""
    return json.dumps(dict(lease._asdict()), sort_keys=True) + "\n"


def is_free(text: str) -> bool:
    """Whether a text that is no lease of this release is one of another that was given back."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("free") is True


def parse_lease(text: str) -> Lease:
    """Read a lease; raises ValueError for anything that dump() would not have written."""
    try:
        data = json.loads(text)
    except RecursionError as deep:
        raise ValueError("nested too deeply") from deep
    if not isinstance(data, dict) or set(data) != set(Lease._fields):
        raise ValueError("other keys than those of a lease")
    if not isinstance(data["free"], bool):
        raise ValueError("'free' is not as it should be")
    for key, kinds, below in (("pid", int, 1 << 53), ("started", int, 1 << 53), ("grace", int, 1 << 53), ("taken", _NUMBER, 1e12), ("renewed", _NUMBER, 1e12)):
        if not isinstance(data[key], kinds) or isinstance(data[key], bool) or not 0 <= data[key] < below:
            raise ValueError("'%s' is not as it should be" % key)
    for key, pattern in (("run", _RUN), ("boot", _BOOT), ("digest", _DIGEST), ("since", _SINCE), ("process", _PROCESS)):
        if not isinstance(data[key], str) or not pattern.fullmatch(data[key]):
            raise ValueError("'%s' is not as it should be" % key)
    if not isinstance(data["controller"], str):
        raise ValueError("'controller' is not as it should be")
    return Lease(**dict(data, controller=name_of(data["controller"])))


def name_of(controller: str) -> str:
    """A controller's name for itself, as it may stand in a message: one line, nothing in it that is not printable, not long."""
    return escape_unprintable(controller)[:MAX_NAME]


def valid_run(text: str) -> bool:
    """Whether a text is the name of a run."""
    return bool(_RUN.fullmatch(text))


def valid_process(text: str) -> bool:
    """Whether a text can name a process on a controller."""
    return bool(_PROCESS.fullmatch(text))


def holder(lease: Lease, now: float) -> str:
    """The holder by name, for a message."""
    who = " of %s" % lease.controller if lease.controller else ""
    return "run %s%s (since %s, last seen %d s ago)" % (lease.run[:8], who, lease.since, max(now - lease.renewed, 0))


def expiry(lease: Lease, boot: str, now: float, alive: bool) -> str:
    """Why a lease that was not given back counts no more; empty where it does. *alive*: its process is there."""
    if lease.boot != boot:
        return "the host was started anew since"
    if now < lease.renewed:
        return "it was last seen at a time that has not come yet"
    if alive:
        return ""
    silent = now - lease.renewed
    if silent < lease.grace:
        return ""
    return "%snothing was heard of it for %d s" % ("its connection is closed, and " if lease.pid else "", silent)


def decide(lease: Optional[Lease], run: str, boot: str, now: float, alive: bool, path: str, gone: str = "") -> Decision:
    """May *run* begin to write, the lease being as it is? *gone*: a run whose own controller says that its process is no more."""
    if lease is None or lease.free:
        return Decision(TAKE)
    if lease.run == run:
        return Decision(RENEW) if lease.boot == boot else Decision(REFUSE, "the host was started anew since this run planned; run again")
    why = "its process on the controller is gone" if gone and gone == lease.run else expiry(lease, boot, now, alive)
    if why:
        return Decision(TAKE_OVER, "the lease of %s was taken over: %s; it may have left work unfinished, which is carried on" % (holder(lease, now), why))
    if alive:
        end = "it is at work"
    else:
        end = "it counts as gone in %d s" % (lease.grace - (now - lease.renewed))
    return Decision(
        REFUSE,
        "another run has this host [lease]: %s; %s. Wait for its end; if it is gone for certain, remove %s" % (holder(lease, now), end, path),
    )


def still_ours(lease: Optional[Lease], asked: Mapping[str, Any], boot: str, now: float) -> str:
    """Why a writer that was planned under the lease *asked* (run, digest) may write no more; empty where it may."""
    if lease is None:
        return "the lease of this run is gone [lease]: the host was started anew, or somebody removed it; run again"
    if lease.run != asked["run"]:
        return "the lease of this run is now that of %s [lease]; the plan may not hold any more; run again when that one has ended" % holder(lease, now)
    if lease.free:
        return "the lease of this run was given back [lease]; run again"
    if lease.boot != boot:
        return "the host was started anew since the plan [lease]; run again"
    if lease.digest != asked["digest"]:
        return "the lease is for the plan %s, and this step is of the plan %s [lease]; run again" % (lease.digest[:12] or "-", str(asked["digest"])[:12] or "-")
    return ""
