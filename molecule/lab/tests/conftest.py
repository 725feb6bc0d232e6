# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the lab's package importable for its own tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
