# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import select
import signal
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Mount, Node, Observation, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import temporary_state
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.temporary_state import Means, inverted_caches, legs_of, state_of_legs

ON = WriteCache(present=True, enabled=True)
OFF = WriteCache(present=True, enabled=False)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(temporary_state, "_PAUSE_SECONDS", 0.01)


def node(**more):
    return Node(limits=Limits(logical=512), **more)


def disk(devno, name, controller="", belief="write back"):
    return node(devno=devno, name=name, kind="disk", size=1 << 30, write_cache=belief, identity=Identity(serial="S" + name, controller=controller))


def host(*disks, mounts=()):
    nodes = {one.devno: one for one in disks}
    nodes["253:0"] = node(devno="253:0", name="dm-0", kind="lvm", size=1 << 30, slaves=tuple(one.devno for one in disks[:2]))
    return Observation(nodes=nodes, mounts=list(mounts))


TWO = (disk("8:0", "sda"), disk("8:16", "sdb"))


def test_legs_are_all_disks_below():
    assert legs_of(host(*TWO, disk("8:32", "sdc")), "253:0") == ["8:0", "8:16"]


@pytest.mark.parametrize("cache, on", [(ON, True), (OFF, False), (ON._replace(changeable=True, protected=True), True)])
def test_state(cache, on):
    assert state_of_legs(host(*TWO), ["8:0", "8:16"], {"8:0": cache, "8:16": cache}) is on


@pytest.mark.parametrize(
    "cache, words",
    [
        (WriteCache(fault="it is behind a USB bridge"), "device sdb (Ssdb): its write cache cannot be known: it is behind a USB bridge; measure where"),
        (WriteCache(present=False), "device sdb (Ssdb): it has no volatile write cache, so there is nothing to compare"),
        (WriteCache(present=True), "device sdb (Ssdb): it does not say whether its write cache is on"),
        (ON._replace(changeable=False), "device sdb (Ssdb): it says that its write cache cannot be switched"),
        (OFF, "the write caches of the volume's drives differ: sda on, sdb off; wanted one state for all"),
    ],
)
def test_what_cannot_be_switched_is_named(cache, words):
    with pytest.raises(PlumblineError) as refused:
        state_of_legs(host(*TWO), ["8:0", "8:16"], {"8:0": ON, "8:16": cache})
    assert refused.value.msg.startswith("cache_states: " + words), refused.value.msg
    assert len(refused.value.reasons) == 1


def test_a_cache_that_is_never_flushed_is_refused():
    seen = host(disk("8:0", "sda", belief="write through"))
    with pytest.raises(PlumblineError, match="the kernel believes 'write through', so that no flush is ever sent"):
        state_of_legs(seen, ["8:0"], {"8:0": ON})
    assert state_of_legs(seen, ["8:0"], {"8:0": OFF}) is False  # as a kernel should


@pytest.mark.parametrize("cache", [ON, OFF])
def test_a_mapped_device_that_drops_flushes_is_refused(cache):
    seen = host(*TWO)
    seen.nodes["253:0"] = seen.nodes["253:0"]._replace(write_cache="write through", title="vg-data")
    with pytest.raises(PlumblineError, match=r"device sda .* the kernel believes 'write through' of dm-0 \(vg-data\) above it"):
        state_of_legs(seen, ["8:0", "8:16"], {"8:0": cache, "8:16": cache})


@pytest.mark.parametrize("legs, refused", [(["259:0"], True), (["259:0", "259:1"], False)])
def test_a_controller_is_switched_whole_or_not_at_all(legs, refused):
    seen = host(disk("259:0", "nvme0n1", "nvme0"), disk("259:1", "nvme0n2", "nvme0"), disk("259:2", "nvme1n1", "nvme1"))
    caches = dict.fromkeys(legs, ON)
    if refused:
        with pytest.raises(PlumblineError, match="belongs to the controller nvme0, behind which is also nvme0n2, which is none of this volume's"):
            state_of_legs(seen, legs, caches)
    else:
        assert state_of_legs(seen, legs, caches) is True


@pytest.mark.parametrize("option", ["nobarrier", "barrier=0"])
def test_who_relies_on_a_cache_that_is_off_is_not_endangered(option):
    other = node(devno="8:1", name="sda1", kind="part", size=1 << 20, parent="8:0")
    seen = host(*TWO, mounts=[Mount("8:1", "/other", "ext4", ("rw", option)), Mount("253:0", "/data", "ext4", ("rw",))])
    seen.nodes["8:1"] = other
    with pytest.raises(PlumblineError, match="/other is mounted without barriers on a drive whose write cache is off"):
        state_of_legs(seen, ["8:0", "8:16"], {"8:0": OFF, "8:16": OFF})
    assert state_of_legs(seen, ["8:0", "8:16"], {"8:0": ON, "8:16": ON}) is True, "switching off endangers nobody"


def test_barriers_that_the_superblock_takes_away_count_too():
    """What tune2fs -o nobarrier has set is in no list of mounts."""
    seen = host(*TWO, mounts=[Mount("253:0", "/data", "ext4", ("rw",))])
    seen.in_force = {"253:0": ("rw", "nobarrier", "data=ordered")}
    with pytest.raises(PlumblineError, match=r"/data is mounted without barriers .* mount -o remount,barrier=1 /data"):
        state_of_legs(seen, ["8:0", "8:16"], {"8:0": OFF, "8:16": OFF})


def test_no_disk_is_no_state():
    with pytest.raises(PlumblineError, match="no disk below the volume is known"):
        state_of_legs(Observation(), [], {})


class Drives:
    """Drives whose state is in files, so that two processes see it; each may refuse a state."""

    def __init__(self, at, states):
        self.at = at
        for leg, on in states.items():
            self.put(leg, on)

    def put(self, leg, on):
        (self.at / leg).write_text(str(int(on)))

    def refuse(self, leg, on, times=1 << 30):
        (self.at / (leg + ".refuses")).write_text("%d %d" % (on, times))

    def state(self, leg):
        return (self.at / leg).read_text() == "1"

    def log(self):
        try:
            return (self.at / "log").read_text().split()
        except FileNotFoundError:
            return []

    def note(self, word):
        with (self.at / "log").open("a") as log:
            log.write(word + "\n")

    def set(self, leg, on):
        refused = self.at / (leg + ".refuses")
        state, times = map(int, refused.read_text().split()) if refused.exists() else (-1, 0)
        if state == int(on) and times:
            self.refuse(leg, on, times - 1)
            raise PlumblineError("%s refused" % leg)
        self.put(leg, on)
        self.note("%s=%d" % (leg, on))

    def means(self):
        return Means(lambda leg: WriteCache(present=True, enabled=self.state(leg)), self.set, lambda leg: leg)


@pytest.mark.parametrize("was", [True, False])
def test_turned_and_put_back(tmp_path, was):
    drives = Drives(tmp_path, {"a": was, "b": was})
    with inverted_caches(drives.means(), ["a", "b"], was, 60):
        assert (drives.state("a"), drives.state("b")) == (not was, not was)
    assert (drives.state("a"), drives.state("b")) == (was, was)
    there, back = int(not was), int(was)
    expected = ["a=%d" % back, "b=%d" % back, "a=%d" % there, "b=%d" % there, "a=%d" % back, "b=%d" % back]
    assert drives.log() == expected


def test_put_back_where_the_measurement_fails(tmp_path):
    drives = Drives(tmp_path, {"a": True})
    with pytest.raises(ValueError, match="within"), inverted_caches(drives.means(), ["a"], True, 60):
        raise ValueError("within")
    assert drives.state("a") and drives.log()[-1] == "a=1"


def test_a_drive_that_takes_no_setting_is_left(tmp_path):
    drives = Drives(tmp_path, {"a": True, "b": True})
    drives.refuse("b", True)
    with pytest.raises(PlumblineError, match="b refused"), inverted_caches(drives.means(), ["a", "b"], True, 60):
        raise AssertionError("not reached")
    assert "a=0" not in drives.log()


def test_half_switched_is_put_back(tmp_path):
    drives = Drives(tmp_path, {"a": True, "b": True})
    drives.refuse("b", False)
    with pytest.raises(PlumblineError, match="b refused"), inverted_caches(drives.means(), ["a", "b"], True, 60):
        raise AssertionError("not reached")
    assert drives.state("a") and "a=0" in drives.log()


def test_what_cannot_be_put_back_is_said(tmp_path):
    drives = Drives(tmp_path, {"a": True, "b": True})
    with pytest.raises(PlumblineError) as failed, inverted_caches(drives.means(), ["a", "b"], True, 60):
        drives.refuse("a", True)
    assert failed.value.msg == "not everything could be put back: a refused; wanted what was before, the write cache on; see to that by hand"
    assert drives.state("b"), "one drive's fault must not keep the other"


def test_a_drive_that_comes_round_is_put_back(tmp_path):
    drives = Drives(tmp_path, {"a": True})
    with inverted_caches(drives.means(), ["a"], True, 60):
        drives.refuse("a", True, 3)  # of five times that it is told
    assert drives.state("a")


def test_a_drive_that_did_not_stay_switched_is_no_measurement(tmp_path):
    drives = Drives(tmp_path, {"a": True})
    told = pytest.raises(PlumblineError, match="a: its write cache was switched by somebody else, or by a reset")
    with told, inverted_caches(drives.means(), ["a"], True, 60):
        drives.put("a", True)
    assert drives.state("a")


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within %s s" % seconds
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("group", [False, True], ids=["alone", "group"])
def test_put_back_where_the_module_is_killed(tmp_path, number, group):
    drives = Drives(tmp_path, {"a": True, "b": True})
    module = os.fork()
    if module == 0:
        os.setsid()
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)  # nohup(1) has SIGHUP ignored
        with inverted_caches(drives.means(), ["a", "b"], True, 60):
            (tmp_path / "within").touch()
            time.sleep(60)
        os._exit(0)
    wait_for((tmp_path / "within").exists)
    assert not drives.state("a") and not drives.state("b")
    (os.killpg if group else os.kill)(module, number)
    os.waitpid(module, 0)
    wait_for(lambda: drives.log()[-1] == "b=1")
    assert drives.state("a") and drives.state("b")


def test_put_back_where_the_second_process_is_killed(tmp_path):
    drives = Drives(tmp_path, {"a": True})
    with inverted_caches(drives.means(), ["a"], True, 60):
        children = [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == os.getpid()]
        for child in children:
            os.kill(child, signal.SIGKILL)
        assert children
    assert drives.state("a") and drives.log()[-1] == "a=1"


def _parent(name):
    try:
        with open("/proc/%s/stat" % name) as handle:
            return int(handle.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_put_back_when_its_time_is_up(tmp_path):
    drives = Drives(tmp_path, {"a": True})
    with pytest.raises(PlumblineError, match="switched by somebody else"), inverted_caches(drives.means(), ["a"], True, 1.5):
        wait_for(lambda: drives.state("a"))
    assert drives.state("a")


def test_the_second_process_keeps_no_output_open(tmp_path):
    """The controller waits for the end of the module's output; a module that was killed has to have ended."""
    drives = Drives(tmp_path, {"a": True})
    read, write = os.pipe()
    module = os.fork()
    if module == 0:
        os.dup2(write, 1)
        drives.set = lambda leg, on: wait_for((tmp_path / "read").exists) if on and (tmp_path / "within").exists() else Drives.set(drives, leg, on)
        with inverted_caches(drives.means(), ["a"], True, 60):
            (tmp_path / "within").touch()
            time.sleep(60)
        os._exit(0)
    os.close(write)
    wait_for((tmp_path / "within").exists)
    os.kill(module, signal.SIGKILL)
    os.waitpid(module, 0)
    assert select.select([read], [], [], 20)[0] and os.read(read, 1) == b"", "the second process, which is not done yet, holds it open"
    (tmp_path / "read").touch()
    os.close(read)
    drives.put("a", True)
