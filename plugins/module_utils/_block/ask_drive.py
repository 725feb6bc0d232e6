# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive's write cache, and the speed of a SAS drive's phys, asked from the drive itself by ioctl. I/O.

Nothing here changes a drive, and no tool is run.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import os
import re
import struct
from typing import List, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import cache_pages, scsi
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ata import parse_identify
from ansible_collections.plumbline.ssd.plugins.module_utils._block.block_device import NVME_IOCTL_ADMIN_CMD
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link_attributes import parse_phy_page
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import parse_id_ctrl

# scsi/sg.h
SG_IO = 0x2285
SG_DXFER_FROM_DEV = -3
_SG_HEADER = struct.Struct("@iiBBHIPPPIIiPBBBBHHiII4x")  # struct sg_io_hdr
_SG_STATUS, _SG_HOST_STATUS, _SG_RESID = 13, 17, 19  # places in it
_SECONDS = 10  # how long a drive may take to answer

_ADMIN = struct.Struct("<BBHIIIQQII6III")  # struct nvme_admin_cmd; its last word takes dword 0 of the answer
IDENTIFY, _GET_FEATURES = 0x06, 0x0A
_FEATURE = 0x06  # Volatile Write Cache
_CURRENT, _SAVED, _CAPABILITIES = 0, 2, 3  # Select
# SAT-4 12.2.2: ATA PASS-THROUGH (16), PIO data-in, one block counted in the sector count, IDENTIFY DEVICE
_IDENTIFY_DEVICE = bytes([0x85, 0x08, 0x0E, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xEC, 0])
_PC_CURRENT, _PC_CHANGEABLE, _PC_SAVED = 0, 1, 3
_EXTENDED_INQUIRY = bytes([0x12, 0x01, 0x86, 0, 64, 0])
_PHY_CONTROL = bytes([0x5A, 0x08, 0x19, 0x01, 0, 0, 0, 2, 0, 0])  # MODE SENSE (10), page 19h, subpage 01h, at most 512 bytes
_INVALID_COMMAND = (0x5, 0x20, 0x00)


class Unanswered(Exception):
    """A drive that does not answer a question, and why, for people."""

    def __init__(self, why: str, sense: Tuple[int, int, int] = (0, 0, 0)) -> None:
        super().__init__(why)
        self.sense = sense


def why_not_asked(node: Node) -> str:
    """Why a disk cannot be asked at all; empty where it can."""
    transport = node.identity.transport
    if node.kind == "loop":
        return "a loop device has no drive of its own"
    if node.kind != "disk":
        return "%s is a %s and no disk" % (node.name, node.kind)
    if transport == "usb":
        return "it is behind a USB bridge, which passes such questions on or makes answers up"
    if transport == "virtio":
        return "virtio does not pass the question on to the drive behind it"
    if transport != "nvme" and not node.name.startswith("sd"):
        return "a disk of this kind takes neither NVMe nor SCSI nor ATA commands"
    return ""


def read_cache(node: Node) -> WriteCache:
    """What the drive says of its write cache. A drive that does not answer is no guess: its members are None and *fault* says why."""
    why = why_not_asked(node)
    if why:
        return WriteCache(fault=why)
    try:
        if node.identity.transport == "nvme":
            return cache_pages.all_paths([_read_nvme(path) for path in controllers(node) or ["/dev/" + node.name]])
        return _read_scsi(node)
    except Unanswered as fault:
        return WriteCache(fault=str(fault))
    except OSError as fault:
        if fault.errno in (errno.ENODEV, errno.ENXIO, errno.ENOENT):
            return WriteCache(fault="it went away")
        return WriteCache(fault="it could not be asked: %s" % (fault.strerror or fault))


def read_phy_speed(node: Node) -> Optional[int]:
    """The most that a SAS drive's own phys can do, in Mb/s; None where it does not say."""
    try:
        fd = os.open("/dev/" + node.name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return parse_phy_page(sg_read(fd, _PHY_CONTROL, 512))
        finally:
            os.close(fd)
    except (OSError, Unanswered):
        return None


def controllers(node: Node) -> List[str]:
    """The controllers of an NVMe namespace, as nodes below /dev. With the kernel's own multipath a subsystem may have several."""
    home = os.path.realpath("/sys/class/block/%s/device" % node.name)
    name = re.compile(r"nvme[0-9]+")
    if name.fullmatch(os.path.basename(home)):
        return ["/dev/" + os.path.basename(home)]
    try:
        return sorted("/dev/" + entry for entry in os.listdir(home) if name.fullmatch(entry))
    except OSError:
        return []


# --- NVMe ------------------------------------------------------------------------------------------


def _read_nvme(path: str) -> WriteCache:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _value, raw = nvme_admin(fd, IDENTIFY, 1, 4096)  # CNS 01h: the controller
        controller = parse_id_ctrl(raw)
        if not controller["vwc"] & 1:
            return cache_pages.cache_of_nvme(controller["vwc"], None, None, None)
        more = cache_pages.select_known(controller["oncs"])
        values = [_feature(fd, select) if not select or more else None for select in (_CURRENT, _CAPABILITIES, _SAVED)]
        return cache_pages.cache_of_nvme(controller["vwc"], *values)
    finally:
        os.close(fd)


def _feature(fd: int, select: int) -> Optional[int]:
    """Dword 0 of Get Features for the volatile write cache; None where the controller refuses."""
    try:
        return nvme_admin(fd, _GET_FEATURES, select << 8 | _FEATURE, 0)[0]
    except Unanswered:
        return None


def nvme_admin(fd: int, opcode: int, dword10: int, length: int, nsid: int = 0) -> Tuple[int, bytes]:
    """An NVMe admin command that reads, by default to no namespace. Returns dword 0 of the answer and the data."""
    data = array.array("B", bytes(max(length, 1)))
    command = bytearray(_ADMIN.pack(opcode, 0, 0, nsid, 0, 0, 0, data.buffer_info()[0] if length else 0, 0, length, dword10, 0, 0, 0, 0, 0, 1000 * _SECONDS, 0))
    status = fcntl.ioctl(fd, NVME_IOCTL_ADMIN_CMD, command)
    if status:
        raise Unanswered("the controller refused admin command %02xh with status %xh" % (opcode, status))
    return _ADMIN.unpack(bytes(command))[-1], data.tobytes()


# --- ATA and SCSI ----------------------------------------------------------------------------------


def _read_scsi(node: Node) -> WriteCache:
    fd = os.open("/dev/" + node.name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if node.identity.ata:
            try:
                return cache_pages.cache_of_ata(parse_identify(sg_read(fd, _IDENTIFY_DEVICE, 512)))
            except Unanswered as fault:
                if fault.sense != _INVALID_COMMAND:
                    raise  # a translation without pass-through makes the caching page from words 82 and 85, SAT-3 10.1.7
        current = _caching_page(fd, _PC_CURRENT)
        changeable = saved = None
        if current:
            changeable = _or_none(fd, _PC_CHANGEABLE)
            saved = _or_none(fd, _PC_SAVED) if current.savable else None
        return cache_pages.cache_of_scsi(current, changeable, saved, *_extended(fd))
    finally:
        os.close(fd)


def _caching_page(fd: int, control: int) -> Optional[scsi.CachingPage]:
    """The caching page by MODE SENSE of 10 bytes, or of 6 where the drive knows no other. Raises Unanswered where it refuses."""
    page = control << 6 | scsi.CACHING_PAGE
    try:
        return scsi.parse_caching_page(sg_read(fd, bytes([0x5A, 0x08, page, 0, 0, 0, 0, 0, 252, 0]), 252), True)
    except Unanswered as fault:
        if fault.sense != _INVALID_COMMAND:
            raise
    return scsi.parse_caching_page(sg_read(fd, bytes([0x1A, 0x08, page, 0, 252, 0]), 252), False)


def _or_none(fd: int, control: int) -> Optional[scsi.CachingPage]:
    try:
        return _caching_page(fd, control)
    except Unanswered:
        return None


def _extended(fd: int) -> Tuple[bool, bool]:
    try:
        return scsi.parse_extended_inquiry(sg_read(fd, _EXTENDED_INQUIRY, 64))
    except Unanswered:
        return False, False


def sg_read(fd: int, command: bytes, length: int) -> bytes:
    """A SCSI command that reads at most *length* bytes. Raises Unanswered with the drive's sense data, OSError where it is gone."""
    data, sense = ctypes.create_string_buffer(length), ctypes.create_string_buffer(64)
    words = ctypes.create_string_buffer(command, len(command))
    addresses = [ctypes.addressof(data), ctypes.addressof(words), ctypes.addressof(sense)]
    header = bytearray(
        _SG_HEADER.pack(ord("S"), SG_DXFER_FROM_DEV, len(command), 64, 0, length, *addresses, 1000 * _SECONDS, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    )
    fcntl.ioctl(fd, SG_IO, header)
    answer = _SG_HEADER.unpack(bytes(header))
    codes = scsi.parse_sense(sense.raw)
    if answer[_SG_STATUS] and codes[0] not in (0, 1):  # 1: it recovered
        raise Unanswered(scsi.sense_text(codes), codes)
    if answer[_SG_HOST_STATUS] or (answer[_SG_STATUS] and not codes[0]):
        raise Unanswered("the command did not reach it (host status %x, status %x)" % (answer[_SG_HOST_STATUS], answer[_SG_STATUS]))
    return data.raw[: length - max(answer[_SG_RESID], 0)]
