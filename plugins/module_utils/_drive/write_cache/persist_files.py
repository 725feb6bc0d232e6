# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a write cache as specified over reboots, hot-plug and resets: the texts of a udev rule, a script and its service. Pure.

Nothing here runs by the clock. On a SATA drive any question about its cache is a command outside of the queue, which waits until the drive has
nothing else to do (ata_std_qc_defer() in libata): a database would feel each. So the drives are asked after events only.

All texts follow from the entries alone, so that the same entries give the same bytes, and nothing is written on a host in the desired state.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import wwid_of
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import kept_paths
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.command import set_command
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping

MODES = {kept_paths.STATE: 0o600, kept_paths.SCRIPT: 0o755}

# Whatever means something to udev's rules, matches or substitutions (udev(7)), or to sh between single quotes, cannot be written.
_EXPRESSIBLE = re.compile(r"[A-Za-z0-9 ._:=+@,;/#&()<>{}~^!-]{1,240}")
_TOOL = re.compile(r"/[A-Za-z0-9/._+-]+")
_VERSION = 1


class Entry(NamedTuple):
    """One drive whose write cache is kept. *wwid* is the text of the kernel's attribute, to the blank."""

    identity: str
    wwid: str
    bus: str  # ata, scsi, nvme
    state: str  # on, off
    tool: str  # the path of what sets it
    serial: str = ""
    model: str = ""


def why_not_kept(entry: Entry) -> str:
    """Why a drive cannot be told from others by the means of udev and sh; empty where it can."""
    if not wwid_of(entry.wwid):
        return "the kernel shows no WWID of it%s, by which a rule could know it again" % (" but the placeholder '%s'" % entry.wwid if entry.wwid else "")
    words = {"WWID": entry.wwid, "serial": entry.serial if entry.bus == "nvme" else "", "model": entry.model if entry.bus == "nvme" else ""}
    for what, text in words.items():
        if text and not _EXPRESSIBLE.fullmatch(text):
            return "its %s %r holds characters that a udev rule cannot hold" % (what, text)
    if entry.bus == "nvme" and not (entry.serial and entry.model):
        return "its controller tells no serial and model, by which a rule could know it again"
    return "" if _TOOL.fullmatch(entry.tool) else "the path %s of the tool cannot stand in a udev rule" % entry.tool


# --- the state -------------------------------------------------------------------------------------


def state_text(entries: Sequence[Entry]) -> str:
    """The state as it lies on the host."""
    return json.dumps({"version": _VERSION, "devices": [entry._asdict() for entry in _sorted(entries)]}, indent=1, sort_keys=True) + "\n"


def parse_state(text: str) -> List[Entry]:
    """Read the state. Skips invalid entries."""
    try:
        state = json.loads(text) if text else {}
        devices = state["devices"] if state.get("version") == _VERSION else []
        entries = [Entry(**{key: str(device[key]) for key in Entry._fields}) for device in devices]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return [entry for entry in entries if entry.bus in ("ata", "scsi", "nvme") and entry.state in ("on", "off") and not why_not_kept(entry)]


def _sorted(entries: Sequence[Entry]) -> List[Entry]:
    return sorted(entries, key=lambda entry: entry.identity)


def merge(old: Sequence[Entry], changes: Mapping[str, Optional[Entry]]) -> List[Entry]:
    """Entries with the *changes* (identity → entry, or None to drop it) put in."""
    merged: Dict[str, Any] = {entry.identity: entry for entry in old}
    merged.update(changes)
    return _sorted([entry for entry in merged.values() if entry is not None])


def files(entries: Sequence[Entry]) -> Dict[str, str]:
    """Every file with its text; all texts are empty where no drive is left, which means: no such file."""
    if not entries:
        return dict.fromkeys((kept_paths.SCRIPT, kept_paths.SERVICE, kept_paths.RULES, kept_paths.STATE), "")
    return {
        kept_paths.SCRIPT: script_text(entries),
        kept_paths.SERVICE: _SERVICE,
        kept_paths.RULES: rules_text(entries),
        kept_paths.STATE: state_text(entries),
    }


def kept_states(entries: Sequence[Entry], intact: bool, rules: str) -> Dict[str, str]:
    """Identity → the state that is kept; empty where the files are not what they should be, or the state that they follow from is gone."""
    states = dict.fromkeys(_HEADED.findall(rules), "")
    states.update({entry.identity: entry.state if intact else "" for entry in entries})
    return states


def kept_of(keeping: Keeping) -> Dict[str, str]:
    """Identity → the state that is kept; empty where files are missing or were changed by others, or nothing works by them."""
    entries = parse_state(keeping.texts.get(kept_paths.STATE, ""))
    same = kept_paths.TIMER not in keeping.texts and all(keeping.texts.get(path, "") == text for path, text in files(entries).items())
    kept = kept_states(entries, not entries or (same and keeping.at_work), keeping.texts.get(kept_paths.RULES, ""))
    return {**kept, **{entry.identity: "" for entry in entries if entry.tool not in keeping.tools}}


# --- the udev rule ---------------------------------------------------------------------------------

_RULES_HEAD = """\
# Written by plumbline.ssd.write_cache, which replaces it whole. Do not edit; ask for write_cache: keep to be rid of it.
#
# RUN programs run in the order of the files that add them, when all rules are read. So 90: behind Debian's 85-hdparm.rules, whose
# hdparm.conf may set the same cache. The filesystem still waits: a disk's partitions wait for the end of the disk's own event, so that
# 69-lvm.rules activates nothing on them before, and systemd sees a device only when its event has ended (99-systemd.rules, udev(7)).
# Identities come from sysfs (wwid), so that nothing of 60-persistent-storage.rules is needed; a kernel name is never matched alone.
"""
_HEADED = re.compile(r"^# \[([^\]\n]+)\] (?:on|off)$", re.MULTILINE)


def rules_text(entries: Sequence[Entry]) -> str:
    """The rules of all drives."""
    lines = [_RULES_HEAD]
    for entry in _sorted(entries):
        lines.append("# [%s] %s" % (entry.identity, entry.state))
        lines += _nvme_rules(entry) if entry.bus == "nvme" else _disk_rules(entry)
        lines.append("")
    return "\n".join(lines)


# What a SCSI drive reports by itself (unit attention), as the kernel tells it of the SCSI device (sdev_evt_send(), drivers/scsi/scsi_lib.c).
_UNIT_ATTENTIONS = "POWER_ON_RESET_OCCURRED|MODE_PARAMETERS_CHANGED"


def _disk_rules(entry: Entry) -> List[str]:
    """At the disk for boot and hot-plug, and at its SCSI device where it reported a reset, or a mode page that another host has changed.

    Then it is asked first, by the script: two hosts that set one drive at each other's report would go on for ever.
    """
    run = 'RUN+="%s"' % " ".join(set_command(entry.bus, entry.tool, "$devnode", entry.state))
    if entry.bus == "scsi" and entry.state == "on":
        # sd has read the caching page before: a belief "write through" that stayed would drop flushes.
        run += """, RUN+="/bin/sh -c 'echo 1 > /sys$devpath/device/rescan'\""""
    script = "RUN+=\"/bin/sh -c 'exec /bin/sh %s /sys$devpath/block/sd* 2>/dev/kmsg'\"" % kept_paths.SCRIPT
    return [
        'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="sd*", ATTRS{wwid}=="%s", %s' % (entry.wwid, run),
        'ACTION=="change", SUBSYSTEM=="scsi", ENV{SDEV_UA}=="%s", ATTR{wwid}=="%s", %s' % (_UNIT_ATTENTIONS, entry.wwid, script),
    ]


def _nvme_rules(entry: Entry) -> List[str]:
    """At its namespace for boot and hot-plug, and at its controller whenever that has (re)connected, as it does after a reset."""
    run = 'RUN+="%s"' % " ".join(set_command("nvme", entry.tool, "$devnode", entry.state))
    return [
        'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="nvme*", ATTR{wwid}=="%s", %s' % (entry.wwid, run),
        'ACTION=="change", SUBSYSTEM=="nvme", ENV{NVME_EVENT}=="connected", ATTR{serial}=="%s", ATTR{model}=="%s", %s' % (entry.serial, entry.model, run),
    ]


# --- the script and its service ----------------------------------------------------------------------

_SERVICE = """\
# Written by plumbline.ssd.write_cache.
[Unit]
Description=Write cache of the drives, as plumbline.ssd was asked
DefaultDependencies=no
# At boot before anything is mounted: what the initramfs has found is there before udev's rules of the root filesystem are read.
Wants=local-fs-pre.target
Before=local-fs-pre.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
ExecStart=/bin/sh %s
TimeoutStartSec=60
StandardOutput=null
StandardError=journal
# It says nothing but what it had to set.
LogLevelMax=warning

[Install]
WantedBy=sysinit.target
""" % kept_paths.SCRIPT

_SCRIPT_HEAD = r"""#!/bin/sh
# Written by plumbline.ssd.write_cache, which replaces it whole. Do not edit; ask for write_cache: keep to be rid of it.
#
# Asks each of its drives, or those whose directories in /sys are its arguments, whether the write cache is on, and sets it where it is
# not as asked. A drive that is as asked is only asked. The kernel's queue/write_cache does not tell whether a cache is on: it is what the
# kernel believes. Where that is 'write through' while a cache is on as asked, the kernel drops flushes, and is told 'write back'.
LC_ALL=C
export LC_ALL
failed=0
asked=' '

# say DRIVE TEXT
say() {
    echo "<4>plumbline.ssd: $1 ($wwid): $2" >&2
}

# state_of BUS TOOL NODE: sets $state to on, off or nothing.
state_of() {
    state=
    case $1 in
    ata)
        case $("$2" -W "$3" 2>/dev/null) in
        *write-caching*'(on)'*) state=on ;;
        *write-caching*'(off)'*) state=off ;;
        esac
        ;;
    scsi)
        # sdparm may print its answer and end with an error all the same (5 on QEMU's disks).
        answer=$("$2" --get=WCE "$3" 2>/dev/null)
        case $answer in
        *WCE*) answer=${answer##*WCE} ;;
        *) return ;;
        esac
        case ${answer%%[[]*} in
        *1*) state=on ;;
        *0*) state=off ;;
        esac
        ;;
    nvme)
        answer=$("$2" get-feature "$3" --namespace-id=0xffffffff --feature-id=6 2>/dev/null) || return
        case $answer in
        *[Vv]alue:*) answer=${answer##*[Vv]alue:} ;;
        *) return ;;
        esac
        case $answer in
        *[13579bdfBDF]) state=on ;;
        *[02468aceACE]) state=off ;;
        esac
        ;;
    esac
}

# set_to BUS TOOL NODE STATE
set_to() {
    case $1$4 in
@COMMANDS@
    esac
}

# send_flushes NAME: make the kernel flush a cache that is on. An unnecessary flush is harmless: a belief 'write back' is left alone.
send_flushes() {
    queue=/sys/class/block/$1/queue/write_cache
    read -r belief 2>/dev/null < "$queue" || return 0
    [ "$belief" = 'write through' ] || return 0
    # Since Linux 6.11 a rescan leaves a 'write through' that somebody wrote. Before it, sd has to read the drive again.
    echo 'write back' 2>/dev/null > "$queue"
    case $1 in
    sd*) echo 1 > "/sys/class/block/$1/device/rescan" ;;
    esac
    read -r belief 2>/dev/null < "$queue" || return 0
    if [ "$belief" = 'write back' ]; then
        say "/dev/$1" "its write cache is on and the kernel sent it no flushes ('write through'); queue/write_cache is 'write back' again"
    else
        say "/dev/$1" "its write cache is on and the kernel goes on sending it no flushes; wanted 'write back'; look who writes $queue"
        failed=1
    fi
}

# look_after BUS TOOL STATE NODE: whether the cache is as asked in the end.
look_after() {
    case $asked in
    *" $4 "*) return ;;
    esac
    asked="$asked$4 "
    state_of "$1" "$2" "$4"
    [ "$state" != "$3" ] || return 0
    if [ -z "$state" ]; then
        say "$4" "it does not say whether its write cache is on; wanted $3; look at the drive and at $2, or ask for write_cache: keep"
        failed=1
        return 1
    fi
    set_to "$1" "$2" "$4" "$3" >/dev/null 2>&1
    state_of "$1" "$2" "$4"
    if [ "$state" = "$3" ]; then
        say "$4" "its write cache was not $3 any more and was set again"
    else
        say "$4" "its write cache is ${state:-unknown} and cannot be set; wanted $3; look at the drive, or ask for write_cache: keep"
        failed=1
        return 1
    fi
}

# look_after_nvme TOOL STATE NAME: whether the cache of a controller is as asked in the end.
# An NVMe cache belongs to the controller; with the kernel's own multipath a namespace may have several.
look_after_nvme() {
    home=$(readlink -f "/sys/class/block/$3/device") || return 1
    case ${home##*/} in
    nvme-subsys*) set -- "$1" "$2" "$3" "$home"/nvme* ;;
    *) set -- "$1" "$2" "$3" "$home" ;;
    esac
    tool=$1 wanted=$2
    shift 3
    none=1
    for controller in "$@"; do
        controller=${controller##*/}
        case ${controller#nvme} in
        '' | *[!0-9]*) ;;
        *) look_after nvme "$tool" "$wanted" "/dev/$controller" && none=0 ;;
        esac
    done
    return $none
}

[ $# -gt 0 ] || set -- /sys/class/block/sd* /sys/class/block/nvme*
for at in "$@"; do
    wwid=
    name=${at##*/}
    case $name in
    sd*) read -r wwid 2>/dev/null < "$at/device/wwid" ;;
    nvme*) read -r wwid 2>/dev/null < "$at/wwid" ;;
    esac
    case $wwid in
"""
_SCRIPT_TAIL = r"""    esac
done
exit $failed
"""


def script_text(entries: Sequence[Entry]) -> str:
    """The script, for exactly these drives."""
    commands = []
    for bus in ("ata", "scsi", "nvme"):
        for state in ("on", "off"):
            command = " ".join(set_command(bus, '"$2"', '"$3"', state))
            commands.append("    %s%s) %s ;;" % (bus, state, command))
    lines = []
    for entry in _sorted(entries):
        lines.append("    # [%s]" % entry.identity)
        asked = 'look_after_nvme %s %s "$name"' % (entry.tool, entry.state)
        if entry.bus != "nvme":
            asked = 'look_after %s %s %s "/dev/$name"' % (entry.bus, entry.tool, entry.state)
        lines.append("    '%s') %s%s ;;" % (entry.wwid, asked, ' && send_flushes "$name"' if entry.state == "on" else ""))
    return _SCRIPT_HEAD.replace("@COMMANDS@", "\n".join(commands)) + "\n".join(lines) + "\n" + _SCRIPT_TAIL
