# SPDX-License-Identifier: GPL-3.0-or-later
"""Setting write caches: all or none, read back, kept. The drives, the tools and the host's files are played."""

from __future__ import annotations

import contextlib
import os

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Mount, Node, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import (
    change_drives,
    command,
    kept_paths,
    persist_files,
    read_keeping,
    read_persisted,
    rules,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import change_persist as write_cache_persist
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.drive import Asked

TOOLS = {"hdparm": "/usr/sbin/hdparm", "sdparm": "/usr/bin/sdparm", "nvme": "/usr/sbin/nvme"}


class World:
    """Drives that take commands, or do not, and files below a directory of the test."""

    def __init__(self, top, monkeypatch):
        self.mounts, self.in_force, self.removed = [], {}, set()
        self.written_through = set()  # somebody wrote so to queue/write_cache: no rescan takes it back since Linux 6.11
        self.nodes, self.caches, self.calls, self.refuse, self.ignore, self.beliefs = {}, {}, [], set(), set(), {}
        self.after = None  # called behind every command
        for name in ("RULES", "SCRIPT", "SERVICE", "TIMER", "STATE"):
            path = str(top / getattr(kept_paths, name).lstrip("/"))
            monkeypatch.setattr(kept_paths, name, path)
        for name in ("RULES", "SERVICE"):
            os.makedirs(os.path.dirname(getattr(kept_paths, name)))
        self.wants, self.timer_wants = str(top / "wants"), str(top / "timer-wants")
        monkeypatch.setattr(kept_paths, "WANTS", self.wants)
        monkeypatch.setattr(kept_paths, "TIMER_WANTS", self.timer_wants)
        monkeypatch.setattr(persist_files, "MODES", {kept_paths.STATE: 0o600, kept_paths.SCRIPT: 0o755})
        monkeypatch.setattr(read_keeping, "has_systemd", lambda: False)
        monkeypatch.setattr(read_keeping, "tool_exists", lambda tool: tool not in self.removed)
        monkeypatch.setattr(change_drives, "flush", lambda drive: self.calls.append("flush %s" % drive.node.name))
        self.exchanged = set()  # names that another drive has by now
        monkeypatch.setattr(change_drives, "pinned", self.pinned)
        monkeypatch.setattr(change_drives, "_raw", lambda path: "raw-" + path.split("/")[4])
        monkeypatch.setattr(change_drives, "_BELIEF_SECONDS", 0.2)
        monkeypatch.setattr(change_drives, "belief_of", lambda node: self.beliefs.get(node.name, "write back"))
        monkeypatch.setattr(change_drives, "_rescan", self.rescan)
        monkeypatch.setattr(change_drives, "_send_flushes", lambda node: self.written_through.discard(node.name))
        monkeypatch.setattr(change_drives.read_sysfs, "read_nodes", lambda: self.nodes)
        monkeypatch.setattr(change_drives.read_sysfs, "read_links", dict)
        monkeypatch.setattr(change_drives.read_sysfs, "read_mounts", lambda process: self.mounts)
        monkeypatch.setattr(change_drives.read_sysfs, "read_in_force", lambda nodes, mounts: self.in_force)
        monkeypatch.setattr(change_drives, "_kernel_name", lambda path: path.rsplit("/", 1)[-1])
        monkeypatch.setattr(ask_drive, "read_cache", lambda node: self.caches[node.name])
        monkeypatch.setattr(ask_drive, "controllers", lambda node: ["/dev/" + node.identity.controller])
        self.mended = True

    def drive(self, name, cache, **identity):
        number = "8:%d" % len(self.nodes)
        told = {"wwid": "naa." + name, "serial": "S-" + name, "transport": "sas", **identity}
        self.nodes[number] = Node(number, name, "disk", 1 << 30, Limits(512, 512), identity=Identity(**told), write_cache=self.beliefs.get(name, "write back"))
        self.caches[name] = cache

    def pinned(self, node):
        if node.name in self.exchanged:
            raise PlumblineError("device %s is another device" % node.name)
        return contextlib.nullcontext()

    def put(self, name, cache):
        self.caches[name] = cache

    def rescan(self, node):
        self.calls.append("rescan %s" % node.name)
        if self.mended:
            flushed = self.caches[node.name].enabled and node.name not in self.written_through
            self.beliefs[node.name] = "write back" if flushed else "write through"

    def run(self, argv):
        self.calls.append(" ".join(argv))
        if argv[:2] == ["systemctl", "enable"] and not os.path.lexists(self.wants):
            os.symlink(kept_paths.SERVICE, self.wants)
        if os.path.basename(argv[0]) not in ("hdparm", "sdparm", "nvme"):
            return 0, "", ""
        name = next(word for word in argv if word.startswith("/dev/"))[5:]
        if name in self.refuse:
            return 5, "", "%s: Invalid field in parameter list" % name
        on = any(word in ("-W1", "--set=WCE", "--value=1") for word in argv)
        for node in self.nodes.values():
            if name in (node.name, node.identity.controller) and name not in self.ignore:
                saved = on if "--save" in argv else self.caches[node.name].saved
                self.caches[node.name] = self.caches[node.name]._replace(enabled=on, saved=saved)
        if self.after:
            self.after(name)
        return 0, "", ""

    def apply(self, *asked, persist=True, dry=False, tools=None, accept=(), stated=()):
        drives = [Asked("/dev/" + name, state, accept=accept) for name, state in asked]
        return change_drives.apply(self.run, drives, persist, TOOLS if tools is None else tools, dry, stated)

    def states(self):
        return [rules.state_of(cache) for cache in self.caches.values()]

    def sets(self):
        return [call for call in self.calls if call.split()[0] in TOOLS.values()]

    def kept(self):
        return {entry.identity: entry.state for entry in read_persisted.read_entries()}


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


ON, OFF = WriteCache(True, True, True), WriteCache(True, False, True)


def three(world, **more):
    world.drive("sda", ON, ata=True, transport="sata")
    world.drive("sdb", ON)
    world.drive("nvme0n1", ON, transport="nvme", controller="nvme0")


def test_three_kinds_are_set_and_kept(world):
    three(world)
    done = world.apply(("sda", "off"), ("sdb", "off"), ("nvme0n1", "off"))
    assert done.changed and world.states() == ["off"] * 3
    assert [(one["before"], one["after"], one["kept"]) for one in done.devices] == [("on", "off", "off")] * 3
    assert set(world.kept().values()) == {"off"} and len(world.kept()) == 3
    assert [call for call in world.calls if call.startswith("flush")] == ["flush sda", "flush sdb", "flush nvme0n1"]
    assert os.stat(kept_paths.STATE).st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(kept_paths.STATE)).st_mode & 0o777 == 0o700


def test_a_second_run_does_nothing_at_all(world):
    three(world)
    asked = [("sda", "off"), ("sdb", "off"), ("nvme0n1", "off")]
    world.apply(*asked)
    world.calls = []
    before = os.stat(kept_paths.RULES).st_mtime_ns
    assert not world.apply(*asked).changed and not world.calls and os.stat(kept_paths.RULES).st_mtime_ns == before


def test_a_drive_that_came_in_place_of_the_one_that_was_asked_is_told_nothing(world):
    """Between the question and the command; what was set before is put back."""
    three(world)
    world.exchanged.add("sdb")
    with pytest.raises(PlumblineError, match="sdb is another device; put back: device sda"):
        world.apply(("sda", "off"), ("sdb", "off"), ("nvme0n1", "off"))
    assert world.states() == ["on"] * 3 and not any("sdb" in call for call in world.sets()) and not world.kept()


def test_check_mode_says_what_would_be_and_does_nothing(world):
    three(world)
    done = world.apply(("sda", "off"), ("nvme0n1", "on"), dry=True)
    assert done.changed and not world.calls and world.states() == ["on"] * 3 and not os.path.exists(kept_paths.RULES)
    assert [(one["before"], one["after"]) for one in done.devices] == [("on", "off"), ("on", "on")]
    assert done.diff["before"] == "/dev/sda (S-sda): on\n/dev/nvme0n1 (S-nvme0n1): on\n"
    assert done.diff["after"] == "/dev/sda (S-sda): off, kept off\n/dev/nvme0n1 (S-nvme0n1): on, kept on\n"


def test_keep_drops_one_and_leaves_the_others(world):
    three(world)
    world.apply(("sda", "off"), ("sdb", "off"))
    world.calls = []
    assert world.apply(("sda", "keep")).changed and world.states() == ["off", "off", "on"]
    assert world.kept() == {"wwid:naa.sdb": "off"} and not world.sets()
    assert world.apply(("sdb", "keep")).changed and not world.kept()
    assert not any(os.path.exists(path) for path in persist_files.files([]))
    assert not world.apply(("sdb", "keep")).changed


def test_only_for_now(world):
    three(world)
    assert world.apply(("sda", "off"), persist=False).changed and world.states()[0] == "off" and not world.kept()
    world.apply(("sda", "off"))
    world.apply(("sda", "on"), persist=False)
    assert not world.kept() and world.states()[0] == "on"


def fails(world, *asked, **more):
    with pytest.raises(PlumblineError) as caught:
        world.apply(*asked, **more)
    assert "\n" not in caught.value.msg
    return "\n".join([caught.value.msg, *caught.value.reasons])


def test_everything_is_checked_before_the_first_is_set(world):
    three(world)
    world.caches["nvme0n1"] = WriteCache(False, False, False)
    world.caches["sdb"] = WriteCache(True, False, False)
    said = fails(world, ("sda", "off"), ("sdb", "on"), ("nvme0n1", "on"))
    assert "device sdb (S-sdb)" in said and "cannot be changed" in said and "device nvme0n1 (S-nvme0n1)" in said and "no volatile write cache" in said
    assert not world.calls and not world.kept()


def test_a_drive_that_refuses_takes_all_back(world):
    three(world)
    world.refuse.add("nvme0")
    said = fails(world, ("sda", "off"), ("sdb", "off"), ("nvme0n1", "off"))
    assert "device nvme0n1 (S-nvme0n1): its write cache is on and nvme refused to change it: nvme0: Invalid field" in said
    assert "; put back: device sdb (S-sdb), device sda (S-sda)" in said
    assert world.states() == ["on"] * 3 and not world.kept()


def test_a_drive_that_says_yes_and_does_not(world):
    three(world)
    world.ignore.add("sdb")
    said = fails(world, ("sda", "off"), ("sdb", "off"))
    assert "device sdb (S-sdb): it took the command without an error and its write cache is on; wanted off" in said
    assert world.states() == ["on"] * 3 and not world.kept()


def test_a_drive_that_another_undoes(world):
    three(world)

    def undo(name):
        if name == "sdb":
            world.caches["sda"] = ON

    world.after = undo
    said = fails(world, ("sda", "off"), ("sdb", "off"))
    assert "device sda (S-sda): when all drives were set its write cache is on; wanted off" in said
    assert world.states() == ["on"] * 3


def test_a_drive_that_goes_away(world):
    three(world)

    def pull(name):
        if name == "sdb":
            world.caches["sdb"] = WriteCache(fault="it went away")

    world.after = pull
    said = fails(world, ("sda", "off"), ("sdb", "off"))
    assert "device sdb (S-sdb)" in said and "it went away" in said and world.states()[0] == "on"


def test_files_that_cannot_be_written_take_all_back(world, monkeypatch):
    three(world)
    world.apply(("sda", "off"))

    def full(texts):
        raise OSError(28, "No space left on device", kept_paths.RULES)

    monkeypatch.setattr(write_cache_persist, "_write", full)
    assert "No space left on device" in fails(world, ("sda", "on"), ("sdb", "off"))
    assert world.states() == ["off", "on", "on"] and world.kept() == {"wwid:naa.sda": "off"}


def test_what_cannot_be_put_back_is_said(world):
    three(world)
    world.refuse.add("sdb")

    def stick(name):
        if name == "sda":
            world.refuse.add("sda")

    world.after = stick
    assert "this could not be put back: device sda (S-sda)" in fails(world, ("sda", "off"), ("sdb", "off"))


@pytest.mark.parametrize(("tool", "package", "name"), [("hdparm", "hdparm", "sda"), ("sdparm", "sdparm", "sdb"), ("nvme", "nvme-cli", "nvme0n1")])
def test_a_tool_is_missing(world, tool, package, name):
    three(world)
    tools = {key: path for key, path in TOOLS.items() if key != tool}
    assert "install the package %s" % package in fails(world, ("sda", "off"), ("sdb", "off"), ("nvme0n1", "off"), tools=tools)
    assert not world.calls
    world.apply((name, "keep"), tools={})
    with pytest.raises(PlumblineError):  # as asked, but a rule without its tool would keep nothing
        world.apply((name, "on"), tools=tools)
    world.apply((name, "on"), tools=tools, persist=False)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([("sdx", "off")], "device /dev/sdx is not there"),
        ([("sda", "off"), ("sda", "on")], "is named twice"),
    ],
)
def test_devices_that_cannot_be_meant(world, asked, words):
    three(world)
    assert words in fails(world, *asked) and not world.calls


def test_a_partition_is_not_meant(world):
    three(world)
    world.nodes["8:9"] = world.nodes["8:0"]._replace(devno="8:9", name="sda1", kind="part")
    assert "wanted the whole disk" in fails(world, ("sda1", "off"))


def test_a_drive_that_is_not_there_is_named_with_its_serial(world):
    with pytest.raises(PlumblineError, match=r"device /dev/sdx \(S9\) is not there.*; wanted a disk of this host"):
        change_drives.apply(world.run, [Asked("/dev/sdx", "off", serial="S9")], True, TOOLS, False)


@pytest.mark.parametrize("by", ["mount", "superblock"])
@pytest.mark.parametrize("dry", [True, False])
def test_a_cache_is_not_switched_on_below_a_filesystem_without_barriers(world, by, dry):
    world.drive("sda", ON)
    world.drive("sdb", OFF)
    world.mounts = [Mount("8:0", "/a", "ext4", ("rw",)), Mount("8:1", "/b", "ext4", ("rw", "nobarrier") if by == "mount" else ("rw",))]
    world.in_force = {"8:1": ("rw", "nobarrier")} if by == "superblock" else {}
    said = fails(world, ("sda", "off"), ("sdb", "on"), dry=dry)
    assert "device sdb (S-sdb): its write cache is off, and /b is mounted on it without barriers" in said
    assert "mount -o remount,barrier=1 /b, or accept: [data_loss_on_power_cut]" in said
    assert not world.calls and world.states() == ["on", "off"]
    world.apply(("sdb", "off"), dry=dry)  # as it is


@pytest.mark.parametrize("more", [{"accept": ("data_loss_on_power_cut",)}, {"stated": ("S-sdb",)}])
def test_what_is_accepted_may_be_switched_on(world, more):
    world.drive("sdb", OFF)
    world.mounts = [Mount("8:0", "/b", "ext4", ("rw", "nobarrier"))]
    assert world.apply(("sdb", "on"), **more).changed and world.states() == ["on"]


def test_devices_that_moved_since_the_plan(world):
    three(world)
    with pytest.raises(PlumblineError, match="devices have moved since the plan"):
        change_drives.apply(world.run, [Asked("/dev/sda", "off", "wwid:naa.other")], True, TOOLS, False)
    assert not world.calls


def test_twins_are_not_kept(world):
    world.drive("sda", ON, wwid="naa.same")
    world.drive("sdb", ON, wwid="naa.same")
    assert "shares its identity naa.same with sdb" in fails(world, ("sda", "off")) and not world.calls
    assert world.apply(("sda", "off"), persist=False).changed


def test_a_wwid_that_no_rule_can_hold(world, monkeypatch):
    world.drive("sda", ON)
    monkeypatch.setattr(change_drives, "_raw", lambda path: 'a"b')
    assert "cannot be kept over a reboot" in fails(world, ("sda", "off")) and not world.calls


def test_a_controller_with_another_namespace(world):
    world.drive("nvme0n1", ON, transport="nvme", controller="nvme0")
    world.drive("nvme0n2", ON, transport="nvme", controller="nvme0")
    assert "behind which is also nvme0n2" in fails(world, ("nvme0n1", "off"))
    world.apply(("nvme0n1", "off"), ("nvme0n2", "off"))
    assert world.states() == ["off", "off"]


def test_off_of_a_drive_without_a_cache_is_satisfied_and_not_kept(world):
    world.drive("nvme0n1", WriteCache(False, False, False), transport="nvme", controller="nvme0")
    done = world.apply(("nvme0n1", "off"), tools={})
    assert not done.changed and not world.calls and done.devices[0]["after"] == "none" and done.devices[0]["kept"] == ""
    assert "nothing to switch off" in done.devices[0]["findings"][0]["text"]


# --- saved pages and beliefs -----------------------------------------------------------------------


def test_a_saved_page_is_saved_and_the_kernel_looks_again(world):
    world.drive("sdb", WriteCache(True, True, True, True))
    done = world.apply(("sdb", "off"))
    assert world.sets() == ["/usr/bin/sdparm --quiet --clear=WCE --save /dev/sdb"]
    assert world.caches["sdb"].saved is False and done.devices[0]["belief"] == "write through"
    assert world.calls.index("flush sdb") < world.calls.index("rescan sdb")


def test_a_drive_that_does_not_save_is_told_once(world):
    """It says that it saves; the rule keeps it, and a second run has nothing to do."""
    world.drive("sdb", WriteCache(True, True, True, True))
    world.after = lambda name: world.caches.update(sdb=world.caches["sdb"]._replace(saved=True))
    done = world.apply(("sdb", "off"))
    assert done.changed and "does not save the setting" in done.devices[0]["findings"][0]["text"] and "rescan sdb" not in world.calls
    assert not world.apply(("sdb", "off")).changed


def test_for_now_the_saved_page_is_left(world):
    world.drive("sdb", WriteCache(True, True, True, True))
    world.apply(("sdb", "off"), persist=False)
    assert world.caches["sdb"].saved is True and "rescan sdb" not in world.calls
    assert not world.apply(("sdb", "off"), persist=False).changed


def test_a_saved_page_is_put_back_too(world):
    world.drive("sdb", WriteCache(True, True, True, True))
    world.drive("sda", ON, ata=True)
    world.refuse.add("sda")
    fails(world, ("sdb", "off"), ("sda", "off"))
    assert world.caches["sdb"] == WriteCache(True, True, True, True)


def test_what_is_put_back_on_gets_its_flushes_back(world, monkeypatch):
    """The kernel has looked at the drive that saved its state, and only then something fails."""
    world.drive("sdb", WriteCache(True, True, True, True))

    def full(texts):
        assert world.beliefs["sdb"] == "write through"
        raise OSError(28, "No space left on device", kept_paths.RULES)

    monkeypatch.setattr(write_cache_persist, "_write", full)
    assert "put back: device sdb (S-sdb)" in fails(world, ("sdb", "off"))
    assert world.caches["sdb"] == WriteCache(True, True, True, True) and world.beliefs["sdb"] == "write back"
    world.mended, world.beliefs = False, {"sdb": "write back"}
    monkeypatch.setattr(change_drives, "_rescan", lambda node: world.beliefs.update(sdb="write through"))
    assert "this could not be put back: device sdb (S-sdb): its write cache is on and the kernel goes on believing" in fails(world, ("sdb", "off"))


def test_a_belief_write_back_over_a_cache_that_is_off_is_left_alone(world):
    world.drive("sdb", ON)
    assert world.apply(("sdb", "off")).devices[0]["belief"] == "write back" and "rescan sdb" not in world.calls


def test_a_belief_write_through_is_mended(world):
    world.beliefs["sdb"] = "write through"
    world.drive("sdb", OFF)
    done = world.apply(("sdb", "on"))
    assert "rescan sdb" in world.calls and done.devices[0]["belief"] == "write back" and not done.devices[0]["findings"]


@pytest.mark.parametrize(("wanted", "believed"), [("on", "write back"), ("off", "write through"), ("keep", "write through")])
def test_a_belief_that_somebody_wrote_is_mended(world, wanted, believed):
    world.beliefs["sdb"] = "write through"
    world.written_through.add("sdb")
    world.drive("sdb", ON)
    done = world.apply(("sdb", wanted)).devices[0]
    assert done["belief"] == believed and bool(done["findings"]) is (wanted == "keep")


def test_a_cache_that_would_drop_flushes_is_not_left_on(world):
    world.beliefs["sdb"] = "write through"
    world.mended = False
    world.drive("sdb", OFF)
    said = fails(world, ("sdb", "on"))
    assert "flushes would be dropped" in said and said.endswith("; put back: device sdb (S-sdb)")
    assert world.states() == ["off"] and not world.kept()


def test_dropped_flushes_that_were_there_before_are_a_finding(world):
    world.beliefs["nvme0n1"] = "write through"
    world.mended = False
    world.drive("nvme0n1", ON, transport="nvme", controller="nvme0")
    (finding,) = world.apply(("nvme0n1", "keep")).devices[0]["findings"]
    assert finding["level"] == "error" and "flushes are dropped" in finding["text"] and "S-nvme0n1" in finding["text"]
    assert world.apply(("nvme0n1", "on")).devices[0]["findings"][0]["level"] == "error"


def test_a_mapped_device_that_drops_flushes_is_a_finding_and_refuses_on(world):
    world.drive("sda", ON)
    world.drive("sdb", OFF)
    volume = Node("253:0", "dm-0", "lvm", 1 << 30, Limits(512, 512), title="vg-data", slaves=("8:0", "8:1"), write_cache="write through")
    world.nodes["253:0"] = volume
    (finding,) = world.apply(("sda", "keep")).devices[0]["findings"]
    assert finding["level"] == "error" and "device sda (S-sda)" in finding["text"] and "'write through' of dm-0 (vg-data) above it" in finding["text"]
    assert world.apply(("sda", "off"), dry=True).devices[0]["findings"] == []
    said = fails(world, ("sdb", "on"), accept=("data_loss_on_power_cut",), stated=("S-sdb",))
    assert "device sdb (S-sdb): its write cache is off, and the kernel believes 'write through' of dm-0 (vg-data) above it" in said
    assert world.apply(("sda", "off")).devices[0]["findings"] == [] and world.states() == ["off", "off"]
    world.nodes["253:0"] = volume._replace(write_cache="write back")
    assert world.apply(("sda", "on"), ("sdb", "on")).devices[1]["findings"] == [] and world.states() == ["on", "on"]


def test_tools_have_one_path(tmp_path):
    (tmp_path / "usr").mkdir()
    (tmp_path / "sbin").symlink_to(tmp_path / "usr")
    assert command.find_tools(lambda name: str(tmp_path / "sbin" / name) if name != "nvme" else None) == {
        "hdparm": str(tmp_path / "usr/hdparm"),
        "sdparm": str(tmp_path / "usr/sdparm"),
    }


# --- systemd ---------------------------------------------------------------------------------------


def systemd(world):
    return [call for call in world.calls if call.startswith(("systemctl", "udevadm")) and "is-active" not in call]


def test_units_are_enabled_once_and_gone_with_the_last_drive(world, monkeypatch):
    monkeypatch.setattr(read_keeping, "has_systemd", lambda: True)
    three(world)
    world.apply(("sda", "off"))
    service = kept_paths.UNIT
    assert systemd(world) == ["systemctl enable --quiet %s" % service, "udevadm control --reload"]
    for asked in ("off", "on"):
        world.calls = []
        world.apply(("sdb", asked))
        assert systemd(world) == ["udevadm control --reload"], "nothing runs by the clock that could set it back meanwhile"
    world.calls = []
    world.apply(("sda", "keep"), ("sdb", "keep"))
    gone = ["stop --quiet %s" % service, "reset-failed --quiet %s" % service, "daemon-reload"]
    assert systemd(world) == [*("systemctl %s" % one for one in gone), "udevadm control --reload"]
    assert not os.path.lexists(world.wants) and not os.path.exists(kept_paths.SERVICE)


def earlier_release(world):
    """The host as a release with a timer has left it."""
    with open(kept_paths.TIMER, "w", encoding="ascii") as handle:
        handle.write("[Timer]\nOnUnitActiveSec=5s\n")
    os.symlink(kept_paths.TIMER, world.timer_wants)


@pytest.mark.parametrize("asked", ["off", "keep"])
def test_the_timer_of_an_earlier_release_goes_with_the_next_run(world, monkeypatch, asked):
    """Before any drive is set; the diff shows it, in check mode as well, and a second run finds nothing to do."""
    monkeypatch.setattr(read_keeping, "has_systemd", lambda: True)
    three(world)
    world.apply(("sda", "off"))
    earlier_release(world)
    world.put("sda", ON)
    assert set(read_persisted.read_kept().values()) == {""}
    line = "%s: asks every drive every five seconds\n" % kept_paths.TIMER
    world.calls = []
    dry = world.apply(("sda", asked), dry=True)
    assert dry.changed and dry.diff["before"].endswith(line) and line not in dry.diff["after"] and os.path.exists(kept_paths.TIMER) and not systemd(world)
    done = world.apply(("sda", asked))
    assert done.changed and done.diff["before"].endswith(line)
    assert world.calls[:2] == ["systemctl stop --quiet %s" % kept_paths.TIMER_UNIT, "systemctl stop --quiet %s" % kept_paths.UNIT]
    assert not os.path.lexists(kept_paths.TIMER) and not os.path.lexists(world.timer_wants) and "systemctl daemon-reload" in world.calls
    assert read_persisted.read_kept() == ({} if asked == "keep" else {"wwid:naa.sda": "off"})
    assert not world.apply(("sda", asked)).changed


@pytest.mark.parametrize(("code", "fails_then"), [(5, False), (1, True)])
def test_a_timer_that_cannot_be_stopped(world, monkeypatch, code, fails_then):
    """One of which systemd knows nothing is as good as stopped. Another one ends the run before a drive is set."""
    monkeypatch.setattr(read_keeping, "has_systemd", lambda: True)
    three(world)
    earlier_release(world)
    run = world.run
    world.run = lambda argv: (code, "", "no such bus") if argv[:2] == ["systemctl", "stop"] and argv[-1] == kept_paths.TIMER_UNIT else run(argv)
    if fails_then:
        assert "the timer of an earlier release could not be stopped; nothing was set: no such bus" in fails(world, ("sda", "off"))
        assert world.states() == ["on"] * 3 and os.path.exists(kept_paths.TIMER)
        return
    assert world.apply(("sda", "off")).changed and not os.path.exists(kept_paths.TIMER)


def test_a_service_that_was_disabled_is_damage(world, monkeypatch):
    monkeypatch.setattr(read_keeping, "has_systemd", lambda: True)
    three(world)
    world.apply(("sda", "off"))
    os.unlink(world.wants)
    assert set(read_persisted.read_kept().values()) == {""}
    assert world.apply(("sda", "off")).changed and set(read_persisted.read_kept().values()) == {"off"}


def test_a_tool_that_was_removed_keeps_nothing(world):
    three(world)
    world.apply(("sda", "off"), ("sdb", "off"))
    world.removed = {"/usr/sbin/hdparm"}
    assert read_persisted.read_kept() == {"wwid:naa.sda": "", "wwid:naa.sdb": "off"}


@pytest.mark.parametrize("refused", [("enable",), ("enable", "stop", "daemon-reload")], ids=["enable", "all"])
def test_a_service_that_cannot_be_enabled_takes_all_back(world, monkeypatch, refused):
    monkeypatch.setattr(read_keeping, "has_systemd", lambda: True)
    three(world)
    run = world.run
    world.run = lambda argv: (1, "", "no such bus") if argv[0] == "systemctl" and argv[1] in refused else run(argv)
    assert "could not be enabled: no such bus" in fails(world, ("sda", "off"))
    assert world.states() == ["on"] * 3 and not world.kept() and not os.path.lexists(world.wants)
    assert not any(os.path.exists(path) for path in persist_files.files([]))
