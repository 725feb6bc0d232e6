# SPDX-License-Identifier: GPL-3.0-or-later
"""Let ansible-test make its virtual environments with Python's own pip.

For every environment ansible-test runs a get-pip.py that it downloads from a host of its own, unless the file is in its cache already. What
is put there instead takes pip from ensurepip and installs the versions asked for from the package index, as for any other requirement.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

_MARK = "# made by plumbline.ssd"

_SCRIPT = f'''{_MARK}
"""Stands in for get-pip.py: the same arguments, with pip taken from ensurepip."""
import subprocess
import sys

options = [option for option in sys.argv[1:] if option not in ("--no-setuptools", "--no-wheel")]
subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"], stdout=subprocess.DEVNULL)
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install"] + options))
'''


def pip_version() -> str:
    """The pip version that the installed ansible-test asks for; it is part of the file's name."""
    found = importlib.util.find_spec("ansible_test")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("ansible-test is not installed in this environment")
    source = Path(found.submodule_search_locations[0], "_internal", "python_requirements.py").read_text(encoding="utf-8")
    match = re.search(r"""\bpip='([0-9][0-9.]*)'""", source)
    if match is None:
        raise RuntimeError("ansible-test no longer names its pip version in python_requirements.py")
    return match.group(1)


def provide() -> Path:
    """Put the stand-in where ansible-test looks; a genuine get-pip.py stays."""
    path = Path.home() / ".ansible" / "test" / "cache" / f"get_pip_{pip_version().replace('.', '_')}.py"
    if path.exists():
        present = path.read_text(encoding="utf-8", errors="replace")
        if present == _SCRIPT or not present.startswith(_MARK):
            return path
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text(_SCRIPT, encoding="utf-8")
    scratch.replace(path)
    return path


if __name__ == "__main__":
    print(provide())
