# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen of a host, once: the observation from which everything else follows. Pure data.

All sizes and addresses are bytes, as ints. A block device is known inside an observation by its device
number (``'259:3'``), because names change and the kernel's own files speak in numbers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Geometry, Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.hidden_pv import HiddenPv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import Link
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv, Lvm, Pv, Vg
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import MdArray, MdSuperblock
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import RaidState
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part

# How names below /dev/disk/by-id begin that people cannot tell apart (udev, 60-persistent-storage.rules).
_NUMBERS_ALONE = ("wwn-", "nvme-eui.", "nvme-nvme.", "nvme-uuid.", "scsi-1", "scsi-2", "scsi-3", "scsi-8", "dm-", "lvm-", "md-")


class Segment(NamedTuple):
    """A run of a mapped device: *length* bytes from *start* lie on *legs* (device number, first byte there).

    With more than one leg, *chunk* bytes go to each leg in turn. *chunk* 0: linear. *width*: how many legs the mapping is made for, where one may be
    absent; 0: those that are listed. *degraded*: how many of them are absent, or hold old data.
    """

    start: int
    length: int
    kind: str
    chunk: int
    legs: Tuple[Tuple[str, int], ...]
    width: int = 0
    degraded: int = 0


class Node(NamedTuple):
    """One block device as the kernel shows it."""

    devno: str
    name: str
    kind: str  # disk, part, lvm, dm, crypt, md, loop, mpath, other
    size: int
    limits: Limits
    parent: str = ""  # a partition's disk
    start: int = 0  # a partition's first byte on its disk
    number: int = 0  # a partition's number
    title: str = ""  # device-mapper name
    uuid: str = ""  # device-mapper uuid
    holders: Tuple[str, ...] = ()
    slaves: Tuple[str, ...] = ()
    segments: Tuple[Segment, ...] = ()
    read_only: bool = False
    removable: bool = False
    zoned: str = ""  # queue/zoned: none, host-aware, host-managed
    rotational: bool = False
    diskseq: int = 0
    discard_max: int = 0
    write_cache: str = ""  # the kernel's belief
    identity: Identity = Identity()
    backing_file: str = ""
    suspended: bool = False  # a mapped device that takes no request: whoever reads it waits

    @property
    def path(self) -> str:
        if self.kind in ("lvm", "dm", "crypt", "mpath") and self.title:
            return "/dev/mapper/" + self.title
        return "/dev/" + self.name


class TableEntry(NamedTuple):
    """One partition of a table: bytes, type and unique GUID (upper case; empty on MBR), name."""

    number: int
    start: int
    size: int
    type: str
    guid: str
    name: str


class Table(NamedTuple):
    """A partition table as its sectors say. *backup*: what is wrong with a GPT's second copy at the end of the disk; empty where it is sound.

    *made_for*: the bytes of the disk that a GPT was made for; less than it has: the disk grew. 0 where that is not known. *spare*: the partitions of the
    backup, where the first copy is damaged and the backup is sound.
    """

    kind: str  # gpt, mbr, protective (a protective MBR without a valid GPT)
    guid: str = ""
    entries: Tuple[TableEntry, ...] = ()
    fault: str = ""
    backup: str = ""
    made_for: int = 0
    unsettled: bool = False  # a growth of it was cut off
    spare: Tuple[TableEntry, ...] = ()


# What signatures of filesystems are for, beside "filesystem".
UNFINISHED = "unfinished filesystem"  # mkfs was cut off
BACKUP = "backup superblock"
BACKUP_OF_WHOLE = "backup superblock of a whole filesystem"  # which says itself that mkfs had ended
BACKUPS = (BACKUP, BACKUP_OF_WHOLE)


class Signature(NamedTuple):
    """Something that libblkid recognised: its type (``xfs``), what for (``filesystem``) and at which byte."""

    type: str
    usage: str
    offset: int
    uuid: str = ""
    label: str = ""

    @property
    def text(self) -> str:
        return "%s %s at byte %d%s" % (self.type, self.usage or "signature", self.offset, " (label '%s')" % self.label if self.label else "")


class Filesystem(NamedTuple):
    """What a superblock says. *stride* and *stripe_width* in blocks of the filesystem, 0 where unset. *kind*: see _stack/filesystems/kinds.py."""

    kind: str
    uuid: str
    label: str
    block: int
    blocks: int
    stride: int
    stripe_width: int
    inodes: int
    features: Tuple[str, ...] = ()
    errors: str = ""
    made: int = 0  # seconds since 1970
    journal: bool = True
    reserved: int = 0  # blocks that only root may use
    faulty: bool = False  # the kernel has found errors in it, and nobody has checked it since
    family: str = ""  # what a signature calls it
    growable: int = 0  # bytes up to which it grows while it is mounted; 0: it does not
    group: int = 0  # bytes of one of its groups, and the fewest that its last one may have
    least_group: int = 0
    log_unit: int = 0  # bytes of its log's stripe unit, where it has one


class WriteCache(NamedTuple):
    """A drive's volatile write cache, as the drive itself says and never as the kernel believes. None: the drive does not say."""

    present: Optional[bool] = None  # False: it has none, or none that a power cut empties
    enabled: Optional[bool] = None
    changeable: Optional[bool] = None
    saved: Optional[bool] = None  # the state that it comes back with after a reset, where it can save one
    protected: Optional[bool] = None  # power-loss protection, by the drive's own word
    fault: str = ""  # why it could not be asked


class Mount(NamedTuple):
    """One mount of a block device. *here* is False for a mount that only another namespace has."""

    devno: str
    target: str
    fstype: str
    options: Tuple[str, ...]
    here: bool = True
    root: str = "/"  # the directory of the filesystem that is mounted: another one in a bind mount of a part


class FstabEntry(NamedTuple):
    """One line of fstab, unescaped."""

    spec: str
    target: str
    fstype: str
    options: Tuple[str, ...]
    freq: int
    passno: int


class PathState(NamedTuple):
    """A path of the host as stat sees it; *mode* is octal text, *way* what there is of the directories above it."""

    exists: bool = False
    is_directory: bool = False
    entries: int = 0
    immutable: bool = False
    owner: int = 0
    group: int = 0
    mode: str = ""
    symlink: str = ""
    way: Tuple[Part, ...] = ()
    other: bool = False  # the root of another filesystem than that of the directory above
    fault: str = ""  # why it could not be read
    read_only: str = ""  # the directory above that would have to take it and is on a filesystem that is mounted read-only


class Ends(NamedTuple):
    """The first and the last MiB of a device, as they are. *tail_at*: byte at which *tail* begins.

    *digest*: SHA-256 of both, where only their outermost sectors are kept: they hold more than a table.
    """

    head: bytes = b""
    tail: bytes = b""
    tail_at: int = 0
    digest: str = ""


class BlankProof(NamedTuple):
    """Whether a device was shown to hold nothing: where there are no *faults*. *data*: what was found, and where; *unread*: what could not be read."""

    read_bytes: int
    samples: int
    data: Tuple[str, ...] = ()
    data_at: int = -1  # the first sector with data, in bytes from the start; -1: none was found
    unread: Tuple[str, ...] = ()

    @property
    def faults(self) -> Tuple[str, ...]:
        return self.data + self.unread


class Accepted(NamedTuple):
    """A risk that somebody accepted: by which *acceptance*, for which mount *option*, over which drives, and since when (UTC)."""

    stack: str
    volume: str
    mount: str
    uuid: str  # of the filesystem
    option: str
    acceptance: str
    serials: Tuple[str, ...] = ()
    since: str = ""

    @property
    def key(self) -> Tuple[str, ...]:
        """What makes it the same risk, whatever drives it is about by now."""
        return (self.stack, self.volume, self.uuid, self.option, self.acceptance)


@dataclass
class Observation:
    """Everything read about a host, once."""

    nodes: Dict[str, Node] = field(default_factory=dict)
    links: Dict[str, str] = field(default_factory=dict)  # name below /dev/disk/by-id → device number
    paths: Dict[str, str] = field(default_factory=dict)  # path that the user named → device number
    geometries: Dict[str, Geometry] = field(default_factory=dict)
    namespaces: Dict[str, Mapping[str, Any]] = field(default_factory=dict)  # NVMe Identify Namespace
    tables: Dict[str, Optional[Table]] = field(default_factory=dict)
    signatures: Dict[str, List[Signature]] = field(default_factory=dict)
    marks: Dict[str, List[Signature]] = field(default_factory=dict)  # what we recognised ourselves, where a device or a volume is to be written to
    ends: Dict[str, Ends] = field(default_factory=dict)  # of the same devices, and of ours whose partition the kernel does not show
    filesystems: Dict[str, Filesystem] = field(default_factory=dict)
    caches: Dict[str, WriteCache] = field(default_factory=dict)  # of the disks that were looked at closely
    drive_links: Dict[str, Tuple[Link, ...]] = field(default_factory=dict)  # of the same, what lies between the host and the disk
    kept: Mapping[str, str] = field(default_factory=dict)  # identity → write cache state that the host keeps; empty where the keeping is damaged
    erasures: Dict[str, int] = field(default_factory=dict)  # how often this host has erased a device before, of those it has
    proofs: Dict[str, BlankProof] = field(default_factory=dict)  # of a PV: of what no LV has
    faults: Dict[str, str] = field(default_factory=dict)  # device number → why it could not be read
    busy: Dict[str, str] = field(default_factory=dict)  # device number → why it could not be opened alone
    openers: Dict[str, List[str]] = field(default_factory=dict)  # device number → other processes that have it open
    backings: Dict[str, List[str]] = field(default_factory=dict)  # device number → loop devices and targets that are made of it
    multipath: List[str] = field(default_factory=list)  # single paths of multipath maps, by udev's word
    raids: Dict[str, RaidState] = field(default_factory=dict)  # of arrays with redundancy, of md and of LVM
    md_arrays: List[MdArray] = field(default_factory=list)  # those included that do not run
    md_superblocks: Dict[str, MdSuperblock] = field(default_factory=dict)  # of partitions that are members, or were
    lvm: Lvm = field(default_factory=Lvm)
    hidden: Dict[str, HiddenPv] = field(default_factory=dict)  # device number → a PV that LVM does not list
    lvm_filters: Dict[str, Tuple[str, ...]] = field(default_factory=dict)  # filter, global_filter → patterns, where a VG is to be made and LVM heeds them
    disk_links: Dict[str, str] = field(default_factory=dict)  # then, of the disks that were looked at closely: link of udev's → device number
    mounts: List[Mount] = field(default_factory=list)
    in_force: Dict[str, Tuple[str, ...]] = field(default_factory=dict)  # mounted ext4 → all its options, those of its superblock included
    accepted: List[Accepted] = field(default_factory=list)
    swaps: List[str] = field(default_factory=list)
    fstab: List[FstabEntry] = field(default_factory=list)
    directories: Dict[str, PathState] = field(default_factory=dict)
    members: Dict[str, Tuple[str, ...]] = field(default_factory=dict)  # device of a filesystem over several → all of its devices
    making: List[str] = field(default_factory=list)  # UUIDs of filesystems that a run was about to make, by the host's record
    twice_named: Dict[str, Tuple[str, ...]] = field(default_factory=dict)  # path that the user named → all devices that ask udev for it, where several do
    led_to: Dict[str, str] = field(default_factory=dict)  # link to a partition by its GUID, or to a filesystem by its UUID → device number
    fstab_fault: str = ""  # why /etc/fstab could not be written
    kernel_lacks: Tuple[str, ...] = ()  # of the device mapper and ext4: what the running kernel has not loaded and has no modules for
    taken_names: Dict[str, str] = field(default_factory=dict)  # name of a VG that is to be → what has it below /dev
    covers: Dict[str, str] = field(default_factory=dict)  # mount point of a block device → the filesystem that was mounted over it
    drop_ins: Dict[str, str] = field(default_factory=dict)  # file → text, of those that the spec asks about
    users: Dict[str, int] = field(default_factory=dict)
    groups: Dict[str, int] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)  # tool → path, of those that are there
    distribution: Tuple[str, ...] = ()
    timer_enabled: bool = False
    timer_fault: str = ""  # why fstrim.timer could not be enabled
    services_folder: Optional[Part] = None  # /var/lib
    selinux: bool = False
    strange_contexts: Tuple[str, ...] = ()  # of those that are asked for: what the policy in force does not know

    def children(self, devno: str) -> List[Node]:
        """Partitions of a disk, then the mapped devices that lie on it."""
        parts = [node for node in self.nodes.values() if node.parent == devno]
        return self._children(devno, parts)

    def _children(self, devno: str, parts: List[Node]) -> List[Node]:
        return sorted(parts, key=lambda n: n.start) + [self.nodes[holder] for holder in self.nodes[devno].holders if holder in self.nodes]

    def tree(self, devno: str) -> List[Node]:
        """The node and everything that lies on it, each once."""
        parts: Dict[str, List[Node]] = {}
        for node in self.nodes.values():
            parts.setdefault(node.parent, []).append(node)
        seen: Dict[str, Node] = {}
        todo = deque([devno])
        while todo:
            current = todo.popleft()
            if current not in seen and current in self.nodes:
                seen[current] = self.nodes[current]
                todo.extend(child.devno for child in self._children(current, parts.get(current, [])))
        return list(seen.values())

    def disk_of(self, devno: str) -> List[Node]:
        """The disks below a node: nodes with neither parent nor slaves."""
        seen = set()
        todo = deque([devno])
        disks = []
        while todo:
            current = todo.popleft()
            if current in seen or current not in self.nodes:
                continue
            seen.add(current)
            node = self.nodes[current]
            below = ([node.parent] if node.parent else []) + list(node.slaves)
            todo.extend(below)
            if not below:
                disks.append(node)
        return disks

    def link(self, devno: str) -> str:
        """A node's name below /dev/disk/by-id, if it has one: that with model and serial before those that are numbers alone."""
        links = [link for link, number in self.links.items() if number == devno]
        return min(links, key=lambda link: (link.startswith(_NUMBERS_ALONE), len(link), link), default="")

    def pv(self, devno: str) -> Optional[Pv]:
        for pv in self.lvm.pvs:
            if pv.devno == devno:
                return pv
        return None

    def vg(self, name: str) -> Optional[Vg]:
        for vg in self.lvm.vgs:
            if vg.name == name:
                return vg
        return None

    def lv(self, vg: str, name: str) -> Optional[Lv]:
        for lv in self.lvm.lvs:
            if (lv.vg, lv.name) == (vg, name):
                return lv
        return None

    def lv_node(self, vg: str, name: str) -> Optional[Node]:
        title = "%s-%s" % (vg.replace("-", "--"), name.replace("-", "--"))
        for node in self.nodes.values():
            if node.title == title and node.kind == "lvm":
                return node
        return None

    def array_over(self, devno: str) -> Optional[MdArray]:
        """The array of md that has a device as its member."""
        return next((array for array in self.md_arrays if any(member.devno == devno for member in array.members)), None)

    def mounted(self, devno: str) -> List[Mount]:
        return [mount for mount in self.mounts if mount.devno == devno]


class DiskLoad(NamedTuple):
    """What the disks of a target have done since they are there: requests, and the milliseconds that these took, added up."""

    requests: int
    milliseconds: float

    def since(self, before: "DiskLoad") -> "DiskLoad":
        return DiskLoad(self.requests - before.requests, self.milliseconds - before.milliseconds)


def device_label(node: Node) -> str:
    """A device in messages."""
    return "device %s%s" % (node.name, " (%s)" % node.identity.serial if node.identity.serial else "")
