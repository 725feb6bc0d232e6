# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the backups of a device are kept, and how often it was erased on this host. I/O."""

from __future__ import annotations

import os

from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import slug

DIRECTORY = "/var/lib/plumbline/backup"
ERASURES = "erased"  # the digests under which a device was erased, a line each


def place_of(key: str) -> str:
    """The directory for the backups of the device with this identity."""
    return os.path.join(DIRECTORY, slug(key))


def erasures_of(key: str) -> int:
    """How often a device with this identity was erased on this host."""
    return read_erasures(place_of(key)).count(b"\n")


def read_erasures(place: str) -> bytes:
    """The digests under which the device of this directory was erased."""
    try:
        with open(os.path.join(place, ERASURES), "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        return b""
