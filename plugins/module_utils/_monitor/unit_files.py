# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts that watch a host: the timer's units, the program's settings, and smartd's configuration. Pure."""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any, List, Mapping, NamedTuple, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

HOME = "/var/lib/plumbline/monitor"  # where root alone can exchange the program that root runs
OLD_HOME = "/usr/local/lib/plumbline"  # of earlier commits: on many hosts the group staff can write to /usr/local/lib
PROGRAM = HOME + "/monitor.pyz"
SETTINGS = HOME + "/monitor.json"
SERVICE = "/etc/systemd/system/plumbline-monitor.service"
TIMER = "/etc/systemd/system/plumbline-monitor.timer"
UNITS = ("plumbline-monitor.timer", "plumbline-monitor.service")
METRICS_FILE = "plumbline.prom"  # in node_exporter's directory
MARK = "# Managed by plumbline.ssd.monitor."

_SERVICE = """{mark}
[Unit]
Description=Read the health of the drives and the state of the stacks for node_exporter

[Service]
Type=oneshot
ExecStart={python} {program} {settings}
Nice=19
IOSchedulingClass=idle
TimeoutStartSec=15min
# A reading takes some ten MiB. Whatever it meets on the host, the database keeps its memory.
MemoryMax=1G
# It reads drives and the host's storage, so it is root. It writes the metrics, its own records, and the locks of LVM and of the lease.
# For the metrics the last folder is named that root alone can exchange: systemd follows links.
ProtectSystem=strict
ReadWritePaths=-{writable} -{records} /run
ProtectHome=read-only
PrivateTmp=yes
NoNewPrivileges=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes
"""
_TIMER = """{mark}
[Unit]
Description=Read the health of the drives and the state of the stacks every {minutes} minutes

[Timer]
OnBootSec=2min
OnUnitActiveSec={minutes}min
RandomizedDelaySec=30

[Install]
WantedBy=timers.target
"""
# A word of smartd.conf ends at a blank; # begins a comment (smartd.conf(5)).
_WORD = re.compile(r"[A-Za-z0-9/._:,=+@-]+")


class SmartdLine(NamedTuple):
    """A drive that smartd watches. *kind*: what smartctl -d takes, empty for what it finds by itself."""

    path: str
    kind: str = ""


def unit_texts(python: Sequence[str], minutes: int, settings: Mapping[str, Any], writable: str) -> Mapping[str, str]:
    """Path → text of the units and of the program's settings. *python*: the words that begin the command; *writable*: where the metrics may be written."""
    words = {"mark": MARK, "python": " ".join(python), "program": PROGRAM, "settings": SETTINGS, "minutes": minutes, "records": posixpath.dirname(HOME)}
    words["writable"] = writable
    return {
        SETTINGS: json.dumps(settings, indent=1, sort_keys=True) + "\n",
        SERVICE: _SERVICE.format(**words),
        TIMER: _TIMER.format(**words),
    }


def can_be_watched(line: SmartdLine) -> bool:
    """Whether the words of a line can stand in smartd.conf."""
    return all(_WORD.fullmatch(word) for word in line if word)


def check_settings(interval: int, mail: str) -> None:
    """Raises PlumblineError for what no timer, and no line of smartd's configuration, can have."""
    if not 1 <= interval <= 1440:
        raise PlumblineError("interval: %d; wanted 1 to 1440 minutes" % interval)
    if not can_be_watched(SmartdLine(mail or "-")):
        raise PlumblineError("mail: '%s' does not fit; wanted an address without blanks" % mail)


def smartd_text(lines: Sequence[SmartdLine], mail: str, alert: str, proof: bool = False) -> str:
    """smartd.conf with a line for each drive, and no DEVICESCAN, after which smartd ignores the rest of the file.

    *alert*: the program that smartd runs beside its mail, empty for none. *proof*: without "-d removable", by which smartd passes over a drive that is
    not there. A drive that dies must not keep smartd from watching the others after a boot, but a line that is wrong has to be found.
    """
    mail_words = "-m %s%s" % (mail, " -M exec %s" % alert if alert else "") if mail else ""
    rows: List[str] = [MARK + " Each run of the role writes all of it."]
    for line in lines:
        words = [line.path, "-d %s" % line.kind if line.kind else "", "" if proof else "-d removable", "-a", mail_words]
        rows.append(" ".join(word for word in words if word))
    return "\n".join(rows) + "\n"
