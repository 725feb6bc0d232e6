# SPDX-License-Identifier: GPL-3.0-or-later
"""A PV that LVM does not list, and how it lists it again. Pure."""

from __future__ import annotations

from typing import NamedTuple, Tuple

DEVICES_FILE, FILTER = "the devices file", "a filter"  # what keeps LVM from a PV
FILTERS = ("global_filter", "filter")  # its settings; both have to accept a device


class HiddenPv(NamedTuple):
    """A sound PV that LVM does not list: of which VG it is, its UUID, and what keeps LVM from it."""

    vg: str
    uuid: str
    by: Tuple[str, ...]

    @property
    def words(self) -> str:
        whose = "of VG '%s'" % self.vg if self.vg else "of no VG"
        return "an LVM PV %s that LVM does not list, since %s of its configuration hides it" % (whose, " or ".join(self.by))

    def remedy(self, path: str) -> str:
        """How LVM lists it again. What is on it is whole."""
        ways = {DEVICES_FILE: "lvm lvmdevices --adddev %s" % path, FILTER: "filter and global_filter in /etc/lvm/lvm.conf without it"}
        return "let LVM see it (%s), and run again; it is whole: do not wipe it, and make no PV there" % " and ".join(ways[by] for by in self.by)
