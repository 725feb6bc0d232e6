# SPDX-License-Identifier: GPL-3.0-or-later
"""Loading volumes and their legs with fio: what may be loaded, where, and how long. I/O.

Nothing is written but with Options.write, on volumes that are proven to be ours and empty while they are held open alone,
and the unnamed scratch file of a path.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, change_sysfs_settings, load_mark, read_sysfs, write_scratch_file
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ask_drive import controllers
from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import pinned
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import device_path
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import Link
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_disks import read_drive_links
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio as measure_fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import keep_baseline as records_baseline
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import share
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.held_volumes import held_alone, node_path, prove
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.run_fio import EDGE_BYTES, buffer_of, find_fio, read_piece, run_fio, told_if_gone
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput import placement
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.options import RANDOM, SEQUENTIAL, Options
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe_maps

_MOST_SHOWN = 8  # ranges of a leg in the result, which has to stay small
_MOST_CPUS = 8  # more random jobs than that show nothing more
_FILL_RATE = MIB  # bytes per second below which a fill is taken to hang


class Side(NamedTuple):
    """One device of a side, a leg or a volume: its name for people, and what of it is loaded."""

    name: str
    places: Tuple[Place, ...]


class Result(NamedTuple):
    """The whole result of a measurement. *jobs* by name; bytes as fio counted them, with its ramps by their rate."""

    jobs: List[Tuple[str, share.JobShare]]
    legs: List[Dict[str, Any]]
    volumes: List[str]
    read_bytes: int
    written_bytes: int
    seconds: float
    notes: List[str]
    baseline: Dict[str, Any]
    nomerges: Dict[str, str]
    links: Dict[str, Tuple[Link, ...]]  # by the name of the leg's disk


def resolve(nodes: Mapping[str, Node], names: Sequence[str]) -> List[str]:
    """Device numbers of volumes by path or name below /dev/disk/by-id. Raises PlumblineError for what is no block device, or named twice."""
    devnos: List[str] = []
    for name in names:
        path = device_path(name)
        try:
            status = os.stat(path)
        except OSError as fault:
            raise PlumblineError("%s is not there: %s; name a logical volume, a partition or a disk" % (path, fault.strerror or fault)) from fault
        devno = read_sysfs.devno(status.st_rdev) if stat.S_ISBLK(status.st_mode) else ""
        if devno not in nodes:
            raise PlumblineError("%s is no block device with a size; name a logical volume, a partition or a disk" % path)
        if devno in devnos:
            raise PlumblineError("%s is named twice among the volumes, as %s" % (node_path(nodes[devno]), path))
        devnos.append(devno)
    return devnos


class Session:
    """One measurement under way: where the load goes, what it has cost so far."""

    def __init__(self, fio: str, options: Options, nodes: Mapping[str, Node], spans: Mapping[str, Sequence[Span]]) -> None:
        self.fio = fio
        self.options = options
        self.nodes = nodes
        self.mapped = {devno: placement.map_volume(nodes, devno, loaded) for devno, loaded in spans.items()}
        pieces = placement.legs(nodes, list(self.mapped.values()))
        self.volumes = [
            Side(nodes[devno].title or nodes[devno].name, tuple(Place(node_path(nodes[devno]), *span) for span in mapped.spans))
            for devno, mapped in self.mapped.items()
        ]
        self.disks = sorted(pieces, key=lambda devno: nodes[devno].name)
        self.legs = [
            Side(nodes[devno].name, tuple(Place(node_path(nodes[piece.node]), piece.start, piece.length) for piece in pieces[devno])) for devno in self.disks
        ]
        self.below = sorted({piece.node for mapped in self.mapped.values() for piece in mapped.pieces})
        self.copies = min((placement.copies_of_bytes(nodes, devno) for devno in self.mapped), default=1)
        self.mark = os.urandom(load_mark.MARK_BYTES)
        self.began = time.monotonic()
        self.read_bytes = 0
        self.written_bytes = 0

    def bind(self, held: Mapping[str, int]) -> None:
        """Load what is held (device number → descriptor) by its descriptor from now on, and not by its name."""
        files = {node_path(self.nodes[devno]): fd for devno, fd in held.items()}

        def bound(sides: Sequence[Side]) -> List[Side]:
            return [side._replace(places=tuple(place._replace(fd=files[place.path]) for place in side.places)) for side in sides]

        self.volumes, self.legs = bound(self.volumes), bound(self.legs)

    def places(self, side: str, count: int) -> List[Place]:
        """The places of all jobs of a side, *count* of them together."""
        devices = self.legs if side == share.LEGS else self.volumes
        return [place for device in devices for place in placement.deal(device.places, count // len(devices))]

    def load(self, job: str) -> Tuple[measure_fio.Load, int]:
        """How a job loads, and by how many jobs of fio; the same on both sides."""
        legs = len(self.legs)
        at_least = {"seq_read": legs, "seq_write": self.options.writers}.get(job, min(os.cpu_count() or 1, _MOST_CPUS, self.options.depth * legs))
        sides = [[len(device.places) for device in devices] for devices in (self.legs, self.volumes)]
        count = placement.jobs_for(at_least, sides)
        outstanding = {"seq_read": max(self.options.depth // 4, 1) * legs, "seq_write": 1}.get(job, self.options.depth * legs)
        pattern = {"seq_read": "read", "rand_read": "randread", "seq_write": "write", "rand_write": "randwrite"}[job]
        return measure_fio.Load(job, pattern, SEQUENTIAL if job.startswith("seq") else RANDOM, -(-outstanding // count)), count

    @property
    def ramp(self) -> float:
        return min(self.options.block_seconds / 4, 2.0)

    def block(self, load: measure_fio.Load, side: str, places: Sequence[Place]) -> share.Block:
        """Load one side once."""
        seconds = self.options.block_seconds
        with told_if_gone([self.nodes[devno].name for devno in self.disks]):
            out, busy = run_fio(measure_fio.argv(self.fio, load, places, seconds, self.ramp, self.mark), self.ramp, seconds, "%s on the %s" % (load.name, side))
            result = measure_fio.parse_output(out, places)
        moved = round(result.bytes * (1 + self.ramp / seconds))
        if load.writes:
            self.written_bytes += moved
        else:
            self.read_bytes += moved
        rates: Tuple[Tuple[str, float], ...] = ()
        if side == share.LEGS:
            rates = tuple((leg.name, sum(result.rates[path] for path in {place.path for place in leg.places})) for leg in self.legs)
        times = self.copies if load.writes and side == share.VOLUMES else 1  # each copy is written
        return share.Block(result.rate * times, result.iops * times, busy, result.busiest, rates)

    def measure(self, job: str, seconds: float, stored: Sequence[float]) -> share.JobShare:
        """All blocks of one job, within so many seconds."""
        load, count = self.load(job)
        places = {side: self.places(side, count) for side in (share.LEGS, share.VOLUMES)}
        turn = share.blocks_of_turn(stored)
        deadline = time.monotonic() + seconds
        costs = [(self.ramp + self.options.block_seconds, 0)]  # seconds and bytes of each block
        asked = [0]

        def run(side: str) -> Optional[share.Block]:
            longest, most = (max(column) for column in zip(*costs))
            whole = asked[0] % turn == 0  # a turn that would not be finished is not begun
            if whole and (time.monotonic() + turn * longest > deadline or self._spent(turn * most)):
                return None
            asked[0] += 1
            began, before = time.monotonic(), self.read_bytes + self.written_bytes
            block = self.block(load, side, places[side])
            costs.append((time.monotonic() - began, self.read_bytes + self.written_bytes - before))
            return block

        with change_sysfs_settings.changed(self.queues("2") if self.options.nomerges and job.startswith("seq") else {}):
            return share.drive(share.measure_share(self.options.share, stored), run)

    def _spent(self, more: int) -> bool:
        return bool(self.options.max_bytes) and self.read_bytes + self.written_bytes + more > self.options.max_bytes

    def queues(self, value: str) -> Dict[str, str]:
        """nomerges of every queue that the load passes: of the disks, and of the volumes that have one of their own."""
        names = [self.nodes[devno].name for devno in self.disks]
        names += [self.nodes[devno].name for devno in self.mapped if self.nodes[devno].kind != "part"]
        paths = ["/sys/class/block/%s/queue/nomerges" % name for name in dict.fromkeys(names)]
        return {path: value for path in paths if os.path.exists(path)}

    def compare(self, held: Mapping[str, int]) -> None:
        """Show by contents that the legs' bytes are the volumes' bytes: what is at the edges of every range is read on both ways.

        A volume that is *held* gets random marks there first, so that equal contents cannot be a coincidence. Raises PlumblineError
        where they differ: then the mapping is not understood, and no write follows.
        """
        for devno, mapped in self.mapped.items():
            for span in mapped.spans:
                for at, node, byte in placement.edges(self.nodes, devno, span, EDGE_BYTES):
                    if node != devno:
                        self._compare_at(devno, at, node, byte, held.get(devno, -1))
                        if not any(piece.node == node and piece.start <= byte < piece.start + piece.length for piece in mapped.pieces):
                            raise PlumblineError("%s: byte %d lies outside of the ranges that were worked out" % (self.nodes[devno].path, at))

    def _compare_at(self, devno: str, at: int, node: str, byte: int, own: int) -> None:
        upper, lower = node_path(self.nodes[devno]), node_path(self.nodes[node])
        try:
            if own >= 0:
                with buffer_of(measure_fio.marked(self.mark, EDGE_BYTES)) as written:
                    os.pwritev(own, [written], at)
                self.written_bytes += EDGE_BYTES
            for _try in range(10):  # on a volume in use a write may fall between both readings
                if read_piece(upper, at) == read_piece(lower, byte):
                    return
        except OSError as fault:
            raise PlumblineError("%s, or %s below it, could not be read: %s" % (upper, lower, fault.strerror or fault)) from fault
        raise PlumblineError(
            "%s: what is at its byte %d is not what is at byte %d of %s, where it should lie; nothing is measured on a mapping that is not understood"
            % (upper, at, byte, lower)
        )

    def fill(self) -> None:
        """Write every byte that will be loaded, through the volumes: flash answers for what was never written without its medium."""
        places = [place for volume in self.volumes for place in volume.places]
        total = sum(place.length for place in places)
        argv = measure_fio.fill_argv(self.fio, places, SEQUENTIAL, max(self.options.depth // 4, 1), self.mark)
        run_fio(argv, 0, total / _FILL_RATE, "the fill of the volumes")
        self.written_bytes += total


def measure_volumes(run: Runner, options: Options, names: Sequence[str], check: bool) -> Result:
    """Measure block devices. With *check* nothing is written: where that was asked for, only whether it might be."""
    fio = find_fio()
    options = options._replace(keep=not check)
    seen = observe_maps(run)
    devnos = resolve(seen.nodes, names)
    _need_maps(seen, devnos)
    spans = {devno: [Span(0, min(options.span, seen.nodes[devno].size))] for devno in devnos}
    session = Session(fio, options, seen.nodes, spans)
    if not options.write:
        session.compare({})
        return _measure(session, [])
    with held_alone(seen, devnos) as held, contextlib.ExitStack() as below:
        prove(run, seen, held)
        session.bind({**{devno: below.enter_context(pinned(seen.nodes[devno])) for devno in session.below}, **held})
        if check:
            return _result(session, [], ["check mode: nothing is written, so nothing was measured; the volumes may be written to"], records_baseline.Baseline())
        notes = ["a write counts %d times: each copy of it is one on a leg" % session.copies] if session.copies > 1 else []
        keep_begun.add_mark(session.mark)
        try:
            session.compare(held)
            session.fill()
            result = _measure(session, notes)
        finally:
            notes += _discard(session, held)
    if os.path.exists("/run/udev/control"):  # udev looks at what was open for writing once it is closed, and must not be in the way of mkfs
        run(["udevadm", "settle", "--timeout=30"])
    return result


def measure_paths(run: Runner, options: Options, paths: Sequence[str], check: bool) -> Result:
    """Measure the volumes below mounted filesystems, by reads where a scratch file of ours lies."""
    fio = find_fio()
    for path in paths:
        write_scratch_file.check_room(path, options.scratch)
    if check:
        return Result([], [], list(paths), 0, 0, 0.0, ["check mode: nothing is written, so there is no scratch file and nothing was measured"], {}, {}, {})
    seen = observe_maps(run)
    volumes: Dict[str, str] = {}
    for path in paths:  # all, before the first file is made
        devno = read_sysfs.devno(os.stat(path).st_dev)
        if devno not in seen.nodes:
            raise PlumblineError("%s is not on one block device (device number %s); name the volumes themselves" % (path, devno))
        if devno in volumes:
            raise PlumblineError("%s is on the same volume as another of the paths; name one of them" % path)
        volumes[devno] = path
    _need_maps(seen, list(volumes))
    spans: Dict[str, List[Span]] = {}
    with contextlib.ExitStack() as open_files:
        for devno, path in volumes.items():
            scratch = write_scratch_file.create(path, options.scratch, devno)
            open_files.callback(os.close, scratch.fd)
            spans[devno] = scratch.spans
        session = Session(fio, options, seen.nodes, spans)
        session.written_bytes += options.scratch * len(paths)
        session.compare({})
        return _measure(session, [])


def _need_maps(seen: Observation, devnos: Sequence[str]) -> None:
    """Raise PlumblineError where a mapped device is asked about and nothing shows its mapping."""
    mapped = [node for devno in devnos for node in [seen.nodes[devno]] if node.title]
    if mapped and "dmsetup" not in seen.tools:
        raise PlumblineError("%s is a mapped device, and dmsetup is not on this host; install it (Debian: dmsetup, others: device-mapper)" % mapped[0].path)


def _discard(session: Session, held: Mapping[str, int]) -> List[str]:
    """Give the flash back what was written. A note for each volume that takes no discard."""
    notes = []
    for devno, fd in held.items():
        node = session.nodes[devno]
        try:
            if not node.discard_max:
                raise OSError(0, "it takes no discards")
            for span in session.mapped[devno].spans:
                block_device.discard(fd, span.start, span.length)
        except OSError as fault:
            notes.append("%s still holds what was written: %s" % (node.title or node.name, fault.strerror or fault))
    return notes


def _measure(session: Session, notes: List[str]) -> Result:
    """All jobs, each within its share of the time that is left."""
    options = session.options
    legs = tuple(records_baseline.raw_leg(session.nodes[devno]) for devno in session.disks)
    stored = records_baseline.load_baseline(options.baseline) if options.baseline else records_baseline.Baseline()
    if stored.legs:
        records_baseline.check_baseline_legs(stored, legs, options.baseline)
    elif options.baseline and not all(leg.key for leg in legs):
        raise PlumblineError("baseline: a leg has no stable identity, so that nobody could say later whether it is still the same one; leave baseline out")
    parameters = {job: _parameters(session, job) for job in options.jobs}
    reused = {job: _reused(stored, job, parameters[job], options, notes) for job in options.jobs}
    end = time.monotonic() + options.max_seconds
    results: List[Tuple[str, share.JobShare]] = []
    for number, job in enumerate(options.jobs):
        left = (end - time.monotonic()) / (len(options.jobs) - number)
        results.append((job, session.measure(job, left, reused[job])))
    if options.baseline:
        stored = _keep(stored, legs, parameters, results, options, notes)
    return _result(session, results, notes, stored)


def _parameters(session: Session, job: str) -> Dict[str, Any]:
    load, count = session.load(job)
    return {"pattern": load.pattern, "block": load.block, "depth": load.depth, "jobs": count, "nomerges": session.options.nomerges and job.startswith("seq")}


def _reused(stored: records_baseline.Baseline, job: str, parameters: Mapping[str, Any], options: Options, notes: List[str]) -> Tuple[float, ...]:
    """The raw rates to use instead of loading the legs; none where they are to be loaded. Raises PlumblineError for another job's."""
    raw = stored.jobs.get(job)
    if raw is None:
        return ()
    differing = records_baseline.differing_parameters(raw, parameters)
    if not options.reuse:
        if differing:
            notes.append("%s: the baseline of %s is of another load: %s" % (job, raw.when, ", ".join(differing)))
        return ()
    if differing:
        raise PlumblineError(
            "baseline %s: its %s is of another load: %s; set reuse_baseline: false, or measure as then" % (options.baseline, job, ", ".join(differing))
        )
    notes.append(
        "%s: the legs were not loaded; their rates are the baseline's of %s. Not interleaved: whatever changed since then is in the share" % (job, raw.when)
    )
    return raw.rates


def _keep(
    stored: records_baseline.Baseline,
    legs: Tuple[records_baseline.RawLeg, ...],
    parameters: Mapping[str, Dict[str, Any]],
    results: Sequence[Tuple[str, share.JobShare]],
    options: Options,
    notes: List[str],
) -> records_baseline.Baseline:
    """Add to the file what it does not hold. What the devices did before stays what it was."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    judged = [(job, result) for job, result in results if result.share and result.raw_blocks]
    new = {job: records_baseline.Raw(parameters[job], result.raw_blocks, when) for job, result in judged if job not in stored.jobs}
    for job, result in results:
        raw = stored.jobs.get(job)
        if raw and result.raw_blocks and not records_baseline.differing_parameters(raw, parameters[job]):
            before = sum(raw.rates) / len(raw.rates)
            notes.append("%s: the legs gave %.1f MiB/s; in the baseline of %s it was %.1f" % (job, result.raw / MIB, raw.when, before / MIB))
    if new and options.keep:
        stored = records_baseline.Baseline(tuple(sorted(legs)), {**stored.jobs, **new})
        records_baseline.save_baseline(options.baseline, stored)
    return stored


def _links_of(node: Node) -> Tuple[Link, ...]:
    """The links of a leg. Of one with several paths none: how its reads are spread over them is not known."""
    return read_drive_links(node) if len(controllers(node)) < 2 else ()


def _result(session: Session, results: List[Tuple[str, share.JobShare]], notes: List[str], stored: records_baseline.Baseline) -> Result:
    legs = []
    for devno, side in zip(session.disks, session.legs):
        node = session.nodes[devno]
        shown = [{"device": place.path, "start_bytes": place.start, "length_bytes": place.length} for place in side.places[:_MOST_SHOWN]]
        legs.append(
            {
                "device": node.name,
                "model": node.identity.model,
                "serial": node.identity.serial,
                "size_bytes": node.size,
                "loaded_bytes": sum(place.length for place in side.places),
                "ranges": shown,
            }
        )
    changed = session.queues("2") if session.options.nomerges and any(job.startswith("seq") for job, _one in results) else {}
    return Result(
        jobs=results,
        legs=legs,
        volumes=[side.name for side in session.volumes],
        read_bytes=session.read_bytes,
        written_bytes=session.written_bytes,
        seconds=time.monotonic() - session.began,
        notes=notes,
        baseline=records_baseline.baseline_as_dict(stored) if session.options.baseline else {},
        nomerges=changed,
        links={node.name: _links_of(node) for node in (session.nodes[devno] for devno in session.disks)},
    )
