# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that exist in memory: observations built piece by piece, and a hand that carries out a plan's steps on them."""

from __future__ import annotations

import os
import re

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits, make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import (
    Accepted,
    BlankProof,
    Ends,
    Filesystem,
    FstabEntry,
    Mount,
    Node,
    Observation,
    PathState,
    Segment,
    Table,
    TableEntry,
    WriteCache,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv, Lvm, Pv, Vg
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.rules import neighbours
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks

NOW = "2026-03-01T12:00:00Z"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FIXTURES = os.path.join(os.path.dirname(__file__), "..", "..", "fixtures")
BLANK = BlankProof(128 * MIB, 1024)
TOOLS = {name: "/usr/sbin/" + name for name in ("lvm", "dmsetup", "wipefs", "sfdisk", "mkfs.ext4", "mkfs.xfs", "mount", "udevadm")}


def fixture(name):
    """The bytes of a captured file."""
    with open(os.path.join(FIXTURES, name), "rb") as handle:
        return handle.read()


def sparse_file(directory, size, *data, name="disk"):
    """The path of a sparse file with some bytes in it, as (place, bytes); skips where the filesystem knows no O_DIRECT."""
    path = str(directory / name)
    with open(path, "wb") as handle:
        handle.truncate(size)
        for at, raw in data:
            handle.seek(at)
            handle.write(raw)
        handle.flush()
        os.fsync(handle.fileno())
    try:
        os.close(block_device.open_read(path))
    except OSError:
        pytest.skip("no O_DIRECT on %s" % directory)
    return path


def shown_options():
    """What Linux showed in mountinfo for an ext4 mounted with each option: option → options of the mount and of the superblock."""
    rows = [line.split("\t") for line in fixture("ext4_mount_options.tsv").decode().splitlines()]
    return {asked: tuple(vfs.split(",")) + tuple(word for word in fs.split(",") if word != "rw") for asked, vfs, fs in rows}


SHOWN = shown_options()


def as_kernel_shows(options):
    """A live mount's options for those that were asked, composed from what the kernel showed for each alone."""
    live = ["rw", "relatime"]
    for option in options:
        for word in SHOWN.get(option, ()):
            if word not in live and word != "stripe=32":
                live.append(word)
    if "noatime" in live or "strictatime" in options:
        live.remove("relatime")
    return tuple(live)


class Host:
    """A host under construction. `seen` is what an observation would return."""

    def __init__(self):
        self.seen = Observation(tools=dict(TOOLS), distribution=("debian",), timer_enabled=True)
        self._minor = 0
        self._hidden = {}  # LV → its node, while it is inactive

    def disk(self, name="", size=100 * GIB, serial="", wwid=None, model="Flash 9000", limits=None, id_ns=None, blank=True, kind="disk", **more):
        """Add a disk; returns its device number. A blank one comes with its proof."""
        number = len([n for n in self.seen.nodes.values() if n.kind in ("disk", "loop")])
        name = name or "nvme%dn1" % number
        serial = "SER%04d" % number if serial == "" else serial
        devno = "259:%d" % (16 * number)
        limits = limits or Limits(512, 512, 512, 0, 0)
        identity = {
            "wwid": "eui.%016x" % (0xA000 + number) if wwid is None else wwid,
            "serial": serial,
            "model": model,
            "firmware": "1.0",
            "transport": "nvme",
            "controller": "nvme%d" % number,
            "nsid": 1,
        }
        identity.update({key: more.pop(key) for key in list(more) if key in Identity._fields})
        more.setdefault("write_cache", "write back")  # what the kernel believes of every drive that does not say otherwise
        more.setdefault("discard_max", 2 << 40)
        node = Node(devno, name, kind, size, limits, identity=Identity(**identity), **more)
        self.seen.nodes[devno] = node
        self.seen.geometries[devno] = make_geometry(limits, id_ns)
        self.seen.tables[devno] = None
        link = "nvme-%s_%s" % (model.replace(" ", "_"), serial)
        self.seen.links[link] = devno
        for path in ("/dev/disk/by-id/" + link, "/dev/" + name):
            self.seen.paths[path] = devno
        self.seen.caches[devno] = WriteCache(present=True, enabled=True, changeable=True) if kind == "disk" else WriteCache(fault="a loop device")
        if blank:
            self.seen.proofs[devno] = BLANK
        return devno

    def pair(self, count=2, **more):
        """Several equal disks; returns their device numbers."""
        return [self.disk(**more) for _number in range(count)]

    def edit(self, devno, **more):
        """Change what is seen of a node."""
        self.seen.nodes[devno] = self.seen.nodes[devno]._replace(**more)

    def limits(self, devno, id_ns=None, **more):
        """Change what a disk reports of its geometry."""
        limits = self.seen.nodes[devno].limits._replace(**more)
        self.edit(devno, limits=limits)
        self.seen.geometries[devno] = make_geometry(limits, id_ns)

    def name(self, devno):
        """The path by which a spec names a disk."""
        return next("/dev/disk/by-id/" + link for link, number in self.seen.links.items() if number == devno)

    def part(self, disk, start, size=0, name="", number=0, guid="", listed=True, kind="E6D6D379-F507-44C2-A23C-238F2A3DF928"):
        """Add a partition to a disk, in its table as well where *listed*."""
        node = self.seen.nodes[disk]
        entries = self.seen.tables[disk].entries if self.seen.tables.get(disk) else ()
        number = number or len(entries) + 1
        size = size or (node.size - start - MIB) // MIB * MIB
        major, minor = disk.split(":")
        devno = "%s:%d" % (major, int(minor) + number)
        title = node.name + ("p" if node.name[-1].isdigit() else "") + str(number)
        self.seen.nodes[devno] = Node(
            devno, title, "part", size, node.limits, parent=disk, start=start, number=number, segments=(Segment(0, size, "part", 0, ((disk, start),)),),
            discard_max=node.discard_max,
        )  # fmt: skip
        if listed:
            guid = guid or "00000000-0000-4000-8000-%012d" % (int(minor) + number)
            entry = TableEntry(number, start, size, kind, guid, name)
            self.seen.tables[disk] = Table("gpt", "GUID", tuple(entries) + (entry,))
        self.seen.proofs.pop(disk, None)
        self.seen.proofs[devno] = BLANK
        return devno

    def mapped(self, title, segments, kind="lvm", name=""):
        """Add a mapped device; its holders and slaves follow from *segments*."""
        devno = "%d:%d" % (9 if kind == "md" else 253, self._minor)
        name = name or "dm-%d" % self._minor
        self._minor += 1
        children = list(dict.fromkeys(child for segment in segments for child, _first in segment.legs))
        size = sum(segment.length for segment in segments)
        below = self.seen.nodes[children[0]]
        self.seen.nodes[devno] = Node(
            devno, name, kind, size, below.limits, title=title, slaves=tuple(children), segments=tuple(segments), write_cache="write back",
            discard_max=below.discard_max,
        )  # fmt: skip
        for child in children:
            self.edit(child, holders=self.seen.nodes[child].holders + (devno,))
        self.seen.proofs[devno] = BLANK
        return devno

    def holds_data(self, devno, at=0):
        """Say that a node holds data that nobody recognises."""
        self.seen.proofs[devno] = BlankProof(4096, 1, ("unrecognised data that is not zero, first at byte %d (0 MiB from the start)" % at,), at)
        self.seen.ends[devno] = Ends(b"\1" * MIB, bytes(MIB), self.seen.nodes[devno].size - MIB)

    def pv(self, devno, vg, data_start=MIB, extents=1000, extent=4 * MIB):
        """Say that a node is a PV, all of which is free."""
        node = self.seen.nodes[devno]
        pv = Pv(devno, "/dev/" + node.name, "uuid-" + devno, vg, data_start, extents, ((data_start, extents * extent),))
        self.seen.lvm = self.seen.lvm._replace(pvs=self.seen.lvm.pvs + (pv,))

    def allocate(self, vg, length, devnos=()):
        """Give *length* free bytes in one piece of each PV of a VG, or of these, to somebody. Returns where they begin."""
        starts = []
        for pv in [pv for pv in self.seen.lvm.pvs if pv.vg == vg and (not devnos or pv.devno in devnos)]:
            run = next((run for run in pv.free if run[1] >= length), None)
            assert run, "lvcreate would find no room"
            starts.append((pv.devno, run[0]))
            self._set_free(pv, [one for one in pv.free if one != run] + [(run[0] + length, run[1] - length)])
        return tuple(starts)

    def remove(self, vg, name):
        """As umount and lvremove leave it."""
        node = self.seen.lv_node(vg, name)
        del self.seen.nodes[node.devno]
        self.seen.mounts = [mount for mount in self.seen.mounts if mount.devno != node.devno]
        self.seen.lvm = self.seen.lvm._replace(lvs=tuple(lv for lv in self.seen.lvm.lvs if (lv.vg, lv.name) != (vg, name)))
        for devno, start in node.segments[0].legs:
            pv = self.seen.pv(devno)
            self._set_free(pv, [*pv.free, (start, node.size // len(node.segments[0].legs))])

    def _set_free(self, pv, runs):
        new = pv._replace(free=tuple(sorted(run for run in runs if run[1])))
        self.seen.lvm = self.seen.lvm._replace(pvs=tuple(new if one is pv else one for one in self.seen.lvm.pvs))

    def vg(self, name, extent=4 * MIB, extents=2000):
        """Say that there is a VG."""
        self.seen.lvm = self.seen.lvm._replace(vgs=self.seen.lvm.vgs + (Vg(name, extent, extents, extents),))

    def ext4(self, devno, label="", stride=0, width=0, uuid="12345678-1234-5678-9abc-def012345678", block=4096):
        """Put a filesystem on a node."""
        shape = (self.seen.nodes[devno].size // block, stride, width)
        self.seen.filesystems[devno] = Filesystem("ext4", uuid, label, block, *shape, 1000, ("extent",), family="ext", growable=16 << 40)

    def mount(self, devno, target, options=("rw", "noatime"), here=True):
        """Mount a node."""
        self.seen.mounts.append(Mount(devno, target, "ext4", tuple(options), here))

    # --- a hand that does what the roles do ---------------------------------------------------------

    def carry_out(self, step):
        """Do one step of a plan to the host in memory."""
        getattr(self, "_do_" + step["action"])(step)

    def _do_write_cache(self, step):
        for device in step["devices"]:
            devno = next(n.devno for n in self.seen.nodes.values() if n.path == device["device"])
            key = self.seen.nodes[devno].identity.key
            self.seen.kept = {one: state for one, state in self.seen.kept.items() if one != key}
            if device["state"] == "keep":
                continue
            for node in neighbours(self.seen, devno):
                self.seen.caches[node.devno] = self.seen.caches[node.devno]._replace(enabled=device["state"] == "on")
            self.seen.kept = dict(self.seen.kept, **{key: device["state"]})

    def _do_partition(self, step):
        for device in step["devices"]:
            devno = next(n.devno for n in self.seen.nodes.values() if n.path == device["device"])
            self.seen.tables[devno] = None
            self.part(devno, device["start_bytes"], device["length_bytes"], device["name"], 1, device["guid"], kind=device["type_guid"])

    def _by_guid(self, path):
        guid = path.rsplit("/", 1)[-1].upper()
        for disk, table in self.seen.tables.items():
            for entry in table.entries if table else ():
                if entry.guid == guid:
                    return next(n.devno for n in self.seen.nodes.values() if n.parent == disk and n.number == entry.number)
        raise AssertionError("no partition %s" % path)

    def _do_volume_group(self, step):
        total = 0
        for path in step["pvs"]:
            devno = self._by_guid(path)
            count = (self.seen.nodes[devno].size - step["data_alignment_bytes"]) // step["extent_bytes"]
            total += count
            self.seen.lvm = self.seen.lvm._replace(pvs=tuple(pv for pv in self.seen.lvm.pvs if pv.devno != devno))
            self.pv(devno, step["vg"], step["data_alignment_bytes"], count, step["extent_bytes"])
        self.vg(step["vg"], step["extent_bytes"], total)

    def _do_logical_volume(self, step):
        vg = self.seen.vg(step["vg"])
        if step["unfinished"]:
            lvs = self.seen.lvm.lvs
            assert [lv.size for lv in lvs if lv.name == step["lv"]] == [step["size_bytes"]], "lvol would resize it"
            self.seen.lvm = self.seen.lvm._replace(lvs=tuple(lv._replace(active=True) if lv.name == step["lv"] else lv for lv in lvs))
            self.seen.nodes.update(self._hidden.pop(step["lv"]))
            return
        each = step["size_bytes"] // step["stripes"]
        assert each % vg.extent_bytes == 0, "lvcreate would round the size up"
        legs = self.allocate(vg.name, each, [self._by_guid(path) for path in step["pvs"]])
        kind = "striped" if step["stripes"] > 1 else "linear"
        self.mapped("%s-%s" % (vg.name, step["lv"]), [Segment(0, step["size_bytes"], kind, step["stripe_bytes"], legs)])
        layouts = ((step["stripes"], step["stripe_bytes"]),)
        lv = Lv(vg.name, step["lv"], step["size_bytes"], step["stripes"], step["stripe_bytes"], 1, (kind,), layouts=layouts)
        self.seen.lvm = self.seen.lvm._replace(lvs=self.seen.lvm.lvs + (lv,))

    def deactivate(self, vg, name):
        """As lvchange -an, or an lvcreate that was killed before it activated, leaves an LV."""
        node = self.seen.lv_node(vg, name)
        self._hidden[name] = {node.devno: self.seen.nodes.pop(node.devno)}
        self.seen.lvm = self.seen.lvm._replace(lvs=tuple(lv._replace(active=lv.active and lv.name != name) for lv in self.seen.lvm.lvs))

    def _do_filesystem(self, step):
        words = dict(re.findall(r"(?:-|\b)(L|U|b|stride|stripe_width)[ =](\S+?)(?=[ ,]|$)", step["options"]))
        if "/by-partuuid/" in step["device"]:
            devno = self._by_guid(step["device"])
        else:
            vg, lv = step["device"].split("/")[2:]
            devno = self.seen.lv_node(vg, lv).devno
        if step["fstype"] == "xfs":
            su, sw, agsize = (int(re.search(name + r"=(\d+)", step["options"]).group(1)) for name in ("su", "sw", "agsize"))
            blocks = self.seen.nodes[devno].size // 4096
            self.seen.signatures.pop(devno, None)
            self.seen.filesystems[devno] = Filesystem(
                "xfs", step["uuid"], words["L"], 4096, blocks, su // 4096, su // 4096 * sw, 64, family="xfs", growable=1 << 60, group=agsize,
                least_group=16 * MIB,
            )  # fmt: skip
            return
        self.ext4(devno, words["L"], int(words["stride"]), int(words["stripe_width"]), words["U"], int(words["b"]))

    def _do_mount(self, step):
        for mount in step["mounts"]:
            devno = next(devno for devno, fs in self.seen.filesystems.items() if fs.uuid == mount["uuid"])
            options = tuple(mount["options"].split(","))
            self.seen.fstab = [entry for entry in self.seen.fstab if entry.target != mount["path"]]
            self.seen.fstab.append(FstabEntry("UUID=" + mount["uuid"], mount["path"], mount["fstype"], options, 0, mount["passno"]))
            self.seen.mounts = [one for one in self.seen.mounts if one.devno != devno]
            self.mount(devno, mount["path"], as_kernel_shows(options))
            self.seen.directories[mount["path"]] = PathState(True, True, 1, False, max(mount["owner"], 0), max(mount["group"], 0), mount["mode"] or "0755")
        for one in step["accepted"]:
            self.seen.accepted = [old for old in self.seen.accepted if old.stack != one["stack"]]
            self.seen.accepted += [Accepted(one["stack"], since=NOW, **dict(risk, serials=tuple(risk["serials"]))) for risk in one["risks"]]
        self.seen.drop_ins.update(step["drop_ins"])
        self.seen.timer_enabled = self.seen.timer_enabled or step["enable_fstrim_timer"]

    # --- growth: what the device does, and what the module does ------------------------------------

    def resize(self, devno, size):
        """As a cloud or a SAN makes a disk larger: its table stays as it was."""
        table, node = self.seen.tables[devno], self.seen.nodes[devno]
        if table:
            self.seen.tables[devno] = table._replace(made_for=table.made_for or node.size, backup="expected elsewhere")
        self.edit(devno, size=size)

    def _do_grow_partition(self, step):
        for disk in [disk for disk in step["disks"] if disk["length_bytes"]]:
            devno = next(n.devno for n in self.seen.nodes.values() if n.path == disk["device"])
            node, table = self.seen.nodes[devno], self.seen.tables[devno]
            assert table.entries[0].size <= disk["length_bytes"] and disk["start_bytes"] + disk["length_bytes"] <= node.size - MIB
            entry = table.entries[0]._replace(size=disk["length_bytes"])
            self.seen.tables[devno] = table._replace(entries=(entry,), made_for=node.size, backup="", unsettled=False)
            part = next(n for n in self.seen.nodes.values() if n.parent == devno)
            self.edit(part.devno, size=disk["length_bytes"], segments=(Segment(0, disk["length_bytes"], "part", 0, ((devno, part.start),)),))

    def _do_grow_pv(self, step):
        for path in step["pvs"]:
            devno = self._by_guid(path)
            pv = self.seen.pv(devno)
            count = (self.seen.nodes[devno].size - pv.data_start) // step["extent_bytes"]
            assert count > pv.extents
            more = (pv.data_start + pv.extents * step["extent_bytes"], (count - pv.extents) * step["extent_bytes"])
            new = pv._replace(extents=count, free=tuple(sorted([*pv.free, more])))
            self.seen.lvm = self.seen.lvm._replace(pvs=tuple(new if one is pv else one for one in self.seen.lvm.pvs))

    def _do_extend_vg(self, step):
        for path in step["pvs"]:
            devno = self._by_guid(path)
            extent = self.seen.vg(step["stack"]).extent_bytes
            count = (self.seen.nodes[devno].size - step["data_alignment_bytes"]) // extent
            self.pv(devno, step["stack"], step["data_alignment_bytes"], count, extent)

    def _do_grow_lv(self, step):
        lv, node = self.seen.lv(step["stack"], step["lv"]), self.seen.lv_node(step["stack"], step["lv"])
        assert lv.size == step["from_bytes"] and lv.stripes == step["stripes"], "lvextend would do something else"
        each, left, legs = (step["size_bytes"] - lv.size) // step["stripes"], {}, {self._by_guid(path) for path in step["pvs"]}
        for pv in [pv for pv in self.seen.lvm.pvs if pv.devno in legs]:
            want, left[pv.devno] = each, []
            for start, length in pv.free:
                taken = min(length, want)
                want -= taken
                left[pv.devno].append((start + taken, length - taken))
            assert not want, "lvextend would find no room"
            self._set_free(pv, left[pv.devno])
        self.edit(node.devno, size=step["size_bytes"])
        new = lv._replace(size=step["size_bytes"], segments=lv.segments + 1)
        self.seen.lvm = self.seen.lvm._replace(lvs=tuple(new if one is lv else one for one in self.seen.lvm.lvs))

    def _do_refresh_lv(self, step):
        node = self.seen.lv_node(step["stack"], step["lv"])
        self.edit(node.devno, size=step["size_bytes"], suspended=False)

    def _do_grow_filesystem(self, step):
        devno = next(devno for devno, fs in self.seen.filesystems.items() if fs.uuid == step["uuid"])
        made = self.seen.filesystems[devno]
        assert self.seen.mounted(devno) and step["size_bytes"] <= self.seen.nodes[devno].size
        self.seen.filesystems[devno] = made._replace(blocks=step["size_bytes"] // made.block)

    def build(self, stacks, through="filesystem", limit=99):
        """Plan, carry out at most *limit* steps; returns the plan that was carried out."""
        plan = make_plan(stacks, self.seen, through)
        assert not plan.refusals, plan.refusals
        for step in plan.steps[:limit]:
            self.carry_out(step)
        return plan

    def forget_lvm(self):
        """As on a host whose VG was never made."""
        self.seen.lvm = Lvm()


VOLUMES = ({"name": "data", "size": "70%", "mount": "/data01"}, {"name": "wal", "size": "20%", "mount": "/data02"})


def spec(host, devnos=None, **more):
    """A checked stack over the host's disks; *more* replaces keys of the entry."""
    devnos = [n.devno for n in host.seen.nodes.values() if n.kind == "disk"] if devnos is None else devnos
    entry = {"name": "pgdata", "devices": [host.name(devno) for devno in devnos], "volumes": [dict(volume) for volume in VOLUMES]}
    entry.update(more)
    return read_stacks([entry])
