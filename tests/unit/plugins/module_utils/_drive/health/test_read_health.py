# SPDX-License-Identifier: GPL-3.0-or-later
"""The drives of a host as they are asked: a smartctl that replays, hangs, dies and prints half, and drives that are seen twice."""

from __future__ import annotations

import json
import os
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._core import run_bound_tools
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import ask_health, read_controllers, read_health
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, identified
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans, read_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.report import Known, health_result
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.smartctl import Member
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.smart import document, record

REPLAY = """#!/bin/sh
# Replays answers/NAME_OF_THE_LAST_WORD, or what -d says of it; does what it is told to instead.
for word; do last=$word; [ "$before" = -d ] && type=$word; before=$word; done
[ "$1" = --scan ] && last=scan
at=$(dirname "$0")/answers/$(echo "$last${type:+-$type}" | tr /, __)
case $(cat "$at.do" 2>/dev/null) in
hang) exec sleep 100 ;;
crash) kill -SEGV $$ ;;
half) head -c 200 "$at"; exit 0 ;;
esac
[ -e "$at" ] || exit 2
cat "$at"; exit $(cat "$at.code" 2>/dev/null || echo 0)
"""
SOUND = record("samsung-sm843t-240gb-sata")


def node(name, serial="", wwid="", transport="sata", kind="disk"):
    return Node(name, name, kind, 1 << 30, Limits(512, 512), identity=Identity(wwid, serial, "M", transport=transport))


@pytest.fixture
def host(tmp_path, monkeypatch):
    """(what reads the drives, what puts an answer in place)."""
    (tmp_path / "answers").mkdir()
    (tmp_path / "smartctl").write_text(REPLAY)
    os.chmod(tmp_path / "smartctl", 0o755)
    drivers = {}
    monkeypatch.setattr(read_controllers, "has_scsi_driver", lambda driver: driver in drivers)
    monkeypatch.setattr(read_controllers, "raid_controllers", lambda driver: drivers.get(driver, []))
    monkeypatch.setattr(read_health, "_RAID_HOMES", (str(tmp_path),))
    monkeypatch.setattr(ask_drive, "controllers", lambda one: ["/dev/" + one.name.split("n1")[0].split("n2")[0]])

    def put(name, found=None, do="", code=0):
        at = str(tmp_path / "answers" / name)
        for path, text in ((at, found if isinstance(found, str) else json.dumps(found)), (at + ".do", do), (at + ".code", str(code))):
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text)

    def read(nodes=(), members=(), everything=True, seconds=20, tool="smartctl", why_not=""):
        def find(name):
            return str(tmp_path / name) if name == tool else None

        return read_drives(DriveMeans(find, seconds, why_not), nodes, members, everything)

    read.put, read.drivers, read.home = put, drivers, tmp_path
    return read


def answer(serial="S1X", **more):
    return dict(document(SOUND, **more), serial_number=serial)


def test_a_drive_is_read_with_what_the_kernel_knows(host):
    host.put("_dev_sda", answer())
    ((source, found),) = host([node("sda", "S1X", "naa.5002538e403e1157")])
    assert (source.device, source.names, found.read, found.wwn, found.used) == ("/dev/sda", ("sda",), True, "naa.5002538e403e1157", 9)


@pytest.mark.parametrize(
    ("do", "words"), [("hang", "did not end within 5 s"), ("crash", "ended by signal 11"), ("half", "no complete JSON"), ("", "read nothing")]
)
def test_one_that_fails_costs_its_timeout_and_one_finding(host, do, words):
    """All that hang together cost one timeout, and the other drives are judged."""
    for name in ("sda", "sdb", "sdc"):
        host.put("_dev_" + name, answer("S" + name), do)
    for name in ("sda", "sdb", "sdc") if not do else ():
        host.put("_dev_" + name, answer("S" + name), code=2)
    host.put("_dev_sdd", answer("Ssdd"))
    began = time.monotonic()
    # On a busy host a drive that is well takes more than a second to answer.
    drives = host([node(name) for name in ("sda", "sdb", "sdc", "sdd")], seconds=5 if do == "hang" else 20)
    assert time.monotonic() - began < 15  # three that cost a timeout each would take that long
    found = health_result(drives, Known(1_800_000_000))["drives"]
    assert [(one["name"], one["failing"], one["read"]) for one in found] == [
        ("sda", None, False),
        ("sdb", None, False),
        ("sdc", None, False),
        ("sdd", False, True),
    ]
    assert all([one["rule"] for one in drive["findings"]] == ["unread"] and words in drive["findings"][0]["found"] for drive in found[:3])
    assert found[3]["findings"] == []


def test_output_of_any_size_and_of_any_bytes():
    big = ["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"]
    bytes_ = ["sh", "-c", "printf '\\377\\200'; exit 4"]
    (code, out, _err), other, late = run_bound_tools.run_together([big, bytes_, ["sleep", "50"]], 10)
    assert (code, len(out)) == (0, 300000) and other == (4, "\ufffd\ufffd", "") and late is None


def test_members_of_megaraid_come_once(host):
    """A JBOD drive is a disk of the kernel as well; a volume is no drive."""
    host.drivers["megaraid_sas"] = ["/dev/sg0"]
    scan = [{"name": "/dev/bus/0", "type": "megaraid,%d" % number} for number in (1, 2)] + [{"name": "/dev/sda", "type": "scsi"}]
    host.put("scan", {"devices": scan})
    wwn = {"naa": 5, "oui": 0x002538, "id": 0x1157}
    host.put("_dev_bus_0-megaraid_1", answer("S1X", wwn=wwn))
    host.put("_dev_bus_0-megaraid_2", answer("S2X"))
    host.put("_dev_sdb", answer("S1X", wwn=wwn))
    volume = {"smartctl": {"exit_status": 4}, "device": {"protocol": "SCSI"}, "smart_support": {"available": False}, "scsi_model_name": "DELL PERC"}
    host.put("_dev_sda", volume, code=4)
    found = health_result(host([node("sda"), node("sdb")]), Known(1_800_000_000))
    assert [(one["name"], one["failing"], one["disks"], one["member"]) for one in found["drives"]] == [
        ("/dev/bus/0 megaraid,2", False, [], "megaraid,2"),
        ("sda", None, ["sda"], ""),
        ("sdb", False, ["sdb"], "megaraid,1"),
    ]
    assert [finding["level"] for finding in found["findings"]] == ["info"]


def test_the_controllers_tool_is_asked_for_what_smartctl_cannot(host):
    host.drivers["megaraid_sas"] = ["/dev/sg0"]
    host.put("scan", {"devices": [{"name": "/dev/bus/0", "type": "megaraid,1"}]})
    host.put("_dev_bus_0-megaraid_1", answer(), code=2)
    state = {"S.M.A.R.T alert flagged by drive": "No", "Media Error Count": 0}
    name = "Drive /c0/e1/s1"
    detail = {name + " State": state, name + " Device attributes": {"SN": "S9XY", "Model Number": "N"}}
    data = {name: [{"Intf": "NVMe"}], name + " - Detailed Information": detail}
    text = json.dumps({"Controllers": [{"Response Data": data}]})
    (host.home / "storcli64").write_text("#!/bin/sh\ncat <<'X'\n%s\nX\n" % text)
    os.chmod(host.home / "storcli64", 0o755)
    found = health_result(host([]), Known(1_800_000_000))["drives"]
    assert [(one["name"], one["failing"], one["source"], one["protocol"]) for one in found] == [
        ("/c0/e1/s1", False, "storcli", "NVMe"),
        ("/dev/bus/0 megaraid,1", None, "smartctl", "ATA"),
    ]


def test_members_of_hpsa_are_counted_until_none_answers(host):
    host.drivers["hpsa"] = ["/dev/sg3"]
    for number in (0, 2, 17):
        host.put("_dev_sg3-cciss_%d" % number, answer("S%dX" % number))
    host.put("_dev_sg3-cciss_3", "", "crash")
    found = host([])
    assert [(source.member, one.read) for source, one in found] == [("cciss,0", True), ("cciss,2", True), ("cciss,17", True), ("cciss,3", False)]


def test_members_that_the_operator_names(host):
    host.put("_dev_sg2-areca_3_1", answer("S5X"))
    ((source, found),) = host([], [Member("/dev/sg2", "areca,3/1")], everything=False)
    assert (source.device, source.member, found.serial) == ("/dev/sg2", "areca,3/1", "S5X")


def test_namespaces_are_one_drive(host):
    host.put("_dev_nvme0", answer())
    nodes = [node("nvme0n1", "S1X", "eui.1122334455667788", "nvme"), node("nvme0n2", "S1X", "eui.1122334455667789", "nvme")]
    ((source, found),) = host(nodes)
    assert (source.names, found.wwn, found.key) == (("nvme0n1", "nvme0n2"), "", "serial:SAMSUNG MZ7WD240HAFV-00003/S1X")


def test_one_serial_on_two_disks_stays_two(host):
    for name in ("sda", "sdb"):
        host.put("_dev_" + name, answer("TWICE1"))
    drives = host([node("sda"), node("sdb")])
    found = health_result(drives, Known(1_800_000_000))["drives"]
    assert [(one["key"], [finding["rule"] for finding in one["findings"]]) for one in found] == [("", ["identity"])] * 2
    assert identified(drives) == {} and len(identified(drives[:1])) == 1


def test_a_smartctl_that_cannot_be_run(host):
    (host.home / "smartctl").write_bytes(b"\x7fELF")
    ((_source, found),) = host([node("sda", "S1X")])
    assert found.fault.startswith("smartctl read nothing: ") and "smartctl could not be run: " in found.fault and found.serial == "S1X"


def test_without_smartctl(host, monkeypatch):
    monkeypatch.setattr(ask_health, "read_nvme_health", lambda path: Health(source="nvme", protocol="NVMe", critical_warning=0, serial="N1X"))
    monkeypatch.setattr(read_controllers, "read_emmc", lambda name: {"name": "E", "cid": "c1d2e3", "life_time": "0x01 0x01", "pre_eol_info": "0x01"})
    nodes = [node("sda", "S1X"), node("nvme0n1", transport="nvme"), node("mmcblk0", transport="scsi")]
    found = {source.device: one for source, one in host(nodes, tool="none")}
    assert found["/dev/sda"].fault == "smartctl is not on this host; install the package smartmontools" and found["/dev/sda"].serial == "S1X"
    assert (found["/dev/nvme0"].source, found["/dev/nvme0"].read) == ("nvme", True)
    assert (found["/dev/mmcblk0"].source, found["/dev/mmcblk0"].life) == ("sysfs", (1, 1))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (OSError(6, "No such device"), "it went away"),
        (OSError(1, "Not permitted"), "could not be asked: Not permitted"),
        (ask_drive.Unanswered("it refused"), "it refused"),
    ],
)
def test_a_controller_that_does_not_answer(host, monkeypatch, fault, words):
    def refuse(path):
        raise fault

    monkeypatch.setattr(ask_health, "read_nvme_health", refuse)
    ((_source, found),) = host([node("nvme0n1", transport="nvme")], tool="none")
    assert words in found.fault


def test_while_a_run_has_the_host_nothing_is_asked(host, monkeypatch):
    monkeypatch.setattr(ask_health, "read_nvme_health", None)
    monkeypatch.setattr(read_health, "run_together", None)
    found = host([node("sda", "S1X"), node("nvme0n1", transport="nvme")], [Member("/dev/sg2", "areca,3/1")], why_not="another run has this host")
    assert [one.fault for _source, one in found] == ["another run has this host"] * 3
