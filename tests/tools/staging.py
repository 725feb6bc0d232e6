# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of the tracked files, laid out the way Ansible wants a collection.

ansible-test takes only a directory below ansible_collections/NAMESPACE/NAME and refuses links; a copy is also what a user gets, without
whatever else lies about in the checkout.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def _git_list(root: Path, *options: str) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(root), "-c", f"safe.directory={root}", "ls-files", "-z", *options],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [name for name in done.stdout.split("\0") if name]


def tracked(root: Path) -> list[str]:
    """The files that git knows."""
    return _git_list(root, "--cached")


def untracked(root: Path) -> list[str]:
    """Files that the copy leaves out although git would not ignore them."""
    return _git_list(root, "--others", "--exclude-standard")


def stage(root: Path, collections: Path) -> Path:
    """Copy the tracked files of `root` as they are now; return the collection's directory below `collections`."""
    target = collections / "ansible_collections" / "plumbline" / "ssd"
    for name in tracked(root):
        source = root / name
        if not source.is_file():  # deleted, and not yet committed
            continue
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy)
    return target
