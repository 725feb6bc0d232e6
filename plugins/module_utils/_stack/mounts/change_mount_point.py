# SPDX-License-Identifier: GPL-3.0-or-later
"""A mount point: made, shown to be where it should be, and set immutable. I/O."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Collection, Dict, List, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.proc_files import parse_mount_numbers, parse_mountinfo
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import DIRECTORY_FLAGS, Part, names_on_way, read_part, step_down
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts.mount_path import owner_fault, way_fault


def live_mounts() -> Dict[str, Tuple[str, ...]]:
    """Mount points of block devices in our namespace, with their options."""
    return {mount.target: mount.options for mount in parse_mountinfo(read_sysfs.read_text("/proc/self/mountinfo"))}


def numbered_mounts() -> Dict[int, Tuple[str, str, int]]:
    """All mounts in our namespace by their numbers: (device number, mount point, number of the mount that it lies on)."""
    return parse_mount_numbers(read_sysfs.read_text("/proc/self/mountinfo"))


def open_mounted(path: str) -> Tuple[int, str]:
    """The root of the volume that is mounted on a path, held with O_PATH, and the volume's device number. Raises PlumblineError if it is not there.

    The number of the mount tells, as the kernel keeps it of a descriptor (proc(5), fdinfo): nothing is asked of the filesystem. Whoever owns the root of
    a volume may mount something of his own over it at any time (fusermount(1)), and what is done by the path would be done to that.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as fault:
        raise PlumblineError("%s could not be opened: %s" % (path, fault.strerror or fault)) from fault
    devno, why_not = _volume_held(path, fd)
    if not why_not:
        return fd, devno
    os.close(fd)
    raise PlumblineError("%s: %s; its mount, owner and mode are left alone; run again" % (path, why_not))


def _volume_held(path: str, fd: int) -> Tuple[str, str]:
    """(device number, why it is not so) of the volume on a path whose directory a descriptor holds."""
    devno, target, _below = numbered_mounts().get(_mount_number(fd), ("", "", 0))
    if target == path and not devno.startswith("0:"):
        return devno, ""
    return "", "something that is on no block device is mounted over it [covered]; take that away" if target == path else "it is not mounted"


def _mount_number(fd: int) -> int:
    """The number of the mount that a descriptor lies on, proc(5), fdinfo; -1 if the kernel does not say."""
    numbers = [line.split()[1] for line in read_sysfs.read_text("/proc/self/fdinfo/%d" % fd).splitlines() if line.startswith("mnt_id:")]
    return int(numbers[0]) if numbers else -1


def mount_below(path: str) -> int:
    """The number of the mount that holds a mount point, whose way is looked at once more. Raises PlumblineError."""
    try:
        fd = open_way(path, live_mounts())
    except OSError as fault:
        raise PlumblineError("the way to mount point %s could not be opened: %s" % (path, fault.strerror or fault)) from fault
    try:
        return _mount_number(fd)
    finally:
        os.close(fd)


def prepare_directory(path: str) -> List[str]:
    """Make the mount point and set it immutable, so that nothing can be written below it while it is not mounted.

    The way to it is walked through descriptors, and refused where anybody but root could change it. The attribute is set through a
    descriptor that is shown to lie on its parent's filesystem: on a path that has just been mounted it would freeze the volume's own root.
    It is set before the last look for entries, so that nothing can come between look and mount. Returns warnings.
    """
    try:
        parent = open_way(path, live_mounts())
        try:
            return _freeze(path, parent)
        finally:
            os.close(parent)
    except OSError as fault:
        raise PlumblineError("mount point %s could not be made: %s" % (path, fault.strerror or fault)) from fault


def _freeze(path: str, parent: int) -> List[str]:
    name = os.path.basename(path)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
    try:
        fd = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    except OSError as fault:
        raise PlumblineError("mount point %s is no directory: %s" % (path, fault.strerror or fault)) from fault
    try:
        status, above = os.fstat(fd), os.fstat(parent)
        movable = owner_fault(path, status.st_uid, Part(os.path.dirname(path), "directory", above.st_uid, stat.S_IMODE(above.st_mode)), (0, os.geteuid()))
        if movable:
            raise PlumblineError("mount point %s is not safe: %s" % (path, movable))
        if status.st_dev != above.st_dev:
            raise PlumblineError("mount point %s is on another filesystem than its parent: something was mounted there since the plan; run again" % path)
        _check_empty(path, fd)
        frozen = ask_file.is_immutable(fd)
        warnings = [] if frozen else _set_immutable(path, fd)
        try:
            _check_empty(path, fd)
            _check_name(path, name, parent, status)
        except PlumblineError:
            if not frozen and not warnings:
                with contextlib.suppress(OSError):  # nothing was set on a filesystem that is mounted read-only
                    ask_file.set_immutable(fd, False)  # or nobody could empty it
            raise
        return warnings
    finally:
        os.close(fd)


def _set_immutable(path: str, fd: int) -> List[str]:
    """Returns a warning where the filesystem has no such attribute."""
    try:
        ask_file.set_immutable(fd)
    except OSError as fault:
        if fault.errno == errno.EROFS:
            return []  # nothing can be written there anyway
        if fault.errno not in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL):
            raise PlumblineError("mount point %s could not be made immutable: %s" % (path, fault.strerror or fault)) from fault
        return ["mount point %s cannot be made immutable on its filesystem; a database could write there while the volume is not mounted" % path]
    return []


def _check_name(path: str, name: str, parent: int, held: os.stat_result) -> None:
    """Nothing else came into the place of the directory while it was looked at: what is immutable now cannot be moved any more."""
    try:
        now = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if now is None or (now.st_dev, now.st_ino) != (held.st_dev, held.st_ino):
        raise PlumblineError("mount point %s was exchanged meanwhile; nothing was mounted; find out who did that, and run again" % path)


def _check_empty(path: str, fd: int) -> None:
    if os.listdir(fd):
        raise PlumblineError("mount point %s is not empty since the plan; empty it or name another" % path)


def open_way(path: str, mounted: Collection[str]) -> int:
    """A descriptor of the directory that holds a mount point, made where it is not there. Raises PlumblineError, and OSError as it comes.

    Each name is looked at in the directory that is held open, and opened without following a link. What way_fault() has passed can be
    changed by root alone, so that nothing comes between one name and the next.
    """
    trusted = (0, os.geteuid())
    root = os.stat("/")
    way: List[Part] = [Part("/", "directory", root.st_uid, stat.S_IMODE(root.st_mode))]
    above = os.path.dirname(path)
    fd = os.open("/", DIRECTORY_FLAGS)
    try:
        _check_way(path, way, mounted if above == "/" else (), trusted)
        for name, at in names_on_way(above):
            try:
                way.append(read_part(at, name, fd))
            except FileNotFoundError:
                os.mkdir(name, 0o755, dir_fd=fd)
                way.append(read_part(at, name, fd))
            _check_way(path, way, mounted if at == above else (), trusted)
            fd = step_down(fd, name)
        if above in mounted:  # its owner can mount something of his own over it, and show there what he likes
            why_not = _volume_held(above, fd)[1]
            if why_not:
                raise PlumblineError("mount point %s is not safe: %s: %s; run again" % (path, above, why_not))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_way(path: str, way: Sequence[Part], mounted: Collection[str], trusted: Collection[int]) -> None:
    fault = way_fault(way, mounted, trusted)
    if fault:
        raise PlumblineError("mount point %s is not safe: %s" % (path, fault))
