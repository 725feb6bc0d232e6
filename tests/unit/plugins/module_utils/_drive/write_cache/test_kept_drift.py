# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives that are kept, and are not as kept."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.kept_drift import kept_drift
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host

ON, OFF = WriteCache(True, True, True), WriteCache(True, False, True)


@pytest.mark.parametrize(
    ("kept", "cache", "belief", "level", "words"),
    [
        ("off", OFF, "write back", "", ""),
        ("off", OFF, "write through", "", ""),
        ("on", ON, "write back", "", ""),
        ("off", ON, "write back", "error", "its write cache is on, and is kept off: a reset or a power cycle that the kernel did not report; wanted off; run"),
        ("on", OFF, "write back", "error", "its write cache is off, and is kept on"),
        ("on", ON, "write through", "error", "flushes are dropped; wanted 'write back'; run the role write_cache, or: systemctl start"),
        ("off", WriteCache(fault="it went away"), "write back", "warning", "is kept off, and cannot be known: it went away"),
        ("on", WriteCache(), "write back", "warning", "is kept on, and cannot be known: it does not say whether"),
        ("off", WriteCache(present=False), "write through", "", ""),
        ("on", WriteCache(present=False), "write through", "error", "its write cache is none, and is kept on"),
        ("", ON, "write back", "warning", "what keeps its setting is damaged"),
    ],
)
def test_a_kept_drive(kept, cache, belief, level, words):
    host = Host()
    devno = host.disk(serial="S1", write_cache=belief)
    host.seen.caches[devno] = cache
    findings = kept_drift(host.seen, {host.seen.nodes[devno].identity.key: kept})
    assert [finding.level for finding in findings] == ([level] if level else [])
    assert all(words in finding.text and finding.text.startswith("write_cache nvme0n1 (S1): ") for finding in findings)


def test_drives_that_nobody_keeps_and_those_that_are_gone_are_not_told():
    host = Host()
    host.disk()
    assert kept_drift(host.seen, {"wwid:naa.gone": "off"}) == []
