# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays against a host that is an interpreter which returns prepared answers, and notes the calls.

The plan of a host is made on the controller. A prepared one travels in the reading of the host, and a callback plugin has it taken for what was planned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.packing import pack
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import PlanAnswer, StorageReading
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG

HOST = '''#!%s -I
"""In place of the host's Python: notes the call, and prints the next answer of that module; the last one is repeated."""
import json, os, re, sys
text = sys.stdin.read()
name = re.search(r"^ansible_module='([a-z_.]+)'|run_module[(]mod_name='([a-z_.]+)'", text, re.M)  # of ansible-core 2.19, and older
name = (name.group(1) or name.group(2)).rpartition(".")[2]
params = re.search(r"^params=(.*),$|ANSIBALLZ_PARAMS = (.*)$", text, re.M)
args = json.loads(eval(params.group(1) or params.group(2)))["ANSIBLE_MODULE_ARGS"]
calls = os.path.join(os.path.dirname(__file__), "calls")
before = [json.loads(line)[0] for line in open(calls)] if os.path.exists(calls) else []
with open(calls, "a") as log:
    log.write(json.dumps([name, {key: value for key, value in args.items() if not key.startswith("_")}]) + "\\n")
answers = json.load(open(os.path.join(os.path.dirname(__file__), "answers")))[name]
answer = answers[min(before.count(name), len(answers) - 1)]
print(json.dumps(dict({"changed": False}, **answer)))
sys.exit(1 if answer.get("failed") else 0)
'''
PREPARED = "prepared"
PLANNER = '''"""Takes the plan that a test put into a reading for the one that is made of it. Loaded before the workers are forked."""
from ansible.plugins.callback import CallbackBase
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import plan_host

REAL = plan_host.plan_reading


def plan_reading(reading, *arguments, **more):
    return (reading.proofs["%s"], []) if "%s" in reading.proofs else REAL(reading, *arguments, **more)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME, CALLBACK_NEEDS_ENABLED = 2.0, "aggregate", "prepared_plans", True

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        plan_host.plan_reading = plan_reading
''' % (PREPARED, PREPARED)
PLAY = """
- hosts: all
  gather_facts: false
  tasks: %s
"""


def read(plan):
    """What stack_plan returns on a host of which this plan is to be made."""
    return {"answer": pack(PlanAnswer(StorageReading(Observation(), {PREPARED: plan}, {}, Keeping({}, True, ()), 0), "", {}))}


def play(place, answers_of, tasks, *words, **variables):
    """Run a play against prepared hosts, each with its answers by module; (return code, what it printed, host → the calls with their arguments)."""
    prepare(place, answers_of, **variables)
    (place / "play.yml").write_text(PLAY % json.dumps(tasks))
    argv = ["ansible-playbook", "-i", str(place / "hosts.json"), *words, str(place / "play.yml")]
    done = subprocess.run(argv, cwd=place, env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=HANG)
    return done.returncode, done.stdout, calls_of(place, answers_of)


def prepare(place, answers_of, **variables):
    """Write an inventory of hosts that answer, in hosts.json."""
    hosts = {}
    for name, answers in answers_of.items():
        folder = _folder(place, name)
        folder.mkdir()
        (folder / "answers").write_text(json.dumps(answers))
        (folder / "python").write_text(HOST % sys.executable)
        (folder / "python").chmod(0o755)
        hosts[name] = {"ansible_python_interpreter": str(folder / "python")}
    given = {"ansible_connection": "local", "ansible_pipelining": True, **variables}
    (place / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": given}}))
    (place / "callback").mkdir()
    (place / "callback" / "prepared_plans.py").write_text(PLANNER)
    words = "retry_files_enabled = False\ncallback_plugins = %s\ncallbacks_enabled = plumbline.ssd.fleet_summary, prepared_plans\n" % (place / "callback")
    (place / "ansible.cfg").write_text("[defaults]\n" + words)


def _folder(place, name):
    return place / ("host-" + name.replace("/", "-"))


def environment(place):
    return dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_DEPRECATION_WARNINGS="0", ANSIBLE_CONFIG=str(place / "ansible.cfg"))


def calls_of(place, names):
    """Host → the calls with their arguments."""
    calls = {}
    for name in names:
        log = _folder(place, name) / "calls"
        found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        calls[name] = [call for call in found if call[0] != "setup"]
    return calls
