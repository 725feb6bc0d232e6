# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that lead to another drive while a load is under way: the drive that is held is written to, or none."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import Harness
from labkit.nvme_tcp import nvme_target
from labkit.specs import assert_error, said

DISKS = [
    {"name": "held", "bus": "nvme", "size": "64MiB", "serial": "HELD1"},
    {"name": "wrong", "bus": "nvme", "size": "64MiB", "serial": "HELD2"},
    *({"name": f"behind{number}", "bus": "scsi", "size": "96MiB", "serial": f"BEHIND{number}"} for number in range(2)),
]
LOCAL = "/usr/local/sbin"
LINK = "/dev/disk/by-id/pl-moving"
# In place of a program of the host: the first time it makes a name lead to another drive, and then it does its work.
STAND_IN = """cat > {local}/{name} <<'END'
#!/bin/sh
test -e /run/pl-moved || {{ {move}; touch /run/pl-moved; }}
exec /usr/{real}/{name} "$@"
END
chmod 755 {local}/{name}; rm -f /run/pl-moved"""


@pytest.fixture
def left(harness: Harness) -> Iterator[None]:
    """Nothing of a run, and no stand-in, is left."""
    yield
    harness.run("systemctl stop 'plumbline-steady-*'; systemctl reset-failed 'plumbline-steady-*'; rm -rf /var/lib/plumbline/steady /run/plumbline/steady")
    harness.run(f"rm -f {LOCAL}/fio {LOCAL}/smartctl /run/pl-moved {LINK}; udevadm trigger --settle")


def call(harness: Harness, command: str, device: str, serial: str) -> dict[str, object]:
    given = {"serial": serial, "accept_wear": True} if command == "start" else {}
    return harness.module("steady_state", {"command": command, "device": device, **given})


def until_loading(harness: Harness) -> None:
    end = time.monotonic() + 200
    while harness.run("""grep -q '"step": "fill"' /var/lib/plumbline/steady/*/rounds.jsonl""")[0]:
        assert time.monotonic() < end
        time.sleep(0.5)


def test_the_load_follows_the_drive_and_not_its_name(bench: Bench, harness: Harness, disks: dict[str, Disk], left: None) -> None:
    """The node below /dev leads to another drive when fio begins: that drive sees no write, and the one that is held has them all."""
    held, wrong = disks["held"], disks["wrong"]
    move = f"mv {held.path} {held.path}.away && ln -s {wrong.path} {held.path}"
    harness.must(STAND_IN.format(local=LOCAL, name="fio", real="bin", move=move))
    try:
        bench.counters(held, reset=True)
        with bench.untouched(wrong):
            begun = call(harness, "start", held.by_id, held.serial)
            assert not begun["failed"], said(begun)
            until_loading(harness)
            harness.must(f"test -L {held.path}")
            harness.must("systemctl kill --signal=SIGKILL 'plumbline-steady-*'; systemctl stop 'plumbline-steady-*'")
        assert (bench.counters(held)["held"]["host_write_bytes"] or 0) >= 3 << 20
    finally:
        harness.run(f"test ! -e {held.path}.away || mv -f {held.path}.away {held.path}; rm -f {LOCAL}/fio; udevadm settle")
    stopped = call(harness, "stop", held.by_id, held.serial)
    assert not stopped["failed"] and stopped["changed"], said(stopped)


@pytest.mark.long(minutes=1)
def test_a_link_that_leads_to_another_drive_when_a_run_is_taken_up(bench: Bench, harness: Harness, disks: dict[str, Disk], left: None) -> None:
    """Both have one serial. The link moves between the look, by which the load was laid out, and the open: neither drive is written to."""
    with nvme_target(bench, harness, disks["behind0"], disks["behind1"]) as (first, second):
        harness.must(f"ln -sfn {first.path} {LINK}")
        begun = call(harness, "start", LINK, first.serial)
        assert not begun["failed"], said(begun)
        until_loading(harness)
        harness.must("systemctl kill --signal=SIGKILL 'plumbline-steady-*'; systemctl stop 'plumbline-steady-*'")
        again = call(harness, "poll", LINK, "")
        assert again["state"] == "interrupted", said(again)
        # The program asks the drive for its counters between its look and its open.
        program = f"case $(ps -o args= -p $PPID) in *steady.pyz*) ln -sfn {second.path} {LINK};; *) exec /usr/sbin/smartctl \"$@\";; esac"
        harness.must(STAND_IN.format(local=LOCAL, name="smartctl", real="sbin", move=program))
        with bench.untouched(disks["behind0"], disks["behind1"]):
            refused = call(harness, "start", LINK, first.serial)
            harness.must(f"test $(realpath {LINK}) = {second.path}")
            assert_error(refused, "nothing was written", "it is another drive now")
        harness.must(f"rm -f {LOCAL}/smartctl; ln -sfn {first.path} {LINK}")
        stopped = call(harness, "stop", LINK, first.serial)
        assert not stopped["failed"] and stopped["changed"], said(stopped)
