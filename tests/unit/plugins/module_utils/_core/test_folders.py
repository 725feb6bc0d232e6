# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that others can exchange: root follows nobody there, copies nothing from them, and never waits for them."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import threading
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import files, folders

STRANGER, OTHER = 61001, 61002
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="wants two users")
SECRET = "root's own\n"


class Place:
    """A way as Debian has it: a folder of root's, below it one of a stranger's, and in that one the folder that is written to."""

    def __init__(self, top):
        self.top = top
        os.chmod(str(top), 0o755)
        above = top
        while str(above) not in ("/", "/tmp"):  # the stranger comes in
            os.chmod(str(above), 0o755)
            above = above.parent
        self.theirs = self.make("lib/prometheus", STRANGER)
        self.secret = top / "secret"
        self.secret.mkdir()
        (self.secret / "shadow").write_text(SECRET)
        os.chmod(str(self.secret / "shadow"), 0o640)

    def make(self, name, owner=0, mode=0o755):
        path = self.top / name
        path.mkdir(parents=True, exist_ok=True)
        os.chown(str(path), owner, owner)
        os.chmod(str(path), mode)
        return path

    def file(self, folder):
        return str(folder / "plumbline.prom")


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def owner_and_mode(path):
    found = os.lstat(path)
    return found.st_uid, stat.S_IMODE(found.st_mode)


@needs_root
@pytest.mark.parametrize(
    ("owner", "mode", "above", "written_as"),
    [
        pytest.param(0, 0o755, 0, 0, id="root-in-root"),
        pytest.param(0, 0o775, 0, 0, id="group-writable-in-root"),  # as prometheus.prometheus makes it
        pytest.param(0, 0o1777, 0, 0, id="sticky-in-root"),
        pytest.param(0, 0o755, STRANGER, 0, id="root-in-theirs"),  # Debian's own
        pytest.param(STRANGER, 0o755, 0, STRANGER, id="theirs-in-root"),
        pytest.param(STRANGER, 0o755, STRANGER, STRANGER, id="theirs-in-theirs"),
        pytest.param(STRANGER, 0o775, STRANGER, STRANGER, id="theirs-and-their-group"),
    ],
)
def test_who_writes(place, owner, mode, above, written_as):
    os.chown(str(place.theirs), above, above)
    folder = place.make("lib/prometheus/node-exporter", owner, mode)
    for _round in range(2):
        files.replace_file(place.file(folder), "metrics\n")
    assert owner_and_mode(place.file(folder)) == (written_as, 0o644) and os.listdir(str(folder)) == ["plumbline.prom"]
    assert files.remove_file(place.file(folder)) and not files.remove_file(place.file(folder)) and os.listdir(str(folder)) == []


@needs_root
@pytest.mark.parametrize(
    ("owner", "mode", "above", "above_mode", "text"),
    [
        pytest.param(0, 0o775, STRANGER, 0o755, "belongs to user 61001", id="open-to-a-group-in-theirs"),
        pytest.param(STRANGER, 0o755, OTHER, 0o755, "belongs to user 61002", id="theirs-in-another-stranger's"),
        pytest.param(STRANGER, 0o757, 0, 0o755, "can be written to by everybody", id="theirs-and-everybody's"),
        pytest.param(STRANGER, 0o757, STRANGER, 0o755, "can be written to by everybody", id="theirs-in-theirs-and-everybody's"),
        pytest.param(STRANGER, 0o755, 0, 0o777, "can be written to by others than root", id="theirs-in-everybody's"),
        pytest.param(0, 0o777, 0, 0o777, "can be written to by others than root", id="everybody's-in-everybody's"),
    ],
)
def test_what_nobody_can_use(place, owner, mode, above, above_mode, text):
    os.chown(str(place.theirs), above, above)
    os.chmod(str(place.theirs), above_mode)
    folder = place.make("lib/prometheus/node-exporter", owner, mode)
    with pytest.raises(OSError, match=text):
        files.replace_file(place.file(folder), "metrics\n")
    with pytest.raises(OSError, match=text):
        files.remove_file(place.file(folder))
    assert os.listdir(str(folder)) == []


@needs_root
def test_a_folder_that_became_a_link_is_not_followed(place):
    """The stranger has put root's own folder in the place of his."""
    os.symlink(str(place.secret), str(place.theirs / "node-exporter"))
    for call in (lambda path: files.replace_file(path, "x"), files.remove_file, files.read_root_file):
        with pytest.raises(OSError, match="is a symbolic link"):
            call(str(place.theirs / "node-exporter" / "shadow"))
    assert os.listdir(str(place.secret)) == ["shadow"] and (place.secret / "shadow").read_text() == SECRET


@needs_root
@pytest.mark.parametrize("owner", [0, STRANGER])
@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "hard link", "folder"])
def test_what_lies_in_the_place_of_the_file(place, owner, kind):
    """Nothing is opened, followed, or taken as a model for owner and mode; a FIFO keeps nobody waiting."""
    folder = place.make("lib/prometheus/node-exporter", owner, 0o755)
    path, shadow = place.file(folder), str(place.secret / "shadow")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "hard link":
        os.link(shadow, path)
    elif kind == "folder":
        os.mkdir(path)
    else:
        os.symlink(shadow if kind == "link" else str(place.top / "new"), path)
    ended = threading.Event()

    def work():
        with contextlib.suppress(IsADirectoryError):
            files.replace_file(path, "metrics\n")
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    assert ended.wait(20)
    assert (place.secret / "shadow").read_text() == SECRET and owner_and_mode(shadow) == (0, 0o640) and not os.path.lexists(str(place.top / "new"))
    if kind != "folder":
        assert owner_and_mode(path) == (owner, 0o644) and (folder / "plumbline.prom").read_text() == "metrics\n"


@needs_root
def test_a_model_is_root_s_own_regular_file(place):
    """In a folder of root's alone: what is kept is that of root's file; a file of somebody else's is replaced by one of root's."""
    folder = place.make("etc")
    for owner, mode, wanted in ((0, 0o640, (0, 0o640)), (STRANGER, 0o4777, (0, 0o644))):
        path = str(folder / "conf")
        with open(path, "w", encoding="utf-8"):
            pass
        os.chown(path, owner, owner)
        os.chmod(path, mode)
        files.replace_file(path, "new")
        assert owner_and_mode(path) == wanted


def acl(user):
    """An access ACL by which one more user may read: as the kernel keeps it (linux/posix_acl_xattr.h, version 2; tag, permissions, number)."""
    entries = [(0x01, 6, 0xFFFFFFFF), (0x02, 4, user), (0x04, 4, 0xFFFFFFFF), (0x10, 4, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_what_else_its_owner_has_set_is_kept(tmp_path):
    """The ACL of fstab by which a monitoring user reads it, and any other attribute; not in a folder where the file may be somebody else's."""
    path = str(tmp_path / "fstab")
    with open(path, "w", encoding="utf-8"):
        pass
    given = {"user.note": b"mine", "system.posix_acl_access": acl(STRANGER)}
    try:
        for name, value in given.items():
            os.setxattr(path, name, value)
    except OSError:
        pytest.skip("this filesystem has no such attributes")
    mode = os.stat(path).st_mode
    files.replace_file(path, "new")
    assert {name: os.getxattr(path, name) for name in os.listxattr(path) if name in given} == given and os.stat(path).st_mode == mode


@needs_root
def test_a_race_for_the_folder_never_leads_outside(place):
    """A stranger who exchanges his folder for a link, as fast as he can, while root writes."""
    place.make("lib/prometheus/node-exporter", STRANGER)
    name, kept, ended = str(place.theirs / "node-exporter"), str(place.theirs / "kept"), threading.Event()
    path = name + "/shadow"

    def exchange():
        while not ended.is_set():
            os.rename(name, kept)
            os.symlink(str(place.secret), name)
            os.unlink(name)
            os.rename(kept, name)

    thread = threading.Thread(target=exchange)
    thread.start()
    done = refused = 0
    began = time.monotonic()
    while time.monotonic() < began + 3 or (not (done and refused) and time.monotonic() < began + 60):  # on a host that is busy both may take a while
        try:
            files.replace_file(path, "x")
            done += 1
        except OSError:
            refused += 1
    ended.set()
    thread.join()
    assert done and refused, (done, refused)
    assert os.listdir(str(place.secret)) == ["shadow"] and (place.secret / "shadow").read_text() == SECRET
    assert owner_and_mode(str(place.secret / "shadow")) == (0, 0o640)


@needs_root
@pytest.mark.parametrize(
    ("owner", "above", "fixed"), [(0, 0, "lib/prometheus/node-exporter"), (STRANGER, 0, "lib/prometheus/node-exporter"), (STRANGER, STRANGER, "lib/prometheus")]
)
def test_the_last_folder_that_root_alone_can_exchange(place, owner, above, fixed):
    """A unit may name that one. systemd follows links: of a folder below it somebody else could make one to /etc."""
    os.chown(str(place.theirs), above, above)
    folder = place.make("lib/prometheus/node-exporter", owner)
    os.symlink(str(folder), str(place.top / "link"))
    for path in (folder, place.top / "link"):
        found = folders.open_folder(str(path))
        os.close(found.fd)
        assert found.fixed == os.path.realpath(str(place.top / fixed))


def test_links_of_root_are_followed(tmp_path):
    """/var on another filesystem, by a link that root made."""
    (tmp_path / "data").mkdir()
    os.symlink("data", str(tmp_path / "var"))
    os.symlink(str(tmp_path / "var"), str(tmp_path / "again"))
    files.replace_file(str(tmp_path / "again" / "file"), "text")
    assert (tmp_path / "data" / "file").read_text() == "text"
    os.symlink("loop", str(tmp_path / "loop"))
    with pytest.raises(OSError):
        files.replace_file(str(tmp_path / "loop" / "file"), "text")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_what_is_no_file_is_not_read(tmp_path, make):
    make(str(tmp_path / "conf"))
    with pytest.raises(OSError):
        files.read_root_file(str(tmp_path / "conf"))
    assert files.read_root_file(str(tmp_path / "nothing")) is None and files.read_root_file(str(tmp_path / "no" / "conf")) is None


@needs_root
class TestAnotherUser:
    """Work as another user: with none of root's rights, and bounded."""

    def test_it_has_the_rights_of_that_user_alone(self, place):
        seen = place.make("seen", STRANGER)

        def work():
            with open(str(seen / "ids"), "w", encoding="utf-8") as handle:
                handle.write("%s %s %s" % (os.getresuid(), os.getresgid(), os.getgroups()))
            with pytest.raises(PermissionError):
                open(str(place.secret / "shadow"), encoding="utf-8").close()
            with pytest.raises(PermissionError):
                os.setuid(0)

        folders.act_as(STRANGER, work)
        assert (seen / "ids").read_text() == "(%d, %d, %d) (%d, %d, %d) []" % ((STRANGER,) * 6)

    def test_a_fault_comes_back(self, place):
        with pytest.raises(OSError, match="as user 61001: Permission denied"):
            folders.act_as(STRANGER, lambda: os.unlink(str(place.secret / "shadow")))
        with pytest.raises(OSError, match=r"as user 61001: .*ZeroDivisionError"):
            folders.act_as(STRANGER, lambda: 1 // 0)

    def test_one_that_does_not_end_is_ended(self):
        began = time.monotonic()
        with pytest.raises(OSError, match="did not let it end within 1 s"):
            folders.act_as(STRANGER, lambda: time.sleep(60), 1)
        assert time.monotonic() - began < 20
