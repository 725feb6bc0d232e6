# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles as a user runs them, by playbooks over SSH, and what they have changed on the host since."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from host_changes import Change, explain, read, without_noise

from .harness import ROOT, Harness
from .whole_host import Snapshot, difference, take

BENCH = ROOT / "tests" / "bench"
ANY_ROLE = Path(__file__).with_name("whole_host_play.yml")
# A role with a playbook of its own is run by that.
PLAYBOOKS = {
    "provision": ROOT / "playbooks/provision_db_storage.yml",
    "audit": ROOT / "playbooks/audit.yml",
    "acceptance": ROOT / "playbooks/accept_drives.yml",
    "steady_state": ROOT / "playbooks/steady_state.yml",
}


def begin(role: str, given: Mapping[str, Any], *options: str) -> subprocess.Popen[str]:
    """Begin to run a role, as a user does; in a process group of its own, so that it can be killed as a whole."""
    variables = {"whole_host_role": role, "ansible_python_interpreter": "/usr/bin/python3", **given}
    book = PLAYBOOKS.get(role, ANY_ROLE)
    words = ["ansible-playbook", "-i", str(BENCH / "inventory.yml"), "-e", json.dumps(variables), str(book), *options]
    environment = dict(
        os.environ, ANSIBLE_CONFIG=str(BENCH / "ansible.cfg"), ANSIBLE_COLLECTIONS_PATH=str(ROOT / "playbooks/collections"), ANSIBLE_NOCOLOR="1"
    )
    return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def play(role: str, given: Mapping[str, Any], *options: str, seconds: float = 400) -> tuple[int, str]:
    """Run a role to its end: the return code, and all that it said."""
    process = begin(role, given, *options)
    out, _err = process.communicate(timeout=seconds)
    return process.returncode, out


class Watch:
    """A host whose changes are held against the table, from one run to the next. *variables*: what the names in capitals stand for."""

    def __init__(self, harness: Harness, variables: Mapping[str, Sequence[str]]) -> None:
        self.harness, self.variables = harness, dict(variables)
        self.last = take(harness.must)

    def look(self) -> Snapshot:
        """The state now; the next comparison begins here."""
        self.last = take(self.harness.must, self.last, self.variables.get("MOUNT", ()))
        return self.last

    def changes(self, since: Snapshot | None = None) -> list[Change]:
        """What has changed since a snapshot, or since the last look, but for what changes by itself."""
        before = since or self.last
        return without_noise(difference(before, self.look()), read())

    def must_be(self, role: str, run: str, since: Snapshot | None = None) -> None:
        """Everything that the table lists for this run has happened, and nothing else."""
        found = explain(self.changes(since), role, run, self.variables)
        assert not found.unlisted and not found.missing, f"{role}, {run}:\n{found}"

    def must_be_nothing(self, what: str) -> None:
        """Not the smallest thing is other."""
        found = self.changes()
        assert not found, f"{what} has changed the host:\n" + "\n".join(map(str, found))
