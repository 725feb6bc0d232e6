# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a provisioning takes, beside a plain playbook of the common modules for the same stack.

Both run on the same machine in the same run, in turns whose order alternates, each on fresh disks: first run, then a
re-run that changes nothing. Only ratios are worth anything; the lab's absolute times are not stable.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "bench"
DISKS = [{"name": f"bench{n}", "bus": "nvme", "size": "8GiB", "serial": f"BENCH{n}"} for n in (1, 2)]
# Puts the machine back to where no playbook has been; the disks themselves are replaced.
RESET = """
umount /bench 2>/dev/null; vgchange -an bench >/dev/null 2>&1
sed -i '\\, /bench ,d' /etc/fstab; chattr -i /bench 2>/dev/null; rmdir /bench 2>/dev/null
systemctl daemon-reload; true
"""


def lab(*words: str, stdin: str | None = None) -> str:
    """Run a verb of the lab and return what it prints."""
    done = subprocess.run([sys.executable, str(ROOT / "molecule/lab/lab.py"), *words], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"lab {' '.join(words[:2])} failed: {done.stderr.strip()}")
    return done.stdout


def play(playbook: str, filesystem: str) -> tuple[float, int, int]:
    """Run a playbook with that filesystem; seconds, remote executions, changed tasks."""
    lab("execs", "--reset")
    environment = dict(os.environ, ANSIBLE_CONFIG=str(HERE / "ansible.cfg"), ANSIBLE_NOCOLOR="1")
    began = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", "-i", str(HERE / "inventory.yml"), "--extra-vars", f"bench_filesystem={filesystem}", str(HERE / playbook)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{playbook} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    changed = re.search(r"changed=(\d+)", done.stdout)
    execs = re.search(r"\d+", lab("execs"))
    return took, int(execs.group() if execs else -1), int(changed.group(1) if changed else -1)


def measure(runs: int, filesystem: str, say) -> dict[str, list[tuple[float, int, int]]]:
    """Alternate the two playbooks; each turn is a first run and a re-run on fresh disks."""
    results: dict[str, list[tuple[float, int, int]]] = {f"{who}_{which}": [] for who in ("peer", "ours") for which in ("first", "rerun")}
    for number in range(runs):
        order = ("peer", "ours") if number % 2 == 0 else ("ours", "peer")
        for who in order:
            lab("ssh", RESET)
            lab("replace", "-", stdin=json.dumps(DISKS))
            for which in ("first", "rerun"):
                result = play(f"{who}.yml", filesystem)
                results[f"{who}_{which}"].append(result)
                say(f"turn {number + 1}: {who:4} {which:5}  {result[0]:6.1f} s  {result[1]:2} remote executions  {result[2]:2} changed")
    lab("ssh", RESET)
    return results


def summary(results: dict[str, list[tuple[float, int, int]]]) -> dict[str, float | int]:
    """Medians to ratios (ours ÷ peer), with the counts of remote executions."""
    median = {name: statistics.median(row[0] for row in rows) for name, rows in results.items()}
    return {
        "first_run_ratio": round(median["ours_first"] / median["peer_first"], 3),
        "rerun_ratio": round(median["ours_rerun"] / median["peer_rerun"], 3),
        "first_run_remote_calls": max(row[1] for row in results["ours_first"]),
        "rerun_remote_calls": max(row[1] for row in results["ours_rerun"]),
        "peer_first_run_remote_calls": max(row[1] for row in results["peer_first"]),
        "peer_rerun_remote_calls": max(row[1] for row in results["peer_rerun"]),
        "rerun_changed": max(row[2] for row in results["ours_rerun"]),
        "runs": len(results["ours_first"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="plumbline bench provision", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="turns of each playbook (default: 3)")
    parser.add_argument("--filesystem", choices=("ext4", "xfs"), default="ext4", help="of both playbooks (default: ext4)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else on standard output")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: wanted at least 1")
    out = sys.stderr if options.json else sys.stdout
    lab("up")
    result = summary(measure(options.runs, options.filesystem, lambda line: print(line, file=out, flush=True)))
    if options.json:
        print(json.dumps(result))
        return
    print()
    for title, run in (("first run", "first_run"), ("re-run", "rerun")):
        ratio, calls, peers = result[f"{run}_ratio"], result[f"{run}_remote_calls"], result[f"peer_{run}_remote_calls"]
        print(f"{title + ':':10} {ratio:.2f} of the peer's time, {calls} remote executions (peer: {peers})")
    print(f"medians of {result['runs']} turns, both on one machine in one run")


if __name__ == "__main__":
    main()
