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
from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._durability import POWER_CUT, STALE, option_fault
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import Faults, PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._geometry import MAX_GRAIN
from ansible_collections.plumbline.ssd.plugins.module_utils._options import PROFILES, UNKNOWN_OPTIONS, spelling_fault
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

VARIABLES = ("plumbline_stacks", "plumbline_verify", "plumbline_install", "plumbline_hosts")
OWN_PREFIX = "plumbline_x_"  # of variables that users compose specs from; nothing here reads them
LAYOUTS = ("striped", "linear", "separate")
THROUGH = ("write_cache", "partition", "striped_lvm", "filesystem")
CACHE_STATES = ("keep", "on", "off")
DISCARD_POLICIES = ("timer", "none")
ERROR_POLICIES = ("continue", "remount-ro", "panic")
ACCEPTABLE = ("shared_controller", POWER_CUT, STALE, UNKNOWN_OPTIONS)

# A name of ours has two digits for the number of a leg, and a stripe over more is nobody's.
MAX_LEGS = 64
# Of ext4's stride, s_raid_stride: 16 bits, in blocks of 4 KiB. The next power of two, 256 MiB, does not fit.
MAX_STRIPE = 128 * MIB
# What every Linux host has below /dev (Documentation/admin-guide/devices.txt, udev), and the names of disks and terminals. Whatever else a
# host has there is found when it is read.
_DEVICE_NODE = re.compile(
    r"block|bus|char|console|core|cpu|cpu_dma_latency|disk|dri|fd|full|fuse|hpet|hugepages|hwrng|initctl|input|kmsg|kvm|log|loop_control|mapper|mem|mqueue|"
    r"net|null|nvram|port|ppp|psaux|ptmx|pts|random|rfkill|rtc|shm|snapshot|snd|stderr|stdin|stdout|uhid|uinput|urandom|usb|vfio|vga_arbiter|vhci|vhost_net|"
    r"vhost_vsock|watchdog|zero|(?:sd|hd|vd|xvd)[a-z]{1,3}[0-9]*|(?:tty|vcs|vcsa|vcsu)[0-9]*|"
    r"(?:nvme|md|dm|loop|ram|sr|sg|st|nst|zram|nbd|mmcblk|drbd|bcache|pmem|ng|mtd|rbd|ublk|ublkb|ublkc|ttys|rtc|watchdog|hvc|fb|video)[0-9]+(?:[a-z][0-9]+)*"
)

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
_TEST_IDENTITY = re.compile(r"[A-Za-z0-9_.:+=,@#%-]{1,200}")
# What udev leaves of a drive's own words: these, others escaped as \x20, and letters of any language (systemd, src/shared/device-nodes.c).
_DEVICE = re.compile(r"(?:[A-Za-z0-9_.:+=,@#% -]|\\x[0-9a-f]{2}|[^\x00-\x7f]){1,255}")
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
_GEOMETRY_OF = {"model": "a model name or a shell pattern such as MZQL2*", "device": "a name below /dev/disk/by-id"}
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

    @property
    def grouped(self) -> bool:
        """Whether its volumes are LVs of a volume group of its name, and no partitions."""
        return self.layout != "separate"


def check_variables(names: Sequence[str]) -> None:
    """Refuse a ``plumbline_*`` variable that nothing reads: it is a mistyped one."""
    for name in names:
        if name not in VARIABLES and not name.startswith(OWN_PREFIX):
            text = "unknown variable '%s'%s; those of your own begin with %s; the public variables are %s"
            raise PlumblineError(text % (name, nearest(name, VARIABLES), OWN_PREFIX, ", ".join(VARIABLES)))


def read_stacks(raw: Any) -> List[Stack]:
    """Read ``plumbline_stacks``; none is nothing to do. Raises PlumblineError naming everything that is wrong, and where it stands."""
    if not isinstance(raw, list):
        raise PlumblineError("plumbline_stacks: found %s; wanted a list of stacks" % kind(raw))
    faults = Faults()
    read = [faults.take(None, _read_stack, entry, "plumbline_stacks[%d]" % number) for number, entry in enumerate(raw)]
    stacks = [stack for stack in read if stack is not None]
    _unique([stack.name for stack in stacks], "plumbline_stacks: two stacks are named '%s'", faults)
    faults.tell()  # one that was copied has everything twice
    _unique([device.path for stack in stacks for device in stack.devices], "plumbline_stacks: device '%s' is named twice", faults)
    mounts = [volume.mount for stack in stacks for volume in stack.volumes if volume.mount]
    _unique(mounts, "plumbline_stacks: two volumes are to be mounted on '%s'", faults)
    labels = [volume.label for stack in stacks for volume in stack.volumes]
    _unique(labels, "plumbline_stacks: two filesystems are labelled '%s'; set 'label' on one of them", faults)
    faults.tell()
    return stacks


def _unique(words: Sequence[str], message: str, faults: Optional[Faults] = None) -> None:
    twice = [word for word, count in Counter(words).items() if count > 1]
    if twice and faults is None:
        raise PlumblineError(message % twice[0])
    if faults is not None:
        faults.lines += [message % word for word in twice]


def kind(value: Any) -> str:
    """What a value is, for people."""
    if value == []:
        return "an empty list"
    names = {dict: "a mapping", list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), type(value).__name__)


def check_keys(entry: Any, valid: Sequence[str], where: str) -> Dict[str, Any]:
    """A mapping that has none but these keys. Raises PlumblineError naming each other one and the nearest valid one."""
    if not isinstance(entry, dict):
        raise PlumblineError("%s: found %s; wanted a mapping with %s" % (where, kind(entry), ", ".join(valid)))
    faults = Faults()
    faults.lines += ["%s: unknown key '%s'%s; valid keys: %s" % (where, key, nearest(str(key), valid), ", ".join(valid)) for key in entry if key not in valid]
    faults.tell()
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
    faults = Faults()
    entry = _entry(raw, _STACK_KEYS, ("name", "devices", "volumes"), where, faults)
    name = ""
    if "name" in entry:
        name = faults.take("", _match, entry["name"], _STACK_NAME, where + ".name", "a lower-case letter, then at most 19 lower-case letters, digits or _")
        where = "plumbline_stacks[%s]" % name if name else where
    layout = faults.take("", choice, entry.get("layout", "striped"), LAYOUTS, where + ".layout")
    no_devices: Tuple[Tuple[DeviceName, ...], Optional[Selector]] = ((), None)
    no_volumes: Tuple[Volume, ...] = ()
    devices, selector = faults.take(no_devices, _read_devices, entry["devices"], where + ".devices") if "devices" in entry else no_devices
    no_words: List[str] = []
    words = faults.take(no_words, _strings, entry.get("accept", []), where + ".accept")
    accept = tuple(filter(None, [faults.take("", choice, word, ACCEPTABLE, where + ".accept") for word in words]))
    volumes = faults.take(no_volumes, _read_volumes, entry["volumes"], name, layout, accept, where + ".volumes") if "volumes" in entry else no_volumes
    stack = Stack(
        name=name,
        devices=devices,
        selector=selector,
        layout=layout,
        reserve=faults.take({}, _read_reserve, entry.get("reserve", "10%"), where + ".reserve"),
        stripe_bytes=faults.take(0, _auto_size, entry.get("stripe_size", "auto"), where + ".stripe_size"),
        extent_bytes=faults.take(0, _auto_size, entry.get("extent_size", "auto"), where + ".extent_size"),
        overrides=faults.take((), _read_overrides, entry.get("geometry", []), where + ".geometry"),
        volumes=volumes,
        accept=accept,
        blank_proof=faults.take("", choice, entry.get("blank_proof", "sampled"), ("sampled", "full"), where + ".blank_proof"),
        legs=selector.wanted if selector else len(devices),
        write_cache=faults.take("", read_cache_state, entry.get("write_cache", "keep"), where + ".write_cache"),
        power_loss_protection=faults.take((), _read_serials, entry.get("power_loss_protection", []), where + ".power_loss_protection"),
        erase=faults.take((), _read_erase, entry.get("erase", []), where + ".erase"),
    )
    if not faults.lines:  # what contradicts what is told where each is right by itself
        _check_layout(stack, entry, where, faults)
    faults.tell()
    return stack


def _entry(raw: Any, valid: Sequence[str], needed: Sequence[str], where: str, faults: Faults) -> Mapping[str, Any]:
    """The keys of a mapping that are known, with a fault for each that is not, and for each that is *needed* and missing."""
    if not isinstance(raw, dict):
        check_keys(raw, valid, where)
    entry: Dict[str, Any] = dict(raw)
    faults.take(entry, check_keys, raw, valid, where)
    faults.lines += ["%s: '%s' is missing" % (where, key) for key in needed if key not in raw]
    return entry


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


def _check_layout(stack: Stack, entry: Mapping[str, Any], where: str, faults: Faults) -> None:
    """What must hold between the keys of a stack."""
    stripe, extent = stack.stripe_bytes, stack.extent_bytes
    if stack.erase and stack.selector:
        faults.lines.append("%s.erase: a selector takes unused devices only; name the stack's devices where one of them is to be erased" % where)
    if stack.legs > MAX_LEGS:
        faults.lines.append("%s.devices: found %d devices; wanted at most %d" % (where, stack.legs, MAX_LEGS))
    if stack.layout == "separate":
        faults.lines += [
            "%s.%s: layout 'separate' has no stripes; leave it out" % (where, key) for key in ("stripe_size", "extent_size") if key in entry
        ]  # fmt: skip
        if len(stack.volumes) != stack.legs:
            text = "%s.volumes: layout 'separate' makes one filesystem per device; found %d volumes for %d devices"
            faults.lines.append(text % (where, len(stack.volumes), stack.legs))
        return
    if _DEVICE_NODE.fullmatch(stack.name):
        text = "%s.name: a volume group is a directory below /dev, and '%s' is a name that the kernel or udev uses there; choose another"
        faults.lines.append(text % (where, stack.name))
    if stack.layout == "linear" and stack.legs != 1:
        faults.lines.append("%s.devices: layout 'linear' is for one device; found %d; use layout 'striped' for several" % (where, stack.legs))
    if stack.layout == "linear" and "stripe_size" in entry:
        faults.lines.append("%s.stripe_size: layout 'linear' has no stripes; leave it out" % where)
    if stack.layout == "striped" and stack.legs < 2:
        text = "%s.devices: a stripe wants two devices or more; found %d; use layout 'linear' or 'separate' for one"
        faults.lines.append(text % (where, stack.legs))
    if stripe and not is_power_of_two(stripe):
        low = 1 << (stripe.bit_length() - 1)
        text = "%s.stripe_size: %s is no power of two, and LVM takes only those; the nearest are %s and %s"
        faults.lines.append(text % (where, human(stripe), human(low), human(low * 2)))
    if stripe and not 4 * KIB <= stripe <= MAX_STRIPE:
        which = "below the smallest, 4 KiB" if stripe < 4 * KIB else "above the largest, %s: ext4 keeps the stride in 16 bits" % human(MAX_STRIPE)
        faults.lines.append("%s.stripe_size: %s is %s" % (where, human(stripe), which))
    if extent and (not is_power_of_two(extent) or extent < MIB):
        faults.lines.append("%s.extent_size: %s does not fit; wanted a power of two of at least 1 MiB" % (where, human(extent)))
    if stripe and extent and stripe > extent:
        faults.lines.append("%s.stripe_size: %s is larger than extent_size %s" % (where, human(stripe), human(extent)))


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
            test_identity = _match(entry["test_identity"], _TEST_IDENTITY, where + ".test_identity", "a word of letters, digits and _ . : -")
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
    return {"bytes": parse_size(raw, where, share=True)}


def _auto_size(raw: Any, where: str) -> int:
    if raw == "auto":
        return 0
    if isinstance(raw, str) and raw.strip()[:1].isalpha():
        raise PlumblineError("%s: '%s' does not fit%s; wanted 'auto' or a size such as 64KiB" % (where, raw, nearest(raw.strip().lower(), ["auto"])))
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
        for key in ("model", "device"):
            if key in entry and (not isinstance(entry[key], str) or not entry[key].strip()):
                raise PlumblineError("%s.%s: found %s; wanted %s" % (here, key, kind(entry[key]) if entry[key] != "" else "nothing", _GEOMETRY_OF[key]))
        values: Dict[str, int] = {key: parse_size(entry[key], "%s.%s" % (here, key)) for key in ("grain", "alignment_offset") if key in entry}
        if not values:
            raise PlumblineError("%s: wanted grain, alignment_offset, or both" % here)
        if "grain" in values and (values["grain"] % 512 or not 512 <= values["grain"] <= MAX_GRAIN):
            raise PlumblineError("%s.grain: %s does not fit; wanted a multiple of 512 B, at most %s" % (here, human(values["grain"]), human(MAX_GRAIN)))
        overrides.append(Override(entry.get("model", ""), entry.get("device", ""), values))
    return tuple(overrides)


def _read_volumes(raw: Any, stack: str, layout: str, accept: Sequence[str], where: str) -> Tuple[Volume, ...]:
    if not isinstance(raw, list) or not raw:
        raise PlumblineError("%s: found %s; wanted a list of at least one volume with name, size and mount" % (where, kind(raw)))
    faults = Faults()
    read = [faults.take(None, _read_volume, entry, stack, layout, accept, len(raw), "%s[%d]" % (where, number)) for number, entry in enumerate(raw)]
    volumes = tuple(volume for volume in read if volume is not None)
    _unique([volume.name for volume in volumes], where + ": two volumes are named '%s'", faults)
    total = round(sum(volume.percent for volume in volumes), 6)  # 11.3 + 12.8 + 16.8 + 24 + 20.9 + 14.2 is more in binary
    if layout != "separate" and total > 100:
        shares = " + ".join("%g%%" % volume.percent for volume in volumes if volume.percent)
        faults.lines.append("%s: the sizes add up to %g%% (%s); wanted at most 100%%" % (where, total, shares))
    faults.tell()
    return volumes


_OF_MOUNT = ("mount_options", "mount_profile", "owner", "group", "mode", "errors", "required_by", "selinux_context")
# The keys of a volume that are one word each: the pattern that it has to fit, and the words for it.
_WORDS = {
    "label": (_LABEL, "1 to 16 letters, digits and _ . : - (ext4 keeps 16 bytes)"),
    "owner": (_USER, "a user name or a number"),
    "group": (_USER, "a group name or a number"),
    "selinux_context": (_CONTEXT, "user:role:type:level"),
}


def _read_volume(raw: Any, stack: str, layout: str, accept: Sequence[str], count: int, where: str) -> Volume:
    faults = Faults()
    entry = _entry(raw, _VOLUME_KEYS, ("name",), where, faults)
    name = ""
    if "name" in entry:
        name = faults.take("", _match, entry["name"], _VOLUME_NAME, where + ".name", "a lower-case letter, then at most 31 lower-case letters, digits or _")
    if layout != "separate" and _LVM_NAME.fullmatch(name):
        faults.lines.append("%s.name: '%s' is a name that LVM keeps for itself; choose another" % (where, name))
    where = where[: where.rindex("[")] + "[%s]" % name if name else where
    words = {key: faults.take("", _match, entry[key], pattern, "%s.%s" % (where, key), fit) for key, (pattern, fit) in _WORDS.items() if key in entry}
    label = "%s-%s" % (stack, name)
    percent, size = faults.take((0.0, 0), _read_size, entry, layout, count, where)
    mount = faults.take("", check_mount_point, entry["mount"], where + ".mount") if "mount" in entry else ""
    if "mount" not in entry:
        faults.lines += ["%s.%s: the volume has no 'mount'" % (where, key) for key in _OF_MOUNT if key in entry]
    profile = faults.take("", _read_profile, entry, where)
    volume = Volume(
        name=name,
        percent=percent,
        size_bytes=size,
        mount=mount,
        label=words.get("label", label if len(label) <= 16 else name[:16]),
        mount_options=faults.take((), _read_mount_options, entry, profile, accept, where),
        owner=words.get("owner", ""),
        group=words.get("group", ""),
        mode=faults.take("", _read_mode, entry["mode"], where + ".mode") if "mode" in entry else "",
        bytes_per_inode=faults.take(0, _read_inode_share, entry["bytes_per_inode"], where + ".bytes_per_inode") if "bytes_per_inode" in entry else 0,
        discard=faults.take("", choice, entry.get("discard", "timer"), DISCARD_POLICIES, where + ".discard"),
        selinux_context=words.get("selinux_context", ""),
        required_by=faults.take((), _read_units, entry.get("required_by", []), where + ".required_by"),
        lazy_init=faults.take(False, _read_flag, entry.get("lazy_init", False), where + ".lazy_init"),
        mount_profile=profile,
    )
    faults.tell()
    return volume


def _read_units(raw: Any, where: str) -> Tuple[str, ...]:
    return tuple(_match(unit, _UNIT, where, "names of systemd units, such as postgresql.service") for unit in _strings(raw, where))


def _read_flag(raw: Any, where: str) -> bool:
    if not isinstance(raw, bool):
        raise PlumblineError("%s: '%s' does not fit; wanted true or false" % (where, raw))
    return raw


def _read_inode_share(raw: Any, where: str) -> int:
    share = parse_size(raw, where)
    if not KIB <= share <= 64 * MIB:
        raise PlumblineError("%s: %s does not fit; wanted 1 KiB to 64 MiB" % (where, human(share)))
    return share


def _read_size(entry: Mapping[str, Any], layout: str, count: int, where: str) -> Tuple[float, int]:
    if not layout:  # which is told: what a size may be follows from it
        return 0.0, 0
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
    size = parse_size(entry["size"], where + ".size", share=True)
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


def _read_mount_options(entry: Mapping[str, Any], profile: str, accept: Sequence[str], where: str) -> Tuple[str, ...]:
    """What may be written at all. Which risks are taken is judged when the devices are known."""
    here = where + ".mount_options"
    raw = list(PROFILES.get(profile, ())) if profile else _strings(entry.get("mount_options", []), here)
    options = [_match(word, _OPTION, here, "one option a list item, such as noatime") for word in raw]
    for option in options:
        if option in _RESERVED_OPTIONS or option.startswith(("x-systemd.device-timeout", "errors=")):
            raise PlumblineError("%s: '%s' is not taken here%s" % (here, option, "; set 'errors'" if option.startswith("errors=") else ""))
    _unique(options, here + ": option '%s' is named twice")
    fault = option_fault(options) or next(filter(None, (spelling_fault(option, UNKNOWN_OPTIONS in accept) for option in options)), "")
    if fault:
        raise PlumblineError("%s: %s" % (here, fault))
    if "errors" in entry:
        options.append("errors=" + choice(entry["errors"], ERROR_POLICIES, where + ".errors"))
    return tuple(options)
