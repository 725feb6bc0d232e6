# SPDX-License-Identifier: GPL-3.0-or-later
"""fio, run beside a look at the CPU. I/O."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from typing import Callable, Iterator, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, read_disk_activity
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_bound_tools import death_tie
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import ENVIRONMENT
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio as measure_fio

EDGE_BYTES = 4 * KIB
_GRACE = 60  # seconds that fio may take beyond its time: a device that hangs, or a machine that swaps


def find_fio() -> str:
    """fio's path. Raises PlumblineError where it is missing."""
    path = shutil.which("fio")
    if not path:
        raise PlumblineError("fio is not on this host; nothing was measured: install the package fio")
    return path


@contextlib.contextmanager
def buffer_of(content: bytes) -> Iterator[memoryview]:
    """Page-aligned memory with this content, as direct I/O wants it."""
    import mmap  # pylint: disable=import-outside-toplevel # by writes only

    with mmap.mmap(-1, len(content)) as memory:
        memory.write(content)
        with memoryview(memory) as view:
            yield view


def read_piece(path: str, offset: int) -> bytes:
    fd = block_device.open_read(path)
    try:
        return block_device.read_at(fd, offset, EDGE_BYTES)
    finally:
        os.close(fd)


@contextlib.contextmanager
def told_if_gone(names: Sequence[str]) -> Iterator[None]:
    """A failure within is reported as a disk that went away, if one of these did."""
    try:
        yield
    except PlumblineError as fault:
        gone = read_disk_activity.first_gone(names)
        if not gone:
            raise
        raise PlumblineError("/dev/%s went away while it was measured (%s); see the kernel's log" % (gone.replace("!", "/"), fault.msg)) from fault


def cpu_times() -> Tuple[int, int]:
    """(busy, all) ticks of the host's CPUs, proc(5). Waiting for I/O is idle; time stolen by a hypervisor is busy."""
    with open("/proc/stat", encoding="ascii") as handle:
        ticks = [int(word) for word in handle.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def run_fio(argv: Sequence[str], ramp: float, seconds: float, what: str, watch: Optional[Callable[[], float]] = None) -> Tuple[str, float]:
    """Run fio for about ramp + seconds. Returns its output, and how busy the CPUs were between ramp and end (a share).

    *watch* is called again and again meanwhile, and says after how many seconds again.

    Raises PlumblineError with fio's own words where it fails. It dies when this process does.
    """
    tie = death_tie()
    try:
        process = subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn # we have one thread, and nothing else ties its life to ours
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=dict(os.environ, **ENVIRONMENT),
            preexec_fn=tie,  # noqa: PLW1509 # as above
        )
    except OSError as fault:
        raise PlumblineError("fio could not be run: %s" % (fault.strerror or fault)) from fault
    try:
        ended = _wait(process, ramp)
        before = cpu_times()
        ended = ended or (_watched(process, seconds, watch) if watch else _wait(process, seconds))
        after = cpu_times()
        ended = ended or _wait(process, _GRACE)
        if not ended:
            raise PlumblineError("fio did not end %d s after its time in %s: a device does not answer; see the kernel's log" % (_GRACE, what))
        out, err = ended
    finally:
        if process.poll() is None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel ends with its device
                process.communicate(timeout=5)
    if process.returncode:
        raise PlumblineError("fio failed in %s: %s" % (what, measure_fio.failure(process.returncode, out, err)))
    return out, (after[0] - before[0]) / max(after[1] - before[1], 1)


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> Optional[Tuple[str, str]]:
    """What fio wrote, if it ended within so many seconds."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    return out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _watched(process: "subprocess.Popen[bytes]", seconds: float, watch: Callable[[], float]) -> Optional[Tuple[str, str]]:
    """The same, with looks at something else between."""
    end = time.monotonic() + seconds
    ended = None
    while ended is None and time.monotonic() < end:
        ended = _wait(process, watch())
    return ended
