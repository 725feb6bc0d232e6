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
  - Takes the results of M(plumbline.ssd.offset_sweep) and of the other measurements and brings them to one verdict for each stack, the worst of all.
  - Keeps it below C(/var/lib/plumbline/proof), for root alone, together with all figures. M(plumbline.ssd.stack_plan) reads it there, so that
    a stack that was proven is not measured again until it, one of its devices or a threshold changes.
  - What was measured by writing stays in the record, since it cannot be measured again once a filesystem is there. A stack whose writes
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
      - Registered results of the measurements. A result belongs to the stack that its C(item) names, as a loop over the volumes of
        a proof leaves it.
    type: list
    elements: dict
    required: true
  final:
    description:
      - Whether this is all that is measured. V(false) keeps only what was measured by writing, and no verdict.
    type: bool
    default: true
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: Judges, and keeps nothing.
  diff_mode:
    support: none
notes:
  - To keep a verdict is no change of the host's storage, so the module never reports one.
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Sweep the volumes
  plumbline.ssd.offset_sweep:
    device: "{{ item.path }}"
  become: true
  loop: "{{ plan.proofs | map(attribute='volumes') | flatten }}"
  loop_control:
    label: "{{ item.stack }}/{{ item.volume }}"
  register: sweeps

- name: Judge what was measured
  plumbline.ssd.stack_proof:
    proofs: "{{ plan.proofs }}"
    measured: "{{ sweeps.results }}"
  become: true
  register: proof

- name: Fail where the proof does
  ansible.builtin.fail:
    msg: "{{ proof.paragraphs | join(' ') }}"
  when: proof.verdict != 'pass'
"""

RETURN = r"""
verdict:
  description: The worst verdict of all stacks, V(pass), V(inconclusive) or V(fail).
  returned: success
  type: str
  sample: pass
proofs:
  description: C(stack), C(verdict), C(reasons) and the C(record)'s path for each stack.
  returned: success
  type: list
  elements: dict
paragraphs:
  description: For each stack that did not pass, what was measured, against what, and where to look.
  returned: success
  type: list
  elements: str
report:
  description: What was measured, for people, one line an item.
  returned: success
  type: list
  elements: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils import _proof, _record
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import exit_refused, leave, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._verdict import PASS, worst


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
        for proof in _proof.check_proofs(params["proofs"]):
            measured = _proof.belonging(proof["stack"], params["measured"])
            record = _proof.record_of(proof, measured, now, params["final"], _record.load(proof["stack"]))
            path = _record.path_of(proof["stack"]) if module.check_mode else _record.save(proof["stack"], record)
            judged.append({"stack": proof["stack"], "verdict": record["verdict"], "reasons": record["reasons"], "record": path})
            report += [line for one in measured for line in one.get("report", [])]
    except PlumblineError as fault:
        exit_refused(module, fault)
    leave(
        module,
        changed=False,
        verdict=worst([one["verdict"] for one in judged]),
        proofs=judged,
        paragraphs=[_proof.paragraph(one) for one in judged if one["verdict"] != PASS],
        report=report,
    )


if __name__ == "__main__":
    main()
