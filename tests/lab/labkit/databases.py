# SPDX-License-Identifier: GPL-3.0-or-later
"""Real databases in the guest, as Debian has them, on volumes of ours; and a client that notes outside the machine what was acknowledged."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from plumblab import guest
from plumblab.paths import Paths

from .harness import Harness


class Postgres:
    """Debian's PostgreSQL with its cluster `main` below *place*."""

    def __init__(self, harness: Harness, place: str) -> None:
        self.harness, self.place = harness, place
        self.version = harness.must("ls /usr/lib/postgresql").strip()
        self.unit = f"postgresql@{self.version}-main.service"

    def create(self) -> None:
        """Make the cluster and have systemd start it."""
        self.harness.must(f"pg_createcluster --datadir {self.place}/main {self.version} main")
        self.harness.must(f"systemctl start {self.unit}", 120)

    def remove(self) -> None:
        """What is left of it outside its volume."""
        self.harness.run(f"systemctl stop {self.unit}; rm -rf /etc/postgresql/{self.version} /etc/systemd/system/{self.unit}.d; systemctl daemon-reload; sync")

    def sql(self, command: str, database: str = "postgres") -> str:
        """The rows of a statement."""
        return self.harness.must(f"cd /; runuser -u postgres -- psql -qAtX --command \"{command}\" {database}", 120).strip()

    def is_up(self, seconds: int = 120) -> bool:
        """Whether it answers, within so many seconds: it may have a log to replay."""
        ask = f"cd /; until runuser -u postgres -- psql -qAtX --command 'select 1' > /dev/null 2>&1; do sleep 0.5; [ $SECONDS -lt {seconds} ] || exit 1; done"
        return self.harness.run(ask, seconds + 60)[0] == 0


class Acknowledged:
    """A client that commits one row after another, and the last one whose commit was acknowledged here, outside the machine."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.last = process, 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._reader.start()
        self._writer.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):  # cut short with the machine
                return
            assert int(line) == self.last + 1, f"{line!r} after {self.last}"
            self.last = int(line)

    def _write(self) -> None:
        """psql reads the next statement when the one before is committed. The pipe holds some, the machine has at most a few of them."""
        assert self.process.stdin is not None
        number = 0
        try:
            while True:
                number += 1
                if number - self.last > 200:
                    time.sleep(0.005)
                    number -= 1
                    continue
                self.process.stdin.write(f"insert into acknowledged values ({number}) returning number;\n")
                self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return

    def wait_for(self, count: int, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while self.last < count:
            assert self._reader.is_alive() and time.monotonic() < end, f"{self.last} commits are acknowledged; wanted {count}"
            time.sleep(0.01)


@contextmanager
def committing(paths: Paths) -> Iterator[Acknowledged]:
    """A client at work, each statement a transaction of its own. PostgreSQL answers a statement when it is committed (exec_simple_query())."""
    words = [*guest.ssh_words(paths), "cd /; exec runuser -u postgres -- stdbuf -oL psql -qAtX postgres"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        yield Acknowledged(process)
    finally:
        process.kill()
        process.wait(timeout=20)
