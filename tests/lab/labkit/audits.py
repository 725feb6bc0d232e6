# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of the host on which a test has built its stacks: it tells what stack_info does, writes to no disk, and leaves nothing on the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .bench import Bench
from .harness import Harness
from .specs import said

# The packages, and the files that the collection may leave on a host.
STATE = "(dpkg-query -W; find /var/lib/plumbline /etc/systemd/system /usr/local -type f -printf '%p %T@\\n' 2> /dev/null || true) | sha256sum"
PARTS = {"device_info", "stack_info", "drive_health"}
# Findings of these layers are about what a power cut or a drive takes, what a link or a trim loses, or the filesystem: not about where data lies.
_NOT_PLACES = {"mount", "write_cache", "ext4", "link", "trim", "raid"}
# Of these the outside is all that can be seen.
CLOSED = {"linux_raid_member", "crypto_LUKS", "bcache", "zfs_member", "oracleasm", "ceph_bluestore", "drbd", "ddf_raid_member", "DM_integrity"}


@contextmanager
def nothing_left(bench: Bench, harness: Harness) -> Iterator[None]:
    """Whatever happens within writes to no disk, installs nothing and keeps nothing on the host."""
    before = harness.must(STATE)
    with bench.untouched():
        yield
    assert harness.must(STATE) == before


def audit_host(harness: Harness, **options: Any) -> dict[str, Any]:
    """What one call of the audit tells of the host, all parts of it read; nothing on it is called aligned that is not known to be."""
    found = harness.module("audit", options)
    assert not found["failed"] and set(found) >= PARTS, said(found)
    assert not [name for name in PARTS if found[name].get("failed")], found
    assert_no_false_word(found["stack_info"]["stacks"], found["stack_info"]["report"])
    return found


def read_stacks(bench: Bench, harness: Harness, paths: Sequence[str]) -> dict[str, Any]:
    """What stack_info says of the stacks on these disks, and so does the audit."""
    with nothing_left(bench, harness):
        info = harness.module("stack_info", {"devices": list(paths)})
        whole = audit_host(harness)
    assert not info["failed"], said(info)
    names = {one["name"] for one in info["stacks"]}
    assert [one for one in whole["stack_info"]["stacks"] if one["name"] in names] == info["stacks"]
    return info


def assert_no_false_word(stacks: Iterable[dict[str, Any]], report: Sequence[str]) -> None:
    """A stack is called aligned only where each leg of it was followed, lies on its boundary, and no finding says otherwise. By the table of each stack."""
    tables: list[list[str]] = []
    for line in report:
        if line.startswith(" "):
            tables[-1].append(line.strip())
        else:
            tables.append([])
    stacks = list(stacks)
    for one, lines in zip(stacks, tables[: len(stacks)], strict=True):  # behind the tables is what is found of the host
        legs = [leg for layer in one["layers"] for leg in layer["legs"]]
        wrong = [found for found in one["findings"] if found["level"] == "error" and found["layer"] not in _NOT_PLACES]
        if "aligned: every layer on every leg" in lines:
            assert legs and all(leg["aligned"] for leg in legs), one
        last = one["layers"][-1]
        closed = last.get("type") in CLOSED
        assert not closed or one["not_followed"], one
        if any(line.startswith("aligned:") for line in lines):
            assert last["layer"] != "table" and not one["not_followed"] and not wrong, one
        else:
            assert last["layer"] == "table" or one["not_followed"] or wrong, one
