# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses and sizes of a stack that follow from the geometry of its devices. Pure, and all in bytes."""

from __future__ import annotations

from typing import List, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import START_UNIT, Geometry, partition_start
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, human, is_power_of_two, lcm, round_up

MIN_STRIPE = 4 * KIB
AUTO_STRIPE_MIN = 64 * KIB
AUTO_STRIPE_MAX = MIB


def data_alignment(geometry: Geometry) -> int:
    """Distance of a PV's first extent from the start of its partition: at least 1 MiB and a multiple of the grain."""
    return round_up(START_UNIT, geometry.grain_bytes)


def reserved_bytes(size_bytes: int, reserve: Mapping[str, float]) -> int:
    """What a reserve of ``{'percent': p}`` or ``{'bytes': n}`` asks for, rounded up."""
    return int(reserve["bytes"]) if "bytes" in reserve else -int(-size_bytes * reserve.get("percent", 0.0) // 100)


def partition_end(size_bytes: int, reserve: Mapping[str, float], geometry: Geometry) -> int:
    """The first byte after the partition, so that start..end is a whole number of grains.

    *reserve* is ``{'percent': p}`` or ``{'bytes': n}`` left free at the end. The last MiB is never used:
    it holds the backup table (33 sectors) and room for a replacement drive that is a few sectors smaller.
    """
    usable = size_bytes - max(reserved_bytes(size_bytes, reserve), START_UNIT)
    start = partition_start(geometry)
    # Extents are counted in MiB; ending the partition on one keeps legs of slightly different sizes equal.
    unit = lcm(START_UNIT, geometry.grain_bytes)
    if unit > 64 * MIB:
        unit = geometry.grain_bytes
    return start + (usable - start) // unit * unit if usable > start else start


def check_stripe(stripe_bytes: int, grain_bytes: int) -> None:
    """Refuse a stripe size that the flash or LVM cannot take. Raises PlumblineError."""
    faults = []
    if not is_power_of_two(stripe_bytes):
        faults.append("LVM takes only powers of two")
    if stripe_bytes < MIN_STRIPE:
        faults.append("the smallest is %s" % human(MIN_STRIPE))
    if stripe_bytes % grain_bytes:
        faults.append("it is no multiple of the flash's grain of %s" % human(grain_bytes))
    if faults:
        raise PlumblineError("stripe_size %s does not fit: %s" % (human(stripe_bytes), "; ".join(faults)) + _fitting(grain_bytes))


def _fitting(grain_bytes: int) -> str:
    sizes = [MIN_STRIPE << shift for shift in range(9) if (MIN_STRIPE << shift) % grain_bytes == 0]
    if not sizes:
        return "; no stripe size fits this grain: use layout 'separate'"
    return "; wanted one of " + ", ".join(human(size) for size in sizes)


def auto_stripe(grain_bytes: int) -> int:
    """Choose the stripe size: the smallest power of two from 64 KiB to 1 MiB that is a multiple of the grain.

    An erase block changes nothing: it is a multiple of whatever power of two divides it, and so of all smaller ones.
    Raises PlumblineError where nothing fits the grain.
    """
    fits = [size for size in _powers(AUTO_STRIPE_MIN, AUTO_STRIPE_MAX) if size % grain_bytes == 0]
    if not fits:
        raise PlumblineError(
            "no stripe size fits a grain of %s: LVM takes powers of two only, and none up to %s is a multiple of it; use layout 'separate'"
            % (human(grain_bytes), human(AUTO_STRIPE_MAX))
        )
    return fits[0]


def _powers(low: int, high: int) -> List[int]:
    sizes = []
    while low <= high:
        sizes.append(low)
        low *= 2
    return sizes


def extent_size(leg_bytes: int) -> int:
    """The extent size of a volume group: the power of two next below 1/1024 of a leg, 4 MiB to 128 MiB."""
    size = 4 * MIB
    while size < 128 * MIB and size * 2 * 1024 <= leg_bytes:
        size *= 2
    return size


def common_grain(geometries: List[Geometry]) -> int:
    """The grain of a stripe: the least common multiple of its legs' grains."""
    total = 1
    for geometry in geometries:
        total = lcm(total, geometry.grain_bytes)
    return total


def array_bytes(length: int, offset: int, chunk: int, disks: int) -> int:
    """The size of an array of RAID 10 with two copies side by side, over partitions of *length* whose data begin at *offset*."""
    return component_bytes(length, offset, chunk) * disks // 2


def component_bytes(length: int, offset: int, chunk: int) -> int:
    """What such an array uses of each of them: whole chunks."""
    return max(length - offset, 0) // chunk * chunk
