# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest as root: the state of the whole host, as one line of JSON. It changes nothing but its own folder below /run.

A walk is cheap where it has seen a file before: with the same inode, the same time of change and the same size, content, attributes and
flags are what they were, since no program can set the time of change back. Standard library only.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import glob
import hashlib
import json
import marshal
import os
import stat
import subprocess
import sys
import time
import traceback
import uuid
import zlib
from collections.abc import Callable, Iterator
from typing import Any

HOME = "/run/plumbline-whole-host"
ROOT = HOME + "/root"  # the root filesystem without what is mounted in it, for the time of a walk
KEPT = HOME + "/kept"
NOBODY = 65534
# Of these files the content is read at the first look: many are rewritten with the text that they have. Others count as changed once anybody has
# written to them, and gigabytes need not be read.
READ = ("/etc/", "/run/", "/root/", "/usr/local/")
GETFLAGS = 0x80086601
# chattr's flags that somebody has set. The others say how ext4 stores the file: extents, an indexed directory, inline data.
FLAGS = {0x8: "S", 0x10: "i", 0x20: "a", 0x40: "d", 0x80: "A", 0x4000: "j", 0x8000: "t", 0x10000: "D", 0x20000: "T", 0x800000: "C", 0x20000000: "P"}
FRESH_NS = 1_000_000_000  # a file that has just been changed may be changed again within one tick of the clock
TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
}


# --- the tree --------------------------------------------------------------------------------------


def digest(path: str) -> str:
    """Of a file's content, without a trace of the reading."""
    summed = hashlib.sha256()
    with open(os.open(path, os.O_RDONLY | os.O_NOATIME | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as handle:
        while block := handle.read(1 << 20):
            summed.update(block)
    return summed.hexdigest()[:16]


def flags_of(path: str) -> str:
    """chattr's letters; nothing where the filesystem has none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        value = int.from_bytes(fcntl.ioctl(fd, GETFLAGS, bytes(8)), sys.byteorder)
    except OSError:
        return ""
    finally:
        os.close(fd)
    return "".join(letter for bit, letter in FLAGS.items() if value & bit)


def attributes(path: str) -> dict[str, str]:
    """All extended attributes: file capabilities, access lists and security labels are among them."""
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return {name: base64.b64encode(os.getxattr(path, name, follow_symlinks=False)).decode() for name in sorted(names)}
    except OSError:
        return {}


def entry_of(path: str, shown: str, seen: os.stat_result, old: dict[str, Any] | None, fresh: int, first: bool) -> dict[str, Any]:
    """What is told of a path. *old*: what was told of it before."""
    identity = [seen.st_ino, seen.st_ctime_ns, seen.st_size]
    if old is not None and old["identity"] == identity and not old["fresh"] and old["dev"] == seen.st_dev:
        return old
    kind = TYPES.get(stat.S_IFMT(seen.st_mode), "?")
    told: dict[str, Any] = {
        "type": kind,
        "mode": f"{stat.S_IMODE(seen.st_mode):04o}",
        "uid": seen.st_uid,
        "gid": seen.st_gid,
        "xattrs": attributes(path),
        "identity": identity,
        "dev": seen.st_dev,
        "fresh": seen.st_ctime_ns > fresh,
    }
    if kind == "file":
        told["size"] = seen.st_size
        try:
            told["content"] = digest(path) if not first or shown.startswith(READ) else None
        except OSError as error:
            told["content"] = f"unreadable: {error.errno}"
    if kind == "link":
        told["target"] = os.readlink(path)
    if kind in ("file", "directory"):
        told["flags"] = flags_of(path)
    return told


def entries(base: str, hidden: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """(path, path as people know it, stat) of a folder and all below it, on its own filesystem."""
    top = os.lstat(base)
    yield base, base[len(hidden) :] or "/", top
    folders = [base]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                for one in found:
                    try:
                        seen = one.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    yield one.path, one.path[len(hidden) :], seen
                    if stat.S_ISDIR(seen.st_mode) and seen.st_dev == top.st_dev:
                        folders.append(one.path)
        except (FileNotFoundError, NotADirectoryError):
            continue


def bare_root() -> None:
    """The root filesystem alone, in a mount namespace of this process: what a mount hides is there, and no mount is crossed."""
    libc = ctypes.CDLL(None, use_errno=True)

    def must(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    must(libc.unshare(0x00020000))  # CLONE_NEWNS
    must(libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None))  # MS_REC | MS_PRIVATE
    must(libc.mount(b"/", ROOT.encode(), None, 0x1000, None))  # MS_BIND


def in_memory() -> tuple[str, ...]:
    """Filesystems of which all is wanted. From Debian 13 on /tmp is one of them."""
    return ("/run", "/run/lock", "/dev/shm", *(["/tmp"] if os.path.ismount("/tmp") else []))


def tree(old: dict[str, Any], first: bool, inside: list[str]) -> dict[str, Any]:
    """Every path of the root filesystem and of what lies in memory, and the root of each volume. *inside*: volumes of which all is wanted."""
    fresh = time.time_ns() - FRESH_NS
    found = {}
    volumes = [target for target in mount_table() if not target.startswith(("/proc", "/sys", "/dev", "/run")) and target not in ("/", "/tmp")]
    for target in volumes:
        for path, shown, seen in entries(target, target) if target in inside else [(target, "/", os.lstat(target))]:
            name = target + " (mounted)" + shown.rstrip("/")
            found[name] = entry_of(path, name, seen, old.get(name), fresh, first)
    for base in in_memory():
        for path, shown, seen in entries(base, ""):
            if not shown.startswith((HOME, "/run/plumbline-harness", "/run/plumbline-clean")):
                found[shown] = entry_of(path, shown, seen, old.get(shown), fresh, first)
    bare_root()
    for path, shown, seen in entries(ROOT, ROOT):
        if shown not in in_memory():
            found[shown] = entry_of(path, shown, seen, old.get(shown), fresh, first)
    return found


def as_nobody() -> dict[str, str]:
    """What an unprivileged user can do with each path: l list, x enter, r read; a path that it cannot see is not there."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    here = {os.lstat(place).st_dev for place in ("/", *in_memory())}
    found = {}
    folders = ["/"]
    while folders:
        folder = folders.pop()
        try:
            listing = list(os.scandir(folder))
            can = "l"
        except OSError:
            listing, can = [], ""
        found[folder] = can + ("x" if os.access(folder, os.X_OK) else "")
        for one in listing:
            if one.path in ("/proc", "/sys", "/dev") or one.path.startswith((HOME, "/run/plumbline-harness", "/run/plumbline-clean")):
                continue
            if one.is_dir(follow_symlinks=False):
                try:
                    inside = one.stat(follow_symlinks=False).st_dev in here
                except OSError:
                    inside = False
                if inside:
                    folders.append(one.path)
                else:
                    found[one.path] = ("l" if os.access(one.path, os.R_OK) else "") + ("x" if os.access(one.path, os.X_OK) else "")
            elif not one.is_symlink():
                found[one.path] = "r" if os.access(one.path, os.R_OK) else ""
    return found


# --- the rest --------------------------------------------------------------------------------------


# On a busy host systemd takes longer than the 25 seconds for which its own tools wait by default.
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_BUS_TIMEOUT": "280"}


def said(*argv: str, fails: bool = False) -> list[str]:
    """The lines that a tool prints. A tool that fails ends the whole look, unless its failure is a line by itself (*fails*)."""
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, env=ENVIRONMENT)
    if done.returncode and not fails:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
    return [line for line in done.stdout.splitlines() if line.strip()] + [f"failed: {done.returncode}"] * bool(done.returncode)


def unit_files() -> dict[str, str]:
    """Unit → enabled, static, masked … Takes seconds, so it is asked only where a path that decides this has changed."""
    return {line.split()[0]: line.split()[1] for line in said("systemctl", "list-unit-files", "--no-legend", "--no-pager", "--full")}


def decides_units(path: str) -> bool:
    """Whether a path can change what list-unit-files prints."""
    return "/systemd/" in path and not path.startswith("/run/systemd/units/")


def unit_states(files: dict[str, str]) -> dict[str, str]:
    """Unit → what its file says, and what systemd makes of it now."""
    found = dict(files)
    for line in said("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", "--full"):
        name, load, active, sub = line.split()[:4]
        found[name] = f"{found.get(name, '-')}, {load} {active} {sub}"
    return found


def readable(pattern: str) -> Iterator[tuple[str, str]]:
    """(path, content) of the kernel's small files."""
    for path in sorted(glob.glob(pattern, recursive=True)):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            yield path, os.read(fd, 4096).decode("utf-8", "replace").strip()
        except OSError:
            continue
        finally:
            os.close(fd)


def kernel_settings() -> dict[str, str]:
    """Queue settings of all block devices, everything below /proc/sys, and the modules that are loaded."""
    found = {}
    for pattern in ("/sys/block/*/queue/*", "/sys/block/*/queue/*/*", "/proc/sys/**", "/sys/block/*/ro"):
        found.update(readable(pattern))
    with open("/proc/modules", encoding="ascii") as handle:
        found.update({f"/proc/modules {line.split()[0]}": "loaded" for line in handle})
    return found


def mount_table() -> dict[str, str]:
    """Mount point → source, filesystem and options."""
    found: dict[str, str] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as handle:
        for line in handle:
            left, _dash, right = line.partition(" - ")
            words = left.split()
            target = words[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
            told = " ".join([right.strip(), words[5], words[3]])
            found[target] = f"{found[target]}; {told}" if target in found else told
    return found


def storage() -> dict[str, str]:
    """Block devices and partitions as the kernel has them, swap, loop devices, maps, and what LVM knows."""
    found = {}
    for at in sorted(glob.glob("/sys/class/block/*")):
        name = os.path.basename(at)
        sizes = dict(readable(at + "/size")), dict(readable(at + "/start"))
        found["block " + name] = " ".join(value for one in sizes for value in one.values())
    with open("/proc/swaps", encoding="utf-8") as handle:
        found.update({"swap " + line.split()[0]: line.split()[2] for line in list(handle)[1:]})
    found.update({"loop " + path.split("/")[3]: value for path, value in readable("/sys/block/loop*/loop/backing_file")})
    with open("/proc/misc", encoding="utf-8") as handle:
        if "device-mapper" not in handle.read():  # its module is not loaded, and asking would load it; so there is no map, and nothing of LVM in use
            return found
    found.update({"map " + line.partition(":")[0]: line.partition(":")[2].strip() for line in said("dmsetup", "table") if ":" in line})
    quiet = ("--nolocking", "--config", 'devices { hints = "none" }')  # no lock and no cache, which are files: this one only looks
    for kind, fields in (("pv", "pv_name,vg_name,pv_size"), ("vg", "vg_name,vg_size,vg_attr,vg_tags"), ("lv", "lv_full_name,lv_size,lv_attr,lv_tags")):
        for line in said("lvm", kind + "s", *quiet, "--noheadings", "--separator", " ", "-o", fields, fails=True):
            name, _space, rest = line.strip().partition(" ")
            found[f"{kind} {name}"] = rest
    return found


def ports() -> dict[str, str]:
    """What listens."""
    found = {}
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        for _path, content in readable("/proc/net/" + protocol):
            for line in content.splitlines()[1:]:
                words = line.split()
                if len(words) > 3 and (protocol.startswith("udp") or words[3] == "0A"):
                    address, _colon, port = words[1].rpartition(":")
                    found[f"{protocol} {address}:{int(port, 16)}"] = "open"
    return found


def processes() -> dict[str, str]:
    """Command line → how many of them there are; the kernel's threads and the way in here are left out."""
    mine, found = {os.getpid()}, {}
    parent = os.getppid()
    while parent > 1:  # the shell, the harness and their session
        mine.add(parent)
        with open(f"/proc/{parent}/stat", encoding="utf-8", errors="replace") as handle:
            parent = int(handle.read().rpartition(")")[2].split()[1])
    for at in glob.glob("/proc/[0-9]*"):
        try:
            with open(at + "/cmdline", "rb") as handle:
                words = handle.read().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
            with open(at + "/stat", encoding="utf-8", errors="replace") as handle:
                ended = handle.read().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if words and not ended and int(at[6:]) not in mine:
            found[words[:200]] = found.get(words[:200], 0) + 1
    return {name: str(number) for name, number in found.items()}


# --- the answer ------------------------------------------------------------------------------------


def in_child(work: Callable[[], Any]) -> Any:
    """What a function returns in a process of its own, whose user and mounts are gone afterwards."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            with open(write, "wb") as handle:
                marshal.dump(work(), handle)
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)
    os.close(write)
    with open(read, "rb") as handle:
        data = handle.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the walk failed")
    return marshal.loads(data)


def delta(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What is other than before, and what is gone."""
    return {"set": {name: value for name, value in now.items() if before.get(name) != value}, "gone": [name for name in before if name not in now]}


def merged(before: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The state after a change."""
    found = {**before, **change["set"]}
    for name in change["gone"]:
        del found[name]
    return found


def state_and_change(kept: dict[str, Any], inside: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """All parts of the state now, and of the walks what is other than in the kept one. Only that is sent and stored: there are many thousand paths."""
    now: dict[str, Any] = {"seconds": {}}
    change: dict[str, Any] = {}

    def walk(name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        change[name] = in_child(lambda: delta(kept[name], work()))
        return merged(kept[name], change[name])

    def known_unit_files() -> dict[str, str]:
        touched = [*change["paths"]["set"], *change["paths"]["gone"]]
        return unit_files() if not kept["id"] or any(map(decides_units, touched)) else kept["unit files"]

    parts: dict[str, Callable[[], Any]] = {
        "processes": processes,
        "paths": lambda: walk("paths", lambda: tree(kept["paths"], not kept["id"], inside)),
        "nobody": lambda: walk("nobody", as_nobody),
        "unit files": known_unit_files,
        "units": lambda: unit_states(now["unit files"]),
        "kernel": kernel_settings,
        "mounts": mount_table,
        "storage": storage,
        "ports": ports,
    }
    for name, part in parts.items():
        at = time.monotonic()
        now[name] = part()
        now["seconds"][name] = round(time.monotonic() - at, 2)
    return now, change


def main(have: str, inside: list[str]) -> None:
    """Answer with all there is, or with what is other than in the state *have*, if that was the last one here."""
    os.makedirs(ROOT, mode=0o700, exist_ok=True)
    os.chmod(HOME, 0o700)
    kept: dict[str, Any] = {"id": "", "paths": {}, "nobody": {}, "unit files": {}}
    if os.path.exists(KEPT):
        with open(KEPT, "rb") as handle:
            kept = marshal.load(handle)
    now, change = state_and_change(kept, inside)
    now["id"] = uuid.uuid4().hex
    with open(KEPT, "wb") as handle:
        marshal.dump({name: now[name] for name in kept}, handle)
    del now["unit files"]
    answer = {**now, **(change if have and have == kept["id"] else {}), "since": have if have == kept["id"] else ""}
    print(base64.b64encode(zlib.compress(json.dumps(answer).encode(), 1)).decode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
