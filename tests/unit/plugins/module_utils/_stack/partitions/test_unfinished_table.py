# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables whose writing was cut off: what counts as our own rest, sector by sector, and what a plan makes of it."""

from __future__ import annotations

import itertools
import os
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, our_table, read_device_users
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof, Ends, Node, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.our_table import disk_guid, table_sectors
from ansible_collections.plumbline.ssd.plugins.module_utils._block.partition_table import TYPE_LVM, backup_fault, gpt_head_bytes, parse_table
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import write_tables
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.unfinished_table import is_unfinished, is_whole
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import read_contents
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, fixture, spec


@pytest.fixture(autouse=True)
def held(monkeypatch):
    """Whatever is open is the device that was looked at: these tests have no devices."""
    monkeypatch.setattr(write_tables, "check_held", lambda fd, node: None)


def device(**more):
    """A device of a partition step: that of the lab from which the fixture is."""
    given = {"size_bytes": 8 * GIB, "logical_bytes": 512, "start_bytes": MIB, "length_bytes": 15095808 * 512, "type_guid": TYPE_LVM}
    return {**given, "guid": "F4D9F679-9CE8-5EC7-9444-EBFD8D092752", "name": "plumbline:pgdata:0", **more}


def ends_of(one, sectors):
    """The ends of a device that holds these sectors and nothing else."""
    head, tail, tail_at = bytearray(MIB), bytearray(MIB), one["size_bytes"] - MIB
    for at, piece in sectors.items():
        if at < MIB:
            head[at : at + len(piece)] = piece
        else:
            tail[at - tail_at : at - tail_at + len(piece)] = piece
    return Ends(bytes(head), bytes(tail), tail_at)


def test_it_is_what_sfdisk_wrote(monkeypatch):
    """All bytes of the table that sfdisk made in the lab, whose GUID was drawn at the time."""
    monkeypatch.setattr(our_table, "disk_guid", lambda guid: "698BF080-2B93-C542-AB62-E8DB14201876")
    head = ends_of(device(), table_sectors(device())).head
    assert head[: len(fixture("gpt_lab.bin"))] == fixture("gpt_lab.bin")
    assert not any(head[len(fixture("gpt_lab.bin")) :])


@pytest.mark.parametrize("size, logical", [(8 * GIB, 512), (8 * GIB + 512 * 7, 512), (8 * GIB, 4096), (20 << 40, 512), (20 << 40, 4096)])
def test_both_ends_read_as_the_same_table(size, logical):
    one = device(size_bytes=size, logical_bytes=logical)
    ends = ends_of(one, table_sectors(one))
    table = parse_table(ends.head, logical)
    assert (table.fault, table.guid, len(table.entries)) == ("", disk_guid(one["guid"]), 1)
    entry = table.entries[0]
    assert (entry.start, entry.size, entry.guid, entry.name, entry.type) == (MIB, one["length_bytes"], one["guid"], one["name"], TYPE_LVM)
    taken = 128 * 128 // logical
    backup = ends.tail[-logical:]
    assert backup[:8] == b"EFI PART"
    assert int.from_bytes(backup[24:32], "little") == size // logical - 1
    assert int.from_bytes(backup[72:80], "little") == size // logical - 1 - taken  # UEFI: the entries before the backup header
    assert int.from_bytes(backup[48:56], "little") == size // logical - 2 - taken  # the last usable block before those
    assert ends.tail[-(taken + 1) * logical :][:128] == ends.head[2 * logical :][:128]
    tail = ends.tail[-(gpt_head_bytes(logical) - logical) :]
    assert backup_fault(ends.head, tail, logical, size) == ""
    assert backup_fault(ends.head, bytes(len(tail)), logical, size) == "missing"
    assert "expected at sector" in backup_fault(ends.head, tail, logical, size + logical)
    for at in range(0, len(tail), logical):  # a flipped bit is seen in each sector of it
        broken = bytearray(tail)
        broken[at + 40] ^= 1
        assert backup_fault(ends.head, bytes(broken), logical, size) in ("damaged", "another table's, or damaged"), at
    other = device(size_bytes=size, logical_bytes=logical, name="plumbline:mysql:0")
    assert "another table's" in backup_fault(ends_of(other, table_sectors(other)).head, tail, logical, size)


@pytest.mark.parametrize("logical", [512, 4096])
def test_every_subset_of_the_sectors(logical):
    """A power cut may keep any of them. All are recognised, but for none at all and for the MBR alone, which says nobody's name."""
    one = device(logical_bytes=logical)
    sectors = table_sectors(one)
    assert len(sectors) == 5
    for count in range(6):
        for kept in itertools.combinations(sorted(sectors), count):
            ends = ends_of(one, {at: sectors[at] for at in kept})
            assert is_unfinished(ends, one) is (set(kept) not in ({0}, set())), kept
            assert is_whole(ends, one) is (count == 5)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "plumbline:other:0"},
        {"name": "plumbline:pgdata:1"},
        {"guid": "F4D9F679-9CE8-5EC7-9444-EBFD8D092753"},
        {"start_bytes": 2 * MIB},
        {"length_bytes": 15095800 * 512},
        {"logical_bytes": 4096},
        {"size_bytes": 9 * GIB},
    ],
)
def test_the_rest_of_another_table(change):
    """Each sector but the MBR tells ours from the table of another stack, leg, device, start or length."""
    one, other = device(), device(**change)
    for at, piece in table_sectors(other).items():
        if at and at < other["size_bytes"] and piece not in table_sectors(one).values():
            ends = ends_of(other, {at: piece})
            assert not is_unfinished(ends._replace(tail_at=one["size_bytes"] - MIB), one)


def test_a_drive_whose_blank_sectors_read_as_ones():
    """What sfdisk does not write still reads so. Of any other drive it is somebody's data."""
    one = device()
    sectors = table_sectors(one)
    head, tail = bytearray(b"\xff" * MIB), bytearray(b"\xff" * MIB)
    for at in sorted(sectors)[2:4]:
        side, start = (head, 0) if at < MIB else (tail, one["size_bytes"] - MIB)
        side[at - start : at - start + 512] = sectors[at]
    ends = Ends(bytes(head), bytes(tail), one["size_bytes"] - MIB)
    assert is_unfinished(ends, one, True) and not is_unfinished(ends, one)
    head[MIB // 2] = 0xFE
    assert not is_unfinished(ends._replace(head=bytes(head)), one, True)


def test_any_other_byte_makes_it_somebody_elses():
    one, dice = device(), random.Random(3)
    sectors = table_sectors(one)
    whole = ends_of(one, sectors)
    for _turn in range(2000):
        head, tail = bytearray(whole.head), bytearray(whole.tail)
        side = dice.choice([head, tail])
        at = dice.randrange(MIB)
        side[at] ^= dice.randrange(1, 256)
        assert not is_unfinished(Ends(bytes(head), bytes(tail), whole.tail_at), one), at
    assert not is_unfinished(Ends(whole.head[:-1], whole.tail, whole.tail_at), one)


# --- the plan --------------------------------------------------------------------------------------

SIZE = 4 * GIB


def cut(host, devno, one, kept):
    """Leave a device as a cut would: some of its table's sectors, read as the observation reads them."""
    sectors = table_sectors(one)
    ends = ends_of(one, {at: sectors[at] for at in kept})
    table = parse_table(ends.head, one["logical_bytes"])
    host.seen.tables[devno] = table
    host.seen.proofs[devno] = BlankProof(1, 1, ("unrecognised data that is not zero, first at byte 512",))
    if table:
        del host.seen.proofs[devno]  # such a disk is not read any further
    host.seen.ends[devno] = ends


@pytest.mark.parametrize("layout", ["striped", "separate"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_cut_table_is_written_again(layout, which):
    volumes = [{"name": "data", "mount": "/a"}, {"name": "wal", "mount": "/b"}] if layout == "separate" else [{"name": "data", "mount": "/a"}]

    def fresh():
        host = Host()
        host.pair(2, size=SIZE)
        return host, spec(host, layout=layout, volumes=volumes)

    host, stacks = fresh()
    whole = make_plan(stacks, host.seen)
    devices = [one for step in whole.steps if step["action"] == "partition" for one in step["devices"]]
    for count in range(1, 6):
        for kept in itertools.combinations(sorted(table_sectors(devices[which])), count):
            host, stacks = fresh()
            devno = host.seen.paths[devices[which]["device"]]
            cut(host, devno, devices[which], kept)
            plan = make_plan(stacks, host.seen)
            if kept == (0,):
                assert plan.refusals
                continue
            assert not plan.refusals, (kept, plan.refusals)
            found = next(one for step in plan.steps if step["action"] == "partition" for one in step["devices"] if one["device"] == devices[which]["device"])
            if count == 5:  # whole, and only the kernel does not show it
                assert found["written"] and not found["unfinished"]
            else:
                assert found == dict(devices[which], unfinished=True)
            assert [step["summary"] for step in plan.steps] == [step["summary"] for step in whole.steps]


def test_what_is_not_exactly_our_own_is_refused_as_before():
    host = Host()
    first, _second = host.pair(2, size=SIZE)
    stacks = spec(host)
    one = make_plan(stacks, host.seen).steps[0]["devices"][0]
    reasons = []
    for ends in (None, ends_of(one, {MIB // 2: b"x" * 512, **table_sectors(one)})):
        cut(host, first, one, [512])
        host.seen.ends.pop(first)
        if ends:
            host.seen.ends[first] = ends
        plan = make_plan(stacks, host.seen)
        assert plan.steps == [] and any("[table]" in line for line in plan.refusals)
        reasons.append(plan.refusals)
    assert reasons[0] == reasons[1][:-1] and reasons[1][-1].endswith("[erase]")
    cut(host, first, one, [512])
    assert make_plan(stacks, host.seen, "write_cache").refusals[:-1] == reasons[0]


@pytest.mark.parametrize("where", ["marks", "signatures"])
def test_a_filesystem_between_the_ends_of_a_cut_table(where):
    """It is seen when the plan is made; what nobody recognises is found by the proof at the write."""
    host = Host()
    first, _second = host.pair(2, size=SIZE)
    stacks = spec(host)
    one = make_plan(stacks, host.seen).steps[0]["devices"][0]
    cut(host, first, one, [512])
    getattr(host.seen, where)[first] = [Signature("xfs", "filesystem", MIB)]
    plan = make_plan(stacks, host.seen)
    assert plan.steps == [] and any("xfs filesystem at byte 1048576 [signature]" in line for line in plan.refusals), plan.refusals


def test_an_erase_that_was_cut_off_while_the_table_was_written():
    """The spec still has the signature of what is gone: a table of ours is carried on all the same, and anything else is refused."""
    host = Host()
    first, _second = host.pair(2, size=SIZE)
    one = make_plan(spec(host), host.seen).steps[0]["devices"][0]
    stacks = spec(host, erase=[{"serial": "SER0000", "signature": "0" * 32}])
    cut(host, first, one, [512])
    plan = make_plan(stacks, host.seen)
    assert plan.refusals == [] and (plan.steps[0]["devices"][0]["unfinished"], plan.steps[0]["devices"][0]["erase"]) == (True, "")
    host.seen.ends[first] = ends_of(one, {MIB // 2: b"x" * 512})
    assert any("erase was given the signature 0000" in line for line in make_plan(stacks, host.seen).refusals)


def test_every_reason_is_given_at_once():
    host = Host()
    first, second = host.pair(2, size=SIZE)
    stacks = spec(host)
    one = make_plan(stacks, host.seen).steps[0]["devices"][0]
    cut(host, first, one, [512])
    host.seen.ends[first] = ends_of(one, {MIB // 2: b"x" * 512})
    host.edit(second, read_only=True)
    refusals = make_plan(stacks, host.seen).refusals
    assert any("[table]" in line for line in refusals) and any("[read_only]" in line for line in refusals)


def test_a_cut_table_of_a_device_in_use_is_refused():
    host = Host()
    first, _second = host.pair(2, size=SIZE)
    stacks = spec(host)
    one = make_plan(stacks, host.seen).steps[0]["devices"][0]
    cut(host, first, one, sorted(table_sectors(one))[:3])
    host.mount(first, "/somewhere")
    assert any("[mounted]" in line for line in make_plan(stacks, host.seen).refusals)


def test_a_selector_finds_its_cut_device_again():
    host = Host()
    first, second = host.pair(2, size=SIZE)
    host.disk(size=SIZE)
    selector = {"model": "Flash*", "count": 2}
    named = make_plan(spec(host, [first, second]), host.seen).steps[0]["devices"]
    for one in named:
        cut(host, host.seen.paths[one["device"]], one, sorted(table_sectors(one))[-2:])
    plan = make_plan(spec(host, devices=selector), host.seen)
    assert not plan.refusals and [one["unfinished"] for one in plan.steps[0]["devices"]] == [True, True]
    assert not [step for step in plan.steps if "nodiscard" in step.get("options", "")]  # they are not discarded again, so mkfs does it


# --- under the lock --------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path, monkeypatch):
    """A maker of images with the sectors of a cut table and other data, which are looked at as the module does it; returns the reasons."""

    def look(one, kept, *data):
        path = str(tmp_path / "disk")
        with open(path, "wb") as handle:
            handle.truncate(one["size_bytes"])
            for at, piece in [(at, table_sectors(one)[at]) for at in kept] + list(data):
                handle.seek(at)
                handle.write(piece)
        try:
            fd = block_device.open_read(path)
        except OSError:
            pytest.skip("no O_DIRECT on %s" % tmp_path)
        monkeypatch.setattr(Node, "path", property(lambda _node: path))
        monkeypatch.setattr(read_device_users, "read_openers", dict)
        monkeypatch.setattr(read_device_users, "read_backings", lambda nodes: {})
        host = Host()
        devno = host.disk(size=one["size_bytes"], blank=False)
        host.seen.paths[one["device"]] = devno
        host.seen.tables[devno] = parse_table(block_device.read_head(path, MIB), one["logical_bytes"])
        read_contents.read_claims(host.seen, [devno])
        monkeypatch.setattr(write_tables, "observe", lambda _run, ask: host.seen)
        monkeypatch.setattr(write_tables.guards, "exchanged_reasons", lambda *_args: [])
        try:
            write_tables._prove(lambda argv, text: (0, "", ""), [one], [fd])
        except PlumblineError as fault:
            return fault.reasons
        finally:
            os.close(fd)
        return []

    return look


def request(**more):
    one = device(size_bytes=GIB, length_bytes=800 * MIB, device="/dev/x", full_proof=False, probe_starts=[], written=False, unfinished=True)
    return {**one, "erase": "", "test_identity": "", **more}


@pytest.mark.parametrize(
    "kept, data, words",
    [
        (3, (), ""),
        (5, (), ""),
        (0, (), "hold something else"),
        (3, ((700 * 1024, b"x"),), "hold something else"),
        (3, ((MIB, b"XFSB"),), "unrecognised data that is not zero, first at byte 1048576 (1 MiB from the start) [data]"),
        (3, ((GIB - MIB - 1, b"x"),), "unrecognised data that is not zero, first at byte 1072692736 (1023.00 MiB from the start) [data]"),
    ],
    ids=["some", "all", "none", "data-in-the-head", "a-filesystem-behind-it", "data-before-the-tail"],
)
def test_the_rest_is_looked_at_again_before_the_write(image, kept, data, words):
    one = request()
    lines = image(one, sorted(table_sectors(one))[:kept], *data)
    assert bool(lines) == bool(words) and all(words in line for line in lines), lines


def test_full_proof_of_what_is_between(image):
    lines = image(request(full_proof=True), [512], (GIB // 2 + 5000, b"x"))
    assert len(lines) == 1 and "first at byte %d" % (GIB // 2 + 4608) in lines[0]


def test_a_device_whose_ends_cannot_be_read(image, monkeypatch):
    def broken(_path, _windows):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(block_device, "read_pieces", broken)
    lines = image(request(), [512])
    assert any("[unreadable]" in line for line in lines) and any("hold something else" in line for line in lines)


def test_a_device_in_use_is_refused_at_the_write(image, monkeypatch):
    monkeypatch.setattr(read_device_users, "is_multipath_member", lambda number: True)
    assert any("[multipath]" in line for line in image(request(), [512]))
