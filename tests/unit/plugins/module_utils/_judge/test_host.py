# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the host itself."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._judge.host import host_findings
from ansible_collections.plumbline.ssd.plugins.module_utils._model.host import Observation, Part


@pytest.mark.parametrize(
    ("owner", "mode", "wrong"),
    [(0, 0o700, True), (0, 0o750, True), (0, 0o755, False), (0, 0o711, False), (0, 0o775, False), (1000, 0o700, False)],
)
def test_a_folder_of_services_that_only_root_can_enter(owner, mode, wrong):
    findings = host_findings(Observation(services_folder=Part("/var/lib", "directory", owner, mode)))
    assert [(one.level, one.layer, one.name) for one in findings] == ([("warning", "host", "/var/lib")] if wrong else [])
    assert all("chmod 0755 /var/lib" in one.text and "%04o" % mode in one.text for one in findings)


def test_what_was_not_looked_at_is_no_finding():
    assert host_findings(Observation()) == []
