# SPDX-License-Identifier: GPL-3.0-or-later
"""What stood on a device before it was written to, kept on the host: root's alone, complete or not there at all. I/O.

A backup is a directory. It is filled under another name, every file of it reaches the disk, and only then does it get its own
(rename(2)), so that a power cut leaves a whole one or none. The guide on getting your table back says how each file returns.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import struct
import time
from typing import Dict, List, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import make_private
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_erasures

# Of one device: the first one, which shows what was there before this collection came, and the newest ones. A backup of a device without
# LUKS takes 2 MiB at most, and nothing where the device was blank.
KEPT_OF_A_DEVICE = 8
_LUKS = b"LUKS\xba\xbe"
_LUKS_SECOND = b"SKUL\xba\xbe"
_LUKS_SECOND_AT = (0x4000, 0x8000, 0x10000, 0x20000, 0x40000, 0x80000)  # 0x100000 and above lie behind the first MiB
_LUKS_MOST = 256 * MIB
_LUKS_USUAL = 16 * MIB  # what cryptsetup makes, where a damaged header does not say
_VG = re.compile(r"[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}")  # lvm(8); it becomes a file's name
_STAMP = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9]+")
_PAGE = 4096


def luks_bytes(head: bytes) -> int:
    """How long the header of a LUKS device is, with its key slots: up to the first byte of data. 0 where *head* (its first MiB) is of none."""
    if head[:6] != _LUKS:
        # The second header of LUKS2 alone is enough to repair the first; it lies at one of these places (LUKS2 on-disk format, 2.1).
        return _LUKS_USUAL if any(head[at : at + 6] == _LUKS_SECOND for at in _LUKS_SECOND_AT) else 0
    version = struct.unpack_from(">H", head, 6)[0]
    if version == 1:
        sectors: int = struct.unpack_from(">I", head, 104)[0]  # at which the data begins
        return min(sectors * 512 or 2 * MIB, _LUKS_MOST)
    try:
        area: int = struct.unpack_from(">Q", head, 8)[0]
        metadata = json.loads(head[4096:area].split(b"\0")[0].decode("utf-8"))
        ends = [int(segment["offset"]) for segment in metadata["segments"].values() if segment["type"] == "crypt"]
        whole = max([2 * area + int(metadata["config"]["keyslots_size"])] + ends)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        whole = _LUKS_USUAL
    return min(whole if whole > 0 else _LUKS_USUAL, _LUKS_MOST)


def keep_device(run: Runner, seen: Observation, devno: str, erasing: bool = False) -> List[str]:
    """Keep the ends of a device, its table, the metadata of its VGs and its LUKS headers. Returns the directories that were made.

    Raises PlumblineError where that is not possible: nothing is to be written then. *erasing*: what is on the device goes, so that a VG
    whose metadata cannot be kept stops that as well.
    """
    node = seen.nodes[devno]
    place = keep_erasures.place_of(node.identity.key)
    try:
        temporary = _begin(place)
        try:
            files, notes = _fill(run, seen, node, temporary, erasing)
            about = {
                "device": node.path,
                "identity": node.identity.key,
                "serial": node.identity.serial,
                "model": node.identity.model,
                "size_bytes": node.size,
                "logical_bytes": node.limits.logical,
                "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "files": files,
                "notes": notes,
            }
            _write(os.path.join(temporary, "about.json"), [(json.dumps(about, indent=1, sort_keys=True) + "\n").encode()])
            _sync(temporary)
            path = _name(place)
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _sync(place)
        prune(place)
    except OSError as fault:
        raise PlumblineError(
            "what stands on %s could not be kept in %s: %s; nothing was written to it" % (node.path, place, fault.strerror or fault)
        ) from fault
    return [path]


def _begin(place: str) -> str:
    """An empty directory beside the backups. One that a killed module left is taken away: its name says that it is none."""
    for directory in (keep_erasures.DIRECTORY, place):
        make_private(directory)
        _sync(os.path.dirname(directory))
    temporary = os.path.join(place, ".unfinished")
    if os.path.lexists(temporary):
        shutil.rmtree(temporary)
    os.mkdir(temporary, 0o700)
    return temporary


def _name(place: str) -> str:
    """A name that tells the time, and that sorts. The number grows, whatever the clock does."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return os.path.join(place, "%s-%d" % (stamp, max([_number(name) for name in backups_of(place)], default=0) + 1))


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def note_erasure(key: str, digest: str) -> None:
    """A device was erased under this digest: no erase of the same digest is allowed again."""
    place = keep_erasures.place_of(key)
    temporary = os.path.join(place, ".erased")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    _write(temporary, [keep_erasures.read_erasures(place), digest.encode() + b"\n"])
    os.rename(temporary, os.path.join(place, keep_erasures.ERASURES))
    _sync(place)


def backups_of(place: str) -> List[str]:
    """The backups in a device's directory, the oldest first."""
    return sorted((name for name in os.listdir(place) if _STAMP.fullmatch(name)), key=_number)


def prune(place: str) -> List[str]:
    """Take away all but the first and the newest backups of a device. Returns what went."""
    names = backups_of(place)
    gone = names[1 : 1 + max(len(names) - KEPT_OF_A_DEVICE, 0)]
    for name in gone:
        shutil.rmtree(os.path.join(place, name))
    return gone


def _fill(run: Runner, seen: Observation, node: Node, directory: str, erasing: bool) -> Tuple[Dict[str, str], List[str]]:
    """Write the files. Returns (name → SHA-256, what is not there and why)."""
    files: Dict[str, str] = {}
    notes: List[str] = []
    end = min(MIB, node.size)
    fd = block_device.open_read(node.path)
    try:
        files["head.img"] = _copy(fd, 0, end, os.path.join(directory, "head.img"))
        files["tail.img"] = _copy(fd, node.size - end, end, os.path.join(directory, "tail.img"))
    finally:
        os.close(fd)
    if seen.tables.get(node.devno) is not None:
        code, out, err = run(["sfdisk", "--dump", node.path])
        if code:
            notes.append("sfdisk --dump: %s; head.img and tail.img have the table as it is" % (" ".join(err.split()) or "return code %d" % code))
        else:
            files["table.sfdisk"] = _write(os.path.join(directory, "table.sfdisk"), [out.encode("utf-8", "surrogateescape")])
    tree = list(seen.tree(node.devno))
    for name in sorted({pv.vg for pv in seen.lvm.pvs if pv.vg and any(device.devno == pv.devno for device in tree)}):
        fault = _keep_group(run, name, directory, files)
        if fault and erasing:
            raise PlumblineError("%s is not erased, and nothing was written: %s; mend the VG, or free the device by your own tools" % (node.path, fault))
        notes += [fault] if fault else []
    for device in tree:
        if device.kind in ("disk", "loop", "part"):
            _keep_luks(device, directory, files)
    return files, notes


def _keep_group(run: Runner, name: str, directory: str, files: Dict[str, str]) -> str:
    """Keep the metadata of a VG. Returns why that was not possible; empty where it was."""
    if not _VG.fullmatch(name) or name in (".", ".."):
        return "a VG has a name that LVM would not give it; its metadata is not kept"
    path = os.path.join(directory, "vg-%s.vgcfg" % name)
    code, out, err = run(["vgcfgbackup", "--file", path, name])
    if code or not os.path.isfile(path):
        return "vgcfgbackup %s: %s" % (name, " ".join((err or out).split()) or "return code %d" % code)
    os.chmod(path, 0o600)
    with open(path, "rb") as handle:
        content = handle.read()
        os.fsync(handle.fileno())
    files[os.path.basename(path)] = hashlib.sha256(content).hexdigest()
    return ""


def _keep_luks(node: Node, directory: str, files: Dict[str, str]) -> None:
    """The whole header of a device or partition with LUKS: without its key slots nothing in it can be read ever again."""
    fd = block_device.open_read(node.path)
    try:
        length = luks_bytes(block_device.read_at(fd, 0, min(MIB, node.size // _PAGE * _PAGE))) if node.size >= 2 * _PAGE else 0
        if length:
            name = "luks-%s.img" % re.sub(r"[^A-Za-z0-9]", "_", node.name)
            files[name] = _copy(fd, 0, min(-(-length // _PAGE) * _PAGE, node.size), os.path.join(directory, name))
    finally:
        os.close(fd)


def _copy(fd: int, start: int, length: int, path: str) -> str:
    """Copy bytes of a device. The reads are whole pages, as O_DIRECT wants them, whatever the device's end is."""
    first = start // _PAGE * _PAGE
    pieces = []
    at = first
    while at < start + length:
        count = min(MIB, -(-(start + length - at) // _PAGE) * _PAGE)
        pieces.append(_read(fd, at, count, start + length - at))
        at += count
    pieces[0] = pieces[0][start - first :]
    return _write(path, pieces)


def _read(fd: int, at: int, count: int, rest: int) -> bytes:
    """Like block_device.read_at(), but only *rest* bytes may be left of the device, which then ends at a sector within the last page."""
    if rest >= count:
        return block_device.read_at(fd, at, count)
    whole = rest // 512 * 512
    return block_device.read_at(fd, at, whole)[:rest]


def _write(path: str, pieces: Sequence[bytes]) -> str:
    """Write a file that reaches the disk. Pages of zeros are left out, so that what was blank takes no room. Returns its SHA-256."""
    digest = hashlib.sha256()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as handle:
        size = 0
        for piece in pieces:
            digest.update(piece)
            for at in range(0, len(piece), _PAGE):
                page = piece[at : at + _PAGE]
                if page.count(0) < len(page):
                    handle.seek(size + at)
                    handle.write(page)
            size += len(piece)
        handle.truncate(size)
        handle.flush()
        os.fsync(fd)
    return digest.hexdigest()


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
