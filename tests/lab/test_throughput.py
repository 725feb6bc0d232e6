# SPDX-License-Identifier: GPL-3.0-or-later
"""throughput on simulated SSDs: a misaligned stripe shows about half of its legs' sum, aligned ones nearly all of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import HOME, Harness
from labkit.specs import assert_error, said
from plumblab import plugging
from plumblab import state as states
from plumblab.disks import parse

KIB, MIB = 1 << 10, 1 << 20
PAGE = 8 * KIB
# Two channels of pages of 8 KiB: slow enough that the guest's processors are not what is measured.
FLASH = {"page_size": PAGE, "channels": 2, "program_us": 3000, "read_us": 2500, "rmw_us": 50, "transfer_us": 10}
DISKS = [
    *({"name": f"flash{number}", "bus": "nvme", "size": "192MiB", "serial": f"FLASH{number}", "simulated": FLASH} for number in range(2)),
    {"name": "gone", "bus": "nvme", "size": "64MiB", "serial": "GONE"},
]
# Short blocks and few requests in flight, as these disks are slow.
QUICK = {"block_seconds": 1, "depth": 16, "span": "24MiB", "max_seconds": 150}


@dataclass(frozen=True)
class Layout:
    """One line of the article's table: how it is made on the partitions {0} and {1}, and which volumes are loaded together."""

    title: str
    make: str
    volumes: tuple[str, ...]


STRIPE = "vgcreate -q -s 1m bench {0} {1}; "
LAYOUTS = {
    "misaligned": Layout(
        "data area off by one sector, one striped LV",
        "pvcreate -q --dataalignment 1m --dataalignmentoffset 512b {0} {1}; " + STRIPE + "lvcreate -q -y -W n -n lv -i 2 -I 8k -l 80 bench",
        ("/dev/bench/lv",),
    ),
    "single": Layout(
        "aligned partitions, one striped LV",
        "pvcreate -q --dataalignment 1m {0} {1}; " + STRIPE + "lvcreate -q -y -W n -n lv -i 2 -I 64k -l 80 bench",
        ("/dev/bench/lv",),
    ),
    "three": Layout(
        "the same partitions, three striped LVs",
        "pvcreate -q --dataalignment 1m {0} {1}; " + STRIPE + "for n in 0 1 2; do lvcreate -q -y -W n -n lv$n -i 2 -I 64k -l 30%VG bench; done",
        ("/dev/bench/lv0", "/dev/bench/lv1", "/dev/bench/lv2"),
    ),
    "separate": Layout("one volume on each aligned partition", "true", ("{0}", "{1}")),
}


def pair(plugged: dict[str, Disk]) -> list[Disk]:
    return [plugged["flash0"], plugged["flash1"]]


@contextmanager
def built(bench: Bench, harness: Harness, disks: list[Disk], layout: Layout) -> Iterator[list[str]]:
    """The layout, on partitions named as aligned_partition names them; yields its volumes."""
    for number, disk in enumerate(disks):
        table = f'label: gpt\\nstart=2048, size={180 * MIB // 512}, name="plumbline:bench:{number}"\\n'
        harness.must(f"printf '{table}' | sfdisk -q {disk.path}; udevadm settle")
    parts = [disk.part() for disk in disks]
    try:
        harness.must(layout.make.format(*parts) + "; udevadm settle")
        yield [volume.format(*parts) for volume in layout.volumes]
    finally:
        bench.clean(*disks)


# Random requests of 8 KiB keep the guest's processors busiest; of 1 MiB, few fall into a block, unless blocks are longer and drives faster.
# Several volumes cost the processors more for the same bytes, and fio's start more of its time.
SPEED = {("rand_write", False): 3000, ("rand_write", True): 5500, ("seq_write", False): 1500, ("seq_write", True): 1500}
# So long that the start of fio, which takes a processor for 2 s, is a small part of them.
BLOCKS = {False: {"block_seconds": 2.5}, True: {"block_seconds": 4, "max_seconds": 240}}


def measure(harness: Harness, **options: Any) -> dict[str, Any]:
    found = harness.module("throughput", {**QUICK, **options}, timeout=580)
    assert not found["failed"], said(found)
    assert found["changed"] is False
    assert len(json.dumps(found)) < 32 * KIB
    return found


def amplification(bench: Bench, harness: Harness, disks: list[Disk], volumes: list[str]) -> float:
    """Bytes that the flash programs for each byte of random 8 KiB writes to the volumes alone, by the simulated drives' counters."""
    jobs = " ".join(f"--name=j{number} --filename=$(realpath {volume})" for number, volume in enumerate(volumes))
    bench.counters(*disks, reset=True)
    harness.must(f"fio --thread --ioengine=libaio --direct=1 --rw=randwrite --bs=8k --iodepth=8 --size=24m --time_based --runtime=2 {jobs}")
    seen = bench.counters(*disks).values()
    return sum(one["media_write_bytes"] or 0 for one in seen) / sum(one["host_write_bytes"] or 0 for one in seen)


@pytest.fixture(scope="module")
def article() -> Iterator[dict[str, tuple[dict[str, Any], float]]]:
    """What was measured by layout, printed in the shape of the article's table."""
    rows: dict[str, tuple[dict[str, Any], float]] = {}
    yield rows
    print("\nlayout                                        job          MiB/s    raw  share  interval        writes x  CPU busy")
    for name, (found, factor) in rows.items():
        for job in (one for one in found["jobs"] if one["share"] is not None):
            print(
                f"{LAYOUTS[name].title:45s} {job['name']:10s} {job['stack_mib_s']:7.1f} {job['raw_mib_s']:6.1f} {job['share']:6.3f}"
                f"  {job['low']:.3f} to {job['high']:.3f}  {factor:8.2f} {job['cpu_busy']:8.2f}"
            )


@pytest.mark.long(minutes=3)
@pytest.mark.measured
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("job", ["rand_write", "seq_write"])
def test_the_layouts_of_the_article(bench: Bench, harness: Harness, plugged: dict[str, Disk], article: dict[str, Any], name: str, job: str) -> None:
    disks = pair(plugged)
    with built(bench, harness, disks, LAYOUTS[name]) as volumes:
        bench.change(*disks, program_us=SPEED[job, len(volumes) > 1])
        found = measure(harness, volumes=volumes, write=True, jobs=[job], nomerges=True, **BLOCKS[job == "seq_write" or len(volumes) > 1])
        factor = amplification(bench, harness, disks, volumes)
    (one,) = found["jobs"]
    earlier = article.get(name)
    article[name] = ({"jobs": (earlier[0]["jobs"] if earlier else []) + [one]}, factor)
    print("\n".join(found["report"]))
    assert one["cpu_busy"] <= 0.5, "void: the guest's processors were measured"
    assert sum(leg["raw_mib_s"] for leg in one["legs"]) == pytest.approx(one["raw_mib_s"], rel=0.01)
    assert all(leg["raw_mib_s"] <= 30 for leg in one["legs"])
    if name == "misaligned":
        assert (one["verdict"], found["verdict"]) == ("fail", "fail") and one["high"] <= 0.6, one
        assert 1.8 <= factor <= 2.3
        assert found["reasons"] == [f"{job}: {one['why']}"]
    else:
        assert one["verdict"] == "pass" and one["low"] >= 0.90, one
        assert 0.95 <= factor <= 1.1


@pytest.mark.long
@pytest.mark.measured
def test_one_slow_leg(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """A stripe is as fast as its slowest leg times their number: below the sum of both, and the leg is named."""
    disks = pair(plugged)
    with built(bench, harness, disks, LAYOUTS["single"]) as volumes:
        bench.change(disks[0], program_us=3000)
        bench.change(disks[1], program_us=9000)
        try:
            found = measure(harness, volumes=volumes, write=True, jobs=["rand_write"])
        finally:
            bench.change(*disks, program_us=3000)
    print("\n" + "\n".join(found["report"]))
    (one,) = found["jobs"]
    assert (one["verdict"], found["verdict"]) == ("fail", "fail") and one["high"] < 0.75, one
    (line,) = (line for line in found["report"] if "the fastest leg" in line)
    assert disks[1].kernel in line, line


def ext4(harness: Harness, volume: str, mount: str, options: str = "") -> None:
    """A mounted filesystem."""
    harness.must(f"mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {volume}; mkdir -p {mount}; mount {options} {volume} {mount}")


@pytest.mark.long
@pytest.mark.measured
def test_a_volume_in_use_and_its_baseline(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """Reads where a scratch file lies; the raw rates are kept with the devices' identities, reused, and refused for other devices."""
    disks = pair(plugged)
    home = "/pl/baseline.json"
    with built(bench, harness, disks, LAYOUTS["single"]) as (volume,):
        ext4(harness, volume, "/pl/data")
        before = harness.must("stat -f -c '%f %d' /pl/data")
        # What is looked at here is no figure, so that a busy processor does no harm.
        options = {"paths": ["/pl/data"], "scratch_size": "24MiB", "jobs": ["rand_read"], "baseline": home, "precision": 0.2, "min_share": 0.5, "max_cpu": 1.0}
        found = measure(harness, **options)
        print("\n".join(found["report"]))
        assert found["jobs"][0]["verdict"] == "pass", found["report"]
        assert found["written_bytes"] == 24 * MIB and found["read_bytes"] > MIB
        assert {leg["device"] for leg in found["legs"]} == {disk.kernel for disk in disks}
        assert harness.must("stat -c '%a %u' " + home).split() == ["600", "0"]
        assert harness.must("sync; stat -f -c '%f %d' /pl/data") == before, "the scratch file is still there"
        # Its rates are used instead of loading the legs, which the host's counters show.
        again = measure(harness, **options, reuse_baseline=True)
        assert any("Not interleaved" in line for line in again["report"])
        assert again["baseline"] == found["baseline"] and again["jobs"][0]["raw_iops"] == 0
        assert again["jobs"][0]["raw_mib_s"] == pytest.approx(found["jobs"][0]["raw_mib_s"], rel=0.01)
        # A baseline of other devices is refused by name, whether it is to be reused or not.
        kept = harness.must("cat " + home)
        harness.must(f"sed -i 's/FLASH1/OTHER9/' {home}")
        for reuse in (True, False):
            refused = harness.module("throughput", {**QUICK, **options, "reuse_baseline": reuse})
            assert_error(refused, f"baseline {home} is of", "OTHER9", "these are", "FLASH1")
        assert harness.must("cat " + home) == kept.replace("FLASH1", "OTHER9")


def background(harness: Harness, options: dict[str, Any]) -> None:
    """Start the module apart from the server; its process is in /run/measuring.pid, its result goes to /run/measuring.json."""
    call = json.dumps({"ANSIBLE_MODULE_ARGS": {**QUICK, **options}})
    script = (
        f"import os, sys; sys.path.insert(0, {HOME!r}); os.setsid(); open('/run/measuring.pid', 'w').write(str(os.getpid()))\n"
        "from ansible.module_utils import basic\n"
        f"basic._ANSIBLE_ARGS = {call!r}.encode(); basic._ANSIBLE_PROFILE = 'legacy'\n"
        "from ansible_collections.plumbline.ssd.plugins.modules import throughput\n"
        "throughput.main()\n"
    )
    harness.must("rm -f /run/measuring.*")
    harness.must(f"cat > /run/measuring.py <<'END'\n{script}\nEND\nnohup python3 /run/measuring.py > /run/measuring.json 2> /run/measuring.err < /dev/null &")


NOMERGES = "cat /sys/class/block/{0}/queue/nomerges /sys/class/block/{1}/queue/nomerges /sys/class/block/{2}/queue/nomerges"


@pytest.mark.long(minutes=1)
def test_killed_in_the_middle(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """After SIGKILL there is no fio, no scratch file, and the queues merge again as before."""
    disks = pair(plugged)
    with built(bench, harness, disks, LAYOUTS["single"]) as (volume,):
        ext4(harness, volume, "/pl/data")
        dm = harness.must(f"basename $(realpath {volume})").strip()
        queues = NOMERGES.format(disks[0].kernel, disks[1].kernel, dm)
        harness.must(f"echo 1 > /sys/class/block/{disks[0].kernel}/queue/nomerges")
        free = harness.must("sync; stat -f -c '%f %d' /pl/data")
        before = harness.must(queues)
        background(harness, {"paths": ["/pl/data"], "scratch_size": "24MiB", "jobs": ["seq_read"], "nomerges": True, "block_seconds": 4})
        bench.wait("pgrep -x fio")
        assert harness.must(queues).split() == ["2", "2", "2"]
        assert harness.must("sync; stat -f -c '%f %d' /pl/data") != free, "there was no scratch file to begin with"
        harness.must("kill -KILL $(cat /run/measuring.pid)")
        bench.wait("! pgrep -x fio && ! pgrep -f [m]easuring.py")
        assert harness.must(queues) == before
        bench.wait(f"sync; test \"$(stat -f -c '%f %d' /pl/data)\" = '{free.strip()}'")
        assert harness.must("ipcs -m | grep -c '^0x' || true").strip() == "0"


@pytest.mark.long
def test_settings_are_reported_and_put_back(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    disks = pair(plugged)
    with built(bench, harness, disks, LAYOUTS["single"]) as (volume,):
        dm = harness.must(f"basename $(realpath {volume})").strip()
        queues = NOMERGES.format(disks[0].kernel, disks[1].kernel, dm)
        before = harness.must(queues)
        with bench.untouched(*disks):
            found = measure(harness, volumes=[volume], jobs=["seq_read"], nomerges=True, max_seconds=1, block_seconds=0.5)
        assert found["verdict"] == "inconclusive" and "12 are the fewest" in found["reasons"][0]
        assert sorted(found["nomerges"]) == sorted(f"/sys/class/block/{name}/queue/nomerges" for name in (disks[0].kernel, disks[1].kernel, dm))
        assert harness.must(queues) == before


@pytest.mark.long
@pytest.mark.measured
def test_a_busy_processor_makes_it_inconclusive(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    disks = pair(plugged)
    with built(bench, harness, disks, LAYOUTS["separate"]) as volumes, bench.untouched(*disks):
        harness.must("for n in 1 2; do nohup timeout 60 sh -c 'while :; do :; done' > /dev/null 2>&1 & echo $!; done > /run/burning")
        try:
            found = measure(harness, volumes=volumes, jobs=["rand_read"], block_seconds=0.5, max_seconds=8)
        finally:
            harness.must("kill $(cat /run/burning)")
    assert found["verdict"] == "inconclusive" and "the CPUs were" in found["reasons"][0], found["report"]


OURS = "printf 'label: gpt\\nstart=2048, name=\"plumbline:bench:0\"\\n' | sfdisk -q {disk0}; udevadm settle; "
TWO = 'printf \'label: gpt\\nstart=2048, size=40960, name="plumbline:bench:0"\\nsize=40960, name="x"\\n\' | sfdisk -q {disk0}; udevadm settle'
LV = OURS + "vgcreate -q fs {part0}; lvcreate -q -y -W n -n lv -l 20 fs; "
FOREIGN = {
    "a disk": ("true", "{disk0}", "it is a disk [not_ours]"),
    "a partition of others": ("printf 'label: gpt\\nstart=2048, name=\"data\"\\n' | sfdisk -q {disk0}; udevadm settle", "{part0}", "named 'data'"),
    "ours among others": (TWO, "{part0}", "one of 2 partitions"),
    "an LV on whole disks": ("vgcreate -q whole {disk1}; lvcreate -q -y -W n -n lv -l 20 whole", "/dev/whole/lv", "is a disk, not a partition that this"),
    "a VG of which one PV is foreign": (
        OURS + "vgcreate -q mixed {part0} {disk1}; lvcreate -q -y -W n -n lv -l 20 mixed {part0}",
        "/dev/mixed/lv",
        "is a disk, not a partition that this",
    ),
    "an LV with a filesystem": (LV + "mkfs.ext4 -q /dev/fs/lv", "/dev/fs/lv", "it carries an ext filesystem"),
    "an LV with another signature": (LV + "mkswap -q /dev/fs/lv", "/dev/fs/lv", "it carries a signature: swap"),
    "a mounted LV": (LV + "mkfs.ext4 -q /dev/fs/lv; mkdir -p /pl/x; mount -o ro /dev/fs/lv /pl/x", "/dev/fs/lv", "cannot be opened alone"),
    "a PV": (LV, "{part0}", "cannot be opened alone"),
    "a PV without a VG": (OURS + "pvcreate -q {part0}", "{part0}", "it is an LVM PV of no VG"),
    "an LV with a snapshot": (LV + "lvcreate -q -y -s -n snap -l 5 /dev/fs/lv", "/dev/fs/lv", "mapping of kind snapshot-origin"),
}


# By default one that is not ours, and one with contents.
SHORT = ("an LV on whole disks", "an LV with a filesystem")


@pytest.mark.parametrize("what", [what if what in SHORT else pytest.param(what, marks=pytest.mark.long) for what in FOREIGN])
def test_what_may_not_be_written_to(bench: Bench, harness: Harness, plugged: dict[str, Disk], what: str) -> None:
    """One line that names what was found, and the drives see no write."""
    make, volume, words = FOREIGN[what]
    disks = pair(plugged)
    names = {f"disk{number}": disk.path for number, disk in enumerate(disks)} | {f"part{number}": disk.part() for number, disk in enumerate(disks)}
    try:
        harness.must(make.format(**names))
        with bench.untouched(*disks):
            found = harness.module("throughput", {**QUICK, "volumes": [volume.format(**names)], "write": True, "span": "16MiB"})
        assert_error(found, words)
    finally:
        bench.clean(*disks)


@pytest.mark.quick("throughput")
def test_check_mode_writes_nothing(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    disks = pair(plugged)
    with built(bench, harness, disks, LAYOUTS["single"]) as volumes:
        with bench.untouched(*disks):
            found = harness.module("throughput", {**QUICK, "volumes": volumes, "write": True}, check=True)
        assert (found["verdict"], found["jobs"], found["written_bytes"]) == ("inconclusive", [], 0), found
        assert "check mode" in found["reasons"][0]


@pytest.mark.parametrize(
    "prepare, options, words",
    [
        pytest.param("mount -o remount,ro /pl/data", {}, "/pl/data is mounted read-only", marks=pytest.mark.long),
        ("fallocate -l $(($(stat -f -c '%a*%S' /pl/data) - 30*1024*1024)) /pl/data/full", {}, "wanted twice the scratch file, 32 MiB"),
        pytest.param("true", {"paths": ["/pl/none"]}, "/pl/none is no directory", marks=pytest.mark.long),
        pytest.param("true", {"paths": ["/run"]}, "/run is not on one block device", marks=pytest.mark.long),
        pytest.param("true", {"paths": ["/pl/data", "/pl/data/lost+found"]}, "is on the same volume as another of the paths", marks=pytest.mark.long),
        pytest.param("true", {"baseline": "raw.json"}, "wanted an absolute path in a directory that exists", marks=pytest.mark.long),
    ],
)
def test_filesystems_that_cannot_be_measured(
    bench: Bench, harness: Harness, plugged: dict[str, Disk], prepare: str, options: dict[str, Any], words: str
) -> None:
    disks = pair(plugged)
    with built(bench, harness, disks, LAYOUTS["single"]) as (volume,):
        ext4(harness, volume, "/pl/data")
        harness.must(prepare)
        found = harness.module("throughput", {**QUICK, "paths": ["/pl/data"], "scratch_size": "16MiB", **options})
        assert_error(found, words)


def test_without_fio(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    with bench.untouched():
        found = harness.module("throughput", {"volumes": [plugged["flash0"].path]}, env={"PATH": "/usr/sbin:/sbin"})
    assert_error(found, "fio is not on this host; nothing was measured: install the package fio")


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "volumes, paths: wanted one of them"),
        ({"volumes": ["/dev/x"], "paths": ["/x"]}, "volumes, paths: wanted one of them"),
        ({"volumes": ["/dev/not-there"]}, "/dev/not-there is not there"),
        ({"volumes": ["/etc/fstab"]}, "/etc/fstab is no block device"),
        ({"volumes": ["{0}", "{0}"]}, "is named twice"),
        ({"volumes": ["{0}"], "jobs": ["seq_write"]}, "seq_write writes; that takes write: true"),
        ({"volumes": ["{0}"], "jobs": ["seq_reed"]}, "did you mean 'seq_read'?"),
    ],
)
def test_a_request_that_makes_no_sense(harness: Harness, plugged: dict[str, Disk], options: dict[str, Any], words: str) -> None:
    volumes = [name.format(plugged["flash0"].path) for name in options.get("volumes", [])]
    assert_error(harness.module("throughput", {**options, "volumes": volumes}), words)


@pytest.mark.long
def test_unplugged_in_the_middle(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """One line with fio's own words, and no process behind."""
    disk = plugged["gone"]
    background(harness, {"volumes": [disk.path], "jobs": ["rand_read"], "block_seconds": 5})
    bench.wait("pgrep -x fio")
    time.sleep(1)
    try:
        with states.exclusive(bench.paths):
            plugging.detach(bench.paths, [disk.name], release=False)
        bench.wait("! pgrep -x fio && ! pgrep -f [m]easuring.py")
        said_there = harness.must("cat /run/measuring.json /run/measuring.err")
        found = json.loads(harness.must("cat /run/measuring.json"))
        assert "Traceback" not in said_there
        assert found["failed"] and found["msg"].startswith(f"{disk.path} went away while it was measured (fio "), found
        assert "\n" not in found["msg"]
        assert harness.run(f"test -e {disk.path}")[0] != 0, "a file stands where the device was"
    finally:
        with states.exclusive(bench.paths):
            plugging.attach(bench.paths, [parse(dict(one)) for one in DISKS if one["name"] == disk.name], fresh=True)
