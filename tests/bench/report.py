# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report of a large fleet costs: seconds, memory and bytes; and whether the same records give the same bytes.

The records are made by the modules' own code of hosts in memory (tests/unit/plugins/plugin_utils/fleet_records.py), one file a host, before the
clock runs. The report is made by the action plugin's own code, from that directory, twice, each time by another process with another order of its
hashes.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line, parser
from ansible_collections.plumbline.ssd.plugins.action.report import by_host
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.build import FORMATS, render
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import make_fleet

MOST_SECONDS, MOST_MIB, MOST_BYTES = 10.0, 512.0, 12_000_000


def make(directory: str) -> dict[str, object]:
    """The report of a directory: what it cost, and what it is."""
    began = time.perf_counter()
    texts = render(make_fleet(by_host(directory, [])), FORMATS)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    digest = hashlib.sha256("".join(texts.values()).encode("utf-8", "backslashreplace")).hexdigest()
    return {"seconds": round(seconds, 2), "peak_mib": round(peak, 1), "bytes": len(texts["html"].encode()), "digest": digest}


def main() -> int:
    words = parser("report", __doc__)
    words.add_argument("--hosts", type=int, default=1000, help="so many hosts")
    words.add_argument("--directory", help="make the report of these records and print what it cost; used by the benchmark itself")
    options = words.parse_args()
    if options.directory:
        print(json.dumps(make(options.directory)))
        return 0
    from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_records import make_kinds, make_record

    with tempfile.TemporaryDirectory(prefix="plumbline-report-") as place:
        for number, kind in enumerate(make_kinds(options.hosts, options.seed), 1):
            name = f"db-{number}"
            Path(place, f"{name}.json").write_text(json.dumps(make_record(name, kind, options.seed)), encoding="utf-8")
        size = sum(path.stat().st_size for path in Path(place).iterdir())
        runs = []
        for hashes in ("1", "2"):
            argv = [sys.executable, __file__, "--directory", place]
            done = subprocess.run(argv, env={"PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True)
            runs.append(json.loads(done.stdout))
    found = {
        "hosts": options.hosts,
        "records_bytes": size,
        "seconds": max(run["seconds"] for run in runs),
        "peak_mib": max(run["peak_mib"] for run in runs),
        "bytes": runs[0]["bytes"],
        "deterministic": runs[0]["digest"] == runs[1]["digest"],
    }
    print(line(*found))
    print(line(*found.values()))
    missed = [
        what
        for what, wrong in (
            (f"more than {MOST_SECONDS:.0f} s", found["seconds"] > MOST_SECONDS),
            (f"more than {MOST_MIB:.0f} MiB", found["peak_mib"] > MOST_MIB),
            (f"more than {MOST_BYTES:,} bytes", found["bytes"] > MOST_BYTES),
            ("other bytes from the same records", not found["deterministic"]),
        )
        if wrong
    ]
    if missed:
        print("missed: " + ", ".join(missed))
    if options.json:
        print(json.dumps(found))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
