# SPDX-License-Identifier: GPL-3.0-or-later
"""The write cache of a disk by the standard tools: another way than the collection's own, which asks by ioctl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .bench import Disk
from .harness import Harness

# `grep -q` would end before the tool, which a shell with pipefail takes for a failure; and sdparm answers, and then minds that QEMU's
# disks have no saved page.
_ASK = {
    "ata": "test -n \"$(hdparm -I {0} | grep '^[[:blank:]]*[*][[:blank:]]*Write cache$')\" && echo on || echo off",
    "scsi": "test -n \"$(sdparm --get=WCE {0} | grep -E '(^|[[:blank:]])WCE +1 ')\" && echo on || echo off",
    "nvme": "test -n \"$(nvme get-feature {0} -n 0xffffffff -f 6 | grep ':0*x*0*1$')\" && echo on || echo off",
}
_SET = {
    "ata": "hdparm -q -W{1} {0}",
    "scsi": "sdparm --quiet --set=WCE={1} {0}",
    "nvme": "nvme set-feature {0} -n 0xffffffff -f 6 --value={1} > /dev/null",
}


def _kind(disk: Disk) -> str:
    return next((kind for kind in ("ata", "nvme") if disk.by_id.startswith(f"{kind}-")), "scsi")


def link(disk: Disk) -> str:
    """The disk by a name that it keeps."""
    return f"/dev/disk/by-id/{disk.by_id}"


def question(disk: Disk) -> str:
    """A shell command that prints `on` or `off`, as the drive says."""
    return _ASK[_kind(disk)].format(link(disk))


def state(harness: Harness, disk: Disk) -> str:
    """`on` or `off`, as the drive says."""
    return harness.must(question(disk)).strip()


def put(harness: Harness, disk: Disk, wanted: str) -> None:
    """Switch it behind the collection's back."""
    harness.must(_SET[_kind(disk)].format(link(disk), int(wanted == "on")))


@contextmanager
def switched_off(harness: Harness, disk: Disk) -> Iterator[None]:
    """Without the cache; afterwards it is on again, as the lab's disks have it by default."""
    put(harness, disk, "off")
    try:
        assert state(harness, disk) == "off"
        yield
    finally:
        put(harness, disk, "on")
