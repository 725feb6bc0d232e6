# SPDX-License-Identifier: GPL-3.0-or-later
"""What is ours and was lost: a volume without its superblock, a PV without its label. Nothing is made where it may still be."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import load_mark, questions, read_blank_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof, Ends, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lvm, Pv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.tool_output import parse_lvm
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase as judge_erase
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun, read_contents
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, sparse_file, spec

DATA = "carries nothing that is known, and unrecognised data that is not zero"


def built(limit=99, **more):
    host = Host()
    host.pair()
    host.build(spec(host, **more), limit=limit)
    return host


def parts_of(host):
    return [node.devno for node in host.seen.nodes.values() if node.kind == "part"]


def planned(host, **more):
    return make_plan(spec(host, **more), host.seen)


def lose_filesystem(host, name="data"):
    """As `umount; wipefs -a` leaves a volume."""
    devno = host.seen.lv_node("pgdata", name).devno
    del host.seen.filesystems[devno]
    host.holds_data(devno)
    return devno


@pytest.mark.parametrize("mounted", [True, False])
def test_a_volume_without_its_superblock(mounted):
    host = built()
    devno = lose_filesystem(host)
    if not mounted:
        host.seen.mounts = [mount for mount in host.seen.mounts if mount.devno != devno]
    plan = planned(host)
    words = "is mounted on /data01, and its superblock is gone [damaged]" if mounted else DATA
    assert plan.steps == [] and len(plan.refusals) == 1 and words in plan.refusals[0], plan.refusals
    assert "e2fsck -b 32768 /dev/mapper/pgdata-data" in plan.refusals[0]


def test_a_backup_superblock_is_named():
    host = built()
    devno = lose_filesystem(host)
    host.seen.mounts = []
    host.seen.marks[devno] = [Signature("ext", "backup superblock", 128 * MIB, "uuid", "pgdata-data")]
    assert "carries no superblock, and ext backup superblock at byte 134217728 (label 'pgdata-data') [data]" in planned(host).refusals[0]


def test_a_volume_that_nobody_proved_is_not_taken_for_blank():
    host = built()
    devno = lose_filesystem(host)
    host.seen.mounts = []
    del host.seen.proofs[devno]
    assert "volume 'data' (/dev/mapper/pgdata-data) was not shown to be blank [unproven]" in planned(host).refusals[0]


def test_a_volume_that_cannot_be_read_is_not_blank():
    host = built()
    host.seen.proofs[lose_filesystem(host)] = BlankProof(1, 1, unread=("byte 0 could not be read: Input/output error",))
    host.seen.mounts = []
    assert "byte 0 could not be read: Input/output error [unreadable]" in planned(host).refusals[0]


def test_what_a_cut_off_mkfs_has_left_is_no_reason():
    """The host's record says that this very filesystem was about to be made, on what was blank then."""
    host = built(limit=4)
    devno = host.seen.lv_node("pgdata", "data").devno
    host.holds_data(devno, 4096)
    uuids = [step["uuid"] for step in make_plan(spec(host), built(limit=4).seen).steps if step["action"] == "filesystem"]
    host.seen.making = [uuids[1]]
    assert DATA in planned(host).refusals[0]
    host.seen.making = uuids[:1]
    assert [step["action"] for step in planned(host).steps] == ["filesystem", "filesystem", "mount"]
    host.seen.marks[devno] = [Signature("ext", "backup superblock", 128 * MIB, uuids[0], "pgdata-data")]
    assert planned(host).refusals == [], "mke2fs writes these before the superblock"
    host.seen.marks[devno] = [Signature("ext", "backup superblock", 128 * MIB, "another", "by hand")]
    assert "carries no superblock, and " in planned(host).refusals[0], "somebody made another one since"
    host.mount(devno, "/data01")
    assert "[damaged]" in planned(host).refusals[0]


@pytest.mark.parametrize("at, taken", [(0, False), (512, False), (1024, False), (1536, False), (2048, True), (64 * MIB, True)])
def test_what_was_put_on_a_volume_whose_mkfs_was_cut_off(at, taken):
    """mke2fs clears the place of the superblock first and writes it last: what begins before its end is of somebody else."""
    host = built(limit=4)
    uuids = [step["uuid"] for step in planned(host).steps if step["action"] == "filesystem"]
    host.holds_data(host.seen.lv_node("pgdata", "data").devno, at)
    host.seen.making = uuids
    assert bool(planned(host).refusals) is not taken


def test_a_place_that_cannot_be_read_is_no_remains_of_mkfs():
    host = built(limit=4)
    host.seen.making = [step["uuid"] for step in planned(host).steps if step["action"] == "filesystem"]
    host.seen.proofs[host.seen.lv_node("pgdata", "data").devno] = BlankProof(1, 1, unread=("byte 0 could not be read: Input/output error",))
    assert "[unreadable]" in planned(host).refusals[0]


def test_a_blank_volume_gets_its_filesystem():
    host = built(limit=4)
    assert [step["action"] for step in planned(host).steps] == ["filesystem", "filesystem", "mount"]


def drop_labels(host, count):
    lost = parts_of(host)[:count]
    host.seen.lvm = Lvm(tuple(pv for pv in host.seen.lvm.pvs if pv.devno not in lost))
    if count == 1:
        host.seen.lvm = host.seen.lvm._replace(pvs=host.seen.lvm.pvs + (Pv("-1:-1", "[unknown]", "ID-OF-IT", "pgdata", MIB, 1000),))
        host.vg("pgdata")
    return lost


@pytest.mark.parametrize("count", [1, 2])
def test_pv_labels_under_active_volumes(count):
    host = built()
    drop_labels(host, count)
    plan = planned(host)
    assert plan.steps == []
    assert any("partition nvme0n1p1 carries pgdata-data, pgdata-wal, and LVM knows no PV on it [damaged]" in line for line in plan.refusals), plan.refusals
    assert all("vgcfgrestore" in line for line in plan.refusals)


@pytest.mark.parametrize("count", [1, 2])
def test_pv_labels_that_are_gone_with_the_group_down(count):
    host = built()
    for name in ("data", "wal"):
        host.deactivate("pgdata", name)
    host.seen.mounts = []
    for devno in drop_labels(host, count):
        host.holds_data(devno, 4096)
    plan = planned(host)
    assert plan.steps == [] and any("partition nvme0n1p1 " + DATA in line and "vgcfgrestore" in line for line in plan.refusals), plan.refusals
    assert any("VG 'pgdata' misses its PV ID-OF-IT [damaged]" in line for line in plan.refusals) == (count == 1)


@pytest.mark.parametrize("active", [True, False])
def test_pvs_of_a_group_that_lvm_cannot_read(active):
    """The labels are there, and what they say of the group is damaged."""
    host = built()
    if not active:
        for name in ("data", "wal"):
            host.deactivate("pgdata", name)
        for devno in parts_of(host):
            host.holds_data(devno, 8192)
    host.seen.mounts = []
    host.seen.lvm = Lvm(tuple(pv._replace(vg="") for pv in host.seen.lvm.pvs))
    plan = planned(host)
    words = "and LVM knows no VG of its PV [damaged]" if active else DATA
    assert plan.steps == [] and any(words in line for line in plan.refusals), plan.refusals


def test_a_pv_without_a_group_is_carried_on_where_it_is_blank():
    host = built(limit=1)
    for devno in parts_of(host):
        host.pv(devno, "")
    assert [step["action"] for step in planned(host).steps][:1] == ["volume_group"]


def test_extents_of_an_lv_that_was_removed():
    host = built()
    host.remove("pgdata", "wal")
    del host.seen.directories["/data02"]
    assert [step["action"] for step in planned(host).steps][:1] == ["logical_volume"], planned(host).refusals
    host.holds_data(parts_of(host)[1], GIB)
    plan = planned(host)
    assert plan.steps == [] and "pgdata: PV /dev/nvme1n1p1 " + DATA in plan.refusals[0] and "an LV that was removed comes back" in plan.refusals[0]


# --- freed by somebody's word ----------------------------------------------------------------------


def lost(layout="striped"):
    """Both partitions hold something, and no layer claims it."""
    host = built(limit=1, **({} if layout == "striped" else {"layout": "separate", "volumes": SEPARATE}))
    for disk, devno in zip(list(host.seen.tables), parts_of(host)):
        host.holds_data(devno)
        host.seen.ends[disk] = Ends(b"t" * MIB, bytes(MIB), 100 * GIB - MIB)
    return host


SEPARATE = [{"name": "data", "mount": "/data01"}, {"name": "wal", "mount": "/data02"}]


@pytest.mark.parametrize("layout", ["striped", "separate"])
def test_the_word_of_the_spec_frees_it(layout):
    host = lost(layout)
    more = {} if layout == "striped" else {"layout": "separate", "volumes": SEPARATE}
    plan = planned(host, **more)
    offers = [line for line in plan.refusals if line.endswith("[erase]")]
    digests = [judge_erase.digest(host.seen, devno) for devno in host.seen.tables]
    assert plan.steps == [] and len(offers) == 2 and all(digest in "".join(offers) for digest in digests), plan.refusals
    erase = [{"serial": "SER%04d" % number, "signature": digest} for number, digest in enumerate(digests)]
    freed = planned(host, erase=erase, **more)
    assert not freed.refusals, freed.refusals
    assert freed.steps[0]["action"] == "partition" and [device["erase"] for device in freed.steps[0]["devices"]] == digests
    assert any("carries nothing that is known" in line for line in freed.steps[0]["devices"][0]["removes"])


def test_the_word_for_other_contents_does_not():
    host = lost()
    plan = planned(host, erase=[{"serial": "SER0000", "signature": "0" * 32}])
    assert plan.steps == [] and any("erase was given the signature 000" in line for line in plan.refusals), plan.refusals


def test_what_came_back_is_not_erased_by_the_word_that_stayed():
    """The line is forgotten in the spec; meanwhile somebody has brought the labels and the metadata back."""
    host = built()
    digest = judge_erase.digest(host.seen, "259:0")
    plan = planned(host, erase=[{"serial": "SER0000", "signature": digest}])
    assert not plan.refusals and plan.steps == [] and "needs no erase (any more)" in plan.warnings[0]


def test_the_contents_are_part_of_the_digest():
    host = lost()
    before = judge_erase.digest(host.seen, "259:0")
    host.seen.ends[parts_of(host)[0]] = Ends(b"other" + bytes(MIB - 5), bytes(MIB), GIB)
    assert judge_erase.digest(host.seen, "259:0") != before


# --- what is read ----------------------------------------------------------------------------------


def ranges(host, devno, volumes=(("pgdata", "data"), ("pgdata", "wal"))):
    return list(read_contents._to_be_blank(host.seen, host.seen.nodes[devno], questions.Questions(volumes=tuple(volumes))))


def test_what_has_to_be_blank():
    host = built()
    part, data = parts_of(host)[0], host.seen.lv_node("pgdata", "data").devno
    assert ranges(host, part) == ranges(host, data) == []  # all of it is in use
    host.seen.lvm = host.seen.lvm._replace(pvs=tuple(pv._replace(free=((MIB, GIB),)) for pv in host.seen.lvm.pvs))
    assert ranges(host, part) == [] and ranges(host, part, [("pgdata", "more")]) == [(MIB, GIB)]
    host.seen.mounts = []
    del host.seen.filesystems[data]
    assert ranges(host, data) == [(0, host.seen.nodes[data].size)] and ranges(host, data, [("pgdata", "other")]) == []
    host.seen.lvm = Lvm(tuple(pv._replace(vg="") for pv in host.seen.lvm.pvs))
    assert ranges(host, part) == [(8192, host.seen.nodes[part].size - 8192)]
    bare = built(limit=1)
    assert ranges(bare, parts_of(bare)[0]) == [(0, bare.seen.nodes[parts_of(bare)[0]].size)]


def test_free_extents_of_the_report():
    one = {"vg_name": "pgdata", "vg_extent_size": "4194304", "vg_extent_count": "100", "vg_free_count": "40"}
    pv = {"pv_name": "/dev/a1", "pv_uuid": "u", "vg_name": "pgdata", "pe_start": "1048576", "pv_pe_count": "100", "pv_major": "8", "pv_minor": "1"}
    rows = [("/dev/a1", "0", "60", "striped"), ("/dev/a1", "60", "40", "free"), ("/dev/b1", "0", "100", "free")]
    runs = [dict(zip(("pv_name", "pvseg_start", "pvseg_size", "segtype"), row)) for row in rows]
    text = json.dumps({"report": [{"vg": [one], "pv": [pv], "lv": [], "seg": [], "pvseg": runs}]})
    assert parse_lvm(text).pvs[0].free == ((MIB + 60 * 4 * MIB, 40 * 4 * MIB),)


def test_where_ext4_keeps_its_copies():
    """As `mke2fs -n -b 4096` lists them for 8 GiB; none is in a volume of one group."""
    blocks = [32768, 98304, 163840, 229376, 294912, 819200, 884736, 1605632]
    assert EXT4.copies(8 * GIB) == [block * 4096 for block in blocks]
    assert EXT4.copies(128 * MIB) == [] and EXT4.copies(0) == []


# --- what a load of ours wrote ---------------------------------------------------------------------


@pytest.fixture
def volume(tmp_path):
    def make(*pieces, size=9 * MIB):
        return sparse_file(tmp_path, size, *pieces, name="volume"), size

    return make


def loaded(mark, pages=1):
    return fio.marked(mark, 4096 * pages)


def test_pages_of_a_load_of_ours_count_as_blank(volume):
    mark = os.urandom(16)
    path, size = volume((MIB, loaded(mark, 700)), (8 * MIB, loaded(mark, 3)))
    assert read_blank_proof.prove_blank(path, size).faults
    assert read_blank_proof.prove_blank(path, size, tails=[load_mark.tail_of(os.urandom(16))]).faults
    assert not read_blank_proof.prove_blank(path, size, tails=[load_mark.tail_of(os.urandom(16)), load_mark.tail_of(mark)]).faults


@pytest.mark.parametrize("sector", [b"database" * 64, b"x" + bytes(511), bytes(511) + b"x", b"\xff" * 512])
def test_one_sector_of_somebody_among_them(volume, sector):
    mark = os.urandom(16)
    path, size = volume((0, loaded(mark, 512)), (77 * 512, sector))
    (fault,) = read_blank_proof.prove_blank(path, size, tails=[load_mark.tail_of(mark)]).faults
    assert "first at byte %d " % (77 * 512) in fault


def test_a_page_that_was_torn(volume):
    """A power cut within it: some sectors of the load, the others as they were."""
    mark = os.urandom(16)
    path, size = volume((MIB, loaded(mark)), (MIB + 1024, bytes(2048)))
    assert not read_blank_proof.prove_blank(path, size, tails=[load_mark.tail_of(mark)]).faults


def test_ones_between_the_pages_of_a_load(volume):
    """A drive that returns 0xFF for what nobody wrote."""
    mark = os.urandom(16)
    path, size = volume((0, b"\xff" * 9 * MIB), (MIB, loaded(mark, 9)))
    assert not read_blank_proof.prove_blank(path, size, ones_are_blank=True, tails=[load_mark.tail_of(mark)]).faults
    assert read_blank_proof.prove_blank(path, size, tails=[load_mark.tail_of(mark)]).faults


def test_a_part_of_a_device(volume):
    path, size = volume((0, b"label"), (8 * MIB, b"x"))
    assert not read_blank_proof.prove_blank(path, 7 * MIB, offset=MIB).faults
    assert "first at byte %d " % (8 * MIB) in read_blank_proof.prove_blank(path, size - MIB, offset=MIB).faults[0]


def test_the_marks_of_loads_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(keep_begun, "LOADS", str(tmp_path / "plumbline" / "loads.json"))
    assert keep_begun.load_marks() == []
    marks = [bytes([number]) * 16 for number in range(70)]
    for mark in marks:
        keep_begun.add_mark(mark)
    assert keep_begun.load_marks() == marks[-64:]
    assert os.stat(keep_begun.LOADS).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"marks": 3}', '{"marks": [3, "xy", "00"]}', '{"marks": ["%s"]}' % ("G" * 32)])
def test_a_record_of_marks_that_is_none(tmp_path, monkeypatch, text):
    path = tmp_path / "loads.json"
    path.write_text(text)
    monkeypatch.setattr(keep_begun, "LOADS", str(path))
    assert keep_begun.load_marks() == []


def test_a_mark_that_cannot_be_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(keep_begun, "LOADS", str(tmp_path / "file" / "loads.json"))
    with pytest.raises(PlumblineError, match="the mark of a load could not be kept"):
        keep_begun.add_mark(bytes(16))
