# SPDX-License-Identifier: GPL-3.0-or-later
"""LVM's filters are read where a volume group is still to be made, from what lvmconfig prints, and never on a host that stands."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_lvm_filters as reader
from ansible_collections.plumbline.ssd.plugins.module_utils._block import tool_output
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host, spec

# As LVM 2.03.16 prints them: a list, or one string where there is one; quotes and backslashes with a backslash before them.
SETTINGS = r"""devices {
    dir="/dev"
    filter=["a|^/dev/sd[a-z]\\d|","r#\"x\",#","r{.*}"]
    scan=["/dev"]
    global_filter="a/.*/"
    use_devicesfile=%d
    devicesfile="system.devices"
    pv_min_size=2048
}
""".replace("    ", "\t")
FILTERS = {"filter": (r"a|^/dev/sd[a-z]\d|", 'r#"x",#', "r{.*}"), "global_filter": ("a/.*/",)}


def read(host, answer, vgs=("pgdata",)):
    asked = []

    def run(argv):
        asked.append(argv)
        return answer

    reader.read_lvm_filters(run, host.seen, vgs, [node.devno for node in host.seen.nodes.values() if node.kind == "disk"])
    return asked


def test_the_settings_of_lvmconfig():
    found = tool_output.parse_lvm_settings(SETTINGS % 1)
    assert {key: found[key] for key in FILTERS} == FILTERS
    assert (found["use_devicesfile"], found["devicesfile"], found["pv_min_size"]) == (("1",), ("system.devices",), ("2048",))


@pytest.mark.parametrize("text", ["", "filter", "=", 'filter="', 'filter=["a', "filter=[]", "\x00"])
def test_what_is_cut_off_is_no_fault(text):
    assert tool_output.parse_lvm_settings(text).get("filter", ()) in ((), ("[]",))


def test_the_filters_and_what_they_may_call_a_disk(host, monkeypatch):
    links = {"/dev/disk/by-id/": {"nvme-a": "nvme0n1", "nvme-a-part1": "nvme0n1p1"}, "/dev/disk/by-path/": {"pci-1": "nvme1n1"}}
    monkeypatch.setattr(reader.read_sysfs, "read_links", lambda base: links.get(base, {}))
    asked = read(host, (0, SETTINGS % 0, ""))
    assert asked == [["/usr/sbin/lvm", "lvmconfig", "--typeconfig", "full", "devices"]] and host.seen.lvm_filters == FILTERS
    assert host.seen.disk_links == {"/dev/disk/by-id/nvme-a": "259:0", "/dev/disk/by-path/pci-1": "259:16"}


@pytest.mark.parametrize("there", [True, False])
def test_with_a_devices_file_lvm_passes_the_filters_over(host, monkeypatch, tmp_path, there):
    """Not before it is there: then vgcreate goes by them."""
    monkeypatch.setattr(reader, "_DEVICES_FILES", str(tmp_path) + "/")
    if there:
        (tmp_path / "system.devices").touch()
    read(host, (0, SETTINGS % 1, ""))
    assert host.seen.lvm_filters == ({} if there else FILTERS)


def test_a_devices_file_that_is_not_used_changes_nothing(host, monkeypatch, tmp_path):
    monkeypatch.setattr(reader, "_DEVICES_FILES", str(tmp_path) + "/")
    (tmp_path / "system.devices").touch()
    read(host, (0, SETTINGS % 0, ""))
    assert host.seen.lvm_filters == FILTERS


def test_a_host_that_stands_is_not_asked(host):
    host.build(spec(host))
    assert read(host, (0, SETTINGS % 0, "")) == [] and host.seen.lvm_filters == {}


def test_a_further_device_is_asked_about(host):
    """A row of devices that is to join a VG which stands."""
    host.build(spec(host))
    host.disk()
    assert len(read(host, (0, SETTINGS % 0, ""))) == 1


@pytest.mark.parametrize("vgs", [(), ("pgdata", "other")])
def test_who_is_asked(host, vgs):
    """Of no VG: nobody. Of two, one of which is there: LVM."""
    host.build(spec(host))
    assert len(read(host, (0, SETTINGS % 0, ""), vgs)) == len(vgs) // 2


@pytest.mark.parametrize("answer", [(5, SETTINGS % 0, "it fails"), (0, "no settings", "")])
def test_an_lvm_that_does_not_say(host, answer):
    read(host, answer)
    assert host.seen.lvm_filters == {}


def test_a_host_without_lvm(host):
    del host.seen.tools["lvm"]
    assert read(host, (0, SETTINGS % 0, "")) == []


@pytest.fixture
def host():
    one = Host()
    one.pair()
    return one
