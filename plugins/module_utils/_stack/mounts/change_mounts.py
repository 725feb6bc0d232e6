# SPDX-License-Identifier: GPL-3.0-or-later
"""The mounts of a host, with their lines of fstab, drop-ins and systemd's view of them, brought to the desired state. I/O.

fstab is replaced in one step (write beside it, fsync, rename, fsync of the directory), so that at every
instant it is the old file or the new one; a host that loses power half way through still boots.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_UUID
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import replace_file
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, Starter, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._core.systemd import systemctl, unit_name
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import MountOptions
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import change_mount_point
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts.mount_path import check_mount_point
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts.write_fstab import edit_fstab
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_risks

_GENERATED = "/run/systemd/generator"
_TIMER_FAULT = "fstrim.timer could not be enabled; set discard: none to do without"
_FSTAB = "/etc/fstab"
# What a field of fstab may be, so that a line stays one line of six fields. Wider than a spec: the step may come from another release.
_FIELDS = {
    "uuid": re.compile(r"[0-9A-Za-z-]{1,64}"),
    "fstype": re.compile(r"[a-z0-9]{1,16}"),
    "options": re.compile(r"[A-Za-z0-9_.,:=/+@-]{1,1000}"),
    "mode": re.compile(r"(?:[0-7]{3,4})?"),
}
_DROP_IN = re.compile(r"/etc/systemd/system/[A-Za-z0-9:_.@\\-]{1,220}\.d/50-plumbline-[a-z][a-z0-9_]{0,19}\.conf")
_DROP_IN_TEXT = re.compile(r"(?:#[ -~]*\n)?\[Unit\]\nRequiresMountsFor=[A-Za-z0-9/._+:@ -]+\n")


def check_mounts(mounts: Sequence[Mapping[str, Any]], drop_ins: Mapping[str, str]) -> None:
    """Refuse what is no mount of a plan, before anything is touched: a step that was tampered with must not write other lines or files."""
    for mount in mounts:
        for word, pattern in _FIELDS.items():
            if not pattern.fullmatch(mount[word]):
                raise PlumblineError("mount %s: %s '%s' does not fit; wanted it as stack_plan gives it" % (mount["path"], word, mount[word]))
        check_mount_point(mount["path"], "mount")
    for name, text in drop_ins.items():
        if not _DROP_IN.fullmatch(name) or not _DROP_IN_TEXT.fullmatch(text):
            raise PlumblineError("drop-in %s does not fit, or its text; wanted both as stack_plan gives them" % name)


def _replace(path: str, text: str) -> None:
    """replace_file(), with one line as its error where it fails: what is there now, and what to look at."""
    try:
        replace_file(path, text)
    except OSError as fault:
        state = "it holds the new text, which a power cut may still take" if _read_file(path) == text else "it is as it was"
        hint = "; lsattr shows whether it is immutable" if fault.errno == errno.EPERM else ""
        raise PlumblineError("%s could not be replaced: %s; %s%s" % (path, fault.strerror or fault, state, hint)) from fault


class Applied(NamedTuple):
    """What apply_mounts() did."""

    changed: bool
    warnings: List[str]
    diff: Dict[str, str]  # of fstab
    finish: Callable[[], None]  # waits until systemd knows of it; raises PlumblineError where it does not


def apply_mounts(
    run: Runner,
    start: Starter,
    mounts: Sequence[Mapping[str, Any]],
    drop_ins: Mapping[str, str],
    enable_timer: bool,
    check: bool,
    accepted: Sequence[Mapping[str, Any]] = (),
) -> Applied:
    """Bring fstab, mount points, drop-ins and mounts to the desired state, and keep a record of what was *accepted*, by stack.

    With *check* only fstab is compared. Raises PlumblineError where a mount point is not what was planned, or mount fails. What is
    mounted is remounted before its line of fstab is touched, so that the two never say different things of it because of us: where the
    kernel does not take the options, both are as they were.
    """
    check_mounts(mounts, drop_ins)
    mounts = sorted(mounts, key=lambda mount: str(mount["path"]))  # a volume before what is mounted inside it
    before = _read_file(_FSTAB)
    stale = {name: text for name, text in drop_ins.items() if read_sysfs.read_text(name) != text.strip()}
    if check:
        return Applied(bool(mounts or stale or enable_timer or accepted), [], {"before": before, "after": edit_fstab(before, mounts)}, lambda: None)
    warnings: List[str] = []
    live = change_mount_point.live_mounts()
    _check_remounts(mounts, live)
    for mount in mounts:
        if mount["path"] not in live and not _inside(mount, mounts):
            warnings += change_mount_point.prepare_directory(mount["path"])
    changed = keep_risks.add_accepted(accepted)  # before there is anything to accept
    remounted, faults = _remount_all(run, mounts, live)
    changed |= remounted
    mounts = [mount for mount in mounts if mount["path"] not in faults]
    after = edit_fstab(before, mounts)
    reload = before != after
    if reload:
        if _read_file(_FSTAB) != before:
            raise PlumblineError("%s was changed by somebody else meanwhile; it is left as it is now; run again" % _FSTAB)
        _replace(_FSTAB, after)
    _write_drop_ins(stale)
    reload = reload or bool(stale) or _unread([mount["path"] for mount in mounts if mount["path"] not in live], drop_ins)
    finish = _tell_systemd(run, start, reload, enable_timer)
    try:
        if any(os.path.exists(os.path.join(_GENERATED, unit_name(mount["path"]))) for mount in mounts):
            finish()  # a unit of an older line may be bound to a device that is gone: systemd would unmount at once what is mounted now
        for mount in mounts:
            if mount["path"] not in live:
                if _inside(mount, mounts):
                    warnings += change_mount_point.prepare_directory(mount["path"])
                _mount(run, mount["path"], mount["uuid"])
                changed = True
            changed |= _own(mount)
    except BaseException:
        _take_back(run, before, after, [mount for mount in mounts if mount["path"] in change_mount_point.live_mounts()])
        raise
    if faults:
        finish()
        raise PlumblineError(next(iter(faults.values())).msg, [fault.msg for fault in faults.values()] if len(faults) > 1 else [])
    changed |= keep_risks.drop_accepted(accepted)  # when there is nothing to accept any more
    return Applied(changed or reload or enable_timer, warnings, {"before": before, "after": after}, finish)


def _write_drop_ins(texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        os.makedirs(os.path.dirname(name), mode=0o755, exist_ok=True)
        _replace(name, text)


def _take_back(run: Runner, before: str, after: str, mounted: Sequence[Mapping[str, Any]]) -> None:
    """A mount failed: fstab keeps the new lines of what is *mounted* only, and otherwise what it had *before*, or each boot would try and fail again."""
    if before != after and _read_file(_FSTAB) == after:
        _replace(_FSTAB, edit_fstab(before, mounted))
        if os.path.isdir("/run/systemd/system"):
            systemctl(run, "daemon-reload")  # the error that is reported is that of the mount, whatever becomes of this


def _unread(paths: Sequence[str], drop_ins: Mapping[str, str]) -> bool:
    """Whether systemd has not read fstab or a drop-in since it was written: a run that was ended between the two leaves that to the next one.

    systemd writes the units of fstab anew at each reload (systemd.generator(7)).
    """
    for path in paths:
        try:
            made = os.stat(os.path.join(_GENERATED, unit_name(path))).st_mtime_ns
            if any(made < os.stat(name).st_mtime_ns for name in [_FSTAB, *drop_ins]):
                return True
        except OSError:
            return True
    return False


def _inside(mount: Mapping[str, Any], mounts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a mount point lies in another of these volumes, so that it can be made only when that one is mounted."""
    return any(mount["path"].startswith(other["path"] + "/") for other in mounts)


def _read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except FileNotFoundError:
        return ""


def _mount(run: Runner, path: str, uuid: str) -> None:
    """Mount what fstab has for a path, and see that the kernel has it at exactly that path. Raises PlumblineError.

    A mount is identified by its number: its mount point may have been one before, and then the new mount lies over the old one. It has to lie on the mount
    whose directory was looked at: whoever owns the root of the volume around it can mount something of his own over that, with the same paths in it.
    """
    below = change_mount_point.mount_below(path)
    before = change_mount_point.numbered_mounts()
    must_succeed(run(["mount", path]), "%s could not be mounted" % path)
    devno = _devno_of(uuid)
    new = {number: mounted for number, mounted in change_mount_point.numbered_mounts().items() if number not in before}
    strays = {number: target for number, (device, target, on) in new.items() if device == devno and (target, on) != (path, below)}
    if path in change_mount_point.live_mounts() and not strays:
        return
    for target in strays.values():
        run(["umount", target])
    left = sorted(target for number, target in strays.items() if number in change_mount_point.numbered_mounts())
    where = ", ".join(sorted(strays.values())) or "nowhere"
    end = "it could not be unmounted from %s: do that by hand" % ", ".join(left) if left else "it was unmounted again" if strays else "look at the kernel's log"
    raise PlumblineError("%s was mounted, and the kernel shows the mount at %s: the way to it was changed meanwhile; %s" % (path, where, end))


def _devno_of(uuid: str) -> str:
    """The device number of a filesystem, by udev's link; empty where there is none."""
    try:
        return read_sysfs.devno(os.stat(BY_UUID + uuid).st_rdev)
    except OSError:
        return ""


def _tell_systemd(run: Runner, start: Starter, changed: bool, enable_timer: bool) -> Callable[[], None]:
    """Let systemd read its units again, which are made from fstab, while the mounts go on. Returns a function that waits for it."""
    if not os.path.isdir("/run/systemd/system") or not (changed or enable_timer):
        return lambda: None
    if enable_timer:
        # Enabled last, since that is what the next plan looks at: ended between the two, it is done again.
        systemctl(run, "start", "--quiet", "fstrim.timer", fault=_TIMER_FAULT)
        systemctl(run, "enable", "--no-reload", "--quiet", "fstrim.timer", fault=_TIMER_FAULT)
    wait = start(["systemctl", "daemon-reload"])
    done: List[bool] = []

    def finish() -> None:
        if done:
            return
        done.append(True)
        must_succeed(wait(), "systemd could not read its units again")

    return finish


def _wanted(mount: Mapping[str, Any]) -> List[str]:
    """The options that the kernel is to see."""
    return [option for option in mount["options"].split(",") if option != "nofail" and not option.lower().startswith("x-")]


def _options_of(mount: Mapping[str, Any]) -> MountOptions:
    return FILESYSTEMS[mount["fstype"]].options


def _check_remounts(mounts: Sequence[Mapping[str, Any]], live: Mapping[str, Tuple[str, ...]]) -> None:
    """Refuse what the plan would have refused, if it was mounted otherwise since. Nothing has been changed yet."""
    for mount in mounts:
        if mount["path"] in live:
            for now, specified in _options_of(mount).wants_unmount(_wanted(mount), live[mount["path"]]):
                raise PlumblineError("%s is mounted with %s, wanted %s: %s" % (mount["path"], now, specified, _options_of(mount).unmount_first % mount["path"]))


def _remount_all(run: Runner, mounts: Sequence[Mapping[str, Any]], live: Mapping[str, Tuple[str, ...]]) -> Tuple[bool, Dict[str, PlumblineError]]:
    """Remount what is mounted. Returns whether anything changed, and the faults by mount point."""
    changed, faults = False, {}
    for mount in mounts:
        if mount["path"] in live:
            try:
                changed |= _remount(run, mount, live[mount["path"]])
            except PlumblineError as fault:
                faults[mount["path"]] = fault
    return changed, faults


def _remount(run: Runner, mount: Mapping[str, Any], live: Sequence[str]) -> bool:
    """Bring a live mount to its options: this one, whatever is mounted over it meanwhile.

    The source is named, or mount(8) would put those of the old line of fstab in front of them. -c: it takes the path as it is.
    """
    path = mount["path"]
    specified = _wanted(mount)
    missing, extra = _options_of(mount).drift(specified, live)
    if not missing and not extra:
        return False
    options = ["remount"] + specified + _options_of(mount).undo(extra)
    fd, devno = change_mount_point.open_mounted(path)
    try:
        must_succeed(
            run(["mount", "-c", "-o", ",".join(options), "/dev/block/" + devno, "/proc/%d/fd/%d" % (os.getpid(), fd)]),
            "%s could not be remounted, and its line of fstab is as it was; these options may want an unmount" % path,
        )
    finally:
        os.close(fd)
    missing, extra = _options_of(mount).drift(specified, change_mount_point.live_mounts().get(path, ()))
    if missing or extra:
        raise PlumblineError(
            "%s: the kernel did not take the options by remount (missing: %s; still there: %s), and its line of fstab is as it was; unmount it and run again"
            % (path, ", ".join(missing) or "none", ", ".join(extra) or "none")
        )
    return True


def _own(mount: Mapping[str, Any]) -> bool:
    """Owner, group, mode and label of the mounted root directory, through a descriptor shown to be the mounted one."""
    asked = mount["owner"] >= 0 or mount["group"] >= 0 or mount["mode"] or mount["selinux_context"]
    if not asked:
        return False
    path = mount["path"]
    held, _devno = change_mount_point.open_mounted(path)
    fd = -1
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held)
        return _give(mount, fd, os.fstat(fd))
    except (OSError, OverflowError) as fault:  # of a descriptor: what the system says names no file
        words = fault.strerror if isinstance(fault, OSError) and fault.strerror else fault
        asked = ", ".join("%s %s" % (word, mount[word]) for word in ("owner", "group", "mode", "selinux_context") if mount[word] not in (-1, ""))
        raise PlumblineError("%s is mounted, and its root directory could not be given what is asked (%s): %s" % (path, asked, words)) from fault
    finally:
        os.close(held)
        if fd >= 0:
            os.close(fd)


def _give(mount: Mapping[str, Any], fd: int, status: os.stat_result) -> bool:
    changed = False
    owner = mount["owner"] if mount["owner"] >= 0 else status.st_uid
    group = mount["group"] if mount["group"] >= 0 else status.st_gid
    if (owner, group) != (status.st_uid, status.st_gid):
        os.fchown(fd, owner, group)
        changed = True
    if mount["mode"] and int(mount["mode"], 8) != stat.S_IMODE(status.st_mode):
        os.fchmod(fd, int(mount["mode"], 8))
        changed = True
    if mount["selinux_context"]:
        label = mount["selinux_context"].encode() + b"\0"
        if os.getxattr(fd, "security.selinux") != label:
            os.setxattr(fd, "security.selinux", label)
            changed = True
    return changed
