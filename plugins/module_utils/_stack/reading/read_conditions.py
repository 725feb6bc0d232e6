# SPDX-License-Identifier: GPL-3.0-or-later
"""The conditions of a measurement that can change without the stack: under others, the same measurement may have another result. I/O."""

from __future__ import annotations

import os
from typing import Dict

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, find_known_tools
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import one_line


def read_conditions(run: Runner) -> Dict[str, str]:
    """Releases of the kernel and of fio; empty for one that is not there."""
    return {"kernel": os.uname().release, "fio": _fio(run)}


def _fio(run: Runner) -> str:
    tool = find_known_tools().get("fio")
    if not tool:
        return ""
    try:
        code, out, _err = run([tool, "--version"])
    except PlumblineError:
        return ""
    return "" if code else one_line(out).replace("fio-", "", 1)
