# SPDX-License-Identifier: GPL-3.0-or-later
"""Which QEMU runs the machine: the host's, or a newer one from the backports of the host's release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plumblab import apt_sources, emulator
from plumblab.errors import LabError
from plumblab.paths import Paths

SOURCES = apt_sources.parse_one_line("deb http://m.example/debian bookworm main\ndeb http://m.example/debian bookworm-updates main\n")
DEBIAN_12 = "QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c) 2003-2022 Fabrice Bellard and the QEMU Project developers\n"


class Host:
    """Stands for the host's programs: `said` maps a program's name to what it prints, or to the error it ends with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, said: dict[str, str | LabError]) -> None:
        self.said = said
        self.ran: list[list[str]] = []
        monkeypatch.setattr(emulator, "run", self.run)
        monkeypatch.setattr(apt_sources, "host_codename", lambda: "bookworm")
        monkeypatch.setattr(apt_sources, "read_host", lambda: SOURCES)

    def run(self, argv: list[Any], timeout_seconds: float = 0, cwd: Path | None = None) -> str:
        words = [str(word) for word in argv]
        self.ran.append(words)
        if "download" in words and cwd is not None:
            for word in words[words.index("download") + 1 :]:
                (cwd / f"{word.partition('/')[0]}.deb").touch()
        said = self.said.get(words[0] if "--version" not in words else Path(words[0]).parent.name + "/--version", "")
        if isinstance(said, LabError):
            raise said
        return said


@pytest.mark.parametrize(("text", "number"), [(DEBIAN_12, 7), ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\n", 10)])
def test_the_version(text: str, number: int) -> None:
    assert emulator.major(text) == number


def test_a_program_without_a_version_is_an_error() -> None:
    with pytest.raises(LabError, match="does not tell its version"):
        emulator.major("something else")


def test_a_new_qemu_of_the_host_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, {"/--version": "QEMU emulator version 10.0.2"})
    emulator.ensure(Paths(tmp_path))
    assert len(host.ran) == 1
    assert emulator.find(Paths(tmp_path)) == ["qemu-system-x86_64"]


def test_an_old_one_is_replaced_by_the_backport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, {"/--version": DEBIAN_12, "bin/--version": "QEMU emulator version 10.0.2"})
    emulator.ensure(Paths(tmp_path))
    found = emulator.find(Paths(tmp_path))
    assert found[0] == str(tmp_path / "qemu/bookworm-backports/usr/bin/qemu-system-x86_64")
    assert found[1:3] == ["-L", str(tmp_path / "qemu/bookworm-backports/usr/share/qemu")]
    count = len(host.ran)
    emulator.ensure(Paths(tmp_path))
    assert len(host.ran) == count, "fetched once"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"apt-get": LabError("apt-get ended with 100: no Release file")}, "no Release file"),
        ({"bin/--version": LabError("ended with 127: libfdt.so.1 is missing")}, "libfdt.so.1"),
        ({"bin/--version": "QEMU emulator version 8.1.0"}, "the backports have QEMU 8"),
    ],
)
def test_what_cannot_be_had_is_told_and_leaves_nothing(
    said: dict[str, str | LabError], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Host(monkeypatch, {"/--version": DEBIAN_12, **said})
    emulator.ensure(Paths(tmp_path))
    assert reason in capsys.readouterr().err
    assert list((tmp_path / "qemu").iterdir()) == []
    assert emulator.find(Paths(tmp_path)) == ["qemu-system-x86_64"]


def test_the_backports_are_those_of_the_host_s_own_archive() -> None:
    text = apt_sources.backports(SOURCES, "bookworm")
    assert text.count("Suites: bookworm-backports\n") == 1 and "m.example" in text
    with pytest.raises(LabError, match="no Debian archive"):
        apt_sources.backports([], "bookworm")
