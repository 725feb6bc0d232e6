# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stack needs of its host: fstab, mount points, users, kernel modules. I/O."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from typing import Callable, Dict, Iterable, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file, proc_files, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation, PathState
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part, walk
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun, keep_risks


def _what_has_the_name(vg: str) -> str:
    """What keeps LVM from making a VG of this name: anything at all at its place below /dev (lvm2, validate_new_vg_name())."""
    path = "/dev/" + vg
    if os.path.islink(path) or not os.path.isdir(path):
        return "there already" if os.path.lexists(path) else ""
    entries = os.listdir(path)
    return "a directory that holds %s" % ("%d entries" % len(entries) if entries else "nothing")


def _is_read_only(directory: str) -> bool:
    with contextlib.suppress(OSError):  # where it cannot be asked, the one that needs to write there reports that
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    return False


def _fstab_fault() -> str:
    """Why fstab could not be replaced; empty where it could."""
    path = os.path.realpath("/etc/fstab")
    home = os.path.dirname(path)
    if _is_read_only(home):
        return "%s is on a filesystem that is mounted read-only" % home
    for place in (path, home):
        with contextlib.suppress(OSError):  # not there, or on a filesystem without attributes
            fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if ask_file.is_immutable(fd):
                    return "%s is immutable (lsattr -d %s)" % (place, place)
            finally:
                os.close(fd)
    return ""


def _above_read_only(path: str) -> str:
    """The directory in which a path would have to be made, where it cannot be for being mounted read-only; empty where the path is there."""
    if os.path.lexists(path):
        return ""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path if _is_read_only(path) else ""


# What a stack needs of the kernel: a word of a file below /proc that is there when it is loaded.
_KERNEL = (("device-mapper", "/proc/misc"), *((name, "/proc/filesystems") for name in FILESYSTEMS))


def _kernel_lacks() -> Tuple[str, ...]:
    """What is not loaded, and cannot be since the modules on the host are another kernel's: it was installed, and the host not booted since."""
    try:
        releases = os.listdir("/lib/modules")
    except OSError:  # a container, or a kernel without modules
        return ()
    if not releases or os.uname().release in releases:
        return ()
    return tuple(word for word, path in _KERNEL if word not in read_sysfs.read_text(path).split())


_CONTEXT_CHECK = "/sys/fs/selinux/context"
_TIMER = "fstrim.timer"
# Where units are, systemd.unit(5); in the first three a link to /dev/null masks one.
_UNITS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def _timer_fault() -> str:
    """Why fstrim.timer could not be enabled; empty where it could."""
    if not os.path.isdir("/run/systemd/system"):  # sd_booted(3)
        return "systemd does not run here"
    path = next((path for path in (os.path.join(home, _TIMER) for home in _UNITS) if os.path.lexists(path)), "")
    if os.path.realpath(path) == "/dev/null":
        return "it is masked (systemctl unmask %s)" % _TIMER
    return "" if path else "this host has no such unit"


def _strange_contexts(contexts: Iterable[str]) -> Tuple[str, ...]:
    """Those that the policy in force does not know. The kernel is asked, as security_check_context(3) does; what may not ask gets no answer."""
    strange = []
    for context in dict.fromkeys(contexts):
        try:
            fd = os.open(_CONTEXT_CHECK, os.O_RDWR | os.O_CLOEXEC)
            try:
                os.write(fd, context.encode() + b"\0")
            finally:
                os.close(fd)
        except OSError as fault:
            strange += [context] if fault.errno == errno.EINVAL else []
    return tuple(strange)


_SERVICES = "/var/lib"


def _services_folder() -> Optional[Part]:
    """The folder in which services keep their data; None where it cannot be looked at."""
    try:
        status = os.stat(_SERVICES)
    except OSError:
        return None
    return Part(_SERVICES, "directory", status.st_uid, stat.S_IMODE(status.st_mode))


def read_host(seen: Observation, ask: Questions) -> None:
    seen.fstab_fault, seen.kernel_lacks = _fstab_fault(), _kernel_lacks()
    names = {vg: _what_has_the_name(vg) for vg, _lv in ask.volumes}
    seen.taken_names = {vg: what for vg, what in names.items() if what}
    seen.covers = proc_files.parse_covers(read_sysfs.read_text("/proc/%s/mountinfo" % ask.process))
    seen.accepted = keep_risks.load_accepted()
    seen.making = keep_begun.load_making()
    for path in ask.mounts:
        seen.directories[path] = read_path(path)._replace(way=walk(path), read_only=_above_read_only(path))
    for path in ask.files:
        seen.drop_ins[path] = read_sysfs.read_text(path)
    seen.users = _numbers_of(ask.users, _uid)
    seen.groups = _numbers_of(ask.groups, _gid)
    seen.timer_enabled = any(os.path.islink("/etc/systemd/system/%s.wants/fstrim.timer" % target) for target in ("timers.target", "multi-user.target"))
    seen.timer_fault = _timer_fault()
    seen.services_folder = _services_folder()
    seen.selinux = os.path.exists("/sys/fs/selinux/enforce")
    seen.strange_contexts = _strange_contexts(ask.contexts)


def read_path(path: str) -> PathState:
    """What stat says of a path. Nothing is followed but the path itself; what cannot be read is reported as a fault, and never taken for empty."""
    state = PathState(exists=True)
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            return state._replace(symlink=os.readlink(path) if stat.S_ISLNK(status.st_mode) else "")
        state = PathState(True, True, 0, False, status.st_uid, status.st_gid, "%04o" % stat.S_IMODE(status.st_mode))
        other = status.st_dev != os.stat(os.path.dirname(path)).st_dev
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Where a filesystem is mounted on it, what lies in it does not matter here; and a damaged one would record an error when it is read.
            return state._replace(immutable=ask_file.is_immutable(fd), entries=0 if other else len(os.listdir(fd)), other=other)
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return PathState()
    except OSError as fault:
        return state._replace(fault=fault.strerror or str(fault))


def _uid(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def _gid(name: str) -> int:
    return grp.getgrnam(name).gr_gid


def _numbers_of(names: Iterable[str], look_up: Callable[[str], int]) -> Dict[str, int]:
    """User or group names → numbers; a number stands for itself, an unknown name is left out."""
    numbers = {}
    for name in names:
        try:
            numbers[name] = int(name) if name.isdigit() else look_up(name)
        except KeyError:
            continue
    return numbers
