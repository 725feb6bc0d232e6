# SPDX-License-Identifier: GPL-3.0-or-later
"""Real databases in the guest, as Debian has them, on volumes of ours; and a client that notes outside the machine what was acknowledged."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from plumblab import guest
from plumblab.paths import Paths

from .harness import Harness


class Database:
    """A database of Debian's with its data below *place*, and what a client needs to commit rows to its table `acknowledged`."""

    owner = unit = ""
    client = ""  # reads statements, and answers each as soon as it is committed
    insert = ""  # the statement that adds row %d; its answer is the number
    load = ""  # works on other tables until it is ended

    def __init__(self, harness: Harness, place: str) -> None:
        self.harness, self.place = harness, place

    def create(self) -> None:
        """Make it, and have systemd start it, now and at boot."""
        raise NotImplementedError

    def remove(self) -> None:
        """What is left of it outside its volume."""
        raise NotImplementedError

    def sql(self, command: str) -> str:
        """The rows of a statement."""
        raise NotImplementedError

    def ready(self) -> None:
        """The table that the client keeps, and those that the load works on."""
        self.sql("create table acknowledged (number integer primary key)")

    def under_load(self) -> None:
        """Have two others work on it for ten minutes."""
        self.harness.must(f"systemd-run --quiet --uid={self.owner} --unit=lab-load {self.load}")

    def missing(self, acknowledged: int) -> list[int]:
        """The rows of a client that were acknowledged and are not there."""
        return sorted(set(range(1, acknowledged + 1)) - {int(number) for number in self.sql("select number from acknowledged").split()})

    def is_up(self, seconds: int = 120) -> bool:
        """Whether it answers, within so many seconds: it may have a log to replay."""
        ask = f"cd /; until echo 'select 1;' | {self.client} > /dev/null 2>&1; do sleep 0.5; [ $SECONDS -lt {seconds} ] || exit 1; done"
        return self.harness.run(ask, seconds + 60)[0] == 0


class Postgres(Database):
    """PostgreSQL with its cluster `main`. It answers a statement when it is committed (exec_simple_query())."""

    owner = "postgres"
    client = "runuser -u postgres -- stdbuf -oL psql -qAtX postgres"
    insert = "insert into acknowledged values (%d) returning number;"
    load = "pgbench --client 2 --time 600 postgres"

    def __init__(self, harness: Harness, place: str) -> None:
        super().__init__(harness, place)
        self.version = harness.must("ls /usr/lib/postgresql").strip()
        self.unit = f"postgresql@{self.version}-main.service"

    def create(self) -> None:
        self.harness.must(f"pg_createcluster --datadir {self.place}/main {self.version} main")
        self.harness.must(f"systemctl start {self.unit}", 120)

    def ready(self) -> None:
        super().ready()
        self.harness.must("cd /; runuser -u postgres -- pgbench --initialize --quiet --scale 1 postgres", 300)

    def remove(self) -> None:
        self.harness.run(f"systemctl stop {self.unit}; rm -rf /etc/postgresql/{self.version} /etc/systemd/system/{self.unit}.d; systemctl daemon-reload; sync")

    def sql(self, command: str) -> str:
        return self.harness.must(f"cd /; runuser -u postgres -- psql -qAtX --command \"{command}\" postgres", 120).strip()


class MariaDB(Database):
    """MariaDB with InnoDB's defaults: a commit is in the log, and the log is synchronised."""

    owner, unit = "mysql", "mariadb.service"
    client = "mariadb --batch --skip-column-names --unbuffered lab"
    insert = "insert into acknowledged values (%d); select %d;"
    load = "mariadb-slap --create-schema=slap --auto-generate-sql --auto-generate-sql-load-type=update --concurrency=2 --number-of-queries=10000000"
    settings = "/etc/mysql/mariadb.conf.d/99-plumbline-lab.cnf"

    def create(self) -> None:
        self.harness.must(f"printf '[mysqld]\\ndatadir = {self.place}/mysql\\n' > {self.settings}")
        self.harness.must(f"mariadb-install-db --user=mysql --datadir={self.place}/mysql > /dev/null 2>&1", 300)
        self.harness.must(f"systemctl enable --quiet {self.unit}; systemctl start {self.unit}", 300)
        self.harness.must("mariadb --execute 'create database lab'")

    def remove(self) -> None:
        files = f"{self.settings} /etc/systemd/system/{self.unit}.d"
        self.harness.run(f"systemctl disable --quiet --now {self.unit}; rm -rf {files}; systemctl daemon-reload; sync")

    def sql(self, command: str) -> str:
        return self.harness.must(f'mariadb --batch --skip-column-names --execute "{command}" lab', 120).strip()


class Acknowledged:
    """A client that commits one row after another, and when each acknowledgement of a commit arrived here, outside the machine."""

    def __init__(self, process: subprocess.Popen[str], insert: str) -> None:
        self.process, self._insert = process, insert
        self.sent = 0
        self._arrived: list[float] = []
        self._enough = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._reader.start()
        self._writer.start()

    @property
    def last(self) -> int:
        """The last row whose commit was acknowledged: so many are."""
        return len(self._arrived)

    def longest_ms(self, since: float = 0) -> float:
        """The longest time between two acknowledgements, of those that arrived after a time.monotonic(). One that still lasts does not count."""
        return 1000 * max((later - one for one, later in pairwise(self._arrived) if later > since), default=0.0)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):  # cut short with the machine
                return
            assert int(line) == self.last + 1, f"{line!r} after {self.last}"
            self._arrived.append(time.monotonic())

    def _write(self) -> None:
        """The client reads the next statement when the one before is committed. The pipe holds some, the machine has at most a few of them."""
        assert self.process.stdin is not None
        try:
            while not self._enough.is_set():
                if self.sent - self.last >= 200:
                    time.sleep(0.005)
                    continue
                self.sent += 1
                self.process.stdin.write(self._insert.replace("%d", str(self.sent)) + "\n")
                self.process.stdin.flush()
            self.process.stdin.close()
        except (BrokenPipeError, ValueError):
            return

    def wait_for(self, count: int, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while self.last < count:
            assert self._reader.is_alive() and time.monotonic() < end, f"{self.last} commits are acknowledged; wanted {count}"
            time.sleep(0.01)

    def end(self, seconds: float = 120) -> None:
        """No further row; all that were sent are acknowledged."""
        self._enough.set()
        for thread in (self._writer, self._reader):
            thread.join(seconds)
        code = self.process.wait(seconds)
        assert (code, self.last) == (0, self.sent), f"the client ended with {code}; {self.last} of {self.sent} commits are acknowledged"


@contextmanager
def committing(paths: Paths, database: Database) -> Iterator[Acknowledged]:
    """A client at work, each statement a transaction of its own."""
    words = [*guest.ssh_words(paths), f"cd /; exec {database.client}"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        yield Acknowledged(process, database.insert)
    finally:
        process.kill()
        process.wait(timeout=20)


@contextmanager
def under_commits(paths: Paths, database: Database) -> Iterator[Acknowledged]:
    """What is done within is done while a client commits to a table of its own; it has ended in order afterwards.

    What to ask it then: `last`, `longest_ms()`, and of the database `missing(client.last)`.
    """
    database.sql("drop table if exists acknowledged")
    database.sql("create table acknowledged (number integer primary key)")
    with committing(paths, database) as client:
        client.wait_for(1)
        yield client
        client.end()


@dataclass
class Wait:
    """What was done, and the longest time between two acknowledgements meanwhile."""

    what: str
    commits: int
    longest_ms: float
    seconds: float


class Waits(list[Wait]):
    """The table of what a database waited for. Rows that begin with "nothing" are for comparison."""

    def during(self, client: Acknowledged, what: str, work: Callable[[], Any]) -> Any:
        """What *work* returns; a row for it, once five more commits were acknowledged."""
        began, before = time.monotonic(), client.last
        done = work()
        client.wait_for(client.last + 5)
        self.append(Wait(what, client.last - before, client.longest_ms(began), time.monotonic() - began))
        return done

    def idle(self, client: Acknowledged, what: str = "nothing", seconds: float = 20) -> None:
        self.during(client, what, lambda: time.sleep(seconds))

    def longest_ms(self, idle: bool) -> int:
        """Of the rows in which nothing was done, or of the others."""
        return round(max(row.longest_ms for row in self if row.what.startswith("nothing") is idle))

    def __str__(self) -> str:
        rows = [f"{row.what:44s}{row.commits:9d}{row.longest_ms:18.0f}{row.seconds:7.0f}" for row in self]
        return "\n".join([f"{'meanwhile':44s}{'commits':>9s}{'longest wait, ms':>18s}{'s':>7s}", *rows])
