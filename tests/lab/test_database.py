# SPDX-License-Identifier: GPL-3.0-or-later
"""Real databases on what was built: through power cuts under load, on drives that are honest and on some that are not; MariaDB through a reboot.

The everyday part, with the whole playbook and a reboot, is the scenario molecule/database.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from labkit.bench import Bench, Disk
from labkit.databases import Acknowledged, Database, MariaDB, Postgres, committing, under_commits
from labkit.harness import Harness
from labkit.specs import stack

MOUNT = "/var/lib/pldata"
SIMULATED = {
    "page_size": 4096, "channels": 4, "program_us": 300, "flush_us": 500, "transfer_us": 20,
    "write_cache": 1, "cache_size": "256MiB", "writeback_ms": 3_600_000, "plp": 0,
}  # fmt: skip
DISKS = [{"name": f"db{number}", "bus": "scsi", "size": "384MiB", "serial": f"DATABASE{number}", "simulated": SIMULATED} for number in (1, 2)]


# What a test is run on beside ext4, which all others of this kind have.
ON_BOTH = pytest.mark.parametrize("filesystem", ["ext4", "xfs"])


@dataclass
class Row:
    """One line of the table. *lost*: acknowledged rows that are gone; -1: the whole database is."""

    database: str
    filesystem: str
    drives: str
    acknowledged: int
    lost: int
    seconds: float


@pytest.fixture(scope="module")
def table() -> Iterator[list[Row]]:
    rows: list[Row] = []
    yield rows
    print(f"\n\n{'database':12s}{'filesystem':12s}{'drives':10s}{'acknowledged':>14s}{'lost':>8s}{'s':>8s}")
    for row in rows:
        print(f"{row.database:12s}{row.filesystem:12s}{row.drives:10s}{row.acknowledged:14d}{'all' if row.lost < 0 else row.lost:>8}{row.seconds:8.0f}")


def build(harness: Harness, disks: dict[str, Disk], owner: str, unit: str, filesystem: str) -> None:
    one = stack(disks.values())
    volume = {"name": "data", "size": "100%", "mount": MOUNT, "owner": owner, "group": owner, "mode": "0700", "required_by": [unit]}
    one["volumes"] = [{**volume, "filesystem": filesystem}]
    harness.build([one])


@pytest.fixture
def filesystem() -> str:
    """What a test runs on that is not asked to run on both."""
    return "ext4"


@pytest.fixture
def kind() -> type[Database]:
    """The database of a test that is not asked to run on others."""
    return Postgres


@pytest.fixture
def database(bench: Bench, harness: Harness, disks: dict[str, Disk], filesystem: str, kind: type[Database]) -> Iterator[Database]:
    """A database on a striped pair, with a table that the client keeps and others for the load."""
    found = kind(harness, MOUNT)
    build(harness, disks, found.owner, found.unit, filesystem)
    try:
        found.create()
        found.ready()
        yield found
    finally:
        for disk in bench.disks.values():
            bench.simulated(disk).set("flush", "honest")
            bench.simulated(disk).set("fua", "honest")
        found.remove()


def cut_under_load(bench: Bench, database: Database, filesystem: str, lying: bool) -> Row:
    """A power cut under load. What was acknowledged outside by then is looked for when the database is up again."""
    began = time.monotonic()
    # What is built is on the flash, whatever the drive says from now on.
    database.harness.must("sync; " + "; ".join(f"sync {disk.path}" for disk in bench.disks.values()))
    for disk in bench.disks.values():
        bench.simulated(disk).set("flush", "ignore" if lying else "honest")
        bench.simulated(disk).set("fua", "ignore" if lying else "honest")
        bench.simulated(disk).set("writeback_ms", 5000)  # what is lost is the end, as on drives that write back within seconds
    database.under_load()
    with committing(bench.paths, database) as client:
        wait_for_work(client)
        bench.power_cut()
        acknowledged = client.last  # it went on until the machine was gone
    row = Row(type(database).__name__, filesystem, "lying" if lying else "honest", acknowledged, -1, 0)
    if database.is_up(120):
        row.lost = len(database.missing(acknowledged))
    row.seconds = time.monotonic() - began
    return row


def wait_for_work(client: Acknowledged) -> None:
    """Some seconds of commits, so that the drive has written back what came before them."""
    client.wait_for(50)
    end = time.monotonic() + 12
    while time.monotonic() < end:
        client.wait_for(client.last + 1)


@pytest.mark.long(minutes=3)
@ON_BOTH
@pytest.mark.parametrize(("kind", "turn"), [(Postgres, 1), (Postgres, 2), (MariaDB, 1)])
def test_a_power_cut_loses_no_commit(bench: Bench, database: Database, filesystem: str, table: list[Row], turn: int) -> None:
    table.append(cut_under_load(bench, database, filesystem, lying=False))
    assert table[-1].acknowledged >= 50 and table[-1].lost == 0, table[-1]


@pytest.mark.long(minutes=3)
@ON_BOTH
@pytest.mark.parametrize("kind", [Postgres, MariaDB])
def test_drives_that_ignore_flushes_lose_commits(bench: Bench, database: Database, filesystem: str, table: list[Row]) -> None:
    """What shows that the other test could see a loss."""
    table.append(cut_under_load(bench, database, filesystem, lying=True))
    assert table[-1].lost != 0, f"nothing was lost: {table[-1]}"


@pytest.mark.long(minutes=1)
def test_steps_under_commits(bench: Bench, database: Database) -> None:
    """What is acknowledged is there; a filesystem that stands still is seen as a gap of its length, and a row that is gone as missing."""
    with under_commits(bench.paths, database) as client:
        client.wait_for(100)
        database.harness.must(f"fsfreeze --freeze {MOUNT}; sleep 3; fsfreeze --unfreeze {MOUNT}")
        client.wait_for(client.last + 300)
        after = time.monotonic()
        client.wait_for(client.last + 100)
    assert client.last >= 500 and database.missing(client.last) == []
    assert client.longest_ms() >= 2500, client.longest_ms()
    assert client.longest_ms(after) < client.longest_ms()
    database.sql("delete from acknowledged where number in (7, 400)")
    assert database.missing(client.last) == [7, 400]


@pytest.mark.long(minutes=3)
@ON_BOTH
def test_mariadb_starts_and_is_there_after_a_reboot(bench: Bench, harness: Harness, disks: dict[str, Disk], filesystem: str) -> None:
    """Debian's MariaDB with its data on a volume of ours, as its own user; after a reboot it is up, and was started behind the mount."""
    database = MariaDB(harness, MOUNT)
    build(harness, disks, database.owner, database.unit, filesystem)
    try:
        database.create()
        database.sql("create table rows_of_it (number int primary key); insert into rows_of_it select seq from seq_1_to_20")
        assert harness.must(f"ps -o user= -p $(systemctl show --property MainPID --value {database.unit})").strip() == "mysql"
        bench.boot_again()
        assert database.is_up(180)
        assert database.sql("select count(*) from rows_of_it") == "20"
        times = harness.must(
            f"systemctl show --property ExecMainStartTimestampMonotonic --value {database.unit}; "
            f"systemctl show --property ActiveEnterTimestampMonotonic --value $(systemd-escape --path --suffix=mount {MOUNT})"
        ).split()
        assert int(times[0]) > int(times[1]) > 0
        assert harness.must(f"findmnt --noheadings --output TARGET --target {MOUNT}/mysql").strip() == MOUNT
    finally:
        database.remove()
