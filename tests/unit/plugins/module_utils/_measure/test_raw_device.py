# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive that is held is the one that was looked at: a path that leads elsewhere meanwhile ends in a refusal, and not in a write."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import held_device
from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import OpenDevice
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import raw_device
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import drive_load
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import RandomLoad
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host

PATH = "/dev/disk/by-id/some-drive"
SIZE = 1 << 30


class Lying:
    """Two blank drives of one serial. The path leads to *looked_at* where the host is read, and to *opened* where it is opened."""

    def __init__(self, monkeypatch):
        self.host = Host()
        self.devnos = [self.host.disk(serial="SAME", model="Model %d" % number, size=SIZE, diskseq=11 + number) for number in range(2)]
        self.looked_at = self.opened = self.devnos[0]
        self.diskseq = None
        monkeypatch.setattr(raw_device.block_device, "open_alone", lambda path, read_only: os.open("/dev/null", os.O_RDONLY))
        monkeypatch.setattr(raw_device, "observe", self.observe)
        monkeypatch.setattr(raw_device.read_blank_proof, "prove_all", lambda jobs: [BlankProof(SIZE, 0)])
        monkeypatch.setattr(held_device, "device_of", self.device_of)

    def observe(self, _run, _ask):
        self.host.seen.paths[PATH] = self.looked_at
        return self.host.seen

    def device_of(self, _fd):
        node = self.node(self.opened)
        return OpenDevice(node.devno, node.diskseq if self.diskseq is None else self.diskseq, node.size)

    def node(self, devno):
        return self.host.seen.nodes[devno]

    def hold(self, key=""):
        return raw_device.hold_device(lambda argv: (0, "", ""), PATH, "SAME", key or self.node(self.devnos[0]).identity.key, b"m" * 16, False)


@pytest.fixture
def lying(monkeypatch):
    return Lying(monkeypatch)


def test_a_drive_that_is_held_and_looked_at_is_given(lying):
    with lying.hold() as device:
        assert device.node == lying.node(lying.devnos[0])
        place = device.place(1 << 20, 1 << 20)
        assert place.file == "/proc/%d/fd/%d" % (os.getpid(), device.fd) and place.path == device.node.path


@pytest.mark.parametrize("diskseq", [None, 0], ids=["diskseq", "an-older-kernel"])
def test_a_path_that_leads_elsewhere_between_the_open_and_the_look(lying, diskseq):
    """What is looked at is blank and of the right identity; what is open is another drive."""
    lying.opened, lying.diskseq = lying.devnos[1], diskseq
    words = r"another device than the one that was looked at \(device number 259:16, was 259:0.*nothing was written"
    with pytest.raises(PlumblineError, match=words), lying.hold():
        pytest.fail("it was held")


def test_another_disk_below_the_same_number(lying):
    lying.diskseq = 99
    with pytest.raises(PlumblineError, match=r"\(diskseq 99, was 11\); nothing was written"), lying.hold():
        pytest.fail("it was held")


def test_another_drive_of_the_same_serial(lying):
    """All disks of some controllers have one serial: the identity tells them apart."""
    lying.looked_at = lying.opened = lying.devnos[1]
    with pytest.raises(PlumblineError, match="nothing was written") as refused, lying.hold():
        pytest.fail("it was held")
    assert "it is another drive now: wwid" in refused.value.reasons[0] and "name the drive by a path that stays" in refused.value.reasons[0]


def test_a_device_that_is_gone_when_it_is_looked_at(lying, monkeypatch):
    monkeypatch.setattr(raw_device, "observe", lambda _run, _ask: Host().seen)
    with pytest.raises(PlumblineError, match="nothing was written"), lying.hold():
        pytest.fail("it was held")


class Loads:
    """fio, played: what it was given."""

    def __init__(self, monkeypatch):
        self.files = []
        self.discarded = []
        monkeypatch.setattr(drive_load, "find_fio", lambda: "fio")
        monkeypatch.setattr(drive_load, "run_fio", self.run)
        monkeypatch.setattr(drive_load, "read_round", lambda _text, temperature: temperature)
        monkeypatch.setattr(drive_load, "ask_drive", lambda node: ({}, node.name))
        monkeypatch.setattr(drive_load.write_discard, "discard_span", lambda node, fd, span: self.discarded.append((node.devno, span.length)))
        monkeypatch.setattr(drive_load, "read_account", lambda name: SimpleNamespace(written=0))
        monkeypatch.setattr(drive_load, "_COUNTED", 0)

    def run(self, argv, *_more):
        self.files += [word.split("=")[1] for word in argv if word.startswith("--filename=")]
        return "", 0.0


def test_every_round_writes_to_what_is_held(lying, monkeypatch):
    """And to no name: of the earlier look, or of now."""
    loads = Loads(monkeypatch)
    drive = drive_load.FioDrive(lying.node(lying.devnos[0]), RandomLoad(4096, 32, 0), b"m" * 16)
    with lying.hold() as device:
        drive.hold(device)
        drive.discard()
        drive.fill(0, 1 << 20)
        drive.load(1 << 20)
        drive.draw(1 << 20, 1 << 20, False, lambda one: None)
        assert loads.files == ["/proc/%d/fd/%d" % (os.getpid(), device.fd)] * 3 and loads.discarded == [(lying.devnos[0], SIZE)]
        lying.diskseq = 12  # a virtual disk that got another content below its name
        for step in (drive.discard, lambda: drive.fill(0, 1 << 20), lambda: drive.load(1 << 20), lambda: drive.draw(1 << 20, 1 << 20, True, print)):
            with pytest.raises(PlumblineError, match="another device than the one that was looked at"):
                step()
        assert len(loads.files) == 3 and len(loads.discarded) == 1


def test_a_load_whose_drive_was_looked_at_under_another_name(lying, monkeypatch):
    """The look came before the hold, and names have moved between: the load follows what is held, and refuses what is another drive."""
    Loads(monkeypatch)
    renamed = lying.node(lying.devnos[0])._replace(name="nvme7n1", devno="259:77")
    drive = drive_load.FioDrive(renamed, RandomLoad(4096, 32, 0), b"m" * 16)
    with lying.hold() as device:
        drive.hold(device)
        assert drive.load(1 << 20) == "nvme0n1"
        other = drive_load.FioDrive(lying.node(lying.devnos[1]), RandomLoad(4096, 32, 0), b"m" * 16)
        with pytest.raises(PlumblineError, match=r"device nvme1n1 \(SAME\) was looked at, and device nvme0n1 \(SAME\) is held; nothing was written"):
            other.hold(device)


def test_without_a_hold_nothing_is_written(lying, monkeypatch):
    loads = Loads(monkeypatch)
    drive = drive_load.FioDrive(lying.node(lying.devnos[0]), RandomLoad(4096, 32, 0), b"m" * 16)
    for step in (drive.discard, lambda: drive.fill(0, 1 << 20), lambda: drive.load(1 << 20)):
        with pytest.raises(PlumblineError, match="it is not held"):
            step()
    assert loads.files == loads.discarded == []
