# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""What is kept of a device before it is first written to: root's alone, on the host. I/O.

Head and tail hold both copies of a GPT and most superblocks, ``sfdisk -d`` the table in a form that sfdisk takes back,
``vgcfgbackup`` the metadata of volume groups; a LUKS header is kept whole, since nothing opens the data without it.
"""

from __future__ import annotations

import json
import os
import re
import struct
import time
from typing import List, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _devio
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._observe import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import MIB

DIRECTORY = "/var/lib/plumbline/backup"
_LUKS = b"LUKS\xba\xbe"
_MOST = 64 * MIB  # a LUKS2 header takes 16 MiB, unless its maker was asked for more


def luks_header_bytes(head: bytes) -> int:
    """How long the LUKS header is that these bytes begin, key slots included; 0 where they begin none.

    LUKS1: the payload's sector is at 104, big-endian (LUKS On-Disk Format 1.2.3). LUKS2: two headers of the length at 8, then the
    area of the key slots, whose size is in the JSON behind the first 4 KiB (LUKS2 On-Disk Format 1.1.1).
    """
    if head[:6] != _LUKS or len(head) < 8192:
        return 0
    if struct.unpack_from(">H", head, 6)[0] == 1:
        return min(int(struct.unpack_from(">I", head, 104)[0]) * 512, _MOST)
    size = int(struct.unpack_from(">Q", head, 8)[0])
    try:
        config = json.loads(head[4096:size].split(b"\0")[0].decode("utf-8"))["config"]
        return min(2 * size + int(config["keyslots_size"]), _MOST)
    except (ValueError, KeyError, TypeError):
        return 16 * MIB  # what cryptsetup makes unless it is told otherwise


def keep_device(run: Runner, seen: Observation, devno: str) -> List[str]:
    """Keep what could bring a device's contents back. Returns the files. Raises PlumblineError where one cannot be kept: then nothing may be written."""
    node = seen.nodes[devno]
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", node.identity.serial or node.identity.key)[:80].lstrip(".") or "device"
    directory = "%s/%s-%s" % (DIRECTORY, name, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        for above in (directory, DIRECTORY, os.path.dirname(DIRECTORY)):
            os.chmod(above, 0o700)
        files = [_keep(directory, what, raw) for what, raw in _pieces(node)]
        for one in seen.tree(devno):
            files += _keep_luks(directory, one)
        if seen.tables.get(devno) is not None and "sfdisk" in seen.tools:
            code, out, _err = run([seen.tools["sfdisk"], "-d", node.path])
            if not code:  # a table that sfdisk cannot read is in the head all the same
                files.append(_keep(directory, "table.sfdisk", out.encode()))
        for vg in sorted({pv.vg for one in seen.tree(devno) for pv in [seen.pv(one.devno)] if pv and pv.vg}):
            path = "%s/vg-%s.conf" % (directory, vg)
            code, _out, err = run([seen.tools["lvm"], "vgcfgbackup", "-f", path, vg])
            if code:
                raise PlumblineError("the metadata of VG '%s' could not be kept: %s" % (vg, err.strip() or "vgcfgbackup returned %d" % code))
            files.append(path)
        _sync(directory)
        return files
    except OSError as fault:
        raise PlumblineError("nothing was written to %s: its contents could not be kept in %s: %s" % (node.path, directory, fault.strerror or fault)) from fault


def _pieces(node: Node) -> List[Tuple[str, bytes]]:
    head = min(MIB, node.size)
    tail = max((node.size - MIB) // 4096 * 4096, 0)
    (_first, first), (_last, last) = _devio.read_pieces(node.path, [(0, head), (tail, node.size - tail)])
    return [("head", first), ("tail-%d" % tail, last)]


def _keep_luks(directory: str, node: Node) -> List[str]:
    if node.size < MIB or node.kind not in ("disk", "loop", "part"):
        return []
    length = luks_header_bytes(_devio.read_head(node.path, min(MIB, node.size)))
    if not length:
        return []
    header = _devio.read_head(node.path, min(length, node.size // 4096 * 4096))
    return [_keep(directory, "luks-header%s" % ("-part%d" % node.number if node.number else ""), header)]


def _keep(directory: str, name: str, raw: bytes) -> str:
    path = "%s/%s" % (directory, name)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as handle:
        handle.write(raw)
        handle.flush()
        os.fsync(handle.fileno())
    return path


def _sync(directory: str) -> None:
    """Names are durable only when their directory is."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
