# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's block devices, read from sysfs and procfs. I/O lives here; nothing is written and no tool is run."""

from __future__ import annotations

import contextlib
import glob
import os
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Mount, Node, Observation, Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import NEAR_2
from ansible_collections.plumbline.ssd.plugins.module_utils._block.proc_files import parse_mountinfo
from ansible_collections.plumbline.ssd.plugins.module_utils._block.tool_output import SECTOR
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable


def read_text(path: str) -> str:
    """A file's text without surrounding blanks; empty where it cannot be read."""
    try:
        with open(path, "rb") as handle:
            return handle.read().decode("utf-8", "replace").replace("\0", "").strip()
    except OSError:
        return ""


def read_bytes(path: str) -> bytes:
    """A file's bytes; empty where it cannot be read."""
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""


def _printable(path: str) -> str:
    """What a drive says of itself. Escaped here, so that an identity is the same text in a plan, at the write and in every message."""
    return escape_unprintable(_decoded(read_bytes(path)))


def _decoded(raw: bytes) -> str:
    """What a drive says, every byte of it: two serials that differ in bytes that are no text stay two."""
    return raw.decode("utf-8", "surrogateescape").replace("\0", "").strip()


def _int(path: str, default: int = 0) -> int:
    text = read_text(path)
    return int(text) if text.lstrip("-").isdigit() else default


def read_size(path: str) -> int:
    """A number that is 0 or more; 0 where there is none."""
    return max(_int(path), 0)


def devno(number: int) -> str:
    """A device number of stat(2) as sysfs and mountinfo write it, major:minor."""
    return "%d:%d" % (os.major(number), os.minor(number))


def read_block_devices() -> Observation:
    """An observation of the block devices, and of nothing else yet: whoever needs more adds it."""
    return Observation(nodes=read_nodes())


def read_mounted_devices(process: str = "self") -> Observation:
    """The block devices, what is mounted of them in any mount namespace, and the options in force there; see read_mounts()."""
    seen = read_block_devices()
    seen.mounts = read_mounts(process)
    seen.in_force = read_in_force(seen.nodes, seen.mounts)
    return seen


def read_nodes() -> Dict[str, Node]:
    """Every block device that has a size, by device number."""
    base = "/sys/class/block"
    numbers = {name: read_text("%s/%s/dev" % (base, name)) for name in sorted(os.listdir(base))}
    nodes = {}
    for name, devno in numbers.items():
        size = _int("%s/%s/size" % (base, name)) * SECTOR
        if size and devno and not name.startswith("ram"):
            nodes[devno] = _read_node("%s/%s" % (base, name), name, devno, size, numbers)
    return nodes


def _read_node(at: str, name: str, devno: str, size: int, numbers: Dict[str, str]) -> Node:
    is_part = os.path.exists(at + "/partition")
    home = os.path.dirname(os.path.realpath(at)) if is_part else os.path.realpath(at)
    parent = numbers.get(os.path.basename(home), "") if is_part else ""
    start = _int(at + "/start") * SECTOR if is_part else 0
    title, uuid = read_text(at + "/dm/name"), read_text(at + "/dm/uuid")
    kind = _kind(name, at, is_part, uuid)
    segments: Tuple[Segment, ...] = ()
    if is_part:
        segments = (Segment(0, size, "part", 0, ((parent, start),)),)
    elif kind == "md":
        segments = _md_segments(at, size)
    return Node(
        devno=devno,
        name=name,
        kind=kind,
        size=size,
        limits=_read_limits(home + "/queue", at),
        parent=parent,
        start=start,
        number=_int(at + "/partition"),
        title=title,
        uuid=uuid,
        holders=_numbers(at + "/holders", numbers),
        slaves=_numbers(at + "/slaves", numbers),
        segments=segments,
        read_only=_int(at + "/ro") == 1,
        removable=_int(home + "/removable") == 1,
        zoned=read_text(home + "/queue/zoned"),
        rotational=_int(home + "/queue/rotational") == 1,
        diskseq=_int(home + "/diskseq"),
        discard_max=_int(home + "/queue/discard_max_bytes"),
        write_cache=read_text(home + "/queue/write_cache"),
        identity=_read_identity(at, name) if kind == "disk" else Identity(),
        backing_file=read_text(at + "/loop/backing_file"),
        suspended=bool(title) and read_text(at + "/dm/suspended") == "1",
    )


def _kind(name: str, at: str, is_part: bool, uuid: str) -> str:
    if is_part:
        return "part"
    if name.startswith("dm-"):
        for prefix, kind in (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "mpath")):
            if uuid.startswith(prefix):
                return kind
        return "dm"
    if name.startswith("md"):
        return "md"
    if name.startswith("loop"):
        return "loop"
    if name.startswith("bcache"):
        return "bcache"
    if name.startswith(("sr", "fd", "zram", "nbd")):
        return "other"
    return "disk"


def _numbers(directory: str, numbers: Dict[str, str]) -> Tuple[str, ...]:
    try:
        return tuple(numbers[name] for name in sorted(os.listdir(directory)) if numbers.get(name))
    except OSError:
        return ()


def _read_limits(queue: str, at: str) -> Limits:
    def size(name: str) -> int:
        return _int("%s/%s" % (queue, name))

    return Limits(
        logical=size("logical_block_size") or 512,
        physical=size("physical_block_size") or None,
        min_io=size("minimum_io_size") or None,
        opt_io=size("optimal_io_size") or None,
        alignment_offset=_int(at + "/alignment_offset"),
        discard_granularity=size("discard_granularity") or None,
        discard_alignment=_int(at + "/discard_alignment"),
    )


def _md_segments(at: str, size: int) -> Tuple[Segment, ...]:
    """The segments of an array. How many legs it has is its own word (raid_disks): one that is gone has no rdN (Documentation/admin-guide/md.rst)."""
    level, chunk, count = read_text(at + "/md/level"), _int(at + "/md/chunk_size"), _int(at + "/md/raid_disks")
    legs = []
    for number in range(count):
        member = "%s/md/rd%d" % (at, number)
        devno = read_text(member + "/block/dev")
        if devno:
            legs.append((devno, _int(member + "/offset") * SECTOR))
    if level == "linear" and len(legs) == count:
        return _one_behind_the_other(at, size, legs)
    if level == "raid10" and (_int(at + "/md/layout") != NEAR_2 or count % 2):
        legs = []  # where its bytes lie is not worked out here
    return (Segment(0, size, level, chunk if level != "raid1" else 0, tuple(legs), count, _int(at + "/md/degraded")),)


def bcache_backing(name: str) -> str:
    """The device that holds the data of a bcache, by its name in the kernel; empty where that is not known (Documentation/admin-guide/bcache.rst)."""
    at = "/sys/class/block/%s/bcache" % name
    return os.path.basename(os.path.dirname(os.path.realpath(at))) if os.path.exists(at) else ""


# Where the kernel lists the devices of a filesystem that is in use and may have several. Each path is a link to the directory of a block device.
_MEMBERS = (
    "/sys/fs/btrfs/*-*/devices/*",  # Documentation/ABI/testing/sysfs-fs-btrfs
    "/sys/fs/bcachefs/*-*/dev-*/block",  # fs/bcachefs/super.c, bch2_dev_sysfs_online()
)


def read_members(names: Mapping[str, str]) -> List[Tuple[str, ...]]:
    """The devices of each Btrfs and bcachefs that the kernel has in use, in the order of their names."""
    found: Dict[str, List[str]] = {}
    for path in sorted(path for pattern in _MEMBERS for path in glob.glob(pattern)):
        name = os.path.basename(os.path.realpath(path))
        if name in names:
            found.setdefault(os.path.dirname(os.path.dirname(path)), []).append(names[name])  # the directory of the filesystem
    return [tuple(members) for members in found.values()]


def _one_behind_the_other(at: str, size: int, legs: Sequence[Tuple[str, int]]) -> Tuple[Segment, ...]:
    """The segments of a linear array. A member's size is in KiB (Documentation/admin-guide/md.rst, dev-XXX/size)."""
    segments = []
    begin = 0
    for number, leg in enumerate(legs):
        length = _int("%s/md/rd%d/size" % (at, number)) * 1024
        length = size - begin if number == len(legs) - 1 else min(length, size - begin)
        segments.append(Segment(begin, length, "linear", 0, (leg,)))
        begin += length
    return tuple(segment for segment in segments if segment.length > 0)


def _read_identity(at: str, name: str) -> Identity:
    device = at + "/device"
    home = os.path.realpath(device)
    if name.startswith("nvme"):
        return Identity(
            wwid=_printable(at + "/wwid"),
            serial=_printable(device + "/serial"),
            model=_printable(device + "/model"),
            firmware=_printable(device + "/firmware_rev"),
            transport="nvme",
            controller=os.path.basename(home),
            nsid=_int(at + "/nsid", 1),
            subsystem=_printable(device + "/subsysnqn"),
        )
    page80 = read_bytes(device + "/vpd_pg80")
    serial = escape_unprintable(_decoded(page80[4:])) if len(page80) > 4 else _printable(at + "/serial")
    vendor = _printable(device + "/vendor")
    model = _printable(device + "/model")
    return Identity(
        wwid=escape_unprintable(" ".join(_decoded(read_bytes(device + "/wwid")).split())),
        serial=serial,
        model=model if not vendor or vendor == "ATA" or vendor.startswith("0x") else "%s %s" % (vendor, model),
        firmware=_printable(device + "/rev"),
        transport=_transport(home),
        ata=vendor == "ATA",  # what every SCSI/ATA translation answers, SAT-3 8.7.2
    )


def _transport(home: str) -> str:
    for part, transport in (("/usb", "usb"), ("/ata", "sata"), ("/session", "iscsi"), ("/rport-", "fc"), ("/end_device-", "sas")):
        if part in home:
            return transport
    return "virtio" if "/virtio" in home and "/target" not in home else "scsi"


def read_links(base: str = "/dev/disk/by-id") -> Dict[str, str]:
    """Names of links in a directory of udev's → kernel names."""
    try:
        return {name: os.path.basename(os.path.realpath(os.path.join(base, name))) for name in os.listdir(base)}
    except OSError:
        return {}


def claims_of_link(path: str) -> Tuple[str, ...]:
    """Device numbers of all devices that udev would give a name below /dev to; the link leads to one of them. Empty where udev keeps no record.

    udev writes a character that has no place in a name as _, so that two serials can ask for one name. It keeps an entry for each device that does
    in /run/udev/links (systemd, src/udev/udev-node.c).
    """
    name = path[len("/dev/") :].replace("\\", "\\x5c").replace("/", "\\x2f")
    found: Set[str] = set()
    for directory in (name, "\\x2f" + name):  # the latter up to systemd 249
        with contextlib.suppress(OSError):
            found.update(entry[1:] for entry in os.listdir("/run/udev/links/" + directory) if entry.startswith("b"))
    return tuple(sorted(found))


def read_mounts(process: str = "self") -> List[Mount]:
    """Mounts of block devices that *process* sees, and behind them of each device one in any other mount namespace that only root can have made.

    A copy of what *process* sees itself is left out: some service of each host, such as udev, has copies of all mounts.

    A sandbox of systemd is a namespace of its own, in which all mounts are read-only. Who runs in one looks with the eyes of process 1.

    Any user can make namespaces below a user namespace of his own (user_namespaces(7)), with 100,000 mounts in each and paths of megabytes. He can only
    show again there what is mounted, and a device that is mounted anywhere cannot be opened alone: so these are not read.
    """
    mounts = parse_mountinfo(read_text("/proc/%s/mountinfo" % process))
    seen = {"", _namespace(process, "mnt"), _namespace("self", "mnt")}
    elsewhere: Dict[str, Mount] = {}
    known = {(mount.devno, mount.target) for mount in mounts}
    for name in os.listdir("/proc"):
        space = _namespace(name, "mnt") if name.isdigit() else ""
        text = None if space in seen else _read_mountinfo_of_root(name)
        if text is not None:
            seen.add(space)
            for mount in parse_mountinfo(text, here=False):
                if (mount.devno, mount.target) not in known:
                    elsewhere.setdefault(mount.devno, mount)
    return mounts + list(elsewhere.values())


def _read_mountinfo_of_root(process: str) -> Optional[str]:
    """The mounts that a process sees, if it is in our user namespace; None if it is in another, or has ended.

    The open file holds the mount namespace that the process is in at that moment. Only then its user namespace is asked: nobody comes back to ours.
    """
    try:
        with open("/proc/%s/mountinfo" % process, encoding="utf-8", errors="replace") as handle:
            return handle.read() if _namespace(process, "user") == _namespace("self", "user") else None
    except OSError:
        return None


def read_in_force(nodes: Mapping[str, Node], mounts: Iterable[Mount]) -> Dict[str, Tuple[str, ...]]:
    """Mounted ext filesystems → all their options.

    What the superblock sets (tune2fs -o) is in no mountinfo, since it is that filesystem's default (_ext4_show_options()).
    """
    devnos = {mount.devno for mount in mounts if mount.fstype.startswith("ext") and mount.devno in nodes}
    return {devno: tuple(read_text("/proc/fs/ext4/%s/options" % nodes[devno].name).split()) for devno in devnos}


def _namespace(process: str, kind: str) -> str:
    try:
        return os.readlink("/proc/%s/ns/%s" % (process, kind))
    except OSError:
        return ""
