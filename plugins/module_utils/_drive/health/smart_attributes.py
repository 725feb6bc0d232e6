# SPDX-License-Identifier: GPL-3.0-or-later
"""What the vendors' ATA attributes mean: by the name that smartctl's database gives them, and by the family where a name has several meanings. Pure.

A number says nothing: 199 is errors on the cable, and on a Barefoot 3 what the host wrote, in GiB. A unit is one only if the name has it. Sources:
smartmontools' drivedb.h for names, families and raw formats; beside a row the vendor's document, or the public report. What no row says stays unknown.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Attribute

_GIB, _MIB = 1 << 30, 1 << 20
_APART = 5  # percent by which two accounts of wear may differ: one is rounded, or a step behind


class Counter(NamedTuple):
    """Attributes that count the same. *unit*: what a count is multiplied by; *families*: where the names mean that (empty: everywhere)."""

    what: str
    names: Tuple[str, ...]
    unit: int = 1
    families: str = ""


COUNTERS = (
    Counter("reallocated", (
        "Reallocated_Sector_Ct", "Retired_Block_Count", "Reallocate_NAND_Blk_Cnt", "Reallocated_Block_Count", "Realloc_Flash_Blocks_Ct", "New_Bad_Blk_Count",
        "New_Bad_Block_Count",
    )),
    Counter("reallocated", ("Runtime_Bad_Block",), families="Indilinx Barefoot 3 .*|OCZ Intrepid .*"),
    # Not Total_Unc_NAND_Reads: beside it a Barefoot 3 counts what its RAID recovered.
    Counter("uncorrectable_errors", (
        "Reported_Uncorrect", "Reported_Uncorr_Errors", "Reported_UE_Counts", "Uncorrectable_Error_Cnt", "Uncorrectable_ECC_Ct", "Uncorrectable_Err_Ct",
        "Uncor_Read_Error_Ct", "UECC_Sector_Count", "Uncorrectable_Sectors", "Total_Unc_Read_Failures",
    )),
    # On a WD or SanDisk it counts corrections as well (drivedb.h, "WD Blue / Red / Green SSDs": "Detection/Correction Count").
    Counter("end_to_end_errors", ("End-to-End_Error", "End-to-End_Error_Count"), families=r"(?!WD |Marvell based SanDisk ).*"),
    # Not Current_Pending_ECC_Cnt, which goes from 0 to 1 and back on a Crucial MX500 (drivedb.h, "Crucial/Micron Client SSDs").
    Counter("pending", ("Current_Pending_Sector", "Pending_Sector_Count")),
    Counter("offline_uncorrectable", ("Offline_Uncorrectable", "Offline_UErr_Media_Scan")),
    Counter("crc_errors", (
        "UDMA_CRC_Error_Count", "CRC_Error_Count", "SATA_CRC_Error_Count", "SATA_CRC_Error", "SATA_FIS_CRC_Errors", "SATA_Error_Ct_CRC", "CRC_Errors",
    )),
    Counter("unsafe_shutdowns", (
        "Unsafe_Shutdown_Count", "Unexpect_Power_Loss_Ct", "Unexpect_Power_Loss_Cnt", "Unexpect_Power_Loss", "Unexpected_Power_Loss",
        "Unexpected_Pwr_Loss_Ct", "Unexpected_Pwr_Loss_Cnt", "Unexpect_PwrLoss_Ct", "Unexpected_Power_Cycle", "Pwr_Cycle_Ct_Unplanned",
    )),
    Counter("mean_erases", (
        "Ave_Block-Erase_Count", "Avg_Block-Erase_Count", "Average_Block-Erase_Ct", "Avg_Write/Erase_Count", "Average_Erase_Count", "Avg_Erase_Count",
        "Average_PE_Cycles", "Average_PE_Cycles_TLC", "Average_PE_Count", "Avg_Program/Erase_Ct",
    )),
    Counter("mean_erases", ("Wear_Leveling_Count",), families="Crucial/Micron RealSSD .*"),
    Counter("host_bytes_written", ("Host_Writes_32MiB",), 32 * _MIB),
    Counter("host_bytes_written", ("Host_Writes_MiB",), _MIB),
    Counter("host_bytes_written", ("Host_Writes_GiB", "Lifetime_Writes_GiB", "Total_Writes_GiB"), _GIB),
    Counter("host_bytes_written", ("Total_Writes_GB", "Lifetime_Wts_Frm_Hst_GB"), 10**9),
    # smartctl's default name for 241. Only where the database means it: a Toshiba HK4R counts 32 MiB (smartmontools issue 312), as Dell's Intel does.
    Counter("host_bytes_written", ("Total_LBAs_Written",), 512, r"Samsung based .*|Crucial/Micron .*|Micron .*|SanDisk based .*"),
    # Not Flash_Writes_GiB of a Phison: an A400 says 1886 of it beside 7389 GiB from the host.
    Counter("flash_bytes_written", ("Flash_Writes_32MiB", "NAND_Writes_32MiB"), 32 * _MIB),
    Counter("flash_bytes_written", ("NAND_Writes_1GiB", "NAND_Writes_GiB", "Total_NAND_Writes_GiB", "Total_NAND_Prog_Ct_GiB"), _GIB),
    Counter("flash_bytes_written", ("Lifetime_Wts_To_Flsh_GB", "NAND_GB_Written_TLC"), 10**9),
    Counter("host_pages", ("Host_Program_Page_Count",)),
    Counter("background_pages", ("Bckgnd_Program_Page_Cnt", "FTL_Program_Page_Count")),
)  # fmt: skip

# What counts events may stand in two places, as errors by kind do. Other counters say one thing: two that differ say nothing.
_EVENTS = ("reallocated", "uncorrectable_errors", "end_to_end_errors", "pending", "offline_uncorrectable", "crc_errors", "unsafe_shutdowns")


def _value_left(value: int, raw: Optional[int]) -> Optional[int]:
    return 100 - value


def _value_left_raw_silent(value: int, raw: Optional[int]) -> Optional[int]:
    return 100 - value if raw in (0, value) else None


def _value_and_raw_left(value: int, raw: Optional[int]) -> Optional[int]:
    """Both say what is left. Firmware where they differ has turned one of them around, and nobody says which."""
    return 100 - value if raw == value else None


def _raw_used(value: int, raw: Optional[int]) -> Optional[int]:
    """The raw value is what is used, beyond 100 as well, and the value what is left."""
    return raw if raw is not None and raw <= 255 and value == max(100 - raw, 0) else None


def _raw_left(value: int, raw: Optional[int]) -> Optional[int]:
    """The raw value is what is left, whatever firmware makes of the value: the same, always 100, or what is used. A raw value of 0 may as well say nothing."""
    return 100 - raw if raw is not None and raw <= 100 and (raw or not value) else None


def _hundredths(value: int, raw: Optional[int]) -> Optional[int]:
    return raw // 100 if raw is not None and raw < 25600 else None


def _three_words(value: int, raw: Optional[int]) -> Optional[int]:
    """By what was written, by erases, and the first again; each percent in the upper byte, hundredths in the lower one. One byte alone is the percent."""
    if raw is None or raw <= 255:
        return raw
    words = [raw >> shift & 0xFFFF for shift in (32, 16, 0)]
    return words[0] >> 8 if raw < 1 << 48 and words[0] == words[2] and all(word & 0xFF < 100 for word in words) else None


def _words_or_hundredths(value: int, raw: Optional[int]) -> Optional[int]:
    """Some firmware writes those words as hundredths alone: known while both readings give the same."""
    used = _three_words(value, raw) if raw is not None and raw > 255 else None
    return used if raw is not None and used == (raw & 0xFFFF) // 100 else None


class Life(NamedTuple):
    """An attribute that says how worn a drive is. *used*: (value, raw) → percent used, None where they do not fit together."""

    name: str
    families: str
    used: Callable[[int, Optional[int]], Optional[int]]


LIVES = (
    Life("Wear_Leveling_Count", "Samsung based .*", _value_left),  # Samsung, "SMART attributes" (2016): the value; raw is erases. Not 177 of others
    Life("Media_Wearout_Indicator", "Intel.*|Lenovo OEM Intel .*", _value_left),  # Intel, product specifications: 233, from 100 to 1
    Life("Percent_Life_Remaining", "Dell Certified Intel .*", _raw_left),  # smartctl_exporter, SSDSCKJB240G7R
    Life("Percent_Lifetime_Remain", "Crucial/Micron .*|Micron .*", _raw_used),  # Micron, tnfd22: the value is max(100 - raw, 0)
    Life("Percent_Lifetime_Used", "Crucial/Micron .*", _raw_used),
    Life("Perc_Rated_Life_Used", "Crucial/Micron .*", _raw_used),
    # Value and raw: 98 and 98, 100 and 74 beside 808 of 3000 erases (smartctl_exporter), 14 and 86 beside the vendor's 87 % (CrystalDiskInfo issue 178).
    Life("SSD_Life_Left", "Phison .*|Silicon Motion .*", _raw_left),
    # 100 and 96 beside 132 of 3000 erases (smartctl_exporter), 93 and 93, 0 and 0 of a drive that is used up (check_smart issue 96).
    Life("Remaining_Lifetime_Perc", "Silicon Motion .*", _raw_left),
    Life("SSD_Life_Left", "Maxio .*|Kingston SSDNow .*", _value_and_raw_left),
    Life("Remaining_Lifetime_Perc", "Innodisk .*|Indilinx Barefoot 3 .*|OCZ Intrepid .*", _value_and_raw_left),
    Life("SSD_Life_Left", "SandForce .*", _value_left_raw_silent),  # Kingston, MKP_306: the value; 230 is no wear. A Corsair Force LS is a Phison
    Life("SSD_Life_Left", "Seagate (Nytro SATA|IronWolf).*", _value_left),  # Seagate, product manuals: raw is packed
    Life("Perc_Write/Erase_Count", "SanDisk based .*", _hundredths),  # telegraf's test data: a U110 with 160
    Life("Perc_Write/Erase_Count", "Marvell based SanDisk .*", _words_or_hundredths),
    Life("Media_Wearout_Indicator", "WD .*", _three_words),  # smartmontools-support, March 2021: 0x25060D282506 is 37.06 % in WD's Dashboard
)
# The spare blocks that are left, in percent of the value.
_SPARES = (("Available_Reservd_Space", "Intel.*|WD .*"), ("Perc_Avail_Resrvd_Space", ".*SanDisk .*"))

# Families whose models need no database: the maker makes every controller himself, and the default names are his.
_MADE_ALONE = (("Samsung based SSDs", r"(?:SAMSUNG )?MZ[0-9A-Z].*|(?:SAMSUNG|Samsung) SSD .*"),)


class Wear(NamedTuple):
    """What the attributes say: percent used and spare left, from which attribute, and counters.

    *doubt*: why the percent used is not known although an attribute tells of it.
    """

    used: Optional[int]
    used_source: str
    spare: Optional[int]
    counters: Dict[str, int]
    doubt: str = ""


def family_of(database: str, model: str) -> str:
    """The family that smartctl's database has; else that of a maker whose names are known anyhow; empty for a drive that nobody knows."""
    return database or next((family for family, models in _MADE_ALONE if re.fullmatch(models, model)), "")


def wear_of(family: str, attributes: Sequence[Attribute]) -> Wear:
    """Look the attributes up, by their names. Without a family they are the names that smartctl gives by number, so that nothing is known of wear."""
    used, source, doubt = _used(family, attributes)
    names = [name for name, families in _SPARES if re.fullmatch(families, family)]
    spares = [attribute.value for attribute in attributes for name in names if attribute.name == name and attribute.value <= 100]
    return Wear(used, source, spares[0] if len(set(spares)) == 1 else None, _counters(family, attributes), doubt)


def _used(family: str, attributes: Sequence[Attribute]) -> Tuple[Optional[int], str, str]:
    """(percent used, from where, why it is not known)"""
    lives = [row for row in LIVES if re.fullmatch(row.families, family)]
    rows = [(attribute, row) for attribute in attributes for row in lives if attribute.name == row.name and attribute.value <= 100]
    percentages = [row.used(attribute.value, attribute.raw) for attribute, row in rows]
    known = [used for used in percentages if used is not None]
    if len(known) < len(percentages) or (known and max(known) - min(known) > _APART):
        texts = ["%d %s has the value %d and the raw value %s" % (attribute.id, attribute.name, attribute.value, attribute.raw) for attribute, _row in rows]
        return None, "", "; ".join(texts)
    return (known[0], "attribute %d" % rows[0][0].id, "") if known else (None, "", "")


def _counters(family: str, attributes: Sequence[Attribute]) -> Dict[str, int]:
    counts_of: Dict[str, List[Tuple[int, int]]] = {}
    for attribute in attributes:
        for row in COUNTERS:
            if attribute.name in row.names and attribute.counted is not None and (not row.families or re.fullmatch(row.families, family)):
                counts_of.setdefault(row.what, []).append((attribute.counted * row.unit, row.unit))
    highest = {what: max(count for count, _unit in counts) for what, counts in counts_of.items()}
    agree = {what: highest[what] - min(count for count, _unit in counts) <= max(unit for _count, unit in counts) for what, counts in counts_of.items()}
    return {what: count for what, count in highest.items() if what in _EVENTS or agree[what]}
