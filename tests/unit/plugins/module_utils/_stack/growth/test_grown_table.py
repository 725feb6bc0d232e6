# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of a disk that grew: sound at every boundary of its writes, whatever of them a power cut keeps, and the same in the end."""

from __future__ import annotations

import os
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.our_table import is_unsettled, table_sectors
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import is_ours_by_backup
from ansible_collections.plumbline.ssd.plugins.module_utils._block.partition_table import TABLE_HEAD, TYPE_LVM, backup_fault, made_for, parse_table
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_disks import read_table
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth.grown_table import backup_at, old_backup, table_writes
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host, sparse_file

MIB = 1 << 20
GUID = "6A2F2C1E-8A3B-4C5D-9E6F-0A1B2C3D4E5F"


def device(logical, size, length):
    return {
        "logical_bytes": logical, "size_bytes": size, "start_bytes": MIB, "length_bytes": length, "type_guid": TYPE_LVM, "guid": GUID,
        "name": "plumbline:pgdata:0",
    }  # fmt: skip


class Disk:
    """A disk in memory: sectors that are not zero."""

    def __init__(self, logical, size, sectors=None):
        self.logical, self.size, self.sectors = logical, size, dict(sectors or {})

    def read(self, at, length):
        assert at % self.logical == 0 and at + length <= self.size
        return b"".join(self.sectors.get(place, bytes(self.logical)) for place in range(at, at + length, self.logical))

    def write(self, at, data):
        for place in range(at, at + len(data), self.logical):
            self.sectors[place] = data[place - at : place - at + self.logical]

    def copy(self):
        return Disk(self.logical, self.size, self.sectors)

    def whole(self):
        return {at: data for at, data in self.sectors.items() if data.strip(b"\0")}

    def table(self):
        return parse_table(self.read(0, TABLE_HEAD), self.logical)

    def grow(self, end):
        return table_writes(self.read, self.size, self.logical, 1, end)


def disk(logical=512, before=64 * MIB, after=96 * MIB, length=50 * MIB):
    return Disk(logical, after, table_sectors(device(logical, before, length)))


CASES = [(512, 64 * MIB, 96 * MIB, 80 * MIB), (4096, 64 * MIB, 96 * MIB, 80 * MIB), (512, 64 * MIB, 64 * MIB, 60 * MIB), (4096, 64 * MIB, 96 * MIB, 50 * MIB)]
CASES += [(512, 64 * MIB, 64 * MIB + 8192, 50 * MIB)]  # the new backup lies over the old one


@pytest.mark.parametrize("logical, before, after, length", CASES)
def test_it_ends_as_sfdisk_makes_it(logical, before, after, length):
    one = disk(logical, before, after)
    for write in one.grow(MIB + length):
        one.write(write.at, write.data)
    assert one.whole() == table_sectors(device(logical, after, length))
    assert old_backup(one.read, after, logical) == (0, 0)


@pytest.mark.parametrize("logical, before, after, length", CASES)
def test_every_boundary_shows_the_partition_and_is_carried_on(logical, before, after, length):
    """After each write, and with any part of the sectors of the next: the first table is sound, and the same writes end in the same table."""
    dice, cuts = random.Random(20261128), 0
    count = len(disk(logical, before, after).grow(MIB + length))
    for done in range(count + 1):
        for _try in range(20):
            one = disk(logical, before, after)
            writes = one.grow(MIB + length)
            for write in writes[:done]:
                one.write(write.at, write.data)
            if done < count:  # sectors are written whole, in any order
                torn = writes[done]
                for at in range(torn.at, torn.at + len(torn.data), logical):
                    if dice.random() < 0.5:
                        one.write(at, torn.data[at - torn.at : at - torn.at + logical])
            cuts += 1
            table = one.table()
            assert table.kind == "gpt" and not table.fault and table.entries[0].guid == GUID and table.entries[0].start == MIB
            assert table.entries[0].size in (50 * MIB, length)
            for write in one.grow(MIB + length):
                one.write(write.at, write.data)
            assert one.whole() == table_sectors(device(logical, after, length))
    assert cuts == 20 * (count + 1)


@pytest.mark.parametrize("logical, before, after, length", CASES)
@pytest.mark.parametrize("then", [50, 70, 100])
def test_every_boundary_is_carried_on_to_another_end(logical, before, after, length, then):
    """The target changed between the cut and the next run: the disk has grown again, or the partition is to stay as it is."""
    if then == 100 and after - before < 33 * logical:
        pytest.skip("two backups over each other are no backup any more: what is left of them is refused as data, and nothing is lost")
    for done in range(len(disk(logical, before, after).grow(MIB + length))):
        one = disk(logical, before, after)
        for write in one.grow(MIB + length)[:done]:
            one.write(write.at, write.data)
        one.size += 64 * MIB * (then == 100)
        wanted = max(one.table().entries[0].size, then * MIB if then * MIB < one.size - 2 * MIB else 0)
        for write in one.grow(MIB + wanted):
            one.write(write.at, write.data)
            table = one.table()
            assert table.kind == "gpt" and not table.fault and table.entries[0].start == MIB
        assert not is_unsettled(one.read(0, TABLE_HEAD), logical)
        left = {at for at in one.whole() if at not in table_sectors(device(logical, one.size, wanted))}
        assert {at: data for at, data in one.whole().items() if at not in left} == table_sectors(device(logical, one.size, wanted))
        places = [backup_at(one.read, one.size, logical, at) for at in left]
        assert all(any(first <= at < last for first, last in places) for at in left), "what is left is a backup that is known"


@pytest.mark.parametrize("logical, before, after, length", CASES)
def test_what_a_cut_leaves_is_seen_in_the_head(logical, before, after, length):
    one = disk(logical, before, after)
    seen = [is_unsettled(one.read(0, TABLE_HEAD), logical)]
    for write in one.grow(MIB + length):
        one.write(write.at, write.data)
        seen.append(is_unsettled(one.read(0, TABLE_HEAD), logical))
    # From the spare entries until they are gone.
    assert seen[0] is False and seen[-2:] == [False, False] and sum(seen) == 4


def test_a_drive_whose_deallocated_blocks_read_as_ones():
    one = disk()
    for place in range(34 * 512, 66 * 512, 512):
        one.sectors[place] = b"\xff" * 512
    with pytest.raises(PlumblineError, match=r"\[data\]"):
        one.grow(81 * MIB)
    assert table_writes(one.read, one.size, 512, 1, 81 * MIB, ones=True)


def test_the_place_of_an_old_backup_that_our_pv_has_by_now_is_left_alone():
    """An older table was brought back: behind its partition lies our own data."""
    one = disk()
    one.sectors[64 * MIB - 512] = b"\1" * 512
    writes = table_writes(one.read, one.size, 512, 1, 81 * MIB, ours=80 * MIB)
    assert not any(write.at <= 64 * MIB - 512 < write.at + len(write.data) for write in writes)


def test_a_backup_that_another_tool_left_is_known():
    one = disk()
    head = dict(one.sectors)
    for at, data in table_sectors(device(512, 96 * MIB, 50 * MIB)).items():
        one.sectors[at] = data  # as sgdisk -e moves it
    left = 64 * MIB - 33 * 512
    assert head[left] and old_backup(one.read, one.size, 512) == (0, 0) and backup_at(one.read, one.size, 512, left) == (left, 64 * MIB)
    assert backup_at(one.read, one.size, 512, left + 512) == (0, 0)


def test_the_backup_is_true_when_the_first_table_says_so():
    one = disk()
    for write in one.grow(81 * MIB):
        one.write(write.at, write.data)
        head = one.read(0, TABLE_HEAD)
        if made_for(head, 512) == one.size:
            tail = one.read(one.size - 33 * 512, 33 * 512)
            assert backup_fault(head, tail, 512, one.size) == ""


@pytest.mark.parametrize("at", [34 * 512, 40 * 512, 96 * MIB - 512, 96 * MIB - 33 * 512, 64 * MIB - 512, 64 * MIB - 20 * 512])
def test_a_place_that_holds_something_else_is_refused(at):
    """The spare place, the new backup and the old one: nothing of somebody else's is written over."""
    one = disk()
    one.sectors[at] = b"\1" * 512
    with pytest.raises(PlumblineError, match=r"at byte %d holds something that is no part of its partition table \[data\]" % at):
        one.grow(81 * MIB)


@pytest.mark.parametrize("logical", [512, 4096])
@pytest.mark.parametrize("cut", range(6))
def test_the_cuts_of_libfdisk_leave_a_copy_that_is_found(tmp_path, logical, cut):
    """Backup entries, backup header, first entries, first header, protective MBR: after the third the first copy is damaged, and the backup has it all."""
    new = table_sectors(device(logical, 96 * MIB, 80 * MIB))
    backup, first = [at for at in new if at > MIB], [at for at in new if at < MIB]
    order = [backup[1], backup[0], first[2], first[1], first[0]]
    assert [at // logical for at in first] == [0, 1, 2] and backup[0] == 96 * MIB - logical
    sectors = {**table_sectors(device(logical, 64 * MIB, 50 * MIB)), **{at: new[at] for at in order[:cut]}}
    path = sparse_file(tmp_path, 96 * MIB, *sectors.items())
    host = Host()
    node = host.seen.nodes[host.disk(size=96 * MIB)]
    table = read_table(node._replace(name=os.path.relpath(path, "/dev"), limits=node.limits._replace(logical=logical)))
    if cut == 3:
        assert table.fault and is_ours_by_backup(table) and [entry.size for entry in table.spare] == [80 * MIB]
    else:
        assert not table.fault and not table.spare and [entry.size for entry in table.entries] == [50 * MIB if cut < 4 else 80 * MIB]


def test_the_old_backup_is_told():
    assert old_backup(disk().read, 96 * MIB, 512) == (64 * MIB - 33 * 512, 64 * MIB)


def test_a_table_that_is_not_as_sfdisk_makes_it_is_refused():
    one = disk()
    header = bytearray(one.sectors[512])
    header[80:84] = (256).to_bytes(4, "little")
    one.sectors[512] = bytes(header)
    with pytest.raises(PlumblineError, match="256 entries of 128; wanted 92, and 128 of 128"):
        one.grow(81 * MIB)
