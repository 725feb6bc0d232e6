# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of hosts for the report: what the modules return of hosts in memory, by the modules' own code, with known faults. All from a seed.

The drives are those of tests/unit/fixtures/health.json (captured from real ones). Stacks are judged by the static proof, links by their rules,
measurements by the judgement of their modules. Only the samples that a measurement would take are made up.
"""

from __future__ import annotations

import random

from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, Link, LinkEnd
from ansible_collections.plumbline.ssd.plugins.module_utils._core.packing import pack
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import worst
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Source
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.report import Known, health_result
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.share import JobShare, Share, judge_share, throughput_as_dict
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.report import figures
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.rows import ROWS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.samples import Samples
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim.verdict import VERDICTS, DriveSeen, judge_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import PlanAnswer, StorageReading
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.device_table import device_result
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.stack_table import view_report
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils import smart
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host, spec

HEALTHY = ("intel-p4510-8tb", "samsung-pm9a3-3t84-mzql2", "toshiba-kxg60-512g-4k", "micron-7450max-3t2")
# Kind → what is wrong with such a host.
KINDS = {
    "healthy": "nothing",
    "sector_63": "partitions begin at sector 63",
    "wrong_stripe": "the filesystem has another stride than the volume",
    "no_barriers": "mounted with barrier=0 over volatile caches",
    "slow_link": "a drive has half the lanes",
    "worn": "a drive has used most of its endurance",
    "fixed_use": "the drives say nothing of what is trimmed",
    "unfinished": "steps of its plan are left",
    "failing": "a drive says that it fails",
    "no_ssd": "it has no SSD",
    "unreachable": "it does not answer",
    "failed_module": "a module failed",
}
_NOW = 1_772_366_400  # 2026-03-01T12:00:00Z
_ROW = next(row for row in ROWS if row.name == "fdatasync")


def make_record(name: str, kind: str, seed: str) -> dict[str, object]:
    """The record of one host."""
    dice = random.Random(f"{seed}/{name}/{kind}")
    record: dict[str, object] = {"host": name, "time": "2026-03-01T12:00:00Z"}
    if kind == "unreachable":
        return {**record, "unreachable": "Failed to connect to the host via ssh: no route to host"}
    host, disks, model = _make_host(kind, dice)
    views = [] if kind == "no_ssd" else [view(host.seen, devno) for devno in tops(host.seen, None)]
    record["device_info"] = {"changed": False, "devices": device_result(host.seen)["devices"]}
    record["stack_info"] = {
        "changed": False,
        "stacks": [one.as_dict() for one in views],
        "findings": [finding.as_dict() for one in views for finding in one.findings],
        "report": [line for one in views for line in view_report(one)],
    }
    record["drive_health"] = {"changed": False, **_health(host, disks, model, kind, dice)}
    record["conditions"] = {
        "kernel": dice.choice(("6.1.0-28-amd64", "6.1.0-28-amd64", "6.12.38+deb13-amd64")),
        "collection": "0.1.0",
        "fio": "3.33",
        "CPUs": dice.choice((16, 32)),
        "command": "ansible-playbook storage.yml --tags plumbline_verify",
    }
    if kind == "failed_module":
        record["drive_health"] = {"failed": True, "msg": "smartctl did not end within 30 s", "reasons": []}
    if kind not in ("no_ssd", "unfinished"):
        record.update(_measured(host, disks, kind, dice))
    if kind == "unfinished":
        plan = make_plan(spec(host, disks), host.seen)
        record["stack_plan"] = {"changed": True, "steps": [dict(step) for step in plan.steps], "stacks": [], "findings": []}
    return record


def make_answer(name: str, kind: str, seed: str) -> dict[str, object]:
    """What the module audit returns from the same host."""
    dice = random.Random(f"{seed}/{name}/{kind}")
    host, disks, model = _make_host(kind, dice)
    reading = StorageReading(host.seen, {}, {}, Keeping({}, True, ()), _NOW)
    return {"drive_health": _health(host, disks, model, kind, dice), "storage": {"answer": pack(PlanAnswer(reading, "", {}))}}


def _make_host(kind: str, dice: random.Random) -> tuple[Host, list[str], str]:
    """(the host, its disks, the model of its drives)."""
    model = dice.choice(HEALTHY)
    host = Host()
    limits = Limits(512, 4096, 4096, 0, 0)
    disks = host.pair(dice.choice((2, 2, 2, 4)), size=800 * GIB, limits=limits, model=smart.model_of(smart.record(model)), rotational=kind == "no_ssd")
    for number, disk in enumerate(disks):
        width = 2 if kind == "slow_link" and not number else 4
        ends = LinkEnd(f"0000:00:1d.{number}", 8000, 4), LinkEnd(f"0000:{number + 1:02x}:00.0", 8000, 4)
        host.seen.drive_links[disk] = (Link(PCIE, *ends, 8000, width),)
    _build(host, disks, kind)
    return host, disks, model


def _build(host: Host, disks: list[str], kind: str) -> None:
    """Give a host its volume, with the fault of its kind."""
    if kind in ("no_ssd", "unfinished"):
        return
    start = 63 * 512 if kind == "sector_63" else MIB
    parts = [host.part(disk, start, 700 * GIB) for disk in disks]
    chunk = 64 * KIB
    size = 600 * GIB // (chunk * len(parts)) * chunk * len(parts)
    volume = host.mapped("pgdata-data", [Segment(0, size, "striped", chunk, tuple((part, MIB) for part in parts))])
    stride = 32 if kind == "wrong_stripe" else chunk // 4096
    host.ext4(volume, "data", stride, stride * len(parts))
    host.mount(volume, "/data01", ("rw", "noatime", "nobarrier") if kind == "no_barriers" else ("rw", "noatime"))


def _health(host: Host, disks: list[str], model: str, kind: str, dice: random.Random) -> dict[str, object]:
    drives = []
    for number, disk in enumerate(disks):
        known = smart.health_of(smart.record(model))
        identity = host.seen.nodes[disk].identity
        used = dice.randrange(3, 40)
        health = known._replace(serial=identity.serial, wwn=identity.wwid, used=used, used_source="percentage used", temperature=dice.randrange(31, 48))
        counters = dict(health.counters, power_on_hours=dice.randrange(8_000, 30_000), media_errors=0, error_log_entries=0)
        health = health._replace(counters=counters, critical_warning=0)
        if kind == "worn" and number == 0:
            health = health._replace(used=93)
        if kind == "failing" and number == 0:
            health = health._replace(passed=False)
        drives.append((Source("/dev/" + host.seen.nodes[disk].name, (host.seen.nodes[disk].name,)), health))
    return health_result(drives, Known(now=_NOW))


def _measured(host: Host, disks: list[str], kind: str, dice: random.Random) -> dict[str, object]:
    """What the measurements of a proof would return, as the registers of loops hold it."""
    names = [host.seen.nodes[disk].name for disk in disks]
    item = {"stack": "pgdata", "volume": "data"}
    jobs = [_job(name, names, host, kind, dice) for name in ("seq_read", "rand_read")]
    off = kind == "sector_63"
    sweep = {
        "measure": "offset_sweep", "verdict": "phase", "phase_bytes": 512 if off else 0, "grain_bytes": 8192, "ratio": 1.62, "excluded_ratio": 0.0,
        "expected_bytes": 0, "contradicts": off, "reads": dice.randrange(300, 900), "seconds": round(dice.uniform(2, 9), 2), "reasons": [],
        "culprit": f"partition {names[0]}p1" if off else "", "report": [f"the volume reads fastest at offset {512 if off else 0} of 8 KiB, 1.62 times"],
    }  # fmt: skip
    samples = Samples()
    usual = 60_000 if kind == "no_barriers" else 410_000  # nanoseconds
    for _piece in range(8):
        latencies = [int(usual * dice.lognormvariate(0, 0.15)) for _write in range(120)]
        samples.add(latencies, sum(latencies))
    sync = {"measure": "sync_latency", "verdict": "pass", "reasons": [], "path": "/data01", "rows": [figures(_ROW, samples)], "report": []}
    asked = 64 * MIB // len(names)
    used = (900, 900, 900) if kind == "fixed_use" else (0, asked, 0)
    seen = [DriveSeen(name, asked, asked, used, "kept" if kind == "fixed_use" else "blank") for name in names]
    told = [(one, *judge_drive(one)) for one in seen]
    trim = "reached" if all(verdict == "reached" for _one, verdict, _why in told) else "cannot_tell"
    fstrim = {
        "measure": "fstrim_proof", "verdict": VERDICTS[trim], "trim": trim, "offered": True, "trimmed_bytes": 64 * MIB, "report": [],
        "reasons": [f"{one.name}: {why}" for one, verdict, why in told if verdict != "reached"],
        "drives": [
            {"device": one.name, "trim": verdict, "why": why, "asked_bytes": one.asked, "counted_bytes": one.counted, "used_bytes": list(one.used or ()),
             "contents": one.contents, "promised": False, "faster": None, "ratio": None}
            for one, verdict, why in told
        ],
    }  # fmt: skip
    throughput = {"measure": "throughput", "verdict": worst([str(job["verdict"]) for job in jobs]), "jobs": jobs, "volumes": ["/dev/pgdata/data"]}
    throughput["reasons"] = [f"{job['name']}: {job['why']}" for job in jobs if job["verdict"] != "pass"]
    results = {"offset_sweep": sweep, "throughput": throughput, "sync_latency": sync, "fstrim_proof": fstrim}
    return {name: {"changed": False, "results": [{**one, "item": item, "ansible_loop_var": "item"}]} for name, one in results.items()}


def _job(name: str, legs: list[str], host: Host, kind: str, dice: random.Random) -> dict[str, object]:
    """One job of a comparison, its share judged as the module does."""
    true = 0.52 if kind == "sector_63" and name == "rand_read" else 0.985
    half = dice.uniform(0.004, 0.02)
    share = Share(true + dice.uniform(-half, half), true - half, true + half)
    verdict = judge_share(share, 0.9)
    raw = [(leg, dice.uniform(1.0e9, 1.2e9)) for leg in legs]
    total = sum(rate for _leg, rate in raw)
    why = f"share {share.share:.3f} ({share.low:.3f} to {share.high:.3f}); wanted at least 0.9"
    found = JobShare(share, total * true, total, total * true / 8192, total / 8192, 24, verdict, why, dice.uniform(0.1, 0.4), tuple(raw), ())
    links = {host.seen.nodes[disk].name: ways for disk, ways in host.seen.drive_links.items()}
    return throughput_as_dict(name, found, links)


def make_kinds(count: int, seed: str) -> list[str]:
    """The kinds of so many hosts: each kind once as far as they go, then most of them healthy."""
    dice = random.Random(seed)
    rest = [dice.choice(list(KINDS)) if dice.random() < 0.15 else "healthy" for _host in range(max(0, count - len(KINDS)))]
    return [*KINDS][:count] + rest
