# SPDX-License-Identifier: GPL-3.0-or-later
"""A step of growth that ends after one of its writes, and what is on a disk then: by the bytes that were written, and by a scan of the kernel's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .bench import Bench, Disk
from .harness import HOME, ROOT, Harness
from .roles import tasks_for

_LOG = f"{HOME}/growth-writes"
# The module as a run calls it. Each change of a disk that has been made is noted, and after the LIMIT-th the process ends from one instruction to the next.
_CUT = """
import hashlib, json, os, sys
from ansible.module_utils import basic
from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device
from ansible_collections.plumbline.ssd.plugins.modules import stack_growth

limit, arguments, count = int(sys.argv[1]), json.load(open(sys.argv[2])), 0

def noted(function):
    def change(fd, *words):
        global count
        function(fd, *words)
        count += 1
        at, data = (words[0], words[1]) if function.__name__ == "write_at" else (0, b"")
        with open(sys.argv[3], "a") as log:
            line = [os.readlink("/proc/self/fd/%d" % fd), function.__name__, at, len(data), hashlib.sha256(data).hexdigest()]
            log.write(json.dumps(line) + chr(10))
        if count == limit:
            os.kill(os.getpid(), 9)
    return change

for name in ("write_at", "resize_partition"):
    setattr(block_device, name, noted(getattr(block_device, name)))
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
basic._ANSIBLE_PROFILE = "legacy"
stack_growth.main()
"""
# The kernel reads the table of a copy of both ends. udev takes no notice meanwhile, or it would lead the links of the partition to the copy.
_SCAN = """
size=$(blockdev --getsize64 {path}); copy={home}/scanned
rm -f $copy; truncate -s $size $copy
dd if={path} of=$copy bs=1M count=1 iflag=direct conv=notrunc status=none
dd if={path} of=$copy bs=1M skip=$((size / 1048576 - 1)) seek=$((size / 1048576 - 1)) iflag=direct conv=notrunc status=none
udevadm settle; trap 'udevadm control --start-exec-queue' EXIT; udevadm control --stop-exec-queue
loop=$(losetup --find --show --partscan --sector-size {logical} $copy)
sfdisk --json $loop || true
echo @$(cat /sys/class/block/${{loop##*/}}p1/start || echo 0) $(cat /sys/class/block/${{loop##*/}}p1/size || echo 0)
losetup --detach $loop
until [ ! -e /sys/class/block/${{loop##*/}}p1 ]; do sleep 0.05; done
rm $copy
"""


@dataclass(frozen=True)
class Change:
    """One change of a disk: ``write_at`` of so many bytes, or ``resize_partition`` of what the kernel knows."""

    path: str
    what: str
    at: int
    length: int
    digest: str


@dataclass(frozen=True)
class Shown:
    """A partition: what the kernel makes of it, and what sfdisk does; bytes."""

    start: int
    size: int
    by_sfdisk: tuple[int, int]


def cut_after(bench: Bench, harness: Harness, step: Mapping[str, Any], limit: int) -> list[Change]:
    """Begin a step of growth and kill it after so many changes; what it has changed until then. The host has counted just these bytes."""
    command = _prepared(harness, step, limit)
    harness.must("sync; udevadm settle")
    disks = list(bench.disks.values())
    bench.counters(*disks, reset=True)
    code, out, err = harness.run(command)
    assert code in (-9, 137), (code, out, err)
    changes = [Change(*json.loads(line)) for line in harness.must(f"cat {_LOG}").splitlines()]
    assert len(changes) == limit
    counted = bench.counters(*disks)
    for disk in disks:
        wanted = sum(change.length for change in changes if change.path == disk.path)
        assert (counted[disk.name]["host_write_bytes"], counted[disk.name]["discards"]) == (wanted, 0), disk
    _check_places(harness, changes)
    return changes


def _prepared(harness: Harness, step: Mapping[str, Any], limit: int = 0) -> str:
    """The shell command that carries a step out and ends after so many changes; 0: at its end."""
    (task,) = tasks_for(ROOT, [step])
    harness.must(f"cat > {HOME}/arguments <<'END'\n{json.dumps(task.args)}\nEND\ncat > {HOME}/cut.py <<'END'\n{_CUT}\nEND\nrm -f {_LOG}")
    return f"PYTHONPATH={HOME} python3 {HOME}/cut.py {limit} {HOME}/arguments {_LOG}"


@contextmanager
def at_work(harness: Harness, step: Mapping[str, Any]) -> Iterator[str]:
    """A step that is carried out in the background: shell that succeeds while it is at work. It has to succeed, unless the machine ends before."""
    command = _prepared(harness, step)
    pid = harness.must(f"setsid {command.replace('PYTHONPATH', 'env PYTHONPATH')} > {HOME}/said 2>&1 & echo $!").strip()
    yield f"kill -0 {pid} 2> /dev/null"
    if harness.run(f"test -e {HOME}/said")[0] == 0:
        assert '"changed": true' in harness.must(f"while kill -0 {pid} 2> /dev/null; do sleep 0.1; done; cat {HOME}/said")


def _check_places(harness: Harness, changes: Sequence[Change]) -> None:
    """Each place holds what was written there last. With the host's count this says that no other byte was written."""
    last = {(change.path, change.at, change.length): change.digest for change in changes if change.length}
    for (path, at, length), digest in last.items():
        read = f"blockdev --flushbufs {path}; dd if={path} bs=64K iflag=skip_bytes,count_bytes skip={at} count={length} status=none | sha256sum"
        assert harness.must(read).split()[0] == digest, (path, at, length)


def scanned(harness: Harness, disk: Disk, logical: int) -> Shown:
    """What the kernel would show of the disk's partition if it came up now, read from a copy of both ends."""
    table, _mark, kernel = harness.must(_SCAN.format(path=disk.path, home=HOME, logical=logical)).rpartition("@")
    (part,) = json.loads(table)["partitiontable"]["partitions"]
    start, size = (512 * int(word) for word in kernel.split())
    return Shown(start, size, (part["start"] * logical, part["size"] * logical))


def shown(harness: Harness, disk: Disk, logical: int) -> Shown:
    """What the kernel and sfdisk show of the disk itself."""
    at = f"/sys/class/block/{disk.part().rsplit('/', 1)[-1]}"
    start, size = (512 * int(word) for word in harness.must(f"cat {at}/start {at}/size").split())
    (part,) = json.loads(harness.must(f"sfdisk --json {disk.path}"))["partitiontable"]["partitions"]
    return Shown(start, size, (part["start"] * logical, part["size"] * logical))
