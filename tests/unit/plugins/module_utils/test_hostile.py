# SPDX-License-Identifier: GPL-3.0-or-later
"""Text from devices as people see it, and the way to a mount point that somebody else could change."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file, read_sysfs, tool_output
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import PathState
from ansible_collections.plumbline.ssd.plugins.module_utils._core import module as ansible_module
from ansible_collections.plumbline.ssd.plugins.module_utils._core import read_path
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import as_yaml, escape_unprintable, one_line
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import change_mount_point, change_mounts
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import mount_path as judge_mount_path
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts.mount_path import owner_fault, way_fault
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import write_tables
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, Host, spec

# --- text that leaves ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("MZQL2 960 é 漢", "MZQL2 960 é 漢"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("\u202egpj", "\\u202egpj"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\u2028x\x85", "\\u2028x\\x85"),
        ("\udcff\udc80", "\\xff\\x80"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("no\xa0break", "no\\xa0break"),
        ("{{ x }} %s $(y)", "{{ x }} %s $(y)"),
    ],
)
def test_shown(text, expected):
    assert escape_unprintable(text) == expected and escape_unprintable(text).isprintable() and escape_unprintable(expected) == expected


WORDS = ["S4YPNC0R", "NO", "A, B", "A: B", "it's", "a#b", "ÄB", "~", " A"]
NUMBERS = ["0012345", "1234_5678", "12:34:56", "1e5", "2001-01-01", "0x1F", "0b11", "0o7", "12E4", "12f4"]


@pytest.mark.parametrize("text", WORDS + NUMBERS)
def test_what_is_offered_for_a_spec_is_read_as_it_is_meant(text):
    assert yaml.safe_load("[%s]" % as_yaml(text)) == [text]
    assert [as_yaml(word) for word in ("S4YPNC0R", "59b9087590e0247a")] == ["S4YPNC0R", "59b9087590e0247a"]


def test_what_is_kept():
    assert escape_unprintable("a\n\tb\r\x1b", "\n\t") == "a\n\tb\\x0d\\x1b"


def test_one_line():
    assert one_line("  mount: wrong\n\n  fs type\x1b \n") == "mount: wrong; fs type\\x1b"
    assert len(one_line("x" * 10**6)) < 5000 and one_line("x" * 10**6).endswith("… (1000000 characters)")


def test_an_error_is_printable():
    fault = PlumblineError("bad \x1b[31m\nname", ["one\u202e", "two\nlines"])
    assert (fault.msg, fault.reasons, str(fault)) == ("bad \\x1b[31m; name", ["one\\u202e", "two; lines"], "bad \\x1b[31m; name")


class Module:
    """Takes what a module says."""

    def __init__(self):
        self.warnings, self.result = [], {}

    def warn(self, text):
        self.warnings.append(text)

    def exit_json(self, **result):
        self.result = result


def test_a_result_is_printable():
    module = Module()
    with pytest.raises(SystemExit):
        ansible_module.exit_success(
            module,
            ["model \x1b[31m\nx"],
            changed=True,
            report=["a\x1b", "two\nlines"],
            diff={"before": "one\ntwo\x1b\n"},
            stacks=[{"name": "\u202ex", "size": 5, "report": ["l\n"], "legs": ("a\x00",), "none": None}],
        )
    assert module.warnings == ["model \\x1b[31m; x"]
    assert module.result == {
        "changed": True,
        "report": ["a\\x1b", "two\\x0alines"],
        "diff": {"before": "one\ntwo\\x1b\n"},
        "stacks": [{"name": "\\u202ex", "size": 5, "report": ["l\\x0a"], "legs": ["a\\x00"], "none": None}],
    }


def test_every_module_leaves_by_the_one_way_out():
    """Or what a device calls itself would reach the terminal as it is."""
    modules = Path(ansible_module.__file__).parents[2] / "modules"
    for path in modules.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        left = re.search(r"\bmodule\.(?:exit_json|fail_json|warn|deprecate)\(", text)
        assert not left, "%s: use leave() and exit_refused() of _core/module.py" % path.name


def test_an_identity_is_printable(tmp_path):
    (tmp_path / "device").mkdir()
    for name, raw in {
        "device/model": b"M\x1b[2J",
        "device/vendor": b"V\xe2\x80\xae",
        "device/wwid": b"t10.\x07 x  y\n",
        "device/vpd_pg80": b"\0\x80\0\4S\n\x0b1",
    }.items():
        (tmp_path / name).write_bytes(raw)
    found = read_sysfs._read_identity(str(tmp_path), "sda")
    assert (found.model, found.wwid, found.serial) == ("V\\u202e M\\x1b[2J", "t10.\\x07 x y", "S\\x0a\\x0b1")


# --- where text would become something else ----------------------------------------------------------


@pytest.mark.parametrize("path", ["/dev/sda:/dev/sdb", "/dev/x y", "/dev/mapper/a\\x20b", "/dev/a\n[global]", "/dev/../etc/x:y", "dev/sda", "/dev/{{ x }}"])
def test_fio_is_given_no_other_text(path):
    with pytest.raises(PlumblineError, match="is no name of a block device that fio can be given"):
        fio.argv("/usr/bin/fio", fio.Load("x", "read", 4096, 1), [Place(path, 0, MIB)], 1, 0)


@pytest.mark.parametrize("key", ["guid", "type_guid"])
@pytest.mark.parametrize("text", ["", "x", "[global]", "AAAAAAAA-0000-4000-8000-000000000001\nstart=1", "AAAAAAAA-0000-4000-8000-000000000001, name=x"])
def test_sfdisk_is_given_guids_only(key, text):
    device = {
        "device": "/dev/x", "logical_bytes": 512, "start_bytes": MIB, "length_bytes": MIB, "size_bytes": 8 * MIB, "name": "plumbline:pgdata:0",
        "guid": "AAAAAAAA-0000-4000-8000-000000000001", "type_guid": "AAAAAAAA-0000-4000-8000-000000000002",
    }  # fmt: skip
    write_tables.check_devices([device])
    with pytest.raises(PlumblineError, match="does not fit; wanted a GUID"):
        write_tables.check_devices([dict(device, **{key: text})])


def test_a_map_that_is_named_like_a_line_of_a_table():
    """A user's map must not become the table of a volume of ours."""
    names = ["pgdata-data", "pgdata-data: 0 8 linear 8:0 0"]
    text = "pgdata-data: 0 8 linear 8:0 0: 0 100 linear 8:99 0\npgdata-data: 0 16 striped 2 128 8:16 2048 8:32 2048\n"
    found = tool_output.parse_dm_tables(text, names)
    assert [segment.kind for segment in found["pgdata-data"]] == ["striped"]
    assert [segment.legs for segment in found[names[1]]] == [(("8:99", 0),)]


MOUNT = {
    "path": "/data01",
    "uuid": "u-1",
    "fstype": "ext4",
    "options": "noatime,nofail",
    "passno": 2,
    "owner": -1,
    "group": -1,
    "mode": "",
    "selinux_context": "",
}
DROP_IN = "/etc/systemd/system/postgresql@15-main.service.d/50-plumbline-pgdata.conf"


@pytest.mark.parametrize(
    "keys, drop_ins, words",
    [
        ({"path": "/etc"}, {}, "belongs to the system"),
        ({"path": "/usr/lib/x"}, {}, "belongs to the system"),
        ({"path": "/a/../etc"}, {}, "is not normalised"),
        ({"path": "a"}, {}, "wanted an absolute path"),
        ({"path": "/a b"}, {}, "holds a character"),
        ({"uuid": "u /x ext4 x 0 0\nUUID=u"}, {}, "uuid"),
        ({"options": "noatime 0 0\n/dev/sda /etc ext4 x"}, {}, "options"),
        ({"options": ""}, {}, "options"),
        ({"fstype": "ext4\tx"}, {}, "fstype"),
        ({"mode": "u+s"}, {}, "mode"),
        ({}, {"/etc/passwd": "[Unit]\nRequiresMountsFor=/x\n"}, "drop-in /etc/passwd does not fit"),
        ({}, {"/etc/systemd/system/../../x.d/50-plumbline-pgdata.conf": "[Unit]\nRequiresMountsFor=/x\n"}, "does not fit"),
        ({}, {DROP_IN: "[Unit]\nRequiresMountsFor=/x\n[Service]\nExecStart=/bin/sh\n"}, "does not fit"),
        ({}, {DROP_IN: "[Service]\nExecStart=/bin/sh\n"}, "does not fit"),
    ],
)
def test_a_step_that_was_tampered_with(keys, drop_ins, words):
    with pytest.raises(PlumblineError, match=words):
        change_mounts.check_mounts([dict(MOUNT, **keys)], drop_ins)


def test_a_step_as_it_is_planned():
    host = Host()
    host.pair()
    host.seen.users = {"0": 0}
    volumes = [{"name": "data", "mount": "/srv/data", "required_by": ["postgresql@15-main.service"], "owner": "0", "mode": "0700"}]
    (step,) = [step for step in make_plan(spec(host, volumes=volumes), host.seen).steps if step["action"] == "mount"]
    change_mounts.check_mounts(step["mounts"], step["drop_ins"])


# --- the way to a mount point ------------------------------------------------------------------------

ROOT = Part("/", "directory")


@pytest.mark.parametrize(
    "way, mounted, fault",
    [
        ([ROOT], [], ""),
        ([ROOT, Part("/srv", "directory")], [], ""),
        ([ROOT, Part("/srv", "directory", mode=0o2755)], [], ""),
        ([ROOT, Part("/tmp", "directory", mode=0o1777)], [], ""),
        ([ROOT, Part("/srv", "directory", mode=0o775)], [], "/srv can be written to by others than root (mode 0775); wanted that of root alone"),
        ([ROOT, Part("/srv", "directory", mode=0o757)], [], "/srv can be written to by others than root (mode 0757); wanted that of root alone"),
        ([ROOT, Part("/srv", "directory", 1000)], [], "/srv belongs to user 1000, who could put something else in its place; wanted root as its owner"),
        ([ROOT, Part("/srv", "link", target="/x")], [], "/srv is a symbolic link to /x; name the mount point by where it really is"),
        ([ROOT, Part("/srv", "other")], [], "/srv is no directory"),
        ([ROOT, Part("/data", "directory", 26, 0o700)], ["/data"], ""),
        ([ROOT, Part("/data", "directory", 26), Part("/data/pg", "directory")], ["/data"], "/data belongs to user 26"),
        ([ROOT, Part("/data", "link", target="/x")], ["/data"], "/data is a symbolic link to /x"),
        ([Part("/", "directory", mode=0o777)], [], "/ can be written to"),
    ],
)
def test_way_fault(way, mounted, fault):
    assert way_fault(way, mounted).startswith(fault) and bool(way_fault(way, mounted)) == bool(fault)


def test_walk_follows_nothing(tmp_path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    assert read_path.walk(str(tmp_path / "real" / "deep" / "m"))[-1][:2] == (str(tmp_path / "real" / "deep"), "directory")
    assert read_path.walk(str(tmp_path / "real" / "none" / "m"))[-1].path == str(tmp_path / "real")
    last = read_path.walk(str(tmp_path / "link" / "deep" / "m"))[-1]
    assert (last.path, last.kind, last.target) == (str(tmp_path / "link"), "link", "real")
    assert read_path.walk(str(tmp_path / "file" / "m"))[-1].kind == "other"
    assert [part.path for part in read_path.walk("/m")] == ["/"]


@pytest.fixture
def frozen(monkeypatch):
    paths = []
    monkeypatch.setattr(ask_file, "is_immutable", lambda fd: os.readlink("/proc/self/fd/%d" % fd) in paths)
    monkeypatch.setattr(ask_file, "set_immutable", lambda fd: paths.append(os.readlink("/proc/self/fd/%d" % fd)))
    return paths


@pytest.mark.parametrize("what", ["link", "writable"])
def test_a_way_that_is_not_safe_is_refused_before_anything_is_made(tmp_path, frozen, what):
    bad = tmp_path / "bad"
    if what == "link":
        (tmp_path / "elsewhere").mkdir()
        bad.symlink_to("elsewhere")
    else:
        bad.mkdir()
        os.chmod(bad, 0o777)
    before = sorted(os.walk(tmp_path))
    with pytest.raises(PlumblineError, match=r"mount point .*/bad/a/b is not safe: .*/bad (is a symbolic link|can be written to)"):
        change_mount_point.prepare_directory(str(bad / "a" / "b"))
    assert sorted(os.walk(tmp_path)) == before and frozen == []


def test_what_is_made_on_the_way_is_ours_alone(tmp_path, frozen):
    old = os.umask(0)
    try:
        change_mount_point.prepare_directory(str(tmp_path / "a" / "b" / "c"))
    finally:
        os.umask(old)
    assert [stat.S_IMODE(os.stat(tmp_path / path).st_mode) for path in ("a", "a/b", "a/b/c")] == [0o755] * 3
    assert frozen == [str(tmp_path / "a" / "b" / "c")]


def test_what_comes_between_look_and_flag_is_seen(tmp_path, monkeypatch):
    path = tmp_path / "m"
    monkeypatch.setattr(ask_file, "is_immutable", lambda _fd: False)
    wishes = []

    def late(_fd, wish=True):
        wishes.append(wish)
        (path / "late").touch()

    monkeypatch.setattr(ask_file, "set_immutable", late)
    with pytest.raises(PlumblineError, match="is not empty since the plan"):
        change_mount_point.prepare_directory(str(path))
    assert wishes == [True, False], "immutable, nobody could empty it"


def test_no_descriptor_stays_open(tmp_path, frozen):
    (tmp_path / "bad").symlink_to("/")
    before = len(os.listdir("/proc/self/fd"))
    change_mount_point.prepare_directory(str(tmp_path / "a" / "b"))
    with pytest.raises(PlumblineError):
        change_mount_point.prepare_directory(str(tmp_path / "bad" / "x" / "y"))
    with pytest.raises(PlumblineError):
        change_mount_point.prepare_directory(str(tmp_path / "bad"))
    assert len(os.listdir("/proc/self/fd")) == before


class Mounts:
    """The mounts of a host by their numbers. A mount of our device (253:0) lands at *lands*; others mount 8:1 meanwhile."""

    def __init__(self, monkeypatch, lands, stubborn=False):
        self.table = {1: ("8:1", "/", 0), 2: ("8:2", "/etc/cron.d", 1)}
        self.lands, self.stubborn, self.calls = lands, stubborn, []
        monkeypatch.setattr(change_mount_point, "numbered_mounts", lambda: dict(self.table))
        monkeypatch.setattr(change_mount_point, "live_mounts", lambda: {target: ("rw",) for _device, target, _on in self.table.values()})
        monkeypatch.setattr(change_mount_point, "mount_below", lambda _path: 1)
        monkeypatch.setattr(change_mounts, "_devno_of", {"u1": "253:0"}.get)

    def run(self, argv):
        self.calls.append(tuple(argv))
        if argv[0] == "mount":
            self.table.update({number: ("253:0", target, on) for number, (target, on) in enumerate(self.lands, 10)})
            self.table[20] = ("8:3", "/somebody/else", 1)
        elif not self.stubborn:
            self.table.pop(max(number for number, (_device, target, _on) in self.table.items() if target == argv[1]))
        return 0, "", ""


# Where the mounts land, and on which mount; the last one is the stray.
LANDS = {
    "elsewhere": [("/etc/cron.d", 1)],
    "twice": [("/data01", 1), ("/etc/cron.d", 1)],
    "nowhere-known": [("/new/place", 1)],
    "over-a-cover": [("/data01", 7)],
}


@pytest.mark.parametrize("lands", LANDS.values(), ids=LANDS)
def test_a_mount_that_lands_elsewhere_is_taken_away_again(monkeypatch, lands):
    """Also where it lies over another mount, and where something is mounted at the right place as well. What others mount meanwhile is left alone."""
    host = Mounts(monkeypatch, lands)
    before, stray = dict(host.table), lands[-1][0]
    with pytest.raises(PlumblineError, match=rf"kernel shows the mount at {stray}: the way to it was changed meanwhile; it was unmounted again"):
        change_mounts._mount(host.run, "/data01", "u1")
    assert host.calls == [("mount", "/data01"), ("umount", stray)]
    assert {number: one for number, one in host.table.items() if one[0] != "253:0"} == {**before, 20: ("8:3", "/somebody/else", 1)}


def test_a_stray_mount_that_stays_is_told(monkeypatch):
    host = Mounts(monkeypatch, LANDS["elsewhere"], stubborn=True)
    with pytest.raises(PlumblineError, match=r"it could not be unmounted from /etc/cron\.d: do that by hand"):
        change_mounts._mount(host.run, "/data01", "u1")


def test_a_mount_that_lands_nowhere_unmounts_nothing(monkeypatch):
    host = Mounts(monkeypatch, [])
    with pytest.raises(PlumblineError, match="shows the mount at nowhere"):
        change_mounts._mount(host.run, "/data01", "u1")
    assert host.calls == [("mount", "/data01")]


@pytest.mark.skipif(os.geteuid() != 0, reason="wants two users")
@pytest.mark.parametrize(("owner", "mode", "refused"), [(61001, 0o1777, True), (0, 0o1777, False), (61001, 0o755, False)])
def test_a_mount_point_of_another_user_below_a_sticky_folder(tmp_path, frozen, owner, mode, refused):
    """Its owner could move it away before it is immutable, or where nothing can be. Below a folder of root's alone nobody moves it."""
    above, path = tmp_path / "shared", tmp_path / "shared" / "data"
    path.mkdir(parents=True)
    os.chmod(above, mode)
    os.chown(path, owner, owner)
    assert bool(owner_fault(str(path), owner, Part(str(above), "directory", 0, mode))) == refused
    if refused:
        with pytest.raises(PlumblineError, match=r"is not safe: .* belongs to user 61001, .* chown root"):
            change_mount_point.prepare_directory(str(path))
    else:
        change_mount_point.prepare_directory(str(path))
    assert frozen == ([] if refused else [str(path)])


@pytest.mark.parametrize("exchanged", ["moved", "gone"])
def test_a_mount_point_that_is_exchanged_while_it_is_looked_at(tmp_path, monkeypatch, exchanged):
    path, wishes = tmp_path / "m", []

    def late(_fd, wish=True):
        wishes.append(wish)
        if wish:
            os.rename(path, tmp_path / "away")
            if exchanged == "moved":
                path.mkdir()

    monkeypatch.setattr(ask_file, "is_immutable", lambda _fd: False)
    monkeypatch.setattr(ask_file, "set_immutable", late)
    with pytest.raises(PlumblineError, match="was exchanged meanwhile; nothing was mounted"):
        change_mount_point.prepare_directory(str(path))
    assert wishes == [True, False]


@pytest.mark.parametrize("mounted", [False, True])
def test_a_plan_looks_at_the_way(mounted):
    host = Host()
    host.pair(1)
    stacks = spec(host, layout="separate", volumes=[{"name": "v", "mount": "/srv/x/v"}])
    host.build(stacks)
    if not mounted:
        host.seen.mounts.clear()
    way = (ROOT, Part("/srv", "directory"), Part("/srv/x", "link", target="/home/u/x"))
    host.seen.directories["/srv/x/v"] = PathState(True, True, 0, way=way)
    refusals = make_plan(stacks, host.seen).refusals
    line = "pgdata: mount point /srv/x/v is not safe: /srv/x is a symbolic link to /home/u/x; name the mount point by where it really is [mount_point]"
    assert refusals == ([] if mounted else [line])


@pytest.mark.parametrize(
    "path", ["/usr/lib/x", "/usr/bin", "/usr/share/doc", "/var/lib/dpkg", "/var/lib/plumbline/x", "/var/run/x", "/var/lock", "/lost+found/x", "/lib32/x"]
)
def test_more_of_the_systems_own(path):
    with pytest.raises(PlumblineError, match="belongs to the system"):
        judge_mount_path.check_mount_point(path, "here")


@pytest.mark.parametrize("path", ["/usr/local/pg", "/var/lib/postgresql", "/var/lib/dpkgs", "/usr/libx", "/etcetera", "/srv/etc"])
def test_and_what_is_not(path):
    assert judge_mount_path.check_mount_point(path, "here") == path
