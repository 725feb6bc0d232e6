# SPDX-License-Identifier: GPL-3.0-or-later
"""What the flash wants, and who says so.

Every number of a device's geometry keeps its value, its source and how far it can be trusted.
The order of belief is: the operator, the drive's own command set (NVMe, SCSI), the kernel's
``queue/`` attributes, a value that everybody assumes. Pure: nothing here reads a device.

Sources: NVM Command Set Specification 1.0, Figure 97 (NPWG, NPWA, NPDG, NPDA, NOWS, all zero-based,
in logical blocks, valid where NSFEAT bit 4 is set); SBC-4 6.6.4 (Block Limits VPD page);
Linux Documentation/ABI/stable/sysfs-block.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, human, is_power_of_two, lcm, round_up

# No SSD that is sold programs less than 4 KiB at once; 512 reported says only that nothing was said.
ASSUMED_PAGE = 4 * KIB
# A grain above this is a figure of a SAN or a cloud, not a flash page.
MAX_GRAIN = MIB
# Partitions start on this, plus the device's own offset.
START_UNIT = MIB

# How far a value can be trusted.
STATED = "stated"  # the operator or the drive's own command set
REPORTED = "reported"  # the kernel's view, which bridges and controllers may colour
ASSUMED = "assumed"  # nothing reported it


class Value(NamedTuple):
    """One number of the geometry: *value* in bytes (None: unknown), its *source* and *confidence*."""

    value: Optional[int]
    source: str
    confidence: str

    def as_dict(self) -> Dict[str, Any]:
        return self._asdict()


class Limits(NamedTuple):
    """What the kernel's ``queue/`` directory says of a device, in bytes (None: not there)."""

    logical: int = 512
    physical: Optional[int] = None
    min_io: Optional[int] = None
    opt_io: Optional[int] = None
    alignment_offset: Optional[int] = None
    discard_granularity: Optional[int] = None
    discard_alignment: Optional[int] = None


class Geometry(NamedTuple):
    """The record from which every address of a stack follows. All members in bytes."""

    logical: Value
    physical: Value
    grain: Value
    reported_grain: Value
    start_alignment: Value
    alignment_offset: Value
    optimal_write: Value
    discard_granularity: Value
    notes: Tuple[str, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        members = {name: getattr(self, name).as_dict() for name in self._fields if name != "notes"}
        members["notes"] = list(self.notes)
        return members

    @property
    def grain_bytes(self) -> int:
        return self.grain.value or ASSUMED_PAGE

    @property
    def logical_bytes(self) -> int:
        return self.logical.value or 512

    @property
    def offset_bytes(self) -> int:
        """The phase at which the flash's own pages begin: alignment_offset modulo the grain."""
        return (self.alignment_offset.value or 0) % self.grain_bytes


def nvme_units(id_ns: Mapping[str, int], logical: int) -> Dict[str, int]:
    """Turn the zero-based block counts of ``id-ns`` into bytes.

    Returns ``npwg``, ``npwa``, ``npdg``, ``npda``, ``nows``, those that the drive says are there by OPTPERF. That is bit 4 of NSFEAT, and
    bits 5:4 since NVMe 2.1: with 2 there are NPWG, NPWA and NOWS, and what is discarded together stands in NPDGL of another page.
    """
    fields = (), ("npwg", "npwa", "npdg", "npda", "nows"), ("npwg", "npwa", "nows"), ("npwg", "npwa", "npdg", "npda", "nows")
    return {name: (id_ns[name] + 1) * logical for name in fields[(id_ns.get("nsfeat") or 0) >> 4 & 0x3] if id_ns.get(name) is not None}


def trusted_optimal_io(limits: Limits) -> bool:
    """Whether ``optimal_io_size`` may be believed.

    Only a power of two, a multiple of the physical block and of min_io, and more than one logical block
    is a size; 33,553,920 and other multiples of 65,535 sectors are fill values of USB bridges.
    32 MiB from NOWS 65,535 is a fill value as well, so nothing above 16 MiB is believed.
    """
    size = limits.opt_io or 0
    physical = limits.physical or limits.logical
    min_io = limits.min_io or physical
    return is_power_of_two(size) and size > limits.logical and size % physical == 0 and size % min_io == 0 and size <= 16 * MIB


def make_geometry(
    limits: Limits,
    id_ns: Optional[Mapping[str, int]] = None,
    vpd: Optional[Mapping[str, int]] = None,
    override: Optional[Mapping[str, int]] = None,
) -> Geometry:
    """Build the geometry of one device.

    *id_ns* are the raw NVMe Identify Namespace fields, *vpd* the SCSI Block Limits fields in bytes
    (``granularity``, ``optimal``, ``unmap_granularity``), *override* the operator's own words in bytes
    (``grain``, ``alignment_offset``).
    """
    notes: List[str] = []
    asked = dict(override or {})
    nvme = nvme_units(id_ns or {}, limits.logical)
    scsi = dict(vpd or {})

    logical = Value(limits.logical, "sysfs logical_block_size", REPORTED)
    physical = (
        Value(limits.physical, "sysfs physical_block_size", REPORTED)
        if limits.physical
        else Value(limits.logical, "logical_block_size, no physical one reported", ASSUMED)
    )
    grain, reported = _grain(limits, nvme, scsi, asked, notes)
    start = _start_alignment(nvme, grain)
    offset = _first(
        _asked(asked, "alignment_offset"),
        _reported(limits.alignment_offset, "sysfs alignment_offset"),
        Value(0, "no alignment_offset reported", ASSUMED),
    )
    if limits.opt_io and not trusted_optimal_io(limits):
        notes.append("optimal_io_size %d is not believed: %s" % (limits.opt_io, _opt_io_fault(limits)))
    optimal = _first(
        Value(nvme["nows"], "nvme NOWS", STATED) if _advises(nvme.get("nows")) else None,
        _reported(limits.opt_io if trusted_optimal_io(limits) else None, "sysfs optimal_io_size"),
        Value(None, "nobody says", ASSUMED),
    )
    if nvme.get("nows") and not _advises(nvme.get("nows")):
        notes.append("NOWS of %s is not believed: larger than 16 MiB" % human(nvme["nows"]))
    discard = _first(
        Value(nvme["npdg"], "nvme NPDG", STATED) if nvme.get("npdg") else None,
        _reported(scsi.get("unmap_granularity") or None, "scsi vpd b0 unmap granularity"),
        _reported(limits.discard_granularity or None, "sysfs discard_granularity"),
        Value(None, "no discard reported", ASSUMED),
    )
    return Geometry(
        logical=logical,
        physical=physical,
        grain=grain,
        reported_grain=reported,
        start_alignment=start,
        alignment_offset=offset,
        optimal_write=optimal,
        discard_granularity=discard,
        notes=tuple(notes),
    )


def _first(*candidates: Optional[Value]) -> Value:
    for candidate in candidates:
        if candidate is not None:
            return candidate
    raise AssertionError("the last candidate is always there")


def _asked(asked: Mapping[str, int], name: str) -> Optional[Value]:
    return Value(asked[name], "operator", STATED) if asked.get(name) is not None else None


def _reported(value: Optional[int], source: str) -> Optional[Value]:
    return Value(value, source, REPORTED) if value is not None else None


def _advises(nows: Optional[int]) -> bool:
    return bool(nows) and (nows or 0) <= 16 * MIB


def _opt_io_fault(limits: Limits) -> str:
    size = limits.opt_io or 0
    if size <= limits.logical:
        return "one logical block says nothing"
    if size % 65535 == 0:
        return "a multiple of 65,535 sectors is a bridge's fill value"
    if not is_power_of_two(size):
        return "not a power of two"
    if size > 16 * MIB:
        return "larger than 16 MiB"
    return "no multiple of the physical block and the minimum I/O size"


def _grain(limits: Limits, nvme: Mapping[str, int], scsi: Mapping[str, int], asked: Mapping[str, int], notes: List[str]) -> Tuple[Value, Value]:
    """The grain to build on, and the one that was reported (below 4 KiB that is no information)."""
    parts: List[Tuple[str, int]] = [("logical_block_size", limits.logical)]
    for source, value in (
        ("physical_block_size", limits.physical),
        ("nvme NPWG", nvme.get("npwg")),
        ("nvme NPWA", nvme.get("npwa")),
        ("scsi vpd b0 granularity", scsi.get("granularity")),
        ("minimum_io_size", limits.min_io),
    ):
        if not value:
            continue
        if value % limits.logical:
            notes.append("%s of %d is not believed: no multiple of the logical block of %d" % (source, value, limits.logical))
        elif value > MAX_GRAIN:
            notes.append("%s of %s is not believed as a grain: more than %s" % (source, human(value), human(MAX_GRAIN)))
        else:
            parts.append((source, value))
    total, names = parts[0][1], [parts[0][0]]
    for source, value in parts[1:]:
        joined = lcm(total, value)
        if joined > MAX_GRAIN:
            notes.append("%s of %s is left out of the grain: the common multiple would exceed %s" % (source, human(value), human(MAX_GRAIN)))
            continue
        if joined > total:
            names = [source]
        elif value == total and value > limits.logical:
            names.append(source)
        total = joined
    stated = any(name.startswith("nvme") for name in names)
    reported = Value(total, " = ".join(names), STATED if stated else REPORTED)
    own = _asked(asked, "grain")
    if own is not None:
        return own, reported
    if total < ASSUMED_PAGE:
        return Value(lcm(total, ASSUMED_PAGE), "assumed: the device reports %d, which says nothing of its flash page" % total, ASSUMED), reported
    return reported, reported


def _start_alignment(nvme: Mapping[str, int], grain: Value) -> Value:
    """What the drive itself asks of a start; the collection asks for the whole grain, which is a multiple."""
    if nvme.get("npwa"):
        return Value(nvme["npwa"], "nvme NPWA", STATED)
    return grain


def partition_start(geometry: Geometry) -> int:
    """The first byte of the first partition.

    The first address of at least 1 MiB that is congruent to the device's alignment_offset modulo the grain,
    on a multiple of 1 MiB (plus that offset) wherever such an address lies within the first 64 MiB.
    Raises PlumblineError for alignment_offset -1, by which the kernel says that it is a contradiction.
    """
    offset = geometry.alignment_offset.value or 0
    if offset < 0:
        raise PlumblineError("alignment_offset is -1: the layers below this device contradict each other, so no address on it is aligned")
    unit = lcm(START_UNIT, geometry.grain_bytes)
    if unit > 64 * MIB:
        unit = geometry.grain_bytes
    start = round_up(START_UNIT, unit) + geometry.offset_bytes
    if start % geometry.logical_bytes:
        raise PlumblineError("alignment_offset of %d is no multiple of the logical block of %d bytes" % (offset, geometry.logical_bytes))
    return start
