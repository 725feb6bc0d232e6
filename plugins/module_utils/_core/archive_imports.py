# SPDX-License-Identifier: GPL-3.0-or-later
"""Has Python compile each file of a module's archive once. What every module imports first imports this before all else.

Ansible sends a module and what it imports as one ZIP archive of sources, which each call compiles anew. zipimport does so twice for every file:
get_filename() compiles it to learn its name, and the import compiles it again (CPython up to 3.15 at least, gh-141276). For a call that only reads,
that is a fifth of its time.
"""

from __future__ import annotations

import os
import sys
import zipimport


def get_filename(importer: zipimport.zipimporter, fullname: str) -> str:
    """What zipimporter.get_filename() returns for a source, without compiling it. Raises zipimport.ZipImportError for what is not in the archive."""
    path = os.path.join(importer.archive, importer.prefix, fullname.rpartition(".")[2])
    return os.path.join(path, "__init__.py") if importer.is_package(fullname) else path + ".py"


if sys.version_info >= (3, 8):  # before, it is written in C
    zipimport.zipimporter.get_filename = get_filename  # type: ignore[method-assign,assignment]
