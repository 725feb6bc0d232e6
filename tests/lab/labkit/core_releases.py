# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases of ansible-core beside the one of the test environment: installed below the cache, and run from there."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import ansible_collections.community.general as community  # type: ignore[import-untyped]

from .harness import ROOT

# Finds the interpreter of the host's distribution; an environment in PATH would bring another ansible-core.
PYTHON = "/usr/bin/python3"
_GENERAL = Path(next(iter(community.__path__)))


def packages(cache: Path, release: str, python: str) -> Path:
    """The directory with the packages of requirements/core-RELEASE.txt for a version of Python; installed unless the cache has it."""
    pins = ROOT / "requirements" / f"core-{release}.txt"
    place = cache / "core" / f"{release}-{hashlib.sha256(pins.read_bytes() + python.encode()).hexdigest()[:16]}"
    if not place.exists():
        half = place.with_name(f"{place.name}.{os.getpid()}")
        words = [
            "--quiet",
            "--no-deps",
            "--ignore-requires-python",
            "--only-binary=:all:",
            "--python-version",
            python,
            "--target",
            str(half),
            "--requirement",
            str(pins),
        ]
        subprocess.run([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *words], check=True)
        half.rename(place)
    return place


def controller(place: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program of ansible-core from its directory: `controller(place, "playbook", ...)`."""
    collections = os.pathsep.join((str(ROOT / "playbooks/collections"), str(_GENERAL.parents[2])))
    given = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": collections, "ANSIBLE_NOCOLOR": "1", "PYTHONPATH": str(place), **env}
    return subprocess.run([PYTHON, "-m", "ansible", *words], cwd=ROOT, env=given, capture_output=True, text=True, check=False)


def archive(place: Path, files: Mapping[str, bytes]) -> bytes:
    """The packages, our collection, community.general's plugins and *files* as a tar archive."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:gz", compresslevel=1) as tar:
        tar.add(place, arcname="packages")
        for part in ("plugins", "roles", "playbooks/provision_db_storage.yml", "meta", "galaxy.yml"):
            tar.add(ROOT / part, arcname=f"ansible_collections/plumbline/ssd/{part}")
        for part in ("plugins", "meta", "MANIFEST.json"):
            tar.add(_GENERAL / part, arcname=f"ansible_collections/community/general/{part}")
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return memory.getvalue()
