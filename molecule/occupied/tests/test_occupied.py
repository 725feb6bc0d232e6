# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that was freed by its signature, beside one that was blank and one that is nobody's business."""

import json

from proofs import MIB, StripedLegs, StripedVolume, reading
from reading import Reading

__all__ = ["reading"]

SERIALS = ("PLUMBOCC1", "PLUMBOCC2")


class TestLegs(StripedLegs):
    stack = "occ"
    sizes = dict.fromkeys(SERIALS, 1024 * MIB)
    reserves = dict.fromkeys(SERIALS, 107374183)
    lengths = dict.fromkeys(SERIALS, 920 * MIB)
    extents = 229


class TestData(StripedVolume):
    vg = "occ"
    lv = "data"
    size = 2 * 229 * 4 * MIB
    stripe = 64 * 1024
    starts = dict.fromkeys(SERIALS, 2 * MIB)
    label = "occ-data"
    mount = "/srv/occupied/data"
    stride = 16
    width = 32


def test_what_stood_on_the_disks_is_kept(reading: Reading) -> None:
    """Of both: the blank one was written to as well."""
    kept = [json.loads(reading.shell(f"cat {path}")) for path in reading.shell("ls /var/lib/plumbline/backup/*/*/about.json").split()]
    assert sorted(one["serial"] for one in kept) == sorted(SERIALS)
    (freed,) = (one for one in kept if one["serial"] == "PLUMBOCC1")
    assert sorted(freed["files"]) == ["head.img", "table.sfdisk", "tail.img"]
    assert "ledger" in reading.shell("cat /var/lib/plumbline/backup/*/*/table.sfdisk")
    assert reading.shell("stat -c %a:%U /var/lib/plumbline/backup") == "700:root"


def test_the_disk_in_no_spec_has_its_filesystem(reading: Reading) -> None:
    assert "TYPE=ext4" in reading.shell(f"blkid --probe --output export {reading.disk('PLUMBOCC3')}").split()
