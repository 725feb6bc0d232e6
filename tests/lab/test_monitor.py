# SPDX-License-Identifier: GPL-3.0-or-later
"""The monitor on a host: files that follow from what is there, a real smartd, node_exporter and Prometheus, and nothing left when it is taken back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from labkit.bench import SATA, Bench, Disk
from labkit.harness import ROOT, Harness
from labkit.specs import assert_error, said
from plumblab.qmp import Qmp

DISKS = [*SATA, {"name": "monvme", "bus": "nvme", "size": "64MiB", "serial": "MONVME1"}]
TEXTFILE = "/var/lib/prometheus/node-exporter"
METRICS = TEXTFILE + "/plumbline.prom"
DOCS = ROOT / "docs/monitoring"
PLACE = "/var/tmp/plumbline-monitor"
# Debian's smartd does not start in a virtual machine, and the lab's image masks it.
UNMASK = (
    "rm -f /etc/systemd/system/smartmontools.service /etc/systemd/system/smartd.service; mkdir -p /etc/systemd/system/smartmontools.service.d; "
    "printf '[Unit]\\nConditionVirtualization=\\n' > /etc/systemd/system/smartmontools.service.d/lab.conf; systemctl daemon-reload"
)
MASK = (
    "systemctl stop smartmontools; rm -r /etc/systemd/system/smartmontools.service.d; "
    "ln -sf /dev/null /etc/systemd/system/smartmontools.service; ln -sf /dev/null /etc/systemd/system/smartd.service; systemctl daemon-reload"
)
OURS = "ls -d /var/lib/plumbline/monitor /etc/systemd/system/plumbline-monitor.* /etc/systemd/system/*.wants/plumbline-monitor.* {metrics} {record} 2>/dev/null"


@pytest.fixture(scope="module")
def drives(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[Bench]:
    """SATA drives and an NVMe drive, and a smartd that may start."""
    harness.must(UNMASK)
    yield bench
    harness.must(MASK)


def monitor(harness: Harness, check: bool = False, **options: Any) -> dict[str, Any]:
    result = harness.module("monitor", options, check=check)
    assert not result["failed"], said(result)
    assert not result["traceback"]
    return result


def left_over(harness: Harness) -> str:
    return harness.run(OURS.format(metrics=METRICS, record="/var/lib/plumbline/monitor"))[1]


def read_now(harness: Harness) -> str:
    harness.must("systemctl start plumbline-monitor.service")
    return harness.must(f"cat {METRICS}")


def warn(bench: Bench, disk: Disk, bits: int) -> None:
    with Qmp(bench.paths) as qmp:
        qmp.command("qom-set", {"path": f"/machine/peripheral/{disk.name}", "property": "smart_critical_warning", "value": bits})


@pytest.mark.quick("monitor")
def test_it_is_put_there_once_and_taken_back(harness: Harness, drives: Bench) -> None:
    conf = harness.must("cat /etc/smartd.conf")
    with drives.untouched():
        assert monitor(harness, check=True)["changed"] and left_over(harness) == ""
        first = monitor(harness)
        assert (first["changed"], first.get("warnings", [])) == (True, []), first
        again = monitor(harness)
        assert (again["changed"], again["diff"]) == (False, [])
    nodes = {disk.path for disk in drives.disks.values()}
    assert all(path.startswith("/dev/disk/by-id/") for path in first["watched"])
    assert {harness.must(f"realpath {path}").strip() for path in first["watched"]} == nodes
    assert "DEVICESCAN" not in harness.must("cat /etc/smartd.conf")
    harness.must("systemctl is-active plumbline-monitor.timer smartmontools.service")
    assert "/dev/disk/by-id/" in harness.must("journalctl -b -u smartmontools.service")
    text = harness.must(f"promtool check metrics < {METRICS} && cat {METRICS}")
    for serial in ("SATA0", "MONVME1"):
        assert f'serial="{serial}"' in text, text
    assert "plumbline_reading_success 1" in text and 'plumbline_drive_failing{drive="' in text
    changed = monitor(harness, interval=30, smartd=False)
    assert changed["changed"] and harness.must("cat /etc/smartd.conf") == conf, "smartd.conf is what it was before"
    assert monitor(harness, state="absent")["changed"] and left_over(harness) == "" and harness.must("cat /etc/smartd.conf") == conf
    assert not monitor(harness, state="absent")["changed"]
    assert "plumbline" not in harness.run("systemctl list-units --all 'plumbline-monitor*'; systemctl list-unit-files 'plumbline-monitor*'")[1]


@pytest.mark.long(minutes=2)
def test_a_drive_that_is_left_out_and_a_stack_that_is_gone(harness: Harness, drives: Bench) -> None:
    """Both were in the metrics for ever. The reasons are in the journal, and what is retired is kept."""
    reason = "is not ours to watch"
    harness.must("install -d -m 700 /var/lib/plumbline/proof; echo '{\"verdict\": \"fail\"}' > /var/lib/plumbline/proof/gone.json")
    warn(drives, drives.disks["monvme"], 4)
    try:
        first = monitor(harness, leave_out=[{"serial": "MONVME1", "reason": reason}, {"serial": "NOBODY", "reason": "x"}])
        assert "leave_out: no drive of this host fits serial NOBODY" in str(first["warnings"])
        assert len(first["watched"]) == len(DISKS) - 1 and not [path for path in first["watched"] if "MONVME1" in path]
        text = read_now(harness)
        (key,) = re.findall(r'plumbline_drive_info{drive="([^"]+)"[^\n]*serial="MONVME1"', text)
        assert re.findall(rf'^(plumbline_\w+){{drive="{key}"', text, re.MULTILINE) == ["plumbline_drive_info", "plumbline_drive_left_out"], text
        assert 'plumbline_proof_passed{stack="gone"} 0' in text and 'plumbline_host_findings{layer="record",level="info"} 1' in text
        journal = harness.must("journalctl -b -u plumbline-monitor.service -o cat")
        assert f"left out, because {reason}" in journal and "no drive of this host fits" in journal and "retire: [gone]" in journal
        options = {"leave_out": [{"serial": "MONVME1", "reason": reason}], "retire": ["gone"]}
        monitor(harness, leave_out=options["leave_out"])
        done = monitor(harness, **options)
        assert done["changed"] and harness.must(f"cat {done['retired'][0]['to']}") == '{"verdict": "fail"}\n'
        text = harness.must(f"cat {METRICS}")
        assert "gone" not in text and "host_findings" not in text, "the metric is gone at once"
        assert not monitor(harness, **options)["changed"]
    finally:
        warn(drives, drives.disks["monvme"], 0)
        monitor(harness, state="absent")
        harness.must("rm -rf /var/lib/plumbline/proof/gone.json /var/lib/plumbline/retired")


# What the user of Debian's node_exporter can do: its folder lies in one that belongs to that user.
OWN = "runuser -u prometheus -- sh -ec 'cd /var/lib/prometheus; mv node-exporter kept; {do}'"
BACK = "cd /var/lib/prometheus; rm -rf node-exporter; mv kept node-exporter"


@pytest.mark.parametrize(
    ("do", "told"),
    [
        pytest.param("ln -s /etc/cron.d node-exporter", "node-exporter is a symbolic link, and /var/lib/prometheus belongs to user prometheus", id="link"),
        pytest.param("mkdir node-exporter; ln -s /etc/shadow node-exporter/plumbline.prom", "", id="own-folder-with-a-link", marks=pytest.mark.long),
        pytest.param("mkdir node-exporter; mkfifo node-exporter/plumbline.prom", "", id="own-folder-with-a-fifo", marks=pytest.mark.long),
        pytest.param("mkdir node-exporter; chmod 0777 node-exporter", "it can be written to by everybody", id="folder-of-everybody", marks=pytest.mark.long),
    ],
)
def test_node_exporters_user_makes_root_write_nowhere_else(harness: Harness, drives: Bench, do: str, told: str) -> None:
    """The folder is exchanged after the monitor was set up. The program, a second run and the way back follow nobody, wait for nobody, and show nothing."""
    monitor(harness, smartd=False)
    shadow = harness.must("stat -c '%u %g %a %i %Y' /etc/shadow; sha256sum /etc/shadow")
    harness.must(OWN.format(do=do))
    try:
        now = harness.must("sleep 1; date +%s").strip()
        code, _out, _err = harness.run("timeout 120 systemctl start plumbline-monitor.service")
        assert code == (1 if told else 0) and told in harness.must("journalctl -b -u plumbline-monitor.service -n 5 -o cat")
        absent = harness.module("monitor", {"state": "absent"}, timeout=120)
        assert "root:" not in json.dumps(absent), "the text of another file came back"
        assert not absent["failed"] or told in said(absent)
        assert harness.must(f"find / -xdev -name 'plumbline.prom*' -newermt @{now} -not -path '/var/lib/prometheus/*'") == ""
        assert harness.must("stat -c '%u %g %a %i %Y' /etc/shadow; sha256sum /etc/shadow") == shadow
        assert harness.run(f"find /var/lib/prometheus/ -user root -newermt @{now} -type f")[1] == "", "root wrote in a folder of somebody else's"
    finally:
        harness.must(f"{BACK}; rm -f {METRICS}")  # what was moved away was out of reach
        monitor(harness, state="absent")
    assert left_over(harness) == ""


@pytest.mark.long(minutes=1)
def test_the_program_sees_in_its_sandbox_what_it_sees_without(harness: Harness, drives: Bench) -> None:
    """A sandbox has mounts of its own, all of them read-only: no finding may come of that."""
    monitor(harness, smartd=False)
    try:
        wanted = {"ProtectSystem": "strict", "PrivateTmp": "yes", "NoNewPrivileges": "yes", "ProtectHome": "read-only"}
        shown = dict(line.split("=", 1) for line in harness.must("systemctl show plumbline-monitor.service").splitlines() if "=" in line)
        assert {name: shown[name] for name in wanted} == wanted
        inside = [line for line in read_now(harness).splitlines() if "seconds" not in line and "time" not in line]
        harness.must("python3 -I /var/lib/plumbline/monitor/monitor.pyz /var/lib/plumbline/monitor/monitor.json")
        assert [line for line in harness.must(f"cat {METRICS}").splitlines() if "seconds" not in line and "time" not in line] == inside
    finally:
        monitor(harness, state="absent")


@pytest.mark.long(minutes=1)
def test_the_program_of_an_earlier_release_goes(harness: Harness, drives: Bench) -> None:
    monitor(harness, smartd=False)
    record = "/var/lib/plumbline/monitor/files.json"
    old = "/usr/local/lib/plumbline/monitor.pyz"
    harness.must(f"mkdir -p /usr/local/lib/plumbline; touch {old}; sed -i 's#\"files\": \\[#&\"{old}\",#' {record}")
    assert monitor(harness, smartd=False)["changed"] and harness.run("ls /usr/local/lib/plumbline")[0] != 0
    monitor(harness, state="absent")
    assert left_over(harness) == ""


def test_what_is_refused(harness: Harness, drives: Bench) -> None:
    with drives.untouched():
        assert_error(harness.module("monitor", {"textfile": "/nowhere"}), "/nowhere is not there; install node_exporter")
        assert_error(harness.module("monitor", {"interval": 0}), "interval: 0; wanted 1 to 1440 minutes")
        assert_error(harness.module("monitor", {"mail": "a b\n/dev/sda"}), "wanted an address without blanks")
    assert left_over(harness) == ""


def test_the_rules_by_promtool(harness: Harness, drives: Bench) -> None:
    put_docs(harness)
    harness.must(f"cd {PLACE} && promtool check rules plumbline.rules.yml && promtool test rules plumbline.test.yml")


def put_docs(harness: Harness) -> None:
    for name in ("plumbline.rules.yml", "plumbline.test.yml"):
        harness.must(f"mkdir -p {PLACE}; cat > {PLACE}/{name} <<'END'\n{(DOCS / name).read_text(encoding='utf-8')}END")


def ask(harness: Harness, path: str) -> Any:
    return json.loads(harness.must(f"curl -sS --fail http://127.0.0.1:9090/api/v1/{path}"))["data"]


def alerts(harness: Harness) -> set[str]:
    return {one["labels"]["alertname"] for one in ask(harness, "alerts")["alerts"] if one["state"] == "firing"}


@pytest.fixture
def prometheus(harness: Harness, drives: Bench) -> Iterator[None]:
    """node_exporter and Prometheus from Debian's packages, on the loopback interface, with our rules; none of them waits."""
    put_docs(harness)
    config = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": [f"{PLACE}/now.rules.yml"],
        "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": ["127.0.0.1:9100"]}]}],
    }
    harness.must(f"sed 's/for: .*/for: 0s/' {PLACE}/plumbline.rules.yml > {PLACE}/now.rules.yml; printf '%s' '{json.dumps(config)}' > {PLACE}/prometheus.yml")
    exporter = "prometheus-node-exporter --web.listen-address=127.0.0.1:9100 --collector.disable-defaults --collector.textfile"
    harness.must(f"systemd-run --quiet --unit=lab-exporter {exporter} --collector.textfile.directory={TEXTFILE}")
    server = f"prometheus --config.file={PLACE}/prometheus.yml --storage.tsdb.path={PLACE}/data --web.listen-address=127.0.0.1:9090"
    harness.must(f"systemd-run --quiet --unit=lab-prometheus {server}")
    yield
    harness.must(f"systemctl stop lab-prometheus lab-exporter; rm -rf {PLACE}")


@pytest.mark.long(minutes=1.5)
def test_an_alert_fires_and_clears(harness: Harness, drives: Bench, prometheus: None) -> None:
    """A critical warning that is set on a living drive comes through smartctl, the textfile, node_exporter and the rules."""
    monitor(harness, smartd=False)
    try:
        drives.wait("curl -sS --fail 'http://127.0.0.1:9090/api/v1/query?query=plumbline_reading_success' | grep -q '\"1\"'", 120)
        found = ask(harness, "query?query=" + quote("plumbline_drive_failing"))["result"]
        assert [one["value"][1] for one in found] == ["0"] * len(DISKS) and all(set(one["metric"]) >= {"drive"} for one in found), found
        assert "PlumblineDriveFailing" not in alerts(harness)
        warn(drives, drives.disks["monvme"], 4)
        read_now(harness)
        firing = "curl -sS http://127.0.0.1:9090/api/v1/alerts | grep -q PlumblineDriveFailing"
        drives.wait(firing, 60)
        warn(drives, drives.disks["monvme"], 0)
        read_now(harness)
        drives.wait(f"! {firing}", 60)
    finally:
        warn(drives, drives.disks["monvme"], 0)
        monitor(harness, state="absent")
    assert left_over(harness) == ""
