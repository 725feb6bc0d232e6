# SPDX-License-Identifier: GPL-3.0-or-later
"""What a power cut or a crash would do to a stack that stands: its drives, its mount options, its line of fstab. Pure."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Accepted, Mount, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import levels_below
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import durability as durability_file
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import kind_of_mount


def judge_durability(seen: Observation, devno: str, mount: Optional[Mount]) -> Tuple[List[Finding], List[str]]:
    """What a power cut or a crash would do to what was acknowledged: findings, and a line for each risk that somebody accepted.

    What was accepted is what the host has a record of; there may be no spec. A cache that could not be read fails nothing.
    """
    made = seen.filesystems.get(devno)
    recorded = [entry for entry in seen.accepted if made and entry.uuid == made.uuid]
    stated = [serial for entry in recorded if entry.acceptance == durability_file.STATED for serial in entry.serials]
    disks = sorted((seen.nodes[disk] for disk in levels_below(seen, devno)[0] if seen.nodes[disk].kind != "other"), key=lambda node: node.name)
    drives = [durability_file.drive_below(seen, node.devno, devno, stated) for node in disks]
    options = seen.in_force.get(devno) or (mount.options if mount else ())
    findings: List[Finding] = []
    if durability_file.barriers_on(options):
        findings += [finding for drive, node in zip(drives, disks) if node.devno in seen.caches for finding in _judge_drive(seen, drive, node, devno)]
    accepted: List[str] = []
    if mount:
        kind = kind_of_mount(mount.fstype)
        judge, default = (kind.option_risks, kind.default_option) if kind else (durability_file.judge_options, durability_file.default_option)
        for risk in judge(options, drives, [entry.acceptance for entry in recorded]):
            if risk.level == durability_file.RECORDED:
                accepted.append(_accepted_line(risk, mount, recorded))
            else:
                findings.append(_option_finding(risk, mount, default(risk.option)))
        findings += _judge_journal(options, mount) + _judge_fstab(seen, mount) + _judge_cover(seen, mount)
    return findings, accepted


def _judge_drive(seen: Observation, drive: durability_file.Drive, disk: Node, top: str) -> List[Finding]:
    """A drive below a filesystem that sends barriers."""
    verdict = durability_file.judge_cache(drive.cache, drive.stated, True, drive.belief, (), drive.follows)
    if verdict.level == durability_file.OK:
        return []
    name = "%s (%s)" % (drive.name, drive.serial) if drive.serial else drive.name
    level = ERROR if verdict.level == durability_file.CRITICAL else WARNING
    mapped = durability_file.droppers(seen, disk.devno, top)
    # sd believes what the drive says: of a cache that is off no rescan makes it flush. The NVMe driver believes in a cache that is there, on or off.
    if verdict.state == "cache_off_unflushed" and disk.write_cache != durability_file.WRITE_BACK and disk.identity.transport != "nvme":
        at = ": at %s" % durability_file.name_mapped(mapped) if mapped else ""
        remedy = "a cache that stays off, as write_cache: off keeps it; or one that is on and flushed: write_cache: on%s" % (
            ", then vgchange -an and -ay" if mapped else ""
        )
        return [Finding(level, "write_cache", name, verdict.text + at, remedy, "cache_off")]
    if not mapped:
        return [Finding(level, "write_cache", name, verdict.text, "a kernel that believes 'write back', by a rescan of the drive", "kernel_belief")]
    remedy = "a kernel that believes 'write back' of it, by deactivating and activating it (vgchange -an, -ay) once it does so of the drive"
    return [Finding(level, "write_cache", name, "%s: at %s" % (verdict.text, durability_file.name_mapped(mapped)), remedy, "kernel_belief_above")]


def _option_finding(risk: durability_file.Risk, mount: Mount, default: str) -> Finding:
    """An unaccepted risk fails a proof only where what was acknowledged is lost for certain; what may be is worth a look."""
    lost = risk.by_protection and any(durability_file.state_of(drive.cache) == "on" for drive in risk.drives)
    own = risk.option not in mount.options
    text = "'%s'%s on %s: %s" % (risk.option, " (a default of the filesystem itself)" if own else "", durability_file.name_drives(risk.drives), risk.text)
    remedy = "%s%s, or accept: [%s]" % (default, " (tune2fs, and a new mount)" if own else "", risk.acceptance)
    return Finding(ERROR if lost else WARNING, "mount", mount.target, text, remedy, "mount_option")


def _accepted_line(risk: durability_file.Risk, mount: Mount, recorded: Sequence[Accepted]) -> str:
    since = min((entry.since for entry in recorded if entry.acceptance == risk.acceptance), default="")
    by = " [%s%s]" % (risk.acceptance, ", since %s" % since if since else "") if risk.acceptance else ""
    return "'%s' on %s over %s: %s%s" % (risk.option, mount.target, durability_file.name_drives(risk.drives), risk.text, by)


def _judge_journal(options: Sequence[str], mount: Mount) -> List[Finding]:
    """A read-write mount without its journal, which ext4 shows by the first of its two names."""
    kind = kind_of_mount(mount.fstype)
    without_journal = [option for option in (kind.without_journal if kind else ()) if option in options]
    if not without_journal or "ro" in mount.options:
        return []
    text = "'%s': the filesystem runs without its journal" % without_journal[0]
    return [Finding(ERROR, "mount", mount.target, text, "a mount without this option", "mount_no_journal")]


def _judge_cover(seen: Observation, mount: Mount) -> List[Finding]:
    """A mount point that leads to another filesystem by now."""
    over = seen.covers.get(mount.target, "") if mount.here else ""
    if not over:
        return []
    text = "%s is mounted over it: what is written there does not reach the volume" % over
    return [Finding(ERROR, "mount", mount.target, text, "nothing over it", "mount_covered")]


def _judge_fstab(seen: Observation, mount: Mount) -> List[Finding]:
    """A mount that the next boot makes with other options. Only those of the kinds here are known well enough to tell."""
    line = next((entry for entry in seen.fstab if entry.target == mount.target), None)
    kind = kind_of_mount(mount.fstype)
    if line is None or kind is None:
        return []
    missing, extra = kind.options.fstab_drift(line.options, mount.options)
    if not missing and not extra:
        return []
    words = ["fstab has %s, the mount has not" % option for option in missing] + ["the mount has %s, fstab has not" % option for option in extra]
    remedy = "a mount as fstab has it, or a line of fstab as the mount is"
    return [Finding(WARNING, "mount", mount.target, "; ".join(words), remedy, "fstab_drift")]
