# SPDX-License-Identifier: GPL-3.0-or-later
"""The links between a host and a disk: what both ends can do, what they negotiated, and what that carries. Pure.

A speed is that of one lane in Mb/s (PCIe: MT/s), a width a number of lanes (SAS: phys of a port). None: it is not known, and nothing is made of it.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

SATA, SAS, PCIE = "SATA", "SAS", "PCIe"

# Bits of data among the bits of a lane. 8b/10b: SATA 3.4 section 9.2, SPL-4 section 5 up to 12 Gb/s, PCIe 2.0 section 4.2.1. SAS-4 at 22.5 Gb/s has
# 128 of 150 (SPL-4). PCIe 3.0 section 4.2.2 and later have 128 of 130; PCIe 6.0 at 64 GT/s has 236 bytes of TLPs in a flit of 256 (section 4.2.3).
_CODING = {22500: (128, 150), 8000: (128, 130), 16000: (128, 130), 32000: (128, 130), 64000: (236, 256)}
# Per cent of that which is left for data beside frames, handshakes and acknowledgements: what drives reach that the link holds up.
# SATA, SAS: 560 of 600 MB/s in data sheets of SSDs at 6.0 Gb/s. PCIe: headers of 24 bytes for 256 of data, and DLLPs (PCIe 3.0 sections 2.2 and 3.5);
# SSDs reach 3.5 of 3.94 GB/s at 8 GT/s x4.
_PROTOCOL = {SATA: 93, SAS: 93, PCIE: 90}


class LinkEnd(NamedTuple):
    """One end of a link, and the most that it can do."""

    name: str
    speed: Optional[int] = None
    width: Optional[int] = None


class Link(NamedTuple):
    """One link on the way from the host to a disk. *speed* and *width* are what was negotiated."""

    kind: str
    host: LinkEnd  # the end that is nearer to the host
    drive: LinkEnd
    speed: Optional[int] = None
    width: Optional[int] = None
    limit: Optional[int] = None  # the most that the host's end may negotiate now: the kernel slowed it after errors, or somebody set it
    trim: str = ""  # SATA: how the kernel sends TRIM, "unsupported", "unqueued", "queued" or "forced_unqueued" (Documentation/ABI, sysfs-ata)

    @property
    def target_speed(self) -> Optional[int]:
        return _least(self.host.speed, self.drive.speed)

    @property
    def target_width(self) -> Optional[int]:
        return _least(self.host.width, self.drive.width)

    @property
    def limited(self) -> bool:
        """Whether the host's end runs at a limit below what it can do. Where that is not known there is no limit to begin with (libata, ata_link_init())."""
        return self.limit is not None and self.speed == self.limit and (self.host.speed is None or self.limit < self.host.speed)

    @property
    def below(self) -> Optional[bool]:
        """Whether less was negotiated than both ends can do; None where that is not known.

        A host's end that does not say what it can do is left out. Of a drive's end that does not say, only a limit of the host's end tells.
        """
        speeds, widths = (self.speed, self.target_speed), (self.width, self.target_width)
        less = any(negotiated is not None and target is not None and negotiated < target for negotiated, target in (speeds, widths))
        if less or (self.drive.speed is None and self.limited):
            return True
        return None if None in speeds or (self.width is None and self.target_width is not None) else False

    @property
    def payload(self) -> Optional[int]:
        """Bytes of data per second that the link carries as it is."""
        return payload_bytes(self.kind, self.speed, self.width)

    @property
    def text(self) -> str:
        """What was negotiated, for people."""
        return "%s %s" % (self.kind, rate_text(self.kind, self.speed, self.width))

    def as_dict(self) -> Dict[str, Any]:
        target = {"speed": self.target_speed, "width": self.target_width}
        ends = {"host": self.host._asdict(), "drive": self.drive._asdict()}
        return dict(self._asdict(), **ends, target=target, below=self.below, payload_bytes=self.payload)


def _least(host: Optional[int], drive: Optional[int]) -> Optional[int]:
    """What both ends can do. A host's end that is not known is left out; a drive's end is not, since ports are often faster than drives."""
    return drive if host is None or drive is None else min(host, drive)


def payload_bytes(kind: str, speed: Optional[int], width: Optional[int]) -> Optional[int]:
    """Bytes of data per second that a link of this speed and width carries; None where one of them is not known."""
    if speed is None or width is None:
        return None
    data, line = _CODING.get(speed, (8, 10))
    return speed * 10**6 * width * data * _PROTOCOL[kind] // (8 * line * 100)


def rate_text(kind: str, speed: Optional[int], width: Optional[int]) -> str:
    """A speed and a width for people: ``6.0 Gb/s``, ``8.0 GT/s x4``."""
    words = "%.1f %s" % (speed / 1000, "GT/s" if kind == PCIE else "Gb/s") if speed else "unknown"
    return words + (" x%d" % width if width and (kind == PCIE or width > 1) else "")
