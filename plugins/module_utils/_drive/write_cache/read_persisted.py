# SPDX-License-Identifier: GPL-3.0-or-later
"""Which write caches this host keeps, and whether what keeps them is whole and at work. I/O."""

from __future__ import annotations

import os
from typing import Dict, List, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import kept_paths, persist_files
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.read_keeping import read_file, read_keeping


def read_entries() -> List[persist_files.Entry]:
    """The drives whose cache this host keeps."""
    return persist_files.parse_state(read_file(kept_paths.STATE))


def differing(entries: Sequence[persist_files.Entry]) -> Dict[str, str]:
    """The files that are not what these entries ask for, with their text; an empty text means: no such file."""
    texts = persist_files.files(entries)
    return {path: text for path, text in texts.items() if read_file(path) != text or (not text and os.path.lexists(path))}


def read_kept() -> Dict[str, str]:
    """Identity → the state that is kept; see persist_files.kept_of()."""
    return persist_files.kept_of(read_keeping())
