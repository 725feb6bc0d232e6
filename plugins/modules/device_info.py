#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: device_info
short_description: Read SSDs - identity, geometry with its sources, links, and what occupies them
version_added: 0.1.0
description:
  - Reads whole disks. Each number of the geometry has a source and a confidence, because drives, bridges and controllers do not always
    report the truth.
  - Returns what occupies each disk, and why the collection would accept or refuse the disk. The module does not prove a disk blank.
  - Only reads.
options:
  devices:
    description:
      - The disks, by names below C(/dev/disk/by-id) or by paths. An empty list means all disks.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module never changes anything.
  diff_mode:
    support: none
seealso:
  - module: plumbline.ssd.stack_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Read all disks
  plumbline.ssd.device_info:
  become: true
  register: disks

- name: Show the grain of each disk and the source of that value
  ansible.builtin.debug:
    msg: "{{ item.name }} {{ item.geometry.grain }}"
  loop: "{{ disks.devices }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
names:
  description:
    - The disks as a spec names them, a line each, to be pasted below C(devices). They are printed as well. A disk that a plan would refuse is a comment,
      with the first reason. Whether a disk is blank is proven by a plan alone.
  returned: success
  type: list
  elements: str
  sample: ["- nvme-MODEL_SERIAL1  # nvme0n1, 894 GiB: nothing was found on it", "# - nvme-MODEL_SERIAL2  # nvme1n1, 894 GiB: nvme1n1 is mounted on /"]
devices:
  description: The disks, ordered by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The kernel's name of the disk. The disk may have another name after the next boot.
      type: str
      sample: nvme0n1
    links:
      description: The names of the disk below C(/dev/disk/by-id). These names stay the same.
      type: list
      elements: str
    identity:
      description:
        - C(key) is the string by which the collection identifies the disk. It is empty if the disk has no stable identity.
        - The other members are C(wwid), C(serial), C(model), C(firmware), C(transport), C(controller), C(nsid), C(subsystem), C(ata)
          (whether the disk accepts ATA commands) and C(test) (the identity that a test gave to a loop device).
      type: dict
    size_bytes:
      description: The size of the disk, in bytes.
      type: int
    rotational:
      description: Whether the kernel takes the disk for one that turns. SSDs behind some controllers and bridges are taken for such.
      type: bool
    geometry:
      description:
        - Each member has C(value) (in bytes, or null if it is not known), C(source) and C(confidence). The confidence is V(stated),
          V(reported) or V(assumed).
        - C(notes) lists the reported values that were not believed, with the reason for each.
        - The member C(grain) is the unit in which the flash takes a write without a read-modify-write of the surrounding data.
      type: dict
    queue:
      description: The kernel's own values from C(queue/), in bytes and unchanged.
      type: dict
    write_cache:
      description:
        - The volatile write cache as the drive itself reports it.
        - C(present), C(enabled) and C(changeable) describe the cache. C(saved) is the state that the drive returns to after a reset, if
          it can save one. C(protected) means power-loss protection. Each of these is null if the drive does not report it.
        - C(fault) is the reason why the drive could not be asked. C(belief) is the same as RV(devices[].write_cache_belief).
      type: dict
      sample:
        present: true
        enabled: true
        changeable: true
        saved: null
        protected: null
        fault: ""
        belief: write back
    write_cache_belief:
      description: What the kernel believes about the write cache. The state in the drive may differ.
      type: str
      sample: write back
    link:
      description:
        - The links between the host and the disk, from the host on, in C(links). They are PCIe links of every bridge on the way, SAS links with
          those of expanders, and SATA links. The list is empty if nothing is known of them, as for most virtual disks.
        - Each link has C(kind) (V(PCIe), V(SAS) or V(SATA)), the ends C(host) and C(drive) with C(name) and the C(speed) and C(width) that the
          end can do, the negotiated C(speed) and C(width), and C(target), what both ends can do. A speed is that of one lane, in Mb/s
          (PCIe MT/s). A width is a number of lanes. What is not known is null.
        - C(limit) is the most that the host's end may negotiate now, if the kernel or somebody set such a limit.
        - C(below) says whether less was negotiated than both ends can do. It is null if that is not known. C(payload_bytes) is how many bytes
          of data per second the link carries. For SATA, C(trim) is how the kernel sends TRIM, V(unsupported), V(unqueued), V(queued), or
          V(forced_unqueued) for models with faults. It is empty if not known.
        - C(findings) has what is wrong, in the shape of RV(plumbline.ssd.stack_info#module:findings).
        - If a link is below its target, the module reads the first MiB of the disk for up to 0.25 s, and reads the link meanwhile. An idle
          PCIe link can be slower than it is under load.
      type: dict
      sample:
        links:
          - kind: SATA
            host: {name: ata1, speed: 6000, width: null}
            drive: {name: "", speed: 6000, width: null}
            speed: 3000
            width: 1
            limit: null
            target: {speed: 6000, width: null}
            below: true
            payload_bytes: 279000000
        findings:
          - level: warning
            layer: link
            name: sda
            found: "SATA 3.0 Gb/s at ata1: both ends can do more"
            wanted: "6.0 Gb/s: another cable, bay or port (some controllers have ports of 3.0 Gb/s beside those of 6.0)"
    partitions:
      description:
        - The entries of the partition table, with C(number), C(name), C(type), C(guid), C(start_bytes), C(size_bytes), C(phase) (the
          start modulo the grain) and C(aligned) (whether that phase is the one of the flash).
      type: list
      elements: dict
    occupied:
      description:
        - Why the collection would refuse the disk, each reason with C(device), C(name), C(found) and C(remedy). An empty list means
          that the disk is free. It does not mean that the disk is proven blank.
      type: list
      elements: dict
report:
  description: A table for people, with a heading and one line for each disk, and a line for each finding on a link.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_packed import packed_disks


def main():
    """Reads the host. The action plugin of the same name makes the result on the controller: see plugin_utils/views.py."""
    module = AnsibleModule(
        argument_spec={"devices": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    try:
        need_root()
        answer = packed_disks(runner(module), module.params["devices"], whole=True)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, changed=False, answer=answer)


if __name__ == "__main__":
    main()
