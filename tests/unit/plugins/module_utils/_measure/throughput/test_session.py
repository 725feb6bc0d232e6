# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be loaded, how it is dealt to both sides, and that a tool that is run does not outlive us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file, guards, write_scratch_file
from ansible_collections.plumbline.ssd.plugins.module_utils._block.fiemap import Extent
from ansible_collections.plumbline.ssd.plugins.module_utils._block.hidden_pv import HiddenPv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Mount, Observation, Segment, Signature, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv, Lvm, Pv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import ENVIRONMENT
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import held_volumes, keep_baseline, run_fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.share import LEGS, VOLUMES, JobShare, Share
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput import options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput import session as throughput_session
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules as judge_volumes
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host

PARAMS = {
    "volumes": ["/dev/x"], "paths": [], "write": False, "jobs": [], "min_share": 0.9, "precision": 0.05, "confidence": 0.95, "max_cpu": 0.5, "depth": 32,
    "writers": 6, "block_seconds": 1, "max_seconds": 120, "max_bytes": "0", "span": "8GiB", "scratch_size": "256MiB", "nomerges": False, "baseline": None,
    "reuse_baseline": False,
}  # fmt: skip


def test_options():
    wanted = options.read_options(PARAMS)
    assert wanted.jobs == ("seq_read", "rand_read") and wanted.share.error == pytest.approx(0.05) and wanted.span == 8 * GIB
    assert options.read_options(dict(PARAMS, write=True)).jobs == options.JOBS
    assert options.read_options(dict(PARAMS, jobs=["rand_read", "rand_read"])).jobs == ("rand_read",)


@pytest.mark.parametrize(
    "more, words",
    [
        ({"volumes": []}, "volumes, paths: wanted one of them"),
        ({"paths": ["/x"]}, "volumes, paths: wanted one of them"),
        ({"volumes": [], "paths": ["/x"], "write": True}, "with paths only reads are measured"),
        ({"jobs": ["rand_write"]}, "rand_write writes; that takes write: true"),
        ({"jobs": ["rand_reads"]}, "(did you mean 'rand_read'?)"),
        ({"min_share": 0}, "min_share: 0; wanted 0.01 to 2"),
        ({"precision": 0}, "precision: 0; wanted 0.001 to 0.5"),
        ({"confidence": 1}, "confidence: 1; wanted 0.5 to 0.9999"),
        ({"max_cpu": float("nan")}, "max_cpu: nan; wanted 0.05 to 1"),
        ({"depth": 0}, "depth: 0; wanted 1 to 1024"),
        ({"writers": 65}, "writers: 65; wanted 1 to 64"),
        ({"block_seconds": 0.1}, "block_seconds: 0.1; wanted 0.2 to 600"),
        ({"max_seconds": 0}, "max_seconds: 0; wanted 1 to 86400"),
        ({"span": "8MiB"}, "span: 8MiB; wanted at least 16MiB"),
        ({"scratch_size": "1"}, "scratch_size: '1' has no unit"),
        ({"max_bytes": "many"}, "max_bytes: 'many' is not a size"),
        ({"baseline": "raw.json"}, "wanted an absolute path"),
        ({"reuse_baseline": True}, "reuse_baseline: true takes a baseline"),
    ],
)
def test_options_out_of_range(more, words):
    with pytest.raises(PlumblineError) as caught:
        options.read_options(dict(PARAMS, **more))
    assert words in caught.value.msg


# --- what may be written to ------------------------------------------------------------------------

UUID = "LVM-" + "v" * 32 + "l" * 32


def ours(count=2, name="plumbline:pgdata:%d"):
    """A host with a blank LV of ours; returns it, the LV's device number and the partitions'."""
    host = Host()
    parts = [host.part(disk, MIB, GIB, name % number if "%" in name else name) for number, disk in enumerate(host.pair(count))]
    lv = host.mapped("vg-lv", (Segment(0, 256 * MIB, "striped", 64 * KIB, tuple((part, MIB) for part in parts)),))
    host.edit(lv, uuid=UUID)
    pvs = tuple(Pv(part, "/dev/" + host.seen.nodes[part].name, "U", "vg", MIB, 100) for part in parts)
    host.seen.lvm = Lvm(pvs, (), (Lv("vg", "lv", 256 * MIB, count, 64 * KIB, 1),))
    host.seen.signatures[lv] = []
    return host, lv, parts


def found(host, devno):
    return [(reason.name, reason.text) for reason in judge_volumes.load_reasons(host.seen, devno)]


def test_a_blank_volume_of_ours():
    host, lv, _parts = ours()
    assert found(host, lv) == []


def test_a_blank_partition_of_ours():
    host = Host()
    part = host.part(host.disk(), MIB, GIB, "plumbline:pgdata:0")
    host.seen.signatures[part] = []
    assert found(host, part) == []


def spoil_pv(host, lv, parts):
    host.seen.lvm = host.seen.lvm._replace(pvs=host.seen.lvm.pvs + (Pv(host.disk(), "/dev/other", "U", "vg", MIB, 100),))


def spoil_leg(host, lv, parts):
    host.edit(lv, segments=(Segment(0, 256 * MIB, "linear", 0, ((host.disk(), MIB),)),))


SPOILERS = {
    "mounted": (lambda host, lv, parts: host.seen.mounts.append(Mount(lv, "/data", "ext4", ())), "mounted", "is mounted on /data"),
    "mounted elsewhere": (lambda host, lv, parts: host.seen.mounts.append(Mount(lv, "/d", "ext4", (), False)), "mounted", "another mount namespace"),
    "swap": (lambda host, lv, parts: host.seen.swaps.append(lv), "swap", "in use as swap"),
    "held": (lambda host, lv, parts: host.edit(lv, holders=("9:9",)), "held", "held by 9:9"),
    "backing": (lambda host, lv, parts: host.seen.backings.update({lv: ["loop device loop3"]}), "backing", "backs loop device loop3"),
    "open": (lambda host, lv, parts: host.seen.openers.update({lv: ["postgres (7)"]}), "open", "is open in postgres (7)"),
    "table": (lambda host, lv, parts: host.seen.tables.update({lv: Table("mbr")}), "table", "it carries a MBR partition table"),
    "pv": (lambda host, lv, parts: host.pv(lv, "nested"), "pv", "it is an LVM PV of VG 'nested'"),
    "hidden": (lambda host, lv, parts: host.seen.hidden.update({lv: HiddenPv("nested", "U", ("a filter",))}), "hidden", "that LVM does not list"),
    "mark": (lambda host, lv, parts: host.seen.marks.update({lv: [Signature("oracleasm", "database", 32)]}), "signature", "the mark of oracleasm database"),
    "read-only": (lambda host, lv, parts: host.edit(lv, read_only=True), "read_only", "read-only"),
    "ext4": (lambda host, lv, parts: host.seen.filesystems.update({lv: Filesystem("ext4", "U", "data", 4096, 1, 0, 0, 1)}), "signature", "labelled 'data'"),
    "signature": (lambda host, lv, parts: host.seen.signatures.update({lv: [Signature("xfs", "filesystem", 0)]}), "signature", "xfs filesystem at byte 0"),
    "unreadable": (lambda host, lv, parts: host.seen.faults.update({lv: "it could not be read"}), "unreadable", "could not be read"),
    "nobody looked": (lambda host, lv, parts: host.seen.signatures.pop(lv), "unproven", "nobody looked for signatures"),
    "a foreign PV in its VG": (spoil_pv, "not_ours", "PV /dev/other of its VG 'vg' is a disk, not a partition"),
    "mapped elsewhere": (spoil_leg, "not_ours", "which is no PV of its VG"),
    "not known to lvm": (lambda host, lv, parts: setattr(host.seen, "lvm", Lvm()), "not_ours", "no plain logical volume that lvm reports"),
    "part of a pool": (lambda host, lv, parts: host.edit(lv, uuid=UUID + "-tdata"), "not_ours", "no plain logical volume"),
    "a map without uuid": (lambda host, lv, parts: host.edit(lv, uuid=""), "not_ours", "no plain logical volume"),
    "no segments": (lambda host, lv, parts: host.edit(lv, segments=()), "not_ours", "its mapping is not known"),
    "a PV that is gone": (lambda host, lv, parts: host.seen.nodes.pop(parts[1]), "not_ours", "is not there"),
    "another kind": (lambda host, lv, parts: host.edit(lv, kind="crypt"), "not_ours", "it is a crypt"),
}  # fmt: skip


@pytest.mark.parametrize("guard", guards.VOLUME_GUARDS, ids=lambda guard: guard.__name__)
def test_each_guard_of_volumes_is_missed(monkeypatch, guard):
    """Something is refused with it that would be written to without it."""
    monkeypatch.setattr(guards, "VOLUME_GUARDS", tuple(one for one in guards.VOLUME_GUARDS if one.__name__ != guard.__name__))
    free = []
    for name, (spoil, _reason, _words) in SPOILERS.items():
        host, lv, parts = ours()
        spoil(host, lv, parts)
        free += [name] if not judge_volumes.load_reasons(host.seen, lv) else []
    assert free


@pytest.mark.parametrize("what", SPOILERS)
def test_a_volume_that_may_not_be_written_to(what):
    spoil, name, words = SPOILERS[what]
    host, lv, parts = ours()
    spoil(host, lv, parts)
    reasons = found(host, lv)
    assert any(one == name and words in text for one, text in reasons), reasons


@pytest.mark.parametrize(
    "name, more, words", [("data", (), "named 'data'"), ("plumbline:x", (), "named 'plumbline:x'"), ("plumbline:p:0", ("b",), "one of 2 partitions")]
)
def test_partitions_of_others(name, more, words):
    host = Host()
    disk = host.disk()
    part = host.part(disk, MIB, GIB, name)
    for number, other in enumerate(more):
        host.part(disk, (2 + number) * GIB, GIB, other)
    host.seen.signatures[part] = []
    ((reason, text),) = found(host, part)
    assert reason == "not_ours" and words in text


@pytest.mark.parametrize("table", [{"kind": "mbr"}, {"fault": "a checksum is wrong"}, {"entries": ()}])
def test_a_table_that_is_no_proof(table):
    host = Host()
    disk = host.disk()
    part = host.part(disk, MIB, GIB, "plumbline:pgdata:0")
    host.seen.tables[disk] = host.seen.tables[disk]._replace(**table)
    host.seen.signatures[part] = []
    assert [name for name, _text in found(host, part)] == ["not_ours"]


def test_a_partition_that_is_not_where_its_table_says():
    host = Host()
    part = host.part(host.disk(), MIB, GIB, "plumbline:pgdata:0")
    host.edit(part, start=2 * MIB)
    host.seen.signatures[part] = []
    assert [name for name, _text in found(host, part)] == ["not_ours"]


# --- how it is loaded ------------------------------------------------------------------------------


def session(host, volumes, **more):
    wanted = options.read_options(dict(PARAMS, **more))
    return throughput_session.Session("fio", wanted, host.seen.nodes, {devno: [Span(0, 240 * MIB)] for devno in volumes})


@pytest.mark.parametrize("job", options.JOBS)
@pytest.mark.parametrize("cpus", [1, 2, 64])
def test_both_sides_get_the_same_load(monkeypatch, job, cpus):
    monkeypatch.setattr(throughput_session.os, "cpu_count", lambda: cpus)
    host, lv, parts = ours()
    own = session(host, [lv], write=True)
    load, count = own.load(job)
    sides = {side: own.places(side, count) for side in (LEGS, VOLUMES)}
    assert len(sides[LEGS]) == len(sides[VOLUMES]) == count and count % 2 == 0
    assert {place.path for place in sides[VOLUMES]} == {"/dev/" + host.seen.nodes[lv].name}
    assert {place.path for place in sides[LEGS]} == {"/dev/" + host.seen.nodes[part].name for part in parts}
    assert load.writes is job.endswith("write")
    assert load.depth * count >= {"seq_read": 16, "seq_write": 6}.get(job, 64)
    assert load.block == (MIB if job.startswith("seq") else 8 * KIB)
    total = {side: sum(place.length for place in places) for side, places in sides.items()}
    assert 0.9 <= total[LEGS] / total[VOLUMES] <= 1.1


def test_what_is_held_is_loaded_by_its_descriptor():
    """The volume, and the legs below it. A load that only reads goes by their names."""
    host, lv, parts = ours()
    own = session(host, [lv], write=True)
    load, count = own.load("rand_write")
    assert {place.file for side in (LEGS, VOLUMES) for place in own.places(side, count)} == {"/dev/" + host.seen.nodes[one].name for one in (lv, *parts)}
    assert set(own.below) == set(parts)
    own.bind({lv: 7, **{part: 8 + number for number, part in enumerate(own.below)}})
    files = {side: {place.file for place in own.places(side, count)} for side in (LEGS, VOLUMES)}
    at = "/proc/%d/fd/" % os.getpid()
    assert files == {LEGS: {at + "8", at + "9"}, VOLUMES: {at + "7"}}
    words = throughput_session.measure_fio.argv("fio", load, own.places(VOLUMES, count), 1, 0, b"m" * 16)
    assert {word for word in words if word.startswith("--filename=")} == {"--filename=" + at + "7"}


@pytest.mark.parametrize(("word", "value"), [("diskseq", 99), ("size", 1), ("name", "nvme9n1p1"), ("segments", ())])
def test_a_volume_that_lies_elsewhere_by_now(word, value):
    """Between the look by which the places were worked out, and the proof under the lock."""
    host, lv, parts = ours()
    before = Observation(nodes=dict(host.seen.nodes))
    held_volumes.check_unchanged(before, host.seen, lv)
    host.edit(parts[1], **{word: value})
    with pytest.raises(PlumblineError, match=r"nothing was written\. /dev/.*, on which .* lies, changed while it was looked at; run again"):
        held_volumes.check_unchanged(before, host.seen, lv)


def test_a_volume_that_is_opened_and_is_another(monkeypatch):
    """A name that went to another device between the look and the open."""
    host, lv, _parts = ours()
    monkeypatch.setattr(held_volumes, "node_path", lambda node: os.devnull)
    monkeypatch.setattr(held_volumes.os, "O_EXCL", 0)
    monkeypatch.setattr(held_volumes.os, "O_DIRECT", 0)
    with pytest.raises(PlumblineError, match=r"another device than the one that was looked at.*nothing was written"), held_volumes.held_alone(host.seen, [lv]):
        pytest.fail("it was held")


def test_the_queues_that_a_load_passes(monkeypatch):
    host, lv, _parts = ours()
    monkeypatch.setattr(throughput_session.os.path, "exists", lambda path: True)
    names = ["nvme0n1", "nvme1n1", host.seen.nodes[lv].name]
    assert session(host, [lv]).queues("2") == {"/sys/class/block/%s/queue/nomerges" % name: "2" for name in names}


@pytest.mark.parametrize("keep", [True, False])
def test_a_baseline_is_kept_but_in_check_mode(tmp_path, keep):
    path = str(tmp_path / "raw.json")
    wanted = options.read_options(dict(PARAMS, baseline=path))._replace(keep=keep)
    one = JobShare(Share(1.0, 0.9, 1.1), 1e8, 1e8, 1.0, 1.0, 12, "pass", "", 0.1, (), (1e8, 1.1e8))
    leg = keep_baseline.RawLeg("wwid:1", "S", "M", GIB)
    notes = []
    stored = throughput_session._keep(keep_baseline.Baseline(), (leg,), {"rand_read": {"depth": 1}}, [("rand_read", one)], wanted, notes)
    assert (tmp_path / "raw.json").exists() is keep and bool(stored.jobs) is keep
    if keep:
        assert throughput_session._reused(stored, "rand_read", {"depth": 1}, wanted._replace(reuse=True), notes) == (1e8, 1.1e8)
        assert "Not interleaved" in notes[-1]
        assert throughput_session._reused(stored, "rand_read", {"depth": 1}, wanted, notes) == ()
        with pytest.raises(PlumblineError, match=r"its rand_read is of another load: depth 1 \(now 2\)"):
            throughput_session._reused(stored, "rand_read", {"depth": 2}, wanted._replace(reuse=True), notes)
        before = (tmp_path / "raw.json").read_bytes()
        slower = one._replace(raw=5e7, raw_blocks=(5e7, 5e7))
        assert throughput_session._keep(stored, (leg,), {"rand_read": {"depth": 1}}, [("rand_read", slower)], wanted, notes) == stored
        assert (tmp_path / "raw.json").read_bytes() == before and "the legs gave 47.7 MiB/s" in notes[-1] and "it was 100.1" in notes[-1]


# --- the scratch file ------------------------------------------------------------------------------


def test_where_it_lies(monkeypatch):
    monkeypatch.setattr(ask_file, "read_extents", lambda fd: [Extent(0, 64 * MIB, MIB, 0), Extent(MIB, 128 * MIB, MIB, 1)])
    assert write_scratch_file.read_spans(3, "/x", 2 * MIB) == [Span(64 * MIB, MIB), Span(128 * MIB, MIB)]


@pytest.mark.parametrize("flags", [0x2, 0x4, 0x8, 0x88, 0x100, 0x200, 0x800, 0x801])
def test_extents_whose_bytes_lie_elsewhere(monkeypatch, flags):
    monkeypatch.setattr(ask_file, "read_extents", lambda fd: [Extent(0, MIB, MIB, flags)])
    with pytest.raises(PlumblineError, match="only 0 of the scratch file's"):
        write_scratch_file.read_spans(3, "/x", MIB)


def test_no_room(tmp_path):
    with pytest.raises(PlumblineError, match=r"has .* free; wanted twice the scratch file, 8 EiB|wanted twice the scratch file"):
        write_scratch_file.check_room(str(tmp_path), 1 << 62)
    with pytest.raises(PlumblineError, match="is no directory"):
        write_scratch_file.check_room(str(tmp_path / "none"), MIB)


# --- fio as a process ------------------------------------------------------------------------------


def test_output_and_processors():
    out, busy = run_fio.run_fio([sys.executable, "-c", "import time; time.sleep(0.4); print('done')"], 0.05, 0.1, "a test")
    assert out == "done\n" and 0 <= busy <= 1


@pytest.mark.parametrize(
    "program", ["import sys; print('fio: no way', file=sys.stderr); sys.exit(1)", "import time; time.sleep(0.3); import sys; sys.exit('fio: no way')"]
)
def test_a_failure(program):
    with pytest.raises(PlumblineError, match="fio failed in a test: no way"):
        run_fio.run_fio([sys.executable, "-c", program], 0.05, 0.1, "a test")


def test_one_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(run_fio, "_GRACE", 0.1)
    began = time.monotonic()
    with pytest.raises(PlumblineError, match="fio did not end"):
        run_fio.run_fio([sys.executable, "-c", "import time; time.sleep(60)"], 0, 0.1, "a test")
    assert time.monotonic() - began < 30


def test_one_that_is_not_there():
    with pytest.raises(PlumblineError, match="fio could not be run: No such file"):
        run_fio.run_fio(["/not/there/fio"], 0, 0, "a test")


def test_it_dies_with_us(tmp_path):
    """SIGKILL, which nothing can catch."""
    mark = tmp_path / "pid"
    program = "import os, time; open(%r, 'w').write(str(os.getpid())); time.sleep(60)" % str(mark)
    child = os.fork()
    if child == 0:
        try:
            run_fio.run_fio([sys.executable, "-c", program], 30, 30, "a test")
        finally:
            os._exit(1)
    end = time.monotonic() + 20
    while not (mark.exists() and mark.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
    process = int(mark.read_text())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while _runs(process) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _runs(process)


def _runs(process):
    try:
        with open("/proc/%d/stat" % process, encoding="ascii") as handle:
            return handle.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_scratch_file_is_made_where_its_directory_was(tmp_path):
    """What the owner of a directory puts in its place meanwhile is not measured in its name."""
    try:
        os.close(os.open(str(tmp_path), os.O_TMPFILE | os.O_RDWR | os.O_DIRECT))
    except OSError:
        pytest.skip("no O_TMPFILE with direct I/O below the temporary directory")
    with pytest.raises(PlumblineError, match="was exchanged while it was looked at"):
        write_scratch_file.create(str(tmp_path), MIB, "9:99")


@pytest.mark.parametrize(("found", "wanted"), [(0x80000, None), (0x80008, 0x80000)])
def test_a_scratch_file_has_no_flag_of_its_directory_that_slows_it(monkeypatch, found, wanted):
    """chattr +S of a directory is inherited: each write would be synchronous."""
    given = []

    def ioctl(_fd, request, flags):
        if request == ask_file.FS_IOC_GETFLAGS:
            flags[:4] = found.to_bytes(4, "little")
        else:
            given.append(int.from_bytes(flags, "little"))

    monkeypatch.setattr(ask_file.fcntl, "ioctl", ioctl)
    ask_file.clear_sync(3)
    assert given == ([] if wanted is None else [wanted])


def test_no_file_of_a_user_gives_fio_orders(tmp_path):
    """fio takes a file fio-dump-status below TMPDIR, or /tmp, for the order to print its report at once (fio, helper_thread.c)."""
    shown = subprocess.run(["env"], env=dict(os.environ, **ENVIRONMENT), capture_output=True, text=True, check=True).stdout
    assert "TMPDIR=/run\n" in shown and not os.stat("/run").st_mode & 0o022
