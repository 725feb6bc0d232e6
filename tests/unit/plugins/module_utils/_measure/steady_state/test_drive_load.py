# SPDX-License-Identifier: GPL-3.0-or-later
"""What a round of the load asks of the drive."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import drive_load
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import RandomLoad


def test_a_drive_is_asked_once_for_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters that are kept with a round are of the moment of its temperature. Without a round the drive is asked anew each time."""
    asked: list[int] = []

    def ask(_node: object) -> tuple[dict[str, int], int]:
        asked.append(len(asked))
        return {"host_bytes_written": len(asked)}, 40 + len(asked)

    monkeypatch.setattr(drive_load, "find_fio", lambda: "fio")
    monkeypatch.setattr(drive_load, "run_fio", lambda *_words: ("", 0.0))
    monkeypatch.setattr(drive_load, "read_round", lambda _text, temperature: temperature)
    monkeypatch.setattr(drive_load, "ask_drive", ask)
    node = SimpleNamespace(path="/dev/nvme0n1", size=1 << 30, identity=SimpleNamespace(key="wwid:x"))
    drive = drive_load.FioDrive(node, RandomLoad(4096, 32, 0), b"mark")
    drive.hold(SimpleNamespace(node=node, place=lambda start, length: Place(node.path, start, length)))
    assert (drive.counters(), drive.counters()) == ({"host_bytes_written": 1}, {"host_bytes_written": 2})
    for number in (3, 4):
        assert drive.load(1 << 20) == 40 + number
        assert drive.counters() == {"host_bytes_written": number}
    assert drive.counters() == {"host_bytes_written": 5}
