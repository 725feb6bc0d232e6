# SPDX-License-Identifier: GPL-3.0-or-later
"""How many lines of code there are: `python tests/tools/code_lines.py [FOLDER]` prints a line for each room, and the sum.

Blank lines, comments, docstrings and the documentation of modules are no code; templates are counted without their comments and blanks.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTATION = ("DOCUMENTATION", "EXAMPLES", "RETURN", "ACTIONGROUP", "CONTROLLER")
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)


def code_lines(text: str) -> int:
    """The lines of a Python source that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if _is_prose(node):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    return len(lines)


def _is_prose(node: ast.AST) -> bool:
    """Whether it is a text that stands alone, which is a docstring, or what a documentation is assigned."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    named = node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(named, ast.Name) and named.id in DOCUMENTATION


def template_lines(text: str) -> int:
    """The lines of a Jinja2 template that hold something."""
    return sum(1 for line in re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL).splitlines() if line.strip())


def rooms(folder: Path) -> Counter[str]:
    """Room → its lines of code. A room is a folder, at most three names deep."""
    found: Counter[str] = Counter()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".j2") and "__pycache__" not in path.parts:
            count = code_lines if path.suffix == ".py" else template_lines
            found["/".join(path.relative_to(folder).parts[:-1][:3])] += count(path.read_text(encoding="utf-8"))
    return found


def main(folder: str = str(ROOT / "plugins")) -> int:
    counted = rooms(Path(folder))
    for room, lines in sorted(counted.items()):
        print(f"{lines:7,}  {room or '.'}")
    print(f"{sum(counted.values()):7,}  in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
