# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's and the host's own files, parsed: mounts, swaps, fstab, os-release. Pure."""

from __future__ import annotations

import re
from typing import Dict, List, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import FstabEntry, Mount
from ansible_collections.plumbline.ssd.plugins.module_utils._block.tool_output import _int

# Fields of fstab are separated by blanks and tabs only, fstab(5); str.split() would take a no-break space as well.
_FSTAB_FIELD = re.compile(r"[^ \t\r\n]+")
_OCTAL = re.compile(r"\\([0-7]{3})")


def unescape(text: str) -> str:
    r"""Undo the octal escapes of /proc/self/mountinfo and fstab (``\040`` is a blank)."""
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)


def parse_mountinfo(text: str, here: bool = True) -> List[Mount]:
    """Read mountinfo, proc(5). Only mounts of block devices are returned (major 0 is none)."""
    mounts = []
    for line in text.split("\n"):  # str.splitlines() knows ten more ends, which a name may hold
        left, dash, right = line.partition(" - ")
        words, behind = left.split(" "), right.split(" ")
        if not dash or len(words) < 6 or len(behind) < 3 or words[2].startswith("0:"):
            continue
        options = tuple(words[5].split(",")) + tuple(option for option in behind[2].split(",") if option not in words[5].split(","))
        mounts.append(Mount(words[2], unescape(words[4]), behind[0], options, here, unescape(words[3])))
    return mounts


def parse_mount_numbers(text: str) -> Dict[int, Tuple[str, str, int]]:
    """The number of each mount in mountinfo, proc(5) → (device number, mount point, number of the mount that it lies on).

    A number is that of one mount as long as it is there.
    """
    rows = (line.split(" ") for line in text.split("\n"))
    return {int(words[0]): (words[2], unescape(words[4]), _int(words[1])) for words in rows if len(words) >= 6 and words[0].isdigit()}


_SEVERAL = ("btrfs", "bcachefs")  # may lie on several devices; their mounts have a device number of no device, or that of the first one


def parse_mounts_of_several(text: str) -> List[Tuple[str, Mount]]:
    """Mounts in mountinfo of filesystems that may lie on several devices: (a device that is named, the mount without a number), for each of them.

    Btrfs names one device, bcachefs all of them with colons between.
    """
    mounts = []
    for line in text.split("\n"):
        left, dash, right = line.partition(" - ")
        words, behind = left.split(" "), right.split(" ")
        if dash and len(words) >= 6 and len(behind) >= 3 and behind[0] in _SEVERAL:
            options = tuple(dict.fromkeys(words[5].split(",") + behind[2].split(",")))
            mount = Mount("", unescape(words[4]), behind[0], options)
            mounts += [(unescape(source), mount) for source in (behind[1].split(":") if behind[0] == "bcachefs" else [behind[1]])]
    return mounts


def parse_covers(text: str) -> Dict[str, str]:
    """Mount points of block devices that another filesystem was mounted over, on them or on a directory above → what covers them.

    A mount that was made later and does not lie below the covered one's way down from the root hides it: whatever is written to the path goes there.
    Source: proc(5), mountinfo: the mount's number, its parent's, major:minor, root, mount point.
    """
    rows = {}
    for line in text.split("\n"):
        left, dash, right = line.partition(" - ")
        words, behind = left.split(" "), right.split(" ")
        if dash and len(words) >= 6 and len(behind) >= 2:
            rows[words[0]] = (words[1], words[2], unescape(words[4]), "%s (%s)" % (behind[0], unescape(behind[1])))
    covers = {}
    for number, (parent, devno, target, _what) in rows.items():
        if devno.startswith("0:"):
            continue
        way, up = {number}, parent
        while up in rows and up not in way:
            way.add(up)
            up = rows[up][0]
        for other, (below, its_devno, its_target, what) in rows.items():
            over = its_target == target if below == number else target.startswith(its_target.rstrip("/") + "/")
            if other not in way and below in way and over and its_devno != devno:
                covers[target] = what if its_target == target else "%s on %s" % (what, its_target)
    return covers


def parse_fstab(text: str) -> List[FstabEntry]:
    """Read fstab(5). Comments and lines with fewer than three fields are passed over."""
    entries = []
    for line in text.split("\n"):
        words = _FSTAB_FIELD.findall(line)
        if not words or words[0].startswith("#") or len(words) < 3:
            continue
        words += ["defaults", "0", "0"][len(words) - 3 :]
        numbers = [_int(word) for word in words[4:6]]
        entries.append(FstabEntry(unescape(words[0]), unescape(words[1]).rstrip("/") or "/", words[2], tuple(words[3].split(",")), numbers[0], numbers[1]))
    return entries


def parse_swaps(text: str) -> List[str]:
    """Read /proc/swaps: the paths in use."""
    return [unescape(line.split()[0]) for line in text.split("\n")[1:] if line.split()]


def parse_os_release(text: str) -> Tuple[str, ...]:
    """Read os-release(5): the distribution's ID, then those that it is like."""
    words: List[str] = []
    for key in ("ID", "ID_LIKE"):
        for line in text.splitlines():
            if line.startswith(key + "="):
                words += line.partition("=")[2].strip().strip("\"'").split()
    return tuple(words)
