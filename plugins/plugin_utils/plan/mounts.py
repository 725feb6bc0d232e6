# SPDX-License-Identifier: GPL-3.0-or-later
"""The mounts of a stack's volumes: options, mount points, fstab and drop-ins. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_UUID
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Accepted, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import as_yaml
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import (
    RECORDED,
    REFUSED,
    STATED,
    Risk,
    drive_of,
    name_drives,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts.mount_path import owner_fault, way_fault
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import MountPoint, mount_step
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Stack, Volume


def _check_uuid(plan: StackPlan, seen: Observation, volume: Volume, node: Node | None, identifier: str) -> None:
    """A copy of this volume's filesystem elsewhere: fstab names the volume by its UUID, so that the copy would be mounted. Snapshots yield to the volume."""
    other = seen.nodes.get(seen.led_to.get(BY_UUID + identifier, ""))
    if other and (node is None or (other.devno != node.devno and not seen.mounted(node.devno))):
        text = "volume '%s': %s has a filesystem with this volume's UUID %s [identity]; take that copy away, or give it another UUID (%s)"
        plan.refuse(text, volume.name, other.path, identifier, volume.kind.new_uuid)


def judge_mounts(plan: StackPlan, seen: Observation) -> None:
    """Whether every volume's mount options may be, over the write caches that it lies on. Before the first write, whatever layer is planned."""
    spec = plan.spec
    for planned in plan.volumes:
        volume = planned.spec
        drives = [drive_of(seen, leg.devno, spec.power_loss_protection) for leg in planned.legs]
        for risk in volume.kind.option_risks(volume.mount_options, drives, spec.accept) if volume.mount else []:
            if risk.level == REFUSED:
                plan.refusals.append(_refused_option(spec, volume, risk))
            elif risk.level == RECORDED and risk.acceptance:
                accepted = Accepted(spec.name, volume.name, volume.mount, planned.uuid, risk.option, risk.acceptance)
                same = next((other for other in plan.accepted if other.key == accepted.key), accepted)  # drives may be at risk for different reasons
                plan.accepted = [other for other in plan.accepted if other is not same]
                plan.accepted.append(accepted._replace(serials=tuple(sorted({*same.serials, *(drive.serial for drive in risk.drives)}))))


def _refused_option(spec: Stack, volume: Volume, risk: Risk) -> str:
    profile = " (of mount_profile '%s')" % volume.mount_profile if volume.mount_profile else ""
    serials = [drive.serial for drive in risk.drives if drive.serial]
    by_word = ", or %s: [%s], where they have it" % (STATED, ", ".join(map(as_yaml, serials))) if risk.by_protection and serials else ""
    return "%s: volume '%s': mount option '%s'%s on %s: %s; it wants accept: [%s] on the stack%s" % (
        spec.name, volume.name, risk.option, profile, name_drives(risk.drives), risk.text, risk.acceptance, by_word,
    )  # fmt: skip


def plan_mounts(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    mounts = []
    for planned in plan.volumes:
        volume, node = planned.spec, planned.node
        if not volume.mount:
            _check_no_mount(plan, seen, volume, node)
            continue
        mount_point = _mount_point(spec, volume, planned.uuid, seen)
        _check_uuid(plan, seen, volume, node, planned.uuid)
        _check_mount(plan, seen, volume, node, planned.uuid)
        changes = _mount_changes(seen, volume, node, mount_point)
        if changes:
            mounts.append(mount_point._replace(changes=tuple(changes)))
    units = _units(spec)
    stale = {name: text for name, text in units.items() if seen.drop_ins.get(name, "").strip() != text.strip()}
    timer = any(volume.discard == "timer" and volume.mount for volume in spec.volumes) and not seen.timer_enabled
    recorded = [risk._replace(since="") for risk in seen.accepted if risk.stack == spec.name]
    accepted = sorted(plan.accepted) != sorted(recorded)
    if mounts or stale or timer or accepted:
        words = ["%s: %s" % (mount.path, ", ".join(mount.changes)) for mount in mounts]
        words += ["drop-in %s" % name for name in stale] + (["fstrim.timer enabled"] if timer else [])
        words += ["record that '%s' is accepted on %s [%s]" % (risk.option, risk.mount, risk.acceptance) for risk in plan.accepted if risk not in recorded]
        words += ["record that '%s' on %s is not accepted any more" % (risk.option, risk.mount) for risk in recorded if risk not in plan.accepted]
        plan.steps.append(mount_step(mounts, stale, timer, [_accepted_of(plan)] if accepted else [], "mount " + "; ".join(words)))


def _accepted_of(plan: StackPlan) -> dict[str, Any]:
    """The accepted risks of a stack as the record takes them: without the time, which is the record's."""
    risks = [{key: value for key, value in risk._asdict().items() if key not in ("stack", "since")} for risk in plan.accepted]
    return {"stack": plan.spec.name, "risks": [dict(risk, serials=list(risk["serials"])) for risk in risks]}


def _mount_point(spec: Stack, volume: Volume, identifier: str, seen: Observation) -> MountPoint:
    return MountPoint(
        stack=spec.name,
        volume=volume.name,
        path=volume.mount,
        uuid=identifier,
        fstype=volume.kind.name,
        options=volume.fstab_options,
        passno=volume.kind.passno,
        owner=seen.users.get(volume.owner, -1),
        group=seen.groups.get(volume.group, -1),
        mode=volume.mode,
        selinux_context=volume.selinux_context if seen.selinux else "",
    )


def drop_in_file(unit: str, stack: str) -> str:
    """Where a unit's dependency on a stack's mounts is kept, systemd.unit(5)."""
    return "/etc/systemd/system/%s.d/50-plumbline-%s.conf" % (unit, stack)


def _units(spec: Stack) -> dict[str, str]:
    needed: dict[str, list[str]] = {}
    for volume in spec.volumes:
        for unit in volume.required_by:
            needed.setdefault(unit, []).append(volume.mount)
    text = "# Written by plumbline.ssd: this unit does not start without its volumes.\n[Unit]\nRequiresMountsFor=%s\n"
    return {drop_in_file(unit, spec.name): text % " ".join(sorted(set(paths))) for unit, paths in needed.items()}


def drop_in_files(stacks: Iterable[Stack]) -> list[str]:
    """All drop-ins that the stacks ask for."""
    return [name for stack in stacks for name in _units(stack)]


def _check_mount(plan: StackPlan, seen: Observation, volume: Volume, node: Node | None, identifier: str) -> None:
    """Refuse a mount point that is somebody else's, and an owner that the host does not know."""
    path = volume.mount
    own = node.devno if node else ""
    mounted_there = any((mount.here, mount.devno, mount.target, mount.root) == (True, own, path, "/") for mount in seen.mounts)
    for mount in seen.mounts:
        if mount.here and mount.target == path and mount.devno != own:
            device = seen.nodes[mount.devno].path if mount.devno in seen.nodes else mount.devno
            plan.refuse("%s is the mount point of %s [mounted]; name another for volume '%s'", path, device, volume.name)
        if mount.here and own and mount.devno == own and (mount.target, mount.root) != (path, "/"):
            if not mounted_there:  # else it is seen there as well, by a bind mount
                what = "" if mount.root == "/" else "'s directory %s" % mount.root
                plan.refuse("volume '%s'%s is mounted on %s; wanted %s; unmount it first", volume.name, what, mount.target, path)
        elif mount.here and own and mount.devno == own:
            if path in seen.covers:
                text = "volume '%s' is mounted on %s, and %s is mounted over it [covered]: what is written there does not reach the volume; unmount that"
                plan.refuse(text, volume.name, path, seen.covers[path])
            for now, specified in volume.kind.options.wants_unmount(volume.mount_options, mount.options):
                hint = volume.kind.options.unmount_first % path
                plan.refuse("volume '%s' is mounted on %s with %s; wanted %s; %s", volume.name, path, now, specified, hint)
    for entry in seen.fstab:
        if entry.target == path and entry.spec != "UUID=" + identifier:
            plan.refuse("fstab has %s for %s already; wanted UUID=%s; take that line out first", entry.spec, path, identifier)
        elif entry.spec == "UUID=" + identifier and entry.target not in (path, "none"):
            text = "fstab mounts volume '%s' on %s as well, and the spec has %s: it would be on both after a boot; take out the line that is not wanted"
            plan.warn(text, volume.name, entry.target, path)
    state = seen.directories.get(path)
    targets = [mount.target for mount in seen.mounts if mount.here]
    mounted = path in targets
    way, roots = _way_to(plan, seen, path)
    fault = way_fault(way, roots & {posixpath.dirname(path)}) if not mounted else ""
    if fault:
        inside = [part.path for part in way if part.path in roots]
        hint = "; or name it right in that volume's root, such as %s" % posixpath.join(inside[-1], posixpath.basename(path)) if inside else ""
        plan.refuse("mount point %s is not safe: %s%s [mount_point]", path, fault, hint)
    if state and state.fault:
        remedy = "look at the kernel's log and at what lies there, and run again"
        plan.refuse("mount point %s could not be read: %s [unreadable]; %s", path, state.fault, remedy)
    elif state and state.exists and not mounted:
        if not state.is_directory:
            what = "a symbolic link to %s" % state.symlink if state.symlink else "no directory"
            plan.refuse("mount point %s is %s; wanted an empty directory or nothing", path, what)
        elif state.other:  # of one that has no block device of its own: NFS, tmpfs, btrfs, ZFS
            plan.refuse("mount point %s is the root of another filesystem [mounted]; unmount it, or name another", path)
        elif state.entries:
            plan.refuse("mount point %s holds %d entries, which the mount would hide; empty it or name another", path, state.entries)
        elif way and not fault and owner_fault(path, state.owner, way[-1]):
            plan.refuse("mount point %s is not safe: %s [mount_point]", path, owner_fault(path, state.owner, way[-1]))
    for what, word, known in (("owner", volume.owner, seen.users), ("group", volume.group, seen.groups)):
        if word and word not in known:
            plan.refuse("%s '%s' of volume '%s' is not known to this host; create it first", what, word, volume.name)


def _way_to(plan: StackPlan, seen: Observation, path: str) -> tuple[list[Part], set[str]]:
    """The way to a mount point as it will be when that is made, and which parts of it are roots of volumes: those that are still to be mounted,
    or get another owner or mode by this plan, are what the spec makes of them, and what lies below them now will be covered."""
    state = seen.directories.get(path)
    parts = {part.path: part for part in (state.way if state else ())}
    mounted = {mount.target for mount in seen.mounts if mount.here}
    for other, volume in sorted(plan.host_mounts.items()):
        if not path.startswith(other + "/") or (other in parts and parts[other].kind != "directory"):
            continue
        if other not in mounted:
            parts = {name: part for name, part in parts.items() if name != other and not name.startswith(other + "/")}
        part = parts.get(other, Part(other, "directory"))
        parts[other] = part._replace(owner=seen.users.get(volume.owner, part.owner), mode=int(volume.mode, 8) if volume.mode else part.mode)
    return sorted(parts.values(), key=lambda part: len(part.path)), set(parts) & {*mounted, *plan.host_mounts}


def _check_no_mount(plan: StackPlan, seen: Observation, volume: Volume, node: Node | None) -> None:
    """Warn of a mount and of a line of fstab that a volume still has when the spec has none any more. Nothing is unmounted here."""
    filesystem = seen.filesystems.get(node.devno) if node else None
    if not node or not filesystem:
        return
    words = ["it is mounted on %s" % mount.target for mount in seen.mounts if mount.here and mount.devno == node.devno]
    words += ["fstab mounts it on %s" % entry.target for entry in seen.fstab if entry.spec == "UUID=" + filesystem.uuid]
    if words:
        text = "volume '%s' has no mount in the spec, and %s; that is left alone: unmount it and take the line out, or give the volume its mount"
        plan.warn(text, volume.name, ", ".join(words))


def _mount_changes(seen: Observation, volume: Volume, node: Node | None, specified: MountPoint) -> list[str]:
    """What has to change so that the volume is in fstab, mounted, and its root directory as specified."""
    changes = []
    line = next((entry for entry in seen.fstab if entry.target == volume.mount), None)
    if line is None:
        changes.append("fstab line")
    elif (line.fstype, set(line.options), line.passno) != (specified.fstype, set(specified.options.split(",")), specified.passno):
        changes.append("fstab options %s → %s" % (",".join(line.options), specified.options))
    live = next((mount for mount in seen.mounts if node and mount.here and (mount.devno, mount.target, mount.root) == (node.devno, volume.mount, "/")), None)
    if live is None:
        return [*changes, "mounted"]
    missing, extra = volume.kind.options.drift(volume.mount_options, live.options)
    if missing or extra:
        changes.append("remounted: %s" % ", ".join(["+" + option for option in missing] + ["-" + option for option in extra]))
    state = seen.directories.get(volume.mount)
    if state:
        for word, now, asked in (("owner", state.owner, specified.owner), ("group", state.group, specified.group)):
            if asked >= 0 and asked != now:
                changes.append("%s %d → %d" % (word, now, asked))
        if volume.mode and volume.mode != state.mode:
            changes.append("mode %s → %s" % (state.mode, volume.mode))
    return changes
