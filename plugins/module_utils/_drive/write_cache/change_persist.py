# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep write caches over reboots, hot-plug and resets: rule, script, service and state, written and taken back. I/O."""

from __future__ import annotations

import contextlib
import os
from typing import Mapping, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import make_private, replace_file
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._core.systemd import reload_units, systemctl
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import kept_paths, persist_files, read_keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.read_keeping import read_file, starts_at_boot
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.read_persisted import differing

_NOT_LOADED = 5  # exit status of `systemctl stop` for a unit of which nothing is left


def keep(run: Runner, entries: Sequence[persist_files.Entry]) -> bool:
    """Bring rule, script, service and state to these entries. Returns whether anything changed; a failure leaves what was there."""
    stale = differing(entries)
    if not stale and (not entries or starts_at_boot()):
        return False
    old = {path: read_file(path) if os.path.lexists(path) else None for path in stale}
    try:
        if entries:
            _write(stale)
            _enable(run, stale)
        else:
            _disable(run)
            _write(stale)
            _reload(run)
        if kept_paths.RULES in stale:
            run(["udevadm", "control", "--reload"])  # it looks by itself too, but every three seconds only
    except BaseException:
        if entries and not old.get(kept_paths.SERVICE, "there"):
            with contextlib.suppress(OSError):
                _unlink(kept_paths.WANTS)
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


def _enable(run: Runner, stale: Mapping[str, str]) -> None:
    """The service that is new or changed is read, and starts with the next boot. The drives of now are set already."""
    if read_keeping.has_systemd() and (kept_paths.SERVICE in stale or not starts_at_boot()):
        systemctl(run, "enable", "--quiet", kept_paths.UNIT, fault="the service that sets the write caches at boot could not be enabled")


def _disable(run: Runner) -> None:
    """What `systemctl disable --now` does, also where the unit's file is gone, over which systemctl would stumble."""
    if read_keeping.has_systemd() and os.path.lexists(kept_paths.SERVICE):
        systemctl(run, "stop", "--quiet", kept_paths.UNIT, fault="%s could not be stopped" % kept_paths.UNIT)
        systemctl(run, "reset-failed", "--quiet", kept_paths.UNIT)  # or systemd goes on showing a unit that is gone
    _unlink(kept_paths.WANTS)


def retire_timer(run: Runner) -> None:
    """Stop and remove the timer of an earlier release, which would go on asking the drives, and set them to what was specified before."""
    if not has_timer():
        return
    if read_keeping.has_systemd():
        stopped = systemctl(run, "stop", "--quiet", kept_paths.TIMER_UNIT)
        if stopped[0] != _NOT_LOADED:
            must_succeed(stopped, "the timer of an earlier release could not be stopped; nothing was set")
        systemctl(run, "stop", "--quiet", kept_paths.UNIT)  # a run that it began
        systemctl(run, "reset-failed", "--quiet", kept_paths.TIMER_UNIT)
    _unlink(kept_paths.TIMER_WANTS)
    _unlink(kept_paths.TIMER)
    _reload(run)


def has_timer() -> bool:
    """Whether the timer of an earlier release is there."""
    return os.path.lexists(kept_paths.TIMER) or os.path.lexists(kept_paths.TIMER_WANTS)


def _reload(run: Runner) -> None:
    if read_keeping.has_systemd():
        reload_units(run)


def _unlink(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)
