# SPDX-License-Identifier: GPL-3.0-or-later
"""A reason against taking a device, and those of devices that cannot be read. Pure."""

from __future__ import annotations

import errno
import os
from typing import Any, Dict, NamedTuple


class Reason(NamedTuple):
    """A refusal: *name* for machines, *text* what was found, *remedy* what to do about it."""

    name: str
    text: str
    remedy: str

    def line(self, device: str) -> str:
        return "%s: %s" % (device, self.words)

    @property
    def words(self) -> str:
        """Where the text says itself what it is about."""
        return "%s [%s]; %s" % (self.text, self.name, self.remedy)

    def as_dict(self, device: str) -> Dict[str, Any]:
        return {"device": device, "name": self.name, "found": self.text, "remedy": self.remedy}


_REPLACE = "replace the device: what cannot be read is never taken for blank"
# What open(2) and read(2) say where somebody forbids it, and nothing is wrong with the device.
# In English, as tools speak it that are run here, and in the language of the module's environment.
_FORBIDDEN = ("Operation not permitted", "Permission denied")
_LOOK = "the device may be sound: look at the device rules of the container (cgroup), at SELinux (ausearch -m avc), at kernel lockdown"


def unreadable_reason(text: str, remedy: str = _REPLACE, name: str = "unreadable") -> Reason:
    """A device that could not be opened or read: one that is failing, or one that root is kept from."""
    words = (*_FORBIDDEN, os.strerror(errno.EPERM), os.strerror(errno.EACCES))
    return Reason("blocked", text, _LOOK) if text.endswith(words) else Reason(name, text, remedy)
