# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the plan share."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host


@pytest.fixture
def host():
    """Two blank disks."""
    one = Host()
    one.pair()
    return one
