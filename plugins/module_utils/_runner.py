# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""What every module of the collection does with Ansible: run a tool, demand root, fail with reasons."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from typing import Any, Callable, List, Mapping, NoReturn, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError, nearest, one_line, several, shown
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Observation

PR_SET_PDEATHSIG = 1  # prctl(2)
# Tools speak English and read no user's settings; lvm warns of descriptors that it inherits unless told not to.
ENVIRONMENT = {"LC_ALL": "C", "LANGUAGE": "C", "LVM_SUPPRESS_FD_WARNINGS": "1"}


def runner(module: Any) -> Callable[[Sequence[str]], Tuple[int, str, str]]:
    """Runs an argv list without a shell, in the C locale."""

    def run(argv: Sequence[str]) -> Tuple[int, str, str]:
        code, out, err = module.run_command(list(argv), environ_update=ENVIRONMENT, handle_exceptions=False)
        return code, out, err

    return _guarded(run)


def feed_runner(module: Any) -> Callable[[Sequence[str], str], Tuple[int, str, str]]:
    """Like runner(), with text for the tool's standard input."""

    def run(argv: Sequence[str], text: str) -> Tuple[int, str, str]:
        code, out, err = module.run_command(list(argv), data=text or None, environ_update=ENVIRONMENT, handle_exceptions=False)
        return code, out, err

    return _guarded(run)


def starter(module: Any) -> Callable[[Sequence[str]], Callable[[], Tuple[int, str, str]]]:
    """Like runner(), but the tool runs on while the module goes about something else; what is returned waits for it."""

    def start(argv: Sequence[str]) -> Callable[[], Tuple[int, str, str]]:
        environment = dict(os.environ, **ENVIRONMENT)
        command = [module.get_bin_path(argv[0], required=True)] + list(argv[1:])
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, universal_newlines=True)

        def wait() -> Tuple[int, str, str]:
            out, err = process.communicate()
            return process.returncode, out, err

        return wait

    return start


def death_tie() -> Callable[[], None]:
    """What ties a child's life to ours, also when we are killed: to be called in it between fork and exec."""
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here, since little may be done between fork and exec

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return tie


def bound_runner(module: Any, seconds: float) -> Callable[[Sequence[str]], Tuple[int, str, str]]:
    """Like runner(), for a tool that must not outlive the module (it dies with it, also of SIGKILL) and gets so many seconds."""
    tie = death_tie()

    def run(argv: Sequence[str]) -> Tuple[int, str, str]:
        path = module.get_bin_path(argv[0])
        if path is None:
            raise PlumblineError("%s is not on this host; install the package %s" % (argv[0], argv[0]))
        with subprocess.Popen(
            [path] + list(argv[1:]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, **ENVIRONMENT), universal_newlines=True, preexec_fn=tie, cwd="/",  # noqa: PLW1509 # pylint: disable=subprocess-popen-preexec-fn # this process has one thread
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as late:
                process.kill()
                raise PlumblineError("%s did not end within %d s and was ended; does the device answer?" % (argv[0], seconds)) from late
            return process.returncode, out, err

    return _guarded(run)


def _guarded(run: Callable[..., Tuple[int, str, str]]) -> Callable[..., Tuple[int, str, str]]:
    def guarded(argv: Sequence[str], *rest: str) -> Tuple[int, str, str]:
        try:
            return run(argv, *rest)
        except OSError as fault:
            raise PlumblineError("%s could not be run: %s" % (argv[0], fault.strerror or fault)) from fault

    return guarded


def need_root() -> None:
    """Raise PlumblineError where the module does not run as root."""
    if os.geteuid() != 0:
        raise PlumblineError("root is missing: the module runs as user %d; set become: true on the play or the task" % os.geteuid())


_LINES = ("report", "paragraphs")  # of a result: what people read, one line an item


def leave(module: Any, warnings: Sequence[str] = (), **result: Any) -> NoReturn:
    """End a module well. This is the one way out for a result, as PlumblineError is for a failure: nothing unprintable goes through either.

    Ansible takes no result of a module for a template (only what a playbook's author wrote is trusted as one), but it prints what it gets.
    """
    for warning in warnings:
        module.warn(one_line(warning))
    module.exit_json(**{key: _printable(value, key in _LINES) for key, value in result.items()})
    raise SystemExit(0)


def _printable(value: Any, lines: bool = False) -> Any:
    if isinstance(value, str):
        return shown(value, "" if lines else "\n\t")
    if isinstance(value, Mapping):
        return {_printable(key): _printable(inner, key in _LINES) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(inner, lines) for inner in value]
    return value


def exit_refused(module: Any, fault: PlumblineError, **more: Any) -> NoReturn:
    """Fail the module with the message and its reasons, and nothing else but what is given besides."""
    reasons = {"reasons": fault.reasons} if fault.reasons else {}
    module.fail_json(msg=fault.msg, **reasons, **{key: _printable(value) for key, value in more.items()})
    raise SystemExit(1)


def device_path(name: str) -> str:
    """A name below /dev/disk/by-id, or a path, as a path."""
    return name if name.startswith("/") else "/dev/disk/by-id/" + name


def missing_devices(seen: Observation, asked: Sequence[str], whole: bool = False) -> None:
    """Raise PlumblineError for the devices that are not there, with the nearest name of each. *whole*: disks are wanted, and no part of one."""
    disks = sorted(node.name for node in seen.nodes.values() if node.kind == "disk")
    reasons: List[str] = []
    for path in asked:
        node = seen.nodes.get(seen.paths.get(path, ""))
        if node is None and os.path.exists(path):
            reasons.append("%s is no block device that the kernel shows; the disks of this host are %s" % (path, ", ".join(disks) or "none"))
        elif node is None:
            reasons.append("device %s is not there%s" % (path, nearest(path.rsplit("/", 1)[-1], seen.links)))
        elif whole and node.kind not in ("disk", "loop"):
            what = "a partition" if node.kind == "part" else "of the kind %s" % (node.kind if node.kind != "other" else node.name.rstrip("0123456789"))
            reasons.append("%s is no whole disk, but %s; the disks of this host are %s" % (path, what, ", ".join(disks) or "none"))
    if reasons:
        raise several("", reasons)
