# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of the test suite: what each one runs.

A stage is a list of commands that must all succeed. Static stages work on a copy of the tracked files; lab stages need the virtual machine.
The order is that in which they are begun; schedule.py says which run side by side.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml
from shares import Shares

SCENARIOS_FIRST = ("nvme", "multi_volume", "separate", "loop", "simulated", "occupied", "interrupted", "faults", "hostile")
PLAYBOOK = "plumbline.ssd.provision_db_storage"
# How much is run: what a contributor waits for, what CI runs, and everything there is.
LEVELS = QUICK, FULL, ALL = ("quick", "full", "all")


@dataclass(frozen=True)
class Places:
    """Where a run finds and puts things."""

    root: Path  # the checkout
    collections: Path  # what ANSIBLE_COLLECTIONS_PATH is for static stages
    staged: Path  # the copy of the tracked files below it
    scratch: Path  # gone after the run
    cache: Path  # kept


@dataclass(frozen=True)
class Command:
    """One command line, or a step of Python that takes its place."""

    argv: tuple[str, ...] = ()
    cwd: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    call: Callable[[], object] | None = None


@dataclass(frozen=True)
class Stage:
    """A named list of commands. `commands` is called when the stage's turn comes, so that it may look at earlier results."""

    name: str
    does: str
    commands: Callable[[], list[Command]]
    lab: bool = False  # part of what needs the virtual machine
    machine: int = 0  # the number of the lab's machine that it takes for itself
    alone: bool = False  # it measures: nothing may run beside it
    after: frozenset[str] = frozenset()  # stages that have to pass before
    levels: frozenset[str] = frozenset(LEVELS)
    shared_out: bool = False  # with --part its tests are cut into pieces, not the stages
    minutes: float = 90  # then it hangs: on a busy host a stage of low priority takes eight times as long as on an idle one


@dataclass(frozen=True)
class Chosen:
    """The tests of the stages that need not run all of theirs, as paths in the collection."""

    unit: Sequence[str] = ("tests/unit",)
    lab: Sequence[str] = ("tests/lab",)
    sanity: Sequence[str] = ()  # none: all that is published


def roles_of(collection: Path) -> list[str]:
    """Roles that document themselves with argument specs."""
    return sorted({path.parts[-3] for pattern in ("yml", "yaml") for path in collection.glob(f"roles/*/meta/argument_specs.{pattern}")})


def modules_of(collection: Path) -> list[str]:
    """Modules of the collection."""
    return sorted(path.stem for path in collection.glob("plugins/modules/*.py") if not path.stem.startswith("_"))


def published(collection: Path) -> list[str]:
    """What the built collection has, at its top. The tests are not in it: ruff and mypy look at them."""
    ignored = yaml.safe_load((collection / "galaxy.yml").read_text(encoding="utf-8"))["build_ignore"]
    return sorted(path.name + "/" * path.is_dir() for path in collection.iterdir() if not any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored))


def scenarios_of(root: Path) -> list[str]:
    """Molecule scenarios, the well-known ones first and in their order."""
    found = {path.parent.name for path in root.glob("molecule/*/molecule.yml")}
    first = [name for name in SCENARIOS_FIRST if name in found]
    return first + sorted(found.difference(first))


def _stage_of(scenario: Path) -> str:
    """The name of a scenario's stage, where it has one of its own."""
    found = re.search(r"^#\s*stage:\s*(\S+)$", scenario.read_text(encoding="utf-8"), re.MULTILINE)
    return found.group(1) if found else f"molecule-{scenario.parent.name}"


def _says(scenario: Path, word: str) -> bool:
    """Whether a scenario says something of itself, in a comment line of its molecule.yml that begins with the word."""
    return re.search(rf"^#\s*{word}\b", scenario.read_text(encoding="utf-8"), re.MULTILINE) is not None


def static_stages(at: Places, chosen: Chosen) -> list[Stage]:
    """Everything that a laptop can run without the virtual machine."""
    here = at.staged
    collection = {"ANSIBLE_COLLECTIONS_PATH": str(at.collections)}
    importable = {"PYTHONPATH": str(at.collections)}

    def run(*argv: str, cwd: Path = here, env: dict[str, str] | None = None) -> Command:
        return Command(argv=argv, cwd=cwd, env={**collection, **(env or {})})

    def mypy(*argv: str, env: dict[str, str] | None = None, cwd: Path = here) -> Command:
        config = ("--config-file", str(here / "pyproject.toml"), "--cache-dir", str(at.cache / "mypy"))
        return run(sys.executable, "-m", "mypy", *config, *argv, env=env, cwd=cwd)

    def ruff() -> list[Command]:
        kept = {"RUFF_CACHE_DIR": str(at.cache / "ruff")}
        return [run("ruff", "check", ".", env=kept), run("ruff", "format", "--check", "--diff", "tests/tools", env=kept)]

    def types() -> list[Command]:
        packages = [
            f"--package=ansible_collections.plumbline.ssd.plugins.{name}" for name in ("module_utils", "plugin_utils.plan", "plugin_utils.fleet_report")
        ]
        lab = [
            str(path.relative_to(here / "molecule/lab"))
            for path in sorted((here / "molecule/lab").iterdir())
            if (path.is_dir() and (path / "__init__.py").exists()) or path.suffix == ".py"
        ]
        return [
            # From inside, so that `from .errors import …` and `from plumblab import …` mean what they mean at run time.
            mypy("--namespace-packages", *packages, env={"MYPYPATH": str(at.collections)}, cwd=at.collections),
            mypy(*lab, cwd=here / "molecule/lab"),
            mypy(".", env={"MYPYPATH": str(here / "tests/lab")}, cwd=here / "tests/tools"),
        ]

    def pytest(*paths: str, jobs: str = "0") -> Command:
        return run(sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "loadgroup", "--durations=25", "-p", "no:cacheprovider", *paths, env=importable)

    def sanity() -> list[Command]:
        from ansible_test_pip import provide

        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        files = chosen.sanity or published(here)
        return [Command(call=provide), run("ansible-test", "sanity", "--venv", "--python", python, "--color", "no", *files, env={"PIP_QUIET": "1"})]

    def build() -> list[Command]:
        built, installed = at.scratch / "built", at.scratch / "installed"
        env = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}

        def contents() -> None:
            top = {path.name for path in (installed / "ansible_collections/plumbline/ssd").iterdir()}
            unwanted = top.intersection({"molecule", "tests", "plumbline", "requirements", "pyproject.toml", "ansible.cfg", ".ci", ".config", ".git"})
            if unwanted:
                raise AssertionError(f"the built collection holds {', '.join(sorted(unwanted))}: see build_ignore in galaxy.yml")

        def create(definition: str) -> Command:
            return run("ansible-builder", "create", "--file", definition, "--context", str(at.scratch / "context"))

        def dependencies() -> None:
            """What the installed collection asks of an execution environment, beside ansible-core: nothing."""
            done = subprocess.run(["ansible-builder", "introspect", str(installed)], capture_output=True, text=True, check=True)
            found = [line for line in done.stdout.splitlines() if line and not line.startswith(("#", "---"))]
            if found != ["python: []", "system: []"]:
                raise AssertionError(f"an execution environment would need more than ansible-core: {found}")

        archive = built / f"plumbline-ssd-{_version(here)}.tar.gz"
        documented: list[Command] = []
        if modules_of(here):
            documented.append(run("ansible-doc", "-t", "module", *(f"plumbline.ssd.{name}" for name in modules_of(here)), env=env, cwd=at.scratch))
        if roles_of(here):
            documented.append(run("ansible-doc", "-t", "role", *(f"plumbline.ssd.{name}" for name in roles_of(here)), env=env, cwd=at.scratch))
        return [
            run("ansible-galaxy", "collection", "build", "--force", "--output-path", str(built)),
            # The dependencies are in this environment already; without --no-deps the installer asks a Galaxy server for them.
            run("ansible-galaxy", "collection", "install", "--offline", "--no-deps", "--force", "-p", str(installed), str(archive), env=env),
            Command(call=contents),
            *documented,
            run("ansible-playbook", "--syntax-check", "-i", "localhost,", PLAYBOOK, env=env, cwd=at.scratch),
            # Its templates are files beside the code: the archive has to hold them.
            run("ansible", "localhost", "-m", "plumbline.ssd.report", "-a", f"path={at.scratch}/report hosts=db07", env=env, cwd=at.scratch),
            # The files that an image is built of. Only the build itself would ask a registry.
            create("meta/execution-environment.yml"),
            create("tests/consumer/execution-environment.yml"),
            Command(call=dependencies),
        ]

    def docs() -> list[Command]:
        return [
            run("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs=self", "--skip-rstcheck", "."),
            run(str(here / "docs/site/build.sh"), str(at.scratch / "docs"), env=importable),
        ]

    return [
        Stage("ruff", "Python style and mistakes", ruff),
        Stage("mypy", "types of module_utils, the plan, the report, the lab and these tools", types),
        Stage("unit", "unit tests", lambda: [pytest(*chosen.unit, jobs="2")]),
        Stage("tools", "tests of these tools", lambda: [pytest("tests/tools")]),
        Stage("lab-unit", "tests of the lab's own parts, without a machine", lambda: [pytest("molecule/lab/tests")]),
        Stage("simssd", "tests of the simulated SSD", lambda: [pytest("molecule/lab/simssd/test_simssd.py")]),
        Stage("sanity", "ansible-test sanity", sanity),
        Stage("lint", "ansible-lint, production profile, with yamllint", lambda: [run("ansible-lint", "--offline", "--strict", "--nocolor")]),
        Stage("docs", "the documentation is valid and can be built", docs),
        Stage("licences", "every file has a licence that can be read by programs", lambda: [run("reuse", "lint", "--lines", cwd=at.root)]),
        Stage("changelog", "the changelog fragments are valid", lambda: [run("antsibull-changelog", "lint")]),
        Stage("build", "build, install, use by name what was installed, prepare an execution environment", build),
    ]


def lab_stages(at: Places, suites: Sequence[str], chosen: Chosen, shares: Shares, level: str) -> list[Stage]:
    """What needs the lab's machines; *suites*: the Debian release in each of them, one or two. What measures comes last.

    Each scenario and each test file has its machine. At the level of all, both run everything, where they are of two releases.
    """
    lab = str(at.root / "molecule/lab/lab.py")
    both = level == ALL and len(set(suites)) > 1

    def one(*argv: str) -> Callable[[], list[Command]]:
        return lambda: [Command(argv=argv, cwd=at.root)]

    def harness(files: Sequence[str], marks: str) -> Callable[[], list[Command]]:
        return one(sys.executable, "-m", "pytest", "-v", "--durations=0", "--durations-min=2", "-p", "no:cacheprovider", "-m", marks, "-n", "0", *files)

    def images() -> list[Command]:
        return [Command(argv=(sys.executable, lab, "image", "--suite", suite), cwd=at.root) for suite in dict.fromkeys(suites)]

    def lab_stage(name: str, does: str, commands: Callable[[], list[Command]], number: int, levels: Sequence[str], **more: bool) -> Stage:
        number = min(number, len(suites))
        says = f"{does}, in Debian {suites[number - 1]}"
        return Stage(name, says, commands, lab=True, machine=number, after=frozenset({"lab-up"}), levels=frozenset(levels), minutes=150, **more)

    def copies(stage: Stage) -> list[Stage]:
        """A stage, and the same on the other machine where both run everything."""
        if not both:
            return [stage]
        other = 3 - stage.machine
        does = stage.does.replace(suites[stage.machine - 1], suites[other - 1])
        return [stage, replace(stage, name=f"{stage.name}-{suites[other - 1]}", does=does, machine=other)]

    found = []
    for name in scenarios_of(at.root):
        declared = at.root / "molecule" / name / "molecule.yml"
        levels = (ALL,) if _says(declared, "long") else LEVELS if _says(declared, "quick") else (FULL, ALL)
        command = one("molecule", "test", "--scenario-name", name)
        stage = lab_stage(_stage_of(declared), f"molecule scenario {name}", command, shares.of_scenario(name), levels, alone=_says(declared, "measures"))
        found += copies(stage)
    found.append(lab_stage("lab-quick", "guards, refusals, and each module on real devices", harness(shares.files(chosen.lab), "quick"), 2, (QUICK,)))
    whole_host = harness(shares.files(chosen.lab), "whole_host")
    found += copies(lab_stage("whole-host", "what each role changes on the host", whole_host, shares.of_test("test_whole_host"), (FULL, ALL), shared_out=True))
    for number in (1, 2):
        files = shares.files(chosen.lab, None if both or len(suites) == 1 else number)
        if files and number <= len(suites):
            layouts = harness(files, "not measured and not whole_host")
            found.append(lab_stage(f"lab-tests-{number}", "layouts, refusals and guilty layers", layouts, number, (FULL, ALL), shared_out=True))
            measured = harness(files, "measured")
            found.append(lab_stage(f"lab-measured-{number}", "sweeps, shares, sync rates", measured, number, (FULL, ALL), shared_out=True, alone=True))
    return [
        Stage("lab-image", "the machines' images, from the cache if they are there", images, lab=True),
        Stage("lab-up", "a machine answers", one(sys.executable, lab, "up"), lab=True, machine=1, after=frozenset({"lab-image"})),
        *sorted(found, key=lambda stage: stage.alone),
    ]


def _version(collection: Path) -> str:
    match = re.search(r"^version:\s*(\S+)", (collection / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise RuntimeError("galaxy.yml has no version")
    return match.group(1)
