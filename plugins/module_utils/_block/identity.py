# SPDX-License-Identifier: GPL-3.0-or-later
"""Identifiers that identify, and those that only look like one. Pure."""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

_PLACEHOLDERS = frozenset(
    "none null unknown unspecified invalid empty n/a na s/n sn default test serial serialnumber noserial noserialnumber notspecified notavailable "
    "notapplicable tobefilledbyoem systemserialnumber deadbeef".split()
)
_RUNS = ("0123456789abcdef" * 3, "1234567890abcdef" * 3, "1234567890" * 4, "0987654321" * 4, "abcdefghijklmnopqrstuvwxyz")


def is_placeholder(text: str) -> bool:
    """Whether an identifier is one that says nothing: empty, one character over and over, a run of digits, or a well-known filler.

    Drives without an EUI-64 or WWN answer zeros (PM9D3, BX500), bridges a run of digits (JMicron), boards a sentence.
    """
    bare = re.sub(r"^(?:eui|naa|uuid|nguid|t10)\.", "", text.strip().lower())
    digits = re.sub(r"[^0-9a-z]", "", bare)
    if not digits or set(digits) <= {"0"} or set(digits) <= {"f"} or bare in _PLACEHOLDERS or digits in _PLACEHOLDERS:
        return True
    return (len(digits) >= 4 and len(set(digits)) == 1) or (len(digits) >= 8 and any(digits in run for run in _RUNS))


def wwid_of(wwid: str) -> str:
    """A WWID, unless it is a placeholder, or one that is made of a serial that is.

    The kernel makes ``nvme.VENDOR-SERIAL-MODEL-NSID`` (in hex; nvme/host/core.c, wwid_show) of a drive without EUI-64 and NGUID,
    and a ``t10.`` name of an ATA drive is its model and serial (SAT-3, VPD page 83h).
    """
    if is_placeholder(wwid):
        return ""
    made_of = None
    if wwid.startswith("nvme."):
        words = wwid.split("-")
        with contextlib.suppress(ValueError):
            made_of = bytes.fromhex(words[1]).decode("ascii", "replace").replace("\0", "") if len(words) > 3 else ""
    elif wwid.startswith("t10."):
        made_of = wwid.split()[-1]
    return "" if made_of is not None and is_placeholder(made_of) else wwid


def device_path(name: str) -> str:
    """A name below /dev/disk/by-id, or a path, as a path."""
    return name if name.startswith("/") else "/dev/disk/by-id/" + name


class Identity(NamedTuple):
    """By what a disk is known. *wwid* is the kernel's stable identifier (EUI-64, NGUID, NAA or T10 name)."""

    wwid: str = ""
    serial: str = ""
    model: str = ""
    firmware: str = ""
    transport: str = ""
    controller: str = ""
    nsid: int = 0
    test: str = ""
    ata: bool = False  # it takes ATA commands, whatever translates them
    subsystem: str = ""  # the NVMe qualified name of its subsystem, which all ports of one SSD share

    @property
    def key(self) -> str:
        """The one string that stands for the disk, and for no other; empty where it has no stable identity."""
        if self.test:
            return "test:" + self.test
        if wwid_of(self.wwid):
            return "wwid:" + self.wwid
        return "serial:%s/%s" % (self.model, self.serial) if self.serial else ""


def stable_wwid(identity: Identity) -> str:
    """The WWID of a disk, unless it is a placeholder."""
    return wwid_of(identity.wwid)


def share_ssd(identity: Identity, other: Identity) -> bool:
    """Whether two NVMe namespaces lie on one SSD: behind one controller, or, where it has two ports, behind two with one model, serial and subsystem."""
    serial = (identity.model, identity.serial) == (other.model, other.serial) and not is_placeholder(identity.serial)
    if identity.subsystem and other.subsystem:  # targets over a network may have one serial for several
        serial = serial and identity.subsystem == other.subsystem
    return bool(identity.controller) and (identity.controller == other.controller or serial)
