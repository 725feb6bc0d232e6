# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change can affect: the uses between files, followed backwards, and a declared list for what no file tells.

A Python file uses what it imports. A test, a role, a playbook or a scenario also uses the modules and roles that it names, and the files whose
path it writes down. What neither the files nor the list can tell affects everything.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

COLLECTION = "ansible_collections/plumbline/ssd/"
# Where the imports of tests and tools begin, beside their own folder.
ROOTS = ("tests/lab", "tests/tools", "molecule/lab", "molecule/shared")

EVERYTHING = "everything"
LAB = "lab"  # every stage that needs the machine
LAB_TESTS = ("lab-tests-1", "lab-tests-2", "whole-host", "lab-measured-1", "lab-measured-2")  # the stages that share the tests below tests/lab
WHOLE_HOST = "tests/lab/test_whole_host"  # how the tests begin that only the stage of that name runs
CHEAP = frozenset({"ruff", "mypy", "tools", "lab-unit", "docs", "licences", "changelog", "build"})  # seconds: always run
# The first pattern that fits a path says which stages it can affect beside those that its uses tell.
DECLARED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("requirements/*", (EVERYTHING,)),
    ("plumbline", (EVERYTHING,)),
    (".ci/*", (EVERYTHING,)),
    ("pyproject.toml", (EVERYTHING,)),
    ("ansible.cfg", (EVERYTHING,)),
    ("tests/conftest.py", (EVERYTHING,)),
    (".config/*", (LAB,)),
    ("molecule/lab/simssd/*", ("simssd", LAB)),
    ("molecule/lab/*", (LAB,)),
    ("molecule/conftest.py", (LAB,)),
    ("molecule/shared/*", ("lint", LAB)),
    ("molecule/*", ("lint",)),
    ("tests/lab/conftest.py", LAB_TESTS),
    ("roles/*", ("lint",)),
    ("playbooks/*", ("lint",)),
    ("meta/*", ("lint",)),
    ("galaxy.yml", ("lint", "molecule-consumer")),
    (".ansible-lint", ("lint",)),
    (".yamllint", ("lint",)),
    ("plugins/*", ("lint",)),
    ("tests/tools/*", ()),
    ("tests/bench/*", ()),
    ("tests/demo/*", ()),
    ("tests/consumer/*", ("lint",)),
    ("tests/lab/*", ()),
    ("tests/unit/*", ()),
    ("tests/reliability.json", ()),
    ("docs/*", ()),
    ("changelogs/*", ()),
    ("*.md", ()),
    ("CHANGELOG.rst", ()),
    ("LICENSE", ()),
    ("LICENSES/*", ()),
    ("REUSE.toml", ()),
    (".pre-commit-config.yaml", ("lint",)),
    (".gitignore", ()),
)
# What these use beside what they import, in place of the names that they say: they walk folders, or put paths together.
BY_FOLDER: Mapping[str, tuple[str, ...]] = {
    "tests/unit/plugins/modules/test_documentation.py": ("plugins/modules/*", "plugins/action/*", "plugins/doc_fragments/*", "roles/*"),
    "tests/unit/plugins/modules/test_templates.py": ("roles/*", "playbooks/*", "plugins/modules/*"),
    "tests/unit/roles/plays.py": ("roles/*", "plugins/action/*", "plugins/plugin_utils/*"),
    "tests/unit/plugins/module_utils/test_house.py": ("plugins/modules/*", "plugins/module_utils/*"),
    "tests/unit/plugins/module_utils/test_hostile.py": ("plugins/modules/*",),
    "tests/unit/plugins/module_utils/builder.py": ("tests/unit/fixtures/*",),
    "tests/unit/plugins/module_utils/_monitor/test_metrics.py": ("docs/monitoring/*", "docs/docsite/rst/guide_monitoring.rst"),
    "tests/unit/docs/samples.py": ("docs/*", "*.md", "plugins/modules/*"),
    "tests/unit/docs/test_samples.py": ("playbooks/*", "roles/*"),
    "tests/unit/docs/test_pointers.py": ("plugins/*", "docs/*", "*.md"),
    "tests/lab/labkit/roles.py": ("roles/build/tasks/steps.yml",),
    "roles/build/tasks/steps.yml": (
        *(f"plugins/modules/{module}.py" for module in ("write_cache", "aligned_partition", "mount_points")),
        "roles/verify/tasks/writes.yml",
    ),
}
# What these use beside what they import and the names that they say.
BESIDE: Mapping[str, tuple[str, ...]] = {
    "tests/lab/test_monitor.py": ("docs/monitoring/*",),
    "plugins/plugin_utils/fleet_report/environment.py": ("plugins/plugin_utils/fleet_report/templates/*",),
    # Whatever runs on a host may leave something there.
    "tests/lab/labkit/whole_host_runs.py": ("roles/*", "playbooks/*", "plugins/*"),
    "tests/tools/host_changes.py": ("tests/lab/labkit/host_changes.yml",),
}


@dataclass(frozen=True)
class Affected:
    """Files (tests among them) and stages that a change can affect; *why* has a line for each changed file."""

    changed: tuple[str, ...]
    files: frozenset[str]
    stages: frozenset[str]
    why: tuple[str, ...]

    @property
    def everything(self) -> bool:
        return EVERYTHING in self.stages

    def unit_tests(self) -> list[str]:
        """The unit test files to run."""
        return sorted(name for name in self.files if name.startswith("tests/unit/") and _is_test(name))

    def lab_tests(self) -> list[str]:
        """The lab's test files to run; the whole folder where a stage of the lab is affected as such."""
        if self.stages & {LAB, *LAB_TESTS}:
            return ["tests/lab"]
        return sorted(name for name in self.files if name.startswith("tests/lab/") and _is_test(name))

    def wants(self, stage: str, needs_machine: bool) -> bool:
        """Whether a stage can be affected."""
        if self.everything or stage in CHEAP or stage in self.stages or (needs_machine and LAB in self.stages):
            return True
        if stage == "unit":
            return bool(self.unit_tests())
        if stage in LAB_TESTS:
            of_host = [name for name in self.lab_tests() if name.startswith(WHOLE_HOST)]
            return self.lab_tests() == ["tests/lab"] or bool(of_host if stage == "whole-host" else len(self.lab_tests()) > len(of_host))
        if stage == "sanity":
            return bool(self.files)
        scenario = stage.removeprefix("molecule-")
        return any(name.startswith(f"molecule/{scenario}/") for name in self.files)


def _is_test(name: str) -> bool:
    return PurePosixPath(name).name.startswith("test_") and name.endswith(".py")


def changed_files(root: Path, revision: str) -> list[str]:
    """The files that differ from a revision, those that git does not know yet among them; ValueError where git knows no such revision."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", "-C", str(root), "-c", f"safe.directory={root}", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"--changed {revision}: {done.stderr.strip().splitlines()[0]}")
        return [name for name in done.stdout.split("\0") if name]

    return sorted({*git("diff", "--name-only", "--no-renames", "-z", revision, "--"), *git("ls-files", "--others", "--exclude-standard", "-z")})


class Uses:
    """Which tracked file uses which."""

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        self._root = root
        self._names = frozenset(names)
        self._folders = {str(parent) for name in self._names for parent in PurePosixPath(name).parents}
        self._roles = {PurePosixPath(name).parts[1] for name in self._names if name.startswith("roles/")}
        self._playbooks = {PurePosixPath(name).stem for name in self._names if fnmatch(name, "playbooks/*.yml")}
        self.of = {name: self._of(name) for name in sorted(self._names)}

    def _of(self, name: str) -> set[str]:
        path = self._root / name
        found: set[str] = set()
        if name.endswith(".py"):
            found |= self._python(name, ast.parse(path.read_text(encoding="utf-8")))
        elif name in BY_FOLDER or name.endswith("/argument_specs.yml"):
            pass  # the latter names other roles in prose
        elif name.endswith((".yml", ".yaml", ".sh", ".j2", ".cfg")):
            found |= self._words(name, re.sub(r"(?m)(^|\s)#.*$", "", path.read_text(encoding="utf-8")))
        for pattern in (*BY_FOLDER.get(name, ()), *BESIDE.get(name, ())):
            found.update(one for one in self._names if fnmatch(one, pattern))
        parts = PurePosixPath(name).parts
        if parts[0] == "molecule" and len(parts) > 2 and parts[1] not in ("lab", "shared"):
            found.update(one for one in self._names if one.startswith(f"molecule/{parts[1]}/"))
        return found - {name}

    def _python(self, name: str, tree: ast.AST) -> set[str]:
        found: set[str] = set()
        # What ships finds nothing by name; unit tests say the names of layers and steps, which are those of modules and roles, but import what they use.
        shipped, calls_by_name = name.startswith("plugins/"), not (name.startswith("tests/unit/") or name in BY_FOLDER)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found.update(*(self._module(name, alias.name.replace(".", "/")) for alias in node.names))
            elif isinstance(node, ast.ImportFrom):
                base = self._package(name, node.level) + (node.module or "").replace(".", "/")
                found.update(*(self._module(name, place) for place in (base, *(f"{base.rstrip('/')}/{alias.name}" for alias in node.names))))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not shipped and len(node.value) < 200:
                found |= self._path(name, node.value, folders=False)
                if calls_by_name:
                    found |= self._module_named(node.value)  # roles are included by YAML alone
        return found

    @staticmethod
    def _package(name: str, level: int) -> str:
        """What a relative import is relative to, as a path that begins with a slash."""
        if not level:
            return ""
        return "/" + "/".join(PurePosixPath(name).parts[:-level]) + "/"

    def _module(self, name: str, imported: str) -> set[str]:
        """The files of an imported module (its dots as slashes), its package's own among them."""
        if imported.startswith("/"):
            places = [imported.strip("/")]
        elif imported.startswith(COLLECTION):
            places = [imported[len(COLLECTION) :]]
        else:
            places = [f"{root}/{imported}" for root in (str(PurePosixPath(name).parent), *ROOTS)]
        for place in places:
            for file in (f"{place}.py", f"{place}/__init__.py"):
                if file in self._names:
                    package = f"{PurePosixPath(file).parent}/__init__.py"
                    return {file, *([package] if package in self._names else [])}
        return set()

    def _module_named(self, text: str) -> set[str]:
        """A module or a documentation fragment by its name, short or full."""
        name = text.removeprefix("plumbline.ssd.").partition(".")[0]
        places = (f"plugins/{kind}/{name}.py" for kind in ("modules", "action", "doc_fragments"))
        return {one for one in places if one in self._names}

    def _named(self, text: str) -> set[str]:
        """A module, role or playbook by its full name."""
        name = text.removeprefix("plumbline.ssd.")
        found = self._module_named(name)
        if name in self._roles:
            found.update(one for one in self._names if one.startswith(f"roles/{name}/"))
        if name in self._playbooks:
            found.add(f"playbooks/{name}.yml")
        return found

    def _words(self, name: str, text: str) -> set[str]:
        found: set[str] = set()
        for word in re.findall(r"plumbline\.ssd\.\w+|[\w./-]*\w", text):
            found |= self._named(word) if word.startswith("plumbline.ssd.") else self._path(name, word, folders=True)
        return found

    def _path(self, name: str, text: str, folders: bool) -> set[str]:
        """A file, or the files of a folder, by a path from the file's own folder or from the root."""
        if not re.fullmatch(r"[\w./-]+", text) or text in (".", ".."):
            return set()
        found = set()
        for base in (PurePosixPath(name).parent, PurePosixPath(".")):
            place = _normal(base / text)
            if place in self._names:
                found.add(place)
            elif folders and "/" in text.strip("/") and place in self._folders and place != ".":
                found.update(one for one in self._names if one.startswith(f"{place}/"))
        return found

    def users(self, changed: Iterable[str]) -> set[str]:
        """The changed files and all that use them, directly or not."""
        by: dict[str, set[str]] = {}
        for user, used in self.of.items():
            for one in used:
                by.setdefault(one, set()).add(user)
        found, queue = set(changed), list(changed)
        while queue:
            for user in by.get(queue.pop(), ()):
                if user not in found:
                    found.add(user)
                    queue.append(user)
        return found


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part not in (".", "/"):
            parts.append(part)
    return "/".join(parts) or "."


def declared(name: str) -> tuple[str, ...] | None:
    """The stages that the list says of a file; None where it says nothing."""
    return next((stages for pattern, stages in DECLARED if fnmatch(name, pattern)), None)


def affected(uses: Uses, changed: Sequence[str]) -> Affected:
    """What a change of these files can affect."""
    files: set[str] = set()
    stages: set[str] = set()
    why = []
    for name in changed:
        reached = uses.users([name])
        told = declared(name)
        own = (EVERYTHING,) if told is None else told
        files |= reached
        stages.update(own)
        tests = sum(_is_test(one) for one in reached)
        extra = f"; stages {', '.join(own)}" if own else ""
        why.append(f"{name}: {len(reached) - 1} files use it, {tests} of them tests{extra}{'' if told is not None else ' (in no list)'}")
    return Affected(tuple(changed), frozenset(files), frozenset(stages), tuple(why))
