# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives that the operator leaves out of the reading of health, each with a reason. Pure.

Only by what stays with a drive: the kernel's names change from boot to boot, and another drive would be left out.
"""

from __future__ import annotations

import fnmatch
from typing import Any, List, Mapping, NamedTuple, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

LINKS = ("/dev/disk/by-id", "/dev/disk/by-path")
_BY = ("device", "serial", "model")  # of which an entry has exactly one


class LeftOut(NamedTuple):
    """An entry: the path of a *device*, a *serial*, or a pattern of a *model*; and why."""

    device: str
    serial: str
    model: str
    reason: str

    @property
    def text(self) -> str:
        return "device %s" % self.device if self.device else "serial %s" % self.serial if self.serial else "model %s" % self.model

    def fits(self, paths: Sequence[str], serial: str, model: str) -> bool:
        """Whether the entry fits a drive. *paths*: the drive's links that udev made."""
        if self.device:
            return self.device in paths
        return serial == self.serial if self.serial else bool(model) and fnmatch.fnmatchcase(model, self.model)


def read_left_out(entries: Sequence[Mapping[str, Any]]) -> List[LeftOut]:
    """The option as it was given. Raises PlumblineError naming the first entry that is wrong."""
    return [_entry(entry, "leave_out[%d]" % number) for number, entry in enumerate(entries)]


def _entry(entry: Mapping[str, Any], where: str) -> LeftOut:
    given = [name for name in _BY if (entry.get(name) or "").strip()]
    if len(given) != 1:
        raise PlumblineError("%s: found %s; wanted one of %s" % (where, " and ".join(given) or "no drive", ", ".join(_BY)))
    reason = " ".join((entry.get("reason") or "").split())
    if not reason:
        raise PlumblineError("%s: it has no reason; wanted why the drive is left out, in words, because every report shows that" % where)
    device = (entry.get("device") or "").strip()
    if device and not device.startswith("/"):
        device = "%s/%s" % (LINKS[0], device)
    if device and not device.startswith(tuple(home + "/" for home in LINKS)):
        words = "%s.device: '%s' can be another drive after the next boot; wanted a name below %s, or serial or model"
        raise PlumblineError(words % (where, device, " or ".join(LINKS)))
    return LeftOut(device, (entry.get("serial") or "").strip(), (entry.get("model") or "").strip(), reason)
