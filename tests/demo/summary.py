# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten lines about what the demonstration built and proved: from what stack_info reads now, the record of the proof, and the second run's output.

Called as: summary.py RECORDS SECOND_RUN, with the directory that got the records, the output of the second run, and stack_info's answer on stdin.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def size(count: int) -> str:
    """Bytes for people."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count // 2**20} MiB"


def answer(text: str) -> dict[str, Any]:
    """What a module returned, in the output of `ansible --one-line`."""
    return dict(json.loads(text[text.index("{") :]))


def lines(stacks: list[dict[str, Any]], record: dict[str, Any], second_run: str) -> list[str]:
    """The summary."""
    said = []
    mounted = [stack for stack in stacks if stack["mount"] and stack["name"].startswith(record["stack"] + "-")]  # not the system's own
    devices = sorted({name for stack in mounted for layer in stack["layers"] if layer["layer"] == "device" for name in layer["names"]})
    said.append(f"stack        {record['stack']}: {len(mounted)} volumes striped over {', '.join(devices)}")
    for stack in mounted:
        wrong = [finding["text"] for finding in stack["findings"] if finding["level"] == "error"]
        said.append(f"volume       {stack['name']} on {stack['mount']}: {'; '.join(wrong) or 'aligned on every layer of every device'}")
    for one in record["measured"]:
        if "contradicts" in one:
            said.append(f"offsets      {one['report'][0]}")
        for row in one.get("rows", []):
            if isinstance(row, dict) and row.get("row") == "fdatasync" and row.get("ops_per_sec"):
                said.append(f"synchronous  {one['of']}: {row['ops_per_sec']:.0f} writes of 8 KiB with fdatasync a second")
    said.append(f"proof        {record['verdict']}, kept on the host with all figures")
    counts = re.search(r"^\S+ +: (ok=\d+ +changed=\d+).*$", second_run, re.MULTILINE)
    said.append(f"second run   {counts.group(1) if counts else 'not found'}: nothing was left to do")
    return said


def main() -> int:
    records, second_run = Path(sys.argv[1]), Path(sys.argv[2])
    for path in sorted(records.glob("*.json")):
        print("\n".join(lines(answer(sys.stdin.read())["stacks"], json.loads(path.read_text(encoding="utf-8")), second_run.read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
