# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a user writes to the spec of each stack, checked in one place.

Ansible's own argument check names the wrong level and knows no nearest key, so the public variables are
plain lists and dicts there and are judged here: one line that names the key, where it stands, what was
wanted and the nearest valid word. Pure: nothing here reads a host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import MAX_GRAIN
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import Override
from ansible_collections.plumbline.ssd.plugins.module_utils._core.checks import check_entry, check_keys, check_unique, choice, flag, kind, match_text, strings
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import Faults, PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import parse_size
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, TIB, human, is_power_of_two
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import POWER_CUT, STALE
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DEFAULT, FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import UNKNOWN_OPTIONS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.layouts import LAYOUTS, MIRRORED
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_reserve import read_reserve
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_volumes import read_volumes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import DeviceName, Erase, Replacement, ReserveGoal, Selector, Stack, Volume

VARIABLES = (
    *("plumbline_stacks", "plumbline_verify", "plumbline_install", "plumbline_hosts", "plumbline_health", "plumbline_monitor", "plumbline_audit"),
    *("plumbline_acceptance", "plumbline_acceptance_devices", "plumbline_steady_state"),
)
OWN_PREFIX = "plumbline_x_"  # of variables that users compose specs from; nothing here reads them
THROUGH = ("write_cache", "partition", "striped_lvm", "filesystem")
CACHE_STATES = ("keep", "on", "off")
ACCEPTABLE = ("shared_controller", "slow_link", POWER_CUT, STALE, UNKNOWN_OPTIONS)
# A name of ours has two digits for the number of a leg, and a stripe over more is nobody's.
MAX_LEGS = 64
# LVM keeps it in sectors, in 32 bits (lvm2, MAX_EXTENT_SIZE). The next power of two, 2 TiB, does not fit.
MAX_EXTENT = TIB
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
_SIGNATURE = re.compile(r"[0-9a-f]{32}")
_TEST_IDENTITY = re.compile(r"[A-Za-z0-9_.:+=,@#%-]{1,200}")
# What udev leaves of a drive's own words: these, others escaped as \x20, and letters of any language (systemd, src/shared/device-nodes.c).
_DEVICE = re.compile(r"(?:[A-Za-z0-9_.:+=,@#% -]|\\x[0-9a-f]{2}|[^\x00-\x7f]){1,255}")
_STACK_KEYS = (
    "name", "devices", "layout", "reserve", "stripe_size", "extent_size", "geometry", "volumes", "accept", "blank_proof",
    "write_cache", "power_loss_protection", "erase", "discard", "workload", "grow", "stripes",
    "mirror", "replace",
)  # fmt: skip
_SELECTOR_KEYS = ("model", "min_size", "max_size", "count")
_DEVICE_KEYS = ("path", "test_identity")
_ERASE_KEYS = ("serial", "signature")
_GEOMETRY_OF = {"model": "a model name or a shell pattern such as MZQL2*", "device": "a name below /dev/disk/by-id"}
_GEOMETRY_KEYS = ("model", "device", "grain", "alignment_offset")


def check_variables(names: Sequence[str]) -> None:
    """Refuse a ``plumbline_*`` variable that nothing reads: it is a mistyped one."""
    for name in names:
        if name not in VARIABLES and not name.startswith(OWN_PREFIX):
            text = "unknown variable '%s'%s; those of your own begin with %s; the public variables are %s"
            raise PlumblineError(text % (name, nearest(name, VARIABLES), OWN_PREFIX, ", ".join(VARIABLES)))


def read_stacks(raw: Any) -> list[Stack]:
    """Read ``plumbline_stacks``; none is nothing to do. Raises PlumblineError naming everything that is wrong, and where it stands."""
    if not isinstance(raw, list):
        raise PlumblineError("plumbline_stacks: found %s; wanted a list of stacks" % kind(raw))
    faults = Faults()
    read = [faults.take(None, _read_stack, entry, "plumbline_stacks[%d]" % number) for number, entry in enumerate(raw)]
    stacks = [stack for stack in read if stack is not None]
    check_unique([stack.name for stack in stacks], "plumbline_stacks: two stacks are named '%s'", faults)
    faults.tell()  # one that was copied has everything twice
    check_unique([device.path for stack in stacks for device in stack.devices], "plumbline_stacks: device '%s' is named twice", faults)
    mounts = [volume.mount for stack in stacks for volume in stack.volumes if volume.mount]
    check_unique(mounts, "plumbline_stacks: two volumes are to be mounted on '%s'", faults)
    labels = [volume.label for stack in stacks for volume in stack.volumes]
    check_unique(labels, "plumbline_stacks: two filesystems are labelled '%s'; set 'label' on one of them", faults)
    faults.tell()
    return stacks


def _read_stack(raw: Any, where: str) -> Stack:
    faults = Faults()
    entry = check_entry(raw, _STACK_KEYS, ("name", "devices", "volumes"), where, faults)
    name = ""
    if "name" in entry:
        name = faults.take("", match_text, entry["name"], _STACK_NAME, where + ".name", "a lower-case letter, then at most 19 lower-case letters, digits or _")
        where = "plumbline_stacks[%s]" % name if name else where
    layout = faults.take("", choice, entry.get("layout", "striped"), tuple(LAYOUTS), where + ".layout")
    no_devices: tuple[tuple[DeviceName, ...], Selector | None] = ((), None)
    no_volumes: tuple[Volume, ...] = ()
    devices, selector = faults.take(no_devices, _read_devices, entry["devices"], where + ".devices") if "devices" in entry else no_devices
    no_words: list[str] = []
    words = faults.take(no_words, strings, entry.get("accept", []), where + ".accept")
    accept = tuple(filter(None, [faults.take("", choice, word, ACCEPTABLE, where + ".accept") for word in words]))
    volumes = faults.take(no_volumes, read_volumes, entry["volumes"], name, layout, accept, where + ".volumes") if "volumes" in entry else no_volumes
    no_reserve: tuple[Mapping[str, float], ReserveGoal | None] = ({}, None)
    reserve, goal = faults.take(no_reserve, read_reserve, entry.get("reserve", "10%"), entry.get("workload"), where)
    stack = Stack(
        name=name,
        devices=devices,
        selector=selector,
        layout=layout,
        reserve=reserve,
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
        discard=faults.take(True, flag, entry.get("discard", True), where + ".discard"),
        goal=goal,
        grow=faults.take(False, flag, entry.get("grow", False), where + ".grow"),
        mirror=faults.take(False, flag, entry.get("mirror", False), where + ".mirror"),
        replace=faults.take((), _read_replacements, entry["replace"], where + ".replace") if "replace" in entry else (),
        stripes=faults.take(0, _read_stripes, entry["stripes"], where + ".stripes") if "stripes" in entry else 0,
    )
    if not faults.lines:  # what contradicts what is told where each is right by itself
        _check_layout(stack, entry, where, faults)
    faults.tell()
    return stack


def _read_stripes(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= MAX_LEGS:
        raise PlumblineError("%s: '%s' does not fit; wanted the number of devices that a volume is striped over, from 2 to %d" % (where, value, MAX_LEGS))
    return value


def _read_replacements(value: Any, where: str) -> tuple[Replacement, ...]:
    words = [word for pair in value.items() for word in pair] if isinstance(value, dict) else [""]
    if not all(isinstance(word, (str, int)) and not isinstance(word, bool) and str(word).strip() for word in words):
        text = "%s: found %s; wanted a mapping from the serial of a device to that of the device that takes its place, such as {SERIAL1: SERIAL9}"
        raise PlumblineError(text % (where, kind(value)))
    pairs = tuple(Replacement(str(old).strip(), str(new).strip()) for old, new in value.items())
    check_unique([pair.new for pair in pairs], where + ": serial '%s' takes two places")
    for pair in pairs:
        if pair.new != pair.old and pair.new in {other.old for other in pairs}:
            raise PlumblineError("%s: serial '%s' is to take a place and to be replaced; leave out what is done already" % (where, pair.new))
    return pairs


def read_cache_state(value: Any, where: str) -> str:
    """``keep``, ``on`` or ``off``. Without quotes the last two are booleans to YAML 1.1, as Ansible reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return choice(value, CACHE_STATES, where)


def _read_serials(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, (str, int)) and not isinstance(word, bool) and str(word).strip() for word in value):
        raise PlumblineError("%s: found %s; wanted a list of serial numbers of drives, as device_info shows them" % (where, kind(value)))
    serials = tuple(str(word).strip() for word in value)
    check_unique(serials, where + ": serial '%s' is named twice")
    return serials


def _read_erase(raw: Any, where: str) -> tuple[Erase, ...]:
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
        wanted = "the 32 characters 0 to f that the refusal prints, in quotes"
        wishes.append(Erase(serial, match_text(entry["signature"], _SIGNATURE, here + ".signature", wanted)))
    check_unique([wish.signature for wish in wishes], where + ": signature '%s' is named twice")
    return tuple(wishes)


def _check_layout(stack: Stack, entry: Mapping[str, Any], where: str, faults: Faults) -> None:
    """What must hold between the keys of a stack."""
    stripe, extent = stack.stripe_bytes, stack.extent_bytes
    if stack.erase and stack.selector:
        faults.lines.append("%s.erase: a selector takes unused devices only; name the stack's devices where one of them is to be erased" % where)
    if stack.legs > MAX_LEGS:
        faults.lines.append("%s.devices: found %d devices; wanted at most %d" % (where, stack.legs, MAX_LEGS))
    if stack.mirror and stack.layout != MIRRORED.name:
        text = "%s.mirror: layout '%s' has no mirrors; use layout 'striped', also for one pair of devices, or leave mirror out"
        faults.lines.append(text % (where, stack.layout))
    if stack.mirror and stack.selector:
        faults.lines.append("%s.mirror: devices pair in their order, and a selector has none; name the devices one by one" % where)
    if stack.replace and not stack.mirror:
        faults.lines.append("%s.replace: it is for stacks with mirror: true; leave it out" % where)
    faults.lines += stack.laid.fault(stack.legs, len(stack.volumes), list(entry), where)
    if stack.stripes and stack.laid.striped and stack.legs % stack.stripes:
        text = "%s.stripes: %d devices are no whole rows of %d; name %d more, or as many fewer as are too many"
        faults.lines.append(text % (where, stack.legs, stack.stripes, stack.stripes - stack.legs % stack.stripes))
    if not stack.grouped:
        return
    if _DEVICE_NODE.fullmatch(stack.name):
        text = "%s.name: a volume group is a directory below /dev, and '%s' is a name that the kernel or udev uses there; choose another"
        faults.lines.append(text % (where, stack.name))
    if stripe and not is_power_of_two(stripe):
        low = 1 << (stripe.bit_length() - 1)
        text = "%s.stripe_size: %s is no power of two, and LVM takes only those; the nearest are %s and %s"
        faults.lines.append(text % (where, human(stripe), human(low), human(low * 2)))
    kind = min((volume.kind for volume in stack.volumes), key=lambda one: one.largest_stripe, default=FILESYSTEMS[DEFAULT])
    if stripe and not 4 * KIB <= stripe <= kind.largest_stripe:
        which = "below the smallest, 4 KiB" if stripe < 4 * KIB else "above the largest, %s: %s" % (human(kind.largest_stripe), kind.stripe_bits)
        faults.lines.append("%s.stripe_size: %s is %s" % (where, human(stripe), which))
    if extent and (not is_power_of_two(extent) or extent < MIB):
        faults.lines.append("%s.extent_size: %s does not fit; wanted a power of two of at least 1 MiB" % (where, human(extent)))
    if extent > MAX_EXTENT:
        faults.lines.append("%s.extent_size: %s is above the largest that LVM takes, %s" % (where, human(extent), human(MAX_EXTENT)))
    if stripe and extent and stripe > extent:
        faults.lines.append("%s.stripe_size: %s is larger than extent_size %s" % (where, human(stripe), human(extent)))


def _read_devices(raw: Any, where: str) -> tuple[tuple[DeviceName, ...], Selector | None]:
    if isinstance(raw, dict):
        return (), _read_selector(raw, where)
    if not isinstance(raw, list) or not raw:
        raise PlumblineError(
            "%s: found %s; wanted a list of names below /dev/disk/by-id, or a selector with %s" % (where, kind(raw), ", ".join(_SELECTOR_KEYS))
        )
    faults = Faults()
    read = [faults.take(None, _read_device, entry, "%s[%d]" % (where, number)) for number, entry in enumerate(raw)]
    faults.tell()
    return tuple(device for device in read if device is not None), None


def _read_device(raw: Any, where: str) -> DeviceName:
    test_identity = ""
    if isinstance(raw, dict) and set(_DEVICE_KEYS) & set(raw):  # the form for tests
        entry = check_keys(raw, _DEVICE_KEYS, where)
        if "path" not in entry:
            raise PlumblineError("%s: 'path' is missing" % where)
        raw = entry["path"]
        if "test_identity" in entry:
            test_identity = match_text(entry["test_identity"], _TEST_IDENTITY, where + ".test_identity", "a word of letters, digits and _ . : -")
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


def _auto_size(raw: Any, where: str) -> int:
    if raw == "auto":
        return 0
    if isinstance(raw, str) and raw.strip()[:1].isalpha():
        raise PlumblineError("%s: '%s' does not fit%s; wanted 'auto' or a size such as 64KiB" % (where, raw, nearest(raw.strip().lower(), ["auto"])))
    size = parse_size(raw, where)
    if not size:
        raise PlumblineError("%s: 0 does not fit; wanted 'auto' or a size such as 64KiB" % where)
    return size


def _read_overrides(raw: Any, where: str) -> tuple[Override, ...]:
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
        values: dict[str, int] = {key: parse_size(entry[key], "%s.%s" % (here, key)) for key in ("grain", "alignment_offset") if key in entry}
        if not values:
            raise PlumblineError("%s: wanted grain, alignment_offset, or both" % here)
        if "grain" in values and (values["grain"] % 512 or not 512 <= values["grain"] <= MAX_GRAIN):
            raise PlumblineError("%s.grain: %s does not fit; wanted a multiple of 512 B, at most %s" % (here, human(values["grain"]), human(MAX_GRAIN)))
        overrides.append(Override(entry.get("model", ""), entry.get("device", ""), values))
    return tuple(overrides)
