#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stack_proof
short_description: Judge what was measured of a host's stacks, and keep the verdict on the host
version_added: 0.1.0
description:
  - Takes the results of M(plumbline.ssd.offset_sweep), M(plumbline.ssd.throughput), M(plumbline.ssd.sync_latency) and
    M(plumbline.ssd.fstrim_proof), and reduces them to one verdict for each stack, the worst of all.
  - Keeps the verdict below C(/var/lib/plumbline/proof), readable by root only, together with all figures. M(plumbline.ssd.stack_plan) reads
    it there. A stack that was proven is therefore not measured again until the stack, one of its devices or a threshold changes.
  - Keeps the results of writes in the record, because writes cannot be measured again after a filesystem exists. A stack whose writes
    failed does not pass by its reads.
options:
  proofs:
    description:
      - The proofs, as RV(plumbline.ssd.stack_plan#module:proofs) lists them.
    type: list
    elements: dict
    required: true
  measured:
    description:
      - The registered results of the measurements. A result belongs to the stack that its C(item) names, as in a loop over the volumes of
        a proof.
    type: list
    elements: dict
    required: true
  final:
    description:
      - Whether these are all measurements. With V(false) the module keeps only the results of writes, and stores V(unfinished) instead
        of a verdict.
    type: bool
    default: true
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module judges and keeps nothing.
  diff_mode:
    support: none
notes:
  - The module never reports a change, because to keep a verdict changes nothing of the host's storage.
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Sweep the offsets of the volumes
  plumbline.ssd.offset_sweep:
    device: "{{ item.path }}"
  become: true
  loop: "{{ plan.proofs | map(attribute='volumes') | flatten }}"
  loop_control:
    label: "{{ item.stack }}/{{ item.volume }}"
  register: sweeps

- name: Judge the measurements
  plumbline.ssd.stack_proof:
    proofs: "{{ plan.proofs }}"
    measured: "{{ sweeps.results }}"
  become: true
  register: proof

- name: Fail if the proof does not pass
  ansible.builtin.fail:
    msg: "{{ proof.paragraphs | join(' ') }}"
  when: proof.verdict != 'pass'
"""

RETURN = r"""
verdict:
  description: The worst verdict of all stacks, V(pass), V(inconclusive) or V(fail). With O(final=false) it is V(unfinished).
  returned: success
  type: str
  sample: pass
proofs:
  description: C(stack), C(verdict), C(reasons) and C(record) (the path of the record on the host) for each stack.
  returned: success
  type: list
  elements: dict
paragraphs:
  description: For each stack that did not pass, what was measured, the reasons of the verdict, and where the figures are.
  returned: success
  type: list
  elements: str
report:
  description: What was measured, for people, one line for each item.
  returned: success
  type: list
  elements: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._common.verdict import PASS, worst
from ansible_collections.plumbline.ssd.plugins.module_utils._prove import stack_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._records import proofs


def main():
    module = AnsibleModule(
        argument_spec={
            "proofs": {"type": "list", "elements": "dict", "required": True},
            "measured": {"type": "list", "elements": "dict", "required": True},
            "final": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    judged, report = [], []
    try:
        need_root()
        for proof in stack_proof.check_proofs(params["proofs"]):
            measured = stack_proof.results_of_stack(proof["stack"], params["measured"])
            record = stack_proof.record_of(proof, measured, now, params["final"], proofs.load_proof(proof["stack"]))
            path = proofs.path_of(proof["stack"]) if module.check_mode else proofs.save_proof(proof["stack"], record)
            judged.append({"stack": proof["stack"], "verdict": record["verdict"], "reasons": record["reasons"], "record": path})
            report += [line for one in measured for line in one.get("report", [])]
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(
        module,
        changed=False,
        verdict=worst([one["verdict"] for one in judged]),
        proofs=judged,
        paragraphs=[stack_proof.paragraph(one) for one in judged if one["verdict"] != PASS],
        report=report,
    )


if __name__ == "__main__":
    main()
