# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of fstab, put in place of their own. Pure."""

from __future__ import annotations

import io
from typing import Any, Mapping, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.proc_files import parse_fstab


def escape(text: str) -> str:
    r"""Write blanks and backslashes of an fstab field as octal, fstab(5)."""
    return "".join("\\%03o" % ord(char) if char in " \t\n\\" else char for char in text)


def fstab_line(mount: Mapping[str, Any]) -> str:
    """The line of one mount."""
    return "UUID=%s %s %s %s 0 %d" % (mount["uuid"], escape(mount["path"]), mount["fstype"], mount["options"], mount["passno"])


def edit_fstab(text: str, mounts: Sequence[Mapping[str, Any]]) -> str:
    """fstab with the lines of *mounts* put in place of their own, or behind the last. Foreign lines stay to the byte."""
    new_lines = {mount["path"]: fstab_line(mount) for mount in mounts}
    lines = []
    for line in io.StringIO(text):  # which ends lines at \n only; str.splitlines() knows ten more ends
        entries = parse_fstab(line)
        target = entries[0].target if entries else ""
        if target in new_lines:
            lines.append(new_lines.pop(target) + "\n")
        else:
            lines.append(line)
    if lines and new_lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return "".join(lines + [line + "\n" for line in new_lines.values()])
