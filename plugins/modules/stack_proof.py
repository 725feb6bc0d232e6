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
  - Counts how often a stack was measured under the same conditions, which are the releases of the kernel and of fio, and did not pass.
  - Keeps the results of writes in the record, because writes cannot be measured again after a filesystem exists. A stack whose writes
    failed does not pass by its reads.
options:
  proofs:
    description:
      - The proofs, as RV(plumbline.ssd.stack_plan#module:proofs) lists them. Of one that is not C(due) the record is judged again, as it is, by
        what O(accept) accepts.
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
  accept:
    description:
      - What may be unproven, as in C(plumbline_verify.accept). V(unproven_writes) accepts a measurement of the writes that came to no result.
        What is accepted is kept in the record. What failed is never accepted.
    type: list
    elements: str
    choices: [unproven_writes]
    default: []
  show:
    description:
      - Whether the report is printed below the name of the host, as in C(plumbline_verify.show). With V(summary), or with O(final=false),
        nothing is printed.
    type: str
    choices: [full, summary]
    default: full
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
  description:
    - The worst verdict of all stacks, V(pass), V(accepted) (it passes, except what O(accept) accepts), V(inconclusive) or V(fail). With
      O(final=false) it is V(unfinished).
  returned: success
  type: str
  sample: pass
proofs:
  description:
    - For each stack C(stack), C(verdict), C(reasons), C(record) (the path of the record on the host), C(accepted) (what of O(accept) was
      needed) and C(next) (whether it is measured again, and what ends it).
  returned: success
  type: list
  elements: dict
paragraphs:
  description: For each stack that did not pass, what was measured, the reasons of the verdict, where the figures are, and what to do.
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
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import ACCEPTED, PASS, worst
from ansible_collections.plumbline.ssd.plugins.module_utils._proof import stack_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.kept_proof import ACCEPTANCES
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_proofs
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_conditions import read_conditions


def main():
    module = AnsibleModule(
        argument_spec={
            "proofs": {"type": "list", "elements": "dict", "required": True},
            "measured": {"type": "list", "elements": "dict", "required": True},
            "final": {"type": "bool", "default": True},
            "accept": {"type": "list", "elements": "str", "choices": list(ACCEPTANCES), "default": []},
            "show": {"type": "str", "choices": ["full", "summary"], "default": "full"},
        },
        supports_check_mode=True,
    )
    params = module.params
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    judged, report = [], []
    try:
        need_root()
        rules = stack_proof.Rules(params["accept"], read_conditions(runner(module)))
        for proof in stack_proof.check_proofs(params["proofs"]):
            measured, before = stack_proof.results_of_stack(proof["stack"], params["measured"]), keep_proofs.load_proof(proof["stack"])
            if proof.get("due") is False:
                record = stack_proof.judge_again(proof, before, rules.accept)
            else:
                record = stack_proof.record_of(proof, measured, now, params["final"], before, rules)
            path = keep_proofs.path_of(proof["stack"]) if module.check_mode or record == before else keep_proofs.save_proof(proof["stack"], record)
            judged.append(stack_proof.as_result(record, path, rules.accept))
            report += [line for result in measured for line in result.get("report", [])]
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(
        module,
        changed=False,
        verdict=worst([judgement["verdict"] for judgement in judged]),
        proofs=judged,
        paragraphs=[stack_proof.paragraph(judgement) for judgement in judged if judgement["verdict"] not in (PASS, ACCEPTED)],
        report=report,
    )


if __name__ == "__main__":
    main()
