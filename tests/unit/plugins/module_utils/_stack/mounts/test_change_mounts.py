# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import random
import re
import stat

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file
from ansible_collections.plumbline.ssd.plugins.module_utils._block.proc_files import parse_fstab
from ansible_collections.plumbline.ssd.plugins.module_utils._core import files, systemd
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import change_mount_point, change_mounts
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import write_fstab as change_fstab
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_risks


def mount(path="/data01", uuid="11111111-2222-5333-8444-555555555555", options="noatime,nofail", **more):
    one = {"path": path, "uuid": uuid, "fstype": "ext4", "options": options, "passno": 2, "owner": -1, "group": -1, "mode": "", "selinux_context": ""}
    one.update(more)
    return one


LINE = "UUID=11111111-2222-5333-8444-555555555555 /data01 ext4 noatime,nofail 0 2"


@pytest.mark.parametrize(
    "path, expected",
    [("/data01", "/data01"), ("/a b", "/a\\040b"), ("/a\tb", "/a\\011b"), ("/a\nb", "/a\\012b"), ("/a\\b", "/a\\134b"), ("/é", "/é")],
)
def test_escape(path, expected):
    assert change_fstab.escape(path) == expected
    assert parse_fstab("x %s y" % expected)[0].target == path


def test_fstab_line():
    assert change_fstab.fstab_line(mount()) == LINE


@pytest.mark.parametrize(
    "before, after",
    [
        ("", LINE + "\n"),
        ("# nothing\n", "# nothing\n" + LINE + "\n"),
        ("# no newline at the end", "# no newline at the end\n" + LINE + "\n"),
        ("/dev/vda / ext4 defaults 0 1\n", "/dev/vda / ext4 defaults 0 1\n" + LINE + "\n"),
        ("UUID=x /data01 xfs ro 1 1\n/dev/vda / ext4 defaults 0 1\n", LINE + "\n/dev/vda / ext4 defaults 0 1\n"),
        ("UUID=x /data01 xfs ro 1 1", LINE + "\n"),
        ("#UUID=x /data01 xfs ro 1 1\n", "#UUID=x /data01 xfs ro 1 1\n" + LINE + "\n"),
        (LINE + "\n", LINE + "\n"),
        ("UUID=x\t/data01\text4\n", LINE + "\n"),
        ("UUID=x /data01/sub ext4\n", "UUID=x /data01/sub ext4\n" + LINE + "\n"),
        ("\n\n", "\n\n" + LINE + "\n"),
        ("# a\x0cUUID=x /data01 ext4 ro 0 0\n", "# a\x0cUUID=x /data01 ext4 ro 0 0\n" + LINE + "\n"),
        ("# a\u2028UUID=x /data01 ext4 ro 0 0\n", "# a\u2028UUID=x /data01 ext4 ro 0 0\n" + LINE + "\n"),
        ("/dev/vda / ext4 defaults 0 1\r\n", "/dev/vda / ext4 defaults 0 1\r\n" + LINE + "\n"),
        ("UUID=x /data01 a\nUUID=y /data01 b\n", LINE + "\nUUID=y /data01 b\n"),
    ],
)
def test_edit_fstab(before, after):
    assert change_fstab.edit_fstab(before, [mount()]) == after


def random_fstab(dice):
    """An fstab as nobody would write it: any characters, comments, half lines, endings, blanks."""
    pieces = []
    for _line in range(dice.randrange(0, 12)):
        kind = dice.randrange(5)
        if kind == 0:
            pieces.append("".join(dice.choice("# /abz=\t \\040\x0b\x0c\x1c\x85\u2028\udc80é") for _char in range(dice.randrange(0, 40))))
        elif kind == 1:
            pieces.append("# " + LINE)
        elif kind == 2:
            pieces.append("UUID=%x /mnt/%x ext4 defaults 0 2" % (dice.randrange(1 << 30), dice.randrange(1 << 30)))
        elif kind == 3:
            pieces.append(dice.choice(("", " ", "\t", "/dev/sda", "proc /proc proc", "tmpfs\t/tmp\ttmpfs\tsize=1g\t0\t0", "LABEL=s none swap sw 0 0")))
        else:
            pieces.append("UUID=old /data%02d ext4 defaults 0 2" % dice.randrange(1, 4))
    return dice.choice(("\n", "\n", "\r\n")).join(pieces) + dice.choice(("", "\n"))


def test_foreign_lines_stay_to_the_byte(figure):
    """5,000 random fstabs: what is not ours is there afterwards, unchanged and in order; ours is there once; doing it twice changes nothing."""
    dice = random.Random(10)
    for _row in range(5000):
        before = random_fstab(dice)
        wanted = [mount("/data%02d" % number, uuid="u%d" % number) for number in dice.sample(range(1, 4), dice.randrange(0, 4))]
        after = change_fstab.edit_fstab(before, wanted)
        paths = {one["path"] for one in wanted}
        first_of = {}
        foreign = []
        for line in before.split("\n"):
            entries = parse_fstab(line)
            target = entries[0].target if entries else ""
            if target in paths and target not in first_of:
                first_of[target] = line
            else:
                foreign.append(line)
        lines = {change_fstab.fstab_line(one) for one in wanted}
        kept = [line for line in after.split("\n") if line not in lines]
        assert [line for line in kept if line] == [line for line in foreign if line]
        assert all(sum(line == ours for line in after.split("\n")) == 1 for ours in lines)
        assert change_fstab.edit_fstab(after, wanted) == after
        if not wanted:
            assert after == before
    figure("fstab_foreign", tables=5000, changed=0)


# --- replacing a file ------------------------------------------------------------------------------


def test_replace_file(tmp_path):
    path = tmp_path / "fstab"
    path.write_bytes(b"old\xff\n")
    os.chmod(path, 0o640)
    inode = os.stat(path).st_ino
    files.replace_file(str(path), "new\udcff\r\n")
    assert path.read_bytes() == b"new\xff\r\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640 and os.stat(path).st_ino != inode
    assert os.listdir(tmp_path) == ["fstab"]


def test_replace_file_makes_a_new_one(tmp_path):
    files.replace_file(str(tmp_path / "x.conf"), "text", 0o600)
    assert (tmp_path / "x.conf").read_text() == "text" and stat.S_IMODE(os.stat(tmp_path / "x.conf").st_mode) == 0o600


def test_replace_file_follows_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    files.replace_file(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("call", ["fsync", "rename", "fchmod"])
def test_replace_file_is_all_or_nothing(tmp_path, monkeypatch, call):
    """Whatever fails before the rename: the old file stands, and nothing lies beside it."""
    path = tmp_path / "fstab"
    path.write_text("old")

    def fail(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(change_mounts.os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        files.replace_file(str(path), "new")
    monkeypatch.undo()
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["fstab"]


def test_replace_file_is_synced_before_it_is_seen(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "rename"):
        real = getattr(os, name)

        def note(*args, name=name, real=real, **more):
            calls.append(name)
            return real(*args, **more)

        monkeypatch.setattr(change_mounts.os, name, note)
    files.replace_file(str(tmp_path / "x"), "new")
    assert calls == ["fsync", "rename", "fsync"]


# --- mount points ----------------------------------------------------------------------------------


@pytest.fixture
def frozen(monkeypatch):
    """Records what would be made immutable, so that no test needs the right to do it."""
    paths = []
    monkeypatch.setattr(ask_file, "is_immutable", lambda fd: os.readlink("/proc/self/fd/%d" % fd) in paths)
    monkeypatch.setattr(ask_file, "set_immutable", lambda fd: paths.append(os.readlink("/proc/self/fd/%d" % fd)))
    return paths


def test_prepare_directory(tmp_path, frozen):
    path = str(tmp_path / "a" / "data01")
    assert change_mount_point.prepare_directory(path) == [] and frozen == [path]
    assert change_mount_point.prepare_directory(path) == [] and frozen == [path]


def test_prepare_directory_refuses_content(tmp_path, frozen):
    (tmp_path / "data01").mkdir()
    (tmp_path / "data01" / "x").write_text("")
    with pytest.raises(PlumblineError, match="is not empty since the plan; empty it or name another"):
        change_mount_point.prepare_directory(str(tmp_path / "data01"))
    assert frozen == []


@pytest.mark.parametrize("make", [lambda path: path.write_text(""), lambda path: path.symlink_to("/")])
def test_prepare_directory_refuses_what_is_none(tmp_path, frozen, make):
    make(tmp_path / "data01")
    with pytest.raises(PlumblineError, match=r"mount point .*data01 (is no directory|could not be made)"):
        change_mount_point.prepare_directory(str(tmp_path / "data01"))
    assert frozen == []


def test_prepare_directory_refuses_another_filesystem(frozen):
    with pytest.raises(PlumblineError, match="is on another filesystem than its parent"):
        change_mount_point.prepare_directory("/proc")
    assert frozen == []


@pytest.mark.parametrize("number, warned", [(25, True), (95, True), (22, True), (1, False)])
def test_prepare_directory_where_nothing_can_be_frozen(tmp_path, monkeypatch, number, warned):
    def fail(_fd):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(ask_file, "set_immutable", fail)
    monkeypatch.setattr(ask_file, "is_immutable", lambda _fd: False)
    path = str(tmp_path / "data01")
    if warned:
        assert "cannot be made immutable on its filesystem" in change_mount_point.prepare_directory(path)[0]
    else:
        with pytest.raises(PlumblineError, match="could not be made immutable: Operation not permitted"):
            change_mount_point.prepare_directory(path)


DROP_IN = "[Unit]\nRequiresMountsFor=/data01\n"


class Machine:
    """A host for apply_mounts(): an fstab in a directory, and a mount command that only takes notes."""

    def __init__(self, tmp_path, monkeypatch, fstab="# foreign\n"):
        self.live, self.calls, self.held = {}, [], {}
        self.root = tmp_path
        self.fstab = tmp_path / "fstab"
        self.fstab.write_text(fstab)
        monkeypatch.setattr(change_mounts, "_FSTAB", str(self.fstab))
        monkeypatch.setattr(change_mount_point, "live_mounts", lambda: dict(self.live))
        monkeypatch.setattr(change_mounts, "_own", lambda _mount: False)
        monkeypatch.setattr(change_mount_point, "open_mounted", self.open_mounted)
        monkeypatch.setattr(change_mounts, "_DROP_IN", re.compile(re.escape(str(tmp_path)) + "/.+"))
        monkeypatch.setattr(change_mounts, "_tell_systemd", self.tell_systemd)

    def open_mounted(self, path):
        fd = os.open(str(self.root), os.O_PATH)
        self.held["/proc/%d/fd/%d" % (os.getpid(), fd)] = path
        return fd, "253:7"

    def tell_systemd(self, run, start, changed, timer):
        self.calls.append(("systemd", changed, timer))
        return lambda: self.calls.append("finish")

    def start(self, argv):
        raise AssertionError(argv)

    def run(self, argv):
        self.calls.append(tuple(argv))
        path = self.held.get(argv[-1], argv[-1])
        options = next((entry.options for entry in parse_fstab(self.fstab.read_text()) if entry.target == path), ())
        if len(argv) > 2:
            assert argv[1:3] == ["-c", "-o"] and argv[4] == "/dev/block/253:7"  # without a source mount(8) would put fstab's options in front
            options = tuple(argv[3].split(","))
        self.live[path] = ("rw",) + tuple(word for word in options if word not in ("nofail", "remount"))
        return 0, "", ""


def test_apply_mounts(tmp_path, monkeypatch, frozen):
    machine = Machine(tmp_path, monkeypatch)
    wanted = [mount(str(tmp_path / "b"), "u1"), mount(str(tmp_path / "a"), "u2")]
    changed, warnings, diff, _finish = change_mounts.apply_mounts(machine.run, machine.start, wanted, {}, False, False)
    assert (changed, warnings) == (True, []) and diff["before"] == "# foreign\n" and diff["after"] == machine.fstab.read_text()
    assert machine.calls == [("systemd", True, False), ("mount", str(tmp_path / "a")), ("mount", str(tmp_path / "b"))]
    assert sorted(frozen) == [str(tmp_path / "a"), str(tmp_path / "b")]
    machine.calls.clear()
    assert change_mounts.apply_mounts(machine.run, machine.start, wanted, {}, False, False)[0] is False
    assert machine.calls == [("systemd", False, False)]


def test_a_volume_inside_another(tmp_path, monkeypatch, frozen):
    """Its mount point is made only when the outer one is mounted: before, it would lie on the root filesystem."""
    machine = Machine(tmp_path, monkeypatch)
    order = []
    real = change_mount_point.prepare_directory
    monkeypatch.setattr(change_mount_point, "_volume_held", lambda _path, _fd: ("253:0", ""))
    monkeypatch.setattr(change_mount_point, "prepare_directory", lambda path: order.append(("prepare", path)) or real(path))
    run = machine.run
    outer, inner = str(tmp_path / "data"), str(tmp_path / "data" / "wal")
    change_mounts.apply_mounts(lambda argv: order.append(tuple(argv)) or run(argv), machine.start, [mount(inner, "u1"), mount(outer, "u2")], {}, False, False)
    assert order == [("prepare", outer), ("mount", outer), ("prepare", inner), ("mount", inner)]
    assert machine.fstab.read_text().index(" %s " % outer) < machine.fstab.read_text().index(" %s " % inner)


def test_check_mode_touches_nothing(tmp_path, monkeypatch, frozen):
    machine = Machine(tmp_path, monkeypatch)
    drop_ins = {str(tmp_path / "x.conf"): DROP_IN}
    changed, _warnings, diff, _finish = change_mounts.apply_mounts(machine.run, machine.start, [mount(str(tmp_path / "a"))], drop_ins, False, True)
    assert changed and diff["after"] != diff["before"]
    assert machine.fstab.read_text() == "# foreign\n" and machine.calls == [] and frozen == [] and os.listdir(tmp_path) == ["fstab"]


def test_drop_ins_are_written_once(tmp_path, monkeypatch, frozen):
    machine = Machine(tmp_path, monkeypatch)
    name = str(tmp_path / "x.service.d" / "50-plumbline-pgdata.conf")
    assert change_mounts.apply_mounts(machine.run, machine.start, [], {name: DROP_IN}, False, False)[0] is True
    assert change_mounts.apply_mounts(machine.run, machine.start, [], {name: DROP_IN}, False, False)[0] is False
    assert machine.calls == [("systemd", True, False), ("systemd", False, False)]


@pytest.mark.parametrize(
    "path, unit",
    [
        ("/data01", "data01.mount"),
        ("/srv/pg data/wal-1", "srv-pg\\x20data-wal\\x2d1.mount"),
        ("/.hidden/.x", "\\x2ehidden-.x.mount"),
        ("/é", "\\xc3\\xa9.mount"),
        ("//a//b/", "a-b.mount"),
        ("/", "-.mount"),
    ],
)
def test_unit_name(path, unit):
    """As `systemd-escape --path --suffix=mount` says."""
    assert systemd.unit_name(path) == unit


def test_systemd_reads_its_units_while_the_mounts_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(change_mounts.os.path, "isdir", lambda path: True)
    calls = []
    results = {"systemctl daemon-reload": (0, "", "")}

    def run(argv):
        calls.append(" ".join(argv))
        return 0, "", ""

    def start(argv):
        calls.append("start " + " ".join(argv))
        return lambda: calls.append("wait") or results[" ".join(argv)]

    change_mounts._tell_systemd(run, start, False, False)()
    assert calls == []
    finish = change_mounts._tell_systemd(run, start, True, True)
    assert calls == ["systemctl start --quiet fstrim.timer", "systemctl enable --no-reload --quiet fstrim.timer", "start systemctl daemon-reload"]
    finish()
    finish()
    assert calls[3:] == ["wait"]
    results["systemctl daemon-reload"] = (1, "", "no space\nin /run\n")
    with pytest.raises(PlumblineError, match=r"^systemd could not read its units again: no space in /run$"):
        change_mounts._tell_systemd(run, start, True, False)()


@pytest.mark.parametrize("stale", [True, False])
def test_a_unit_of_an_older_line_is_read_again_before_the_mount(tmp_path, monkeypatch, frozen, stale):
    """It may be bound to a device that is gone, and then systemd takes the new mount away at once."""
    machine = Machine(tmp_path, monkeypatch)
    monkeypatch.setattr(change_mounts, "_GENERATED", str(tmp_path / "generator"))
    path = str(tmp_path / "a")
    if stale:
        (tmp_path / "generator").mkdir()
        (tmp_path / "generator" / systemd.unit_name(path)).touch()
    change_mounts.apply_mounts(machine.run, machine.start, [mount(path)], {}, False, False)
    assert machine.calls == [("systemd", True, False)] + ["finish"] * stale + [("mount", path)]


@pytest.mark.parametrize(
    "live, options, argv",
    [
        (("rw", "noatime"), "noatime,nofail,x-systemd.device-timeout=30s", None),
        (("rw", "relatime"), "noatime,nofail", "remount,noatime"),
        (("rw", "noatime", "nobarrier"), "noatime,nofail", "remount,noatime,barrier=1"),
        (("rw", "noatime", "discard", "lazytime"), "noatime", "remount,noatime,nodiscard,nolazytime"),
        (("rw", "relatime"), "strictatime", "remount,strictatime,strictatime"),
        (("rw", "noatime"), "nofail", "remount,relatime"),
        (("rw", "noatime", "nodelalloc", "noauto_da_alloc", "sync"), "noatime", "remount,noatime,delalloc,auto_da_alloc,async"),
        (("rw", "noatime", "commit=60"), "noatime", "remount,noatime,commit=0"),
        (("ro", "noatime"), "noatime", "remount,noatime,rw"),
        (("rw", "noatime", "ro", "errors=remount-ro"), "noatime", "remount,noatime,rw,errors=continue"),
        (("rw", "noatime", "data_err=abort"), "noatime", "remount,noatime,data_err=ignore"),
        (("rw", "noatime", "commit=60"), "noatime,commit=30", "remount,noatime,commit=30"),
        (("rw", "noatime"), "noatime,commit=5,data_err=ignore", None),
        (("rw", "noatime"), "noatime,barrier=0", "remount,noatime,barrier=0"),
    ],
)
def test_remount(tmp_path, monkeypatch, live, options, argv):
    machine = Machine(tmp_path, monkeypatch)
    machine.live["/data01"] = live
    calls = []

    def run(command):
        calls.append(command)
        shown = {"strictatime": "", "nofail": "", "barrier=0": "nobarrier"}
        machine.live["/data01"] = ("rw",) + tuple(shown.get(word, word) for word in options.split(",") if shown.get(word, word))
        return 0, "", ""

    assert change_mounts._remount(run, mount(options=options), live) is bool(argv)
    assert [words[:-1] for words in calls] == ([["mount", "-c", "-o", argv, "/dev/block/253:7"]] if argv else [])
    assert [machine.held[words[-1]] for words in calls] == (["/data01"] if argv else [])


def test_remount_that_the_kernel_ignores(tmp_path, monkeypatch):
    machine = Machine(tmp_path, monkeypatch)
    machine.live["/data01"] = ("rw", "discard")
    with pytest.raises(PlumblineError) as caught:
        change_mounts._remount(lambda argv: (0, "", ""), mount(options="noatime"), ("rw", "discard"))
    assert caught.value.msg == (
        "/data01: the kernel did not take the options by remount (missing: noatime; still there: discard), "
        "and its line of fstab is as it was; unmount it and run again"
    )


def test_mount_that_fails(tmp_path, monkeypatch, frozen):
    """Its line goes again, and nothing else does."""
    machine = Machine(tmp_path, monkeypatch)
    before = machine.fstab.read_text()
    with pytest.raises(PlumblineError) as caught:
        change_mounts.apply_mounts(lambda argv: (32, "", "mount: wrong fs type\n"), machine.start, [mount(str(tmp_path / "a"))], {}, False, False)
    assert caught.value.msg == "%s could not be mounted: mount: wrong fs type" % (tmp_path / "a")
    assert machine.fstab.read_text() == before


def test_the_second_of_two_mounts_fails(tmp_path, monkeypatch, frozen):
    """What is mounted keeps its new line; what is not has the line that it had before."""
    old = "UUID=u2 %s ext4 defaults,nofail 0 2\n" % (tmp_path / "b")
    machine = Machine(tmp_path, monkeypatch, "# foreign\n" + old)
    wanted = [mount(str(tmp_path / "a"), "u1"), mount(str(tmp_path / "b"), "u2")]

    def run(argv):
        return (32, "", "no") if argv == ["mount", str(tmp_path / "b")] else machine.run(argv)

    with pytest.raises(PlumblineError, match="b could not be mounted: no"):
        change_mounts.apply_mounts(run, machine.start, wanted, {}, False, False)
    assert machine.fstab.read_text() == "# foreign\n" + old + change_fstab.fstab_line(wanted[0]) + "\n"


# --- drift: fstab and the mount say the same afterwards, whatever the kernel takes --------------------

OLD = "UUID=11111111-2222-5333-8444-555555555555 %s ext4 %s,nofail 0 2\n"


def test_what_a_remount_cannot_change_changes_nothing(tmp_path, monkeypatch, frozen):
    """Neither that mount, nor another one, nor fstab, nor a drop-in, nor the record."""
    machine = Machine(tmp_path, monkeypatch, OLD % ("/a", "noatime,data=writeback"))
    machine.live = {"/a": ("rw", "noatime", "data=writeback"), "/b": ("rw", "relatime")}
    before = machine.fstab.read_text()
    drop_ins = {str(tmp_path / "x.conf"): DROP_IN}
    accepted = [{"stack": "pgdata", "risks": []}]
    with pytest.raises(PlumblineError) as caught:
        change_mounts.apply_mounts(machine.run, machine.start, [mount("/a"), mount("/b", "u2")], drop_ins, True, False, accepted)
    assert caught.value.msg == (
        "/a is mounted with data=writeback, wanted data=ordered: ext4 changes this by no remount, so neither the mount nor fstab was changed; "
        "stop what uses it, umount /a, and run again"
    )
    assert machine.fstab.read_text() == before and machine.calls == [] and os.listdir(tmp_path) == ["fstab"]


def test_a_remount_that_fails_leaves_its_line_and_mends_the_others(tmp_path, monkeypatch, frozen):
    machine = Machine(tmp_path, monkeypatch, OLD % ("/a", "noatime") + OLD % ("/b", "defaults"))
    machine.live = {"/a": ("rw", "noatime"), "/b": ("rw", "relatime")}
    real = machine.run
    fresh = str(tmp_path / "c")
    wanted = [mount("/a", options="noatime,nosuchoption,nofail"), mount("/b", "u2"), mount(fresh, "u3")]

    def run(argv):
        return (32, "", "mount: /a: bad option.\n") if machine.held.get(argv[-1]) == "/a" else real(argv)

    with pytest.raises(PlumblineError) as caught:
        change_mounts.apply_mounts(run, machine.start, wanted, {}, False, False)
    assert caught.value.msg == "/a could not be remounted, and its line of fstab is as it was; these options may want an unmount: mount: /a: bad option."
    lines = machine.fstab.read_text().splitlines(keepends=True)
    assert lines[0] == OLD % ("/a", "noatime") and lines[1] == "UUID=u2 /b ext4 noatime,nofail 0 2\n" and lines[2].split()[1] == fresh
    assert machine.live["/b"] == ("rw", "noatime") and fresh in machine.live
    assert "finish" in machine.calls, "systemd knows of the lines that did change"


def test_a_mount_is_right_before_its_line_is(tmp_path, monkeypatch, frozen):
    machine = Machine(tmp_path, monkeypatch, OLD % ("/a", "defaults"))
    machine.live = {"/a": ("rw", "relatime")}
    seen = []
    real = machine.run
    change_mounts.apply_mounts(lambda argv: seen.append(machine.fstab.read_text()) or real(argv), machine.start, [mount("/a")], {}, False, False)
    assert seen == [OLD % ("/a", "defaults")] and machine.fstab.read_text() == OLD % ("/a", "noatime")


# --- the record of what was accepted ----------------------------------------------------------------

RISK = {"volume": "data", "mount": "/a", "uuid": "u1", "option": "barrier=0", "acceptance": "data_loss_on_power_cut", "serials": ["S1"]}


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HOME", str(tmp_path / "plumbline"))
    monkeypatch.setattr(keep_risks, "ACCEPTED", str(tmp_path / "plumbline" / "accepted"))
    return tmp_path / "plumbline" / "accepted"


def test_what_is_accepted_is_recorded_before_the_mount(tmp_path, monkeypatch, frozen, record):
    machine = Machine(tmp_path, monkeypatch)
    seen = []
    real = machine.run
    apply = [{"stack": "pgdata", "risks": [RISK]}]
    wanted = [mount(str(tmp_path / "a"), "u1", "noatime,barrier=0")]
    changed = change_mounts.apply_mounts(lambda argv: seen.append(keep_risks.load_accepted()) or real(argv), machine.start, wanted, {}, False, False, apply)[0]
    (one,) = keep_risks.load_accepted()
    assert changed and seen == [[one]]
    assert (one.stack, one.option, one.acceptance, one.serials) == ("pgdata", "barrier=0", "data_loss_on_power_cut", ("S1",))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one.since)
    assert stat.S_IMODE(os.stat(record / "pgdata.json").st_mode) == 0o600 and stat.S_IMODE(os.stat(record.parent).st_mode) == 0o700


def test_it_is_taken_out_when_no_mount_has_it_any_more(tmp_path, monkeypatch, frozen, record):
    machine = Machine(tmp_path, monkeypatch)
    machine.live = {"/a": ("rw", "noatime", "nobarrier")}
    other = dict(RISK, option="data=writeback", acceptance="stale_data_after_crash")
    keep_risks.add_accepted([{"stack": "pgdata", "risks": [RISK, other]}, {"stack": "else", "risks": [RISK]}])
    seen = []
    real = machine.run
    apply = [{"stack": "pgdata", "risks": [other]}]
    change_mounts.apply_mounts(
        lambda argv: seen.append(len(keep_risks.load_accepted())) or real(argv), machine.start, [mount("/a", "u1")], {}, False, False, apply
    )
    assert seen == [3] and [(one.stack, one.option) for one in keep_risks.load_accepted()] == [("else", "barrier=0"), ("pgdata", "data=writeback")]
    change_mounts.apply_mounts(machine.run, machine.start, [], {}, False, False, [{"stack": "pgdata", "risks": []}])
    assert os.listdir(record) == ["else.json"]


def test_it_stays_where_a_remount_failed(tmp_path, monkeypatch, frozen, record):
    machine = Machine(tmp_path, monkeypatch)
    machine.live = {"/a": ("rw", "noatime", "nobarrier")}
    keep_risks.add_accepted([{"stack": "pgdata", "risks": [RISK]}])
    with pytest.raises(PlumblineError):
        change_mounts.apply_mounts(lambda argv: (32, "", "no"), machine.start, [mount("/a")], {}, False, False, [{"stack": "pgdata", "risks": []}])
    assert [one.option for one in keep_risks.load_accepted()] == ["barrier=0"]


def test_the_time_is_that_of_the_first_acceptance(tmp_path, monkeypatch, record):
    monkeypatch.setattr(keep_risks.time, "gmtime", lambda: (2026, 3, 1, 12, 0, 0, 0, 0, 0))
    assert keep_risks.add_accepted([{"stack": "pgdata", "risks": [RISK]}]) is True
    monkeypatch.undo()
    monkeypatch.setattr(keep_risks, "ACCEPTED", str(record))
    assert keep_risks.add_accepted([{"stack": "pgdata", "risks": [RISK]}]) is False
    assert keep_risks.drop_accepted([{"stack": "pgdata", "risks": [dict(RISK, serials=["S1", "S2"])]}]) is True
    (one,) = keep_risks.load_accepted()
    assert (one.since, one.serials) == ("2026-03-01T12:00:00Z", ("S1", "S2"))


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"stack": "x"}]', '[{"a": 1}]', "null"])
def test_a_record_that_cannot_be_read_accepts_nothing(record, text):
    os.makedirs(record)
    (record / "pgdata.json").write_text(text)
    (record / "other").write_text("[]")
    assert keep_risks.load_accepted() == []


def test_a_record_of_strange_types_is_words(record):
    """It is sorted and compared with others."""
    os.makedirs(record)
    entry = dict(RISK, serials=[17], since=None, uuid=5, stack="pgdata")
    (record / "pgdata.json").write_text(json.dumps([entry]))
    (one,) = keep_risks.load_accepted()
    assert (one.serials, one.since, one.uuid) == (("17",), "", "5")


def test_a_stack_that_is_no_file_name(record):
    with pytest.raises(PlumblineError, match="is no name of a stack; nothing was recorded"):
        keep_risks.add_accepted([{"stack": "../x", "risks": [RISK]}])
    assert not record.exists()


def test_owner_and_mode_only_of_a_mounted_directory(tmp_path):
    (tmp_path / "data01").mkdir()
    with pytest.raises(PlumblineError, match="it is not mounted; its mount, owner and mode are left alone"):
        change_mounts._own(mount(str(tmp_path / "data01"), mode="0700"))
    assert change_mounts._own(mount(str(tmp_path / "data01"))) is False


@pytest.mark.parametrize(
    ("mounted", "words"),
    [
        ({7: ("253:0", "{path}")}, ""),
        ({7: ("0:51", "{path}")}, "something that is on no block device is mounted over it [covered]; take that away"),
        ({7: ("253:0", "/srv")}, "it is not mounted"),
        ({8: ("253:0", "{path}")}, "it is not mounted"),
    ],
    ids=["volume", "fuse-over-it", "above-it", "gone"],
)
def test_only_the_mount_of_the_volume_itself_is_held(tmp_path, monkeypatch, mounted, words):
    """Its owner can mount something over it with fusermount at any moment: what root does by the path would be done to that."""
    path = str(tmp_path)
    monkeypatch.setattr(change_mount_point, "numbered_mounts", lambda: {number: (devno, at.format(path=path), 1) for number, (devno, at) in mounted.items()})
    monkeypatch.setattr(change_mount_point.read_sysfs, "read_text", lambda name: "pos:\t0\nflags:\t012000000\nmnt_id:\t7\nino:\t2" if "fdinfo" in name else "")
    before = len(os.listdir("/proc/self/fd"))
    if words:
        with pytest.raises(PlumblineError) as caught:
            change_mount_point.open_mounted(path)
        assert caught.value.msg == "%s: %s; its mount, owner and mode are left alone; run again" % (path, words)
        assert len(os.listdir("/proc/self/fd")) == before
    else:
        fd, devno = change_mount_point.open_mounted(path)
        os.close(fd)
        assert devno == "253:0"


@pytest.mark.parametrize("covered", [False, True])
def test_a_mount_point_in_the_root_of_a_volume_wants_that_volume(tmp_path, monkeypatch, frozen, covered):
    """The root of a volume may be anybody's, and what he mounts over it shows what he likes: also a directory of root for the mount point."""
    outer = str(tmp_path)
    held = os.open(outer, os.O_PATH)
    numbers = {change_mount_point._mount_number(held): ("0:51" if covered else "253:0", outer, 1)}
    os.close(held)
    monkeypatch.setattr(change_mount_point, "numbered_mounts", lambda: numbers)
    monkeypatch.setattr(change_mount_point, "live_mounts", lambda: {outer: ("rw",)})
    if covered:
        with pytest.raises(PlumblineError, match=r"wal is not safe: .* mounted over it \[covered\]; take that away; run again"):
            change_mount_point.prepare_directory(outer + "/wal")
        with pytest.raises(PlumblineError, match=r"wal is not safe"):
            change_mount_point.mount_below(outer + "/wal")
        assert not os.listdir(outer) and frozen == []
    else:
        change_mount_point.prepare_directory(outer + "/wal")
        assert change_mount_point.mount_below(outer + "/wal") == next(iter(numbers)) and frozen == [outer + "/wal"]


@pytest.mark.parametrize(
    "ages, expected",
    [
        ({"fstab": 10, "drop-in": 10, "unit": 20}, False),
        ({"fstab": 20, "drop-in": 10, "unit": 10}, True),
        ({"fstab": 10, "drop-in": 20, "unit": 10}, True),
        ({"fstab": 10, "drop-in": 10}, True),
        ({"fstab": 10, "unit": 20}, True),
    ],
    ids=["read", "fstab-is-newer", "drop-in-is-newer", "no-unit-yet", "drop-in-gone"],
)
def test_units_that_a_killed_run_left_unread(tmp_path, monkeypatch, ages, expected):
    """Killed between the writing of fstab and daemon-reload: the next run finds fstab as asked, and has systemd read it all the same."""
    names = {"fstab": "fstab", "drop-in": "50-plumbline-pgdata.conf", "unit": "data01.mount"}
    for what, age in ages.items():
        path = tmp_path / names[what]
        path.write_text("")
        os.utime(path, (age, age))
    monkeypatch.setattr(change_mounts, "_GENERATED", str(tmp_path))
    monkeypatch.setattr(change_mounts, "_FSTAB", str(tmp_path / "fstab"))
    assert change_mounts._unread(["/data01"], {str(tmp_path / names["drop-in"]): ""}) is expected
    assert change_mounts._unread([], {}) is False


@pytest.mark.parametrize(
    "keys, call, fault, words",
    [
        ({"selinux_context": "a:b:c"}, "getxattr", OSError(22, "Invalid argument", 7), "(selinux_context a:b:c): Invalid argument"),
        ({"owner": 1 << 40}, "fchown", OverflowError("uid is greater than maximum"), "(owner 1099511627776): uid is greater than maximum"),
    ],
)
def test_what_a_root_directory_does_not_take_is_named(tmp_path, monkeypatch, keys, call, fault, words):
    def fail(*_arguments):
        raise fault

    monkeypatch.setattr(os, call, fail)
    monkeypatch.setattr(change_mount_point, "open_mounted", lambda path: (os.open(path, os.O_PATH), "253:7"))
    with pytest.raises(PlumblineError) as caught:
        change_mounts._own(mount(str(tmp_path), **keys))
    assert caught.value.msg == "%s is mounted, and its root directory could not be given what is asked %s" % (tmp_path, words)
