# SPDX-License-Identifier: GPL-3.0-or-later
"""That the comparison of the whole host sees what it should: side effects that are planted, each of a kind, and nothing where nothing happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from host_changes import Change, explain, read
from labkit.bench import Bench
from labkit.harness import Harness
from labkit.whole_host_runs import Watch

pytestmark = [pytest.mark.whole_host, pytest.mark.long(minutes=0.5)]
DISKS: list[dict[str, object]] = []
PLACE = "/etc/planted"
UNIT = "/etc/systemd/system/planted.service"
VARIABLES = {name: [name.lower()] for name in ("STACK", "MOUNT", "MOUNT_PARENT", "MOUNT_UNIT", "REQUIRED_BY", "DISK", "PARTITION", "GONE")}
# What belongs to a planted mount, a planted unit and a planted content.
ALONG = ("/srv/planted", "srv-planted.mount", UNIT, "/etc/hosts.before", "/run/planted")
LISTEN = "import socket, time; s = socket.create_server(('127.0.0.1', 1717)); time.sleep(600)"


class Planted(NamedTuple):
    """A side effect: what is done, how it is undone, and what must be told of it: kind, name, how, and a word of the rest."""

    do: str
    undo: str
    told: list[tuple[str, str, str, str]]


PLANTED = {
    "the historical fault": Planted(
        "chmod 0700 /var/lib",
        "chmod 0755 /var/lib",
        [("path", "/var/lib", "changed", "mode=0700"), ("nobody", "/var/lib", "changed", "lx"), ("nobody", "/var/lib/dpkg/status", "gone", "r")],
    ),
    "a mode": Planted(
        "chmod 0775 /etc/systemd/system", "chmod 0755 /etc/systemd/system", [("path", "/etc/systemd/system", "changed", "mode=0775")]
    ),
    "an owner": Planted("chown nobody /etc/hosts", "chown root /etc/hosts", [("path", "/etc/hosts", "changed", "uid=65534")]),
    "a file left behind": Planted(f"umask 077; echo secret > {PLACE}", f"rm {PLACE}", [("path", PLACE, "added", "file 0600")]),
    "a secret that all can read": Planted(
        f"echo secret > {PLACE}.secret; chmod 0644 {PLACE}.secret",
        f"rm {PLACE}.secret",
        [("path", f"{PLACE}.secret", "added", "file 0644"), ("nobody", f"{PLACE}.secret", "added", "r")],
    ),
    "a file left in /tmp": Planted("umask 077; touch /tmp/.planted", "rm /tmp/.planted", [("path", "/tmp/.planted", "added", "file 0600")]),
    "a content of the same size and time": Planted(
        "touch -r /etc/hosts /run/planted; cp -p /etc/hosts /etc/hosts.before; "
        "printf X | dd of=/etc/hosts conv=notrunc status=none; touch -r /run/planted /etc/hosts; rm /run/planted",
        "mv /etc/hosts.before /etc/hosts",
        [("path", "/etc/hosts", "changed", "content=")],
    ),
    "a program that is other": Planted(  # its content was not read before
        "cp -p /usr/bin/sdparm /run/planted; printf X | dd of=/usr/bin/sdparm conv=notrunc status=none; touch -r /run/planted /usr/bin/sdparm",
        "cat /run/planted > /usr/bin/sdparm; rm /run/planted",
        [("path", "/usr/bin/sdparm", "changed", "content=")],
    ),
    "a unit enabled": Planted(
        f"printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n' > {UNIT}; systemctl enable -q planted.service",
        f"systemctl disable -q planted.service; rm {UNIT}; systemctl daemon-reload",
        [
            ("path", "/etc/systemd/system/multi-user.target.wants/planted.service", "added", "link"),
            ("unit", "planted.service", "added", "enabled"),
        ],
    ),
    "a kernel setting": Planted(
        "echo 17 > /proc/sys/vm/swappiness", "echo 60 > /proc/sys/vm/swappiness", [("kernel", "/proc/sys/vm/swappiness", "changed", "17")]
    ),
    "a setting of a disk": Planted(
        "echo 2 > /sys/block/vda/queue/nomerges", "echo 0 > /sys/block/vda/queue/nomerges", [("kernel", "/sys/block/vda/queue/nomerges", "changed", "2")]
    ),
    "an attribute": Planted(
        "setfattr -n user.planted -v x /etc/hosts", "setfattr -x user.planted /etc/hosts", [("path", "/etc/hosts", "changed", "user.planted")]
    ),
    "a capability": Planted(
        "setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 /usr/bin/sdparm",
        "setfattr -x security.capability /usr/bin/sdparm",
        [("path", "/usr/bin/sdparm", "changed", "security.capability")],
    ),
    "an immutable file": Planted("chattr +i /etc/hosts", "chattr -i /etc/hosts", [("path", "/etc/hosts", "changed", "flags=i")]),
    "a mount that hides a file": Planted(
        "mkdir /srv/planted; touch /srv/planted/hidden; mount -t tmpfs none /srv/planted",
        "umount /srv/planted; rm -r /srv/planted",
        [
            ("path", "/srv/planted/hidden", "added", "file"),
            ("path", "/srv/planted (mounted)", "added", "directory"),
            ("mount", "/srv/planted", "added", "tmpfs"),
        ],
    ),
    "a port and a process": Planted(
        f'setsid python3 -c "{LISTEN}" > /dev/null 2>&1 < /dev/null & echo $! > /run/planted; until grep -q :06B5 /proc/net/tcp; do sleep 0.1; done',
        "kill $(cat /run/planted); rm /run/planted; while grep -q :06B5 /proc/net/tcp; do sleep 0.1; done",
        [("port", "tcp 0100007F:1717", "added", "open"), ("process", f"python3 -c {LISTEN}", "added", "1")],
    ),
}


@pytest.fixture(scope="module")
def watch(bench: Bench, harness: Harness) -> Iterator[Watch]:
    bench.replace([])
    yield Watch(harness, {})


def test_an_idle_host_does_not_change(watch: Watch) -> None:
    """And what changes by itself is in the table, with the reason."""
    time.sleep(20)
    watch.must_be_nothing("time alone")
    print(watch.last.seconds)


class Told(NamedTuple):
    """The changes while all of it was there, and when it was undone again."""

    planted: list[Change]
    undone: list[Change]


@pytest.fixture(scope="module")
def told(watch: Watch, harness: Harness) -> Told:
    """All of it is done at once: one look costs as much as all the rest."""
    before = watch.look()
    done: list[Planted] = []
    try:
        for one in PLANTED.values():
            done.append(one)
            harness.must(one.do)
        planted = watch.changes(before)
    finally:
        for one in reversed(done):
            harness.run(one.undo)
    return Told(planted, watch.changes(before))


@pytest.mark.parametrize("name", PLANTED)
def test_a_side_effect_is_told(told: Told, name: str) -> None:
    for kind, path, how, word in PLANTED[name].told:
        lines = [str(one) for one in told.planted if (one.kind, one.name, one.how) == (kind, path, how)]
        assert lines and word in lines[0], f"{kind} {path} {how} ({word}) is not in:\n" + "\n".join(map(str, told.planted))


def test_nothing_else_is_told_and_no_run_explains_it(told: Told) -> None:
    """Of what an unprivileged user cannot reach any more there is a line for each path below /var/lib, and of no other."""
    expected = {name for one in PLANTED.values() for _kind, name, _how, _word in one.told} | set(ALONG)
    other = [one for one in told.planted if one.name not in expected and not (one.kind == "nobody" and one.name.startswith("/var/lib/"))]
    assert not other, "\n".join(map(str, other))
    for role, run in {(role, run) for row in read().rows for role, runs in row.runs.items() for run in runs}:
        explained = set(told.planted) - set(explain(told.planted, role, run, VARIABLES).unlisted)
        assert not explained, f"{role} {run} would explain:\n" + "\n".join(map(str, explained))


def test_what_is_undone_is_told_no_more(told: Told) -> None:
    """But for a program that somebody has written to and whose content was not read before: that it is the same again is not known."""
    left = [one for one in told.undone if one.name != "/usr/bin/sdparm"]
    assert not left, "\n".join(map(str, left))
