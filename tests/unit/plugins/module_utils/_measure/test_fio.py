# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import load_mark
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Load, Place
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import fixture

MIB = 1 << 20
MARK = bytes(range(16))
PLACES = [Place("/dev/nvme0n1p1", MIB, 8 * MIB), Place("/dev/nvme1n1p1", MIB, 8 * MIB)]
# What fio 3.33 printed in the lab for two jobs of random reads, and for one job on each of two disks of which one is missing.
GOOD = fixture("fio_randread.json").decode()
FAILED = fixture("fio_missing.json").decode()


@pytest.mark.parametrize("pattern, reads", [("read", True), ("randread", True), ("write", False), ("randwrite", False)])
def test_the_command(pattern, reads):
    argv = fio.argv("/usr/bin/fio", Load("x", pattern, 8192, 16), PLACES, 1.5, 0.375)
    assert argv[0] == "/usr/bin/fio" and argv.index("--name=global") < argv.index("--direct=1")
    assert ("--readonly" in argv) is reads
    for word in ("--rw=" + pattern, "--bs=8192", "--iodepth=16", "--runtime=1500ms", "--ramp_time=375ms", "--randrepeat=0", "--ioengine=libaio"):
        assert argv.count(word) == 1
    assert argv[-8:] == [
        "--name=j0", "--filename=/dev/nvme0n1p1", "--offset=1048576", "--size=8388608",
        "--name=j1", "--filename=/dev/nvme1n1p1", "--offset=1048576", "--size=8388608",
    ]  # fmt: skip


@pytest.mark.parametrize("block, word", [(8192, "--gtod_reduce=1"), (MIB, "--gtod_reduce=0")])
def test_large_requests_end_in_time(block, word):
    """fio 3.33 with gtod_reduce ended a second of 1 MiB writes after 64 of each job: 37 s on drives of 10 MiB/s."""
    assert word in fio.argv("fio", Load("x", "write", block, 1), PLACES, 1, 0)


def test_the_command_that_fills():
    argv = fio.fill_argv("fio", PLACES, MIB, 8, MARK)
    assert "--rw=write" in argv and "--readonly" not in argv and not any(word.startswith(("--time_based", "--runtime")) for word in argv)
    assert "--allow_file_create=0" in argv


def test_what_writes_leaves_its_mark():
    """fio gives the last twentieth of each compress_chunk to the pattern: 26 of 512 bytes (lib/rand.c, __fill_random_buf_percentage())."""
    for pattern in ("write", "randwrite"):
        argv = fio.argv("fio", Load("x", pattern, 8192, 1), PLACES, 1, 0, MARK)
        assert {"--buffer_pattern=0x" + MARK.hex(), "--buffer_compress_percentage=5", "--buffer_compress_chunk=512", "--refill_buffers=0"} <= set(argv)
    assert "--refill_buffers=1" in fio.fill_argv("fio", PLACES, MIB, 8, MARK)
    assert not any("buffer" in word for word in fio.argv("fio", Load("x", "randread", 8192, 1), PLACES, 1, 0, MARK))
    assert load_mark.tail_of(MARK) == MARK + MARK[:10]


@pytest.mark.parametrize("path", ["/dev/dm-12", "/dev/cciss/c0d0p1", "/dev/sda1", "/dev/mmcblk0p1"])
def test_names_that_fio_may_have(path):
    assert "--filename=" + path in fio.argv("fio", Load("x", "read", 4096, 1), [Place(path, 0, MIB)], 1, 0)


@pytest.mark.parametrize("path", ["/dev/a:/dev/b", "/dev/disk/by-id/a:b", "relative", "/etc/passwd", "/dev/", "/dev/a\n", "/dev/a b", "", "-", "/dev//a"])
def test_names_that_it_may_not(path):
    with pytest.raises(PlumblineError, match="no name of a block device"):
        fio.argv("fio", Load("x", "read", 4096, 1), [Place(path, 0, MIB)], 1, 0)


def test_a_report():
    rows = json.loads(GOOD)["jobs"]
    found = fio.parse_output(GOOD, PLACES)
    assert found.bytes == sum(row["read"]["io_bytes"] for row in rows) > MIB
    assert found.rate == sum(row["read"]["bw_bytes"] for row in rows)
    assert found.iops == pytest.approx(found.rate / 8192, rel=0.02)
    assert found.rates == {place.path: row["read"]["bw_bytes"] for place, row in zip(PLACES, rows)}
    assert 0 < found.busiest < 1
    both = fio.parse_output(GOOD, [PLACES[0], PLACES[0]])
    assert both.rates == {PLACES[0].path: found.rate}


@pytest.mark.parametrize("before, behind", [("fio: this platform does not support X\n", ""), ("", "\nDisk stats: gone\n"), ("a {strange} line\n", "\n")])
def test_lines_beside_the_report(before, behind):
    assert fio.parse_output(before + GOOD + behind, PLACES) == fio.parse_output(GOOD, PLACES)


def without(key):
    found = json.loads(GOOD)
    del found["jobs"][0][key]
    return json.dumps(found)


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "could not be read: it is empty"),
        ("fio-3.33\n", "could not be read: fio-3.33"),
        ("{}", "could not be read: {}"),
        ('{"jobs": 3}', "could not be read"),
        (GOOD[: len(GOOD) // 2], "could not be read"),
        ('{"jobs": []}', "fio reported 0 jobs; 2 were started"),
        (without("usr_cpu"), "lacks what was expected in it: KeyError('usr_cpu')"),
        (without("read"), "lacks what was expected in it: KeyError('read')"),
        (FAILED, "fio: its job on /dev/nvme1n1p1 ended with error 2"),
        (GOOD.replace('"io_bytes" : ', '"io_bytes" : 0, "was" : '), "fio moved nothing on /dev/nvme0n1p1"),
    ],
)
def test_reports_that_say_nothing(text, words):
    with pytest.raises(PlumblineError) as caught:
        fio.parse_output(text, PLACES)
    assert words in caught.value.msg and "\n" not in caught.value.msg


@pytest.mark.parametrize(
    "code, out, err, said",
    [
        # fio 3.33, verbatim
        (
            1,
            "",
            "fio: engine libaiox not loadable\nfio: failed to load engine\n",
            "engine libaiox not loadable; install the package with fio's libaio engine (fio-engine-libaio)",
        ),
        (
            1,
            "fio: pid=22442, err=2/file:filesetup.c:805, func=open(/dev/not-there), error=No such file or directory\n{\n}\n",
            "fio: cache invalidation of /dev/not-there failed: Bad file descriptor\n",
            "pid=22442, err=2/file:filesetup.c:805, func=open(/dev/not-there), error=No such file or directory",
        ),
        (
            1,
            "fio: pid=1, err=5/file:io_u.c:1876, func=io_u error, error=Input/output error\n",
            "fio: io_u error on file /dev/sda: Input/output error: read offset=1, buflen=8192\n",
            "io_u error on file /dev/sda: Input/output error: read offset=1, buflen=8192",
        ),
        (-9, "", "", "it was killed by signal 9"),
        (3, "", "", "it returned 3 and said nothing"),
        (1, "", "something odd\nand more\n", "something odd"),
    ],
)
def test_its_own_words_when_it_fails(code, out, err, said):
    assert fio.failure(code, out, err) == said
