# SPDX-License-Identifier: GPL-3.0-or-later
"""`ansible-doc -t role` lists the keys of a stack and of a volume that the spec reader takes, in role provision, and every other role refers to it."""

from __future__ import annotations

import glob
import os
import re

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import read_spec, read_volumes

ROLES = os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "roles")
WITHOUT_STACKS = {"acceptance", "health", "monitor", "steady_state"}
NAMES = sorted({path.split(os.sep)[-3] for path in glob.glob(os.path.join(ROLES, "*", "meta", "argument_specs.yml"))} - WITHOUT_STACKS)
HEADINGS = {"Keys of a stack:": read_spec._STACK_KEYS, "Keys of a volume:": read_volumes._VOLUME_KEYS}
REFERENCE = "O(plumbline.ssd.provision#role:main:plumbline_stacks)"


def stacks_option(role):
    with open(os.path.join(ROLES, role, "meta", "argument_specs.yml"), encoding="utf-8") as handle:
        return yaml.safe_load(handle)["argument_specs"]["main"]["options"]["plumbline_stacks"]


def listed(lines):
    """Heading → the keys that the lines below it name, each of which begins with its key."""
    found = {}
    for line in lines:
        if line in HEADINGS:
            found[line] = []
        elif found:
            key = re.match(r"C\(([a-z_]+)\): .", line)
            assert key, line
            found[list(found)[-1]].append(key.group(1))
    return found


@pytest.mark.parametrize("heading", HEADINGS)
def test_keys_are_listed(heading):
    found = listed(stacks_option("provision")["description"])
    assert list(found) == list(HEADINGS)
    assert sorted(found[heading]) == sorted(HEADINGS[heading])


@pytest.mark.parametrize("role", [name for name in NAMES if name != "provision"])
def test_other_roles_refer_to_the_list(role):
    assert any(REFERENCE in line for line in stacks_option(role)["description"])


@pytest.mark.parametrize("role", NAMES)
def test_ansible_does_not_check_the_keys(role):
    """Its own check would answer a mistyped key before the collection does, without the place and the nearest key."""
    assert "options" not in stacks_option(role)


def test_there_are_roles():
    assert len(NAMES) >= 6
