# SPDX-License-Identifier: GPL-3.0-or-later
"""A record from the text that packing made of it: by its type, which says of each member what it has to be. Pure.

The text comes from a host. What is not of the type, or too much, is refused before it costs the time and the memory of who asked; nothing of it is run.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import functools
import json
import math
import typing
import zlib
from typing import Any, Dict, Optional

# Of one record. A host with 1,000 disks in stacks has 205,000 members in 3 MiB; the ends of a device, with a table and little more, come to at most 87 KB.
MAX_BYTES = 32 << 20
MAX_MEMBERS = 1 << 19
# Of all that it holds as bytes, each once: the ends of 64 devices (as many as a stack may have), each with another table, come to 128 MiB.
MAX_BLOBS = 160 << 20
MAX_TEXT = 1 << 20  # characters of one text, which may be that of a file
MAX_DIGITS = 40  # of a whole number: some that NVMe tells have 128 bits


def unpack(kind: Any, text: str) -> Any:
    """The record of this type that pack() made *text* of. Raises ValueError for any other text."""
    try:
        raw = _inflated(text, MAX_BYTES)
        members = sum(raw.count(mark) for mark in (b",", b"[", b"{"))
        if members > MAX_MEMBERS:
            raise ValueError("more than %d members" % MAX_MEMBERS)
        return _Unpacker().of_kind(kind, json.loads(raw.decode("ascii"), parse_int=_whole, parse_float=_finite, parse_constant=_not_a_number))
    except RecursionError as deep:
        raise ValueError("nested too deeply") from deep


def _inflated(text: str, most: int) -> bytes:
    if len(text) > 2 * most:  # more than base64 makes of as many bytes that cannot be compressed
        raise ValueError("longer than %d bytes" % most)
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(base64.b64decode(text, validate=True), most)
    except zlib.error as fault:
        raise ValueError("not a packed record: %s" % fault) from fault
    if not stream.eof:
        raise ValueError("longer than %d bytes, or cut off" % most)
    return raw


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("a number of %d digits" % len(digits))
    return int(digits)


def _finite(digits: str) -> Optional[float]:
    value = float(digits)
    return value if math.isfinite(value) else None


def _not_a_number(_word: str) -> None:
    """NaN and the infinities stand for nothing that can be compared. A record that a host keeps may have them; no member that has a type may."""


class _Unpacker:
    """One record. What it holds as bytes is kept once, however often it is there."""

    def __init__(self) -> None:
        self.blobs: Dict[str, bytes] = {}
        self.left = MAX_BLOBS

    def of_kind(self, kind: Any, value: Any) -> Any:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if kind is Any:
            return value
        if origin is typing.Union:  # Optional
            return None if value is None else self.of_kind(inner[0], value)
        if origin is None:
            return self._record(kind, value) if hasattr(kind, "_fields") or dataclasses.is_dataclass(kind) else self._scalar(kind, value)
        if origin in (dict, collections.abc.Mapping):
            return {key: self.of_kind(inner[1], member) for key, member in _must(dict, value).items()}
        if origin is list or inner[-1] is Ellipsis:
            return origin(self.of_kind(inner[0], member) for member in _must(list, value))
        if len(_must(list, value)) != len(inner):
            raise ValueError("%d members where %d are wanted" % (len(value), len(inner)))
        return tuple(self.of_kind(member_kind, member) for member_kind, member in zip(inner, value))

    def _record(self, kind: Any, value: Any) -> Any:
        """A named tuple from the list of its members, or a dataclass from a dictionary."""
        members = _members(kind)
        if hasattr(kind, "_fields"):
            if len(_must(list, value)) != len(members):
                raise ValueError("%d members where %s has %d" % (len(value), kind.__name__, len(members)))
            return kind(*[self.of_kind(member_kind, member) for member_kind, member in zip(members.values(), value)])
        if set(_must(dict, value)) != set(members):
            raise ValueError("other members than those of %s" % kind.__name__)
        return kind(**{name: self.of_kind(member_kind, value[name]) for name, member_kind in members.items()})

    def _scalar(self, kind: Any, value: Any) -> Any:
        if kind is bytes:
            return self._blob(_must(str, value))
        if kind is str and len(_must(str, value)) > MAX_TEXT:
            raise ValueError("a text of %d characters" % len(value))
        return float(_must((int, float), value)) if kind is float else _must(kind, value)

    def _blob(self, text: str) -> bytes:
        if text not in self.blobs:
            if self.left <= 0:  # zlib takes 0 for no bound
                raise ValueError("more than %d bytes" % MAX_BLOBS)
            self.blobs[text] = _inflated(text, self.left)
            self.left -= len(self.blobs[text])
        return self.blobs[text]


@functools.lru_cache(maxsize=None)
def _members(kind: Any) -> Dict[str, Any]:
    return typing.get_type_hints(kind)


def _must(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError("%s where %s is wanted" % (type(value).__name__, kind))
    return value
