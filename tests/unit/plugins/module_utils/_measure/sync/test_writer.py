# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import options as sync_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import rows as sync_rows
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import samples as sync_samples
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import writer
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.writer import MountedVolume

MIB = 1 << 20
KNOWN = {row.name: row for row in sync_rows.ROWS}


def options(*names, **more):
    return sync_options.Options(tuple(row for row in sync_rows.ROWS if row.name in names) or sync_rows.ROWS, **{"seconds": 0.1, **more})


@pytest.fixture
def volume(tmp_path):
    try:
        os.close(os.open(str(tmp_path), os.O_TMPFILE | os.O_RDWR))
    except OSError:
        pytest.skip("no O_TMPFILE below the temporary directory")
    return MountedVolume(str(tmp_path), str(tmp_path), "x", "ext4", (), 512, read_sysfs.devno(os.stat(tmp_path).st_dev))


@pytest.fixture
def free(monkeypatch):
    """The program's own cost is not measured, which would call what the test watches."""
    monkeypatch.setattr(writer._Job, "_own", lambda self: 0)


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def test_every_row_runs_and_leaves_nothing(volume):
    before = descriptors()
    run = writer.measure_rows(volume, options())
    assert [row.name for row, _samples in run.rows] == [row.name for row in sync_rows.ROWS]
    for row, samples in run.rows:
        # A filesystem without direct writes cannot run the open_ rows; the others run everywhere.
        assert bool(samples.unable) != bool(samples.ops)
        assert not samples.unable or row.flag
        assert samples.unable or len(samples.pieces) == sync_samples.ROUNDS
    least = writer.FILE_BYTES + sum(samples.ops * row.write * row.times for row, samples in run.rows)
    assert run.written > least
    assert os.listdir(volume.path) == [] and descriptors() == before


@pytest.mark.usefixtures("free")
def test_what_a_row_writes(volume, monkeypatch):
    """Sizes, offsets and syncs of one operation each."""
    calls = []

    def record(word, real):
        def call(fd, *rest):
            calls.append((word, len(rest[0]), rest[1]) if word == "write" else (word,))
            return real(fd, *rest)

        monkeypatch.setattr(writer.os, {"write": "pwrite"}.get(word, word), call)

    wanted = {
        "open_sync_4x4k": [("write", 4096, 4096 * number) for number in range(4)],
        "fdatasync_2": [("write", 8192, 0), ("write", 8192, 8192), ("fdatasync",)],
        "fsync": [("write", 8192, 0), ("fsync",)],
        "write": [("write", 8192, 0)],
        "write_fsync_close": [("write", 8192, 0), ("fsync",), ("close",), ("close",)],
        "write_close_fsync": [("write", 8192, 0), ("close",), ("fsync",), ("close",)],
    }
    for word, real in (("write", os.pwrite), ("fsync", os.fsync), ("fdatasync", os.fdatasync), ("close", os.close)):
        record(word, real)
    scratch = writer._make(volume.path)
    with writer.mmap.mmap(-1, writer.FILE_BYTES) as contents:
        writer._fill(scratch, contents, volume.path)
        for name, expected in wanted.items():
            del calls[:]
            job = writer._Job(KNOWN[name], scratch, contents, volume)
            if job.samples.unable:
                job.close()
                continue
            assert calls == expected, name
            job.close()
    os.close(scratch)


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("name", [row.name for row in sync_rows.ROWS if row.flag])
def test_direct_writes_that_are_no_whole_block(volume, monkeypatch, name):
    """As on 4Kn: the kernel says EINVAL, the row is not applicable, nothing fails."""
    row = KNOWN[name]
    real = os.pwrite

    def pwrite(fd, data, offset):
        if len(data) % 4096 and len(data) == row.write:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(fd, data, offset)

    monkeypatch.setattr(writer.os, "pwrite", pwrite)
    ((_row, samples),) = writer.measure_rows(volume._replace(logical=4096), options(name)).rows
    if row.write % 4096:
        assert samples.unable == "%d B is no whole block of 4096 B" % row.write and samples.ops == 0
    else:
        assert bool(samples.ops) != bool(samples.unable)


def test_no_direct_writes_at_all(volume, monkeypatch):
    real = os.open

    def refuse(path, flags, mode=0o777):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, mode)

    monkeypatch.setattr(writer.os, "open", refuse)
    (first, second) = writer.measure_rows(volume, options("open_sync", "fsync")).rows
    assert {row.name: samples.unable for row, samples in (first, second)} == {"fsync": "", "open_sync": "no such direct writes on this filesystem"}


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("call, name", [("fdatasync", "fdatasync"), ("fsync", "write_close_fsync")])
def test_an_operation_that_fails(volume, monkeypatch, call, name):
    """Whenever it fails: an error of one line, and no descriptor stays open."""
    left = 0

    def fail(_fd):
        """Syncs nothing, so that there are enough operations however slow the disk is."""
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(writer.os, call, fail)
    for after in (0, 1, 5, 20):
        left = after + (2 if call == "fsync" else 0)  # the file itself is synced as well
        before = descriptors()
        with pytest.raises(PlumblineError) as caught:
            writer.measure_rows(volume, options(name))
        assert "Input/output error" in caught.value.msg and "\n" not in caught.value.msg
        assert name in caught.value.msg and "operations: " in caught.value.msg
        assert os.listdir(volume.path) == [] and descriptors() == before


@pytest.mark.usefixtures("free")
def test_a_write_that_ends_early(volume, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(writer.os, "pwrite", lambda fd, data, offset: real(fd, data, offset) - (len(data) == 8192))
    with pytest.raises(PlumblineError, match=r"fsync failed after 0 operations: a write ended early"):
        writer.measure_rows(volume, options("fsync"))


def test_a_write_that_ends_early_while_the_program_is_timed(volume, monkeypatch):
    real, calls = os.pwrite, []

    def pwrite(fd, data, offset):
        calls.append(len(data))
        return real(fd, data, offset) - (calls.count(8192) == 4)

    monkeypatch.setattr(writer.os, "pwrite", pwrite)
    with pytest.raises(PlumblineError, match=r"fsync failed after 0 operations: a write ended early"):
        writer.measure_rows(volume, options("fsync"))
    assert calls.count(8192) <= 5


def test_the_file_does_not_fit(volume, monkeypatch):
    real = os.pwrite

    def full(fd, data, offset):
        if offset >= 3 * MIB:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, offset)

    monkeypatch.setattr(writer.os, "pwrite", full)
    before = descriptors()
    with pytest.raises(PlumblineError) as caught:
        writer.measure_rows(volume, options("fsync"))
    assert caught.value.msg == "%s: a file of 16 MiB could not be written: No space left on device, after 3 MiB" % volume.path
    assert descriptors() == before


def test_too_little_is_free(volume, monkeypatch):
    space = os.statvfs(volume.path)
    free = 20 * MIB // space.f_frsize
    monkeypatch.setattr(writer.os, "fstatvfs", lambda _fd: type("Space", (), {"f_bavail": free, "f_frsize": space.f_frsize}))
    before = descriptors()
    with pytest.raises(PlumblineError, match=r"its filesystem has 20 MiB free; wanted at least 64 MiB: 16 MiB for the file, the rest"):
        writer.measure_rows(volume, options("fsync"))
    assert descriptors() == before


@pytest.mark.parametrize(
    "code, words",
    [
        (errno.ENOSPC, "no free inode or block, or a quota is used up"),
        (errno.EDQUOT, "no free inode or block, or a quota is used up"),
        (errno.EOPNOTSUPP, "has no files without a name (O_TMPFILE)"),
        (errno.EISDIR, "has no files without a name (O_TMPFILE)"),
        (errno.EPERM, "if it is immutable, the volume that belongs there is not mounted"),
        (errno.EROFS, "/x: no file can be made there: Read-only file system"),
    ],
)
def test_no_file_can_be_made(monkeypatch, code, words):
    def refuse(path, flags, mode):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(writer.os, "open", refuse)
    with pytest.raises(PlumblineError) as caught:
        writer._make("/x")
    assert words in caught.value.msg and "\n" not in caught.value.msg


def test_a_directory_that_was_exchanged_since_it_was_looked_at(volume):
    """By one in memory for example, where every sync is fast."""
    with pytest.raises(PlumblineError, match=r"was exchanged while it was looked at: a file made there lies on device .*, and the directory lay on 9:99"):
        writer.measure_rows(volume._replace(devno="9:99"), options("fdatasync"))


def test_the_time_is_kept(volume):
    began = time.monotonic()
    run = writer.measure_rows(volume, options("fdatasync", seconds=60, max_seconds=2))
    assert time.monotonic() - began < 30
    assert run.rows[0][1].ops > 0


@pytest.mark.usefixtures("free")
def test_a_p99_gets_its_operations(volume, monkeypatch):
    """One operation takes 1 ms, a row 0.1 s: it goes on to 299 operations where a p99 is asked, and only there."""
    real = os.fdatasync

    def slow(fd):
        time.sleep(0.001)
        real(fd)

    monkeypatch.setattr(writer.os, "fdatasync", slow)
    run = writer.measure_rows(volume, options("fdatasync", "fdatasync_2", max_p99_ms={"fdatasync": 5}))
    counts = {row.name: samples.ops for row, samples in run.rows}
    assert counts["fdatasync"] >= 299 > 100 > counts["fdatasync_2"]


MOUNTS = """\
25 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
26 25 253:0 / /data01 rw,noatime shared:2 - ext4 /dev/mapper/pg-data rw
27 25 253:1 / /data02 ro,noatime shared:3 - xfs /dev/mapper/pg-wal rw
28 25 253:2 / /data03 rw,noatime shared:4 - f2fs /dev/mapper/pg-more rw
29 25 0:40 / /data04 rw - tmpfs tmpfs rw
30 25 253:0 /inner /srv/data\\040bound rw - ext4 /dev/mapper/pg-data rw
"""


@pytest.fixture
def host(monkeypatch):
    """A host with those mounts; every directory exists, on the device of the mount point that is nearest above it."""
    devices = {"/": (254, 1), "/data01": (253, 0), "/data02": (253, 1), "/data03": (253, 2), "/data04": (0, 40), "/srv/data bound": (253, 0)}

    def stat(path):
        mount = max((one for one in devices if path == one or path.startswith(one.rstrip("/") + "/")), key=len)
        return type("Stat", (), {"st_mode": 0o40755, "st_dev": os.makedev(*devices[mount])})

    monkeypatch.setattr(writer.os, "stat", stat)
    monkeypatch.setattr(writer.os.path, "realpath", lambda path: path)
    monkeypatch.setattr(read_sysfs, "read_text", lambda path: MOUNTS)
    monkeypatch.setattr(read_sysfs, "read_nodes", dict)


@pytest.mark.parametrize(
    "path, mount, title",
    [
        ("/data01", "/data01", "/data01: ext4 on 253:0"),
        ("/data01/pg/base", "/data01", "/data01/pg/base (on the filesystem of /data01): ext4 on 253:0"),
        ("/data010", "/", "/data010 (on the filesystem of /): ext4 on 254:1"),
        ("/", "/", "/: ext4 on 254:1"),
        ("/srv/data bound", "/srv/data bound", "/srv/data bound: ext4 on 253:0"),
    ],
)
def test_where_a_directory_lies(host, path, mount, title):
    found = writer.look_at_volume(path)
    assert (found.mount, found.title) == (mount, title)


@pytest.mark.parametrize(
    "path, words",
    [
        ("/data02/x", "/data02/x is on /data02, which is mounted read-only; nothing can be written there"),
        ("/data03", "/data03 is on f2fs, where a file without a name may be synced unlike others"),
        ("/data04", "/data04 is on no filesystem of one block device"),
    ],
)
def test_where_nothing_can_be_measured(host, path, words):
    with pytest.raises(PlumblineError) as caught:
        writer.look_at_volume(path)
    assert words in caught.value.msg and "\n" not in caught.value.msg


@pytest.mark.parametrize("path, words", [("/not/there", "/not/there is not there: No such file or directory"), ("/dev/null", "/dev/null is no directory")])
def test_no_directory(path, words):
    with pytest.raises(PlumblineError, match=words):
        writer.look_at_volume(path)


def test_what_the_program_itself_takes_is_measured_and_taken_out(volume):
    """Of every kind of row, in nanoseconds; less than an operation that does anything."""
    rows = [row for row in sync_rows.ROWS if row.name in ("fdatasync", "fsync", "fdatasync_2", "write_fsync_close", "write_close_fsync")]
    run = writer.measure_rows(volume, sync_options.Options(tuple(rows), seconds=0.1))
    for row, samples in run.rows:
        assert samples.unable or 0 < samples.own < 1e9 * samples.seconds / samples.ops + samples.own, row.name


@pytest.mark.parametrize(
    "name, milliseconds, waits, writes, own",
    [
        ("fdatasync_2", 0.5, 64, 2, 5000),
        ("open_sync_4x4k", 0.5, 64, 1, 20000),
        ("fdatasync_2", 5, 10, 2, 5000),
        ("fdatasync_2", 200, 3, 2, 5000),
        ("write", 1, 0, 1, 5000),
    ],
)
def test_a_row_that_waits_for_the_drive_waits_when_its_program_is_timed(monkeypatch, name, milliseconds, waits, writes, own):
    """A wait costs the program time afterwards. Rows whose every write waits are timed by one write. A slow drive is not waited for so often."""
    waited, asked, now = [], [], [0]
    job = object.__new__(writer._Job)
    job.row, job.again, job.views, job.written = KNOWN[name], "", [], 0

    def step(nanoseconds, done):
        def call():
            done.append(1)
            now[0] += nanoseconds

        return writer._Operation((call,), (None,))

    job.operation = step(int(milliseconds * 1_000_000), waited)
    monkeypatch.setattr(writer.time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(writer._Job, "_operation", lambda self, fd, calls, count: asked.append(count) or step(5000, []))
    assert (job._own(), len(waited), asked) == (own, waits, [writes])
    assert job.written == waits * job.row.write * job.row.times


@pytest.mark.parametrize(
    "latencies, asked, done",
    [
        ([1], 1000, 1000),  # microseconds; whatever is quick ends in time
        ([600], 125_000, 209),
        ([7000], 50_000, 8),
        ([70_000], 50_000, 1),
        ([20] * 500 + [20_000] * 500, 100_000, 511),  # suddenly slow: what is under way is ended
    ],
)
def test_batches_end_in_time(monkeypatch, latencies, asked, done):
    """As many operations as one by one, but for what no program can know before; none is lost."""
    now, count = [0], [0]

    def call():
        now[0] += 1000 * latencies[min(count[0], len(latencies) - 1)]
        count[0] += 1

    monkeypatch.setattr(writer.time, "perf_counter_ns", lambda: now[0])
    found = writer._Job._time(writer._Operation((call,), (None,)), asked * 1000)
    assert (len(found), sum(found)) == (count[0], now[0])
    assert count[0] == done


def test_what_was_done_before_a_fault_is_kept(monkeypatch):
    count = [0]

    def call():
        count[0] += 1
        if count[0] > 41:  # in the middle of a batch
            raise OSError(errno.EIO, "Input/output error")

    found = writer.array.array("q")
    with pytest.raises(OSError, match="Input/output error"):
        writer._Job._time(writer._Operation((call,), (None,)), time.perf_counter_ns() + 10**9, 1, found)
    assert len(found) == 41


def test_a_slow_program_shows_the_same_figures():
    quick, slow = sync_samples.Samples(), sync_samples.Samples()
    slow.own = 7_000
    quick.add([30_000] * 900, 30_000 * 900)
    slow.add([37_000] * 900, 37_000 * 900)
    assert quick.rate == slow.rate == pytest.approx(1e9 / 30_000) and quick.counts == slow.counts
