# SPDX-License-Identifier: GPL-3.0-or-later
"""Each guard taken out in turn is missed by a test. A guard that no test misses would not be noticed to go, either."""

from __future__ import annotations

import json
import subprocess
import sys

import mutation
from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards, lost_data, reasons
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase, unfinished_table
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG


def test_every_guard_is_missed(figure):
    done = subprocess.run([sys.executable, mutation.__file__], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=HANG)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert rows, done.stderr.decode()
    whole, muted = rows[0], {row["guard"]: row for row in rows[1:]}
    assert whole["status"] == 0, "the tests fail with all guards in place"
    modules = (reasons, guards, lost_data, volume_rules, erase, unfinished_table)
    assert set(muted) == {"%s.%s" % (module.__name__.rpartition(".")[2], name) for module in modules for name in mutation.guards_of(module)}
    unnoticed = [guard for guard, row in muted.items() if not row["noticed"]]
    assert not unnoticed, "nothing fails without %s" % ", ".join(unnoticed)
    figure("mutation", guards=len(muted), unnoticed=len(unnoticed))


def test_a_guard_is_muted_wherever_it_stands():
    import types

    def guard() -> "List[Reason]":  # noqa: F821
        return [1]

    def other() -> "Optional[Reason]":  # noqa: F821
        return 1

    module = types.ModuleType("m")
    for one in (guard, other):
        one.__module__ = "m"
    module.guard, module.other, module.ALL, module.BY_NAME = guard, other, (guard, other), {"x": guard}
    assert set(mutation.guards_of(module)) == {"guard", "other"}
    mutation.mute(module, "guard")
    mutation.mute(module, "other")
    assert [module.guard(), module.other(), [one() for one in module.ALL], module.BY_NAME["x"]()] == [[], None, [[], None], []]
