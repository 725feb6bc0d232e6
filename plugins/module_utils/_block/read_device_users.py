# SPDX-License-Identifier: GPL-3.0-or-later
"""Users of block devices that O_EXCL cannot see: open files, loop, SCSI and NVMe targets, multipath. Reads /proc, /sys and /run. I/O.

An exclusive open fails only where somebody else opened exclusively. A program that reads a raw device does not, nor do a
loop device (drivers/block/loop.c), a file-backed LIO target (target_core_file.c) and nvmet (io-cmd-bdev.c), all of which write.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import time
from typing import Callable, Dict, Iterable, List, Mapping, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import devno, read_text
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

PROC = "/proc"
CONFIG = "/sys/kernel/config"
UDEV = "/run/udev/data"
UDEV_SECONDS = 10  # how long a worker of udev may look at a device, which it does after each event
# How long any other program may. Probes come and go: smartd's, a monitoring agent's, and what another run does before it learns of the lease.
PROBE_SECONDS = 5
LOOK_SECONDS = 60  # how long one look at all descriptors may take: any user can have a million of them, and processes without number that share them
_UDEV_NAMES = ("(udev-worker)", "systemd-udevd", "udevd")
_FLAGS = re.compile(r"^flags:\s*([0-7]+)$", re.MULTILINE)  # proc_pid_fdinfo(5)
_LIO_FILE = re.compile(r"(?:UDEV PATH|File): (\S+)")


def read_openers() -> Dict[str, List[str]]:
    """Block devices that other processes have open, by device number: ``postgres (1234)``. Ours does not count.

    Raises PlumblineError where there are too many descriptors to look at: what was not looked at may be a device.
    """
    openers: Dict[str, List[str]] = {}
    own = str(os.getpid())
    late = time.monotonic() + LOOK_SECONDS
    most = (0, "")  # descriptors of a process
    for process in os.listdir(PROC):
        if not process.isdigit() or process == own:
            continue
        directory = "%s/%s/fd" % (PROC, process)
        try:
            fds = os.listdir(directory)
        except OSError:
            continue  # it ended
        most = max(most, (len(fds), process))
        numbers = {_open_device("%s/%s" % (PROC, process), fd) for fd in fds if time.monotonic() < late}
        if time.monotonic() >= late:
            raise PlumblineError(_TOO_MANY % (LOOK_SECONDS, most[0], _name_of(most[1])))
        for number in sorted(numbers - {""}):
            openers.setdefault(number, []).append(_name_of(process))
    return openers


_TOO_MANY = (
    "which programs have a device open could not be found out within %d s, and nothing was written: there are too many open files; "
    "most of them, %d, has %s, and others may share them; end that program, and run again"
)


def _name_of(process: str) -> str:
    return "%s (%s)" % (read_text("%s/%s/comm" % (PROC, process)) or "process", process)


def _open_device(process: str, fd: str) -> str:
    """The block device behind a descriptor; empty where it is none.

    A descriptor that only names a file (O_PATH, open(2)) opens nothing. Any user can have one of any device.
    """
    try:
        state = os.stat("%s/fd/%s" % (process, fd))  # of what is open, not of the link
    except OSError:
        return ""
    if not stat.S_ISBLK(state.st_mode):
        return ""
    flags = _FLAGS.search(read_text("%s/fdinfo/%s" % (process, fd)))
    return "" if flags and int(flags.group(1), 8) & os.O_PATH else devno(state.st_rdev)


def settled_openers(watched: Iterable[str], read: Optional[Callable[[], Dict[str, List[str]]]] = None) -> Dict[str, List[str]]:
    """read_openers(), once those have let go of the *watched* devices who only looked. None may be open here meanwhile: two runs would wait for each other."""
    numbers = set(watched)
    reader = read or read_openers
    began = time.monotonic()
    while True:
        openers = reader()
        programs = [program.rsplit(" ", 1)[0] for number in numbers for program in openers.get(number, [])]
        patience = UDEV_SECONDS if any(name in _UDEV_NAMES for name in programs) else PROBE_SECONDS
        if not programs or time.monotonic() - began > patience:
            return openers
        time.sleep(0.1)


def read_backings(nodes: Mapping[str, Node]) -> Dict[str, List[str]]:
    """Block devices that something else is made of, by device number: loop devices, targets of LIO and nvmet."""
    backings: Dict[str, List[str]] = {}

    def note(path: str, who: str) -> None:
        try:
            state = os.stat(path)
        except (OSError, ValueError):
            return
        if stat.S_ISBLK(state.st_mode):
            backings.setdefault(devno(state.st_rdev), []).append(who)

    for node in nodes.values():
        if node.backing_file:
            note(node.backing_file, "loop device %s" % node.name)
    for store in sorted(glob.glob(CONFIG + "/target/core/*/*")):
        who = "SCSI target %s" % "/".join(store.split("/")[-2:])
        paths = [read_text(store + "/udev_path")] + _LIO_FILE.findall(read_text(store + "/info"))
        for path in sorted(set(paths) - {""}):
            note(path, who)
    for namespace in sorted(glob.glob(CONFIG + "/nvmet/subsystems/*/namespaces/*")):
        words = namespace.split("/")
        note(read_text(namespace + "/device_path"), "namespace %s of NVMe target %s" % (words[-1], words[-3]))
    return backings


def is_multipath_member(number: str) -> bool:
    """Whether udev's database says that a device is one path of a multipath map (60-multipath.rules, 11-dm-mpath.rules)."""
    text = read_text("%s/b%s" % (UDEV, number))
    return any(line in ("E:DM_MULTIPATH_DEVICE_PATH=1", "E:ID_FS_TYPE=mpath_member") for line in text.splitlines())
