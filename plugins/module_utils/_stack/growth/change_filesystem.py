# SPDX-License-Identifier: GPL-3.0-or-later
"""A filesystem of ours that grows while it is mounted. I/O."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import FilesystemKind
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun


def grow_filesystem(run: Runner, seen: Observation, step: Mapping[str, Any], look: Callable[[], Observation], check: bool) -> None:
    """Let its own tool grow it to the bytes of the step, and read its superblock back. Raises PlumblineError."""
    what, size = "the filesystem on %s" % step["device"], step["size_bytes"]
    devno = _device_of(seen, step)  # a snapshot of the volume, or a copy of it, has the same UUID
    if devno not in seen.filesystems or seen.filesystems[devno].uuid != step["uuid"] or step["fstype"] not in FILESYSTEMS:
        raise PlumblineError("%s is not the one that was planned (UUID %s); nothing was changed; run again" % (what, step["uuid"]))
    before, node, kind = seen.filesystems[devno], seen.nodes[devno], FILESYSTEMS[step["fstype"]]
    mounts = [mount for mount in seen.mounted(devno) if mount.here and "rw" in mount.options]
    faults = {
        "it is a %s" % before.kind: before.kind != kind.name,
        "it has %d bytes, planned were %d" % (before.blocks * before.block, step["from_bytes"]): before.blocks * before.block != step["from_bytes"],
        "its device has %d bytes" % node.size: node.size < size,
        kind.growth_limit(before): size > before.growable,
        "it is not mounted, or not for writing": not mounts,
        _STALE % node.path: _is_stale(kind, before, node.name),
    }
    for text in [text for text, wrong in faults.items() if wrong]:
        raise PlumblineError("%s is not grown to %d bytes: %s; nothing was changed; run again" % (what, size, text))
    if check:
        return
    if kind.copies_by_size:
        keep_begun.add_group(before.group)
    must_succeed(run(kind.grow_argv(node.path, mounts[0].target, size // before.block)), "%s could not be grown" % what)
    # What is committed to the journal, and then the superblock in its place: a mount takes from there how many groups there are, and replays the journal later.
    for argv in (["sync", "--file-system", mounts[0].target], ["sync", node.path]):
        must_succeed(run(argv), "%s could not be synchronised" % what)
    after = look().filesystems.get(devno)
    settled = time.monotonic() + kind.settles
    while after and after.blocks * after.block != size and time.monotonic() < settled:
        time.sleep(2)
        after = look().filesystems.get(devno)
    if not after or after.blocks * after.block != size or (after.stride, after.stripe_width) != (before.stride, before.stripe_width):
        had = "%d bytes" % (after.blocks * after.block) if after else "no superblock"
        raise PlumblineError("%s has %s after it was grown; wanted %d bytes, and its stripes as they were" % (what, had, size))


_STALE = (
    "the kernel counts other groups in it than its superblock has [stale], as where a crash cut a growth off: the mount took their number before the journal "
    "was replayed, and would stop the kernel if it grew (fs/ext4/resize.c); end what uses it, umount %s, and mount it again"
)


def _is_stale(kind: FilesystemKind, filesystem: Filesystem, name: str) -> bool:
    """Whether a mount has another number of groups than its superblock says by now. False where the kernel does not tell."""
    if not kind.groups_file or not filesystem.group:
        return False
    try:
        with open(kind.groups_file % name, encoding="ascii", errors="replace") as handle:
            counted = sum(1 for _line in handle) - 1
    except OSError:
        return False
    return counted > 0 and counted != -(-filesystem.blocks * filesystem.block // filesystem.group)


def _device_of(seen: Observation, step: Mapping[str, Any]) -> str:
    """The device number of the volume of the step: an LV, or a partition by its GUID."""
    node = seen.lv_node(step["stack"], step["lv"]) if step["lv"] else None
    return node.devno if node else "" if step["lv"] else seen.led_to.get(step["device"], "")
