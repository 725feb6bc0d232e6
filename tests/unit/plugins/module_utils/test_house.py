# SPDX-License-Identifier: GPL-3.0-or-later
"""Where every line of code lives: packages below plugins/module_utils, whose imports go down only. Held on the syntax tree of every file."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from pathlib import Path

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._common import errors

PLUGINS = Path(errors.__file__).parents[2]
NAME = "ansible_collections.plumbline.ssd.plugins.module_utils"

# Package → rank. A file imports from its own package and from packages of lower rank, wherever in it the import stands.
RANKS = {
    "_common": 0,  # errors, text, sizes, checks, verdict
    "_model": 1,  # the words of the domain
    "_formats": 2,  # bytes and tool output → model
    "_judge": 3,  # rules over an observation
    "_io": 3,  # files, devices, tools
    "_write_cache": 4,  # the drives' caches
    "_records": 4,  # what is kept on the host
    "_plan": 5,  # spec + observation → steps
    "_observe": 5,  # reads the host
    "_change": 6,  # does it
    "_measure": 6,  # times it
    "_report": 6,  # says it
    "_prove": 7,  # which measurements a stack owes, and what they said
    "_ansible": 8,  # AnsibleModule, exits, the call of a plan
    "_monitor": 9,  # watches a host without Ansible
}
FLOORS = 11
LINES = 420
FUNCTION_LINES = 60

# These open files and devices and run tools; the others compute.
OPENING = ("_io", "_records", "_observe", "_write_cache", "_change", "_measure", "_monitor")
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


def sources(root=PLUGINS / "module_utils"):
    """Path below module_utils → text, of every file that is not empty."""
    texts = {str(path.relative_to(root)).replace(os.sep, "/"): path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    return {path: text for path, text in texts.items() if text}


def imports_of(path, text, known):
    """(line, file that is imported, name that is taken of it, or empty), wherever in the file; of this collection only."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.startswith(NAME):
                    yield node.lineno, one.name[len(NAME) + 1 :].replace(".", "/") + ".py", ""
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").replace(".", "/")
            if node.level:
                base = "/".join([*path.split("/")[: -node.level], *([base] if base else [])])
            elif base.startswith(NAME.replace(".", "/")):
                base = base[len(NAME) + 1 :]
            else:
                continue
            for one in node.names:
                inner = "%s/%s.py" % (base, one.name) if base else one.name + ".py"
                yield (node.lineno, inner, "") if inner in known else (node.lineno, base + ".py", one.name)


def package(path):
    return path.split("/")[0]


def wrong_ways(texts):
    """Imports that go up or sideways, and files that are in no package."""
    found = ["%s: in no package that has a rank" % path for path in texts if package(path) not in RANKS]
    for path, text in texts.items():
        for line, other, name in imports_of(path, text, texts):
            own, there = package(path), package(other)
            if own in RANKS and there != own and not RANKS[own] > RANKS.get(there, 99):
                found.append("%s:%d: imports %s" % (path, line, other))
            if (own, there) == ("_change", "_plan") and other != "_plan/steps.py":
                found.append("%s:%d: takes %s of %s; a change knows the steps of a plan alone" % (path, line, name, other))
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
            if other not in texts or name == "*":
                found.append("%s:%d: imports %s of %s, which is no file" % (path, line, name, other))
    return found


def openings(texts):
    """Where a file that is not to opens something, or takes what can."""
    found = []
    for path, text in texts.items():
        if package(path) in OPENING:
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
NOT_SENT = {"stack_plan": ("_plan", "_judge", "_report", "_prove", "_measure", "_change"), "run_lease": ("_formats", "_observe")}


@pytest.mark.parametrize(("name", "without"), NOT_SENT.items())
def test_a_module_that_every_run_calls_is_sent_without_what_it_does_not_need(name, without):
    """A plan is made on the controller. The words for levels of findings are a file of _judge, and are small."""
    found = sent_with(name)
    assert len(found) > 5 and [path for path in found if package(path) in without and path != "_judge/findings.py"] == []
    assert any(package(path) == "_judge" for path in sent_with("monitor"))


def test_an_exception_is_one():
    """A name in the list that no two files have any more is none."""
    assert {line.split(":")[0] for line in shared_names(sources(), ())} == set(SHARED)


def taking(what):
    """The line that takes a name of a file, or a file of a package."""
    return "from %s.%s import %s\n" % (NAME, *what.rsplit(".", 1))


# What is planted in a house that is in order, and the rule that tells of it.
GOOD = {
    "_common/errors.py": "class PlumblineError(Exception):\n    pass\n",
    "_io/files.py": "import os\n\n\ndef read_all(path):\n    with open(path) as handle:\n        return handle.read()\n",
    "_plan/steps.py": "STEP = {}\n",
    "_plan/lvm.py": taking("_common.errors.PlumblineError") + "import os\n\nWORD = os.path.basename('/a/b')\n",
    "_change/mounts.py": taking("_plan.steps.STEP") + taking("_io.files.read_all"),
}
PLANTED = [
    pytest.param(wrong_ways, {"_common/text.py": taking("_io.files.read_all")}, id="up"),
    pytest.param(wrong_ways, {"_common/text.py": "def late():\n    %s" % taking("_io.files.read_all")}, id="up-and-lazy"),
    pytest.param(wrong_ways, {"_common/text.py": "import %s._io.files\n" % NAME}, id="up-by-its-whole-name"),
    pytest.param(wrong_ways, {"_common/text.py": "from .._io import files\n"}, id="up-and-relative"),
    pytest.param(wrong_ways, {"_common/text.py": "from %s import _io\n" % NAME}, id="up-to-a-package"),
    pytest.param(wrong_ways, {"_judge/guards.py": taking("_io.files.read_all")}, id="sideways"),
    pytest.param(wrong_ways, {"_change/lvm.py": taking("_plan.lvm.WORD")}, id="a-change-that-plans"),
    pytest.param(wrong_ways, {"_change/lvm.py": taking("_plan.lvm")}, id="a-change-that-plans-by-module"),
    pytest.param(wrong_ways, {"_rest/all.py": "X = 1\n"}, id="no-package"),
    pytest.param(wrong_ways, {"_loose.py": "X = 1\n"}, id="no-folder"),
    pytest.param(forms, {"_io/tools.py": "from . import files\n"}, id="relative"),
    pytest.param(forms, {"_io/tools.py": "from %s._io.files import *\n" % NAME}, id="star"),
    pytest.param(forms, {"_io/tools.py": "import %s._io.files\n" % NAME}, id="whole-name"),
    pytest.param(forms, {"_io/tools.py": taking("_io.gone.read_all")}, id="no-such-file"),
    *(
        pytest.param(openings, {"_judge/guards.py": text}, id="opens-%d" % number)
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
    pytest.param(circles, {"_io/a.py": taking("_io.b.x"), "_io/b.py": taking("_io.c.x"), "_io/c.py": "def f():\n    " + taking("_io.a.x")}, id="circle"),
    pytest.param(circles, {"_io/a.py": "from %s._io import a\n" % NAME}, id="itself"),
    pytest.param(too_large, {"_io/a.py": "x = 1\n" * (LINES + 1)}, id="large-file"),
    pytest.param(too_large, {"_io/a.py": "class A:\n    def f(self):\n" + "        x = 1\n" * FUNCTION_LINES}, id="large-function"),
    pytest.param(shared_names, {"_io/a.py": "class PlumblineError:\n    pass\n"}, id="a-class-twice"),
    pytest.param(shared_names, {"_change/a.py": "def read_all():\n    pass\n"}, id="a-function-twice"),
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
