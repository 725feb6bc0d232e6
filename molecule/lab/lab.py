# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: `lab.py up`, `lab.py attach disks.json`, … (see README.md)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from plumblab.command_line import main

if __name__ == "__main__":
    sys.exit(main())
