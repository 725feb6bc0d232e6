# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's tasks for the steps of a plan, read as they are, so that the tests use the parameters that playbooks use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

_KEYWORDS = {"name", "loop", "loop_control", "environment", "become", "register", "when", "changed_when", "tags", "no_log"}
_OF_OTHERS = "plumbline.ssd.run_module"
_JINJA = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)


@dataclass(frozen=True)
class Task:
    """One module call of one loop item."""

    module: str
    args: dict[str, Any]
    env: dict[str, str]
    label: str


def render(value: Any, variables: Mapping[str, Any]) -> Any:
    """A YAML value with its templates filled in; a template alone keeps the type of what it names, as in Ansible."""
    if isinstance(value, dict):
        return {key: render(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [render(inner, variables) for inner in value]
    if not isinstance(value, str) or "{{" not in value:
        return value
    text = value.strip()
    if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1:
        found: Any = _JINJA.compile_expression(text[2:-2].strip(), undefined_to_none=False)(**variables)
        if isinstance(found, jinja2.Undefined):
            raise KeyError(f"{value}: undefined")
        return list(found) if hasattr(found, "__next__") else found
    return _JINJA.from_string(value).render(**variables)


@lru_cache
def task_file(path: Path) -> list[dict[str, Any]]:
    """The tasks of a file."""
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def tasks_for(root: Path, steps: Sequence[Mapping[str, Any]]) -> Iterator[Task]:
    """The module calls by which the role carries out these steps, without the reading back."""
    variables = {"build_now": {"steps": steps, "lease": {}}, "plumbline_stacks": [], "build_fail_if": "never", "omit": {}}
    for task in task_file(root / "roles" / "build" / "tasks" / "steps.yml"):
        if "loop" not in task:  # the measured writes
            continue
        (module,) = (key for key in task if key not in _KEYWORDS)
        for item in render(task["loop"], variables):
            env = {key: str(value) for key, value in task.get("environment", {}).items()}
            args = render(task[module], {**variables, task["loop_control"].get("loop_var", "item"): item})
            yield Task(*((args["module"], args["arguments"]) if module == _OF_OTHERS else (module, args)), env, item["summary"])
