# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated SSDs for the lab; README.md has the model."""

from __future__ import annotations

from .simssd import SimSSD, SimSSDError

__all__ = ["SimSSD", "SimSSDError"]
