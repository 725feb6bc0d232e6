# SPDX-License-Identifier: GPL-3.0-or-later
"""The layouts: how the volumes of a stack lie on its devices. Whatever is particular to one stands here; a further layout is a further row. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human


class Layout(NamedTuple):
    """One layout.

    *grouped*: its volumes are LVs of a volume group of the stack's name, and no partitions. *segment*: what LVM and the kernel call a piece of such an LV.
    *fewest*, *most*: devices, 0 for any number. *words*: of a mistake in the number of devices; *no_stripes*: keys of a stack that it has no use for.
    *others_begin*: an LV begins where the one before it ends, so that the extents have to be multiples of the grain. *copies*: legs that hold the same.
    """

    name: str
    grouped: bool
    segment: str
    fewest: int
    most: int
    words: str
    no_stripes: Sequence[str] = ()
    others_begin: bool = False
    copies: int = 1

    @property
    def striped(self) -> bool:
        """Whether each volume lies on all legs at once: these are of one length, and of one block size."""
        return self.segment == "striped" or self.copies > 1

    def fault(self, devices: int, volumes: int, keys: Sequence[str], where: str) -> list[str]:
        """What does not fit into this layout."""
        if self.copies > 1 and devices % self.copies:
            text = "%s.devices: mirror: true pairs the devices in their order, the first with the second, and found %d; name one more, or one less"
            return [text % (where, devices)]
        left_out = [key for key in self.no_stripes if key in keys]
        what = "a mirrored stack has one row" if self.copies > 1 else "layout '%s' has no stripes" % self.name
        faults = ["%s.%s: %s; leave it out" % (where, key, what) for key in left_out]
        if devices < self.fewest or (self.most and devices > self.most):
            faults.append("%s.devices: %s" % (where, self.words % devices))
        if not self.grouped and volumes != devices:
            text = "%s.volumes: layout '%s' makes one filesystem per device; found %d volumes for %d devices"
            faults.append(text % (where, self.name, volumes, devices))
        return faults

    def of_stack(self, legs: int, width: int, stripe: int) -> str:
        """How the stack lies, in words. *width*: legs of a row."""
        if self.copies > 1:
            return "mirrored, %s, chunk %s" % ("striped over %d pairs" % (legs // 2) if legs > 2 else "one pair of devices", human(stripe))
        if self.striped:
            return "striped over %d devices, stripe %s" % (width, human(stripe)) + (", %d rows" % (legs // width) if legs > width else "")
        return "volumes on one device" if self.grouped else "one filesystem per device"

    def of_volume(self, legs: int, stripe: int) -> str:
        """How one of its LVs lies, in words."""
        return "over %d stripes of %s" % (legs, human(stripe)) if self.striped and self.copies < 2 else "in one piece"


LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("striped", True, "striped", 2, 0, "a stripe wants two devices or more; found %d; use layout 'linear' or 'separate' for one"),
        Layout(
            "linear", True, "linear", 1, 1, "layout 'linear' is for one device; found %d; use layout 'striped' for several", ("stripe_size", "stripes"), True
        ),
        Layout("separate", False, "", 1, 0, "", ("stripe_size", "extent_size", "stripes")),
    )
}
# Of a stack of the layout striped with mirror: true. One array of md lies on its partitions, RAID 10 with two copies side by side; its LVs are linear.
MIRRORED = LAYOUTS["striped"]._replace(
    segment="linear", no_stripes=("stripes",), copies=2, words="a mirror wants two devices or more; found %d; name one more, or leave mirror out"
)
