# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that a module documents are those that it takes, on every level, with the same types and defaults."""

from __future__ import annotations

import glob
import importlib
import os

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import VARIABLES

HERE = os.path.dirname(__file__)
FILES = glob.glob(os.path.join(HERE, "..", "..", "..", "..", "plugins", "modules", "*.py"))
# By the file's name alone: the directory that a run of the suite makes may have any.
MODULES = sorted(name[:-3] for name in map(os.path.basename, FILES) if not name.startswith("__"))
# Their action plugins do it all, and the file of the module is its documentation: tests/unit/plugins/action holds its options.
ON_THE_CONTROLLER = ("report", "keep_record", "run_module", "check_spec")
CALLED = [name for name in MODULES if name not in ON_THE_CONTROLLER]


class Taken(Exception):
    """Carries what a module handed to AnsibleModule."""


def load(name, monkeypatch):
    module = importlib.import_module("ansible_collections.plumbline.ssd.plugins.modules." + name)

    def take(**arguments):
        raise Taken(arguments)

    monkeypatch.setattr(module, "AnsibleModule", take)
    with pytest.raises(Taken) as caught:
        module.main()
    return module, caught.value.args[0]


def options_of(module):
    """The documented options of a module, with those of the fragments that it names."""
    documented = yaml.safe_load(module.DOCUMENTATION)
    options = dict(documented.get("options", {}))
    for fragment in documented["extends_documentation_fragment"]:
        name, _dot, part = fragment.replace("plumbline.ssd.", "", 1).partition(".")
        found = importlib.import_module("ansible_collections.plumbline.ssd.plugins.doc_fragments." + name).ModuleDocFragment
        shared = yaml.safe_load(getattr(found, part.upper() or "DOCUMENTATION"))["options"]
        assert not set(shared) & set(options), fragment
        options.update(shared)
    return options


def compare(documented, spec, where):
    assert set(documented) == set(spec), where
    rows = 0
    for name, option in spec.items():
        doc, here = documented[name], where + "." + name
        assert doc.get("type", "str") == option.get("type", "str"), here
        assert doc.get("required", False) == option.get("required", False), here
        assert doc.get("default") == option.get("default"), here
        assert doc.get("choices") == option.get("choices"), here
        assert doc.get("elements") == option.get("elements"), here
        assert doc["description"], here
        rows += 1 + compare(doc.get("suboptions", {}), option.get("options", {}), here)
    return rows


def test_what_each_module_returns_is_data_to_the_controller():
    """Each has an action plugin that takes it for that."""
    actions = glob.glob(os.path.join(HERE, "..", "..", "..", "..", "plugins", "action", "*.py"))
    assert {os.path.basename(path)[:-3] for path in actions} == set(MODULES)


@pytest.mark.parametrize("name", CALLED)
def test_options_are_documented(name, monkeypatch):
    module, arguments = load(name, monkeypatch)
    assert compare(options_of(module), arguments["argument_spec"], name) > 0


@pytest.mark.parametrize("name", CALLED)
def test_check_mode_is_as_documented(name, monkeypatch):
    module, arguments = load(name, monkeypatch)
    documented = yaml.safe_load(module.DOCUMENTATION)["attributes"]["check_mode"]["support"]
    assert arguments.get("supports_check_mode", False) is (documented in ("full", "partial"))


@pytest.mark.parametrize("name", MODULES)
def test_documentation_is_whole(name):
    module = importlib.import_module("ansible_collections.plumbline.ssd.plugins.modules." + name)
    documentation = yaml.safe_load(module.DOCUMENTATION)
    assert documentation["module"] == name and documentation["short_description"] and documentation["version_added"]
    for task in yaml.safe_load(module.EXAMPLES):
        assert task["name"]
        ours = [key for key in task if key.startswith("plumbline.ssd.")]
        if ours and ours[0].rpartition(".")[2] in CALLED:
            assert task["become"] is True
    assert yaml.safe_load(module.RETURN) is not None


def test_there_are_modules():
    assert len(MODULES) >= 5


@pytest.mark.parametrize("name", ON_THE_CONTROLLER)
def test_documentation_alone_is_no_module(name):
    module = importlib.import_module("ansible_collections.plumbline.ssd.plugins.modules." + name)
    assert isinstance(importlib.import_module("ansible_collections.plumbline.ssd.plugins.action." + name).ARGUMENTS, dict)
    assert not hasattr(module, "main") and not hasattr(module, "AnsibleModule")


def test_each_public_variable_is_an_option_of_a_role():
    """The roles' argument specs say what there is, and Ansible holds the keys inside against them. Each role refuses a variable that none has."""
    told = set()
    for path in glob.glob(os.path.join(HERE, "..", "..", "..", "..", "roles", "*", "meta", "argument_specs.yml")):
        with open(path, encoding="utf-8") as handle:
            options = yaml.safe_load(handle)["argument_specs"]["main"]["options"]
        told.update(name for name in options if name.startswith("plumbline_"))
    assert told | {"plumbline_hosts"} == set(VARIABLES)  # the latter is the playbooks'
