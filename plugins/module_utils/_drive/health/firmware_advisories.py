# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware that ends a drive at an hour that is known. Pure."""

from __future__ import annotations

import fnmatch
from typing import NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health

NEAR_HOURS = 180 * 24


class Advisory(NamedTuple):
    """Drives of *models* (patterns, anywhere in the model) with firmware before *fixed_in* fail at *limit_hours* power-on hours."""

    models: Tuple[str, ...]
    fixed_in: str
    limit_hours: int
    text: str


ADVISORIES: Tuple[Advisory, ...] = (
    Advisory(
        (
            "VO0480JFDGT", "VO0960JFDGU", "VO1920JFDGV", "VO3840JFDHA", "MO0400JFFCF", "MO0800JFFCH", "MO1600JFFCK", "MO3200JFFCL", "VO000480JWDAR",
            "VO000960JWDAT", "VO001920JWDAU", "VO003840JWDAV", "VO007680JWCNK", "VO015300JWCNL", "VK000960JWSSQ", "VK001920JWSSR", "VK003840JWSST",
            "VK007680JWSSU", "VO015300JWSSV",
        ),
        "HPD8",
        32768,
        "HPE bulletin a00092491: the drive and its data are lost at 32,768 power-on hours",
    ),
    Advisory(
        ("EK0800JVYPN", "EO1600JVYPP", "MK0800JVYPQ", "MO1600JVYPR"),
        "HPD7",
        40000,
        "HPE bulletin a00097382: the drive and its data are lost at 40,000 power-on hours",
    ),
)  # fmt: skip


def advisory_of(drive: Health, more: Sequence[Advisory] = ()) -> Optional[Advisory]:
    """The advisory that concerns a drive. Firmware of another line than the fix's (other letters before the last character) is not compared."""
    for advisory in (*more, *ADVISORIES):
        fits = any(fnmatch.fnmatchcase(drive.model.upper(), "*%s*" % model.upper()) for model in advisory.models)
        same_line = len(drive.firmware) == len(advisory.fixed_in) and drive.firmware[:-1] == advisory.fixed_in[:-1]
        if fits and (not drive.firmware or (same_line and drive.firmware < advisory.fixed_in)):
            return advisory
    return None
