# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do about a finding, by the rule that found it: a row for each rule that there is, of the modules and of the report itself. Pure.

A remedy comes behind what is wanted, and hangs on nothing else: what helps against one finding of a layer may be wrong for the next one of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Rule(NamedTuple):
    """The check that a finding belongs to; a word that the remedy cannot do without, since it is what the finding is about; and the remedy."""

    check: str
    subject: str
    todo: str


_REPLACE = "Replace the drive: it fails. Without a mirror, copy first what you need."
_WORN = "Order a replacement drive in time, or let less be written to this one."
_BELIEF = "Rescan the drive, so that the kernel asks for its write cache anew, and find out who wrote queue/write_cache."
_PATH = "Open the path layer by layer, so that the trim gets through, then measure it again."

RULES: Mapping[str, Rule] = {
    # the drive itself
    "status": Rule("drives", "drive", _REPLACE),
    "spare_low": Rule("drives", "spare", "Replace the drive: it has too few spare blocks. Without a mirror, copy first what you need."),
    "temperature": Rule("drives", "air flow", "Look at the air flow, the fans and the load; the drive slows down or ends when it gets hotter."),
    "hot": Rule("drives", "air flow", "Look at the air flow and the fans, then read the temperature again."),
    "hot_minutes": Rule("drives", "air flow", "Look at the air flow and the fans: it was too warm since the last reading."),
    "critical_minutes": Rule("drives", "air flow", "Look at the air flow and the fans first: it was critically hot since the last reading."),
    "unreliable": Rule("drives", "drive", _REPLACE),
    "read_only": Rule("drives", "read-only", "Replace the drive: a read-only one takes no write any more. Without a mirror, copy first what you need."),
    "backup_failed": Rule("drives", "power", "Switch its write cache off until the drive is replaced: a power cut loses what it acknowledged."),
    "memory_region": Rule("drives", "memory region", "Use no persistent memory region of this drive, and ask the vendor."),
    "exception": Rule("drives", "vendor", "Ask the drive by hand with smartctl -x, and the vendor what it reports."),
    "self_test": Rule("drives", "self-test", "Replace the drive: a self-test of its own failed. Without a mirror, copy first what you need."),
    "self_test_log": Rule("drives", "self-test", "Run an extended self-test: smartctl -t long, and read its log."),
    "attribute": Rule("drives", "attribute", "Replace the drive: an attribute says that it is about to fail. Without a mirror, copy first what you need."),
    "attribute_past": Rule("drives", "attribute", "Read the attributes with smartctl -A, and watch those that were at their threshold."),
    "media_errors": Rule("drives", "errors", "Check the data against a backup or a replica; replace the drive if errors are added."),
    "uncorrectable_errors": Rule("drives", "errors", "Check the data against a replica or a backup, and replace the drive if there are more errors."),
    "end_to_end_errors": Rule("drives", "end-to-end", "Replace the drive if end-to-end errors are added: data changed inside of it."),
    "offline_uncorrectable": Rule("drives", "sectors", "Read the whole drive, restore what cannot be read, and replace it if such sectors are added."),
    "reallocated": Rule("drives", "reallocated", "Watch it: order a replacement if reallocated blocks go on growing."),
    "pending": Rule("drives", "pending", "Run an extended self-test; pending sectors are reallocated when they are written."),
    "crc_errors": Rule("drives", "cable", "Replace the cable, or move the drive to another slot of the backplane."),
    "error_log": Rule("drives", "error log", "Read the error log (smartctl -l error) if there are new entries."),
    "refused": Rule("drives", "command", "Nothing has to be done: healthy drives refuse a command of smartctl."),
    "unsafe_shutdowns": Rule("drives", "power", "Nothing has to be done if the host lost power so often; else look at its power supply."),
    "hours": Rule("drives", "hours", "Nothing has to be done: rates by its hours are not computed."),
    "identity": Rule("drives", "identity", "Ask the vendor for firmware that gives each drive an identity of its own."),
    "firmware": Rule("drives", "firmware", "Update the firmware, after a backup and one drive of a stack at a time."),
    "mixed_firmware": Rule("drives", "firmware", "Bring the drives of the stripe to one firmware, one at a time."),
    "unread": Rule("drives", "smartctl", "Ask it by hand, with smartctl. The health of a virtual disk can be read on its hypervisor only."),
    "no_verdict": Rule("drives", "vendor", "Ask it by hand, with the vendor's tool: its own verdict is what counts."),
    "not_applicable": Rule("drives", "hypervisor", "Nothing has to be done here: read the drives on the hypervisor."),
    "left_out_nothing": Rule("drives", "entry", "Correct the entry, or remove it."),
    # its endurance
    "wear": Rule("wear", "replacement", _WORN),
    "worn_out": Rule("wear", "replacement", "Order a replacement drive now, and plan the swap: no data is lost by wear alone."),
    "endurance": Rule("wear", "replacement", _WORN),
    "life": Rule("wear", "replacement", _WORN),
    "pre_eol": Rule("wear", "reserved blocks", "Replace the drive before its reserved blocks are used up. Without a mirror, copy first what you need."),
    "spare": Rule("wear", "spare", "Replace the drive: its spare blocks are below its own threshold. Without a mirror, copy first what you need."),
    "wear_unclear": Rule("wear", "wear", "Read the wear with the vendor's own tool."),
    # its link
    "link": Rule("link", "slot", "Look at the slot, the backplane and the cable, then read the link again."),
    "link_slow": Rule("link", "link", "Try another cable, bay, slot or port, then read the link again."),
    "link_port": Rule("link", "port", "Nothing has to be done: the port is slower than the drive."),
    "link_filled": Rule("link", "link", "Nothing has to be done: the link is the limit, not the alignment."),
    # the path of trim
    "trim_mapping": Rule("trim", "trim", "Open this layer for trim, activate it anew, then measure the path again."),
    "trim_drive": Rule("trim", "trim", "Leave more of the drive unused: without trim the reserve is all the free flash that it has."),
    "trim_limit": Rule("trim", "discard", "Write a larger discard_max_bytes, or look for a newer kernel or firmware."),
    "trim_queue": Rule("trim", "queue", "Nothing has to be done: the kernel queues no TRIM for this model."),
    "trim_stripe": Rule("trim", "stripe", "Build the stack anew with a larger stripe when it is next rebuilt; until then small trims free nothing."),
    "trim_failed": Rule("trim", "trim", _PATH),
    # where each layer begins
    "phase": Rule("alignment", "anew", "Copy the data away, build the stack anew from this layer on, and copy it back."),
    "legs_disagree": Rule("alignment", "layers", "Look at the layers below it one by one: what they begin at does not fit together."),
    "stripe_grain": Rule("alignment", "stripe", "Copy the data away, build the volume anew with another stripe size, and copy it back."),
    "ext4_stride": Rule("alignment", "stride", "tune2fs -E stride=…,stripe_width=… sets both, and moves no data."),
    "xfs_sunit": Rule("alignment", "stripe", "Make it anew for the stripe when its files can be copied away; no option of a mount helps."),
    "closed": Rule("alignment", "open", "Open or assemble it, and read the host again; open nothing that another host may use."),
    "not_followed": Rule("alignment", "measure", "Nothing can be proven by addresses here: measure the volume, by offset_sweep or throughput."),
    "table_backup": Rule("alignment", "backup", "Write the backup of the table anew, after a look at the first one with sfdisk --verify."),
    "device_grown": Rule("alignment", "grow", "Set grow: true on its stack, and run again: it is taken in while it is in use. See the guide on growth."),
    "table_damaged": Rule("alignment", "table", "Write nothing to the disk, and see the guide on getting a table back."),
    "disk_cut_off": Rule("alignment", "write", "Write nothing to the disk until it has its whole size again; copy what can be read."),
    "lba_format": Rule("alignment", "format", "Format the drive with larger blocks when it is next empty: nvme format erases everything."),
    "unequal_legs": Rule("alignment", "legs", "Replace the legs that differ when a drive is due; the slowest leg sets the rate of a stripe."),
    # write caches, mounts, filesystems
    "kernel_belief": Rule("durability", "kernel", _BELIEF),
    "kernel_belief_above": Rule("durability", "activate", "Rescan the drive first; then stop what uses the volume, deactivate it and activate it."),
    "cache_off": Rule("durability", "write_cache", "Keep it off with the role write_cache, which sets it again at once after a reset."),
    "kept_setting": Rule("durability", "write_cache", "Run the role write_cache, which makes its files and services whole."),
    "kept_unknown": Rule("durability", "ask", "Look why the drive cannot be asked; until it answers, take its cache for one that loses data."),
    "kept_state": Rule("durability", "write cache", "Set the write cache again now, then look for the reset or power cycle in the kernel's log."),
    "kept_belief": Rule("durability", "kernel", _BELIEF),
    "mount_option": Rule("durability", "option", "Take the option out of fstab and mount anew; accept it only where a power cut may take commits."),
    "mount_no_journal": Rule("durability", "journal", "Stop what uses it, unmount it, run e2fsck, and mount it with its journal."),
    "mount_covered": Rule("durability", "over it", "Stop what writes there, unmount what lies over it, and move its files where they belong."),
    "mount_discard": Rule("durability", "fstrim.timer", "Mount with nodiscard, take discard out of fstab, and enable fstrim.timer."),
    "pv_hidden": Rule(
        "alignment",
        "LVM",
        "Let LVM see the PV: lvm lvmdevices --adddev, or a filter in lvm.conf that does not reject it. Nothing on it is lost: do not wipe it.",
    ),
    "fstab_drift": Rule("durability", "fstab", "Decide which of the two is right: remount by fstab, or write into fstab what is mounted."),
    "not_mounted": Rule("durability", "mount", "See why it is not mounted, mend that, and mount it before the database starts."),
    "degraded": Rule("durability", "member", "Look at the failed member first; let nothing else be taken out until the array is whole."),
    "syncing": Rule("durability", "sync", "Replace no drive and measure nothing until the sync has ended; it needs no help."),
    "mismatch": Rule(
        "durability", "differ", "See whether the same sectors differ at a second check; compare the data with a backup or a replica before any repair."
    ),
    "one_ssd": Rule(
        "durability",
        "another drive",
        "Move one of the members to another drive, by mdadm --replace (a check of the array first) or pvmove: the array protects nothing now.",
    ),
    "left_out_member": Rule("durability", "member", "Look at all members with mdadm --examine before this one is added again: its data is overwritten then."),
    "boots_degraded": Rule("durability", "boot", "Nothing has to be done now; know the command for a boot without one of the drives."),
    "ext4_journal": Rule("durability", "journal", "Unmount it, check it with e2fsck, and make a journal with tune2fs."),
    "ext4_errors": Rule("durability", "e2fsck", "Make a copy if you can, unmount it, and run e2fsck -f; the kernel's log says what was found."),
    "ext4_cut_off": Rule("durability", "device", "Write nothing, run no e2fsck, and bring back the device's whole size first."),
    "ext4_smaller": Rule("durability", "resize2fs", "Run resize2fs when you want the space; no data is at risk."),
    "ext4_stripe": Rule("durability", "stripe", "Remount with the stripe of the superblock, or leave it out of the options."),
    "ext4_reserved": Rule("durability", "root", "Give root's part of the blocks back with tune2fs -m 0."),
    "ext4_on_error": Rule("durability", "error", "Say in the spec what an error is to do, or set it back with tune2fs -e."),
    "unfinished": Rule("durability", "mkfs", "Run the stack again if an mkfs of it was cut off; make a copy of anything else before you touch it."),
    "xfs_errors": Rule("durability", "xfs_repair", "Make a copy if you can, unmount it, and run xfs_repair; the kernel's log says what was found."),
    "xfs_cut_off": Rule("durability", "device", "Write nothing, run no xfs_repair, and bring back the device's whole size first."),
    "xfs_smaller": Rule("durability", "xfs_growfs", "Run xfs_growfs when you want the space; no data is at risk."),
    "xfs_shut_down": Rule("durability", "shut down", "Find out in the kernel's log why it was shut down; only then unmount it, and mount it again."),
    "xfs_log_unit": Rule("durability", "log", "Nothing is at risk. Give the log the smaller unit when the filesystem is next made."),
    "xfs_noalign": Rule("durability", "noalign", "Take noalign, sunit and swidth out of the options, unmount it, and mount it again."),
    "accepted": Rule("durability", "accepted", "Nothing has to be done: somebody accepted it."),
    # spec, host, record
    "reserve": Rule("steady_state", "reserve", "Give the drive the reserve when the stack is next built, or ask less of it."),
    "services_folder": Rule("answer", "chmod", "Run the chmod as root: services cannot reach their data until then."),
    "unreachable": Rule("answer", "host", "Make the host answer, then run the play again."),
    "module_failed": Rule("answer", "module", "Mend what it says, then run the module again."),
    "unreadable_file": Rule("answer", "file", "Look where the file comes from; remove it, then read the host again."),
    "time_ahead": Rule("answer", "clock", "Set the clock of the controller that kept the record, then read the host again."),
    "left_out": Rule("answer", "record", "Look at what the host returned: no host has so much in a record."),
    "no_ssd": Rule("answer", "SSD", "Nothing has to be done: there is no SSD to judge."),
    "plan_step": Rule("plan", "provision", "Run the role provision; in check mode it shows what it would do."),
    # measurements
    "measured": Rule("proof", "measure", "See the static proof first; then measure again while the host is quiet."),
    "proof_accepted": Rule("proof", "accept", "Nothing has to be done. Without accept in plumbline_verify, the next run fails on it."),
    "proof_settled": Rule("proof", "record", "Its record says why it did not pass, and what would have it measured again."),
    "stack_gone": Rule("proof", "retire", "Retire the records of the stack, if it will not come back: plumbline_monitor.retire."),
    "proof_due": Rule("proof", "verify", "The role verify makes it."),
    "steady": Rule("steady_state", "reserve", "Give the drive more reserve, or ask less of it."),
    "steady_doubt": Rule("steady_state", "picture", "Nothing has to be done: it is a picture, not judged."),
    "acceptance": Rule("acceptance", "load", "Take another drive for this load, or another load."),
    "acceptance_unsure": Rule("acceptance", "again", "Measure it again while the host is quiet, with more blocks; if it holds nothing, name it in writes."),
    "unlike_peers": Rule("acceptance", "health", "Read the health, the link and the temperature of the drive, and measure it beside another of its kind."),
}
