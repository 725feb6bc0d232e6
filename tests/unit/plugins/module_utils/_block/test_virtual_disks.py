# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that a hypervisor or a cloud makes, and those that only look like one."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.virtual_disks import maker_of_virtual, on_one_ssd


@pytest.mark.parametrize(
    ("name", "transport", "model", "maker"),
    [
        ("vda", "virtio", "", "virtio"),
        ("xvda", "scsi", "", "Xen"),
        ("sda", "scsi", "QEMU QEMU HARDDISK", "QEMU"),
        ("sda", "sata", "QEMU HARDDISK", "QEMU"),
        ("nvme0n1", "nvme", "QEMU NVMe Ctrl", "QEMU"),
        ("sda", "scsi", "VMware Virtual disk", "VMware"),
        ("nvme0n1", "nvme", "VMware Virtual NVMe Disk", "VMware"),
        ("sda", "sata", "VBOX HARDDISK", "VirtualBox"),
        ("sda", "scsi", "Msft     Virtual Disk", "Hyper-V"),
        ("nvme0n1", "nvme", "MSFT NVMe Accelerator v1.0", "Azure"),
        ("nvme0n1", "nvme", "Amazon Elastic Block Store", "Amazon EBS"),
        ("nvme1n1", "nvme", "Amazon EC2 NVMe Instance Storage", ""),
        ("nvme0n1", "nvme", "Microsoft NVMe Direct Disk v2", ""),
        ("nvme0n1", "nvme", "nvme_card-pd", "Google"),
        ("sda", "scsi", "Google PersistentDisk", "Google"),
        ("sda", "scsi", "DO Volume", "DigitalOcean"),
        ("nvme0n1", "nvme", "SAMSUNG MZQL21T9HCJR-00A07", ""),
        ("sda", "sata", "my QEMU HARDDISK", ""),
        ("sda", "scsi", "LIO-ORG block1", ""),
        ("sda", "usb", "Virtual Disk", ""),
        ("sda", "sas", "", ""),
    ],
)
def test_makers(name, transport, model, maker):
    node = Node("8:0", name, "disk", 1 << 30, Limits(512), identity=Identity(transport=transport, model=model))
    assert maker_of_virtual(node) == maker


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("SAMSUNG MZQL21T9HCJR-00A07", True),
        ("QEMU NVMe Ctrl", True),
        ("Amazon EC2 NVMe Instance Storage", True),
        ("MSFT NVMe Accelerator v1.0", False),
        ("nvme_card", False),
        ("VMware Virtual NVMe Disk", False),
    ],
)
def test_a_controller_is_a_medium_where_it_is_no_virtual_one(model, expected):
    one, other = (
        Node("259:%d" % number, "nvme1n%d" % number, "disk", 1 << 30, Limits(512), identity=Identity(transport="nvme", model=model, controller="nvme1"))
        for number in (2, 3)
    )
    assert on_one_ssd(one, other) is expected
