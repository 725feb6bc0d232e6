# SPDX-License-Identifier: GPL-3.0-or-later
"""What a filesystem has to say of itself so that it can be made, recognised, mounted and judged here. Pure.

A further kind is one file beside this one and a row in kinds.py.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import durability
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import MountOptions

SHUT_DOWN = "shutdown"  # among the options in force of a mount on which everything fails


class Making(NamedTuple):
    """A filesystem that is to be made. *stride* and *stripe_width* in its blocks. *discarded*: the device was discarded under the same plan.

    *size* of the device, and *grain* of the flash below, in bytes.
    """

    label: str
    uuid: str
    stride: int
    stripe_width: int
    lazy_init: bool = False
    bytes_per_inode: int = 0
    discarded: bool = False
    size: int = 0
    grain: int = 0


class Change(NamedTuple):
    """By which *rule* what was *found*, what is *wanted*, and whether that is *bad*: data is at risk, or the filesystem does not work."""

    rule: str
    bad: bool
    found: str
    wanted: str


class FilesystemKind:
    """One kind. What stands here as a value is a fact of it; what is a method is asked of a filesystem that was found, or is to be made."""

    family = ""  # as a signature of it is named
    name = ""  # as mount(8) and the kernel name it
    types: Tuple[str, ...] = ()  # the names that its mounts may have
    tool = ""  # makes it
    package = ""  # of Debian, Fedora and SUSE, with the tool
    grower = ""  # makes a mounted one larger
    hides_shutdown = False  # the kernel shows no sign of it in a mount that it has shut down after an error
    drops_discard = False  # the mount option, by itself, where the device takes none
    copies_by_size = False  # where its copies lie follows from the size that it was made with
    groups_file = ""  # has a line for each group that the kernel counts in a mounted one, below a headline; of the device %s
    settles = 0  # seconds within which the superblock on the device says what was changed through the mount
    block = 4096  # bytes; what it is made with, always
    smallest = 0  # bytes of a volume
    too_small = ""  # why not less
    longest_label = 0
    largest_stripe = 0  # bytes
    stripe_bits = ""  # why not more
    passno = 0  # of fsck, fstab(5)
    superblock: Tuple[int, int] = (0, 0)  # (byte, length)
    stripe_rule = ""  # of a finding about its stripes
    shape_words = ""  # what its stripes are called
    new_uuid = ""  # the command that gives a copy of it another UUID
    set_label = ""  # the command that changes the label
    scans = False  # what its repair takes for the superblock it looks for on the whole device: advice for what is known to be one
    restore = ""  # how a superblock that is gone comes back, of the device %s
    keys: Tuple[str, ...] = ()  # of a volume, that it alone has a use for
    without_journal: Tuple[str, ...] = ()  # options of a mount that runs without a journal
    cached: bool = False  # whether the kernel keeps the superblock of a mounted one in the page cache of its device, and writes it when it likes
    options: MountOptions

    def option_fault(self, _options: Sequence[str]) -> str:
        """Why these mount options are taken under no acceptance; empty where they are."""
        return ""

    def option_risks(self, options: Sequence[str], drives: Sequence[durability.Drive], accept: Sequence[str]) -> List[durability.Risk]:
        """What mount options do to what was acknowledged. Barriers are barriers, whatever the filesystem."""
        return durability.judge_options(options, drives, accept)

    def default_option(self, option: str) -> str:
        """The option by which a mount is again what it is by default, for one that option_risks() names."""
        return durability.default_option(option)

    def parse(self, raw: bytes) -> Optional[Filesystem]:
        """Read a superblock; None where there is none."""
        raise NotImplementedError

    def copy(self, raw: bytes) -> Optional[Filesystem]:
        """As parse(), for a copy of the superblock."""
        return self.parse(raw)

    def is_of_whole(self, _raw: bytes) -> bool:
        """Whether a copy of a superblock says that mkfs had ended when it was written."""
        return False

    def later_copies(self, _found: Filesystem) -> List[int]:
        """Where further copies lie of the filesystem of which one was found: those that its mkfs writes last."""
        return []

    def unfinished(self, _raw: bytes) -> Optional[Signature]:
        """What a superblock says whose filesystem was not made to the end; None where such a one does not exist."""
        return None

    def birth_place(self, _raw: bytes) -> int:
        """The byte of the device at which the time of its making is kept, by its superblock; -1 where the superblock keeps it itself."""
        return -1

    def born(self, _raw: bytes) -> int:
        """When it was made, in seconds since 1970, by what stands at birth_place(); 0 where that is not known."""
        return 0

    def mark(self, at: Callable[[int, int], bytes], base: int) -> Optional[Signature]:
        """The mark of a superblock in what *at* has of a device, where a filesystem would begin at byte *base*; None where the marks of all formats do."""
        raise NotImplementedError

    def copies(self, size: int) -> List[int]:
        """Where copies of the superblock lie on *size* bytes, as we make it."""
        raise NotImplementedError

    def least(self, _stride: int, _stripe_width: int) -> int:
        """Bytes of the smallest volume with these stripes, in its blocks."""
        return self.smallest

    def making_fault(self, _made: Making) -> str:
        """Why it could not be made so; empty where it can."""
        return ""

    def log_unit(self, _grain: int) -> int:
        """Bytes of the stripe unit that the log of one gets that is made over this grain; 0 where a log has none."""
        return 0

    def mount_fault(self, _log_unit: int, _options: Sequence[str]) -> str:
        """Why the kernel would not mount it with these options; empty where it does."""
        return ""

    def mkfs_options(self, made: Making) -> str:
        """The options of the tool that makes it."""
        raise NotImplementedError

    def shape(self, stride: int, stripe_width: int) -> Tuple[str, ...]:
        """How it allocates, each figure in words."""
        raise NotImplementedError

    def facts(self, filesystem: Filesystem) -> Dict[str, Any]:
        """What is returned of it."""
        return {"block_size": filesystem.block, "stride": filesystem.stride, "stripe_width": filesystem.stripe_width}

    def room(self, filesystem: Filesystem, size: int) -> int:
        """What it takes of a device of *size* bytes: a last group that is too small for its own tables is left out."""
        size = size // filesystem.block * filesystem.block
        rest = size % filesystem.group if filesystem.group else 0
        return size - rest if rest < filesystem.least_group else size

    def growth_limit(self, filesystem: Filesystem) -> str:
        """Why it does not grow beyond what it is said to be growable to."""
        raise NotImplementedError

    def grow_argv(self, device: str, mount: str, blocks: int) -> List[str]:
        """The command that makes a mounted one as large as *blocks* of its own."""
        raise NotImplementedError

    def changes(self, filesystem: Filesystem, size: int) -> List[Change]:
        """What is wrong with it on a device of *size* bytes, whoever made it."""
        raise NotImplementedError

    def grain_changes(self, _found: Filesystem, _grain: int) -> List[Change]:
        """What of it does not suit the flash below, beside its stripes."""
        return []

    def other_size(self, filesystem: Filesystem, size: int) -> List[Tuple[bool, str, str]]:
        """For changes(): another size than that of its device, as (bad, found, wanted)."""
        lacking = size - filesystem.blocks * filesystem.block
        if lacking < 0:
            text = "it is %s larger than what it stands on: its end is cut off"
            remedy = "the whole device; write nothing, and bring back what is missing"
            return [(True, text % human(-lacking), remedy)]
        if self.room(filesystem, size) - filesystem.blocks * filesystem.block < MIB:
            return []
        text = "it is %s smaller than what it stands on"
        return [(False, text % human(lacking), "all of it, by %s, which a mounted one takes as well" % self.grower)]

    def made_otherwise(self, filesystem: Filesystem, options: Sequence[str]) -> List[Change]:
        """What somebody changed since we made it. *options*: those that it is to be mounted with."""
        raise NotImplementedError

    def mounted_otherwise(self, filesystem: Filesystem, live: Sequence[str]) -> List[Change]:
        """How its mount differs from what it says itself. *live*: all options in force."""
        raise NotImplementedError
