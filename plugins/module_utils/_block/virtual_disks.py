# SPDX-License-Identifier: GPL-3.0-or-later
"""Which disks are made by a hypervisor or a cloud, by what they say of themselves. Pure.

Such a disk has no flash and no health of its own: that of the drives behind it is known on the hypervisor. A row is what the maker documents, or what
its source writes. A disk that no row knows is taken for a physical one. So is a cloud's local SSD that shows its own health: a row counts only
where nothing can be read.
"""

from __future__ import annotations

from typing import Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import share_ssd

# How the model begins, with a SCSI vendor before it → who makes the disk.
_MODELS: Tuple[Tuple[str, str], ...] = (
    ("QEMU HARDDISK", "QEMU"),  # hw/ide/core.c, hw/scsi/scsi-disk.c (vendor QEMU)
    ("QEMU QEMU HARDDISK", "QEMU"),
    ("QEMU NVMe Ctrl", "QEMU"),  # hw/nvme/ctrl.c
    ("Red Hat VirtIO", "virtio"),  # virtio-win, vioscsi and viostor
    ("VBOX HARDDISK", "VirtualBox"),  # src/VBox/Devices/Storage/DevAHCI.cpp, DevATA.cpp
    ("ORCL-VBOX-NVME", "VirtualBox"),  # DevNVMe
    ("VMware Virtual", "VMware"),  # "VMware Virtual disk" (SCSI), "VMware Virtual SATA Hard Drive", "VMware Virtual NVMe Disk", "VMware Virtual IDE"
    ("Msft Virtual Disk", "Hyper-V"),  # storvsc; Azure's disks on SCSI as well
    ("MSFT NVMe Accelerator", "Azure"),  # learn.microsoft.com, Azure: "Enable NVMe", remote disks
    ("XENSRC PVDISK", "Xen"),
    ("BHYVE SATA DISK", "bhyve"),  # usr.sbin/bhyve/pci_ahci.c
    ("bhyve-NVMe", "bhyve"),  # usr.sbin/bhyve/pci_nvme.c
    ("NUTANIX VDISK", "Nutanix"),
    ("Amazon Elastic Block Store", "Amazon EBS"),  # docs.aws.amazon.com, "Amazon EBS and NVMe". "Amazon EC2 NVMe Instance Storage" is a local SSD
    ("Google PersistentDisk", "Google"),  # GoogleCloudPlatform/guest-configs, 65-gce-disk-naming.rules
    ("Google EphemeralDisk", "Google"),
    ("nvme_card", "Google"),  # the same: nvme_card-pd, and nvme_card of a local SSD
    ("ORACLE BlockVolume", "Oracle Cloud"),
    ("DO Volume", "DigitalOcean"),  # /dev/disk/by-id/scsi-0DO_Volume_…
    ("HC Volume", "Hetzner Cloud"),  # /dev/disk/by-id/scsi-0HC_Volume_…
    ("Linode Volume", "Linode"),  # /dev/disk/by-id/scsi-0Linode_Volume_…
    ("Alibaba Cloud Elastic Block Storage", "Alibaba Cloud"),
)

# Whose NVMe controller carries disks that have nothing to do with each other, one a namespace. QEMU's is not among them: a controller with several
# namespaces there is a model of one SSD; where it is not, the operator says so, by accept: [shared_controller].
_SEVERAL = (
    "Azure",  # learn.microsoft.com, "Remote NVMe disks": all remote data disks of a VM are namespaces of one controller
    "Google",  # guest-configs, google_nvme_id: persistent disks, and local SSDs of 375 GB, are namespaces of one nvme_card
    "VMware",  # vSphere, "Add an NVMe controller": up to 64 virtual disks a controller
    "VirtualBox",  # VBoxManage storagectl --portcount: up to 255 disks a controller
)


def maker_of_virtual(node: Node) -> str:
    """Who makes a virtual disk; empty for one that is physical, or not known."""
    if node.identity.transport == "virtio":  # virtio-blk, whatever stands behind it
        return "virtio"
    if node.name.startswith("xvd"):  # drivers/block/xen-blkfront.c
        return "Xen"
    model = " ".join(node.identity.model.split())
    return next((maker for begin, maker in _MODELS if model.startswith(begin)), "")


def on_one_ssd(node: Node, other: Node) -> bool:
    """Whether two disks are namespaces of one SSD. A virtual controller that carries many disks says nothing of what lies behind them."""
    return share_ssd(node.identity, other.identity) and maker_of_virtual(node) not in _SEVERAL
