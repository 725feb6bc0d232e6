# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that carries out a run to the steady state on the host, for hours and without Ansible. I/O.

Its only argument is the directory of the run. It holds the host's lease and the device, and says how far it is in a file below /run.
A run that was cut off is taken up; one that has its verdict leaves the device discarded and blank.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import Any, List, Mapping, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import read_json, write_json
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Run, release, take
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_bound_tools import bound_runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import find_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.raw_device import free_device, hold_device
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import RUNNING
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.drive_load import FioDrive
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.files import read_runs
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import Paths, Request, paths_of, read_record
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.run import SteadyRun
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.search import search_of

_TOOL_SECONDS = 120  # that a tool which reads the storage gets
LOADING, FREED, FAILED = "loading", "freed", "failed"


class _Host:
    """What bound_runner() asks a module for."""

    get_bin_path = staticmethod(shutil.which)


def host_runner() -> Runner:
    return bound_runner(_Host, _TOOL_SECONDS)


def carry_out(run: Runner, paths: Paths, request: Request) -> None:
    """The rounds that are left, under the lease and the lock of the device. Raises PlumblineError with every reason."""
    mark = bytes.fromhex(request.mark)
    (node,), _names = find_disks([request.path], False)
    if node.identity.key != request.drive:
        raise PlumblineError("%s is another drive now: %s, was %s; name the drive by a path that stays" % (request.path, node.identity.key, request.drive))
    lease, _before, _warnings = take(Run(controller="the steady state of %s" % node.name), "", own=True)
    try:
        while True:
            options = _next_options(paths, request)
            if options is None:
                return
            drive = FioDrive(node, request.load, mark, options.reserve)
            with contextlib.closing(SteadyRun(paths.rounds, request.drive, drive.span.length, drive, options)) as steady:
                if steady.rounds.freed:
                    return
                with hold_device(run, request.path, request.serial, request.drive, mark, bool(steady.records)) as device:
                    drive.hold(device)
                    tell(paths, LOADING)
                    while steady.verdict.verdict == RUNNING:
                        steady.advance()
                    free_device(device)
                steady.finish()
    finally:
        release(lease.run)


def _next_options(paths: Paths, request: Request) -> Optional[Options]:
    """Those of the run that is to be carried out, or gone on with. A search has several, and None behind its last."""
    last, finished = read_runs(paths, request.options)
    search = search_of(request, finished)
    if search is None:
        return request.options
    if last is not None and not last.freed:
        return last.options
    plan = search.plan
    if plan.measure is None:
        return None
    with contextlib.suppress(FileNotFoundError):  # cut off behind this very step
        os.rename(paths.rounds, paths.earlier(len(finished)))
    return request.options.with_reserve(plan.measure)


def tell(paths: Paths, state: str, **more: Any) -> None:
    """What poll reads beside the rounds."""
    write_json(paths.status, {"state": state, "pid": os.getpid(), **more}, "how far the steady state is")


def read_request(paths: Paths) -> Request:
    """Raises PlumblineError where none is kept."""
    record: Mapping[str, Any] = read_json(paths.request)
    return read_record(record, paths.request)


def main(argv: List[str]) -> int:
    paths = paths_of(os.path.basename(argv[0].rstrip("/")))
    try:
        carry_out(host_runner(), paths, read_request(paths))
    except PlumblineError as fault:
        with contextlib.suppress(PlumblineError):  # the journal has it as well
            tell(paths, FAILED, msg=fault.msg, reasons=list(fault.reasons))
        sys.stderr.write(fault.msg + "\n")
        return 1
    tell(paths, FREED)
    return 0
