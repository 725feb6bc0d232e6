# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts in memory with the array of a mirrored stack: its members come and go as on a real one."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import FAULTY, NEAR_2, SPARE, MdArray, MdMember, MdSuperblock
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import BLANK, Host

MEMBER = Signature("linux_raid_member", "raid", 4096)


class MirrorHost(Host):
    """A host whose hand carries out the steps for arrays as well."""

    def __init__(self, count=4, **more):
        super().__init__()
        self.seen.tools = dict(self.seen.tools, mdadm="/sbin/mdadm")
        self.gone = {}  # devno of a disk → what was seen of it
        self.pair(count, **more)

    @property
    def array(self):
        (found,) = self.seen.md_arrays
        return found

    def _by_guid(self, path):
        if "/md-uuid-" in path:
            uuid = path.partition("md-uuid-")[2]
            assert {one.uuid for devno, one in self.seen.md_superblocks.items() if self.seen.array_over(devno)} == {uuid}
            return self.array.devno
        return super()._by_guid(path)

    def parts(self):
        """The partitions in the order of the disks."""
        return [node.devno for node in self.seen.nodes.values() if node.kind == "part"]

    def superblock(self, devno, uuid, role, disks, roles=None, events=20, size=0, offset=1 << 20, chunk=65536):
        roles = tuple(range(disks)) if roles is None else roles
        self.seen.md_superblocks[devno] = MdSuperblock(uuid, "any:pgdata", 10, NEAR_2, chunk, disks, size, offset, events, 1, 2, role, roles, -1)
        self.seen.signatures[devno] = [MEMBER]

    def _do_mirror_create(self, step):
        parts = [self._by_guid(guid) for guid in step["members"]]
        count, component, offset = len(parts), step["component_bytes"], step["data_offset_bytes"]
        assert all(self.seen.nodes[part].size >= offset + component for part in parts)
        size = component * count // 2
        segment = Segment(0, size, "raid10", step["chunk_bytes"], tuple((part, offset) for part in parts), count)
        devno = self.mapped("", [segment], "md", "md127")
        for number, part in enumerate(parts):
            self.superblock(part, step["array"], number, count, size=component, offset=offset, chunk=step["chunk_bytes"])
        members = tuple(MdMember(part, number, ("in_sync",)) for number, part in enumerate(parts))
        self.seen.md_arrays = [MdArray("md127", devno, "clean", "raid10", NEAR_2, step["chunk_bytes"], count, component, members)]

    def change(self, **more):
        self.seen.md_arrays = [self.array._replace(**more)]

    def set_events(self, events):
        """The members that are in sync are written to."""
        roles = tuple(number if number not in self.array.missing else FAULTY for number in range(self.array.disks))
        for member in self.array.members:
            if member.in_sync:
                old = self.seen.md_superblocks[member.devno]
                self.seen.md_superblocks[member.devno] = old._replace(events=events, roles=roles)

    def pull(self, disk, events=40):
        """Take a disk away; its array runs on."""
        part = next(node for node in self.seen.nodes.values() if node.parent == disk)
        links = [link for link, devno in self.seen.links.items() if devno == disk]
        kept = self.seen.nodes.pop(disk), self.seen.nodes.pop(part.devno)._replace(holders=())
        self.gone[disk] = (*kept, self.seen.tables.pop(disk), self.seen.md_superblocks.pop(part.devno), links)
        self.seen.links = {link: devno for link, devno in self.seen.links.items() if devno != disk}
        self.seen.paths = {path: devno for path, devno in self.seen.paths.items() if devno != disk}
        self._drop(part.devno)
        self.set_events(events)

    def _drop(self, part):
        self.change(members=tuple(member for member in self.array.members if member.devno != part))
        node = self.seen.nodes[self.array.devno]
        (segment,) = node.segments
        legs = tuple(leg for leg in segment.legs if leg[0] != part)
        self.edit(node.devno, segments=(segment._replace(legs=legs, degraded=len(self.array.missing)),), slaves=tuple(leg for leg, _first in legs))

    def bring_back(self, disk, **superblock):
        """Plug it in again; nobody adds it to the array."""
        node, part, table, found, links = self.gone.pop(disk)
        self.seen.nodes.update({disk: node, part.devno: part})
        self.seen.tables[disk] = table
        self.seen.paths[node.path] = disk
        for link in links:
            self.seen.links[link] = disk
            self.seen.paths["/dev/disk/by-id/" + link] = disk
        self.seen.md_superblocks[part.devno] = found._replace(**superblock)
        self.seen.signatures[part.devno] = [MEMBER]
        return part.devno

    def _join(self, part, slot):
        array = self.array
        self.change(members=(*(one for one in array.members if one.slot != slot and one.devno != part), MdMember(part, slot, ("in_sync",))))
        node = self.seen.nodes[array.devno]
        (segment,) = node.segments
        legs = tuple((member.devno, segment.legs[0][1]) for member in sorted(self.array.members, key=lambda one: one.slot) if member.slot >= 0)
        self.edit(node.devno, segments=(segment._replace(legs=legs, degraded=len(self.array.missing)),), slaves=tuple(leg for leg, _first in legs))
        self.edit(part, holders=(array.devno,))
        uuid = next(one.uuid for one in self.seen.md_superblocks.values())
        self.superblock(part, uuid, slot, array.disks, size=array.component, offset=segment.legs[0][1], chunk=array.chunk)

    def _do_mirror_add(self, step):
        part = self._by_guid(step["new"])
        assert self.array.missing
        self._join(part, self.array.missing[0])
        self.set_events(60)

    def _do_mirror_replace(self, step):
        part, old = self._by_guid(step["new"]), self._by_guid(step["old"])
        slot = next((member.slot for member in self.array.members if member.devno == old), self.array.missing[0] if self.array.missing else -1)
        if slot >= 0:
            self.edit(old, holders=())
            self._join(part, slot)
        self.seen.md_superblocks.pop(old)
        self.seen.signatures.pop(old, None)
        self.seen.proofs[old] = BLANK
        self.set_events(80)

    def _do_mirror_grow(self, step):
        assert not self.array.missing and step["component_bytes"] > self.array.component
        self.change(component=step["component_bytes"])
        node = self.seen.nodes[self.array.devno]
        (segment,) = node.segments
        size = step["component_bytes"] * self.array.disks // 2
        self.edit(node.devno, size=size, segments=(segment._replace(length=size),))

    def spare(self, part):
        """A spare of the array, as --add-spare leaves it."""
        array = self.array
        self.change(members=(*array.members, MdMember(part, -1, ("spare",))))
        uuid = next(one.uuid for one in self.seen.md_superblocks.values())
        self.superblock(part, uuid, SPARE, array.disks, size=array.component)
        self.edit(part, holders=(array.devno,))
