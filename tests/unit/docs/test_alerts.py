# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules for Prometheus, beside what promtool makes of them in the lab."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DURABILITY

RULES = Path(__file__).resolve().parents[3] / "docs/monitoring/plumbline.rules.yml"


def test_the_alert_on_durability_knows_each_layer_of_it():
    """Arrays have alerts of their own."""
    (layers,) = re.findall(r'plumbline_stack_findings\{layer=~"([^"]*)"', RULES.read_text(encoding="utf-8"))
    assert set(layers.split("|")) == set(DURABILITY) - {"raid"}
