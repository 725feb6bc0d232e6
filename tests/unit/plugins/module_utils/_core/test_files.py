# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that root keeps on a host: where they may be, and what they may not change."""

from __future__ import annotations

import os
import stat

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import files
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError


def mode_of(path):
    return stat.S_IMODE(os.lstat(str(path)).st_mode)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A folder as /var/lib is: everybody may enter it."""
    services = tmp_path / "lib"
    services.mkdir()
    services.chmod(0o755)
    monkeypatch.setattr(files, "HOME", str(services / "plumbline"))
    return services


@pytest.mark.parametrize("name", ["making.json", "loads.json", "proof/pgdata.json", "monitor/files.json", "a/b/c.json"])
@pytest.mark.parametrize("shared", [0o755, 0o775, 0o711, 0o1777])
def test_the_folder_of_all_services_keeps_its_mode(host, name, shared):
    host.chmod(shared)
    files.write_json(os.path.join(files.HOME, name), {"a": 1}, "a record")
    assert mode_of(host) == shared
    level = os.path.dirname(os.path.join(files.HOME, name))
    while level != str(host):
        assert mode_of(level) == 0o700, level
        level = os.path.dirname(level)
    assert files.read_json(os.path.join(files.HOME, name)) == {"a": 1}


def test_our_own_folder_is_closed_again(host):
    os.mkdir(files.HOME)
    os.chmod(files.HOME, 0o755)
    files.write_json(files.HOME + "/loads.json", [], "a record")
    assert mode_of(files.HOME) == 0o700


def test_elsewhere_only_the_folder_itself_is_ours(host):
    above = host / "somebody"
    above.mkdir()
    above.chmod(0o755)
    files.make_private(str(above / "records"))
    assert (mode_of(above), mode_of(above / "records")) == (0o755, 0o700)


def test_a_name_that_only_begins_alike_is_not_ours(host):
    other = host / "plumbline-of-others"
    other.mkdir()
    other.chmod(0o755)
    files.make_private(str(other / "records"))
    assert (mode_of(other), mode_of(other / "records")) == (0o755, 0o700)


@pytest.mark.parametrize("kind", ["link", "file", "dangling"])
def test_what_is_no_folder_of_ours_is_refused(host, tmp_path, kind):
    target = tmp_path / "target"
    if kind == "link":
        target.mkdir()
        target.chmod(0o755)
    if kind == "file":
        (host / "plumbline").write_text("")
    else:
        os.symlink(str(target), files.HOME)
    with pytest.raises(PlumblineError, match="could not be kept"):
        files.write_json(files.HOME + "/loads.json", [], "the mark of a load")
    assert kind != "link" or (os.listdir(str(target)), mode_of(target)) == ([], 0o755)
