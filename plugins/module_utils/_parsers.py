# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The host's own texts, parsed: LVM reports, device-mapper tables, mounts, fstab, wipefs. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import (
    FstabEntry,
    Lv,
    Lvm,
    Mount,
    Pv,
    Segment,
    Signature,
    Vg,
)

SECTOR = 512  # the unit of device-mapper tables and of sysfs sizes, whatever the logical block is

# The report and the fields that parse_lvm() reads; sizes in bytes.
LVM_REPORT = (
    "lvm", "fullreport", "--reportformat", "json", "--units", "b", "--nosuffix",
    "--configreport", "vg", "-o", "vg_name,vg_extent_size,vg_extent_count,vg_free_count",
    "--configreport", "pv", "-o", "pv_name,pv_uuid,vg_name,pe_start,pv_pe_count,pv_major,pv_minor",
    "--configreport", "lv", "-o", "vg_name,lv_name,lv_size,lv_active",
    "--configreport", "seg", "-o", "lv_name,segtype,stripes,stripe_size,seg_start",
    "--configreport", "pvseg", "-o", "pv_name",
)  # fmt: skip

# Fields of fstab are separated by blanks and tabs only, fstab(5); str.split() would take a no-break space as well.
_FSTAB_FIELD = re.compile(r"[^ \t\r\n]+")
_NUMBER = re.compile(r"-?[0-9]{1,30}")  # str.isdigit() also takes digits that int() does not, such as a superscript two
_OCTAL = re.compile(r"\\([0-7]{3})")


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
        for row in report.get("pv", []):
            devno = "%s:%s" % (row["pv_major"], row["pv_minor"])
            pvs.append(Pv(devno, str(row["pv_name"]), str(row["pv_uuid"]), str(row["vg_name"]), _int(row["pe_start"]), _int(row["pv_pe_count"])))
        for row in report.get("lv", []):
            segments = sorted((s for s in report.get("seg", []) if s["lv_name"] == row["lv_name"]), key=lambda s: _int(s["seg_start"]))
            lvs.append(_lv(row, vg_name, segments))
    return Lvm(tuple(pvs), tuple(vgs), tuple(lvs))


def _lv(row: Mapping[str, str], vg: str, segments: Sequence[Mapping[str, str]]) -> Lv:
    stripes, chunk = (_int(segments[0]["stripes"]), _int(segments[0]["stripe_size"])) if segments else (0, 0)
    kinds = tuple(sorted({str(s["segtype"]) for s in segments}))
    return Lv(str(row.get("vg_name") or vg), str(row["lv_name"]), _int(row["lv_size"]), stripes, chunk, len(segments), kinds, row.get("lv_active") == "active")


def _int(text: Any) -> int:
    return int(text) if _NUMBER.fullmatch(str(text)) else 0


def parse_dm_tables(text: str, names: Sequence[str] = ()) -> Dict[str, Tuple[Segment, ...]]:
    """Read ``dmsetup table``: the map's name → its segments, in bytes (Linux admin-guide/device-mapper).

    A map may be named ``a: 0 8 linear 8:0 0``. Where the *names* of the maps are given, a line is that of the longest that it begins with.
    """
    found: Dict[str, List[Segment]] = {}
    longest_first = sorted(names, key=len, reverse=True)
    for line in text.split("\n"):
        name = next((known for known in longest_first if line.startswith(known + ": ")), "") or line.partition(": ")[0]
        words = line[len(name) + 2 :].split()
        if len(words) < 3 or not all(map(_NUMBER.fullmatch, words[:2])):
            continue
        try:
            segment = _dm_segment(int(words[0]) * SECTOR, int(words[1]) * SECTOR, words[2], words[3:])
        except (ValueError, IndexError):  # a target of another kernel: where it lies is not known
            segment = Segment(int(words[0]) * SECTOR, int(words[1]) * SECTOR, words[2], 0, ())
        found.setdefault(name, []).append(segment)
    return {name: tuple(sorted(segments, key=lambda s: s.start)) for name, segments in found.items()}


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
    return Segment(start, length, target, 0, ())


def unescape(text: str) -> str:
    r"""Undo the octal escapes of /proc/self/mountinfo and fstab (``\040`` is a blank)."""
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)


def parse_mountinfo(text: str, here: bool = True) -> List[Mount]:
    """Read mountinfo, proc(5). Only mounts of block devices are returned (major 0 is none)."""
    mounts = []
    for line in text.split("\n"):  # str.splitlines() knows ten more ends, which a name may hold
        left, dash, right = line.partition(" - ")
        words, behind = left.split(" "), right.split(" ")
        if not dash or len(words) < 6 or len(behind) < 3 or words[2].startswith("0:"):
            continue
        options = tuple(words[5].split(",")) + tuple(option for option in behind[2].split(",") if option not in words[5].split(","))
        mounts.append(Mount(words[2], unescape(words[4]), behind[0], options, here))
    return mounts


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


def parse_wipefs(text: str) -> Dict[str, List[Signature]]:
    """Read ``wipefs --json``: the device's node name → what was recognised on it. An empty text is nothing found."""
    if not text.strip():
        return {}
    try:
        return _signatures(json.loads(text)["signatures"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise PlumblineError("the report of wipefs could not be read: %s" % text.strip()[:200]) from fault


def _signatures(rows: Sequence[Mapping[str, Any]]) -> Dict[str, List[Signature]]:
    found: Dict[str, List[Signature]] = {}
    for row in rows:
        offset = int(str(row.get("offset") or "0"), 0)
        kind, usage, identifier, label = (str(row.get(key) or "") for key in ("type", "usage", "uuid", "label"))
        signature = Signature(kind, usage, offset, identifier, label)
        found.setdefault(str(row.get("device") or "").rsplit("/", 1)[-1], []).append(signature)
    return found


def parse_os_release(text: str) -> Tuple[str, ...]:
    """Read os-release(5): the distribution's ID, then those that it is like."""
    words: List[str] = []
    for key in ("ID", "ID_LIKE"):
        for line in text.splitlines():
            if line.startswith(key + "="):
                words += line.partition("=")[2].strip().strip("\"'").split()
    return tuple(words)
