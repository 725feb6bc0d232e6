# SPDX-License-Identifier: GPL-3.0-or-later
"""What a device calls itself reaches the roles' tasks as text: in a loop, a label, a condition, a variable of an include, an argument of a module."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG

TEXTS = ("{{ lookup('pipe', 'touch %s') }}", "{%% if lookup('pipe', 'touch %s') %%}x{%% endif %%}", "{# x #}$(touch %s)", "!unsafe {{ 1 + 1 }} %s")
# In the shape of the roles: a module's result is looped over, handed on by variables of an include, and printed.
PLAY = """
- hosts: localhost
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.command: {argv: [cat, "FILE"]}
      register: read
      changed_when: false
    - ansible.builtin.include_tasks: inner.yml
      vars:
        steps: "{{ (read.stdout | from_json).steps }}"
"""
INNER = """
- ansible.builtin.command: {argv: [printf, "%s\\n", "{{ item.options }}"]}
  loop: "{{ steps | selectattr('action', 'eq', 'filesystem') }}"
  loop_control: {label: "{{ item.summary }}"}
  register: done
- ansible.builtin.debug: {msg: "{{ steps | map(attribute='summary') }}"}
- ansible.builtin.copy: {content: "{{ done.results | map(attribute='stdout') | join('|') }}", dest: "DEST", mode: '0600'}
  when: steps[0].summary | length > 0
- ansible.builtin.assert:
    that: steps | length == 4
    success_msg: "{{ steps | map(attribute='summary') | join('; ') }}"
"""


@pytest.mark.skipif(not shutil.which("ansible-playbook"), reason="ansible-core is not here")
def test_no_result_is_a_template(tmp_path):
    owned = tmp_path / "owned"
    texts = [text % owned for text in TEXTS]
    (tmp_path / "plan.json").write_text(json.dumps({"steps": [{"action": "filesystem", "options": text, "summary": text} for text in texts]}))
    (tmp_path / "play.yml").write_text(PLAY.replace("FILE", str(tmp_path / "plan.json")))
    (tmp_path / "inner.yml").write_text(INNER.replace("DEST", str(tmp_path / "out")))
    argv = ["ansible-playbook", "-i", "localhost,", "-e", "ansible_python_interpreter=" + sys.executable, str(tmp_path / "play.yml")]
    done = subprocess.run(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=HANG)
    assert done.returncode == 0, done.stdout.decode()
    assert not owned.exists()
    assert (tmp_path / "out").read_text() == "|".join(texts)
