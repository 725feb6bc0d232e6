# SPDX-License-Identifier: GPL-3.0-or-later
"""What md copies and compares: what is waited for, and what is written to sysfs. The folder of the array is one of files."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import NEAR_2, MdArray, MdMember
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors import change_sync
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.mirrored import MirrorHost

KIB = 1024


class Sysfs:
    """The files of an array; *on*: what the kernel does when one is written."""

    def __init__(self, folder):
        self.folder, self.written, self.on = folder, [], {}

    def set(self, **files):
        for name, text in files.items():
            path = self.folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    def write(self, path, value):
        self.written.append((path[len(str(self.folder)) + 1 :], value))
        self.set(**{self.written[-1][0].replace("/", "__"): value})
        self.on.get(self.written[-1], lambda: None)()


@pytest.fixture
def sysfs(monkeypatch, tmp_path):
    """That of md127, which is idle and halts nowhere; it has all that it should."""
    (tmp_path / "md127").mkdir()
    files = Sysfs(tmp_path / "md127")
    files.set(sync_action="idle", sync_min="0", sync_max="max", sync_completed="none", mismatch_cnt="0")
    monkeypatch.setattr(change_sync, "_MD", str(tmp_path) + "/%s/")
    monkeypatch.setattr(change_sync, "_PAUSE", 0)
    monkeypatch.setattr(change_sync, "write_setting", files.write)
    monkeypatch.setattr(change_sync, "read_md_arrays", lambda: [array()])
    return files


def array(*members, component=1000 * KIB):
    return MdArray("md127", "9:127", "clean", "raid10", NEAR_2, 64 * KIB, 4, component, members)


def member(slot, *states, **more):
    return MdMember("8:%d" % slot, slot, states or ("in_sync",), **more)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ([("recover", ("spare",)), ("recover", ("spare",)), ("idle", ("in_sync",)), ("idle", ("in_sync",))], ""),
        ([("recover", ("spare",)), ("idle", ("faulty",))], "failed while it was filled"),
        ([("idle", ("spare",))] * 300, "is not filled: the array is at 'idle'"),
        ([("recover", ("spare",)), ("idle", None)], "failed while it was filled"),
        ([("recover", ("spare",))] + [("idle", ("spare",))] * 300, r"is not filled: .* noted 6 ranges of blocks .* write these blocks again"),
        ([("recover", ("spare",)), ("idle", ("spare",))] * 60, "is not filled: md has ended the copy 21 times"),
        ([("recover 900", ("spare",)), ("recover 7", ("spare",))] * 60, "is not filled: md has ended the copy 21 times"),
        ([("recover %d" % at, ("spare",)) for at in range(400)] + [("idle", ("in_sync",))] * 2, ""),
    ],
    ids=["filled", "failed", "never begun", "gone", "interrupted", "ended again and again", "begun anew unseen", "slow"],
)
def test_waiting_for_a_member(monkeypatch, seen, words):
    host = MirrorHost(4)
    host.build(spec(host, mirror=True))
    if "noted" in words:
        host.change(members=tuple(member._replace(bad=2) for member in host.array.members))
    states, now, part = iter(seen), [("idle", None)], host.parts()[0]

    def read(name, file):
        action, _space, done = now[0][0].partition(" ")
        return action if file == "sync_action" else "%s / 1000" % done

    def arrays_now():
        now[0] = next(states)
        others = host.array.members[1:]
        return [host.array._replace(members=(MdMember(part, 0, now[0][1]), *others) if now[0][1] is not None else others)]

    monkeypatch.setattr(change_sync, "read_md_arrays", arrays_now)
    monkeypatch.setattr(change_sync, "read_setting", read)
    monkeypatch.setattr(change_sync, "_PAUSE", 0)
    if not words:
        change_sync.wait_for_sync("md127", part)
        assert next(states, None) is None
        return
    with pytest.raises(PlumblineError, match=words):
        change_sync.wait_for_sync("md127", part)



def test_an_array_that_is_frozen_is_thawed(sysfs):
    sysfs.set(sync_action="frozen")
    change_sync.thaw("md127")
    assert sysfs.written == [("sync_action", "idle")]


def test_an_mdadm_that_is_at_work_is_waited_for(sysfs, monkeypatch):
    states = iter(["frozen", "frozen", "idle"])
    monkeypatch.setattr(change_sync, "read_text", lambda path: next(states))
    change_sync.thaw("md127")
    assert sysfs.written == []


def test_an_array_that_cannot_be_thawed(sysfs, monkeypatch):
    def write(path, value):
        raise OSError(16, "Device or resource busy")

    sysfs.set(sync_action="frozen")
    monkeypatch.setattr(change_sync, "write_setting", write)
    with pytest.raises(PlumblineError, match=r"sync_action of the array /dev/md127 could not be set to 'idle': .*busy; nothing was taken out"):
        change_sync.thaw("md127")


def test_a_halt_that_a_killed_run_left_is_taken_away(sysfs):
    change_sync.let_go("md127")
    assert sysfs.written == []
    sysfs.set(sync_max="1920")
    change_sync.let_go("md127")
    assert sysfs.written == [("sync_max", "max")]


def test_members_are_compared_from_end_to_end(sysfs):
    """md forgets sync_max where it has come to the end, and only there: a number behind the end tells the one from the other."""
    sysfs.set(sync_min="4096", sync_max="8192")
    sysfs.on["sync_action", "check"] = lambda: sysfs.set(sync_action="idle", mismatch_cnt="128", sync_max="max")
    assert change_sync.compare_members("md127") == 128
    assert sysfs.written == [("sync_min", "0"), ("sync_max", "8064"), ("sync_action", "check")]
    assert 8064 % 128 == 0 and 4 * 1000 * KIB < 8064 * 512


def test_a_comparison_that_somebody_ended_is_none(sysfs):
    sysfs.on["sync_action", "check"] = lambda: sysfs.set(sync_action="idle")
    with pytest.raises(PlumblineError, match="were not compared to the end"):
        change_sync.compare_members("md127")
    assert sysfs.written[-1] == ("sync_max", "max")


def test_a_comparison_waits_for_what_md_does(sysfs, monkeypatch):
    """Another check, as Debian's monthly one, goes to its end first."""
    states, seen = iter(["check", "check", "idle", "idle", "check", "idle", "idle"]), []
    monkeypatch.setattr(change_sync, "read_setting", lambda name, file: next(states) if file == "sync_action" else "max")
    monkeypatch.setattr(change_sync, "write_setting", lambda path, value: seen.append(path.rsplit("/", 1)[-1]))
    monkeypatch.setattr(change_sync, "named", lambda name: array())
    assert change_sync.compare_members("md127") == 0
    assert seen == ["sync_min", "sync_max", "sync_action"] and next(states, None) is None


@pytest.mark.parametrize(
    ("members", "slot", "read"),
    [
        ([member(0), member(1), member(2), member(3)], 2, [2]),
        ([member(0), member(1), member(2), member(3)], 3, [2]),
        ([member(0), member(1), member(2, bad=1), member(3)], 3, [2, 3]),
        ([member(3), member(2), member(3, "spare", "replacement")], 3, [2]),
        ([member(2, "faulty"), member(3)], 2, [3]),
        ([], 2, []),
    ],
)
def test_whom_md_reads_to_fill_a_place(members, slot, read):
    assert [one.slot for one in change_sync.read_from(array(*members), slot)] == read


@pytest.mark.parametrize(("component", "halt"), [(1000 * KIB, 1920), (960 * KIB, 1792), (961 * KIB, 1920)])
def test_a_copy_halts_before_the_last_chunk(sysfs, component, halt):
    """A multiple of the chunk, as md wants it; at least one sector is left."""
    change_sync.halt_before_the_end(array(component=component))
    assert sysfs.written == [("sync_max", str(halt))] and change_sync.halts("md127")
    assert halt * 512 < component and (component - halt * 512) <= 64 * KIB
    assert [change_sync.is_halted("md127", done) for done in (0, halt - 1, halt)] == [False, False, True]
    change_sync.let_go("md127")
    assert not change_sync.is_halted("md127", halt) and not change_sync.halts("md127")


def test_errors_are_counted_anew(sysfs):
    sysfs.set(**{"dev-sda1__errors": "1024", "dev-sdb1__errors": "0", "dev-sdc1__state": "in_sync"})
    change_sync.count_anew("md127")
    assert sysfs.written == [("dev-sda1/errors", "0")]


def test_md_replaces_nothing_by_itself(sysfs):
    states = {"a": "in_sync,want_replacement", "b": "in_sync", "c": "faulty,want_replacement"}
    sysfs.set(**{"dev-sd%s1__state" % letter: words for letter, words in states.items()})
    change_sync.want_no_replacement("md127")
    assert sysfs.written == [("dev-sda1/state", "-want_replacement")]


def test_md_is_ended_and_goes_on(sysfs):
    change_sync.stop_copying("md127")
    change_sync.start_again("md127")
    assert sysfs.written == [("sync_action", "frozen"), ("sync_action", "idle")]
