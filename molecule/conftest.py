# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios' tests share is in shared/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "shared"))
