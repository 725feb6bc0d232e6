# SPDX-License-Identifier: GPL-3.0-or-later
"""Which QEMU runs the machine.

Without KVM the guest's speed is QEMU's. QEMU 10 starts the processes of a guest two to three times as fast as QEMU 7.2 of
Debian 12 does. A host with an older one gets it from its release's backports: unpacked below the cache, installed nowhere.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import apt_sources
from .commands import run
from .errors import LabError
from .paths import Paths

PROGRAM = "qemu-system-x86_64"
FAST = 10  # the major version from which on a backport is not looked for
_PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")


def major(text: str) -> int:
    """The major version in what `qemu-system-x86_64 --version` prints. Raises LabError where there is none."""
    found = re.search(r"version (\d+)\.", text)
    if found is None:
        raise LabError(f"{PROGRAM} --version does not tell its version: {text.strip()[:100]!r}")
    return int(found.group(1))


def find(paths: Paths) -> list[str]:
    """The program and the folders of its data: the unpacked one where there is one, else the host's."""
    folder = _folder(paths)
    return _words(folder) if folder.is_dir() else [PROGRAM]


def ensure(paths: Paths) -> None:
    """Unpack a fast QEMU where the host's is an old one. What stands in the way is told, and the host's is used."""
    folder = _folder(paths)
    if folder.is_dir() or major(run([PROGRAM, "--version"])) >= FAST:
        return
    try:
        _unpack(folder)
    except LabError as error:
        print(f"the machine runs on the host's QEMU, about half as fast as on QEMU {FAST}: {error}", file=sys.stderr)


def _folder(paths: Paths) -> Path:
    return paths.emulators / f"{apt_sources.host_codename()}-backports"


def _words(folder: Path) -> list[str]:
    share = folder / "usr" / "share"
    return [str(folder / "usr" / "bin" / PROGRAM), "-L", str(share / "qemu"), "-L", str(share / "seabios")]


def _unpack(target: Path) -> None:
    """Fetch the packages with apt, which checks their signatures, and unpack them beside the target: half a one is never found."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as name:
        own = Path(name)
        for folder in ("lists/partial", "archives/partial", "packages", "root"):
            (own / folder).mkdir(parents=True)
        codename = apt_sources.host_codename()
        sources = own / "backports.sources"
        sources.write_text(apt_sources.backports(apt_sources.read_host(), codename), encoding="utf-8")
        options = [
            "-qq", "-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={own / 'lists'}",
            "-o", f"Dir::Cache={own}", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none",
        ]  # fmt: skip
        run(["apt-get", *options, "update"], timeout_seconds=300)
        run(["apt-get", *options, "download", *(f"{package}/{codename}-backports" for package in _PACKAGES)], timeout_seconds=300, cwd=own / "packages")
        for package in sorted((own / "packages").glob("*.deb")):
            run(["dpkg-deb", "--extract", package, own / "root"])
        _check(_words(own / "root"))
        (own / "root").rename(target)


def _check(words: Sequence[str]) -> None:
    """The unpacked program has all the libraries it needs, and is a new one."""
    found = major(run([*words, "--version"]))
    if found < FAST:
        raise LabError(f"the backports have QEMU {found}")
