# SPDX-License-Identifier: GPL-3.0-or-later
"""A cloud image that the user names: cloud-init gets the lab's key from a NoCloud seed."""

from __future__ import annotations

import json
from pathlib import Path

from .commands import run
from .errors import LabError
from .image import Image, ensure_key
from .paths import Paths

_COUNTER = '#!/bin/sh\nprintf x >> /run/plumbline-execs\nexec /usr/bin/python3 "$@"\n'


def user_data(public_key: str) -> str:
    """The cloud-config: root's key, the lab's mark, and the counting interpreter. (JSON is YAML.)"""
    config = {
        "disable_root": False,
        "ssh_pwauth": False,
        "users": [{"name": "root", "ssh_authorized_keys": [public_key.strip()]}],
        "write_files": [
            {"path": "/etc/plumbline-lab", "content": "The block devices of this machine may be destroyed.\n"},
            {"path": "/usr/local/bin/counting-python", "permissions": "0755", "content": _COUNTER},
        ],
    }
    return "#cloud-config\n" + json.dumps(config, indent=1) + "\n"


def image(paths: Paths, disk: Path) -> Image:
    """The image with a seed beside it; the file itself is only ever read."""
    if not disk.is_file():
        raise LabError(f"{disk} is no image file")
    root_format = json.loads(run(["qemu-img", "info", "--output=json", disk]))["format"]
    ensure_key(paths)
    seed = paths.cache / "cloud-seed"
    seed.mkdir(parents=True, exist_ok=True)
    (seed / "user-data").write_text(user_data(paths.public_key.read_text(encoding="utf-8")), encoding="utf-8")
    (seed / "meta-data").write_text('{"instance-id": "plumbline-lab", "local-hostname": "plumbline-lab"}\n', encoding="utf-8")
    return Image(disk.resolve(), root_format, None, None, seed)
