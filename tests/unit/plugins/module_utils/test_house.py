# SPDX-License-Identifier: GPL-3.0-or-later
"""Where every line of code lives: rooms by subject below plugins/module_utils, whose imports go down only. Held on the syntax tree of every file."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from pathlib import Path

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import errors

PLUGINS = Path(errors.__file__).parents[2]
NAME = "ansible_collections.plumbline.ssd.plugins.module_utils"
UPSTAIRS = "plugin_utils"

# Room → rank. A file imports from its own room and from rooms of lower rank, wherever in it the import stands.
RANKS = {
    "_core": 0,  # errors, text, sizes, checks, verdict, files, tools, lease: knows no subject
    "_block": 1,  # the host's block devices as they are
    "_drive": 2,  # what a drive is, says and is told: health, write cache, link
    "_stack": 3,  # what is built: filesystems, volumes, partitions, mounts; the reading of a host; the static proof
    "_measure": 4,  # a room for each measurement
    "_proof": 5,  # what all measurements of a stack say
    "_monitor": 6,  # watches a host without Ansible
    "plugin_utils": 7,  # of the controller: the plan, the views, the report; never sent to a host
}
FLOORS = 9
LINES = 420
TEST_LINES = 800
FUNCTION_LINES = 60

# These open files and devices and run tools: by the first word of their names, or because they stand here. All others compute.
VERBS = ("read", "write", "change", "ask", "keep", "run")
OPENING = {
    "_core/files.py",
    "_core/folders.py",
    "_core/guardian.py",  # puts back what a killed process has changed
    "_core/interpreter.py",
    "_block/block_device.py",
    "_block/held_device.py",
    "_drive/write_cache/command.py",
    "_measure/fio.py",
    "_measure/held_volumes.py",
    "_measure/raw_device.py",
    "_measure/steady_state/drive_load.py",
    "_measure/steady_state/driver.py",
    "_measure/steady_state/files.py",
    "_measure/steady_state/service.py",
    "_measure/sweep/probe.py",
    "_measure/sweep/target.py",
    "_measure/sync/rows.py",
    "_measure/sync/writer.py",
    "_measure/throughput/session.py",
    "_monitor/install.py",
    "_monitor/program.py",
    "plugin_utils/files.py",
    "plugin_utils/report.py",  # asks which process it is
    "plugin_utils/plan/spec_check.py",  # of the roles' argument specs
}
DOORS = ("asyncio", "fcntl", "glob", "grp", "io", "mmap", "multiprocessing", "pathlib", "pwd", "select", "shutil", "socket", "subprocess", "syslog", "tempfile")
# What a file that opens nothing may take of os: what only computes, and who it is.
OF_OS = ("fsdecode", "fsencode", "geteuid", "path", "strerror")
OF_PATH = ("basename", "dirname", "join", "normpath", "split", "splitext")

# Names that several files may have, and why.
SHARED = {
    "main": "of each program that a host runs by itself",
    "Options": "each measurement has its own, in the file options of its package",
    "read_options": "each measurement has its own, in the file options of its package",
}


def files_below(root, base):
    """Path below *base* → text, of every file below *root* that has more than its licence."""
    texts = {str(path.relative_to(base)).replace(os.sep, "/"): path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    return {path: text for path, text in texts.items() if text.count("\n") > 1}


def sources():
    """The files below module_utils, and the controller's. The report has its own test."""
    upstairs = files_below(PLUGINS / UPSTAIRS, PLUGINS)
    return {**files_below(PLUGINS / "module_utils", PLUGINS / "module_utils"), **{path: upstairs[path] for path in upstairs if "/fleet_report/" not in path}}


def place_of(dotted):
    """A file of ours by its dotted name, without its suffix; empty for what is not ours."""
    for base, start in ((NAME, ""), (NAME.rpartition(".")[0] + "." + UPSTAIRS, UPSTAIRS + "/")):
        if dotted == base or dotted.startswith(base + "."):
            return (start + dotted[len(base) + 1 :].replace(".", "/")).rstrip("/") or "."
    return ""


def imports_of(path, text, known):
    """(line, file that is imported, name that is taken of it, or empty), wherever in the file; of this collection only."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for one in node.names:
                if place_of(one.name):
                    yield node.lineno, place_of(one.name) + ".py", ""
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = "/".join([*path.split("/")[: -node.level], *((node.module or "").split(".") if node.module else [])])
            else:
                base = place_of(node.module or "")
                if not base:
                    continue
            for one in node.names:
                inner = "%s/%s.py" % (base, one.name) if base not in ("", ".") else one.name + ".py"
                yield (node.lineno, inner, "") if inner in known else (node.lineno, base + ".py", one.name)


def package(path):
    return path.split("/")[0]


def wrong_ways(texts):
    """Imports that go up, and files that are in no room."""
    found = ["%s: in no room that has a rank" % path for path in texts if package(path) not in RANKS]
    for path, text in texts.items():
        for line, other, _name in imports_of(path, text, texts):
            own, there = package(path), package(other)
            if own in RANKS and there != own and not RANKS[own] > RANKS.get(there, 99):
                found.append("%s:%d: imports %s" % (path, line, other))
    return found


def forms(texts):
    """Imports that Ansible's archive builder, or whoever reads them, could not follow: relative ones, whole packages, stars."""
    found = []
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                found.append("%s:%d: a relative import" % (path, node.lineno))
            if isinstance(node, ast.Import) and any(one.name.startswith("ansible_collections") for one in node.names):
                found.append("%s:%d: imports a module by its whole name" % (path, node.lineno))
        for line, other, name in imports_of(path, text, texts):
            if (other not in texts and "/fleet_report/" not in other) or name == "*":
                found.append("%s:%d: imports %s of %s, which is no file" % (path, line, name, other))
    return found


def openings(texts):
    """Where a file that is not to opens something, or takes what can."""
    found = []
    for path, text in texts.items():
        if path in OPENING or re.match("(?:%s)(?:_|\\.)" % "|".join(VERBS), path.rpartition("/")[2]):
            continue
        for node in ast.walk(ast.parse(text)):
            taken = [one.name for one in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            words = [name.split(".")[0] for name in taken] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                words = [(node.module or "").split(".")[0]]
                if words == ["os"]:
                    allowed = OF_PATH if node.module == "os.path" else OF_OS
                    found += ["%s:%d: takes %s of %s" % (path, node.lineno, name, node.module) for name in taken if name not in allowed]
            found += ["%s:%d: takes %s" % (path, node.lineno, word) for word in words if word in DOORS]
            if isinstance(node, ast.Name) and node.id in ("open", "__import__", "exec", "eval"):
                found.append("%s:%d: %s()" % (path, node.lineno, node.id))
            if isinstance(node, ast.Attribute):
                inner = node.value
                if isinstance(inner, ast.Name) and inner.id == "os" and node.attr not in OF_OS:
                    found.append("%s:%d: os.%s" % (path, node.lineno, node.attr))
                if isinstance(inner, ast.Attribute) and inner.attr == "path" and isinstance(inner.value, ast.Name) and inner.value.id == "os":
                    found += ["%s:%d: os.path.%s" % (path, node.lineno, node.attr)] if node.attr not in OF_PATH else []
    return found


def circles(texts):
    """Files that import each other, directly or not; an import of a file's own counts as well."""
    uses = {path: {other for _line, other, _name in imports_of(path, text, texts)} for path, text in texts.items()}
    below = {}

    def visit(path, way):
        if path in way:
            return [" → ".join([*way[way.index(path) :], path])]
        if path in below or path not in uses:
            return []
        found = [one for other in sorted(uses[path]) for one in visit(other, [*way, path])]
        below[path] = True
        return found

    return [one for path in texts for one in visit(path, [])]


def floors(texts):
    """How many packages stand above each other at most, by what they import."""
    uses = defaultdict(set)
    for path, text in texts.items():
        uses[package(path)].update({package(other) for _line, other, _name in imports_of(path, text, texts)} - {package(path)})

    def height(one, way):
        return 1 + max((height(other, (*way, one)) for other in uses[one] if other not in way), default=0)

    return max(height(one, ()) for one in list(uses))


def too_large(texts):
    """Files and functions that nobody has before his eyes at once."""
    found = []
    for path, text in texts.items():
        if text.count("\n") > LINES:
            found.append("%s: %d lines" % (path, text.count("\n")))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= FUNCTION_LINES:
                found.append("%s:%d: %s() has %d lines" % (path, node.lineno, node.name, node.end_lineno - node.lineno + 1))
    return found


def shared_names(texts, but=None):
    """Classes and functions for others that have one name in several files."""
    places = defaultdict(list)
    for path, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                places[node.name].append(path)
    return ["%s: %s" % (name, ", ".join(paths)) for name, paths in places.items() if len(paths) > 1 and name not in (SHARED if but is None else but)]


RULES = (wrong_ways, forms, openings, circles, too_large, shared_names)


@pytest.mark.parametrize("rule", RULES)
def test_the_house_is_in_order(rule):
    assert rule(sources()) == []


def test_the_floors_are_few():
    texts = sources()
    assert len(texts) > 50
    assert floors(texts) <= FLOORS
    modules = {"modules/" + path.name: path.read_text(encoding="utf-8") for path in (PLUGINS / "modules").glob("*.py")}
    assert [one for one in too_large(modules) if "lines" in one and "()" not in one] == []


def test_no_test_file_is_longer_than_somebody_reads():
    texts = files_below(PLUGINS.parent / "tests", PLUGINS.parent)
    long = {path: text.count("\n") for path, text in texts.items() if text.count("\n") > TEST_LINES}
    assert len(texts) > 100 and long == {}


def sent_with(name):
    """The files that Ansible sends with a module: all that it imports, wherever the import stands."""
    texts = {**sources(), "modules/%s.py" % name: (PLUGINS / "modules" / (name + ".py")).read_text(encoding="utf-8")}
    found, todo = set(), ["modules/%s.py" % name]
    while todo:
        path = todo.pop()
        if path in texts and path not in found:
            found.add(path)
            todo += [other for _line, other, _name in imports_of(path, texts[path], texts)]
    return found


# Module that every run calls → packages that its call does not need.
NOT_SENT = {
    "stack_plan": ("_measure", "_proof", "_monitor", "_stack/static_proof", "_stack/mounts", "_stack/partitions/write_tables.py"),
    "run_lease": ("_drive", "_measure", "_proof", "_monitor", "_stack/static_proof", "_stack/mounts"),
}


@pytest.mark.parametrize(("name", "without"), NOT_SENT.items())
def test_a_module_that_every_run_calls_is_sent_without_what_it_does_not_need(name, without):
    found = sent_with(name)
    assert len(found) > 5 and [path for path in found if path.startswith(without)] == []
    assert any(path.startswith("_stack/static_proof") for path in sent_with("monitor"))


@pytest.mark.parametrize("path", sorted((PLUGINS / "modules").glob("*.py")), ids=lambda path: path.stem)
def test_no_code_of_the_controller_is_sent(path):
    assert not [other for other in sent_with(path.stem) if other.startswith(UPSTAIRS)]


def test_an_exception_is_one():
    """A name in the list that no two files have any more is none."""
    assert {line.split(":")[0] for line in shared_names(sources(), ())} == set(SHARED)


def taking(what):
    """The line that takes a name of a file, or a file of a package."""
    return "from %s.%s import %s\n" % (NAME, *what.rsplit(".", 1))


# What is planted in a house that is in order, and the rule that tells of it.
GOOD = {
    "_core/errors.py": "class PlumblineError(Exception):\n    pass\n",
    "_core/files.py": "import os\n\n\ndef read_all(path):\n    with open(path) as handle:\n        return handle.read()\n",
    "_stack/steps.py": "STEP = {}\n",
    "_stack/volumes/volume_rules.py": taking("_core.errors.PlumblineError") + "import os\n\nWORD = os.path.basename('/a/b')\n",
    "_stack/mounts/change_mounts.py": taking("_stack.steps.STEP") + taking("_core.files.read_all") + "import os\n\nfd = os.open('/', os.O_RDONLY)\n",
    "plugin_utils/plan/lvm.py": taking("_stack.steps.STEP"),
}
PLANTED = [
    pytest.param(wrong_ways, {"_core/text.py": taking("_block.host.Node")}, id="up"),
    pytest.param(wrong_ways, {"_core/text.py": "def late():\n    %s" % taking("_block.host.Node")}, id="up-and-lazy"),
    pytest.param(wrong_ways, {"_core/text.py": "import %s._block.host\n" % NAME}, id="up-by-its-whole-name"),
    pytest.param(wrong_ways, {"_core/text.py": "from .._block import host\n"}, id="up-and-relative"),
    pytest.param(wrong_ways, {"_core/text.py": "from %s import _block\n" % NAME}, id="up-to-a-package"),
    pytest.param(wrong_ways, {"_block/guards.py": taking("_drive.health.health_rules.x")}, id="up-to-a-room-within-a-room"),
    pytest.param(wrong_ways, {"_monitor/metrics.py": "from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import lvm\n"}, id="a-host-that-plans"),
    pytest.param(wrong_ways, {"_rest/all.py": "X = 1\n"}, id="no-package"),
    pytest.param(wrong_ways, {"_loose.py": "X = 1\n"}, id="no-folder"),
    pytest.param(forms, {"_core/run_tools.py": "from . import files\n"}, id="relative"),
    pytest.param(forms, {"_core/run_tools.py": "from %s._core.files import *\n" % NAME}, id="star"),
    pytest.param(forms, {"_core/run_tools.py": "import %s._core.files\n" % NAME}, id="whole-name"),
    pytest.param(forms, {"_core/run_tools.py": taking("_core.gone.read_all")}, id="no-such-file"),
    *(
        pytest.param(openings, {path: text}, id="%s-opens-%d" % (path.split("/", 1)[0], number))
        for path in ("_block/guards.py", "_stack/reader.py", "plugin_utils/plan/lvm.py")
        for number, text in enumerate(
            (
                "def read(path):\n    return open(path)\n",
                "import os\n\nNAMES = os.listdir('/')\n",
                "import os\n\nfd = os.open('/dev/sda', os.O_RDONLY)\n",
                "import os\n\nTHERE = os.path.exists('/')\n",
                "from os import listdir\n",
                "from os.path import exists\n",
                "from pathlib import Path\n",
                "def run():\n    import subprocess\n\n    subprocess.run(['true'])\n",
                "import io\n\nio.open('/a')\n",
                "import fcntl\n",
                "read = open\n",
            )
        )
    ),
    pytest.param(
        circles, {"_core/a.py": taking("_core.b.x"), "_core/b.py": taking("_core.c.x"), "_core/c.py": "def f():\n    " + taking("_core.a.x")}, id="circle"
    ),
    pytest.param(circles, {"_core/a.py": "from %s._core import a\n" % NAME}, id="itself"),
    pytest.param(too_large, {"_core/a.py": "x = 1\n" * (LINES + 1)}, id="large-file"),
    pytest.param(too_large, {"_core/a.py": "class A:\n    def f(self):\n" + "        x = 1\n" * FUNCTION_LINES}, id="large-function"),
    pytest.param(shared_names, {"_core/a.py": "class PlumblineError:\n    pass\n"}, id="a-class-twice"),
    pytest.param(shared_names, {"_stack/a.py": "def read_all():\n    pass\n"}, id="a-function-twice"),
]


@pytest.mark.parametrize("rule", RULES)
def test_what_is_in_order_is_passed(rule):
    assert rule(GOOD) == []


@pytest.mark.parametrize(("rule", "planted"), PLANTED)
def test_what_is_planted_is_found(rule, planted):
    found = rule({**GOOD, **planted})
    assert found and all(any(path in line for path in planted) for line in found)


def test_floors_are_counted():
    assert floors(GOOD) == 3
    tower = {"p%d/a.py" % number: taking("p%d.a.x" % (number - 1)) for number in range(1, 14)}
    assert floors({"p0/a.py": "x = 1\n", **tower}) == 14
