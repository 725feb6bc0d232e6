# SPDX-License-Identifier: GPL-3.0-or-later
"""An independent reading of a stack: sysfs, LVM's own reports, the kernel's tables, e2fsprogs, findmnt.

Nothing here comes from the collection. Everything is bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from .harness import Harness

SECTOR = 512  # of sysfs and device-mapper, whatever the logical block is


@dataclass(frozen=True)
class Leg:
    """One device of a volume: where the partition starts on it, and where the volume's first byte lies."""

    disk: str
    partition: int
    data: int


@dataclass(frozen=True)
class Volume:
    """A filesystem and what carries it. *chunk* is 0 where nothing is striped."""

    legs: tuple[Leg, ...]
    chunk: int
    size: int
    block: int
    stride: int
    stripe_width: int
    uuid: str
    target: str
    options: tuple[str, ...]
    fstab: str


# Prints sections that begin with "== name".
_SCRIPT = r"""
source=$(findmnt -no SOURCE --mountpoint {target})
top=$(basename "$(realpath "$source")")
echo "== mount"; findmnt -J -o SOURCE,TARGET,UUID,OPTIONS --mountpoint {target}
echo "== ext4"; dumpe2fs -h "$source" 2>/dev/null
echo "== top"; echo "$top $(cat /sys/class/block/$top/dev) $(blockdev --getsize64 "$source")"
echo "== table"; case $top in dm-*) dmsetup table "$source" ;; esac
echo "== pvs"; pvs --noheadings --units b --nosuffix -o pv_name,pe_start
echo "== segments"; case $top in dm-*) lvs --noheadings --units b --nosuffix -o stripes,stripe_size --segments "$source" ;; esac
echo "== parts"
for part in /sys/class/block/*/partition; do
    at=${{part%/partition}}
    echo "$(cat $at/dev) $(basename $at) $(basename "$(dirname "$(realpath $at)")") $(cat $at/start)"
done
echo "== fstab"; cat /etc/fstab
"""


def read_volume(harness: Harness, target: str) -> Volume:
    """Read what is mounted on *target* down to the disks."""
    sections: dict[str, str] = {}
    for piece in harness.must(_SCRIPT.format(target=target)).split("== ")[1:]:
        name, _newline, text = piece.partition("\n")
        sections[name] = text.strip("\n")
    mount = json.loads(sections["mount"])["filesystems"][0]
    parts = {}
    for line in sections["parts"].splitlines():
        devno, name, disk, start = line.split()
        parts[devno] = (name, disk, int(start) * SECTOR)
    _top, devno, size = sections["top"].split()
    if sections["table"]:
        legs, chunk = _striped(sections["table"], parts)
        stripes, stripe = (int(word) for word in sections["segments"].split())
        assert (stripes, stripe) == (len(legs), chunk), "LVM and the kernel disagree on the stripes"
        _check_pvs(sections["pvs"], parts, legs)
    else:
        _name, whole, first = parts[devno]
        legs, chunk = (Leg(whole, first, first),), 0
    ext4 = dict(re.findall(r"^([^:\n]+):\s+(.*)$", sections["ext4"], re.MULTILINE))
    return Volume(
        legs=legs,
        chunk=chunk,
        size=int(size),
        block=int(ext4["Block size"]),
        stride=int(ext4.get("RAID stride", 0)),
        stripe_width=int(ext4.get("RAID stripe width", 0)),
        uuid=ext4["Filesystem UUID"],
        target=mount["target"],
        options=tuple(mount["options"].split(",")),
        fstab=next((line for line in sections["fstab"].splitlines() if line.split()[1:2] == [target]), ""),
    )


def _striped(table: str, parts: dict[str, tuple[str, str, int]]) -> tuple[tuple[Leg, ...], int]:
    """``0 LENGTH striped N CHUNK DEVNO OFFSET …``: one line, for a volume in one piece."""
    words = table.split()
    assert words[0] == "0" and words[2] == "striped" and len(table.splitlines()) == 1, table
    legs = []
    for devno, offset in zip(words[5::2], words[6::2], strict=True):
        _name, disk, start = parts[devno]
        legs.append(Leg(disk, start, start + int(offset) * SECTOR))
    assert len(legs) == int(words[3])
    return tuple(legs), int(words[4]) * SECTOR


def _check_pvs(report: str, parts: dict[str, tuple[str, str, int]], legs: tuple[Leg, ...]) -> None:
    """No volume begins before its PV's data area."""
    starts = {line.split()[0].rsplit("/", 1)[-1]: int(line.split()[1]) for line in report.splitlines()}
    by_start = {(disk, start): name for name, disk, start in parts.values()}
    for leg in legs:
        assert leg.data >= leg.partition + starts[by_start[(leg.disk, leg.partition)]]


def pv_starts(harness: Harness) -> dict[str, int]:
    """pe_start of every PV, by kernel name."""
    report = harness.must("pvs --noheadings --units b --nosuffix -o pv_name,pe_start")
    return {line.split()[0].rsplit("/", 1)[-1]: int(line.split()[1]) for line in report.splitlines()}
