# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease's file: taken by one of many at once, and never where something else lies in its place."""

from __future__ import annotations

import os
import signal
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils import _leaseio
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._lease import GRACE_SECONDS, dump
from ansible_collections.plumbline.ssd.plugins.module_utils._leaseio import Held, Run


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """A directory of our own in the place of /run/plumbline, and no connection but where a test makes one."""
    monkeypatch.setattr(_leaseio, "DIRECTORY", str(tmp_path / "plumbline"))
    monkeypatch.setattr(_leaseio, "connection", _leaseio.Process)
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
    lease, before, warnings = _leaseio.take(Run(controller="me@here"), "d" * 64)
    assert (before, warnings) == (None, [])
    assert os.stat(directory).st_mode & 0o777 == 0o700 and os.stat(directory / "lease.json").st_mode & 0o777 == 0o600
    with pytest.raises(Held, match=r"another run has this host \[lease\]: run %s of me@here" % lease.run[:8]) as caught:
        _leaseio.take(Run(controller="you@there"), "")
    assert caught.value.holder["run"] == lease.run
    _leaseio.renew({"run": lease.run, "digest": "d" * 64})
    with pytest.raises(PlumblineError, match="of the plan eeeeeeeeeeee"):
        _leaseio.renew({"run": lease.run, "digest": "e" * 64})
    with pytest.raises(PlumblineError, match="is now that of run"):
        _leaseio.renew({"run": "c" * 32, "digest": ""})
    again, before, _warnings = _leaseio.take(Run(lease.run), "e" * 64)
    assert (again.run, again.digest, again.taken, before.run) == (lease.run, "e" * 64, lease.taken, lease.run)
    assert not _leaseio.release("c" * 32)
    assert _leaseio.release(lease.run) and not _leaseio.release(lease.run)
    other, before, warnings = _leaseio.take(Run(), "")
    assert other.run != lease.run and before.free and warnings == []


def test_peek_changes_nothing(directory):
    assert _leaseio.peek(Run()) == (None, "") and not directory.exists()
    lease = _leaseio.take(Run(), "")[0]
    content = (directory / "lease.json").read_bytes()
    assert "another run has this host" in _leaseio.peek(Run())[1]
    assert _leaseio.peek(Run(lease.run))[1] == "" and _leaseio.peek(Run(gone=lease.run))[1] == ""
    assert (directory / "lease.json").read_bytes() == content


def test_an_expired_lease_is_taken_over_with_a_word(monkeypatch):
    first = _leaseio.take(Run(controller="old@gone"), "")[0]
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + GRACE_SECONDS + 1
    monkeypatch.setattr(_leaseio, "_now", lambda: now)
    second, before, (warning,) = _leaseio.take(Run(), "")
    assert before == first and second.run != first.run
    assert "old@gone" in warning and "was taken over" in warning


def test_a_boot_ends_it(monkeypatch):
    _leaseio.take(Run(), "")
    monkeypatch.setattr(_leaseio, "_boot_id", lambda: "0" * 8)
    assert "started anew" in _leaseio.take(Run(), "")[2][0]


def test_a_run_lives_as_long_as_its_connection(monkeypatch):
    pid, wait = child(lambda: time.sleep(60))
    monkeypatch.setattr(_leaseio, "connection", lambda: _leaseio.process(pid))
    _leaseio.take(Run(), "")
    monkeypatch.setattr(_leaseio, "connection", _leaseio.Process)
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(_leaseio, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        _leaseio.take(Run(), "")
    os.kill(pid, signal.SIGKILL)
    wait()
    assert "its connection is closed" in _leaseio.take(Run(), "")[2][0]


def test_a_connection_that_is_our_own_as_well_is_left_to_the_controller(monkeypatch):
    """However long nothing was heard: a tool may take hours, and the controller knows its own processes."""
    monkeypatch.setattr(_leaseio, "connection", lambda: _leaseio.process(os.getppid()))
    first = _leaseio.take(Run(), "")[0]
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(_leaseio, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        _leaseio.take(Run(), "")
    assert "its process on the controller is gone" in _leaseio.take(Run(gone=first.run), "")[2][0]


def test_without_a_connection_the_process_of_the_run_counts(monkeypatch):
    """ansible-pull, or connection local: the controller is the host."""
    monkeypatch.setattr(_leaseio, "connection", _leaseio.Process)
    pid, wait = child(lambda: time.sleep(60))
    _leaseio.take(Run(process="0123456789abcdef:%d:%d" % _leaseio.process(pid)), "")
    now = time.clock_gettime(time.CLOCK_BOOTTIME) + 10 * GRACE_SECONDS
    monkeypatch.setattr(_leaseio, "_now", lambda: now)
    with pytest.raises(Held, match="it is at work"):
        _leaseio.take(Run(), "")
    os.kill(pid, signal.SIGKILL)
    wait()
    assert "nothing was heard of it for" in _leaseio.take(Run(), "")[2][0]


@pytest.mark.parametrize(
    "text, free", [('{"free": true, "later": 1}', True), ('{"free": false, "later": 1}', False), ('{"free": 1}', False), ("[true]", False)]
)
def test_what_another_release_gave_back_is_free(text, free):
    os.makedirs(_leaseio.DIRECTORY, mode=0o700, exist_ok=True)
    with open(_leaseio.path(), "w", encoding="utf-8") as handle:
        handle.write(text)
    if free:
        assert _leaseio.take(Run(), "")[1] is None
    else:
        with pytest.raises(PlumblineError, match="is no lease of this collection"):
            _leaseio.take(Run(), "")


def test_a_process_is_told_from_a_later_one_with_its_number():
    own = _leaseio.process(os.getpid())
    assert _leaseio.is_alive(own) and not _leaseio.is_alive(own._replace(started=own.started + 1))
    assert not _leaseio.is_alive(_leaseio.Process())
    pid, wait = child(lambda: 0)
    time.sleep(0.1)
    assert _leaseio.process(pid) == _leaseio.Process()  # a zombie
    wait()


def test_a_module_alone_has_it_for_as_long_as_it_runs():
    with _leaseio.writing({}, False) as warnings:
        assert warnings == []
        with pytest.raises(Held), _leaseio.writing(None, False):
            pytest.fail("two at once")
    with pytest.raises(RuntimeError), _leaseio.writing({"run": "", "digest": ""}, False):
        raise RuntimeError
    with _leaseio.writing({}, True), _leaseio.writing({}, True):
        pass
    assert _leaseio.peek(Run())[0].free


def test_a_killed_module_leaves_nothing_to_wait_for():
    def work():
        with _leaseio.writing({}, False):
            os.kill(os.getpid(), signal.SIGKILL)

    assert child(work)[1]() == -signal.SIGKILL
    with _leaseio.writing({}, False) as warnings:
        assert "was taken over" in warnings[0]


def test_a_writer_of_a_run_needs_its_lease():
    lease = _leaseio.take(Run(), "d" * 64)[0]
    with _leaseio.writing({"run": lease.run, "digest": "d" * 64}, False):
        pass
    assert not _leaseio.peek(Run(lease.run))[0].free
    with pytest.raises(PlumblineError, match="of the plan"), _leaseio.writing({"run": lease.run, "digest": ""}, False):
        pytest.fail("wrote")
    with pytest.raises(PlumblineError, match="is now that of"), _leaseio.writing({"run": "c" * 32, "digest": "d" * 64}, False):
        pytest.fail("wrote")


def test_races(directory):
    """Sixty times four at once: one has it, three are told; nothing is left but the lease and its lock."""
    for _race in range(60):
        gate_read, gate_write = os.pipe()

        def work(gate=gate_read):
            os.read(gate, 1)
            _leaseio.take(Run(), "")

        waits = [child(work)[1] for _run in range(4)]
        os.write(gate_write, b"4444")
        assert sorted(wait() for wait in waits) == [0, 9, 9, 9]
        os.close(gate_read)
        os.close(gate_write)
        assert _leaseio.release(_leaseio.peek(Run())[0].run)
    assert sorted(os.listdir(directory)) == ["lease.json", "lock"]


def test_what_a_killed_writer_left_is_replaced(directory):
    lease = _leaseio.take(Run(), "")[0]
    (directory / "lease.json.new").write_text("half")
    assert _leaseio.release(lease.run)


def _link(at):
    (at.parent / "elsewhere").write_text(dump(_leaseio.Lease("b" * 32)))
    at.symlink_to(at.parent / "elsewhere")


@pytest.mark.parametrize(
    "make",
    [
        lambda at: at.write_text(""),
        lambda at: at.write_text("{"),
        lambda at: at.write_bytes(b"\xff\xfe" * 50),
        lambda at: at.write_text("[" * 4000),
        lambda at: at.write_text(dump(_leaseio.Lease("b" * 32))[:-20]),
        lambda at: at.write_text(dump(_leaseio.Lease("b" * 32)).replace("b" * 32, "../../etc")),
        lambda at: at.write_text(" " * 5000 + dump(_leaseio.Lease("b" * 32))),
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
    before = os.lstat(at)
    for attempt in (lambda: _leaseio.take(Run(), ""), lambda: _leaseio.renew({"run": "b" * 32, "digest": ""}), lambda: _leaseio.release("b" * 32)):
        with pytest.raises(PlumblineError, match=r"lease.json is no lease of this collection \[lease\]: .*remove it"):
            attempt()
    assert os.lstat(at) == before


def test_a_directory_that_others_can_write_to_is_refused(directory):
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(PlumblineError, match="no directory of root's alone"):
        _leaseio.take(Run(), "")
    directory.rmdir()
    directory.symlink_to("/")
    with pytest.raises(PlumblineError, match="no directory of root's alone"):
        _leaseio.take(Run(), "")


@pytest.mark.parametrize("me", [Run("../x"), Run("A" * 32), Run(process="x y"), Run(process="\n"), Run(process="x" * 200)])
def test_strange_runs(directory, me):
    with pytest.raises(PlumblineError, match="lease: "):
        _leaseio.take(me, "")
    assert not directory.exists()
