# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""SCSI vital product data pages, from their bytes as sysfs gives them. Pure.

Source: SBC-4 6.6.4, Block Limits VPD page (B0h): optimal transfer length granularity at 6, optimal transfer
length at 12, optimal unmap granularity at 28, unmap granularity alignment at 32; all in logical blocks.
"""

from __future__ import annotations

import struct
from typing import Dict


def parse_block_limits(raw: bytes, logical: int) -> Dict[str, int]:
    """Read VPD page B0h and return bytes; a field of 0 says nothing and is left out."""
    if len(raw) < 16 or raw[1] != 0xB0:
        return {}
    fields = {"granularity": struct.unpack_from(">H", raw, 6)[0], "optimal": struct.unpack_from(">I", raw, 12)[0]}
    if len(raw) >= 36:
        fields["unmap_granularity"] = struct.unpack_from(">I", raw, 28)[0]
    return {name: count * logical for name, count in fields.items() if count}
