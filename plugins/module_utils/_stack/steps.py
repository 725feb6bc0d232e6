# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a plan: what each one holds, and beside it what the module takes that carries it out. Pure.

A step is a plain dict with an ``action``; it goes through a playbook to the roles, and to the modules from there.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

Step = Dict[str, Any]

# A disk as a plan saw it, by which a module finds it again.
_DISK = {
    "device": {"type": "path", "required": True},
    "identity": {"type": "str", "required": True},
    "test_identity": {"type": "str", "default": ""},
    "serial": {"type": "str", "default": ""},
    "model": {"type": "str", "default": ""},
    "diskseq": {"type": "int", "default": 0},
    "size_bytes": {"type": "int", "required": True},
    "logical_bytes": {"type": "int", "required": True},
}
# The fields of PartitionDevice, as the module aligned_partition takes them.
PARTITION_DEVICE = {
    **_DISK,
    "start_bytes": {"type": "int", "required": True},
    "length_bytes": {"type": "int", "required": True},
    "end_bytes": {"type": "int", "required": True},
    "type_guid": {"type": "str", "required": True},
    "guid": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "written": {"type": "bool", "default": False},
    "unfinished": {"type": "bool", "default": False},
    "full_proof": {"type": "bool", "default": False},
    "probe_starts": {"type": "list", "elements": "int", "default": []},
    "discard": {"type": "bool", "default": True},
    "erase": {"type": "str", "default": ""},
    "removes": {"type": "list", "elements": "str", "default": []},
}


class PartitionDevice(NamedTuple):
    """A device that gets its one partition. *diskseq* and what stands before it tell it from another that came in its place."""

    device: str
    identity: str
    test_identity: str
    serial: str
    model: str
    diskseq: int
    size_bytes: int
    logical_bytes: int
    start_bytes: int
    length_bytes: int
    end_bytes: int
    type_guid: str
    guid: str
    name: str
    written: bool  # our partition is in the table, and the kernel does not show it
    unfinished: bool  # the writing of this very table was cut off
    full_proof: bool
    probe_starts: List[int]  # where the blank proof looks as well
    discard: bool  # what lies between its ends, before the table is written
    erase: str  # the digest of the contents that are to go first
    removes: List[str]

    def as_dict(self) -> Dict[str, Any]:
        return dict(self._asdict())


def partition_step(stack: str, devices: Sequence[PartitionDevice], summary: str) -> Step:
    """For aligned_partition."""
    return {"action": "partition", "stack": stack, "devices": [device.as_dict() for device in devices], "summary": summary}


def volume_group_step(stack: str, pvs: List[str], extent: int, data_start: int, summary: str) -> Step:
    """For community.general.lvg; sizes in bytes. The group has the stack's name."""
    sizes = {"extent_bytes": extent, "data_alignment_bytes": data_start}
    return {"action": "volume_group", "stack": stack, "vg": stack, "pvs": pvs, **sizes, "summary": summary}


def logical_volume_step(
    stack: str, volume: str, size: int, stripes: int, stripe: int, unfinished: bool, summary: str, pvs: Sequence[str] = ()
) -> Step:
    """For community.general.lvol; sizes in bytes. *pvs*: those that it is made on, where it could be made on others; empty: where LVM finds room.

    *unfinished*: it is there, and only not active. What it holds is known when it is, so the plan for what comes on it is made again then.
    """
    shape = {"size_bytes": size, "stripes": stripes, "stripe_bytes": stripe, "pvs": list(pvs)}
    return {"action": "logical_volume", "stack": stack, "vg": stack, "lv": volume, **shape, "unfinished": unfinished, "summary": summary}


def filesystem_step(stack: str, volume: str, device: str, fstype: str, options: str, identifier: str, summary: str, unfinished: bool = False) -> Step:
    """For community.general.filesystem; *options* are those of mkfs. *unfinished*: an mkfs of ours was cut off, and what it left is made anew."""
    made = {"device": device, "fstype": fstype, "options": options, "uuid": identifier, "force": unfinished}
    return {"action": "filesystem", "stack": stack, "volume": volume, **made, "summary": summary}


# A disk of a stack that stands, as the module stack_growth takes it.
STANDING_DISK = {
    **_DISK,
    "guid": {"type": "str", "required": True},
    "start_bytes": {"type": "int", "default": 0},
    "length_bytes": {"type": "int", "default": 0},
    "full_proof": {"type": "bool", "default": False},
}
RESTORE_TABLE, GROW_PARTITION, GROW_PV, EXTEND_VG, REFRESH_LV, GROW_LV, GROW_FILESYSTEM = GROWTH = (
    "restore_table", "grow_partition", "grow_pv", "extend_vg", "refresh_lv", "grow_lv", "grow_filesystem",
)  # fmt: skip
# A step of growth, as the module stack_growth takes it; each action has a use for some of these.
GROWTH_STEP = {
    "action": {"type": "str", "choices": list(GROWTH), "required": True},
    "stack": {"type": "str", "required": True},
    "disks": {"type": "list", "elements": "dict", "required": True, "options": STANDING_DISK},
    "pvs": {"type": "list", "elements": "str", "default": []},
    "lv": {"type": "str", "default": ""},
    "from_bytes": {"type": "int", "default": 0},
    "size_bytes": {"type": "int", "default": 0},
    "extent_bytes": {"type": "int", "default": 0},
    "stripes": {"type": "int", "default": 0},
    "stripe_bytes": {"type": "int", "default": 0},
    "data_alignment_bytes": {"type": "int", "default": 0},
    "device": {"type": "path", "default": ""},
    "fstype": {"type": "str", "default": ""},
    "uuid": {"type": "str", "default": ""},
    "unfinished": {"type": "bool", "default": False},
    "summary": {"type": "str", "default": ""},
}


class StandingDisk(NamedTuple):
    """A disk that has a partition of ours. *length_bytes*: as it is to be, where it grows; 0 where it does not."""

    device: str
    identity: str
    test_identity: str
    serial: str
    model: str
    diskseq: int
    size_bytes: int
    logical_bytes: int
    guid: str
    start_bytes: int
    length_bytes: int
    full_proof: bool

    def as_dict(self) -> Dict[str, Any]:
        return dict(self._asdict())


def growth_step(action: str, stack: str, disks: Sequence[StandingDisk], summary: str, **more: Any) -> Step:
    """For stack_growth; sizes in bytes. *disks*: all of the stack's, by which the module knows that it is on the right ones."""
    return {"action": action, "stack": stack, "disks": [disk.as_dict() for disk in disks], **more, "summary": summary}


MIRROR_CREATE, MIRROR_ADD, MIRROR_REPLACE, MIRROR_GROW = MIRROR = ("mirror_create", "mirror_add", "mirror_replace", "mirror_grow")
# A step for the array of a mirrored stack, as the module stack_mirror takes it; each action has a use for some of these.
MIRROR_STEP = {
    "action": {"type": "str", "choices": list(MIRROR), "required": True},
    "stack": {"type": "str", "required": True},
    "disks": {"type": "list", "elements": "dict", "required": True, "options": STANDING_DISK},
    "array": {"type": "str", "required": True},
    "members": {"type": "list", "elements": "str", "required": True},
    "chunk_bytes": {"type": "int", "required": True},
    "data_offset_bytes": {"type": "int", "default": 0},
    "component_bytes": {"type": "int", "default": 0},
    "assume_clean": {"type": "bool", "default": False},
    "old": {"type": "str", "default": ""},
    "new": {"type": "str", "default": ""},
    "own_place": {"type": "bool", "default": False},
    "summary": {"type": "str", "default": ""},
}


def mirror_step(action: str, stack: str, disks: Sequence[StandingDisk], array: str, members: Sequence[str], chunk: int, summary: str, **more: Any) -> Step:
    """For stack_mirror; sizes in bytes. *array*: its UUID; *members*: the GUIDs of the partitions that are, or are to be, its members, in their order."""
    asked = {"array": array, "members": list(members), "chunk_bytes": chunk}
    return {"action": action, "stack": stack, "disks": [disk.as_dict() for disk in disks], **asked, **more, "summary": summary}


# The fields of Mount, as the module mount_points takes them.
MOUNT = {
    "path": {"type": "path", "required": True},
    "uuid": {"type": "str", "required": True},
    "fstype": {"type": "str", "required": True},
    "options": {"type": "str", "required": True},
    "passno": {"type": "int", "default": 2, "no_log": False},  # of fsck, and no secret
    "owner": {"type": "int", "default": -1},
    "group": {"type": "int", "default": -1},
    "mode": {"type": "str", "default": ""},
    "selinux_context": {"type": "str", "default": ""},
    "stack": {"type": "str", "default": ""},
    "volume": {"type": "str", "default": ""},
    "changes": {"type": "list", "elements": "str", "default": []},
}
RISK = {
    "volume": {"type": "str", "required": True},
    "mount": {"type": "str", "required": True},
    "uuid": {"type": "str", "required": True},
    "option": {"type": "str", "required": True},
    "acceptance": {"type": "str", "required": True},
    "serials": {"type": "list", "elements": "str", "default": []},
}
ACCEPTED = {
    "stack": {"type": "str", "required": True},
    "risks": {"type": "list", "elements": "dict", "default": [], "options": RISK},
}


class MountPoint(NamedTuple):
    """A volume's mount: its line of fstab, and its root directory; -1 and empty words leave what is there."""

    stack: str
    volume: str
    path: str
    uuid: str
    fstype: str
    options: str
    passno: int
    owner: int
    group: int
    mode: str
    selinux_context: str
    changes: Tuple[str, ...] = ()  # what differs on the host

    def as_dict(self) -> Dict[str, Any]:
        return dict(self._asdict(), changes=list(self.changes))


def mount_step(mounts: Sequence[MountPoint], drop_ins: Dict[str, str], enable_timer: bool, accepted: List[Dict[str, Any]], summary: str) -> Step:
    """For mount_points."""
    asked = {"drop_ins": drop_ins, "enable_fstrim_timer": enable_timer, "accepted": accepted}
    return {"action": "mount", "mounts": [mount.as_dict() for mount in mounts], **asked, "summary": summary}


def merge_mount_steps(steps: Sequence[Mapping[str, Any]]) -> Step:
    """The mounts of several stacks as one: one change of fstab, in which an outer mount comes before an inner one."""
    summaries = [str(step["summary"]) for step in steps]
    return {
        "action": "mount",
        "mounts": [mount for step in steps for mount in step["mounts"]],
        "drop_ins": {name: text for step in steps for name, text in step["drop_ins"].items()},
        "enable_fstrim_timer": any(step["enable_fstrim_timer"] for step in steps),
        "accepted": [one for step in steps for one in step["accepted"]],
        "summary": "; ".join(summaries[:1] + [summary[len("mount ") :] for summary in summaries[1:]]),
    }


# A drive of a step, as the module write_cache takes it.
CACHE_DEVICE = {
    "device": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["on", "off", "keep"], "required": True},
    "identity": {"type": "str", "default": ""},
    "serial": {"type": "str", "default": ""},
    "accept": {"type": "list", "elements": "str", "choices": ["data_loss_on_power_cut"], "default": []},
}


def cache_device(device: str, identity: str, serial: str, state: str, accept: Sequence[str] = ()) -> Dict[str, Any]:
    """One drive whose cache, or whose keeping of it, is to change; *accept* the risks that are taken on by it."""
    return {"device": device, "identity": identity, "serial": serial, "state": state, **({"accept": list(accept)} if accept else {})}


def write_cache_step(devices: List[Dict[str, Any]], protected: List[str], summary: str) -> Step:
    """For write_cache; *protected* are the serials of drives of which somebody states power-loss protection."""
    return {"action": "write_cache", "devices": devices, "power_loss_protection": protected, "summary": summary}
