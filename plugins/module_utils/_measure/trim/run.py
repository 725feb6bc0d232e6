# SPDX-License-Identifier: GPL-3.0-or-later
"""Trim a scratch file, and look on the drives for what became of it. I/O.

Two files without a name are filled beside each other. One is given back, and its place is trimmed (FITRIM); the other is what it is compared with.
"""

from __future__ import annotations

import errno
import os
import random
import time
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file, block_device, read_disk_activity, read_sysfs, write_scratch_file
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ata import zeros_after_trim
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import spread
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Places, Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human, round_down, round_up
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.options import SweepLimits
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.probe import Probe
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.target import target_of
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.writer import MountedVolume
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim.verdict import BLANK, CHANGED, KEPT, DriveSeen, Timing, trim_result, wants_timing
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe_maps
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.trim_path import judge_trim_path

READ = 4096  # bytes of a sample, and of a timed read
SAMPLES = 64  # on each drive
# ext4 frees blocks behind the commit of the journal, which may be a moment after fsync() returns (ext4_process_freed_data()); and what it has
# trimmed already costs nothing.
TURNS = 3
PAUSE_SECONDS = 0.2


def untrimmed(title: str) -> Dict[str, Any]:
    """What check mode returns."""
    why = "check mode: nothing is written, so nothing was trimmed"
    return trim_result(title, [], 0, 0.0, [why])


def prove_trim(run: Runner, volume: MountedVolume, options: Options) -> Dict[str, Any]:
    """Measure, and return the result. Raises PlumblineError where a scratch file cannot be made, or a drive cannot be read."""
    began = time.monotonic()
    seen = observe_maps(run)
    drives = [node for node in seen.disk_of(volume.devno) if node.devno in seen.nodes]
    before = {drive.devno: (_used(drive), read_disk_activity.read_account(drive.name)) for drive in drives}
    kept = write_scratch_file.create(volume.path, options.scratch, volume.devno)
    try:
        trimmed = write_scratch_file.create(volume.path, options.scratch, volume.devno)
        try:
            there = spread(seen.nodes, volume.devno, trimmed.spans)
            looks = [_Look(drive, there.get(drive.devno, []), before[drive.devno]) for drive in drives]
            os.ftruncate(trimmed.fd, 0)
            os.fsync(trimmed.fd)
        except OSError as fault:
            raise PlumblineError("%s: the scratch file could not be given back: %s" % (volume.path, fault.strerror or fault)) from fault
        finally:
            os.close(trimmed.fd)
        size = sum(span.length for span in trimmed.spans)
        try:
            done = _trim(kept.fd, trimmed.spans)
        except OSError as fault:
            if fault.errno != errno.EOPNOTSUPP:
                raise PlumblineError("%s: the trim failed: %s" % (volume.path, fault.strerror or fault)) from fault
            stops = [finding.text for finding in judge_trim_path(seen, volume.devno)]
            return trim_result(volume.title, [], 0, time.monotonic() - began, ["the filesystem takes no trim", *stops], offered=False)
        beside = spread(seen.nodes, volume.devno, kept.spans)
        drives_seen = [look.seen(seen, beside.get(look.drive.devno, []), options) for look in looks if look.spans]
    finally:
        os.close(kept.fd)
    why = []
    if done < size:
        why.append("the filesystem trimmed %s of the %s that were given back" % (human(done), human(size)))
    if len(drives_seen) < len(drives) or not drives_seen:
        why.append("the bytes of the filesystem cannot be followed to all of its drives")
    return trim_result(volume.title, drives_seen, done, time.monotonic() - began, why)


def _trim(fd: int, spans: Sequence[Span]) -> int:
    """Trim the block groups in which *spans* lie. Returns how many bytes that was, of which some may count twice.

    Whole groups: up to Linux 6.5 ext4 takes a group for trimmed of which only a part was asked for (ext4_trim_all_free()).
    """
    group = 8 * os.fstatvfs(fd).f_bsize ** 2
    begin, end = round_down(min(span.start for span in spans), group), round_up(max(span.end for span in spans), group)
    done = 0
    for _turn in range(TURNS):
        done += ask_file.trim(fd, begin, end - begin)
        time.sleep(PAUSE_SECONDS)
    return done


def _used(drive: Node) -> Optional[int]:
    """Bytes that an NVMe namespace has in use (NUSE)."""
    namespace = block_device.identify_namespace(drive.path, drive.identity.nsid) if drive.identity.transport == "nvme" else None
    return namespace["nuse"] * drive.limits.logical if namespace else None


def _counted(asked: int, accounts: Sequence[Optional[read_disk_activity.Account]]) -> Optional[int]:
    """Bytes of discards that the kernel counted between the last two accounts; None where it did not count the file's writes before either."""
    before, full, after = accounts
    if before is None or full is None or after is None or full.written - before.written < asked:
        return None
    return after.discarded - full.discarded


def _blanks(drive: Node) -> Tuple[bool, Sequence[bytes]]:
    """Whether a drive says what it returns for discarded blocks, and what else than data that may be: one byte each."""
    if drive.identity.transport == "nvme":
        namespace = block_device.identify_namespace(drive.path, drive.identity.nsid)
        word = int(namespace["dlfeat"]) & 0x7 if namespace else 0  # DLFEAT bits 2:0: 1 zeros, 2 ones, 0 not reported
        return word in (1, 2), (b"\xff",) if word == 2 else (b"\0",)
    return zeros_after_trim(read_sysfs.read_bytes("/sys/class/block/%s/device/vpd_pg89" % drive.name)[60:572]), (b"\0",)


class _Look:
    """One drive, from before the trim until after it."""

    def __init__(self, drive: Node, spans: Sequence[Span], before: Tuple[Optional[int], Optional[read_disk_activity.Account]]) -> None:
        """*spans*: where the file lies on it that will be trimmed. Raises PlumblineError where that does not hold the file's data."""
        self.drive, self.spans, self.before = drive, list(spans), before
        self.dice = random.Random(int.from_bytes(os.urandom(16), "big"))
        self.full = _used(drive)
        self.account = read_disk_activity.read_account(drive.name)
        granule = max(drive.limits.discard_granularity or 0, READ)
        inner = [Span(round_up(span.start, granule), round_down(span.end, granule) - round_up(span.start, granule)) for span in spans]
        self.places = Places([span for span in inner if span.length > 0], READ)
        self.samples = self._read([self.dice_place(self.places) for _turn in range(SAMPLES)] if self.places.total else [])

    def dice_place(self, places: Places) -> int:
        return places.draw(self.dice, READ, READ, 0)

    def _read(self, where: Sequence[int]) -> Dict[int, bytes]:
        try:
            return dict(block_device.read_pieces(self.drive.path, [(place, READ) for place in where]))
        except OSError as fault:
            raise PlumblineError("%s: it could not be read: %s" % (self.drive.path, fault.strerror or fault)) from fault

    def _contents(self, blanks: Sequence[bytes]) -> str:
        """What became of the places that held the file's random data."""
        now = self._read(list(self.samples))
        if any(not any(raw) for raw in self.samples.values()) or not now:
            return CHANGED  # the file was not there: the drive is not understood
        if all(raw.count(raw[:1]) == len(raw) and raw[:1] in blanks for raw in now.values()):
            return BLANK
        return KEPT if now == self.samples else CHANGED

    def seen(self, host: Observation, beside: Sequence[Span], options: Options) -> DriveSeen:
        """What became of the file. *beside*: where the other one lies on the drive."""
        drive, asked = self.drive, sum(span.length for span in self.spans)
        promised, blanks = _blanks(drive)
        (unused, account), use = self.before, _used(drive)
        drive_seen = DriveSeen(
            name=drive.name,
            asked=asked,
            counted=_counted(asked, [account, self.account, read_disk_activity.read_account(drive.name)]),
            used=None if unused is None or self.full is None or use is None else (unused, self.full, use),
            contents=self._contents(blanks),
            promised=promised,
        )
        written = Places(beside, READ)
        if not wants_timing(drive_seen) or not written.total or not self.places.total:
            return drive_seen
        timing = self._time(host, written, options)
        return drive_seen._replace(faster=timing.faster, ratio=timing.ratio, contents=self._contents(blanks))

    def _time(self, host: Observation, written: Places, options: Options) -> Timing:
        timing = Timing(options.min_ratio)
        target = target_of(host, self.drive, spans=[*self.places.spans, *written.spans])
        with Probe(target, READ, SweepLimits(max_seconds=options.seconds)) as probe:
            while timing.faster is None:
                order = [0, 1]
                self.dice.shuffle(order)
                latencies = probe.round([self.dice_place((self.places, written)[kind]) for kind in order], READ)
                if latencies is None:
                    break
                by_kind: Mapping[int, float] = dict(zip(order, latencies))
                timing.add(by_kind[0], by_kind[1])
        return timing
