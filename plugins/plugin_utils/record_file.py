# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a record, which may come from a host as it is: read without faith in it."""

from __future__ import annotations

import json
from typing import Any

LARGEST = 32 << 20  # bytes of one record: that of 1,000 disks with its proofs has 8 MiB
# Of one record: each takes some 100 bytes when it is read. That of 1,000 disks with their proofs has 400,000, a steady state over days not as many.
MOST_MEMBERS = 1 << 20


def parse_record(raw: bytes) -> Any:
    """The JSON of a record. Raises ValueError that says in one line what is wrong with it."""
    if len(raw) > LARGEST:
        raise ValueError("larger than 32 MiB; wanted the record of one host")
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > MOST_MEMBERS:
        raise ValueError(f"found more than {MOST_MEMBERS:,} values; wanted the record of one host")
    try:
        return json.loads(raw.decode("utf-8", "surrogateescape"))
    except RecursionError:
        raise ValueError("this is not JSON of a record: nested too deeply") from None
    except ValueError as fault:
        raise ValueError(f"this is not JSON: {fault}; wanted the record of a host") from fault
