# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that becomes larger: what is refused, and that QEMU, the lab's memory and the guest are told in this order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from plumblab import command_line, guest, machine, plugging, resizing, storage
from plumblab import state as states
from plumblab.disks import Disk, parse
from plumblab.errors import LabError
from plumblab.paths import Paths
from plumblab.state import State

MIB = 1 << 20


def disk(**more: Any) -> Disk:
    return parse({"name": "sd0", "bus": "scsi", "size": "64MiB", "serial": "S0", "physical_block_size": 4096, **more})


@pytest.mark.parametrize(
    ("declared", "size", "message"),
    [
        ({"bus": "nvme", "physical_block_size": None}, 128 * MIB, "sd0 stays at 67108864 B: QEMU lets nobody resize .* NVMe .*; grow a plain scsi disk"),
        ({"bus": "sata"}, 128 * MIB, "nothing tells the guest .* SATA port; grow a plain scsi disk"),
        ({"simulated": {}}, 128 * MIB, "a simulated SSD has its size from its start; grow a plain scsi disk"),
        ({"bus": "nvme", "physical_block_size": None, "simulated": {}}, 128 * MIB, "a simulated SSD"),
        ({}, 64 * MIB - 4096, "sd0 has 67108864 B, asked are 67104768 B: .* would be lost.* ask for more than 67108864 B"),
        ({}, 64 * MIB + 512, "in whole 4 KiB blocks"),
    ],
)
def test_refused(declared: dict[str, Any], size: int, message: str) -> None:
    with pytest.raises(LabError, match=message):
        resizing.larger(disk(**declared), size)


def test_nothing_else_of_the_declaration_changes() -> None:
    assert resizing.larger(disk(), 96 * MIB) == disk(size="96MiB")
    assert resizing.larger(disk(), 64 * MIB) == disk()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Paths, list[Any]]:
    """A lab with two disks whose QEMU and guest note what they are told."""
    paths, told = Paths(tmp_path), []
    disks = [disk(), disk(name="sd1", serial="S1")]
    for one in disks:
        storage.prepare(paths, one, fresh=True)
    state = State(attached=[one.to_json() for one in disks], slots={"sd0": 0, "sd1": 1}, bases={"sd0": {"host_writes": 7}})
    states.save(paths, state)

    class FakeQmp:
        def __init__(self, _paths: Paths) -> None:
            pass

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_what: object) -> None:
            pass

        def command(self, name: str, arguments: dict[str, Any]) -> None:
            told.append((name, arguments))
            os.truncate(storage.file_of(paths, disk()), arguments["size"])

    def script(_paths: Paths, _text: str, *arguments: str) -> str:
        told.append((*arguments, (states.load(paths) or State()).attached[0]["size"]))
        return ""

    monkeypatch.setattr(resizing, "Qmp", FakeQmp)
    monkeypatch.setattr(machine, "require_up", states.load)
    monkeypatch.setattr(guest, "script", script)
    monkeypatch.setattr(plugging, "show", lambda _paths, shown: {one.name: one.size_bytes for one in shown})
    return paths, told


def test_qemu_then_the_memory_then_the_guest(lab: tuple[Paths, list[Any]]) -> None:
    paths, told = lab
    assert resizing.resize(paths, "sd0", 96 * MIB) == {"sd0": 96 * MIB}
    assert told == [("block_resize", {"node-name": "node-sd0", "size": 96 * MIB}), ("S0", str(96 * MIB), 96 * MIB)]


def test_what_the_next_boot_and_the_next_plugging_find(lab: tuple[Paths, list[Any]]) -> None:
    paths, _told = lab
    storage.file_of(paths, disk()).write_bytes(b"kept" + bytes(64 * MIB - 4))
    resizing.resize(paths, "sd0", 96 * MIB)
    state = states.load(paths)
    assert state is not None
    assert [one.size_bytes for one in state.disks()] == [96 * MIB, 64 * MIB] and state.slots == {"sd0": 0, "sd1": 1}
    assert state.bases == {"sd0": {"host_writes": 7}}
    file, _socket = storage.prepare(paths, state.disks()[0], fresh=False)
    assert file is not None and file.stat().st_size == 96 * MIB and file.read_bytes()[:4] == b"kept"
    state.unplug(state.disks()[0])
    assert [one.size_bytes for one in state.stored_disks()] == [96 * MIB]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sd0", 32 * MIB), "would be lost"),
        (("sd2", 96 * MIB), "no disk sd2 is attached; attached are: sd0, sd1"),
    ],
)
def test_a_refusal_changes_nothing(lab: tuple[Paths, list[Any]], words: tuple[str, int], message: str) -> None:
    paths, told = lab
    before = states.load(paths)
    with pytest.raises(LabError, match=message):
        resizing.resize(paths, *words)
    assert (told, states.load(paths)) == ([], before)


@pytest.mark.parametrize(("words", "code"), [(["resize", "sd0", "96MiB"], 0), (["resize", "sd0", "96MB"], 1), (["resize", "sd0", "1MiB"], 1)])
def test_the_verb(lab: tuple[Paths, list[Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int) -> None:
    paths, _told = lab
    monkeypatch.setenv("PLUMBLINE_CACHE", str(paths.cache))
    monkeypatch.setattr("sys.argv", ["lab.py", *words])
    assert command_line.main() == code
    assert capsys.readouterr().err.startswith("lab.py resize: ") is bool(code)
