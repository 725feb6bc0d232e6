# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a host is sent to the controller for a plan."""

from __future__ import annotations

import os

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ends, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.unfinished_table import is_unfinished, names_stack
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import read_storage
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, Host


def test_without_a_device_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(read_storage, "observe", lambda run, ask: pytest.fail("it was read"))
    assert read_storage.read_for_plan(None, Questions()).seen == Observation()


def test_of_a_proof_the_head_is_sent(monkeypatch):
    record = {"stack": "a", "digest": "d", "made": [1], "verdict": "pass", "time": "t", "results": [bytes(9)]}
    monkeypatch.setattr(read_storage, "load_proof", lambda name: record if name == "a" else {})
    found = read_storage.read_for_plan(None, Questions(proofs=("a", "b"))).proofs
    assert found == {"a": {"stack": "a", "digest": "d", "made": [1], "verdict": "pass", "time": "t"}, "b": {}}


@pytest.mark.parametrize("full", [True, False])
def test_ends_that_hold_data_are_told_by_their_digest(full):
    """The digest of a device, by which its erase is allowed, is the same from either."""
    host = Host()
    devno = host.disk()
    name = "plumbline:pgdata:0".encode("utf-16-le")
    head = bytes(1024) + name + (os.urandom(MIB - 2048) if full else b"\1" * (MIB - 2048))
    host.seen.ends[devno] = Ends(head.ljust(MIB, b"\0"), bytes(MIB), host.seen.nodes[devno].size - MIB)
    digest = erase.digest(host.seen, devno)
    read_storage.shorten_ends(host.seen)
    ends = host.seen.ends[devno]
    assert (len(ends.head) < MIB and bool(ends.digest)) is full
    assert erase.digest(host.seen, devno) == digest
    assert names_stack(ends, "pgdata") and not names_stack(ends, "other")
    assert not full or not is_unfinished(ends, {"size_bytes": host.seen.nodes[devno].size})
