# SPDX-License-Identifier: GPL-3.0-or-later
"""What tools print, parsed: LVM reports, device-mapper tables, wipefs. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv, Lvm, Pv, Vg
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

SECTOR = 512  # the unit of device-mapper tables and of sysfs sizes, whatever the logical block is

# The report and the fields that parse_lvm() reads; sizes in bytes.
LVM_REPORT = (
    "lvm", "fullreport", "--reportformat", "json", "--units", "b", "--nosuffix",
    "--configreport", "vg", "-o", "vg_name,vg_extent_size,vg_extent_count,vg_free_count",
    "--configreport", "pv", "-o", "pv_name,pv_uuid,vg_name,pe_start,pv_pe_count,pv_major,pv_minor,pv_mda_count",
    "--configreport", "lv", "-o", "vg_name,lv_name,lv_size,lv_active",
    "--configreport", "seg", "-o", "lv_name,segtype,stripes,stripe_size,seg_start",
    "--configreport", "pvseg", "-o", "pv_name,pvseg_start,pvseg_size,segtype",
)  # fmt: skip

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile(r"-?[0-9]{1,30}")  # str.isdigit() also takes digits that int() does not, such as a superscript two


def parse_lvm_settings(text: str) -> Dict[str, Tuple[str, ...]]:
    """What lvmconfig prints of a section: key → its strings, or its one number. A quote and a backslash in a string have a backslash before them."""
    settings = {}
    for key, equals, value in (line.strip().partition("=") for line in text.splitlines()):
        if equals:
            settings[key] = tuple(re.sub(r'\\(["\\])', r"\1", quoted) for quoted in _QUOTED.findall(value)) if '"' in value else (value,)
    return settings


def parse_lvm(text: str) -> Lvm:
    """Read the JSON of LVM_REPORT. Raises PlumblineError for anything that is not that."""
    try:
        return _lvm(json.loads(text)["report"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise PlumblineError("the report of lvm could not be read: %s" % text.strip()[:200]) from fault


def _lvm(reports: Sequence[Mapping[str, Sequence[Mapping[str, str]]]]) -> Lvm:
    pvs: List[Pv] = []
    vgs: List[Vg] = []
    lvs: List[Lv] = []
    for report in reports:
        vg_name = ""
        for row in report.get("vg", []):
            vg_name = str(row["vg_name"])
            vgs.append(Vg(vg_name, _int(row["vg_extent_size"]), _int(row["vg_extent_count"]), _int(row["vg_free_count"])))
        extent = vgs[-1].extent_bytes if report.get("vg") else 0
        for row in report.get("pv", []):
            devno = "%s:%s" % (row["pv_major"], row["pv_minor"])
            start = _int(row["pe_start"])
            free = [
                (start + _int(run["pvseg_start"]) * extent, _int(run["pvseg_size"]) * extent)
                for run in report.get("pvseg", [])
                if run["pv_name"] == row["pv_name"] and run.get("segtype") == "free" and extent
            ]
            vg = str(row["vg_name"]) if row["vg_name"] != "[unknown]" else ""  # its metadata cannot be read
            mdas = _int(row.get("pv_mda_count", 1))
            pvs.append(Pv(devno, str(row["pv_name"]), str(row["pv_uuid"]), vg, start, _int(row["pv_pe_count"]), tuple(free), mdas))
        for row in report.get("lv", []):
            segments = sorted((s for s in report.get("seg", []) if s["lv_name"] == row["lv_name"]), key=lambda s: _int(s["seg_start"]))
            lvs.append(_lv(row, vg_name, segments))
    return Lvm(tuple(pvs), tuple(vgs), tuple(lvs))


def _lv(row: Mapping[str, str], vg: str, segments: Sequence[Mapping[str, str]]) -> Lv:
    layouts = tuple(dict.fromkeys((_int(s["stripes"]), _int(s["stripe_size"])) for s in segments))
    stripes, chunk = layouts[0] if layouts else (0, 0)
    kinds = tuple(sorted({str(s["segtype"]) for s in segments}))
    name, size, active = str(row["lv_name"]), _int(row["lv_size"]), row.get("lv_active") == "active"
    return Lv(str(row.get("vg_name") or vg), name, size, stripes, chunk, len(segments), kinds, active, layouts)


def _int(text: Any) -> int:
    return int(text) if _NUMBER.fullmatch(str(text)) else 0


def parse_dm_tables(text: str, names: Sequence[str] = ()) -> Dict[str, Tuple[Segment, ...]]:
    """Read ``dmsetup table``: the map's name → its segments, in bytes (Linux admin-guide/device-mapper). *names*: see lines_of_maps()."""
    by_map: Dict[str, List[Segment]] = {}
    for name, words in lines_of_maps(text, names):
        try:
            segment = _dm_segment(int(words[0]) * SECTOR, int(words[1]) * SECTOR, words[2], words[3:])
        except (ValueError, IndexError):  # a target of another kernel: where it lies is not known
            segment = Segment(int(words[0]) * SECTOR, int(words[1]) * SECTOR, words[2], 0, ())
        by_map.setdefault(name, []).append(segment)
    return {name: tuple(sorted(segments, key=lambda s: s.start)) for name, segments in by_map.items()}


def lines_of_maps(text: str, names: Sequence[str] = ()) -> Iterator[Tuple[str, List[str]]]:
    """The lines of ``dmsetup table`` or ``dmsetup status``: (the map's name, the words behind it), of which the first two are numbers and the third the target.

    A map may be named ``a: 0 8 linear 8:0 0``. Where the *names* of the maps are given, a line is that of the longest that it begins with.
    """
    longest_first = sorted(names, key=len, reverse=True)
    for line in text.split("\n"):
        name = next((known for known in longest_first if line.startswith(known + ": ")), "") or line.partition(": ")[0]
        words = line[len(name) + 2 :].split()
        if len(words) >= 3 and all(map(_NUMBER.fullmatch, words[:2])):
            yield name, words


def _dm_segment(start: int, length: int, target: str, args: Sequence[str]) -> Segment:
    if target in ("linear", "delay", "flakey", "log-writes") and len(args) >= 1:
        offset = int(args[1]) * SECTOR if len(args) > 1 and _NUMBER.fullmatch(args[1]) else 0
        return Segment(start, length, target, 0, ((args[0], offset),))
    if target == "striped" and len(args) >= 4:
        count = int(args[0])
        legs = tuple((args[2 + 2 * leg], int(args[3 + 2 * leg]) * SECTOR) for leg in range(count))
        return Segment(start, length, target, int(args[1]) * SECTOR, legs)
    if target == "crypt" and len(args) >= 5:
        return Segment(start, length, target, 0, ((args[3], int(args[4]) * SECTOR),))
    if target == "raid":
        return _dm_raid(start, length, args)
    return Segment(start, length, target, 0, ())


def _dm_raid(start: int, length: int, args: Sequence[str]) -> Segment:
    """A segment of dm-raid: ``raid LEVEL COUNT PARAMETERS… DEVICES META DATA META DATA…`` (Linux admin-guide/device-mapper/dm-raid.rst).

    The first parameter is the chunk in sectors. A leg that is absent is a dash. A raid10 is followed in its usual layout alone, two copies side by
    side on an even number of legs.
    """
    level, count = args[0], int(args[1])
    parameters, rest = args[2 : 2 + count], args[2 + count :]
    named = {parameters[number]: parameters[number + 1] for number in range(1, count - 1)}  # some have no value: each word is looked at as a name
    offset = int(named.get("data_offset", "0")) * SECTOR
    legs = tuple((devno, offset) for devno in rest[2 : 2 + 2 * int(rest[0]) : 2])
    kind = level.split("_")[0]
    plain = named.get("raid10_format", "near") == "near" and named.get("raid10_copies", "2") == "2" and len(legs) % 2 == 0
    if kind not in ("raid0", "raid1", "raid4", "raid5", "raid6") and not (kind == "raid10" and plain):
        return Segment(start, length, level, 0, ())
    there = tuple(leg for leg in legs if leg[0] != "-")
    return Segment(start, length, kind, 0 if kind == "raid1" else int(parameters[0]) * SECTOR, there, len(legs), len(legs) - len(there))


def parse_wipefs(text: str) -> Dict[str, List[Signature]]:
    """Read ``wipefs --json``: the device's node name → what was recognised on it. An empty text is nothing found."""
    if not text.strip():
        return {}
    try:
        return _signatures(json.loads(text)["signatures"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise PlumblineError("the report of wipefs could not be read: %s" % text.strip()[:200]) from fault


def _signatures(rows: Sequence[Mapping[str, Any]]) -> Dict[str, List[Signature]]:
    by_device: Dict[str, List[Signature]] = {}
    for row in rows:
        offset = int(str(row.get("offset") or "0"), 0)
        kind, usage, identifier, label = (str(row.get(key) or "") for key in ("type", "usage", "uuid", "label"))
        signature = Signature(kind, usage, offset, identifier, label)
        by_device.setdefault(str(row.get("device") or "").rsplit("/", 1)[-1], []).append(signature)
    return by_device
