# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions to drives as they leave for the kernel, and its answers; ioctl(2) is played, the bytes are real."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import ask_health
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils._block.test_link_attributes import phy_page
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils._drive.write_cache.test_rules import identify, mode_page
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import fixture
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.smart import health_log

INVALID_COMMAND = bytes([0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0])
NO_SAVED = bytes([0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x39, 0, 0, 0, 0, 0])


class SgHeader(ctypes.Structure):
    """struct sg_io_hdr, as scsi/sg.h has it: an account of the layout that is not the module's."""

    _fields_ = [
        ("interface_id", ctypes.c_int), ("dxfer_direction", ctypes.c_int), ("cmd_len", ctypes.c_ubyte), ("mx_sb_len", ctypes.c_ubyte),
        ("iovec_count", ctypes.c_ushort), ("dxfer_len", ctypes.c_uint), ("dxferp", ctypes.c_void_p), ("cmdp", ctypes.c_void_p),
        ("sbp", ctypes.c_void_p), ("timeout", ctypes.c_uint), ("flags", ctypes.c_uint), ("pack_id", ctypes.c_int), ("usr_ptr", ctypes.c_void_p),
        ("status", ctypes.c_ubyte), ("masked_status", ctypes.c_ubyte), ("msg_status", ctypes.c_ubyte), ("sb_len_wr", ctypes.c_ubyte),
        ("host_status", ctypes.c_ushort), ("driver_status", ctypes.c_ushort), ("resid", ctypes.c_int), ("duration", ctypes.c_uint), ("info", ctypes.c_uint),
    ]  # fmt: skip


class Drive:
    """Answers SCSI commands by their bytes and NVMe admin commands by (opcode, dword 10)."""

    def __init__(self, monkeypatch):
        self.scsi, self.nvme, self.asked, self.gone, self.host_status = {}, {}, [], False, 0
        monkeypatch.setattr(ask_drive.os, "open", self.open)
        monkeypatch.setattr(ask_drive.os, "close", lambda fd: None)
        monkeypatch.setattr(ask_drive.fcntl, "ioctl", self.ioctl)
        monkeypatch.setattr(ask_drive, "controllers", lambda node: ["/dev/nvme0"])

    def open(self, path, flags):
        if self.gone:
            raise OSError(errno.ENXIO, "No such device or address", path)
        assert flags & (os.O_WRONLY | os.O_RDWR) == 0
        return 99

    def ioctl(self, fd, request, buffer):
        return self.answer_scsi(buffer) if request == 0x2285 else self.answer_nvme(buffer)

    def answer_scsi(self, buffer):
        header = SgHeader.from_buffer(buffer)
        assert ctypes.sizeof(header) == len(buffer)
        assert (header.interface_id, header.dxfer_direction, header.timeout) == (ord("S"), -3, 10000)
        command = ctypes.string_at(header.cmdp, header.cmd_len)
        self.asked.append(command)
        answer = self.scsi.get(command[:3] if command[0] in (0x5A, 0x1A) else command[:1], INVALID_COMMAND)
        header.host_status = self.host_status
        if answer[0] & 0x7F in (0x70, 0x72) and len(answer) <= 18:
            header.status = 2
            ctypes.memmove(header.sbp, answer, len(answer))
        else:
            part = answer[: header.dxfer_len]
            ctypes.memmove(header.dxferp, part, len(part))
            header.resid = header.dxfer_len - len(part)
        return 0

    def answer_nvme(self, buffer):
        words = struct.unpack("<BBHIIIQQII6III", buffer)
        opcode, nsid, address, dword10 = words[0], words[3], words[7], words[10]
        assert nsid == (0xFFFFFFFF if opcode == 2 else 0) and words[-2] == 10000
        self.asked.append((opcode, dword10))
        answer = self.nvme.get((opcode, dword10), 0x4002)
        if isinstance(answer, bytes):
            ctypes.memmove(address, answer, len(answer))
            return 0
        if answer >= 0x4000:
            return answer
        struct.pack_into("<I", buffer, 68, answer)
        return 0


@pytest.fixture
def drive(monkeypatch):
    return Drive(monkeypatch)


def node(name="sda", kind="disk", transport="sas", ata=False):
    return Node("8:0", name, kind, 1 << 30, Limits(512, 512), identity=Identity("naa.5", "S", "M", transport=transport, ata=ata))


def test_ata(drive):
    drive.scsi[b"\x85"] = identify(word85=0)
    assert ask_drive.read_cache(node(ata=True)) == WriteCache(True, False)
    assert drive.asked == [bytes([0x85, 0x08, 0x0E, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xEC, 0])]


def test_ata_behind_what_passes_nothing_through(drive):
    """A RAID controller's volume that calls itself ATA: the caching page is asked for."""
    drive.scsi[b"\x5a\x08\x08"] = mode_page(0x04)
    assert ask_drive.read_cache(node(ata=True)) == WriteCache(True, True)


def test_scsi(drive):
    drive.scsi.update({b"\x5a\x08\x08": mode_page(0x04, True), b"\x5a\x08\x48": mode_page(0xFF, True), b"\x5a\x08\xc8": mode_page(0x00, True)})
    drive.scsi[b"\x12"] = bytes([0, 0x86, 0, 60, 0, 0, 0x01]) + bytes(57)
    assert ask_drive.read_cache(node()) == WriteCache(True, True, True, False, None)


def test_scsi_that_saves_nothing_is_not_asked_for_it(drive):
    drive.scsi.update({b"\x5a\x08\x08": mode_page(0x00), b"\x5a\x08\x48": mode_page(0x04), b"\x5a\x08\xc8": NO_SAVED})
    assert ask_drive.read_cache(node()) == WriteCache(True, False, True)
    assert not any(command[2] == 0xC8 for command in drive.asked if command[0] == 0x5A)


def test_scsi_that_knows_the_short_command_only(drive):
    drive.scsi.update({b"\x1a\x08\x08": mode_page(0x04, ten=False), b"\x1a\x08\x48": mode_page(0x00, ten=False)})
    assert ask_drive.read_cache(node()) == WriteCache(True, True, False)


def test_scsi_without_the_page(drive):
    drive.scsi[b"\x5a\x08\x08"] = bytes([0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0, 0, 0])
    assert "does not know a field of the command (sense 5/24/00)" in ask_drive.read_cache(node()).fault


def test_nvme(drive):
    drive.nvme.update({(6, 1): fixture("id_ctrl.bin"), (0x0A, 0x006): 1, (0x0A, 0x306): 4, (0x0A, 0x206): 0})
    assert ask_drive.read_cache(node("nvme0n1", transport="nvme")) == WriteCache(True, True, True)


def test_nvme_health(drive):
    """Log page 02h of the whole controller, 512 bytes: 127 dwords more than one."""
    drive.nvme.update({(6, 1): fixture("id_ctrl.bin"), (0x02, 0x007F0002): health_log(warning=4, kelvin=310, used=7)})
    found = ask_health.read_nvme_health("/dev/nvme0")
    assert (found.critical_warning, found.temperature, found.used, found.serial) == (4, 37, 7, "PLUMB0001")
    del drive.nvme[(0x02, 0x007F0002)]
    with pytest.raises(ask_drive.Unanswered, match="refused admin command 02h"):
        ask_health.read_nvme_health("/dev/nvme0")


def test_nvme_without_a_cache_is_asked_no_further(drive):
    raw = bytearray(fixture("id_ctrl.bin"))
    raw[525] = 0
    drive.nvme[(6, 1)] = bytes(raw)
    assert ask_drive.read_cache(node("nvme0n1", transport="nvme")) == WriteCache(False, False, False)
    assert drive.asked == [(6, 1)]


def test_nvme_without_select_is_asked_for_the_current_value_only(drive):
    raw = bytearray(fixture("id_ctrl.bin"))
    struct.pack_into("<H", raw, 520, 0)
    drive.nvme.update({(6, 1): bytes(raw), (0x0A, 6): 1})
    assert ask_drive.read_cache(node("nvme0n1", transport="nvme")) == WriteCache(True, True)
    assert drive.asked == [(6, 1), (0x0A, 6)]


def test_nvme_that_does_not_answer(drive):
    assert "refused admin command 06h with status 4002h" in ask_drive.read_cache(node("nvme0n1", transport="nvme")).fault
    drive.nvme[(6, 1)] = fixture("id_ctrl.bin")
    assert "does not answer for feature 06h" in ask_drive.read_cache(node("nvme0n1", transport="nvme")).fault


@pytest.mark.parametrize("one", [node(), node(ata=True), node("nvme0n1", transport="nvme")])
def test_a_drive_that_went_away(drive, one):
    drive.gone = True
    assert ask_drive.read_cache(one) == WriteCache(fault="it went away")


def test_a_command_that_did_not_arrive(drive):
    drive.scsi[b"\x85"] = identify()
    drive.host_status = 1
    assert "did not reach it (host status 1" in ask_drive.read_cache(node(ata=True)).fault


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (node("loop0", "loop"), "a loop device"),
        (node("vda", transport="virtio"), "virtio"),
        (node("sdb", transport="usb"), "USB bridge"),
        (node("mmcblk0", transport="scsi"), "neither NVMe nor SCSI nor ATA"),
        (node("dm-0", "mpath"), "is a mpath and no disk"),
    ],
)
def test_devices_that_cannot_be_asked_are_not(drive, one, words):
    cache = ask_drive.read_cache(one)
    assert words in cache.fault and cache[:5] == (None,) * 5 and not drive.asked


def test_the_phys_of_a_sas_drive(drive):
    drive.scsi[bytes([0x5A, 0x08, 0x19])] = phy_page(0xAA, 0xAA)
    assert ask_drive.read_phy_speed(node()) == 6000
    assert drive.asked == [bytes([0x5A, 0x08, 0x19, 0x01, 0, 0, 0, 2, 0, 0])]


@pytest.mark.parametrize("what", ["refused", "gone", "lost"])
def test_phys_that_are_not_told(drive, what):
    drive.gone, drive.host_status = what == "gone", 1 if what == "lost" else 0
    assert ask_drive.read_phy_speed(node()) is None
