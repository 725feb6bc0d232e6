# SPDX-License-Identifier: GPL-3.0-or-later
"""fstab is the old file or the new one at every instant, and parses, whatever happens to the run that replaces it."""

from __future__ import annotations

import errno
import os
import random
import re
import resource
import shutil
import subprocess

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import files
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts import change_mount_point, change_mounts, write_fstab
from kill_steps import at_every_step

MOUNT = {"path": "/data01", "uuid": "11111111-2222-5333-8444-555555555555", "fstype": "ext4", "options": "noatime,nofail", "passno": 2}
OLD = "# foreign \udcff\n/dev/vda\t/  ext4 errors=remount-ro 0 1\nLABEL=a\\040b /srv/a\\040b xfs noauto,nofail 0 0\n"
NEW = write_fstab.edit_fstab(OLD, [MOUNT])
FINDMNT = shutil.which("findmnt")
needs_findmnt = pytest.mark.skipif(not FINDMNT, reason="findmnt (util-linux) is not here")


def as_bytes(text):
    return text.encode("utf-8", "surrogateescape")


def parse_errors(path):
    """What findmnt(8) says of a table: how many lines it could not parse."""
    said = subprocess.run([FINDMNT, "--verify", "--tab-file", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env={"LC_ALL": "C"})
    found = re.search(rb"(\d+) parse errors?", said.stdout)
    return int(found.group(1)) if found else 0


def fstab_in(directory, link=False):
    place = directory / "real" if link else directory / "fstab"
    place.write_bytes(as_bytes(OLD))
    os.chmod(place, 0o640)
    if link:
        (directory / "fstab").symlink_to("real")
    return directory / "fstab"


def beside(directory):
    return sorted(set(os.listdir(directory)) - {"fstab", "real"})


@pytest.mark.parametrize("link", [False, True], ids=["file", "link"])
def test_killed_at_every_system_call(tmp_path, figure, link):
    """Before and after each one. What a killed run leaves beside the file is never in the way, and gone after the next."""
    path = fstab_in(tmp_path, link)
    seen = []

    def check(step):
        found = path.read_bytes()
        assert found in (as_bytes(OLD), as_bytes(NEW)), "step %d" % step
        assert path.is_symlink() == link and os.stat(path).st_mode & 0o777 == 0o640
        seen.append(found == as_bytes(NEW))
        if beside(tmp_path):
            assert all(re.fullmatch(r"(?:fstab|real)\.plumbline-[0-9]+", name) for name in beside(tmp_path)) and len(beside(tmp_path)) == 1
        files.replace_file(str(path), NEW)
        assert path.read_bytes() == as_bytes(NEW) and beside(tmp_path) == []
        place = path.resolve()
        place.write_bytes(as_bytes(OLD))

    kills = at_every_step(lambda: files.replace_file(str(path), NEW), check)
    assert kills >= 20 and seen[0] is False and seen[-1] is True
    assert seen == sorted(seen), "the old file until one moment, the new one from then on"
    figure("fstab_kill", kills=kills, neither_old_nor_new=0)


@needs_findmnt
def test_both_parse(tmp_path):
    for text in (OLD, NEW):
        (tmp_path / "fstab").write_bytes(as_bytes(text))
        assert parse_errors(tmp_path / "fstab") == 0


@needs_findmnt
def test_what_findmnt_could_parse_it_can_parse_afterwards(tmp_path, figure):
    """Our line adds no error to a table, whatever else is in it."""
    dice = random.Random(11)
    lines = [
        "",
        "#",
        "/dev/vda / ext4 defaults 0 1",
        "tmpfs\t/tmp\ttmpfs size=1g",
        "LABEL=a\\040b /srv/b\\040c xfs noauto 0 0",
        "half",
        "proc /proc",
        "\udcff\x0b",
        "a\x00b",
    ]
    for _row in range(40):
        before = dice.choice(("\n", "\r\n")).join(dice.choice(lines) for _line in range(dice.randrange(8))) + dice.choice(("", "\n"))
        path = tmp_path / "fstab"
        path.write_bytes(as_bytes(before))
        errors = parse_errors(path)
        path.write_bytes(as_bytes(write_fstab.edit_fstab(before, [MOUNT])))
        assert parse_errors(path) <= errors, repr(before)
    figure("fstab_verify", tables=40, new_parse_errors=0)


def test_a_file_that_may_not_grow(tmp_path, figure):
    """The kernel itself stops the write, at every byte of the new file in turn."""
    path = fstab_in(tmp_path)
    size = len(as_bytes(NEW))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for most in range(size):
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
            with pytest.raises(OSError):
                files.replace_file(str(path), NEW)
            assert path.read_bytes() == as_bytes(OLD) and beside(tmp_path) == []
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    figure("fstab_full", stops=size, old_intact=size, left_over=0)


FAULTS = {"ENOSPC": errno.ENOSPC, "EROFS": errno.EROFS, "EPERM": errno.EPERM, "EIO": errno.EIO, "EDQUOT": errno.EDQUOT, "EBUSY": errno.EBUSY}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("call", ["open", "fchmod", "fchown", "fsync", "rename", "write"])
def test_every_fault_of_every_call(tmp_path, monkeypatch, call, name):
    """One line that says what failed and what is there now; the old file, and nothing beside it."""
    path = fstab_in(tmp_path)
    number = FAULTS[name]

    def fail(*args, **_more):
        raise OSError(number, os.strerror(number))

    if call == "write":
        real = os.fdopen

        def opened(*args, **more):
            handle = real(*args, **more)
            monkeypatch.setattr(handle, "flush", fail, raising=False)
            return handle

        monkeypatch.setattr(change_mounts.os, "fdopen", opened)
    else:
        monkeypatch.setattr(change_mounts.os, call, fail)
    with pytest.raises(PlumblineError) as caught:
        change_mounts._replace(str(path), NEW)
    monkeypatch.undo()
    hint = "; lsattr shows whether it is immutable" if name == "EPERM" else ""
    assert caught.value.msg == "%s could not be replaced: %s; it is as it was%s" % (path, os.strerror(number), hint)
    assert path.read_bytes() == as_bytes(OLD) and beside(tmp_path) == []


def test_the_directory_that_cannot_be_synced(tmp_path, monkeypatch):
    """The rename is done, and may yet be lost: said, and no error is swallowed."""
    path = fstab_in(tmp_path)
    real, calls = os.fsync, []

    def second_fails(fd):
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(change_mounts.os, "fsync", second_fails)
    with pytest.raises(PlumblineError, match="could not be replaced: Input/output error; it holds the new text, which a power cut may still take"):
        change_mounts._replace(str(path), NEW)
    assert path.read_bytes() == as_bytes(NEW)


def test_what_a_living_run_has_beside_the_file_is_left_alone(tmp_path):
    path = fstab_in(tmp_path)
    for name in ("fstab.plumbline-1", "fstab.plumbline-999999999", "fstab.plumbline-x", "fstab.plumbline-%d" % os.getpid(), "other.plumbline-999999999"):
        (tmp_path / name).write_text("x")
    files.replace_file(str(path), NEW)
    assert beside(tmp_path) == ["fstab.plumbline-1", "fstab.plumbline-x", "other.plumbline-999999999"]


def test_an_fstab_that_somebody_else_changed_meanwhile(tmp_path, monkeypatch):
    path = fstab_in(tmp_path)
    monkeypatch.setattr(change_mounts, "_FSTAB", str(path))
    monkeypatch.setattr(change_mount_point, "live_mounts", dict)
    monkeypatch.setattr(change_mount_point, "prepare_directory", lambda _path: path.write_bytes(as_bytes(OLD + "# late\n")) and [])
    mount = dict(MOUNT, owner=-1, group=-1, mode="", selinux_context="")
    with pytest.raises(PlumblineError, match="was changed by somebody else meanwhile; it is left as it is now; run again"):
        change_mounts.apply_mounts(lambda argv: (0, "", ""), lambda argv: None, [mount], {}, False, False)
    assert path.read_bytes() == as_bytes(OLD + "# late\n")
