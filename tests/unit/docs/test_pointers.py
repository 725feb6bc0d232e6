# SPDX-License-Identifier: GPL-3.0-or-later
"""What comments, docstrings and guides point at is there: a function that they call by name, a file, a room."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PYTHON = [path for base in ("plugins", "tests", "molecule") for path in sorted((ROOT / base).rglob("*.py")) if "__pycache__" not in path.parts]
TEXTS = [*sorted((ROOT / "docs/docsite/rst").glob("*.rst")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md"))]
# Functions of others that a comment names with their source.
ELSEWHERE = {
    "Linux": "__ext4_remount _ext4_show_options ata_link_init ata_std_qc_defer bch2_dev_sysfs_online bio_discard_limit blkpg_do_ioctl "
    "dm_table_set_restrictions ext4_resize_fs "
    "ext4_check_opt_consistency ext4_fsync_journal ext4_get_stripe_size ext4_load_and_init_journal ext4_process_freed_data ext4_trim_all_free "
    "fix_recovery_read_error md_do_sync pci_speed_string sata_spd_string sdev_evt_send show_ata_dev_id submit_bio_noacct sync_request_write xfs_fs_fill_super",
    "lvm2": "_accept_p _lv_create_an_lv apply_lvname_restrictions setup_devices validate_new_vg_name",
    "util-linux": "gpt_write_disklabel",
    "e2fsprogs": "adjust_fs_info ext2fs_default_journal_size",
    "OpenSSH": "safe_path",
    "xfsprogs": "align_ag_geometry calc_default_ag_geometry",
}
CALLED = re.compile(r"(?<![\w./-])([A-Za-z_][\w.]*)\(\)")
FILE = re.compile(r"(?<![\w./-])((?:[a-z_]\w*/)*[a-z_]\w*\.py)\b")
ROOM = re.compile(r"(?<![\w./-])(_[a-z]\w*(?:/[a-z_]\w*)+)(?![\w./])")
ROOMS = ("plugins/module_utils", "plugins/plugin_utils", "plugins")


def prose_of(path: Path) -> list[tuple[int, str]]:
    """(line, text) of the comments and docstrings of a source."""
    text = path.read_text(encoding="utf-8")
    found = [(token.start[0], token.string) for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False):
            found.append((node.body[0].lineno, ast.get_docstring(node, clean=False) or ""))
    return found


def names_in(text: str) -> set[str]:
    """All that a source defines or uses by name."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.name.rpartition(".")[2])
    return found


def is_there(place: str) -> bool:
    """A file or a room by its way from the root, from a room, or a file by its name alone."""
    if any((ROOT / base / place).exists() or (ROOT / base / (place + ".py")).exists() for base in ("", *ROOMS, "tests", "tests/lab", "tests/tools")):
        return True
    return "/" not in place and any(path.name == place for path in PYTHON)


def wrong_pointers(text: str, known: set[str]) -> list[str]:
    """What a text points at that is not there."""
    called = [name for name in CALLED.findall(text) if name.rpartition(".")[2] not in known]
    return [name + "()" for name in called] + [place for place in [*FILE.findall(text), *ROOM.findall(text)] if not is_there(place)]


def known_names() -> set[str]:
    others = {name for names in ELSEWHERE.values() for name in names.split()}
    return set(dir(builtins)) | others | set().union(*(names_in(path.read_text(encoding="utf-8")) for path in PYTHON))


def test_what_comments_point_at_is_there():
    known = known_names()
    found = [
        "%s:%d: %s" % (path.relative_to(ROOT), line, wrong)
        for path in PYTHON
        if path.is_relative_to(ROOT / "plugins")
        for line, text in prose_of(path)
        for wrong in wrong_pointers(text, known)
    ]
    assert not found, "\n".join(found)


def test_what_guides_point_at_is_there():
    known = known_names()
    found = []
    for path in TEXTS:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            quoted = " ".join(re.findall(r"``?([^`]+)``?", line))
            found += ["%s:%d: %s" % (path.relative_to(ROOT), number, wrong) for wrong in wrong_pointers(quoted, known)]
    assert not found, "\n".join(found)


def test_the_names_of_others_are_named():
    """A name in the list that no comment has any more is none."""
    texts = [text for path in PYTHON if path.is_relative_to(ROOT / "plugins") for _line, text in prose_of(path)]
    text = "\n".join([*texts, *(path.read_text(encoding="utf-8") for path in TEXTS)])
    assert [name for names in ELSEWHERE.values() for name in names.split() if name + "()" not in text] == []


def test_a_stale_pointer_is_found():
    known = {"fault_of"}
    assert wrong_pointers("see fault_of() and errors.fault_of()", known) == []
    assert wrong_pointers("see below()", known) == ["below()"]
    assert wrong_pointers("_judge/guards.py, _block/guards.py, kinds.py, gone_for_good.py", known) == ["_judge/guards.py", "gone_for_good.py"]
    assert wrong_pointers("in _stack/reading, not in _observe/host", known) == ["_observe/host"]
