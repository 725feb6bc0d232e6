# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep write caches over reboots and hotplug: rule, script, timer and state, written and taken back. I/O."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, Mapping, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._io.files import make_private, replace_file
from ansible_collections.plumbline.ssd.plugins.module_utils._io.tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._write_cache import keeping, kept_paths, persist_files
from ansible_collections.plumbline.ssd.plugins.module_utils._write_cache.keeping import read_file, timer_is_active
from ansible_collections.plumbline.ssd.plugins.module_utils._write_cache.persisted import differing


def keep(run: Runner, entries: Sequence[persist_files.Entry]) -> bool:
    """Bring rule, script, timer and state to these entries. Returns whether anything changed; a failure leaves what was there."""
    stale = differing(entries)
    if not stale and (not entries or timer_is_active(run)):
        return False
    old = {path: read_file(path) if os.path.lexists(path) else None for path in stale}
    try:
        if entries:
            _write(stale)
            _start(run, stale)
        else:
            _stop(run)
            _write(stale)
            if keeping.has_systemd():
                must_succeed(run(["systemctl", "daemon-reload"]), "systemd could not read its units again")
        if kept_paths.RULES in stale:
            run(["udevadm", "control", "--reload"])  # it looks by itself too, but every three seconds only
    except BaseException:
        if entries and not old.get(kept_paths.TIMER, "there"):
            with contextlib.suppress(OSError, PlumblineError):
                _stop(run)
            with contextlib.suppress(OSError):
                _disable()
        for path, text in old.items():  # each as far as it goes: one that fails must not leave the others, which would set the drive again
            with contextlib.suppress(OSError):
                _write({path: text or ""})
        raise
    return True


def _write(texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        directory = os.path.dirname(path)
        if text:
            if path == kept_paths.STATE:
                make_private(directory)
            else:
                os.makedirs(directory, mode=0o755, exist_ok=True)
            replace_file(path, text, mode=persist_files.MODES.get(path, 0o644))
        elif os.path.lexists(path):
            os.unlink(path)
            with contextlib.suppress(OSError):
                if directory == os.path.dirname(kept_paths.SCRIPT):
                    os.rmdir(directory)  # ours, where nothing else was put there


def _start(run: Runner, stale: Mapping[str, str]) -> None:
    """Units that are new or changed are read, and the timer runs; the first look at the drives is the service's own."""
    if not keeping.has_systemd():
        return
    if kept_paths.SERVICE in stale or kept_paths.TIMER in stale or not timer_is_active(run):
        must_succeed(run(["systemctl", "enable", "--quiet", *kept_paths.UNITS]), "the timer that looks after the write caches could not be enabled")
        must_succeed(run(["systemctl", "restart", "--quiet", kept_paths.UNITS[0]]), "the timer that looks after the write caches could not be started")


def _stop(run: Runner) -> None:
    """Stop and disable the timer, also where some of its files are gone, over which systemctl would stumble."""
    if keeping.has_systemd():
        for unit, path in zip(kept_paths.UNITS, (kept_paths.TIMER, kept_paths.SERVICE)):
            if os.path.lexists(path):
                must_succeed(run(["systemctl", "stop", "--quiet", unit]), "%s could not be stopped" % unit)
                run(["systemctl", "reset-failed", "--quiet", unit])  # or systemd goes on showing a unit that is gone
    _disable()


def _disable() -> None:
    """What `systemctl disable` does."""
    for path in kept_paths.WANTS:
        if os.path.lexists(path):
            os.unlink(path)


@contextlib.contextmanager
def paused(run: Runner, needed: bool) -> Iterator[None]:
    """Within, the timer's own run cannot set a drive back to what was asked before; what is running is waited for."""
    stopped = needed and keeping.has_systemd() and os.path.lexists(kept_paths.TIMER) and os.path.lexists(kept_paths.SERVICE)
    if stopped:
        must_succeed(run(["systemctl", "stop", "--quiet", *kept_paths.UNITS]), "the timer that looks after the write caches could not be stopped")
    try:
        yield
    finally:
        if stopped and os.path.lexists(kept_paths.TIMER):
            run(["systemctl", "start", "--quiet", kept_paths.UNITS[0]])
