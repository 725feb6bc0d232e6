# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls the modules' own entry points in the guest, over one connection that stays."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition
from typing import Any

from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_host import plan_host
from ansible_collections.plumbline.ssd.plugins.plugin_utils.views import VIEWS
from plumblab import guest, process
from plumblab.paths import Paths

from . import roles

ROOT = Path(__file__).resolve().parents[3]
KIT = Path(__file__).resolve().parent
HOME = "/run/plumbline-harness"
# The byte code stays over reboots and power cuts: compiling all of it takes most of the time of a connect. It is valid while the sources have
# the times that the archive gave them.
BYTE_CODE = "/var/cache/plumbline-harness"
_ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_COMMUNITY = ("plugins/modules/lvg.py", "plugins/modules/lvol.py", "plugins/modules/filesystem.py")


def until_counted(path: str, column: int, count: int) -> str:
    """Shell that waits until the kernel has counted so much more for a block device, 600 s at most.

    *column* is one of Documentation/ABI/stable/sysfs-block, stat, from 1: 7 is the sectors written, 14 the sectors discarded, 16 the flushes.
    """
    ask = f"awk '{{print ${column}}}' /sys/class/block/$(basename $(readlink -f {path}))/stat"
    return f"until=$(($({ask}) + {count})); until [ $({ask}) -ge $until ] || [ $SECONDS -gt 600 ]; do sleep 0.02; done"


class HarnessError(Exception):
    """The harness itself could not do what was asked; never a module's failure."""


def _files() -> Iterator[tuple[str, Path]]:
    """(name in the guest, file here): the collection, the parts of ansible-core and community.general that modules need."""
    import ansible
    import ansible_collections.community.general as community  # type: ignore[import-untyped]

    parents = list(community.__path__)
    core, general = Path(ansible.__file__).parent, Path(parents[0])
    for name in ("guest_server.py", "clean.sh", "records.py"):
        yield name, KIT / name
    yield "kill_steps.py", ROOT / "tests/tools/kill_steps.py"
    for path in (ROOT / "plugins").rglob("*.py"):
        yield f"ansible_collections/plumbline/ssd/{path.relative_to(ROOT)}", path
    for path in (core / "module_utils").rglob("*.py"):
        yield f"ansible/{path.relative_to(core)}", path
    yield "ansible/release.py", core / "release.py"
    for path in (*(general / name for name in _COMMUNITY), *(general / "plugins/module_utils").glob("*.py")):
        yield f"ansible_collections/community/general/{path.relative_to(general)}", path


def bundle() -> bytes:
    """Everything that the guest needs, as a tar archive."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:gz", compresslevel=1) as archive:
        for name, path in _files():
            archive.add(path, arcname=name, recursive=False)
        archive.addfile(tarfile.TarInfo("ansible/__init__.py"))  # empty, since the real one wants parts that stay here
    return memory.getvalue()


Call = Callable[[str, Mapping[str, Any]], dict[str, Any]]
MADE_HERE = ("stack_plan", *VIEWS)


def made_here(name: str, call: Call, args: Mapping[str, Any], check: bool = False) -> dict[str, Any]:
    """What a module returns whose result is made on the controller, as its action plugin has it made. *call*: a module on the host."""
    tracebacks = []

    def noting(module: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        result = call(module, arguments)
        tracebacks.append(str(result.get("traceback", "")))
        return result

    result: dict[str, Any] = plan_host(noting, dict(args), check) if name == "stack_plan" else VIEWS[name](noting, dict(args))
    return {"failed": False, "traceback": "".join(tracebacks), **result}


class Rounds:
    """Plans that are made side by side: a round of calls begins when each of them waits for one, or has ended."""

    def __init__(self, name: str, call_all: Callable[[Sequence[tuple[str, Mapping[str, Any]]]], list[dict[str, Any]]], plans: int) -> None:
        self._name = name
        self._call_all = call_all
        self._at_work = plans
        self._wanted: dict[int, tuple[str, Mapping[str, Any]]] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._turn = Condition()

    def plan(self, number: int, args: Mapping[str, Any]) -> dict[str, Any]:
        """The result of one plan."""

        def call(module: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            with self._turn:
                self._wanted[number] = module, arguments
                self._begin_round()
                self._turn.wait_for(lambda: number in self._answers)
                return self._answers.pop(number)

        try:
            return made_here(self._name, call, args)
        finally:
            with self._turn:
                self._at_work -= 1
                self._begin_round()

    def _begin_round(self) -> None:
        if self._wanted and len(self._wanted) == self._at_work:
            self._answers.update(zip(self._wanted, self._call_all(list(self._wanted.values())), strict=True))
            self._wanted.clear()
            self._turn.notify_all()


class Harness:
    """One server in the guest. `connect` is called by the first call, and again after the machine was restarted."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._server: subprocess.Popen[str] | None = None
        self._one = threading.Lock()  # the server answers one call after the other
        self.calls = 0
        self.seconds = 0.0

    def connect(self) -> None:
        """Copy the code into the guest and start the server; refuses a machine without the lab's mark."""
        words = guest.ssh_words(self._paths)
        put = f"test -e /etc/plumbline-lab || exit 3; rm -rf {HOME}; mkdir -m 0700 {HOME}; tar -xzf - -C {HOME}"
        done = subprocess.run([*words, put], input=bundle(), capture_output=True, check=False, timeout=300)
        if done.returncode == 3:
            raise HarnessError("the guest has no /etc/plumbline-lab: this is not the lab's machine")
        if done.returncode:
            raise HarnessError(f"the guest did not take the harness: {done.stderr.decode()[-500:]}")
        start = [*words, f"exec python3 -X pycache_prefix={BYTE_CODE} {HOME}/guest_server.py"]
        self._server = subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        self._answer()

    def connected(self) -> bool:
        """Whether the server is there, as far as the host can tell without asking it."""
        return self._server is not None and self._server.poll() is None

    def close(self) -> None:
        """End the server."""
        if self._server is not None and self._server.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # the machine has ended before
                self._server.stdin.close()
            self._server.wait(timeout=20)
            self._server = None

    def module(self, name: str, args: Mapping[str, Any], check: bool = False, env: Mapping[str, str] | None = None, timeout: float = 400) -> dict[str, Any]:
        """The result of a module, by its short name (ours) or its full one. A failure is a result, too; a traceback is not."""

        def call(module: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
            return self._result(module, self._call_module(module, arguments, timeout, check, env))

        return made_here(name, call, args, check) if name in MADE_HERE else call(name, args)

    def together(self, name: str, *args: Mapping[str, Any], timeout: float = 400) -> list[dict[str, Any]]:
        """The results of one of our modules, called at the same time with each of *args*."""

        def call_all(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
            full = [{"module": f"plumbline.ssd.{module}", "args": dict(arguments)} for module, arguments in calls]
            answer = self._call({"together": full, "check": False, "diff": True}, None, timeout)
            return [self._result(one["module"], result) for one, result in zip(full, answer["together"], strict=True)]

        if name not in MADE_HERE:
            return call_all([(name, one) for one in args])
        rounds = Rounds(name, call_all, len(args))
        with ThreadPoolExecutor(len(args)) as threads:
            return list(threads.map(rounds.plan, range(len(args)), args))

    def cut(self, name: str, args: Mapping[str, Any], seconds: float, env: Mapping[str, str] | None = None) -> bool:
        """Begin a module, and kill it with all of its tools after so many seconds. Returns whether it was still at work."""
        return bool(self._call_module(name, args, seconds, env=env)["rc"] == 124)

    def cut_when(self, event: str, name: str, args: Mapping[str, Any], timeout: float = 590) -> None:
        """Begin a module of ours, and kill it with all of its tools when a shell command has ended: on a busy host a fixed time says little.

        Raises HarnessError where the module ended before.
        """
        module = f"$(pgrep -P {self.must('echo $PPID').strip()})"  # the server has no other child meanwhile
        watcher = self.must(f"({event}; kill -KILL -- -{module}) > /dev/null 2>&1 & echo $!").strip()
        answer = self._call_module(name, args, timeout)
        if answer["rc"] != -signal.SIGKILL:
            self.run(f"kill {watcher}")
            raise HarnessError(f"{name} was not killed in the middle, it returned {answer['rc']}\n{answer['out'][-1500:]}\n{answer['err'][-3000:]}")

    def _call_module(
        self, name: str, args: Mapping[str, Any], timeout: float, check: bool = False, env: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        full = name if "." in name else f"plumbline.ssd.{name}"
        return self._call({"module": full, "args": dict(args), "check": check, "diff": True}, env, timeout)

    @staticmethod
    def _result(name: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        try:
            result: dict[str, Any] = json.loads(answer["out"])
        except ValueError as error:
            raise HarnessError(f"{name} returned {answer['rc']} and no JSON\n{answer['out'][-1500:]}\n{answer['err'][-3000:]}") from error
        result.setdefault("failed", answer["rc"] != 0)
        result["traceback"] = answer["err"] if "Traceback" in answer["err"] else ""
        return result

    def run(self, command: str, timeout: float = 300) -> tuple[int, str, str]:
        """A shell command as root: return code, standard output, standard error."""
        answer = self._call({"command": command}, None, timeout)
        return answer["rc"], answer["out"], answer["err"]

    def must(self, command: str, timeout: float = 300) -> str:
        """The standard output of a shell command that has to succeed (each line of it: `set -e`)."""
        code, out, err = self.run("set -e\n" + command, timeout)
        if code:
            raise HarnessError(f"{command}\nended with {code}: {(err or out)[-2000:]}")
        return out

    def apply(self, steps: Sequence[Mapping[str, Any]], check: bool = False) -> None:
        """Carry steps out as the roles do: their tasks, their parameters, their order."""
        for task in roles.tasks_for(ROOT, steps):
            result = self.module(task.module, task.args, check=check, env=task.env)
            if result["failed"]:
                raise HarnessError(f"{task.module} ({task.label}) failed: {result['msg']} {result.get('reasons', '')}")

    def build(self, stacks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Plan, carry the plan out, and return the plan that was made first."""
        plan = self.module("stack_plan", {"stacks": list(stacks)})
        if plan["failed"]:
            raise HarnessError(f"refused: {plan['msg']} {plan.get('reasons', '')}")
        self.apply(plan["steps"])
        return plan

    def _call(self, call: Mapping[str, Any], env: Mapping[str, str] | None, timeout: float) -> dict[str, Any]:
        if self._server is None:
            self.connect()
        assert self._server is not None and self._server.stdin is not None
        request = {**call, "env": {**_ENVIRONMENT, **(env or {})}, "timeout": timeout}
        if not self._one.acquire(blocking=False):
            raise HarnessError("another thread waits for an answer, and would get this one: what runs beside a call goes by plumblab.guest.script()")
        try:
            with contextlib.suppress(BrokenPipeError):  # the server has ended, and the answer that does not come says how
                self._server.stdin.write(json.dumps(request) + "\n")
                self._server.stdin.flush()
            answer = self._answer()
        finally:
            self._one.release()
        self.calls += 1
        self.seconds += answer["seconds"]
        return answer

    def _answer(self) -> dict[str, Any]:
        assert self._server is not None and self._server.stdout is not None and self._server.stderr is not None
        line = self._server.stdout.readline()
        if not line:
            code, said = self._server.wait(timeout=20), self._server.stderr.read()
            self._server = None
            raise HarnessError(f"the server in the guest ended with {code}: {said[-2000:]}\n{self._machine()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _machine(self) -> str:
        """What became of the machine, as far as the host can tell."""
        if process.running_pid(self._paths) is None:
            return f"the machine has ended: {process.last_words(self._paths)}"
        return f"the machine is running; its console ends with:\n{guest.console_tail(self._paths)}"
