#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: device_info
short_description: Read SSDs - identity, geometry with its sources, and what occupies them
version_added: 0.1.0
description:
  - Reads whole disks. Every number of the geometry comes with its source and how far it can be trusted, since drives,
    bridges and controllers do not always tell the truth.
  - Says what occupies a disk and why the collection would or would not take it, without proving it blank.
  - Only reads.
options:
  devices:
    description:
      - The disks, by names below C(/dev/disk/by-id) or paths. Empty means all disks.
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

- name: Show the grain of each and who says so
  ansible.builtin.debug:
    msg: "{{ item.name }} {{ item.geometry.grain }}"
  loop: "{{ disks.devices }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
devices:
  description: The disks, ordered by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The kernel's name. It may be another after the next boot.
      type: str
      sample: nvme0n1
    links:
      description: The names below C(/dev/disk/by-id), which stay.
      type: list
      elements: str
    identity:
      description: C(key) (what the collection knows it by), C(wwid), C(serial), C(model), C(firmware), C(transport), C(controller), C(nsid) and C(ata).
      type: dict
    size_bytes:
      description: Its size in bytes.
      type: int
    geometry:
      description:
        - Each member has C(value) (bytes, or null where unknown), C(source) and C(confidence), which is V(stated), V(reported) or V(assumed).
          C(notes) tell which reported values were not believed and why.
      type: dict
    queue:
      description: The kernel's own C(queue/) values in bytes, as they are.
      type: dict
    write_cache:
      description:
        - The drive's volatile write cache by the drive's own word. C(present), C(enabled), C(changeable), C(saved) (the state
          that it comes back with, where it can save one) and C(protected) (power-loss protection) are null where it does not say,
          and C(fault) tells why it could not be asked. C(belief) is the same as RV(devices[].write_cache_belief).
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
      description: What the kernel believes of the write cache. The device itself may differ.
      type: str
      sample: write back
    partitions:
      description: The entries of its table, with C(start_bytes), C(size_bytes), C(name), C(phase) and whether that is C(aligned).
      type: list
      elements: dict
    occupied:
      description: Why the disk would not be taken, each with C(name), C(found) and C(remedy). Empty means free, but not yet proven blank.
      type: list
      elements: dict
report:
  description: One line a disk.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils import _guards
from ansible_collections.plumbline.ssd.plugins.module_utils._cache import as_facts
from ansible_collections.plumbline.ssd.plugins.module_utils._durability import state_of
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._observe import Questions, observe
from ansible_collections.plumbline.ssd.plugins.module_utils._render import table
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import device_path, exit_refused, leave, missing_devices, need_root, runner
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import human


def describe(seen, devno):
    """One disk as it is returned."""
    node, geometry = seen.nodes[devno], seen.geometries[devno]
    found = seen.tables.get(devno)
    reasons = _guards.write_reasons(seen, node)
    return {
        "name": node.name,
        "links": sorted(link for link, number in seen.links.items() if number == devno),
        "identity": dict(node.identity._asdict(), key=node.identity.key),
        "size_bytes": node.size,
        "geometry": geometry.as_dict(),
        "queue": node.limits._asdict(),
        "write_cache": as_facts(seen.caches.get(devno), node.write_cache),
        "write_cache_belief": node.write_cache,
        "partitions": [
            {
                "number": entry.number,
                "name": entry.name,
                "type": entry.type,
                "guid": entry.guid,
                "start_bytes": entry.start,
                "size_bytes": entry.size,
                "phase": entry.start % geometry.grain_bytes,
                "aligned": entry.start % geometry.grain_bytes == geometry.offset_bytes,
            }
            for entry in (found.entries if found else ())
        ],
        "occupied": [reason.as_dict(node.name) for reason in reasons],
    }


def report(devices):
    """A table for people."""
    rows = [("device", "model", "serial", "size", "block", "grain", "source of the grain", "write cache", "state")]
    for device in devices:
        geometry, identity = device["geometry"], device["identity"]
        state = ", ".join(dict.fromkeys(reason["name"] for reason in device["occupied"])) or "free"
        grain = human(geometry["grain"]["value"])
        source = geometry["grain"]["source"].split(":")[0]
        cache = state_of(WriteCache(present=device["write_cache"]["present"], enabled=device["write_cache"]["enabled"]))
        block = str(geometry["logical"]["value"])
        rows.append((device["name"], identity["model"], identity["serial"], human(device["size_bytes"]), block, grain, source, cache, state))
    return table(rows)


def main():
    module = AnsibleModule(
        argument_spec={"devices": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    asked = [device_path(name) for name in module.params["devices"]]
    try:
        need_root()
        seen = observe(runner(module), Questions(devices=tuple((path, "") for path in asked), everything=not asked, prove=False))
        missing_devices(seen, asked, whole=True)
    except PlumblineError as fault:
        exit_refused(module, fault)
    wanted = [devno for devno in seen.geometries if asked or seen.nodes[devno].kind == "disk"]
    devices = [describe(seen, devno) for devno in sorted(wanted, key=lambda devno: seen.nodes[devno].name)]
    leave(module, changed=False, devices=devices, report=report(devices))


if __name__ == "__main__":
    main()
