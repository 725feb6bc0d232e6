# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's own Debian sources, for another suite: no mirror is written down anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .errors import LabError

APT = Path("/etc/apt")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_ARCHIVES = ("", "-updates", "-security")


def parse_deb822(text: str) -> list[dict[str, str]]:
    """Stanzas of a .sources file; comments are dropped, continuation lines joined."""
    stanzas: list[dict[str, str]] = [{}]
    key = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            stanzas.append({})
        elif line[0].isspace():
            if key in stanzas[-1]:
                stanzas[-1][key] += " " + line.strip()
        else:
            key, _colon, value = line.partition(":")
            key = key.strip().lower()
            stanzas[-1][key] = value.strip()
    return [stanza for stanza in stanzas if stanza]


def parse_one_line(text: str) -> list[dict[str, str]]:
    """Entries of a sources.list: `deb [options] uri suite component…`."""
    entries = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if not words or words[0] != "deb":
            continue
        signed_by = ""
        if len(words) > 1 and words[1].startswith("["):
            while True:
                option = words.pop(1)
                name, _equals, value = option.strip("[]").partition("=")
                if name == "signed-by":
                    signed_by = value
                if option.endswith("]") or len(words) < 2:
                    break
        if len(words) >= 4:
            entries.append({"types": "deb", "uris": words[1], "suites": words[2], "components": " ".join(words[3:]), "signed-by": signed_by})
    return entries


def for_suite(entries: Iterable[dict[str, str]], host_suite: str, suite: str) -> str:
    """A .sources text with the Debian archives among the entries, moved to another suite.

    Debian's are those with the component main, a suite named after the host's
    release, and Debian's keyring (or none named). Raises LabError where there is none.
    """
    return _moved(entries, host_suite, {archive: suite + archive for archive in _ARCHIVES})


def backports(entries: Iterable[dict[str, str]], host_suite: str) -> str:
    """A .sources text with the backports of the host's release, from the same archives. Raises LabError like for_suite."""
    return _moved(entries, host_suite, {"": f"{host_suite}-backports"})


def _moved(entries: Iterable[dict[str, str]], host_suite: str, wanted: dict[str, str]) -> str:
    """The Debian archives among the entries; `wanted` maps what follows the host's suite in its name to the new suite."""
    known = {name + archive: suite for name in (host_suite, "stable") for archive, suite in wanted.items()}
    stanzas = []
    for entry in entries:
        if "deb" not in entry.get("types", "").split() or "main" not in entry.get("components", "").split():
            continue
        if entry.get("enabled", "yes").lower() in ("no", "false"):
            continue
        signed_by = entry.get("signed-by", "")
        if signed_by and "debian-archive" not in signed_by:
            continue
        suites = [known[name] for name in entry.get("suites", "").split() if name in known]
        if suites:
            stanzas.append(f"Types: deb\nURIs: {entry['uris']}\nSuites: {' '.join(suites)}\nComponents: main\nSigned-By: {KEYRING}\n")
    if not stanzas:
        raise LabError(f"no Debian archive for {host_suite} was found in the apt sources below {APT}; the lab takes its packages from those")
    return "\n".join(stanzas)


def read_host() -> list[dict[str, str]]:
    """All sources of this machine."""
    entries: list[dict[str, str]] = []
    for path in [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*.list"))]:
        if path.is_file():
            entries += parse_one_line(path.read_text(encoding="utf-8"))
    for path in sorted((APT / "sources.list.d").glob("*.sources")):
        entries += parse_deb822(path.read_text(encoding="utf-8"))
    return entries


def host_codename() -> str:
    """VERSION_CODENAME of /etc/os-release."""
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    raise LabError("/etc/os-release names no VERSION_CODENAME: is this a Debian machine?")
