# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a user writes to the spec of a stack's volumes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._core.checks import check_entry, check_unique, choice, flag, kind, match_text, strings
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import Faults, PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import is_percent, parse_share, parse_size
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import FilesystemKind
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DEFAULT, FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import UNKNOWN_OPTIONS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts.mount_path import check_mount_point
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.layouts import LAYOUTS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import DEVICE_TIMEOUT, Volume

DISCARD_POLICIES = ("timer", "none")
ERROR_POLICIES = ("continue", "remount-ro", "panic")
_VOLUME_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
# Names that LVM keeps for itself: these words at the beginning, those anywhere (lvm2, lib/misc/lvm-string.c: apply_lvname_restrictions()).
_LVM_NAME = re.compile(r"^(?:snapshot|pvmove)|_(?:cdata|cmeta|corig|cpool|cvol|imeta|iorig|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata|vorigin|wcorig)")
_LONGEST_OPTIONS = 900  # characters: mount_points writes no line of fstab with more than 1,000 of them
_OPTION = re.compile(r"[A-Za-z0-9_.:=/+@-]+")
# A number, or a name, which is looked up and nothing else; directory services have postgres@example.com and EXAMPLE\\postgres.
_USER = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.@\\-]{0,254}\$?|[0-9]{1,10})")
_MAX_ID = (1 << 32) - 2  # the next means "as it is" to chown(2)
_MODE = re.compile(r"[0-7]{3,4}")
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,200}\.(?:service|socket|target|slice|scope|timer|mount)")
_TIMEOUT = re.compile(r"[0-9]{1,5}(?:s|min|h)")
_SECONDS_OF = {"s": 1, "min": 60, "h": 3600}
_LABEL = "[A-Za-z0-9_.:-]{1,%d}"
_CONTEXT = re.compile(r"[A-Za-z0-9_]+:[A-Za-z0-9_]+:[A-Za-z0-9_]+(?::[A-Za-z0-9_:.,-]+)?")
_VOLUME_KEYS = (
    "name", "size", "mount", "label", "mount_options", "mount_profile", "owner", "group", "mode", "errors", "bytes_per_inode",
    "discard", "selinux_context", "required_by", "lazy_init", "device_timeout", "filesystem",
)  # fmt: skip
_RESERVED_OPTIONS = ("nofail", "auto", "noauto", "remount", "bind", "loop", "ro")


def read_volumes(raw: Any, stack: str, layout: str, accept: Sequence[str], where: str) -> tuple[Volume, ...]:
    if not isinstance(raw, list) or not raw:
        raise PlumblineError("%s: found %s; wanted a list of at least one volume with name, size and mount" % (where, kind(raw)))
    faults = Faults()
    read = [faults.take(None, _read_volume, entry, stack, layout, accept, len(raw), "%s[%d]" % (where, number)) for number, entry in enumerate(raw)]
    volumes = tuple(volume for volume in read if volume is not None)
    check_unique([volume.name for volume in volumes], where + ": two volumes are named '%s'", faults)
    total = round(sum(volume.percent for volume in volumes), 6)  # 11.3 + 12.8 + 16.8 + 24 + 20.9 + 14.2 is more in binary
    if (not layout or LAYOUTS[layout].grouped) and total > 100:
        shares = " + ".join("%g%%" % volume.percent for volume in volumes if volume.percent)
        faults.lines.append("%s: the sizes add up to %g%% (%s); wanted at most 100%%" % (where, total, shares))
    faults.tell()
    return volumes


_ID_OF = {"owner": "user", "group": "group"}
_OF_MOUNT = ("mount_options", "mount_profile", "owner", "group", "mode", "errors", "required_by", "selinux_context", "device_timeout")
# The keys of a volume that are one word each: the pattern that it has to fit, and the words for it.
_WORDS = {
    "owner": (_USER, "a user name or a number"),
    "group": (_USER, "a group name or a number"),
    "selinux_context": (_CONTEXT, "user:role:type:level"),
}


def _read_volume(raw: Any, stack: str, layout: str, accept: Sequence[str], count: int, where: str) -> Volume:
    faults = Faults()
    entry = check_entry(raw, _VOLUME_KEYS, ("name",), where, faults)
    name = ""
    if "name" in entry:
        name = faults.take("", match_text, entry["name"], _VOLUME_NAME, where + ".name", "a lower-case letter, then at most 31 lower-case letters, digits or _")
    kept = _LVM_NAME.search(name)
    if (not layout or LAYOUTS[layout].grouped) and kept:
        faults.lines.append("%s.name: '%s' is a name that LVM keeps for itself, for its '%s'; choose another" % (where, name, kept.group()))
    where = where[: where.rindex("[")] + "[%s]" % name if name else where
    words = {key: faults.take("", match_text, entry[key], pattern, "%s.%s" % (where, key), fit) for key, (pattern, fit) in _WORDS.items() if key in entry}
    for key in ("owner", "group"):
        if words.get(key, "").isdigit() and int(words[key]) > _MAX_ID:
            faults.lines.append("%s.%s: %s is larger than any number of a %s; wanted at most %d" % (where, key, words[key], _ID_OF[key], _MAX_ID))
    filesystem = faults.take(DEFAULT, choice, entry.get("filesystem", DEFAULT), tuple(FILESYSTEMS), where + ".filesystem")
    made = FILESYSTEMS[filesystem]
    for key in sorted({key for other in FILESYSTEMS.values() for key in other.keys} - set(made.keys)):
        if key in entry:
            faults.lines.append("%s.%s: a filesystem of the kind %s has no use for it; leave it out" % (where, key, made.name))
    label = "%s-%s" % (stack, name)
    if "label" in entry:
        fit = "1 to %d letters, digits and _ . : - (%s keeps %d bytes)" % (made.longest_label, made.name, made.longest_label)
        label = faults.take("", match_text, entry["label"], re.compile(_LABEL % made.longest_label), where + ".label", fit)
    elif len(label) > made.longest_label:
        label = name[: made.longest_label]
    percent, size = faults.take((0.0, 0), _read_size, entry, layout, count, where, made)
    mount = faults.take("", check_mount_point, entry["mount"], where + ".mount") if "mount" in entry else ""
    if "mount" not in entry:
        faults.lines += ["%s.%s: the volume has no 'mount'" % (where, key) for key in _OF_MOUNT if key in entry]
    profile = faults.take("", _read_profile, entry, where, made)
    volume = Volume(
        name=name,
        percent=percent,
        size_bytes=size,
        mount=mount,
        label=label,
        mount_options=faults.take((), _read_mount_options, entry, profile, accept, where, made),
        owner=words.get("owner", ""),
        group=words.get("group", ""),
        mode=faults.take("", _read_mode, entry["mode"], where + ".mode") if "mode" in entry else "",
        bytes_per_inode=faults.take(0, _read_inode_share, entry["bytes_per_inode"], where + ".bytes_per_inode") if "bytes_per_inode" in entry else 0,
        discard=faults.take("", choice, entry.get("discard", "timer"), DISCARD_POLICIES, where + ".discard"),
        selinux_context=words.get("selinux_context", ""),
        required_by=faults.take((), _read_units, entry.get("required_by", []), where + ".required_by"),
        lazy_init=faults.take(False, flag, entry.get("lazy_init", False), where + ".lazy_init"),
        device_timeout=faults.take("", _read_timeout, entry.get("device_timeout", DEVICE_TIMEOUT), where + ".device_timeout"),
        mount_profile=profile,
        filesystem=filesystem,
    )
    whole = next((option for option in volume.mount_options if option.startswith("context=")), "")
    if volume.selinux_context and whole:
        text = "%s: 'selinux_context' and the mount option '%s' exclude each other: with the latter no file of the volume has a label of its own"
        faults.lines.append(text % (where, whole))
    faults.tell()
    return volume


def _read_units(raw: Any, where: str) -> tuple[str, ...]:
    return tuple(match_text(unit, _UNIT, where, "names of systemd units, such as postgresql.service") for unit in strings(raw, where))


def _read_timeout(raw: Any, where: str) -> str:
    """A time as systemd.time(7) has it, with one unit."""
    text = match_text(raw, _TIMEOUT, where, "a number with one unit of s, min, h, such as 90s or 5min")
    number, unit = re.findall(r"[0-9]+|[a-z]+", text)
    if not 10 <= int(number) * _SECONDS_OF[unit] <= 86400:
        raise PlumblineError("%s: %s does not fit; wanted 10s to 24h" % (where, text))
    return text


def _read_inode_share(raw: Any, where: str) -> int:
    share = parse_size(raw, where)
    if not KIB <= share <= 64 * MIB:
        raise PlumblineError("%s: %s does not fit; wanted 1 KiB to 64 MiB" % (where, human(share)))
    return share


def _read_size(entry: Mapping[str, Any], layout: str, count: int, where: str, kind: FilesystemKind) -> tuple[float, int]:
    if not layout:  # an error that is reported elsewhere: what a size may be follows from the layout
        return 0.0, 0
    if not LAYOUTS[layout].grouped:
        if entry.get("size", "100%") != "100%":
            raise PlumblineError("%s.size: layout '%s' gives a volume its whole partition; leave it out and set 'reserve'" % (where, layout))
        return 100.0, 0
    if "size" not in entry:
        if count > 1:
            raise PlumblineError("%s: 'size' is missing; with several volumes each wants one, for example 30%%" % where)
        return 100.0, 0
    if is_percent(entry["size"]):
        return parse_share(entry["size"], where + ".size"), 0
    size = parse_size(entry["size"], where + ".size", share=True)
    if size < kind.smallest:
        raise PlumblineError("%s.size: %s is too small; wanted at least %s" % (where, human(size), human(kind.smallest)))
    return 0.0, size


def _read_mode(raw: Any, where: str) -> str:
    if isinstance(raw, int):
        raise PlumblineError("%s: %s is a number, which YAML may have read as octal; write it in quotes, for example '0750'" % (where, raw))
    return match_text(raw, _MODE, where, "an octal mode in quotes, for example '0750'").zfill(4)


def _read_profile(entry: Mapping[str, Any], where: str, kind: FilesystemKind) -> str:
    """The profile that gives the mount options; empty where the user wrote them."""
    if "mount_profile" in entry and "mount_options" in entry:
        raise PlumblineError("%s: 'mount_options' and 'mount_profile' are both given; a profile is a list of options, so wanted one of them" % where)
    if "mount_options" in entry:
        return ""
    return choice(entry.get("mount_profile", "default"), tuple(kind.options.profiles), where + ".mount_profile")


def _read_mount_options(entry: Mapping[str, Any], profile: str, accept: Sequence[str], where: str, kind: FilesystemKind) -> tuple[str, ...]:
    """What may be written at all. Which risks are taken is judged when the devices are known."""
    here = where + ".mount_options"
    raw = list(kind.options.profiles.get(profile, ())) if profile else strings(entry.get("mount_options", []), here)
    options = [match_text(word, _OPTION, here, "one option a list item, such as noatime") for word in raw]
    for option in options:
        if option in _RESERVED_OPTIONS or option.startswith(("x-systemd.device-timeout", "errors=")):
            raise PlumblineError("%s: '%s' is not taken here%s" % (here, option, "; set 'errors'" if option.startswith("errors=") else ""))
    check_unique(options, here + ": option '%s' is named twice")
    spelling = (kind.options.spelling_fault(option, UNKNOWN_OPTIONS in accept) for option in options)
    fault = kind.option_fault(options) or next(filter(None, spelling), "") or kind.options.contradiction(options)
    if fault:
        raise PlumblineError("%s: %s" % (here, fault))
    if "errors" in entry:
        options.append("errors=" + choice(entry["errors"], ERROR_POLICIES, where + ".errors"))
    if len(",".join(options)) > _LONGEST_OPTIONS:
        raise PlumblineError("%s: together they are %d characters; wanted at most %d" % (here, len(",".join(options)), _LONGEST_OPTIONS))
    return tuple(options)
