# SPDX-License-Identifier: GPL-3.0-or-later
"""What LVM lists: physical volumes, volume groups and logical volumes. Pure data; sizes and addresses are bytes."""

from __future__ import annotations

from typing import NamedTuple, Tuple


class Pv(NamedTuple):
    """An LVM physical volume: *data_start* is its first extent's byte on the device (LVM's pe_start), *free* the bytes (start, length) that no LV has."""

    devno: str
    name: str
    uuid: str
    vg: str
    data_start: int
    extents: int
    free: Tuple[Tuple[int, int], ...] = ()
    mdas: int = 1  # areas of LVM's metadata: a second one is at its end


class Lv(NamedTuple):
    """A logical volume: *stripes* and *stripe_bytes* of its first segment (1 and 0: linear), and all different ones of its segments as *layouts*."""

    vg: str
    name: str
    size: int
    stripes: int
    stripe_bytes: int
    segments: int
    kinds: Tuple[str, ...] = ()
    active: bool = True
    layouts: Tuple[Tuple[int, int], ...] = ()


class Vg(NamedTuple):
    """A volume group."""

    name: str
    extent_bytes: int
    extents: int
    free: int


class Lvm(NamedTuple):
    """One LVM report."""

    pvs: Tuple[Pv, ...] = ()
    vgs: Tuple[Vg, ...] = ()
    lvs: Tuple[Lv, ...] = ()
