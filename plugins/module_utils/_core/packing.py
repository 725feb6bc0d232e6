# SPDX-License-Identifier: GPL-3.0-or-later
"""Records as one short text, by which a module on a host hands them to the controller. Pure; unpacking is the other way."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import zlib
from typing import Any


def pack(value: Any) -> str:
    """A record of tuples, lists, dictionaries by text, numbers, text and bytes, as text without blanks."""
    return base64.b64encode(zlib.compress(json.dumps(_plain(value)).encode("ascii"), 6)).decode("ascii")


def _plain(value: Any) -> Any:
    """The same for JSON. A named tuple becomes a list of its members in their order, a dataclass a dictionary."""
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    if isinstance(value, bytes):
        return _blob(value)
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "items"):
        return {key: _plain(member) for key, member in value.items()}
    return value


@functools.lru_cache(maxsize=2)  # the ends of blank devices are the same zeros
def _blob(value: bytes) -> str:
    return base64.b64encode(zlib.compress(value, 6)).decode("ascii")
