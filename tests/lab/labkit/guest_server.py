# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest: calls modules and shell commands for the tests, one JSON line each way per call.

The modules are imported once; a call forks, so that what a module leaves in memory ends with it. Under TCG
that spares the two seconds which Python's start costs. Standard library and ansible.module_utils only.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK = "/etc/plumbline-lab"
OURS = (
    "stack_plan stack_info device_info drive_health aligned_partition mount_points write_cache offset_sweep throughput sync_latency fstrim_proof monitor"
    " stack_proof run_lease steady_state acceptance audit"
)
STUCK_SECONDS = 120
PRELOADED = (
    *(f"plumbline.ssd.{name}" for name in OURS.split()),
    *(f"community.general.{name}" for name in ("lvg", "lvol", "filesystem")),
)


def load(name: str) -> Any:
    """The Python module of an Ansible module by its full name."""
    namespace, collection, module = name.split(".")
    return importlib.import_module(f"ansible_collections.{namespace}.{collection}.plugins.modules.{module}")


def run_module(call: dict[str, Any]) -> None:
    """In the child: what AnsiballZ does for a module, without the archive."""
    from ansible.module_utils import basic

    arguments = {**call["args"], "_ansible_check_mode": call["check"], "_ansible_diff": call["diff"]}
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
    basic._ANSIBLE_PROFILE = "legacy"
    load(call["module"]).main()


def run_command(call: dict[str, Any]) -> None:
    """In the child: a shell command."""
    os.execv("/bin/bash", ["bash", "-o", "pipefail", "-c", call["command"]])


def in_child(work: Callable[[dict[str, Any]], None], *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """Fork for each call, do the work there at the same time, and return the exit codes and what was written.

    Files and not pipes take the output: a daemon that a tool leaves behind would keep a pipe open.
    """
    begun = [_begin(work, call) for call in calls]
    return [_end(*one) for one in begun]


def _begin(work: Callable[[dict[str, Any]], None], call: dict[str, Any]) -> tuple[int, float, float, Any, Any]:
    begin = time.monotonic()
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 # _end() closes them
    child = os.fork()
    if child == 0:
        _become_child(work, call, out.fileno(), err.fileno())
    return child, begin, begin + call["timeout"], out, err


def _end(child: int, begin: float, deadline: float, out: Any, err: Any) -> dict[str, Any]:
    with out, err:
        status = _wait(child, deadline)
        texts = []
        for handle in (out, err):
            handle.seek(0)
            texts.append(handle.read().decode("utf-8", "replace"))
    code = os.waitstatus_to_exitcode(status) if status is not None else 124
    return {"rc": code, "out": texts[0], "err": texts[1], "seconds": round(time.monotonic() - begin, 3)}


def _become_child(work: Callable[[dict[str, Any]], None], call: dict[str, Any], out: int, err: int) -> None:
    code = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.environ.update(call["env"])
        work(call)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait(child: int, deadline: float) -> int | None:
    """The child's wait status; None where it had to be killed. Nothing wakes up meanwhile: the child would pay for it.

    A child that waits for a disk which never answers cannot be killed. Then the server ends, since a test that hangs says nothing.
    """
    handle = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        ended = poll.poll(max(deadline - time.monotonic(), 0) * 1000)
        if not ended:
            try:
                os.killpg(child, signal.SIGKILL)
            except ProcessLookupError:  # it has not become the leader of its group yet
                os.kill(child, signal.SIGKILL)
            if not poll.poll(STUCK_SECONDS * 1000):
                places = [path.read_text() for path in Path(f"/proc/{child}/task").glob("*/wchan")]
                raise SystemExit(f"a call was killed {STUCK_SECONDS} s ago and is still there; its threads wait in the kernel: {', '.join(places)}")
    finally:
        os.close(handle)
    status = os.waitpid(child, 0)[1]
    return status if ended else None


def serve() -> None:
    """Answer calls until standard input ends."""
    for name in PRELOADED:
        load(name)
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for line in sys.stdin:
        call = json.loads(line)
        if "together" in call:
            shared = {key: value for key, value in call.items() if key != "together"}
            answers = in_child(run_module, *({**shared, **one} for one in call["together"]))
            answer = {"together": answers, "seconds": max(one["seconds"] for one in answers)}
        else:
            (answer,) = in_child(run_module if "module" in call else run_command, call)
        print(json.dumps(answer), flush=True)


def main() -> int:
    """Refuse every machine that is not marked as the lab's: what is called here destroys disks."""
    if not os.path.exists(MARK):
        print(f"{MARK} is missing: this is not the lab's machine, nothing is run here", file=sys.stderr)
        return 3
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
