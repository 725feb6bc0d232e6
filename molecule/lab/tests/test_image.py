# SPDX-License-Identifier: GPL-3.0-or-later
"""The image's cache key, and the sources it is built from."""

from __future__ import annotations

import json
import lzma
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from plumblab import apt_sources, cloud, image
from plumblab.errors import LabError

DEBIAN = """\
# a comment
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://other.example/tools
Suites: nodistro
Components: main
Signed-By: /usr/share/keyrings/tools.gpg
"""


def test_every_input_changes_the_key() -> None:
    base = image.digest("bookworm", {"a": b"1", "b": b"2"}, b"key")
    assert base == image.digest("bookworm", {"b": b"2", "a": b"1"}, b"key")
    others = {
        image.digest("trixie", {"a": b"1", "b": b"2"}, b"key"),
        image.digest("bookworm", {"a": b"1", "b": b"3"}, b"key"),
        image.digest("bookworm", {"a": b"1b", "": b"2"}, b"key"),
        image.digest("bookworm", {"a": b"1", "b": b"2"}, b"other"),
    }
    assert len(others) == 4 and base not in others


def test_lists_have_comments(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("# head\nlvm2\n\nfio  # load\n", encoding="utf-8")
    assert image.read_list(path) == ["lvm2", "fio"]


@pytest.mark.parametrize(("suite", "expected"), [("bookworm", "bookworm bookworm-updates"), ("trixie", "trixie trixie-updates")])
def test_only_debian_is_taken_and_moved_to_the_suite(suite: str, expected: str) -> None:
    text = apt_sources.for_suite(apt_sources.parse_deb822(DEBIAN), "bookworm", suite)
    assert f"Suites: {expected}\n" in text
    assert "mirror.example" in text and "other.example" not in text


def test_one_line_sources() -> None:
    entries = apt_sources.parse_one_line(
        "deb-src http://m.example/debian bookworm main\ndeb [arch=amd64 signed-by=/k.gpg] http://t.example/x bookworm main\n"
        "deb http://m.example/debian bookworm main contrib # here\n"
    )
    text = apt_sources.for_suite(entries, "bookworm", "trixie")
    assert text.count("URIs:") == 1 and "m.example" in text


def test_no_debian_source_is_an_error() -> None:
    with pytest.raises(LabError, match="no Debian archive for bookworm"):
        apt_sources.for_suite([], "bookworm", "bookworm")


def test_cloud_seed_marks_the_guest() -> None:
    head, _newline, body = cloud.user_data("ssh-ed25519 AAAA\n").partition("\n")
    assert head == "#cloud-config"
    config = json.loads(body)
    assert config["users"][0]["ssh_authorized_keys"] == ["ssh-ed25519 AAAA"]
    assert {file["path"] for file in config["write_files"]} == {"/etc/plumbline-lab", "/usr/local/bin/counting-python"}


@pytest.mark.parametrize("pack", [lzma.compress, bytes])
def test_the_kernel_is_taken_out_of_its_image(pack: Callable[[bytes], bytes]) -> None:
    """One that is packed another way stays as it is."""
    kernel = b"\x7fELF" + bytes(3000)
    payload = pack(kernel) + len(kernel).to_bytes(4, "little")  # behind the packed kernel stands its length
    whole = bytearray(3 * 512 + 0x100) + payload
    whole[0x1F1] = 2
    whole[0x248:0x250] = struct.pack("<II", 0x100, len(payload))
    assert image.unpacked(bytes(whole)) == (kernel if pack is lzma.compress else bytes(whole))
