# SPDX-License-Identifier: GPL-3.0-or-later
"""What it costs to start each module: the bytes that are sent, the files in them, and the time of its imports.

Ansible sends a module as one archive with all that it imports, and no host keeps the byte code: each call compiles anew. The time is that of a
module's imports beside that of ansible.module_utils.basic, which every module has, in the same process. Modules take turns; the medians count.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT / "playbooks/collections/ansible_collections/plumbline/ssd"
OURS = "ansible_collections/plumbline/ssd/"
TIMED = """
import sys, time
sys.path.insert(0, sys.argv[1])
began = time.perf_counter()
import ansible.module_utils.basic
then = time.perf_counter()
__import__("ansible_collections.plumbline.ssd.plugins.modules." + sys.argv[2])
print(then - began, time.perf_counter() - then)
"""


def archive(name: str) -> tuple[int, zipfile.ZipFile]:
    """The bytes that Ansible sends for a module, and the archive in them."""
    path = str(COLLECTION / f"plugins/modules/{name}.py")
    built = modify_module(module_name=name, module_path=path, module_args={}, templar=Templar(DataLoader()), module_compression="ZIP_DEFLATED")
    longest = max(re.findall(rb"[A-Za-z0-9+/=]{100,}", built.b_module_data), key=len)
    return len(built.b_module_data), zipfile.ZipFile(io.BytesIO(base64.b64decode(longest)))


def timed(place: str, name: str) -> tuple[float, float]:
    """Seconds of basic's imports, and of the module's beside them."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-I", "-B", "-c", TIMED, place, name], env=env, capture_output=True, text=True, check=True)
    basic, own = map(float, done.stdout.split())
    return basic, own


def main() -> int:
    words = argparse.ArgumentParser(prog="./plumbline bench imports", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--runs", type=int, default=9, help="starts of each module")
    words.add_argument("--json", action="store_true", help="the figures as one JSON object, in the last line")
    options = words.parse_args()
    init_plugin_loader()
    # A file without AnsibleModule is the documentation of an action plugin: nothing of it is sent.
    files = [path for path in (COLLECTION / "plugins/modules").glob("*.py") if "AnsibleModule(" in path.read_text(encoding="utf-8")]
    names = sorted(path.stem for path in files)
    sizes: dict[str, tuple[int, int]] = {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="plumbline-imports-") as place:
        for name in names:
            size, packed = archive(name)
            sizes[name] = size, sum(one.startswith(OURS) and not one.endswith("__init__.py") for one in packed.namelist())
            packed.extractall(Path(place) / name)
        for turn in range(options.runs):
            for name in names if turn % 2 == 0 else reversed(names):
                times[name].append(timed(str(Path(place) / name), name))
    rows = []
    print(f"{'module':<20}{'archive bytes':>15}{'files of ours':>15}{'imports / basic':>17}")
    for name in names:
        ratio = statistics.median(own / basic for basic, own in times[name])
        rows.append({"module": name, "archive_bytes": sizes[name][0], "files": sizes[name][1], "import_ratio": round(ratio, 3)})
        print(f"{name:<20}{sizes[name][0]:>15,}{sizes[name][1]:>15}{ratio:>17.2f}")
    if options.json:
        print(json.dumps({"runs": options.runs, "modules": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
