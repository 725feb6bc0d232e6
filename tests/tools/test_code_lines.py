# SPDX-License-Identifier: GPL-3.0-or-later
"""The counter of lines of code."""

from __future__ import annotations

from pathlib import Path

import code_lines
import pytest

SOURCE = '''#!/usr/bin/python
"""A docstring
of two lines."""

from __future__ import annotations  # 1

DOCUMENTATION = r"""
module: x
"""


class A:  # 2
    """Told."""

    # a comment
    text = """of two
lines"""  # 3 and 4

    def f(self):  # 5
        return (  # 6
            1,  # 7

        )  # 8
'''


@pytest.mark.parametrize(("text", "lines"), [(SOURCE, 8), ("", 0), ("# only\n\n", 0), ("x = 1\n", 1)])
def test_lines_that_hold_code(text: str, lines: int) -> None:
    assert code_lines.code_lines(text) == lines


def test_lines_of_a_template() -> None:
    assert code_lines.template_lines("{# one\n two #}\n\n<p>\n  {{ x }}\n</p>\n") == 3


def test_the_rooms_of_the_collection(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert code_lines.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10 and lines[-1].endswith("in all")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.py").write_text("x = 1\n")
    (tmp_path / "d.txt").write_text("x\n")
    assert code_lines.rooms(tmp_path) == {"a/b": 1}
