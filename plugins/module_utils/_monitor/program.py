# SPDX-License-Identifier: GPL-3.0-or-later
"""What the timer runs on the host: reads drives and stacks, and writes the metrics. No Ansible is needed there. I/O.

Its only argument is the path of its settings, a JSON file that the module wrote.
"""

from __future__ import annotations

import calendar
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from typing import Any, Iterator, List, Mapping, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import replace_file
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Run, peek
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_bound_tools import bound_runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import one_line
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import ACCEPTED, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_call import read_health, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans, find_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.kept_drift import kept_drift
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.read_persisted import read_kept
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor.metrics import HostReading, Proof, failure_text, metrics_text
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_proofs
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_stacks import records_of_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.host_rules import absent_mounts, host_findings
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.redundancy import arrays_of_host
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.stacks_gone import gone_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view

_TOOL_SECONDS = 120  # that a tool which reads the storage gets


class _Host:
    """What bound_runner() asks a module for."""

    get_bin_path = staticmethod(shutil.which)


def read_for_metrics(settings: Mapping[str, Any], now: int) -> Optional[HostReading]:
    """All that is reported of the host; None while a run holds its lease, since commands to the drives would disturb what it measures."""
    begin = time.monotonic()
    _lease, held = peek(Run())
    if held:
        return None
    nodes, _names = find_disks([], True)
    means = DriveMeans(shutil.which, settings["timeout"])
    health = read_health(means, nodes, settings, read_options(settings, now), everything=True, keep=True)
    seen = observe(bound_runner(_Host, _TOOL_SECONDS), Questions(everything=True, prove=False, guards=False, process="1"))
    findings = [*host_findings(seen), *absent_mounts(seen), *kept_drift(seen, read_kept())]
    findings += gone_stacks(seen, records_of_stacks(), settings["stacks"])
    lines = [(finding.level, finding.text) for finding in findings]
    lines += [(finding["level"], finding["text"]) for finding in health.result["findings"] if finding["rule"] in ("left_out", "left_out_nothing")]
    for level, text in lines:
        sys.stderr.write("%s: %s\n" % (level, one_line(text)))
    return HostReading(
        when=now,
        seconds=time.monotonic() - begin,
        drives=health.result["drives"],
        links={seen.nodes[devno].name: links for devno, links in seen.drive_links.items()},
        stacks=[view(seen, devno).as_dict() for devno in tops(seen, None)],
        proofs=read_proofs(),
        findings=findings,
        raids=arrays_of_host(seen),
    )


def read_proofs() -> List[Proof]:
    """The last measured proof of each stack that the host keeps."""
    try:
        names = sorted(os.listdir(keep_proofs.DIRECTORY))
    except OSError:
        return []
    proofs = []
    for name in (file[: -len(".json")] for file in names if file.endswith(".json")):
        record = keep_proofs.load_proof(name)
        if record:
            verdict = record.get("verdict")
            proofs.append(Proof(name, verdict in (PASS, ACCEPTED), _seconds(record.get("time")), verdict == ACCEPTED))
    return proofs


def _seconds(text: Any) -> Optional[int]:
    """The time of a record, as ISO 8601 in UTC, in seconds since 1970."""
    try:
        return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
    except (TypeError, ValueError):
        return None


class _Ended(BaseException):
    """systemd ends the reading, which took too long. No fault of a drive: whoever takes one drive's fault as an answer must not take this."""


@contextlib.contextmanager
def _told_of_the_end() -> Iterator[None]:
    """Within, SIGTERM raises _Ended, once."""

    def end(number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # what is left takes moments
        raise _Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main(arguments: List[str]) -> int:
    with open(arguments[0], encoding="utf-8") as handle:
        settings = json.load(handle)
    begin, now = time.monotonic(), int(time.time())
    code = 0
    try:
        with _told_of_the_end():
            reading = read_for_metrics(settings, now)
        if reading is None:
            sys.stderr.write("another run has this host: it is not read now\n")
            return 0
        text = metrics_text(reading)
    except PlumblineError as fault:
        sys.stderr.write(fault.msg + "\n")
        text, code = failure_text(now, time.monotonic() - begin), 1
    except _Ended:
        sys.stderr.write("the reading was ended after %d s; it has to end by itself within the TimeoutStartSec of its unit\n" % (time.monotonic() - begin))
        text, code = failure_text(now, time.monotonic() - begin), 1
    except Exception:  # the old metrics must not go on saying that all is well
        _put(settings["textfile"], failure_text(now, time.monotonic() - begin))
        raise
    return code if _put(settings["textfile"], text) else 1


def _put(path: str, text: str) -> bool:
    """Put the metrics in their place. Returns whether that was possible; why not is written to the journal."""
    try:
        replace_file(path, text)
    except OSError as fault:
        sys.stderr.write("%s could not be written: %s\n" % (path, fault.strerror or fault))
        return False
    return True
