# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of a host: what has a sample and what has none, in the text format of Prometheus; and the files that read them."""

from __future__ import annotations

import json
import os
import re

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import SATA, Link, LinkEnd
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Source
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.report import Known, health_result
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor.metrics import METRICS, HostReading, Proof, failure_text, metrics_text
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.hostile import HOSTILE

NOW = 1_800_000_000
DOCS = os.path.join(os.path.dirname(__file__), *[".."] * 5, "docs", "monitoring")
SOUND = Health(
    source="smartctl", protocol="NVMe", model="M", serial="S1", firmware="F", wwn="eui.01", passed=True, critical_warning=0, used=12, spare=100,
    spare_threshold=10, temperature=38, counters={"power_on_hours": 5000, "host_bytes_written": 10**15},
)  # fmt: skip
SLOW = Link(SATA, LinkEnd("ata1", 6000), LinkEnd("", 6000), 3000, 1)
FULL = Link(SATA, LinkEnd("ata1", 6000), LinkEnd("", 6000), 6000, 1)
# name, labels, value; the labels' values with escapes.
LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*)\})? (-?[0-9.e+-]+)')


def drives_of(*healths):
    return health_result([(Source("/dev/nvme%d" % number, ("nvme%dn1" % number,)), one) for number, one in enumerate(healths)], Known(NOW))["drives"]


def samples(text):
    """Name and labels → value; every line is in the format, and every name is declared before its samples."""
    found, declared = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.add(line.split()[2])
        if not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match and match.group(1) in declared and match.group(1) in METRICS, line
            key = match.group(1) + (" " + match.group(2) if match.group(2) else "")
            assert key not in found, "twice: " + key
            found[key] = float(match.group(3))
    assert text.endswith("\n")
    return found


def read(*healths, **more):
    return samples(metrics_text(HostReading(NOW, 1.25, drives_of(*healths), **more)))


def test_a_sound_drive():
    found = read(SOUND, links={"nvme0n1": (FULL, SLOW)})
    drive = 'drive="wwn:eui.01"'
    assert {name: found["plumbline_%s %s" % (name, drive)] for name in (
        "drive_read", "drive_failing", "drive_used_ratio", "drive_spare_ratio", "drive_temperature_celsius", "drive_written_bytes_total",
        "link_bytes_per_second", "link_target_bytes_per_second",
    )} == {
        "drive_read": 1, "drive_failing": 0, "drive_used_ratio": 0.12, "drive_spare_ratio": 1, "drive_temperature_celsius": 38,
        "drive_written_bytes_total": 1e15, "link_bytes_per_second": 279e6, "link_target_bytes_per_second": 558e6,
    }  # fmt: skip
    assert found['plumbline_drive_info %s,model="M",serial="S1",firmware="F",protocol="NVMe"' % drive] == 1
    assert (found["plumbline_reading_success"], found["plumbline_reading_time_seconds"], found["plumbline_drives_unidentified"]) == (1, NOW, 0)
    assert "nvme0n1" not in metrics_text(HostReading(NOW, 1, drives_of(SOUND)))


def test_what_is_not_known_has_no_sample():
    found = read(Health(fault="it went away", serial="S2", model="M"))
    assert found['plumbline_drive_read drive="serial:M/S2"'] == 0 and found['plumbline_drive_findings drive="serial:M/S2",level="warning"'] == 1
    assert not [key for key in found if "failing" in key or "_ratio" in key or "days" in key or "link" in key]


def test_a_virtual_disk_is_neither_read_nor_unread():
    """An alert on what cannot be read would fire for ever on each virtual machine."""
    found = read(Health(fault="it has no SMART", serial="S2", model="QEMU HARDDISK", virtual="QEMU", unsupported=True))
    assert [key for key in found if key.startswith("plumbline_drive_")] and not [key for key in found if "drive_read" in key or "failing" in key]
    assert not [key for key in found if "drive_findings" in key and 'level="info"' not in key and found[key]]


def test_a_drive_that_is_left_out_fires_no_alert():
    """Not even for its link. That it is left out is a metric, too."""
    out = Health(fault="it is left out", serial="S2", model="M", left_out="it is the root disk")
    found = read(out, links={"nvme0n1": (FULL, SLOW)})
    names = sorted(key.split(" ")[0] for key in found if key.startswith(("plumbline_drive_", "plumbline_link")))
    assert names == ["plumbline_drive_info", "plumbline_drive_left_out"] and found['plumbline_drive_left_out drive="serial:M/S2"'] == 1


def test_findings_on_the_host_itself():
    one, other = Finding("error", "write_cache", "sda", "on", "off", "kept_state"), Finding("warning", "host", "/var/lib", "0700", "0755", "services_folder")
    found = read(findings=[one, one, other])
    assert found['plumbline_host_findings layer="write_cache",level="error"'] == 2 and found['plumbline_host_findings layer="host",level="warning"'] == 1
    assert not [key for key in read() if "host_findings" in key]


def test_a_drive_that_fails_and_one_that_is_worn():
    found = read(SOUND._replace(passed=False), SOUND._replace(wwn="eui.02", used=131))
    assert found['plumbline_drive_failing drive="wwn:eui.01"'] == 1 and found['plumbline_drive_used_ratio drive="wwn:eui.02"'] == 1.31
    assert found['plumbline_drive_failing drive="wwn:eui.02"'] == 0 and found['plumbline_drive_findings drive="wwn:eui.02",level="warning"'] >= 1


def test_drives_that_cannot_be_told_apart_are_counted():
    found = read(SOUND, SOUND, SOUND._replace(wwn="", serial="none"))
    assert found["plumbline_drives_unidentified"] == 3 and not [key for key in found if "plumbline_drive_" in key]


def test_counters_of_128_bits():
    assert read(SOUND._replace(counters={"host_bytes_written": 2**128}))['plumbline_drive_written_bytes_total drive="wwn:eui.01"'] == 2.0**128


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names(text):
    found = read(
        SOUND._replace(model=text, serial=text, firmware=text), stacks=[{"name": text, "findings": [], "not_followed": []}], proofs=[Proof(text, True, NOW)]
    )
    assert len([key for key in found if key.startswith("plumbline_drive_info")]) == 1
    metrics_text(HostReading(NOW, 1, drives_of(SOUND._replace(model=text)))).encode("utf-8")


OFF = {"level": "error", "layer": "partition"}
LOST = {"level": "error", "layer": "mount"}


@pytest.mark.parametrize(
    ("findings", "not_followed", "aligned"), [((), (), 1), ((OFF,), (), 0), ((LOST,), (), 1), ((), ("dm-3",), None), ((OFF,), ("dm-3",), 0)]
)
def test_stacks(findings, not_followed, aligned):
    found = read(stacks=[{"name": "pgdata-data", "findings": [*findings, *findings], "not_followed": list(not_followed), "size_bytes": 1 << 30}])
    assert found.get('plumbline_stack_aligned stack="pgdata-data"') == aligned
    assert found['plumbline_stack_size_bytes stack="pgdata-data"'] == 1 << 30
    assert {key: value for key, value in found.items() if "stack_findings" in key} == {
        'plumbline_stack_findings stack="pgdata-data",layer="%s",level="error"' % one["layer"]: 2 for one in findings
    }


RAID = {"name": "md-uuid-1", "maker": "md", "level": "raid1", "members": 2, "degraded": 0, "action": "idle", "progress": None, "mismatch_sectors": None}


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, {"degraded_members": 0, "syncing": 0, "checking": 0}),
        ({"degraded": 1, "action": "recover", "progress": 0.25}, {"degraded_members": 1, "syncing": 1, "checking": 0, "progress_ratio": 0.25}),
        ({"action": "waiting"}, {"degraded_members": 0, "syncing": 1, "checking": 0}),
        ({"action": "check", "progress": 0.5}, {"degraded_members": 0, "syncing": 0, "checking": 1, "progress_ratio": 0.5}),
        ({"mismatch_sectors": 0}, {"degraded_members": 0, "syncing": 0, "checking": 0, "mismatch_sectors": 0}),
        ({"mismatch_sectors": 128, "maker": "lvm"}, {"degraded_members": 0, "syncing": 0, "checking": 0, "mismatch_sectors": 128}),
    ],
)
def test_arrays(more, wanted):
    """A check is no sync, and an array that was not checked has no count of mismatches."""
    one = {**RAID, **more}
    found = {key: value for key, value in read(raids=[one]).items() if "_raid_" in key}
    about = 'plumbline_raid_info array="md-uuid-1",level="raid1",maker="%s"' % one["maker"]
    assert found == {about: 1, **{'plumbline_raid_%s array="md-uuid-1"' % name: value for name, value in wanted.items()}}


def test_proofs():
    found = read(proofs=[Proof("a", True, NOW - 5), Proof("b", False, None), Proof("c", True, None, accepted=True)])
    assert [found['plumbline_proof_accepted stack="%s"' % name] for name in "abc"] == [0, 0, 1]
    assert (found['plumbline_proof_passed stack="a"'], found['plumbline_proof_passed stack="b"']) == (1, 0)
    assert [key for key in found if "proof_time" in key] == ['plumbline_proof_time_seconds stack="a"']


def test_a_reading_that_failed():
    assert samples(failure_text(NOW, 2.5)) == {
        "plumbline_reading_success": 0,
        "plumbline_reading_time_seconds": NOW,
        "plumbline_reading_duration_seconds": 2.5,
    }


# --- the files that read them --------------------------------------------------------------------------


def doc(name):
    with open(os.path.join(DOCS, name), encoding="utf-8") as handle:
        return handle.read()


def test_rules_and_dashboard_name_metrics_that_exist():
    rules = [rule for group in yaml.safe_load(doc("plumbline.rules.yml"))["groups"] for rule in group["rules"]]
    panels = json.loads(doc("grafana_dashboard.json"))["panels"]
    expressions = [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]
    named = {word for text in expressions for word in re.findall(r"plumbline_\w+", text)}
    assert named <= set(METRICS) and len(rules) >= 10 and len(panels) >= 10
    assert all(re.search(r"plumbline_\w+", text) for text in expressions)
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_guide_has_every_metric_and_alert():
    with open(os.path.join(DOCS, "..", "docsite", "rst", "guide_monitoring.rst"), encoding="utf-8") as handle:
        guide = handle.read()
    rules = [rule["alert"] for group in yaml.safe_load(doc("plumbline.rules.yml"))["groups"] for rule in group["rules"]]
    assert [name for name in [*METRICS, *rules] if "``%s``" % name not in guide] == []
