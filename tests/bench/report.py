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

# The hosts of the example in the documentation: db-1 is the first.
EXAMPLE = ("healthy", "sector_63", "wrong_stripe", "no_barriers", "slow_link", "worn", "fixed_use", "no_ssd", "unreachable")
MOST_SECONDS, MOST_MIB, MOST_BYTES = 10.0, 512.0, 12_000_000


def make(directory: str) -> dict[str, object]:
    """The report of a directory: what it cost, and what it is."""
    began = time.perf_counter()
    texts = render(make_fleet(by_host(directory, [])), FORMATS)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    digest = hashlib.sha256("".join(texts.values()).encode("utf-8", "backslashreplace")).hexdigest()
    return {"seconds": round(seconds, 2), "peak_mib": round(peak, 1), "bytes": len(texts["html"].encode()), "digest": digest}


def write_example(directory: Path, seed: str) -> None:
    """The report of nine generated hosts, one of each kind, as the documentation has it."""
    from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_records import make_record

    records = [json.loads(json.dumps(make_record(f"db-{number}", kind, seed))) for number, kind in enumerate(EXAMPLE, 1)]
    fleet = make_fleet(records, title="Nine generated hosts")
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in render(fleet, FORMATS).items():
        (directory / f"fleet{FORMATS[name][0]}").write_text(content, encoding="utf-8")


def main() -> int:
    words = parser("report", __doc__)
    words.add_argument("--hosts", type=int, default=1000, help="so many hosts")
    words.add_argument("--directory", help="make the report of these records and print what it cost; used by the benchmark itself")
    words.add_argument("--example", type=Path, help="write the example of the documentation to this directory, and measure nothing")
    options = words.parse_args()
    if options.example:
        write_example(options.example, options.seed)
        return 0
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
