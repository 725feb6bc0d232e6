# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import temporary_state

ON = WriteCache(present=True, enabled=True)
TOOLS = {"sdparm": "/usr/bin/sdparm", "hdparm": "/usr/sbin/hdparm"}


def node(devno, name, **more):
    return Node(devno=devno, name=name, size=1 << 30, limits=Limits(), write_cache="write back", **more)


@pytest.fixture
def host(monkeypatch):
    """Two SCSI disks below one volume; what they are told and what is run."""
    nodes = [
        node("8:0", "sda", kind="disk", identity=Identity(serial="ONE", transport="sas")),
        node("8:16", "sdb", kind="disk", identity=Identity(serial="TWO", transport="sata", ata=True)),
        node("253:0", "dm-0", kind="lvm", slaves=("8:0", "8:16")),
    ]
    found = {"8:0": ON, "8:16": ON, "told": [], "run": [], "timer": False, "code": 0}
    found["nodes"] = nodes
    monkeypatch.setattr(temporary_state.read_sysfs, "read_nodes", lambda: {one.devno: one for one in found["nodes"]})
    monkeypatch.setattr(temporary_state.read_sysfs, "read_mounts", lambda process: [])
    monkeypatch.setattr(temporary_state.ask_drive, "read_cache", lambda one: found[one.devno])
    monkeypatch.setattr(temporary_state.change_drives, "set_drive", lambda run, tools, drive, state, save: found["told"].append((drive.node.name, state, save)))
    monkeypatch.setattr(temporary_state.change_drives, "settle_belief", lambda drive, cache: found["told"].append((drive.node.name, drive.verdict.set)))
    monkeypatch.setattr(temporary_state.change_persist, "has_timer", lambda: found["timer"])
    return found


def drives(host, tools=None):
    def run(argv):
        host["run"].append(list(argv))
        return host["code"], "", "no such unit" if host["code"] else ""

    return temporary_state.drives_of("253:0", run, TOOLS if tools is None else tools)


def test_all_drives_below_are_asked_and_none_is_told(host):
    found = drives(host)
    assert (found.legs, found.was, found.protected) == (["8:0", "8:16"], True, None)
    assert host["told"] == host["run"] == []


@pytest.mark.parametrize("one, other, protected", [(True, True, True), (True, None, None), (None, None, None), (True, False, None)])
def test_protection_is_what_all_drives_say(host, one, other, protected):
    host["8:0"], host["8:16"] = ON._replace(protected=one), ON._replace(protected=other)
    assert drives(host).protected is protected


def test_a_tool_that_is_not_there_is_named(host):
    with pytest.raises(PlumblineError, match="cache_states: hdparm is not on this host, and sets the write cache; install the package hdparm"):
        drives(host, {"sdparm": "/usr/bin/sdparm"})


def test_a_drive_is_told_for_now_and_the_kernel_follows(host):
    means = drives(host).means
    means.set("8:16", False)
    assert host["told"] == [("sdb", "off", False), ("sdb", True)]
    assert means.name("8:16") == "device sdb (TWO)" and means.read("8:0") == ON


def test_a_drive_that_has_another_name_by_now_is_found_by_its_identity(host):
    """A reset during the measurement: the old name is another drive's, and that one is told nothing."""
    host["nodes"] = [one._replace(identity=one.identity._replace(wwid="naa." + one.name)) for one in host["nodes"]]
    means = drives(host).means
    first, second, volume = host["nodes"]
    host["nodes"] = [first._replace(name="sdb", devno="8:16"), second._replace(name="sda", devno="8:0"), volume]
    means.set("8:0", False)
    assert host["told"] == [("sdb", "off", False), ("sdb", True)]


def test_the_timer_of_an_earlier_release_would_put_the_caches_back(host):
    host["timer"] = True
    with pytest.raises(PlumblineError, match=r"cache_states: plumbline-write-cache\.timer, .* run the role write_cache first"):
        drives(host)
    assert host["told"] == host["run"] == []
