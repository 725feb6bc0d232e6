# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""What a user writes, read and checked in one place.

Ansible's own argument check names the wrong level and knows no nearest key, so the public variables are
plain lists and dicts there and are judged here: one line that names the key, where it stands, what was
wanted and the nearest valid word. Pure: nothing here reads a host.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._durability import POWER_CUT, STALE, option_fault
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._geometry import MAX_GRAIN
from ansible_collections.plumbline.ssd.plugins.module_utils._options import PROFILES
from ansible_collections.plumbline.ssd.plugins.module_utils._paths import check_mount_point
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import (
    KIB,
    MIB,
    human,
    is_percent,
    is_power_of_two,
    parse_share,
    parse_size,
)

VARIABLES = ("plumbline_stacks", "plumbline_verify", "plumbline_install")
LAYOUTS = ("striped", "separate")
THROUGH = ("write_cache", "partition", "striped_lvm", "filesystem")
CACHE_STATES = ("keep", "on", "off")
DISCARD_POLICIES = ("timer", "none")
ERROR_POLICIES = ("continue", "remount-ro", "panic")
ACCEPTABLE = ("shared_controller", POWER_CUT, STALE)

# GPT names hold 36 UTF-16 units: "plumbline:" + stack + ":" + index must fit.
_STACK_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")
_VOLUME_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
# Names that LVM keeps for itself, lvm(8) "VALID NAMES".
_LVM_NAME = re.compile(r"(?:snapshot|pvmove).*|.*_(?:cdata|cmeta|corig|iorig|mimage|mlog|pmspare|rimage|rmeta|tdata|tmeta|vdata|vorigin|wcorig)(?:_.*)?")
_OPTION = re.compile(r"[A-Za-z0-9_.:=/+@-]+")
_USER = re.compile(r"(?:[a-z_][a-z0-9_.-]{0,31}\$?|[0-9]{1,10})")
_SIGNATURE = re.compile(r"[0-9a-f]{32}")
_MODE = re.compile(r"[0-7]{3,4}")
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,200}\.(?:service|socket|target|slice|scope|timer|mount)")
_LABEL = re.compile(r"[A-Za-z0-9_.:-]{1,16}")
_DEVICE = re.compile(r"[A-Za-z0-9_.:+=,@#%-]{1,200}")
_CONTEXT = re.compile(r"[A-Za-z0-9_]+:[A-Za-z0-9_]+:[A-Za-z0-9_]+(?::[A-Za-z0-9_:.,-]+)?")

_STACK_KEYS = (
    "name", "devices", "layout", "reserve", "stripe_size", "extent_size", "geometry", "volumes", "accept", "blank_proof",
    "write_cache", "power_loss_protection", "erase",
)  # fmt: skip
_VOLUME_KEYS = (
    "name", "size", "mount", "label", "mount_options", "mount_profile", "owner", "group", "mode", "errors", "bytes_per_inode",
    "discard", "selinux_context", "required_by", "lazy_init",
)  # fmt: skip
_SELECTOR_KEYS = ("model", "min_size", "max_size", "count")
_DEVICE_KEYS = ("path", "test_identity")
_ERASE_KEYS = ("serial", "signature")
_GEOMETRY_KEYS = ("model", "device", "grain", "alignment_offset")

# Options that fstab carries for every volume, so that a missing disk does not stop the boot.
FSTAB_OPTIONS = ("nofail", "x-systemd.device-timeout=30s")
_RESERVED_OPTIONS = ("nofail", "auto", "noauto", "remount", "bind", "loop", "ro")


class DeviceName(NamedTuple):
    """A device as the user named it; *test_identity* stands in for the identity that a loop device lacks."""

    path: str
    test_identity: str = ""


class Selector(NamedTuple):
    """Exactly *wanted* devices must match: model by shell pattern, sizes in bytes (0: no bound)."""

    model: str
    wanted: int
    min_bytes: int = 0
    max_bytes: int = 0


class Erase(NamedTuple):
    """A device that may be erased: its serial, and the digest of its contents that its refusal printed."""

    serial: str
    signature: str


class Override(NamedTuple):
    """The operator's own geometry, in bytes, for devices by *model* pattern or by *device* name."""

    model: str
    device: str
    values: Mapping[str, int]


class Volume(NamedTuple):
    """One LV (or one partition, layout separate) with its filesystem. Exactly one of *percent*, *size_bytes* counts."""

    name: str
    percent: float
    size_bytes: int
    mount: str
    label: str
    mount_options: Tuple[str, ...]
    owner: str
    group: str
    mode: str
    bytes_per_inode: int
    discard: str
    selinux_context: str
    required_by: Tuple[str, ...]
    lazy_init: bool
    mount_profile: str = ""  # where *mount_options* come from, unless the user wrote them

    @property
    def fstab_options(self) -> str:
        """The options as fstab carries them."""
        return ",".join(self.mount_options + FSTAB_OPTIONS)


class Stack(NamedTuple):
    """One entry of ``plumbline_stacks``, checked. *stripe_bytes* and *extent_bytes* 0 mean auto."""

    name: str
    devices: Tuple[DeviceName, ...]
    selector: Optional[Selector]
    layout: str
    reserve: Mapping[str, float]
    stripe_bytes: int
    extent_bytes: int
    overrides: Tuple[Override, ...]
    volumes: Tuple[Volume, ...]
    accept: Tuple[str, ...]
    blank_proof: str = "sampled"
    legs: int = 0
    write_cache: str = "keep"
    power_loss_protection: Tuple[str, ...] = ()  # serials of drives of which the operator states it
    erase: Tuple[Erase, ...] = ()


def check_variables(names: Sequence[str]) -> None:
    """Refuse a ``plumbline_*`` variable that nothing reads: it is a mistyped one."""
    for name in names:
        if name not in VARIABLES:
            raise PlumblineError("unknown variable '%s'%s; the public variables are %s" % (name, nearest(name, VARIABLES), ", ".join(VARIABLES)))


def read_stacks(raw: Any) -> List[Stack]:
    """Read ``plumbline_stacks``. Raises PlumblineError naming the first thing that is wrong, and where it stands."""
    if not isinstance(raw, list):
        raise PlumblineError("plumbline_stacks: found %s; wanted a list of stacks" % kind(raw))
    if not raw:
        raise PlumblineError("plumbline_stacks: the list is empty; wanted at least one stack, with name, devices and volumes")
    stacks = [_read_stack(entry, "plumbline_stacks[%d]" % number) for number, entry in enumerate(raw)]
    _unique([stack.name for stack in stacks], "plumbline_stacks: two stacks are named '%s'")
    _unique([device.path for stack in stacks for device in stack.devices], "plumbline_stacks: device '%s' is named twice")
    mounts = [volume.mount for stack in stacks for volume in stack.volumes if volume.mount]
    _unique(mounts, "plumbline_stacks: two volumes are to be mounted on '%s'")
    labels = [volume.label for stack in stacks for volume in stack.volumes]
    _unique(labels, "plumbline_stacks: two filesystems are labelled '%s'; set 'label' on one of them")
    return stacks


def _unique(words: Sequence[str], message: str) -> None:
    seen = set()
    for word in words:
        if word in seen:
            raise PlumblineError(message % word)
        seen.add(word)


def kind(value: Any) -> str:
    """What a value is, for people."""
    if value == []:
        return "an empty list"
    names = {dict: "a mapping", list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), type(value).__name__)


def check_keys(entry: Any, valid: Sequence[str], where: str) -> Dict[str, Any]:
    """A mapping that has none but these keys. Raises PlumblineError naming the first other one and the nearest valid one."""
    if not isinstance(entry, dict):
        raise PlumblineError("%s: found %s; wanted a mapping with %s" % (where, kind(entry), ", ".join(valid)))
    for key in entry:
        if key not in valid:
            raise PlumblineError("%s: unknown key '%s'%s; valid keys: %s" % (where, key, nearest(str(key), valid), ", ".join(valid)))
    return entry


def choice(value: Any, valid: Sequence[str], where: str) -> str:
    """One of these words. Raises PlumblineError for another."""
    if value not in valid:
        raise PlumblineError("%s: '%s' is not known%s; wanted one of %s" % (where, value, nearest(str(value), valid), ", ".join(valid)))
    return str(value)


def _strings(value: Any, where: str) -> List[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise PlumblineError("%s: found %s; wanted a list of strings" % (where, kind(value)))
    return value


def _match(value: Any, pattern: "re.Pattern[str]", where: str, wanted: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not pattern.fullmatch(str(value)):
        raise PlumblineError("%s: '%s' does not fit; wanted %s" % (where, value, wanted))
    return str(value)


def _read_stack(raw: Any, where: str) -> Stack:
    entry = check_keys(raw, _STACK_KEYS, where)
    for key in ("name", "devices", "volumes"):
        if key not in entry:
            raise PlumblineError("%s: '%s' is missing" % (where, key))
    name = _match(entry["name"], _STACK_NAME, where + ".name", "a lower-case letter, then at most 19 lower-case letters, digits or _")
    where = "plumbline_stacks[%s]" % name
    layout = choice(entry.get("layout", "striped"), LAYOUTS, where + ".layout")
    devices, selector = _read_devices(entry["devices"], where + ".devices")
    legs = selector.wanted if selector else len(devices)
    accept = tuple(choice(word, ACCEPTABLE, where + ".accept") for word in _strings(entry.get("accept", []), where + ".accept"))
    volumes = _read_volumes(entry["volumes"], name, layout, where + ".volumes")
    stack = Stack(
        name=name,
        devices=devices,
        selector=selector,
        layout=layout,
        reserve=_read_reserve(entry.get("reserve", "10%"), where + ".reserve"),
        stripe_bytes=_auto_size(entry.get("stripe_size", "auto"), where + ".stripe_size"),
        extent_bytes=_auto_size(entry.get("extent_size", "auto"), where + ".extent_size"),
        overrides=_read_overrides(entry.get("geometry", []), where + ".geometry"),
        volumes=volumes,
        accept=accept,
        blank_proof=choice(entry.get("blank_proof", "sampled"), ("sampled", "full"), where + ".blank_proof"),
        legs=legs,
        write_cache=read_cache_state(entry.get("write_cache", "keep"), where + ".write_cache"),
        power_loss_protection=_read_serials(entry.get("power_loss_protection", []), where + ".power_loss_protection"),
        erase=_read_erase(entry.get("erase", []), where + ".erase"),
    )
    _check_layout(stack, entry, where)
    return stack


def read_cache_state(value: Any, where: str) -> str:
    """``keep``, ``on`` or ``off``. Without quotes the last two are booleans to YAML 1.1, as Ansible reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return choice(value, CACHE_STATES, where)


def _read_serials(value: Any, where: str) -> Tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, (str, int)) and not isinstance(word, bool) and str(word).strip() for word in value):
        raise PlumblineError("%s: found %s; wanted a list of serial numbers of drives, as device_info shows them" % (where, kind(value)))
    serials = tuple(str(word).strip() for word in value)
    _unique(serials, where + ": serial '%s' is named twice")
    return serials


def _read_erase(raw: Any, where: str) -> Tuple[Erase, ...]:
    if not isinstance(raw, list):
        raise PlumblineError("%s: found %s; wanted a list of mappings with %s, as a refusal prints them" % (where, kind(raw), ", ".join(_ERASE_KEYS)))
    wishes = []
    for number, item in enumerate(raw):
        here = "%s[%d]" % (where, number)
        entry = check_keys(item, _ERASE_KEYS, here)
        for key in _ERASE_KEYS:
            if key not in entry:
                raise PlumblineError("%s: '%s' is missing; a refusal prints both" % (here, key))
        (serial,) = _read_serials([entry["serial"]], here + ".serial")
        wishes.append(Erase(serial, _match(entry["signature"], _SIGNATURE, here + ".signature", "the 32 characters 0 to f that the refusal prints, in quotes")))
    _unique([wish.signature for wish in wishes], where + ": signature '%s' is named twice")
    return tuple(wishes)


def _check_layout(stack: Stack, entry: Mapping[str, Any], where: str) -> None:
    if stack.erase and stack.selector:
        raise PlumblineError("%s.erase: a selector takes unused devices only; name the stack's devices where one of them is to be erased" % where)
    if stack.layout == "separate":
        for key in ("stripe_size", "extent_size"):
            if key in entry:
                raise PlumblineError("%s.%s: layout 'separate' has no stripes; leave it out" % (where, key))
        if len(stack.volumes) != stack.legs:
            raise PlumblineError(
                "%s.volumes: layout 'separate' makes one filesystem per device; found %d volumes for %d devices" % (where, len(stack.volumes), stack.legs)
            )
    elif stack.legs < 2:
        raise PlumblineError("%s.devices: a stripe wants two devices or more; found %d; use layout 'separate' for one" % (where, stack.legs))
    if stack.stripe_bytes and not is_power_of_two(stack.stripe_bytes):
        low = 1 << (stack.stripe_bytes.bit_length() - 1)
        raise PlumblineError(
            "%s.stripe_size: %s is no power of two, and LVM takes only those; the nearest are %s and %s"
            % (where, human(stack.stripe_bytes), human(low), human(low * 2))
        )
    if stack.stripe_bytes and stack.stripe_bytes < 4 * KIB:
        raise PlumblineError("%s.stripe_size: %s is below the smallest, 4 KiB" % (where, human(stack.stripe_bytes)))
    if stack.extent_bytes and (not is_power_of_two(stack.extent_bytes) or stack.extent_bytes < MIB):
        raise PlumblineError("%s.extent_size: %s does not fit; wanted a power of two of at least 1 MiB" % (where, human(stack.extent_bytes)))
    if stack.stripe_bytes and stack.extent_bytes and stack.stripe_bytes > stack.extent_bytes:
        raise PlumblineError("%s.stripe_size: %s is larger than extent_size %s" % (where, human(stack.stripe_bytes), human(stack.extent_bytes)))


def _read_devices(raw: Any, where: str) -> Tuple[Tuple[DeviceName, ...], Optional[Selector]]:
    if isinstance(raw, dict):
        return (), _read_selector(raw, where)
    if not isinstance(raw, list) or not raw:
        raise PlumblineError(
            "%s: found %s; wanted a list of names below /dev/disk/by-id, or a selector with %s" % (where, kind(raw), ", ".join(_SELECTOR_KEYS))
        )
    return tuple(_read_device(entry, "%s[%d]" % (where, number)) for number, entry in enumerate(raw)), None


def _read_device(raw: Any, where: str) -> DeviceName:
    test_identity = ""
    if isinstance(raw, dict):
        entry = check_keys(raw, _DEVICE_KEYS, where)
        if "path" not in entry:
            raise PlumblineError("%s: 'path' is missing" % where)
        raw = entry["path"]
        if "test_identity" in entry:
            test_identity = _match(entry["test_identity"], _DEVICE, where + ".test_identity", "a word of letters, digits and _ . : -")
    if not isinstance(raw, str):
        raise PlumblineError("%s: found %s; wanted a name below /dev/disk/by-id" % (where, kind(raw)))
    name = raw
    for prefix in ("/dev/disk/by-id/", "/dev/"):
        if name.startswith(prefix):
            name = name[len(prefix) :]
            break
    if not _DEVICE.fullmatch(name) or name in (".", ".."):
        raise PlumblineError("%s: '%s' does not name a device; wanted a name below /dev/disk/by-id, such as nvme-MODEL_SERIAL" % (where, raw))
    return DeviceName(raw if raw.startswith("/dev/") else "/dev/disk/by-id/" + raw, test_identity)


def _read_selector(raw: Any, where: str) -> Selector:
    entry = check_keys(raw, _SELECTOR_KEYS, where)
    for key in ("model", "count"):
        if key not in entry:
            raise PlumblineError("%s: '%s' is missing" % (where, key))
    count = entry["count"]
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 64:
        raise PlumblineError("%s.count: '%s' does not fit; wanted a number of devices from 1 to 64" % (where, count))
    if not isinstance(entry["model"], str) or not entry["model"].strip():
        raise PlumblineError("%s.model: '%s' does not fit; wanted a model name or a shell pattern such as MZQL2*" % (where, entry["model"]))
    low = parse_size(entry["min_size"], where + ".min_size") if "min_size" in entry else 0
    high = parse_size(entry["max_size"], where + ".max_size") if "max_size" in entry else 0
    if high and low > high:
        raise PlumblineError("%s: min_size %s is above max_size %s, so no device can match" % (where, human(low), human(high)))
    return Selector(
        model=entry["model"],
        wanted=count,
        min_bytes=low,
        max_bytes=high,
    )


def _read_reserve(raw: Any, where: str) -> Mapping[str, float]:
    if raw in (0, "0", "0%") and not isinstance(raw, bool):
        return {"percent": 0.0}
    if is_percent(raw):
        share = parse_share(raw, where)
        if share > 90:
            raise PlumblineError("%s: %s leaves too little of the device; wanted at most 90%%" % (where, raw))
        return {"percent": share}
    return {"bytes": parse_size(raw, where)}


def _auto_size(raw: Any, where: str) -> int:
    if raw == "auto":
        return 0
    size = parse_size(raw, where)
    if not size:
        raise PlumblineError("%s: 0 does not fit; wanted 'auto' or a size such as 64KiB" % where)
    return size


def _read_overrides(raw: Any, where: str) -> Tuple[Override, ...]:
    if not isinstance(raw, list):
        raise PlumblineError("%s: found %s; wanted a list of mappings with %s" % (where, kind(raw), ", ".join(_GEOMETRY_KEYS)))
    overrides = []
    for number, item in enumerate(raw):
        here = "%s[%d]" % (where, number)
        entry = check_keys(item, _GEOMETRY_KEYS, here)
        if ("model" in entry) == ("device" in entry):
            raise PlumblineError("%s: wanted exactly one of 'model' (a pattern) and 'device' (a name)" % here)
        values: Dict[str, int] = {key: parse_size(entry[key], "%s.%s" % (here, key)) for key in ("grain", "alignment_offset") if key in entry}
        if not values:
            raise PlumblineError("%s: wanted grain, alignment_offset, or both" % here)
        if "grain" in values and (values["grain"] % 512 or not 512 <= values["grain"] <= MAX_GRAIN):
            raise PlumblineError("%s.grain: %s does not fit; wanted a multiple of 512 B, at most %s" % (here, human(values["grain"]), human(MAX_GRAIN)))
        overrides.append(Override(str(entry.get("model", "")), str(entry.get("device", "")), values))
    return tuple(overrides)


def _read_volumes(raw: Any, stack: str, layout: str, where: str) -> Tuple[Volume, ...]:
    if not isinstance(raw, list) or not raw:
        raise PlumblineError("%s: found %s; wanted a list of at least one volume with name, size and mount" % (where, kind(raw)))
    volumes = tuple(_read_volume(entry, stack, layout, len(raw), "%s[%d]" % (where, number)) for number, entry in enumerate(raw))
    _unique([volume.name for volume in volumes], where + ": two volumes are named '%s'")
    total = round(sum(volume.percent for volume in volumes), 6)  # 11.3 + 12.8 + 16.8 + 24 + 20.9 + 14.2 is more in binary
    if layout == "striped" and total > 100:
        shares = " + ".join("%g%%" % volume.percent for volume in volumes if volume.percent)
        raise PlumblineError("%s: the sizes add up to %g%% (%s); wanted at most 100%%" % (where, total, shares))
    return volumes


def _read_volume(raw: Any, stack: str, layout: str, count: int, where: str) -> Volume:
    entry = check_keys(raw, _VOLUME_KEYS, where)
    if "name" not in entry:
        raise PlumblineError("%s: 'name' is missing" % where)
    name = _match(entry["name"], _VOLUME_NAME, where + ".name", "a lower-case letter, then at most 31 lower-case letters, digits or _")
    if layout == "striped" and _LVM_NAME.fullmatch(name):
        raise PlumblineError("%s.name: '%s' is a name that LVM keeps for itself; choose another" % (where, name))
    where = where[: where.rindex("[")] + "[%s]" % name
    percent, size = _read_size(entry, layout, count, where)
    label = "%s-%s" % (stack, name)
    label = label if len(label) <= 16 else name[:16]
    if "label" in entry:
        label = _match(entry["label"], _LABEL, where + ".label", "1 to 16 letters, digits and _ . : - (ext4 keeps 16 bytes)")
    inode = parse_size(entry["bytes_per_inode"], where + ".bytes_per_inode") if "bytes_per_inode" in entry else 0
    if "bytes_per_inode" in entry and not (KIB <= inode <= 64 * MIB):
        raise PlumblineError("%s.bytes_per_inode: %s does not fit; wanted 1 KiB to 64 MiB" % (where, human(inode)))
    lazy = entry.get("lazy_init", False)
    if not isinstance(lazy, bool):
        raise PlumblineError("%s.lazy_init: '%s' does not fit; wanted true or false" % (where, lazy))
    mount = check_mount_point(entry["mount"], where + ".mount") if "mount" in entry else ""
    for key in ("mount_options", "mount_profile", "owner", "group", "mode", "errors", "required_by", "selinux_context"):
        if key in entry and not mount:
            raise PlumblineError("%s.%s: the volume has no 'mount'" % (where, key))
    profile = _read_profile(entry, where)
    units = tuple(
        _match(unit, _UNIT, where + ".required_by", "names of systemd units, such as postgresql.service")
        for unit in _strings(entry.get("required_by", []), where + ".required_by")
    )
    return Volume(
        name=name,
        percent=percent,
        size_bytes=size,
        mount=mount,
        label=label,
        mount_options=_read_mount_options(entry, profile, where),
        owner=_match(entry["owner"], _USER, where + ".owner", "a user name or a number") if "owner" in entry else "",
        group=_match(entry["group"], _USER, where + ".group", "a group name or a number") if "group" in entry else "",
        mode=_read_mode(entry["mode"], where + ".mode") if "mode" in entry else "",
        bytes_per_inode=inode,
        discard=choice(entry.get("discard", "timer"), DISCARD_POLICIES, where + ".discard"),
        selinux_context=_match(entry["selinux_context"], _CONTEXT, where + ".selinux_context", "user:role:type:level") if "selinux_context" in entry else "",
        required_by=units,
        lazy_init=lazy,
        mount_profile=profile,
    )


def _read_size(entry: Mapping[str, Any], layout: str, count: int, where: str) -> Tuple[float, int]:
    if layout == "separate":
        if entry.get("size", "100%") != "100%":
            raise PlumblineError("%s.size: layout 'separate' gives a volume its whole partition; leave it out and set 'reserve'" % where)
        return 100.0, 0
    if "size" not in entry:
        if count > 1:
            raise PlumblineError("%s: 'size' is missing; with several volumes each wants one, for example 30%%" % where)
        return 100.0, 0
    if is_percent(entry["size"]):
        return parse_share(entry["size"], where + ".size"), 0
    size = parse_size(entry["size"], where + ".size")
    if size < 8 * MIB:
        raise PlumblineError("%s.size: %s is too small; wanted at least 8 MiB" % (where, human(size)))
    return 0.0, size


def _read_mode(raw: Any, where: str) -> str:
    if isinstance(raw, int):
        raise PlumblineError("%s: %s is a number, which YAML may have read as octal; write it in quotes, for example '0750'" % (where, raw))
    return _match(raw, _MODE, where, "an octal mode in quotes, for example '0750'").zfill(4)


def _read_profile(entry: Mapping[str, Any], where: str) -> str:
    """The profile that gives the mount options; empty where the user wrote them."""
    if "mount_profile" in entry and "mount_options" in entry:
        raise PlumblineError("%s: 'mount_options' and 'mount_profile' are both given; a profile is a list of options, so wanted one of them" % where)
    if "mount_options" in entry:
        return ""
    return choice(entry.get("mount_profile", "default"), tuple(PROFILES), where + ".mount_profile")


def _read_mount_options(entry: Mapping[str, Any], profile: str, where: str) -> Tuple[str, ...]:
    """What may be written at all. Which risks are taken is judged when the devices are known."""
    here = where + ".mount_options"
    raw = list(PROFILES[profile]) if profile else _strings(entry["mount_options"], here)
    options = [_match(word, _OPTION, here, "one option a list item, such as noatime") for word in raw]
    for option in options:
        if option in _RESERVED_OPTIONS or option.startswith(("x-systemd.device-timeout", "errors=")):
            raise PlumblineError("%s: '%s' is not taken here%s" % (here, option, "; set 'errors'" if option.startswith("errors=") else ""))
    _unique(options, here + ": option '%s' is named twice")
    fault = option_fault(options)
    if fault:
        raise PlumblineError("%s: %s" % (here, fault))
    if "errors" in entry:
        options.append("errors=" + choice(entry["errors"], ERROR_POLICIES, where + ".errors"))
    return tuple(options)
