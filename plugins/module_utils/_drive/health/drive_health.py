# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive reports of its health, by whichever tool. Pure data: None means that it was not reported."""

from __future__ import annotations

import re
from collections import Counter
from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import is_placeholder, wwid_of


class Attribute(NamedTuple):
    """One row of the ATA attribute table. *name*: as smartctl prints it; *prefail*: below its threshold the drive expects to fail; *raw*: None for a filler.

    *text*: the raw value as smartctl prints it, which takes it apart if it has several parts.
    """

    id: int
    name: str
    value: int
    thresh: int
    raw: Optional[int]
    prefail: bool
    failing: bool  # at or below its threshold now
    text: str = ""

    @property
    def counted(self) -> Optional[int]:
        """The raw value if it counts one thing: all of it, or what is before a bracket. Of other parts nobody says which one counts."""
        if self.raw is None or not self.text or self.text.isdigit():
            return self.raw
        plain = re.fullmatch(r"([0-9]{1,15}) \(.*\)", self.text)
        return int(plain.group(1)) if plain else None


class Health(NamedTuple):
    """What was read of one drive. *fault*: why nothing was; the members below it then say nothing."""

    fault: str = ""
    source: str = ""  # smartctl, nvme, storcli, sysfs
    protocol: str = ""  # ATA, SCSI, NVMe, eMMC
    model: str = ""
    serial: str = ""
    firmware: str = ""
    wwn: str = ""  # as the kernel writes it: naa.…, eui.…
    volume: bool = False  # of a controller, and no drive
    unsupported: bool = False  # the fault will stay: there is no account of its health, or nothing on the host that could ask for it
    virtual: str = ""  # who makes it, if it is a virtual disk
    left_out: str = ""  # why the operator leaves it out, if so; it is not read then
    passed: Optional[bool] = None  # the drive's own verdict; NVMe has none but the bits of its critical warning
    exception: str = ""  # SCSI: what it reports of itself, asc and ascq as four hexadecimal digits; "alert" where a controller does not say which
    exit_bits: int = 0  # of smartctl, bits 2 to 7
    critical_warning: Optional[int] = None  # NVMe, bits
    spare: Optional[int] = None  # percent left
    spare_threshold: Optional[int] = None  # percent
    used: Optional[int] = None  # percent of the rated endurance; whole numbers, above 100 as well
    used_source: str = ""
    wear_doubt: str = ""  # why that is not known although the drive says something of it
    named: bool = True  # False: an SSD whose attributes smartctl names by their numbers alone, so that its counters are a guess
    temperature: Optional[int] = None  # degrees Celsius
    temperature_limit: Optional[int] = None  # the drive's own
    counters: Mapping[str, int] = {}
    attributes: Tuple[Attribute, ...] = ()
    self_test_passed: Optional[bool] = None  # the latest extended one that came to an end
    life: Tuple[int, ...] = ()  # eMMC, type A and B: 0 undefined, 1 to 10 tenths of the rated life, 11 past it
    pre_eol: int = 0  # eMMC: 0 undefined, 1 normal, 2 warning, 3 urgent
    link_speed: Optional[int] = None  # Mb/s that its SATA or SAS link has
    link_most: Optional[int] = None  # Mb/s that the drive can do

    @property
    def read(self) -> bool:
        return not self.fault

    @property
    def not_applicable(self) -> bool:
        """A virtual disk that has no health of its own to be read."""
        return bool(self.virtual) and not self.read and self.unsupported

    @property
    def key(self) -> str:
        """By what the drive is known from run to run; empty where it has no stable identity."""
        if self.wwn:
            return "wwn:" + self.wwn
        return "" if is_placeholder(self.serial) else "serial:%s/%s" % (self.model, self.serial)


class Reading(NamedTuple):
    """What is kept of one reading, to compare later ones with. *when*: seconds since 1970."""

    when: int
    model: str
    serial: str
    firmware: str
    used: Optional[int]
    counters: Mapping[str, int]


class Source(NamedTuple):
    """Where a drive was read. *names*: the disks that the kernel shows of it; *member*: the type by which a controller's member is addressed."""

    device: str
    names: Tuple[str, ...] = ()
    member: str = ""

    @property
    def kind(self) -> str:
        """By which way: the kernel, smartctl through a controller, or the controller's tool."""
        return "member" if self.member and self.member != "storcli" else self.member


def same_drive(drive: Tuple[Source, Health], other: Tuple[Source, Health]) -> bool:
    """Whether two readings are of one drive: by WWN, else by serial.

    A serial joins only readings by different ways: controllers exist that give all of their drives one serial, and two disks that the kernel shows
    are two.
    """
    (source, first), (other_source, second) = drive, other
    if first.volume or second.volume:
        return False
    if wwid_of(first.wwn) and wwid_of(second.wwn):
        return first.wwn == second.wwn
    if is_placeholder(first.serial) or first.serial != second.serial or source.kind == other_source.kind:
        return False
    return first.model.startswith(second.model) or second.model.startswith(first.model)


def identified(drives: Sequence[Tuple[Source, Health]]) -> Dict[str, Health]:
    """The drives that were read, by their keys. A key that two have identifies neither: readings of the one say nothing of the other."""
    count = Counter(health.key for _source, health in drives)
    return {health.key: health for _source, health in drives if health.read and health.key and count[health.key] == 1}
