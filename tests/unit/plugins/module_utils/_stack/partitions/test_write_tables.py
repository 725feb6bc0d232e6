# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import fcntl
import os

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_blank_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof, Limits, Node, Observation, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import write_tables
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, spec


@pytest.fixture(autouse=True)
def held(monkeypatch):
    """Whatever is open is the device that was looked at: these tests have no devices."""
    monkeypatch.setattr(write_tables, "check_held", lambda fd, node: None)


def request(**more):
    one = {
        "device": "/dev/nvme0n1",
        "identity": "wwid:eui.1",
        "test_identity": "",
        "serial": "S",
        "model": "M",
        "diskseq": 0,
        "size_bytes": 10 * GIB,
        "logical_bytes": 512,
        "start_bytes": MIB,
        "length_bytes": 9 * GIB,
        "end_bytes": 9 * GIB + MIB,
        "type_guid": "E6D6D379-F507-44C2-A23C-238F2A3DF928",
        "guid": "AAAAAAAA-0000-4000-8000-000000000001",
        "name": "plumbline:pgdata:0",
        "written": False,
        "unfinished": False,
        "full_proof": False,
        "probe_starts": [],
        "discard": True,
        "erase": "",
        "removes": [],
    }
    one.update(more)
    return one


@pytest.mark.parametrize(
    "logical, start, length, head, line",
    [
        (512, MIB, 9 * GIB, "first-lba: 34", "start=2048, size=18874368"),
        (4096, MIB, 9 * GIB, "first-lba: 6", "start=256, size=2359296"),
        (512, MIB + 3584, 9 * GIB, "first-lba: 34", "start=2055, size=18874368"),
        (512, 65536 * 33, GIB, "first-lba: 34", "start=4224, size=2097152"),
    ],
)
def test_table_script(logical, start, length, head, line):
    rest = 'type=E6D6D379-F507-44C2-A23C-238F2A3DF928, uuid=AAAAAAAA-0000-4000-8000-000000000001, name="plumbline:pgdata:0"'
    script = write_tables.table_script(request(logical_bytes=logical, start_bytes=start, length_bytes=length))
    assert script == "label: gpt\nlabel-id: B1639C2B-47E6-54F3-8684-E1481F36DF9F\nunit: sectors\n%s\n%s, %s\n" % (head, line, rest)


@pytest.mark.parametrize(
    "change, line",
    [
        ({"start_bytes": 0}, "/dev/nvme0n1: start_bytes of 0 is no positive multiple of the 512-byte block"),
        ({"start_bytes": -MIB}, "/dev/nvme0n1: start_bytes of -1048576 is no positive multiple of the 512-byte block"),
        ({"start_bytes": MIB + 1}, "/dev/nvme0n1: start_bytes of 1048577 is no positive multiple of the 512-byte block"),
        ({"logical_bytes": 4096, "start_bytes": MIB + 512}, "/dev/nvme0n1: start_bytes of 1049088 is no positive multiple of the 4096-byte block"),
        ({"length_bytes": 0}, "/dev/nvme0n1: length_bytes of 0 is no positive multiple of the 512-byte block"),
        ({"length_bytes": 1000}, "/dev/nvme0n1: length_bytes of 1000 is no positive multiple of the 512-byte block"),
        ({"size_bytes": 0}, "/dev/nvme0n1: size_bytes of 0 is no positive multiple of the 512-byte block"),
        ({"logical_bytes": 1}, "/dev/nvme0n1: start_bytes of 1048576 is no positive multiple of the 1-byte block"),
        ({"start_bytes": MIB - 512}, "/dev/nvme0n1: bytes 1048064 to 9664724480 do not lie between the first and the last MiB of 10737418240 bytes"),
        ({"length_bytes": 10 * GIB - MIB}, "/dev/nvme0n1: bytes 1048576 to 10737418240 do not lie between the first and the last MiB of 10737418240 bytes"),
        (
            {"length_bytes": 10 * GIB - 2 * MIB + 512},
            "/dev/nvme0n1: bytes 1048576 to 10736370176 do not lie between the first and the last MiB of 10737418240 bytes",
        ),
        ({"name": "data"}, "/dev/nvme0n1: partition name 'data' does not fit; wanted plumbline:STACK:NUMBER"),
        (
            {"name": 'plumbline:pgdata:0", bootable'},
            "/dev/nvme0n1: partition name 'plumbline:pgdata:0\", bootable' does not fit; wanted plumbline:STACK:NUMBER",
        ),
        ({"name": "plumbline:pgdata:0\nstart=1"}, "/dev/nvme0n1: partition name 'plumbline:pgdata:0; start=1' does not fit; wanted plumbline:STACK:NUMBER"),
    ],
)
def test_check_request(change, line):
    with pytest.raises(PlumblineError) as caught:
        write_tables.check_devices([request(), request(**change)])
    assert caught.value.msg == line


@pytest.mark.parametrize("change", [{}, {"length_bytes": 10 * GIB - 2 * MIB}, {"logical_bytes": 4096}])
def test_requests_that_fit(change):
    write_tables.check_devices([request(**change)])


def test_every_plan_is_a_request_that_fits():
    for size in (64 * MIB, GIB, 100 * GIB + 512, 15 << 40):
        for reserve in ("0%", "10%", "90%" if size > GIB else "5%", "16MiB"):
            host = Host()
            host.pair(2, size=size)
            plan = make_plan(spec(host, reserve=reserve), host.seen, "partition")
            write_tables.check_devices(plan.steps[0]["devices"])


# --- the proof at the write ------------------------------------------------------------------------


def proven(monkeypatch, change=lambda host, devices: None, proofs=None):
    """What _prove() says when the host looks as *change* left it since the plan."""
    host = Host()
    host.pair()
    devices = make_plan(spec(host), host.seen).steps[0]["devices"]
    change(host, devices)
    monkeypatch.setattr(write_tables, "observe", lambda _run, ask: host.seen)
    monkeypatch.setattr(read_blank_proof, "prove_all", lambda jobs: proofs or [BlankProof(1, 1) for _job in jobs])
    return write_tables._prove(lambda argv, text: (0, "", ""), devices, [-1] * len(devices))


def test_prove_unchanged(monkeypatch):
    assert [device["name"] for device in proven(monkeypatch).todo] == ["plumbline:pgdata:0", "plumbline:pgdata:1"]


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda h, d: h.seen.paths.clear(), "/dev/nvme0n1: the device is gone"),
        (
            lambda h, d: h.edit("259:0", size=99 * GIB),
            "/dev/nvme0n1: the size in bytes changed since the plan: 106300440576, was 107374182400 [identity]; run again",
        ),
        (lambda h, d: h.edit("259:0", diskseq=7), "/dev/nvme0n1: the diskseq changed since the plan: 7, was 0 [identity]; run again"),
        (lambda h, d: h.limits("259:0", logical=4096), "/dev/nvme0n1: the logical block changed since the plan: 4096, was 512 [identity]; run again"),
        (
            lambda h, d: h.edit("259:0", identity=h.seen.nodes["259:0"].identity._replace(wwid="eui.99")),
            "/dev/nvme0n1: the identity changed since the plan: wwid:eui.99, was wwid:eui.000000000000a000 [identity]; run again",
        ),
        (
            lambda h, d: h.edit("259:0", identity=h.seen.nodes["259:0"].identity._replace(serial="S9")),
            "/dev/nvme0n1: the serial changed since the plan: S9, was SER0000 [identity]; run again",
        ),
        (
            lambda h, d: h.edit("259:0", identity=h.seen.nodes["259:0"].identity._replace(model="Flash 1")),
            "/dev/nvme0n1: the model changed since the plan: Flash 1, was Flash 9000 [identity]; run again",
        ),
        (lambda h, d: h.disk(wwid="eui.000000000000a000"), "/dev/nvme0n1: it shares its identity eui.000000000000a000 with nvme2n1 [identity]"),
        (lambda h, d: h.seen.openers.update({"259:0": ["dd (9)"]}), "/dev/nvme0n1: nvme0n1 is open in dd (9) [open]"),
        (lambda h, d: h.seen.backings.update({"259:0": ["loop device loop0"]}), "/dev/nvme0n1: nvme0n1 backs loop device loop0 [backing]"),
        (
            lambda h, d: h.seen.marks.update({"259:0": [Signature("oracleasm", "database", 32)]}),
            "/dev/nvme0n1: it carries the mark of oracleasm database at byte 32 [signature]",
        ),
        (lambda h, d: h.mount("259:0", "/x"), "/dev/nvme0n1: nvme0n1 is mounted on /x [mounted]; unmount it if it may be used"),
        (
            lambda h, d: h.part("259:0", MIB, name="other"),
            "/dev/nvme0n1: it carries a GPT partition table; partitions: 1 'other' [table]; if nothing on it is needed, free the device",
        ),
        (lambda h, d: h._do_partition({"devices": d[:1]}), "/dev/nvme0n1: it carries a GPT partition table; partitions: 1 'plumbline:pgdata:0' [table]"),
    ],
)
def test_prove_sees_what_changed(monkeypatch, change, reason):
    with pytest.raises(PlumblineError) as caught:
        proven(monkeypatch, change)
    assert caught.value.msg == "refused at the write: a device is not as it was planned"
    assert any(line.startswith(reason) for line in caught.value.reasons), caught.value.reasons


def test_prove_sees_data(monkeypatch):
    proofs = [
        BlankProof(1, 1, ("unrecognised data that is not zero, first at byte 0 (0 B from the start)",)),
        BlankProof(1, 1, unread=("byte 0 could not be read: x",)),
    ]
    with pytest.raises(PlumblineError) as caught:
        proven(monkeypatch, proofs=proofs)
    assert caught.value.reasons == [
        "/dev/nvme0n1: unrecognised data that is not zero, first at byte 0 (0 B from the start) [data]",
        "/dev/nvme1n1: byte 0 could not be read: x [unreadable]",
    ]


def test_a_table_that_is_there_already_is_not_written_again(monkeypatch):
    def change(host, devices):
        host._do_partition({"devices": devices[:1]})
        devices[0]["written"] = True

    assert [device["name"] for device in proven(monkeypatch, change).todo] == ["plumbline:pgdata:1"]


def test_a_table_of_ours_on_a_disk_that_is_there_twice(monkeypatch):
    """What was written already is looked at no closer, but it has to be the one disk."""

    def change(host, devices):
        host._do_partition({"devices": devices[:1]})
        devices[0]["written"] = True
        host.disk(wwid="eui.000000000000a000", serial="OTHER")

    with pytest.raises(PlumblineError) as caught:
        proven(monkeypatch, change)
    assert "it shares its identity" in caught.value.reasons[0]


def test_a_table_that_should_be_there_and_is_another(monkeypatch):
    def change(host, devices):
        host.part("259:0", MIB, name="plumbline:pgdata:0", guid="BBBBBBBB-0000-4000-8000-000000000001")
        devices[0]["written"] = True

    with pytest.raises(PlumblineError):
        proven(monkeypatch, change)


def test_nothing_is_written_before_all_are_proven(monkeypatch):
    """One device of two is not as planned: no table is written on either."""
    calls = []

    def refuse(*_args):
        raise PlumblineError("refused", ["x"])

    monkeypatch.setattr(write_tables.block_device, "open_alone", lambda path, check: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(write_tables, "_prove", refuse)
    monkeypatch.setattr(write_tables, "_write", lambda *args: calls.append("write"))
    monkeypatch.setattr(write_tables.block_device, "discard", lambda *args: calls.append("discard"))
    with pytest.raises(PlumblineError, match="refused"):
        write_tables.partition_all(lambda argv, text: calls.append(argv) or (0, "", ""), [request(), request(name="plumbline:pgdata:1")], False)
    assert calls == []


@pytest.mark.parametrize("todo", [[0, 1], [1], []])
def test_backups_of_all_come_before_the_first_write_and_the_table_last(monkeypatch, todo):
    host = Host()
    host.pair()
    devices = make_plan(spec(host), host.seen).steps[0]["devices"]
    calls = []
    monkeypatch.setattr(write_tables.block_device, "open_alone", lambda path, check: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(write_tables, "_prove", lambda *_args: write_tables.Proven([devices[number] for number in todo], host.seen))
    numbers = {host.seen.paths[device["device"]]: device["name"][-1] for device in devices}
    monkeypatch.setattr(write_tables.write_discard, "discard_span", lambda node, fd, span: calls.append("discard " + numbers[node.devno]) or span.length)
    monkeypatch.setattr(write_tables, "_write", lambda run, device, _node, fd: calls.append("write " + device["name"][-1]))
    monkeypatch.setattr(write_tables, "_settle", lambda run: None)
    monkeypatch.setattr(write_tables, "_read_back", lambda run, device: {"name": device["name"]})
    monkeypatch.setattr(write_tables.block_device, "reread_table", lambda fd: None)
    monkeypatch.setattr(write_tables.keep_backups, "keep_device", lambda run, seen, devno, erasing: calls.append("keep " + devno) or ["/kept/" + devno])
    shown, backups = write_tables.partition_all(lambda argv, text: (0, "", ""), devices, False)
    assert [one["discarded_bytes"] for one in shown] == [100 * GIB - 2 * MIB if number in todo else 0 for number in range(2)]
    keeps = ["keep " + host.seen.paths[devices[number]["device"]] for number in todo]
    assert calls == keeps + ["%s %d" % (word, number) for number in todo for word in ("discard", "write")]
    assert len(backups) == len(todo)


def test_a_backup_that_cannot_be_kept_stops_the_write(monkeypatch):
    host = Host()
    host.pair()
    devices = make_plan(spec(host), host.seen).steps[0]["devices"]

    def full(_run, _seen, _devno, _erasing):
        raise PlumblineError("no space")

    monkeypatch.setattr(write_tables.block_device, "open_alone", lambda path, check: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(write_tables, "_prove", lambda *_args: write_tables.Proven(devices, host.seen))
    monkeypatch.setattr(write_tables.keep_backups, "keep_device", full)
    monkeypatch.setattr(write_tables.write_discard, "discard_span", lambda *args: pytest.fail("discarded"))
    monkeypatch.setattr(write_tables, "_write", lambda *args: pytest.fail("written"))
    with pytest.raises(PlumblineError, match="no space"):
        write_tables.partition_all(lambda argv, text: (0, "", ""), devices, False)


def test_check_mode_proves_and_writes_nothing(monkeypatch):
    calls = []
    monkeypatch.setattr(write_tables.block_device, "open_alone", lambda path, check: calls.append(check) or os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(write_tables, "_prove", lambda *_args: write_tables.Proven([request()], Observation()))
    monkeypatch.setattr(write_tables, "_write", lambda *args: calls.append("write"))
    monkeypatch.setattr(write_tables.keep_backups, "keep_device", lambda *args: calls.append("backup"))
    assert write_tables.partition_all(lambda argv, text: (0, "", ""), [request()], True) == ([], []) and calls == [True]


def test_write_is_one_call_of_sfdisk(tmp_path):
    calls = []
    fd = os.open(str(tmp_path / "x"), os.O_RDWR | os.O_CREAT)
    node = Node("259:3", "nvme3n1", "disk", 10 * GIB, Limits(512, 512, 0, 0, 0))
    write_tables._write(lambda argv, text: calls.append((argv, text)) or (0, "", ""), request(device="/dev/disk/by-id/a"), node, fd)
    ((argv, text),) = calls
    # The kernel's name of what is held, not a link.
    assert argv == ["sfdisk", "--no-reread", "--no-tell-kernel", "--wipe", "never", "--wipe-partitions", "never", "--quiet", "/dev/nvme3n1"]
    assert text == write_tables.table_script(request(device="/dev/disk/by-id/a"))
    with pytest.raises(PlumblineError) as caught:
        write_tables._write(lambda argv, text: (1, "", "sfdisk: cannot open\n"), request(), node, fd)
    assert caught.value.msg == "sfdisk could not write the table of /dev/nvme0n1: sfdisk: cannot open"
    os.close(fd)


def test_a_path_that_leads_to_another_disk_by_now(monkeypatch):
    """What is open is one disk, and what was looked at is another: refused for all devices before the first write."""
    told = "device nvme0n1 is another device than the one that was looked at; nothing was written to it; names have moved: run again"

    def other(fd, node):
        raise PlumblineError(told)

    monkeypatch.setattr(write_tables, "check_held", other)
    with pytest.raises(PlumblineError, match="refused at the write") as caught:
        proven(monkeypatch)
    assert caught.value.reasons == [told, told]


def test_open_alone_waits_for_a_lock_and_gives_up(tmp_path, monkeypatch):
    path = str(tmp_path / "disk")
    with open(path, "wb") as handle:
        handle.truncate(MIB)
    holder = os.open(path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    monkeypatch.setattr(write_tables.block_device, "ALONE_SECONDS", 0.2)
    with pytest.raises(PlumblineError, match=r"it cannot be opened alone \[busy\]: "):
        write_tables.block_device.open_alone(path, True)
    os.close(holder)
    os.close(write_tables.block_device.open_alone(path, False))


@pytest.mark.parametrize("change, expected", [({}, 2), ({"discard": False}, 0), ({"unfinished": True}, 0)])
def test_what_is_discarded(monkeypatch, change, expected):
    """Not where it is not asked for, nor where a part of the table is: that device was discarded before its table was begun."""
    host = Host()
    host.pair()
    devices = [dict(device, **change) for device in make_plan(spec(host), host.seen).steps[0]["devices"]]
    calls = []
    monkeypatch.setattr(write_tables.block_device, "open_alone", lambda path, check: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(write_tables, "_prove", lambda *_args: write_tables.Proven(devices, host.seen))
    monkeypatch.setattr(write_tables.block_device, "discard", lambda fd, offset, length: calls.append((offset, length)))
    monkeypatch.setattr(write_tables, "_write", lambda run, device, _node, fd: None)
    monkeypatch.setattr(write_tables, "_settle", lambda run: None)
    monkeypatch.setattr(write_tables, "_read_back", lambda run, device: {})
    monkeypatch.setattr(write_tables.block_device, "reread_table", lambda fd: None)
    monkeypatch.setattr(write_tables.keep_backups, "keep_device", lambda *args: [])
    write_tables.partition_all(lambda argv, text: (0, "", ""), devices, False)
    assert len(calls) == 2 * expected and sum(length for _offset, length in calls) == expected * (100 * GIB - 2 * MIB)


def test_a_discard_that_fails_leaves_the_device_without_a_table(monkeypatch):
    host = Host()
    host.pair()
    devices = make_plan(spec(host), host.seen).steps[0]["devices"]
    monkeypatch.setattr(write_tables.block_device, "open_alone", lambda path, check: os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(write_tables, "_prove", lambda *_args: write_tables.Proven(devices, host.seen))
    monkeypatch.setattr(write_tables.keep_backups, "keep_device", lambda *args: [])
    monkeypatch.setattr(write_tables, "_write", lambda *args: pytest.fail("written"))

    def discard(_fd, offset, _length):
        if offset:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(write_tables.block_device, "discard", discard)
    with pytest.raises(PlumblineError) as caught:
        write_tables.partition_all(lambda argv, text: (0, "", ""), devices, False)
    assert caught.value.msg.startswith("/dev/nvme0n1: the discard failed at byte 1048576, after 0 of 107372085248 bytes: ") and not caught.value.reasons
