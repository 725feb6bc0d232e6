# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the host itself."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import FstabEntry, Mount, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.host_rules import absent_mounts, host_findings


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


OURS = ("noatime", "nofail", "x-systemd.device-timeout=5min")


@pytest.mark.parametrize(
    ("options", "mounts", "wrong"),
    [
        (OURS, [], True),
        (OURS, [("/data", True)], False),
        (OURS, [("/data", False)], True),  # in another mount namespace
        (OURS, [("/data/below", True)], True),
        (("nofail",), [], False),  # a disk that somebody plugs in now and then
        (("noauto", "x-systemd.device-timeout=5min"), [], False),
        (("defaults",), [], False),  # the boot stops without it
    ],
)
def test_a_volume_of_fstab_that_is_not_mounted(options, mounts, wrong):
    seen = Observation(fstab=[FstabEntry("/dev/pgdata/data", "/data", "ext4", options, 0, 2)])
    seen.mounts = [Mount("253:0", target, "ext4", ("rw",), here) for target, here in mounts]
    findings = absent_mounts(seen)
    assert [(one.level, one.layer, one.name) for one in findings] == ([("error", "mount", "/data")] if wrong else [])
    assert all("systemctl status /data says why" in one.text for one in findings)
