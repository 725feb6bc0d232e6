# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the files of the monitor on the host, start what they are for, and take back exactly what was put there. I/O."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import make_private, read_json, read_root_file, remove_file, replace_file, write_json
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._core.systemd import reload_units, systemctl
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor import unit_files

RECORD = "/var/lib/plumbline/monitor/files.json"  # what was written where; "before": smartd.conf as it was
_SMARTD_CONFS = ("/etc/smartmontools/smartd.conf", "/etc/smartd.conf")  # Fedora and RHEL; Debian and SUSE
_SMARTD_UNITS = ("smartmontools.service", "smartd.service")
_UNIT_HOMES = ("/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system")
_METRICS = "the metrics of the last reading\n"  # in their place, in the diff
_ALERT = "/usr/share/smartmontools/smartd-runner"  # Debian's: runs what is in /etc/smartmontools/run.d


class MonitorChange(NamedTuple):
    """What was done, or would be. *diff*: path → (text before, text after)."""

    changed: bool
    diff: Mapping[str, Tuple[str, str]]
    warnings: Sequence[str] = ()


def smartd_conf() -> str:
    """Where this host's smartd reads its configuration."""
    return next((path for path in _SMARTD_CONFS if os.path.isdir(os.path.dirname(path)) and os.path.exists(path)), _SMARTD_CONFS[-1])


def alert_program() -> str:
    return _ALERT if os.access(_ALERT, os.X_OK) else ""


def prove_smartd(run: Runner, smartd: str, text: str) -> None:
    """Raise PlumblineError if smartd would not watch every drive of this configuration. Nothing is left running."""
    with tempfile.NamedTemporaryFile("w", prefix="plumbline-smartd-", suffix=".conf") as handle:
        handle.write(text)
        handle.flush()
        # Without a state and a log of attributes: on Debian smartd would keep both, in check mode as well.
        must_succeed(run([smartd, "-q", "onecheck", "-s", "-", "-A", "-", "-c", handle.name]), "smartd does not take the configuration, so the old one stays")


def _text_of(path: str) -> Optional[str]:
    """What is there of a file of the monitor. What lies in node_exporter's folder is not opened: others may have put anything there."""
    if os.path.basename(path) == unit_files.METRICS_FILE:
        return _METRICS if os.path.lexists(path) else None
    return read_root_file(path)


def apply_files(run: Runner, texts: Mapping[str, str], outputs: Sequence[str], check_mode: bool) -> MonitorChange:
    """Bring the host to these files (path → text) and no others of ours. *outputs*: what the program writes. Only changes restart a service."""
    conf = smartd_conf()
    record, kept = _record(conf), {*texts, *outputs}
    gone = sorted(set(record.files) - kept)
    present = {path: _text_of(path) for path in [*texts, *gone]}
    texts_after: Dict[str, Optional[str]] = {**texts, **dict.fromkeys(gone)}
    if conf in texts_after and texts_after[conf] is None:
        texts_after[conf] = record.before if _is_ours(present[conf]) else present[conf]
    elif conf in texts_after and conf not in record.files:
        record = record._replace(before=present[conf])
    stale = {path: text for path, text in texts_after.items() if present[path] != text}
    active = _is_active(run, unit_files.UNITS[0]) if unit_files.TIMER in texts else True
    warnings: List[str] = []
    if not check_mode and (stale or not active or kept != set(record.files)):
        if texts:
            _save(record._replace(files=tuple(sorted(kept | set(record.files)))))
        if unit_files.TIMER in gone:
            _stop(run)
        _write(stale)
        _tell_timer(run, stale, texts, active, warnings)
        if conf in stale:
            record = _tell_smartd(run, record, conf in texts, conf not in record.files, warnings)
        if texts:
            _save(record._replace(files=tuple(sorted(kept))))
        else:
            _forget()
    diff = {path: (_shown(path, present[path]), _shown(path, text)) for path, text in stale.items()}
    return MonitorChange(bool(stale) or not active, diff, warnings)


class _Record(NamedTuple):
    """What the host keeps of the monitor: its files, smartd.conf as it was before (None: there was none), and what was done to smartd's unit.

    *enabled*: the unit, if it was enabled by us; *started*: whether it did not run before.
    """

    files: Tuple[str, ...] = ()
    before: Optional[str] = None
    enabled: str = ""
    started: bool = False


def _record(conf: str) -> _Record:
    """What is kept. Where that is lost, what is ours by its name or its mark."""
    raw = read_json(RECORD)
    try:
        files, before, enabled = tuple(raw["files"]), raw["before"], raw["enabled"]
        if all(isinstance(path, str) for path in files) and isinstance(before, (str, type(None))) and enabled in ("", *_SMARTD_UNITS):
            return _Record(files, before, enabled, raw.get("started") is True)
    except (TypeError, KeyError):
        pass
    left = [path for path in (unit_files.PROGRAM, unit_files.SETTINGS, unit_files.SERVICE, unit_files.TIMER) if os.path.lexists(path)]
    return _Record((*left, conf) if _is_ours(_text_of(conf)) else tuple(left))


def _is_ours(text: Optional[str]) -> bool:
    return (text or "").startswith(unit_files.MARK)


def _save(record: _Record) -> None:
    write_json(RECORD, record._asdict(), "which files the monitor has")


def _write(stale: Mapping[str, Optional[str]]) -> None:
    for path, text in stale.items():
        try:
            home = os.path.dirname(path)
            if text is None:
                remove_file(path)
                if home == unit_files.OLD_HOME:
                    with contextlib.suppress(OSError):
                        os.rmdir(home)  # ours, where nothing else was put there
                continue
            if home == unit_files.HOME:
                make_private(home)
            else:
                os.makedirs(home, mode=0o755, exist_ok=True)
            replace_file(path, text)
        except OSError as fault:
            raise PlumblineError("%s could not be written: %s" % (path, fault.strerror or fault)) from fault


def _forget() -> None:
    with contextlib.suppress(OSError):
        os.unlink(RECORD)
        os.rmdir(os.path.dirname(RECORD))


def _tell_timer(run: Runner, stale: Mapping[str, Optional[str]], texts: Mapping[str, str], active: bool, warnings: List[str]) -> None:
    if {unit_files.SERVICE, unit_files.TIMER} & set(stale):
        reload_units(run)
    if unit_files.TIMER in texts and (unit_files.TIMER in stale or not active):
        must_succeed(run(["systemctl", "enable", "--quiet", unit_files.UNITS[0]]), "the timer of the monitor could not be enabled")
        must_succeed(run(["systemctl", "restart", "--quiet", unit_files.UNITS[0]]), "the timer of the monitor could not be started")
    if unit_files.PROGRAM in texts and {unit_files.PROGRAM, unit_files.SETTINGS, unit_files.SERVICE} & set(stale):
        warnings += read_now(run)


def read_now(run: Runner) -> List[str]:
    """Have the program read the host, so that its metrics are those of now. Returns what went wrong."""
    code, _out, err = run(["systemctl", "start", "--quiet", unit_files.UNITS[1]])
    return ["the reading failed (journalctl -u plumbline-monitor): %s" % " ".join(err.split())] if code else []


def _tell_smartd(run: Runner, record: _Record, watching: bool, first: bool, warnings: List[str]) -> _Record:
    """smartd reads its new configuration. Returns the record with what had to be done to its unit. *first*: the configuration was not ours yet."""
    unit, _masked = _smartd_unit()
    if not unit:
        warnings.append("smartd has no systemd unit here: start it by your own means")
        return record
    if not watching:
        if record.started:
            systemctl(run, "stop", "--quiet", unit)
        else:
            systemctl(run, "try-restart", "--quiet", unit)  # without a configuration it does not start
        if record.enabled:
            systemctl(run, "disable", "--quiet", record.enabled, fault="smartd could not be disabled")
        return record._replace(enabled="", started=False)
    if first:
        record = record._replace(started=not _is_active(run, unit))
    if systemctl(run, "is-enabled", "--quiet", unit)[0]:
        systemctl(run, "enable", "--quiet", unit, fault="smartd could not be enabled")
        record = record._replace(enabled=unit)
    systemctl(run, "restart", "--quiet", unit, fault="smartd could not be started with its new configuration")
    if not _is_active(run, unit):
        warnings.append("%s does not run: a condition of its unit is not met on this host (systemctl status %s)" % (unit, unit))
    return record


def _smartd_unit() -> Tuple[str, bool]:
    """(smartd's unit on this host, or none; whether it is masked: a link to /dev/null, systemd.unit(5))."""
    units = [(unit, os.path.join(home, unit)) for unit in _SMARTD_UNITS for home in _UNIT_HOMES if os.path.exists(os.path.join(home, unit))]
    return (units[0][0], os.path.realpath(units[0][1]) == os.devnull) if units else ("", False)


def check_not_masked() -> None:
    """Raise PlumblineError where systemd would not start smartd: before anything is written, and with the ways out."""
    unit, masked = _smartd_unit()
    if masked:
        ways = "unmask it (systemctl unmask %s), or set smartd: false" % unit
        raise PlumblineError("smartd: its unit %s is masked on this host, and nothing was written; %s" % (unit, ways))


def _is_active(run: Runner, unit: str) -> bool:
    return systemctl(run, "is-active", "--quiet", unit)[0] == 0


def _stop(run: Runner) -> None:
    must_succeed(run(["systemctl", "disable", "--quiet", "--now", unit_files.UNITS[0]]), "the timer of the monitor could not be stopped")
    run(["systemctl", "stop", "--quiet", unit_files.UNITS[1]])
    run(["systemctl", "reset-failed", "--quiet", unit_files.UNITS[1]])  # or systemd goes on showing a unit that is gone


def _shown(path: str, text: Optional[str]) -> str:
    """For the diff. The program is no text."""
    return "" if text is None else "%d bytes\n" % len(text) if path == unit_files.PROGRAM else text
