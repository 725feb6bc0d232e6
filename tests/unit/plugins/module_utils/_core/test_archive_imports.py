# SPDX-License-Identifier: GPL-3.0-or-later
"""A ZIP archive of sources is imported as before, and each of its files is compiled once."""

from __future__ import annotations

import importlib
import sys
import warnings
import zipfile
import zipimport

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import archive_imports

WARNS = "VALUE = 1\nSAME = VALUE is 1\n"  # the compiler warns of that each time
FILES = {"plumbzip/__init__.py": WARNS, "plumbzip/inner/__init__.py": WARNS, "plumbzip/inner/leaf.py": WARNS, "plumbzip/broken.py": "def\n"}


@pytest.fixture
def archive(tmp_path, monkeypatch):
    path = tmp_path / "sources.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name, text in FILES.items():
            made.writestr(name, text)
    monkeypatch.syspath_prepend(str(path))
    yield str(path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "plumbzip"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "name, file", [("plumbzip", "plumbzip/__init__.py"), ("plumbzip.inner", "plumbzip/inner/__init__.py"), ("plumbzip.inner.leaf", "plumbzip/inner/leaf.py")]
)
def test_each_file_is_compiled_once(archive, name, file):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SyntaxWarning)
        module = importlib.import_module(name)
    assert module.VALUE == 1
    assert module.__file__ == module.__spec__.origin == "%s/%s" % (archive, file)
    assert (module.__spec__.submodule_search_locations is None) is (not file.endswith("__init__.py"))
    told = [one.filename for one in caught if issubclass(one.category, SyntaxWarning)]
    assert sorted(told) == sorted(set(told)) and "%s/%s" % (archive, file) in told


def test_what_is_not_there_or_does_not_compile_is_told(archive):
    with pytest.raises(ModuleNotFoundError, match=r"plumbzip\.absent"):
        importlib.import_module("plumbzip.absent")
    with pytest.raises(SyntaxError):
        importlib.import_module("plumbzip.broken")
    with pytest.raises(zipimport.ZipImportError, match="absent"):
        archive_imports.get_filename(zipimport.zipimporter(archive), "absent")
