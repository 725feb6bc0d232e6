# SPDX-License-Identifier: GPL-3.0-or-later
"""The samples of the guides, of the READMEs and of the modules' documentation: each block of code with its place and its language."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, List, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[3]
TEXTS = ("*.md", "docs/**/*.md", "docs/**/*.rst", "roles/*/README.md", "molecule/lab/**/README.md", "tests/README.md", "tests/*/README.md")
# Text that a command wrote, or a drawing. Nobody types it.
OUTPUT = "text"
SHELL = ("shell", "console")


class Sample(NamedTuple):
    """One block. *language*: empty if it says none; *label*: of a mark '.. commands:', by which a test of the lab finds and follows it."""

    path: str
    line: int
    language: str
    text: str
    label: str = ""

    @property
    def name(self) -> str:
        """For the name of a test, of a file and of a host."""
        return re.sub(r"\W+", "-", "%s-%d" % (self.path, self.line))

    @property
    def first_line(self) -> str:
        return self.text.strip().split("\n")[0]

    @property
    def script(self) -> str:
        """What is typed. In a block 'console' a line begins with a prompt, or goes on with the one before it."""
        return re.sub(r"^[$#] ", "", self.text, flags=re.MULTILINE) if self.language == "console" else self.text


def find_samples(root: Path = ROOT) -> List[Sample]:
    """All of them, by file and line."""
    paths = sorted({path for pattern in (*TEXTS, "plugins/modules/*.py") for path in root.glob(pattern)})
    return [sample for path in paths for sample in samples_of(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))]


def examples_of(path: str, text: str) -> List[Sample]:
    """The EXAMPLES of a module."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXAMPLES" and isinstance(node.value, ast.Constant):
            return [Sample(path, node.lineno, "yaml", str(node.value.value).strip("\n"))]
    return []


def samples_of(path: str, text: str) -> List[Sample]:
    """The blocks of a text, by the rules of its format."""
    if path.endswith(".py"):
        return examples_of(path, text)
    return _rst(path, text.split("\n")) if path.endswith(".rst") else _markdown(path, text.split("\n"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block(lines: List[str], start: int, indent: int) -> "tuple[str, int]":
    """(the lines that are indented deeper, without what all of them are indented by; the first line behind them)."""
    end = start
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    block = [line for line in lines[start:end] if not re.match(r"\s*:[a-z-]+:", line)]
    least = min((_indent(line) for line in block if line.strip()), default=0)
    return "\n".join(line[least:] for line in block).strip("\n"), end


def _rst(path: str, lines: List[str]) -> List[Sample]:
    """Directives that hold code, and paragraphs that end with two colons. A comment or another directive is no code."""
    found: List[Sample] = []
    number, label = 0, ""
    while number < len(lines):
        line, directive = lines[number], re.match(r"\s*\.\. (?:code-block|code|sourcecode|parsed-literal|prompt)::\s*(\S*)", lines[number])
        mark = re.match(r"\.\. commands: (\S+)$", line)
        if mark:
            label = mark.group(1)
        if directive or (line.rstrip().endswith("::") and not line.lstrip().startswith("..")):
            text, end = _block(lines, number + 1, _indent(line))
            found.append(Sample(path, number + 1, directive.group(1) if directive else "", text, label))
            number, label = end, ""
        else:
            number += 1
    return found


def _markdown(path: str, lines: List[str]) -> List[Sample]:
    """Fences, and what is indented by four behind an empty line outside of a list."""
    found: List[Sample] = []
    number, in_list = 0, False
    while number < len(lines):
        line, fence = lines[number], re.match(r"\s*(```+|~~~+)\s*(\S*)", lines[number])
        if fence:
            end = next(at for at in range(number + 1, len(lines)) if lines[at].strip().startswith(fence.group(1)))
            found.append(Sample(path, number + 1, fence.group(2), "\n".join(lines[number + 1 : end])))
            number = end + 1
            continue
        if line.strip() and not line.startswith(" "):
            in_list = re.match(r"([-*+]|\d+\.)\s", line) is not None
        if line.startswith("    ") and not in_list and (number == 0 or not lines[number - 1].strip()):
            text, end = _block(lines, number, 3)
            found.append(Sample(path, number + 1, "", text))
            number = end
            continue
        number += 1
    return found


class Kind(NamedTuple):
    """What a YAML sample is: one of the words of KINDS."""

    word: str
    data: Any


def kind_of(sample: Sample, stack_keys: "tuple[str, ...]") -> Kind:
    """Raises ValueError for what is none of these."""
    data = yaml.safe_load(sample.text)
    if isinstance(data, list) and all(isinstance(one, dict) for one in data):
        plays = [one for one in data if "hosts" in one or "import_playbook" in one or "ansible.builtin.import_playbook" in one]
        if plays and len(plays) < len(data):
            raise ValueError("it mixes plays and tasks")
        return Kind("plays" if plays else "tasks", data)
    if isinstance(data, dict) and data:
        if all(key.startswith("plumbline_") for key in data):
            return Kind("variables", data)
        if set(data) <= set(stack_keys):
            return Kind("stack", data)
        if all(isinstance(group, dict) and "hosts" in group for group in data.values()):
            return Kind("inventory", data)
        for word, keys in (("requirements", {"collections"}), ("environment", {"version", "images", "additional_build_files", "dependencies"})):
            if set(data) == keys:
                return Kind(word, data)
    raise ValueError("it is no play, task, variable, key of a stack, inventory, requirements or execution environment")
