# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices that may be compared, what is sampled of them, the order of blocks, and the module from its options to its result."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import shutil
from collections import Counter

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core import files
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import raw_device
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance import kept_cells, run
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import ARGUMENTS, Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.raw_device import RawDevice
from ansible_collections.plumbline.ssd.plugins.modules import acceptance
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import sparse_file

MIB = 1 << 20
NAMES = {"8:0": "sda", "8:1": "sda1", "8:16": "sdb", "253:0": "dm-0", "8:32": "sdc", "8:48": "sdd", "259:0": "nvme0n1", "259:1": "nvme0n2", "8:64": "sde"}


def node(devno, kind="disk", size=64 * MIB, logical=512, **more):
    return Node(devno, NAMES[devno], kind, size, Limits(logical, logical, logical, 0, 0), **more)


# sda and sdb are so large that two places drawn on them are never the same.
# sda with a partition and a volume on it; sdb, and sdc as another path to it; sdd too small; sde with blocks of 16 KiB; two namespaces of one SSD.
NODES = {
    one.devno: one
    for one in (
        node("8:0", size=64 << 30, identity=Identity(wwid="naa.5000000000000a01", serial="SA1", model="A", firmware="F1")),
        node("8:1", "part", parent="8:0", segments=(Segment(0, 64 * MIB, "part", 0, (("8:0", MIB),)),)),
        node("253:0", "lvm", slaves=("8:1",), title="vg-lv"),
        node("8:16", size=64 << 30, identity=Identity(wwid="naa.5000000000000b02", serial="SB2", model="B")),
        node("8:32", identity=Identity(wwid="naa.5000000000000b02", serial="SB2", model="B")),
        node("8:48", size=15 * MIB, identity=Identity(serial="SD4", model="D")),
        node("8:64", logical=16384, identity=Identity(serial="SE5", model="E")),
        node("259:0", identity=Identity(serial="N9X1", model="N", controller="nvme0", transport="nvme", wwid="eui.0000000000000n01")),
        node("259:1", identity=Identity(serial="N9X1", model="N", controller="nvme0", transport="nvme", wwid="eui.0000000000000n02")),
    )
}
HOST = Observation(nodes=NODES)


@pytest.fixture
def host(monkeypatch):
    """Devices by their names below /dev, without any of them there."""

    def resolve(nodes, names):
        found = [devno for devno, name in NAMES.items() if "/dev/" + name in names]
        if not found:
            raise PlumblineError("%s is no block device with a size; name a logical volume, a partition or a disk" % names[0])
        return found

    monkeypatch.setattr(run, "resolve", resolve)
    monkeypatch.setattr(run.read_sysfs, "read_nodes", lambda: NODES)
    monkeypatch.setattr(run, "find_fio", lambda: "/usr/bin/fio")
    monkeypatch.setattr(run, "read_drive_links", lambda node: ())


@pytest.mark.parametrize(
    "device, incumbent, words",
    [
        ("sda", "", ""),
        ("sda1", "", ""),
        ("dm-0", "", ""),
        ("sda", "sdb", ""),
        ("dm-0", "sdb", ""),
        ("nvme0n1", "sdb", ""),
        ("sda", "sda", "lies on the same drive as /dev/sda"),
        ("sda", "sda1", "lies on the same drive"),
        ("sda1", "sda", "lies on the same drive"),
        ("dm-0", "sda", "lies on the same drive as /dev/dm-0 (/dev/sda)"),
        ("sda1", "dm-0", "lies on the same drive"),
        ("sdb", "sdc", "lies on the same drive"),
        ("nvme0n1", "nvme0n2", "lies on the same drive"),
        ("sdd", "", "/dev/sdd has 15 MiB; wanted at least 16 MiB"),
        ("sda", "sdd", "/dev/sdd has 15 MiB"),
        ("sde", "", "logical blocks of 16384 bytes, and cannot be read in the size of seq_read_4k_qd32"),
        ("null", "", "no block device"),
        ("sda", "null", "no block device"),
    ],
)
def test_the_devices(host, device, incumbent, words):
    asked = (HOST, "/dev/" + device, incumbent and "/dev/" + incumbent, Options())
    if not words:
        assert [one.name for one in run.find_drives(*asked)] == [name for name in (device, incumbent) if name]
        return
    with pytest.raises(PlumblineError) as caught:
        run.find_drives(*asked)
    assert words in caught.value.msg and "\n" not in caught.value.msg


@pytest.mark.parametrize("blank", [0, 64, 128, 192, 256])
@pytest.mark.parametrize("fill", [b"\0", b"\xff"])
def test_the_share_that_is_blank(tmp_path, blank, fill):
    """A device of 256 pieces of 64 KiB, of which the first so many are blank."""
    held = [(0, fill * (blank << 16)), (blank << 16, os.urandom((256 - blank) << 16))]
    path = sparse_file(tmp_path, 16 * MIB, *[(at, data) for at, data in held if data])
    assert run.blank_share(path, Span(0, 16 * MIB), random.Random(1)) == blank / 256


def test_a_device_that_cannot_be_read(tmp_path):
    with pytest.raises(PlumblineError, match="could not be read"):
        run.blank_share(sparse_file(tmp_path, MIB), Span(0, 16 * MIB), random.Random(1))


@pytest.mark.parametrize("start", [0, MIB])
@pytest.mark.parametrize("size", [16 * MIB, 16 * MIB + 512, 1 << 40])
def test_samples_are_drawn_from_all_of_the_device(monkeypatch, size, start):
    seen = []
    monkeypatch.setattr(block_device, "read_pieces", lambda path, windows: seen.extend(windows) or [(at, b"x") for at, _length in windows])
    assert run.blank_share("/dev/sda", Span(start, size), random.Random(3)) == 0
    seen = [(at - start, length) for at, length in seen]
    assert len({at for at, _length in seen}) == 256 and all(at % 4096 == 0 and at + length <= size for at, length in seen)
    assert all(number * (size // 256) - 4096 <= at < (number + 1) * (size // 256) for number, (at, _length) in enumerate(seen))


# --- a whole measurement, with drives in memory ------------------------------------------------------------------------------------------

JOB = {"error": 0, "usr_cpu": 5.0, "sys_cpu": 5.0}
NO_REQUESTS = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "total_ios": 0, "runtime": 0, "clat_ns": {"bins": {}}}


@pytest.fixture
def drives(host, monkeypatch, tmp_path):
    """fio in memory: IOPS by path. Keeps the calls, and what is kept on the host in a directory of the test."""
    rates, calls = {}, []

    def answer(argv, ramp, seconds, what):
        words = dict(word[2:].split("=", 1) for word in argv[1:] if "=" in word)
        path, block = words["filename"], int(words["bs"])
        calls.append((what.split(" ")[0], path, int(words["offset"])))
        iops = rates[path] * (1 + random.Random(len(calls)).random() / 100)
        done = {
            "io_bytes": int(iops * block * seconds),
            "bw_bytes": int(iops * block),
            "iops": iops,
            "total_ios": round(iops * seconds),
            "runtime": round(seconds * 1000),
            "clat_ns": {"bins": {"100000": 5000}},
        }
        sides = {side: done if side in words["rw"] or words["rw"] == "randrw" else NO_REQUESTS for side in ("read", "write")}
        return json.dumps({"jobs": [{**JOB, **sides}]}), 0.1

    monkeypatch.setattr(kept_cells, "DIRECTORY", str(tmp_path / "plumbline" / "acceptance"))
    monkeypatch.setattr(files, "HOME", str(tmp_path / "plumbline"))
    monkeypatch.setattr(run, "run_fio", answer)
    monkeypatch.setattr(run, "blank_share", lambda path, span, dice: 0.0)
    monkeypatch.setattr(acceptance, "need_root", lambda: None)
    return rates, calls


@pytest.fixture
def call(monkeypatch):
    """(check mode, options) → the module's result."""

    def run_module(check=False, **options):
        result = {}

        class Module:
            get_bin_path = staticmethod(shutil.which)
            params = {"incumbent": "", **{name: spec.get("default") for name, spec in ARGUMENTS.items()}, **options}
            check_mode = check
            exit_json = fail_json = staticmethod(lambda **found: result.update(found))

        monkeypatch.setattr(acceptance, "AnsibleModule", lambda **spec: Module)
        with pytest.raises(SystemExit):
            acceptance.main()
        return result

    return run_module


def test_pairs_are_read_in_turns_at_the_same_places(drives, call):
    rates, calls = drives
    rates.update({"/dev/sda": 1000, "/dev/sdb": 2000})
    found = call(device="/dev/sda", incumbent="/dev/sdb", blocks=4)
    assert (found["verdict"], found["changed"], found["measure"], len(calls)) == ("fail", False, "acceptance", 8 * 4 * 4)
    orders, cells = Counter(), []
    for at in range(0, len(calls), 4):
        (name,) = {cell for cell, _path, _offset in calls[at : at + 4]}
        order = "".join("A" if path == "/dev/sda" else "B" for _cell, path, _offset in calls[at : at + 4])
        orders[order] += 1
        cells.append(name)
        places = [[offset for _cell, path, offset in calls[at : at + 4] if path == own] for own in ("/dev/sda", "/dev/sdb")]
        assert places[0] == places[1] and (len(set(places[0])) == 2 if name.startswith("seq") else places[0] == [0, 0])
    assert set(orders) == {"ABBA", "BAAB"}
    rounds = [cells[at : at + 8] for at in range(0, 32, 8)]
    assert all(len(set(one)) == 8 for one in rounds) and len({tuple(one) for one in rounds}) > 1
    assert all(cell["verdict"] == "fail" and 0.49 < cell["ratio"] < 0.51 and cell["p50_us"] == 100 for cell in found["cells"])
    assert found["drive"]["serial"] == "SA1" and found["incumbent"]["serial"] == "SB2" and len(found["report"]) > 10


def test_a_result_is_a_record(drives, call):
    """What was returned for one drive is what another is compared with, also by way of JSON."""
    drives[0].update({"/dev/sda": 1000, "/dev/sdb": 2000})
    former = call(device="/dev/sda")
    assert (former["verdict"], former["reasons"]) == (
        "inconclusive",
        ["there is nothing to compare the drive with; give an incumbent, a record, floors or a workload"],
    )
    found = call(device="/dev/sdb", record=json.loads(json.dumps(former)))
    assert found["verdict"] == "pass" and found["reasons"] == [] and {cell["against"] for cell in found["cells"]} == {"record of A SA1"}
    assert call(device="/dev/sda", record=found)["verdict"] == "fail"
    assert call(device="/dev/sda", record=former)["verdict"] == "pass"


def test_a_drive_that_holds_nothing(drives, call, monkeypatch):
    drives[0]["/dev/sda"] = 1000
    monkeypatch.setattr(run, "blank_share", lambda path, span, dice: 1.0)
    found = call(device="/dev/sda", floors={"rand_read_4k_qd1": 10})
    assert (found["verdict"], found["reasons"]) == (
        "inconclusive",
        ["rand_read_4k_qd1: the drive holds nothing; reads of trimmed blocks say nothing of the flash"],
    )
    assert found["drive"]["blank"] == 1.0


def test_a_workload_has_headroom(drives, call):
    drives[0]["/dev/sda"] = 10000
    found = call(device="/dev/sda", workload={"read_iops": 1600.0, "kib": 5.0}, required=["seq_read_1m_qd1"], floors={"seq_read_1m_qd1": 1})
    assert found["verdict"] == "pass" and (found["workload"]["cell"], found["workload"]["floor"]) == ("rand_read_4k_qd64", 2000)
    assert 5 <= found["workload"]["headroom"] <= 5.05 and any("headroom" in line for line in found["report"])
    assert [cell["name"] for cell in found["cells"] if cell["required"]] == ["seq_read_1m_qd1", "rand_read_4k_qd64"]


def test_check_mode_reads_nothing(drives, call, monkeypatch):
    monkeypatch.setattr(run, "blank_share", lambda *asked: pytest.fail("it was read"))
    found = call(check=True, device="/dev/sda", incumbent="/dev/sdb")
    assert drives[1] == [] and (found["verdict"], found["cells"], found["read_bytes"]) == ("inconclusive", [], 0)
    assert "/dev/sda and /dev/sdb would be measured for about 400 s" in found["report"][0]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"device": "/dev/sda", "cells": ["x"]}, "there is no cell 'x'"),
        ({"device": "/dev/null0"}, "no block device"),
        ({"device": "/dev/sda", "incumbent": "/dev/sda1"}, "same drive"),
    ],
)
def test_errors_of_the_module(drives, call, options, words):
    found = call(**options)
    assert words in found["msg"] and "\n" not in found["msg"] and "verdict" not in found


def test_without_fio(drives, call, monkeypatch):
    def missing():
        raise PlumblineError("fio is not on this host; nothing was measured: install the package fio")

    monkeypatch.setattr(run, "find_fio", missing)
    assert call(check=True, device="/dev/sda")["msg"].startswith("fio is not on this host")


# --- a measurement that is cut off and taken up ------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here: nothing catches it."""


class Machine:
    """fio in memory, a clock, and a drive that may be written to; the process is killed in the call of fio that is told."""

    def __init__(self, monkeypatch, drives):
        self.rates, self.calls = drives
        self.rates.update({"/dev/sda": 1000, "/dev/sdb": 2000})
        self.fills, self.blank, self.time, self.kill_at = 0, True, 1e9, 0
        self.answer = run.run_fio
        monkeypatch.setattr(run, "run_fio", self.fio)
        monkeypatch.setattr(run.time, "time", lambda: self.time)
        monkeypatch.setattr(run, "blank_share", lambda path, span, dice: float(self.blank))
        monkeypatch.setattr(run.written_drive, "hold_drive", self.hold)
        monkeypatch.setattr(raw_device, "check_held", lambda fd, node: None)
        monkeypatch.setattr(run.written_drive, "empty", lambda device: setattr(self, "blank", True))
        monkeypatch.setattr(run.written_drive, "fill", self.fill)

    def fio(self, argv, *more):
        if len(self.calls) + 1 == self.kill_at:
            raise Killed
        return self.answer(argv, *more)

    @contextlib.contextmanager
    def hold(self, _run, node, _serial):
        yield RawDevice(node, -1, {})
        self.blank = True

    def fill(self, _fio, device):
        self.fills, self.blank = self.fills + 1, False
        return device.node.size


@pytest.fixture
def machine(monkeypatch, drives):
    return Machine(monkeypatch, drives)


WRITES = {
    "device": "/dev/sda",
    "writes": True,
    "serial": "SA1",
    "accept_wear": True,
    "blocks": 3,
    "cells": ["fresh_rand_write_4k_qd64", "fresh_seq_write_1m_qd1", "rand_read_4k_qd16", "rand_mixed_8k_qd64"],
}
READS = {"device": "/dev/sda", "blocks": 3, "cells": ["rand_read_4k_qd16", "rand_read_4k_qd1"], "floors": {"rand_read_4k_qd1": 1}}
BESIDE = {**READS, "incumbent": "/dev/sdb"}
# Options, and how many calls of fio a round of a cell is.
MEASURED = {"writes": (WRITES, 1), "reads": (READS, 1), "beside": (BESIDE, 4)}


def shape(found):
    """The keys of a result, and the same of each cell with the number of its rounds."""
    return sorted(found), [(sorted(cell), cell["name"], cell["state"], len(cell["rates"]), len(cell["incumbent_rates"])) for cell in found["cells"]]


def cut(machine, call, options, at):
    """Cut a measurement off in the call of fio of this number, from here; how many calls were done."""
    before = len(machine.calls)
    machine.kill_at = before + at
    with pytest.raises(Killed):
        call(**options)
    machine.kill_at = 0
    return len(machine.calls) - before


def files_of(tmp_path):
    return sorted((tmp_path / "plumbline" / "acceptance").glob("*"))


@pytest.mark.parametrize("name", MEASURED)
def test_it_goes_on_with_the_first_round_that_is_missing(machine, call, tmp_path, name):
    """Killed in every call of fio in turn: the rounds that were done are not measured again, and the result has the shape of one that was not cut off."""
    options, turns = MEASURED[name]
    whole = call(**options)
    calls = len(machine.calls)
    assert calls == 3 * len(options["cells"]) * turns and whole["resumed"] == 0 and files_of(tmp_path) == []
    for at in range(1, calls + 1):
        fills, before = machine.fills, len(machine.calls)
        done = cut(machine, call, options, at)
        assert done == at - 1
        kept = done // turns
        found = call(**options)
        assert found["resumed"] == kept and len(machine.calls) - before == done + calls - kept * turns, at
        assert Counter(name for name, _path, _at in machine.calls[before:]) - Counter(dict.fromkeys(options["cells"], 3 * turns)) == (
            Counter() if done == kept * turns else Counter({machine.calls[before + done - 1][0]: done - kept * turns})
        )
        assert shape(found) == shape(whole) and found["verdict"] == whole["verdict"], at
        assert any(line.strip().startswith("taken up again: %d of" % kept) for line in found["report"]) is bool(kept)
        # What was written and read counts as a whole, whoever did it.
        assert found["read_bytes"] == pytest.approx(whole["read_bytes"], rel=0.02)
        assert found["written_bytes"] == pytest.approx(whole["written_bytes"], rel=0.02) and machine.fills - fills == (1 if name == "writes" else 0)
        assert files_of(tmp_path) == []


def test_the_records_are_root_s_alone(machine, call, tmp_path):
    cut(machine, call, READS, 4)
    (path,) = files_of(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700 and path.parent.parent.stat().st_mode & 0o777 == 0o700
    assert len(path.read_text().splitlines()) == 4


OTHERS = {
    "blocks": {"blocks": 4},
    "block_seconds": {"block_seconds": 3.0},
    "cells": {"cells": ["rand_read_4k_qd1", "rand_read_4k_qd4"]},
    "incumbent": {"incumbent": "/dev/sdb"},
    "a day later": {},
    "a clock that went back": {},
    "a line that is no JSON": {},
    "a rate of 0": {},
    "no lines": {},
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_begins_anew(machine, call, tmp_path, other):
    cut(machine, call, READS, 6)
    (path,) = files_of(tmp_path)
    machine.time += {"a day later": 86401, "a clock that went back": -86401}.get(other, 86399)
    lines = path.read_text().splitlines(keepends=True)
    damage = {"a line that is no JSON": [*lines[:2], "{]\n"], "a rate of 0": [line.replace('"rate": 1', '"rate": -1') for line in lines], "no lines": []}
    path.write_text("".join(damage.get(other, lines)))
    before = len(machine.calls)
    found = call(**{**READS, **OTHERS[other]})
    options = {**READS, **OTHERS[other]}
    assert found["resumed"] == 0 and len(machine.calls) - before == options["blocks"] * 2 * (4 if "incumbent" in options else 1)


@pytest.mark.parametrize("same", [{"floors": {"rand_read_4k_qd16": 5}}, {"required": ["rand_read_4k_qd1"]}, {"max_cpu": 0.9}, {"floors": {}}])
def test_what_only_judges_may_change(machine, call, same):
    cut(machine, call, READS, 6)
    assert call(**{**READS, **same})["resumed"] == 5


def test_another_drive_has_records_of_its_own(machine, call, tmp_path):
    cut(machine, call, READS, 6)
    assert call(**{**READS, "device": "/dev/sdb"})["resumed"] == 0 and len(files_of(tmp_path)) == 1
    assert call(**READS)["resumed"] == 5 and files_of(tmp_path) == []


def test_half_a_line_is_left_out(machine, call, tmp_path):
    cut(machine, call, READS, 6)
    (path,) = files_of(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    assert call(**READS)["resumed"] == 4


def test_a_drive_that_no_longer_holds_the_fill_begins_anew(machine, call):
    """As after somebody discarded it, or part of it."""
    fresh = 2 * 3
    assert cut(machine, call, WRITES, fresh + 3) == fresh + 2
    machine.blank, before = True, len(machine.calls)
    found = call(**WRITES)
    assert found["resumed"] == 0 and len(machine.calls) - before == 12 and machine.fills == 2


def test_fresh_cells_are_kept_whatever_is_on_the_drive(machine, call):
    """Each of their blocks begins with a discard."""
    cut(machine, call, WRITES, 4)
    machine.blank = True
    assert call(**WRITES)["resumed"] == 3 and machine.fills == 1


def test_another_process_has_the_drive(machine, call, tmp_path):
    cut(machine, call, READS, 3)
    (path,) = files_of(tmp_path)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        found = call(**READS)
    assert "another acceptance of this drive is under way" in found["msg"] and "\n" not in found["msg"]


def test_a_drive_without_an_identity_is_measured_and_not_kept(machine, call, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "known_as", lambda seen, node: "")
    cut(machine, call, READS, 4)
    assert files_of(tmp_path) == [] and call(**READS)["resumed"] == 0


@pytest.mark.parametrize("device, known", [("8:0", "SA1"), ("8:1", "sda1"), ("253:0", "vg-lv"), ("8:48", "SD4")])
def test_by_what_a_device_is_known(device, known):
    """The disk's identity; a part of it by its name as well, so that it is never taken for another part."""
    names = [run.known_as(HOST, one) for one in NODES.values()]
    key = run.known_as(HOST, NODES[device])
    assert (known in key or "naa." in key) and names.count(key) == 1 and ("sd" not in key or device == "8:1")


def test_records_that_cannot_be_kept_end_no_measurement(machine, call, monkeypatch):
    def full(*_what):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_cells.LineFile, "append", full)
    found = call(**READS)
    assert [len(cell["rates"]) for cell in found["cells"]] == [3, 3] and any("could not be kept: No space left" in line for line in found["report"])
