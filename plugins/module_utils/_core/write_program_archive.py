# SPDX-License-Identifier: GPL-3.0-or-later
"""A program of ours as one file that Python runs (docs.python.org, zipapp): the code that came with the module, without Ansible. I/O."""

from __future__ import annotations

import ast
import importlib.util
import io
import zipfile
from types import ModuleType
from typing import Dict, Iterator

_PACKAGE = "ansible_collections.plumbline.ssd.plugins.module_utils."
_MAIN = """import sys

from %s import main

sys.exit(main(sys.argv[1:]))
"""
_STAMP = (1980, 1, 1, 0, 0, 0)  # the same code gives the same bytes


def program_bytes(program: ModuleType) -> bytes:
    """The archive of everything that *program* imports, wherever in its files the import stands, and that calls its main().

    Whoever calls has imported it: so the module that Ansible sends has all of it.
    """
    sources: Dict[str, str] = {}
    waiting = [program.__name__]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = _source_of(name)
            waiting += [module for module in _imports_of(sources[name]) if module not in sources]
    texts = {name.replace(".", "/") + ".py": source for name, source in sources.items() if source}
    folders = {"/".join(parts[:depth]) for parts in (path.split("/")[:-1] for path in texts) for depth in range(1, len(parts) + 1)}
    texts.update({folder + "/__init__.py": "" for folder in folders})
    texts["__main__.py"] = _MAIN % program.__name__
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(texts):
            archive.writestr(zipfile.ZipInfo(path, _STAMP), texts[path], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _source_of(name: str) -> str:
    """The source of a file of ours, from a folder or from the archive that Ansible sent; empty if the name is a package, or of a thing in a file."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return ""
    if spec is None or spec.loader is None or spec.submodule_search_locations is not None:
        return ""
    return spec.loader.get_source(name) or ""  # type: ignore[attr-defined]


def _imports_of(source: str) -> Iterator[str]:
    """What a file of ours may import of our own: the module, and what is taken of it, which may be a module as well."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE):
            yield str(node.module)
            yield from ("%s.%s" % (node.module, alias.name) for alias in node.names)
