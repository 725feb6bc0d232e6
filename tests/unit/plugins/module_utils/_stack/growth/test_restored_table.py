# SPDX-License-Identifier: GPL-3.0-or-later
"""The first copy of a table, written again from its backup: only where that is as it was planned, kept before, and read back."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import FstabEntry, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth import change_partitions, run_growth
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host, spec


class Damaged:
    """A host whose first disk has such a table, and what is done to it."""

    def __init__(self, monkeypatch):
        self.host = Host()
        self.host.pair()
        stacks = spec(self.host)
        self.host.build(stacks)
        self.devno = next(node.devno for node in self.host.seen.nodes.values() if node.kind == "disk")
        self.sound = self.host.seen.tables[self.devno]
        self.host.seen.tables[self.devno] = Table("gpt", fault="the checksum of the GPT's entries is wrong", spare=self.sound.entries)
        (self.step,) = make_plan(stacks, self.host.seen).steps
        self.step = {"lv": "", "size_bytes": 0, **self.step}
        self.done, self.after, self.code = [], self.sound, 0
        monkeypatch.setattr(run_growth, "observe", lambda run, ask: self.host.seen)
        monkeypatch.setattr(change_partitions, "_opened", lambda path, check: contextlib.nullcontext(3))
        monkeypatch.setattr(change_partitions, "check_held", lambda fd, node: None)
        monkeypatch.setattr(change_partitions, "read_table", lambda node: self.after)
        monkeypatch.setattr(change_partitions.keep_backups, "keep_device", lambda run, seen, devno: self.done.append("kept " + devno) or ["/backup"])

    def run(self, argv):
        self.done.append(" ".join(argv))
        return self.code, "", "no space" if self.code else ""

    def take(self, check=False):
        return run_growth.take_step(self.run, self.step, check)


@pytest.fixture
def damaged(monkeypatch):
    return Damaged(monkeypatch)


def test_it_is_kept_and_then_written(damaged):
    assert damaged.take() == ["/backup"]
    assert damaged.done[:2] == ["kept " + damaged.devno, "/usr/sbin/sfdisk --relocate gpt-bak-std /dev/nvme0n1"]


@pytest.mark.parametrize("late", ["volume", "mount"])
def test_it_waits_for_lvm_and_systemd(damaged, monkeypatch, late):
    """They activate and mount what came back, each in its own time."""
    seen, waits = damaged.host.seen, []
    volume = seen.lv_node("pgdata", "data")
    mounts, lvm = list(seen.mounts), seen.lvm
    seen.fstab = [FstabEntry("UUID=" + seen.filesystems[volume.devno].uuid, "/data01", "ext4", ("noatime",), 0, 2)]
    if late == "mount":
        seen.mounts = [mount for mount in mounts if mount.devno != volume.devno]
    else:
        seen.lvm = lvm._replace(lvs=tuple(lv._replace(active=False) for lv in lvm.lvs))

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            seen.mounts, seen.lvm = mounts, lvm

    monkeypatch.setattr(run_growth.time, "sleep", sleep)
    damaged.take()
    assert len(waits) == 3
    seen.mounts = []
    damaged.take()
    assert len(waits) > 10, "it is planned anew then, whatever became of it"


def test_check_mode_writes_nothing(damaged):
    assert damaged.take(check=True) == [] and damaged.done == []


@pytest.mark.parametrize("change", [{"start": 2 << 20}, {"size": 1 << 30}, {"guid": "6A2F2C1E-8A3B-4C5D-9E6F-0A1B2C3D4E5F"}, {"name": "plumbline:other:0"}])
def test_another_backup_than_was_planned_is_refused(damaged, change):
    entry = damaged.sound.entries[0]._replace(**change)
    damaged.host.seen.tables[damaged.devno] = damaged.host.seen.tables[damaged.devno]._replace(spare=(entry,))
    with pytest.raises(PlumblineError, match="planned"):
        damaged.take()
    assert damaged.done == []


@pytest.mark.parametrize("table", [None, Table("gpt", fault="still"), Table("gpt", "GUID", ())])
def test_what_is_read_back_is_the_backup(damaged, table):
    damaged.after = table
    with pytest.raises(PlumblineError, match="its table is not as its backup was"):
        damaged.take()


def test_sfdisk_that_fails_is_told(damaged):
    damaged.code = 1
    with pytest.raises(PlumblineError, match="its first table could not be written: no space"):
        damaged.take()
