# SPDX-License-Identifier: GPL-3.0-or-later
"""A record from the text that packing made of it: by its type, which says of each member what it has to be. Pure.

The text comes from a host. What is not of the type, or too long, is refused, and nothing of it is run.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import functools
import json
import typing
import zlib
from typing import Any, Dict

MAX_BYTES = 64 << 20  # of one record


def unpack(kind: Any, text: str) -> Any:
    """The record of this type that pack() made *text* of. Raises ValueError for any other text."""
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
    except zlib.error as fault:
        raise ValueError("not a packed record: %s" % fault) from fault
    if not stream.eof:
        raise ValueError("longer than %d bytes, or cut off" % MAX_BYTES)
    try:
        return _of_kind(kind, json.loads(raw))
    except RecursionError as deep:
        raise ValueError("nested too deeply") from deep


def _of_kind(kind: Any, value: Any) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin is typing.Union:  # Optional
        return None if value is None else _of_kind(inner[0], value)
    if origin is None:
        return _record(kind, value) if hasattr(kind, "_fields") or dataclasses.is_dataclass(kind) else _scalar(kind, value)
    if origin in (dict, collections.abc.Mapping):
        return {key: _of_kind(inner[1], one) for key, one in _must(dict, value).items()}
    if origin is list or inner[-1] is Ellipsis:
        return origin(_of_kind(inner[0], one) for one in _must(list, value))
    if len(_must(list, value)) != len(inner):
        raise ValueError("%d members where %d are wanted" % (len(value), len(inner)))
    return tuple(_of_kind(one, member) for one, member in zip(inner, value))


def _record(kind: Any, value: Any) -> Any:
    """A named tuple from the list of its members, or a dataclass from a dictionary."""
    members = _members(kind)
    if hasattr(kind, "_fields"):
        if len(_must(list, value)) != len(members):
            raise ValueError("%d members where %s has %d" % (len(value), kind.__name__, len(members)))
        return kind(*[_of_kind(one, member) for one, member in zip(members.values(), value)])
    if set(_must(dict, value)) != set(members):
        raise ValueError("other members than those of %s" % kind.__name__)
    return kind(**{name: _of_kind(one, value[name]) for name, one in members.items()})


@functools.lru_cache(maxsize=None)
def _members(kind: Any) -> Dict[str, Any]:
    return typing.get_type_hints(kind)


def _scalar(kind: Any, value: Any) -> Any:
    if kind is bytes:
        return base64.b64decode(_must(str, value), validate=True)
    return float(_must((int, float), value)) if kind is float else _must(kind, value)


def _must(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError("%s where %s is wanted" % (type(value).__name__, kind))
    return value
