# SPDX-License-Identifier: GPL-3.0-or-later
"""The limit of the commands that the unit tests start."""

from __future__ import annotations

# Beside a machine and a busy loop on each core a stage of low priority gets a tenth of a core or less. Only what hangs takes this long.
HANG = 1800  # seconds
