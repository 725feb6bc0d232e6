# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease's file: taken by one of many at once, and never where something else lies in its place."""

from __future__ import annotations

import os
import signal
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import keep_lease
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Held, Run
from ansible_collections.plumbline.ssd.plugins.module_utils._core.lease import GRACE_SECONDS, dump


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """A directory of our own in the place of /run/plumbline, and no connection but where a test makes one."""
    monkeypatch.setattr(keep_lease, "DIRECTORY", str(tmp_path / "plumbline"))
    monkeypatch.setattr(keep_lease, "connection", keep_lease.Process)
    return tmp_path / "plumbline"


def child(work):
    """Run *work* in another process; returns what ends it and what waits for its end."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = work() or 0
        except PlumblineError:
            code = 9
        finally:
            os._exit(code)
    return pid, lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_taken_renewed_and_given_back(directory):
    lease, before, warnings = keep_lease.take(Run(controller="me@here"), "d" * 64)
    assert (before, warnings) == (None, [])
    assert os.stat(directory).st_mode & 0o777 == 0o700 and os.stat(directory / "lease.json").st_mode & 0o777 == 0o600
    with pytest.raises(Held, match=r"another run has this host \[lease\]: run %s of me@here" % lease.run[:8]) as caught:
        keep_lease.take(Run(controller="you@there"), "")
    assert caught.value.holder["run"] == lease.run
    keep_lease.renew({"run": lease.run, "digest": "d" * 64})
    with pytest.raises(PlumblineError, match="of the plan eeeeeeeeeeee"):
        keep_lease.renew({"run": lease.run, "digest": "e" * 64})
    with pytest.raises(PlumblineError, match="is now that of run"):
        keep_lease.renew({"run": "c" * 32, "digest": ""})
    again, before, _warnings = keep_lease.take(Run(lease.run), "e" * 64)
    assert (again.run, again.digest, again.taken, before.run) == (lease.run, "e" * 64, lease.taken, lease.run)
    assert not keep_lease.release("c" * 32)
    assert keep_lease.release(lease.run) and not keep_lease.release(lease.run)
    other, before, warnings = keep_lease.take(Run(), "")
    assert other.run != lease.run and before.free and warnings == []


def test_peek_changes_nothing(directory):
    assert keep_lease.peek(Run()) == (None, "") and not directory.exists()
    lease = keep_lease.take(Run(), "")[0]
    content = (directory / "lease.json").read_bytes()
    assert "another run has this host" in keep_lease.peek(Run())[1]
    assert keep_lease.peek(Run(lease.run))[1] == "" and keep_lease.peek(Run(gone=lease.run))[1] == ""
    assert (directory / "lease.json").read_bytes() == content


def test_an_expired_lease_is_taken_over_with_a_word(monkeypatch):
    first = keep_lease.take(Run(controller="old@gone"), "")[0]
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + GRACE_SECONDS + 1
    monkeypatch.setattr(keep_lease, "_now", lambda: now)
    second, before, (warning,) = keep_lease.take(Run(), "")
    assert before == first and second.run != first.run
    assert "old@gone" in warning and "was taken over" in warning


def test_a_boot_ends_it(monkeypatch):
    keep_lease.take(Run(), "")
    monkeypatch.setattr(keep_lease, "_boot_id", lambda: "0" * 8)
    assert "started anew" in keep_lease.take(Run(), "")[2][0]


def test_a_run_lives_as_long_as_its_connection(monkeypatch):
    pid, wait = child(lambda: time.sleep(60))
    monkeypatch.setattr(keep_lease, "connection", lambda: keep_lease.process(pid))
    keep_lease.take(Run(), "")
    monkeypatch.setattr(keep_lease, "connection", keep_lease.Process)
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(keep_lease, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        keep_lease.take(Run(), "")
    os.kill(pid, signal.SIGKILL)
    wait()
    assert "its connection is closed" in keep_lease.take(Run(), "")[2][0]


def test_a_connection_that_is_our_own_as_well_is_left_to_the_controller(monkeypatch):
    """However long nothing was heard: a tool may take hours, and the controller knows its own processes."""
    monkeypatch.setattr(keep_lease, "connection", lambda: keep_lease.process(os.getppid()))
    first = keep_lease.take(Run(), "")[0]
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(keep_lease, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        keep_lease.take(Run(), "")
    assert "its process on the controller is gone" in keep_lease.take(Run(gone=first.run), "")[2][0]


def test_without_a_connection_the_process_of_the_run_counts(monkeypatch):
    """ansible-pull, or connection local: the controller is the host."""
    monkeypatch.setattr(keep_lease, "connection", keep_lease.Process)
    pid, wait = child(lambda: time.sleep(60))
    keep_lease.take(Run(process="0123456789abcdef:%d:%d" % keep_lease.process(pid)), "")
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(keep_lease, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        keep_lease.take(Run(), "")
    os.kill(pid, signal.SIGKILL)
    wait()
    assert "nothing was heard of it for" in keep_lease.take(Run(), "")[2][0]


@pytest.mark.parametrize(
    "text, free", [('{"free": true, "later": 1}', True), ('{"free": false, "later": 1}', False), ('{"free": 1}', False), ("[true]", False)]
)
def test_what_another_release_gave_back_is_free(text, free):
    os.makedirs(keep_lease.DIRECTORY, mode=0o700, exist_ok=True)
    with open(keep_lease.path(), "w", encoding="utf-8") as handle:
        handle.write(text)
    if free:
        assert keep_lease.take(Run(), "")[1] is None
    else:
        with pytest.raises(PlumblineError, match="is no lease of this collection"):
            keep_lease.take(Run(), "")


def test_a_process_is_told_from_a_later_one_with_its_number():
    own = keep_lease.process(os.getpid())
    assert keep_lease.is_alive(own) and not keep_lease.is_alive(own._replace(started=own.started + 1))
    assert not keep_lease.is_alive(keep_lease.Process())
    pid, wait = child(lambda: 0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie until wait()
    assert keep_lease.process(pid) == keep_lease.Process()
    wait()


def test_a_module_alone_has_it_for_as_long_as_it_runs():
    with keep_lease.writing({}, False) as warnings:
        assert warnings == []
        with pytest.raises(Held), keep_lease.writing(None, False):
            pytest.fail("two at once")
    with pytest.raises(RuntimeError), keep_lease.writing({"run": "", "digest": ""}, False):
        raise RuntimeError
    with keep_lease.writing({}, True), keep_lease.writing({}, True):
        pass
    assert keep_lease.peek(Run())[0].free


def test_a_killed_module_leaves_nothing_to_wait_for():
    def work():
        with keep_lease.writing({}, False):
            os.kill(os.getpid(), signal.SIGKILL)

    assert child(work)[1]() == -signal.SIGKILL
    with keep_lease.writing({}, False) as warnings:
        assert "was taken over" in warnings[0]


def test_a_writer_of_a_run_needs_its_lease():
    lease = keep_lease.take(Run(), "d" * 64)[0]
    with keep_lease.writing({"run": lease.run, "digest": "d" * 64}, False):
        pass
    assert not keep_lease.peek(Run(lease.run))[0].free
    with pytest.raises(PlumblineError, match="of the plan"), keep_lease.writing({"run": lease.run, "digest": ""}, False):
        pytest.fail("wrote")
    with pytest.raises(PlumblineError, match="is now that of"), keep_lease.writing({"run": "c" * 32, "digest": "d" * 64}, False):
        pytest.fail("wrote")


def test_races(directory):
    """Sixty times four at once: one has it, three are told; nothing is left but the lease and its lock."""
    for _race in range(60):
        gate_read, gate_write = os.pipe()

        def work(gate=gate_read):
            os.read(gate, 1)
            keep_lease.take(Run(), "")

        waits = [child(work)[1] for _run in range(4)]
        os.write(gate_write, b"4444")
        assert sorted(wait() for wait in waits) == [0, 9, 9, 9]
        os.close(gate_read)
        os.close(gate_write)
        assert keep_lease.release(keep_lease.peek(Run())[0].run)
    assert sorted(os.listdir(directory)) == ["lease.json", "lock"]


def test_what_a_killed_writer_left_is_replaced(directory):
    lease = keep_lease.take(Run(), "")[0]
    (directory / "lease.json.new").write_text("half")
    assert keep_lease.release(lease.run)


def _link(at):
    (at.parent / "elsewhere").write_text(dump(keep_lease.Lease("b" * 32)))
    at.symlink_to(at.parent / "elsewhere")


@pytest.mark.parametrize(
    "make",
    [
        lambda at: at.write_text(""),
        lambda at: at.write_text("{"),
        lambda at: at.write_bytes(b"\xff\xfe" * 50),
        lambda at: at.write_text("[" * 4000),
        lambda at: at.write_text(dump(keep_lease.Lease("b" * 32))[:-20]),
        lambda at: at.write_text(dump(keep_lease.Lease("b" * 32)).replace("b" * 32, "../../etc")),
        lambda at: at.write_text(" " * 5000 + dump(keep_lease.Lease("b" * 32))),
        lambda at: at.mkdir(),
        os.mkfifo,
        _link,
        lambda at: at.symlink_to("/nowhere"),
    ],
    ids=["empty", "partial", "binary", "deep", "cut", "strange", "huge", "directory", "fifo", "link", "dangling"],
)
def test_what_is_no_lease_is_refused_and_left(directory, make):
    directory.mkdir(mode=0o700)
    at = directory / "lease.json"
    make(at)

    def seen():
        found = os.lstat(at)
        return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns  # not when it was read

    before = seen()
    for attempt in (lambda: keep_lease.take(Run(), ""), lambda: keep_lease.renew({"run": "b" * 32, "digest": ""}), lambda: keep_lease.release("b" * 32)):
        with pytest.raises(PlumblineError, match=r"lease.json is no lease of this collection \[lease\]: .*remove it"):
            attempt()
    assert seen() == before


def test_a_directory_that_others_can_write_to_is_refused(directory):
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(PlumblineError, match="no directory of root's alone"):
        keep_lease.take(Run(), "")
    directory.rmdir()
    directory.symlink_to("/")
    with pytest.raises(PlumblineError, match="no directory of root's alone"):
        keep_lease.take(Run(), "")


@pytest.mark.parametrize("me", [Run("../x"), Run("A" * 32), Run(process="x y"), Run(process="\n"), Run(process="x" * 200)])
def test_strange_runs(directory, me):
    with pytest.raises(PlumblineError, match="lease: "):
        keep_lease.take(me, "")
    assert not directory.exists()
