# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease's file: taken by one of many at once, and never where something else lies in its place."""

from __future__ import annotations

import os
import signal
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._records import lease_file
from ansible_collections.plumbline.ssd.plugins.module_utils._records.lease import GRACE_SECONDS, dump
from ansible_collections.plumbline.ssd.plugins.module_utils._records.lease_file import Held, Run


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """A directory of our own in the place of /run/plumbline, and no connection but where a test makes one."""
    monkeypatch.setattr(lease_file, "DIRECTORY", str(tmp_path / "plumbline"))
    monkeypatch.setattr(lease_file, "connection", lease_file.Process)
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
    lease, before, warnings = lease_file.take(Run(controller="me@here"), "d" * 64)
    assert (before, warnings) == (None, [])
    assert os.stat(directory).st_mode & 0o777 == 0o700 and os.stat(directory / "lease.json").st_mode & 0o777 == 0o600
    with pytest.raises(Held, match=r"another run has this host \[lease\]: run %s of me@here" % lease.run[:8]) as caught:
        lease_file.take(Run(controller="you@there"), "")
    assert caught.value.holder["run"] == lease.run
    lease_file.renew({"run": lease.run, "digest": "d" * 64})
    with pytest.raises(PlumblineError, match="of the plan eeeeeeeeeeee"):
        lease_file.renew({"run": lease.run, "digest": "e" * 64})
    with pytest.raises(PlumblineError, match="is now that of run"):
        lease_file.renew({"run": "c" * 32, "digest": ""})
    again, before, _warnings = lease_file.take(Run(lease.run), "e" * 64)
    assert (again.run, again.digest, again.taken, before.run) == (lease.run, "e" * 64, lease.taken, lease.run)
    assert not lease_file.release("c" * 32)
    assert lease_file.release(lease.run) and not lease_file.release(lease.run)
    other, before, warnings = lease_file.take(Run(), "")
    assert other.run != lease.run and before.free and warnings == []


def test_peek_changes_nothing(directory):
    assert lease_file.peek(Run()) == (None, "") and not directory.exists()
    lease = lease_file.take(Run(), "")[0]
    content = (directory / "lease.json").read_bytes()
    assert "another run has this host" in lease_file.peek(Run())[1]
    assert lease_file.peek(Run(lease.run))[1] == "" and lease_file.peek(Run(gone=lease.run))[1] == ""
    assert (directory / "lease.json").read_bytes() == content


def test_an_expired_lease_is_taken_over_with_a_word(monkeypatch):
    first = lease_file.take(Run(controller="old@gone"), "")[0]
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + GRACE_SECONDS + 1
    monkeypatch.setattr(lease_file, "_now", lambda: now)
    second, before, (warning,) = lease_file.take(Run(), "")
    assert before == first and second.run != first.run
    assert "old@gone" in warning and "was taken over" in warning


def test_a_boot_ends_it(monkeypatch):
    lease_file.take(Run(), "")
    monkeypatch.setattr(lease_file, "_boot_id", lambda: "0" * 8)
    assert "started anew" in lease_file.take(Run(), "")[2][0]


def test_a_run_lives_as_long_as_its_connection(monkeypatch):
    pid, wait = child(lambda: time.sleep(60))
    monkeypatch.setattr(lease_file, "connection", lambda: lease_file.process(pid))
    lease_file.take(Run(), "")
    monkeypatch.setattr(lease_file, "connection", lease_file.Process)
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(lease_file, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        lease_file.take(Run(), "")
    os.kill(pid, signal.SIGKILL)
    wait()
    assert "its connection is closed" in lease_file.take(Run(), "")[2][0]


def test_a_connection_that_is_our_own_as_well_is_left_to_the_controller(monkeypatch):
    """However long nothing was heard: a tool may take hours, and the controller knows its own processes."""
    monkeypatch.setattr(lease_file, "connection", lambda: lease_file.process(os.getppid()))
    first = lease_file.take(Run(), "")[0]
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(lease_file, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        lease_file.take(Run(), "")
    assert "its process on the controller is gone" in lease_file.take(Run(gone=first.run), "")[2][0]


def test_without_a_connection_the_process_of_the_run_counts(monkeypatch):
    """ansible-pull, or connection local: the controller is the host."""
    monkeypatch.setattr(lease_file, "connection", lease_file.Process)
    pid, wait = child(lambda: time.sleep(60))
    lease_file.take(Run(process="0123456789abcdef:%d:%d" % lease_file.process(pid)), "")
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(lease_file, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        lease_file.take(Run(), "")
    os.kill(pid, signal.SIGKILL)
    wait()
    assert "nothing was heard of it for" in lease_file.take(Run(), "")[2][0]


@pytest.mark.parametrize(
    "text, free", [('{"free": true, "later": 1}', True), ('{"free": false, "later": 1}', False), ('{"free": 1}', False), ("[true]", False)]
)
def test_what_another_release_gave_back_is_free(text, free):
    os.makedirs(lease_file.DIRECTORY, mode=0o700, exist_ok=True)
    with open(lease_file.path(), "w", encoding="utf-8") as handle:
        handle.write(text)
    if free:
        assert lease_file.take(Run(), "")[1] is None
    else:
        with pytest.raises(PlumblineError, match="is no lease of this collection"):
            lease_file.take(Run(), "")


def test_a_process_is_told_from_a_later_one_with_its_number():
    own = lease_file.process(os.getpid())
    assert lease_file.is_alive(own) and not lease_file.is_alive(own._replace(started=own.started + 1))
    assert not lease_file.is_alive(lease_file.Process())
    pid, wait = child(lambda: 0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie until wait()
    assert lease_file.process(pid) == lease_file.Process()
    wait()


def test_a_module_alone_has_it_for_as_long_as_it_runs():
    with lease_file.writing({}, False) as warnings:
        assert warnings == []
        with pytest.raises(Held), lease_file.writing(None, False):
            pytest.fail("two at once")
    with pytest.raises(RuntimeError), lease_file.writing({"run": "", "digest": ""}, False):
        raise RuntimeError
    with lease_file.writing({}, True), lease_file.writing({}, True):
        pass
    assert lease_file.peek(Run())[0].free


def test_a_killed_module_leaves_nothing_to_wait_for():
    def work():
        with lease_file.writing({}, False):
            os.kill(os.getpid(), signal.SIGKILL)

    assert child(work)[1]() == -signal.SIGKILL
    with lease_file.writing({}, False) as warnings:
        assert "was taken over" in warnings[0]


def test_a_writer_of_a_run_needs_its_lease():
    lease = lease_file.take(Run(), "d" * 64)[0]
    with lease_file.writing({"run": lease.run, "digest": "d" * 64}, False):
        pass
    assert not lease_file.peek(Run(lease.run))[0].free
    with pytest.raises(PlumblineError, match="of the plan"), lease_file.writing({"run": lease.run, "digest": ""}, False):
        pytest.fail("wrote")
    with pytest.raises(PlumblineError, match="is now that of"), lease_file.writing({"run": "c" * 32, "digest": "d" * 64}, False):
        pytest.fail("wrote")


def test_races(directory):
    """Sixty times four at once: one has it, three are told; nothing is left but the lease and its lock."""
    for _race in range(60):
        gate_read, gate_write = os.pipe()

        def work(gate=gate_read):
            os.read(gate, 1)
            lease_file.take(Run(), "")

        waits = [child(work)[1] for _run in range(4)]
        os.write(gate_write, b"4444")
        assert sorted(wait() for wait in waits) == [0, 9, 9, 9]
        os.close(gate_read)
        os.close(gate_write)
        assert lease_file.release(lease_file.peek(Run())[0].run)
    assert sorted(os.listdir(directory)) == ["lease.json", "lock"]


def test_what_a_killed_writer_left_is_replaced(directory):
    lease = lease_file.take(Run(), "")[0]
    (directory / "lease.json.new").write_text("half")
    assert lease_file.release(lease.run)


def _link(at):
    (at.parent / "elsewhere").write_text(dump(lease_file.Lease("b" * 32)))
    at.symlink_to(at.parent / "elsewhere")


@pytest.mark.parametrize(
    "make",
    [
        lambda at: at.write_text(""),
        lambda at: at.write_text("{"),
        lambda at: at.write_bytes(b"\xff\xfe" * 50),
        lambda at: at.write_text("[" * 4000),
        lambda at: at.write_text(dump(lease_file.Lease("b" * 32))[:-20]),
        lambda at: at.write_text(dump(lease_file.Lease("b" * 32)).replace("b" * 32, "../../etc")),
        lambda at: at.write_text(" " * 5000 + dump(lease_file.Lease("b" * 32))),
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
    for attempt in (lambda: lease_file.take(Run(), ""), lambda: lease_file.renew({"run": "b" * 32, "digest": ""}), lambda: lease_file.release("b" * 32)):
        with pytest.raises(PlumblineError, match=r"lease.json is no lease of this collection \[lease\]: .*remove it"):
            attempt()
    assert seen() == before


def test_a_directory_that_others_can_write_to_is_refused(directory):
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(PlumblineError, match="no directory of root's alone"):
        lease_file.take(Run(), "")
    directory.rmdir()
    directory.symlink_to("/")
    with pytest.raises(PlumblineError, match="no directory of root's alone"):
        lease_file.take(Run(), "")


@pytest.mark.parametrize("me", [Run("../x"), Run("A" * 32), Run(process="x y"), Run(process="\n"), Run(process="x" * 200)])
def test_strange_runs(directory, me):
    with pytest.raises(PlumblineError, match="lease: "):
        lease_file.take(me, "")
    assert not directory.exists()
