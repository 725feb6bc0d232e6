# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole host before and after: what is other than it was, in all that a program can leave on a host.

    before = take(harness.must)
    …
    after = take(harness.must, before)
    difference(before, after)      # a list of Change; `explain` of tests/tools/host_changes.py holds it against the table

Any function that runs a shell command as root on the host and returns its standard output will do in place of harness.must.
"""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host_changes import Change

PROBE = Path(__file__).with_name("whole_host_probe.py")
# Of a path; everything else is one value.
FIELDS = ("type", "mode", "uid", "gid", "size", "target", "xattrs", "flags")
KINDS = {"units": "unit", "kernel": "kernel", "mounts": "mount", "storage": "storage", "ports": "port", "processes": "process", "nobody": "nobody"}


@dataclass(frozen=True)
class Snapshot:
    """The state of a host. *seconds*: what each part of it took in the guest."""

    id: str
    paths: Mapping[str, Mapping[str, Any]]
    nobody: Mapping[str, str]
    units: Mapping[str, str]
    kernel: Mapping[str, str]
    mounts: Mapping[str, str]
    storage: Mapping[str, str]
    ports: Mapping[str, str]
    processes: Mapping[str, str]
    seconds: Mapping[str, float]


def take(run: Callable[[str], str], since: Snapshot | None = None, inside: Sequence[str] = ()) -> Snapshot:
    """The state now. With the snapshot before it, the guest sends only what is other, and that takes a few seconds.

    Of a volume that is mounted the root is looked at. *inside*: the mount points of those of which all is wanted.
    """
    command = f"python3 -I - '{since.id if since else ''}' {shlex.join(inside)} <<'END_OF_PROBE'\n{PROBE.read_text(encoding='utf-8')}\nEND_OF_PROBE"
    answer = json.loads(zlib.decompress(base64.b64decode(run(command))))
    if answer.pop("since"):
        assert since is not None
        for part in ("paths", "nobody"):
            old = getattr(since, part)
            answer[part] = {name: value for name, value in {**old, **answer[part]["set"]}.items() if name not in set(answer[part]["gone"])}
    return Snapshot(**answer)


def difference(before: Snapshot, after: Snapshot) -> list[Change]:
    """Everything that is other, sorted; what changes by itself is among it."""
    return sorted([*_paths(before.paths, after.paths), *_values(before, after)])


def _values(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    for part, kind in KINDS.items():
        old, new = getattr(before, part), getattr(after, part)
        for name in {*old, *new}:
            if old.get(name) != new.get(name):
                how = "added" if name not in old else "gone" if name not in new else "changed"
                yield Change(kind, name, how, ("value",), str(old.get(name, "")), str(new.get(name, "")))


def _paths(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> Iterator[Change]:
    for name in {*old, *new}:
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            yield Change("path", name, "added" if was is None else "gone", (), _words(was), _words(now))
            continue
        fields = [field for field in FIELDS if was.get(field) != now.get(field)]
        if _content_differs(was, now):
            fields.append("content")
        if fields:
            yield Change("path", name, "changed", tuple(fields), _words(was, fields), _words(now, fields))


def _content_differs(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Where the content was not read, the file counts as changed if anybody has touched it."""
    if was.get("content") is not None and now.get("content") is not None:
        return bool(was["content"] != now["content"])
    return was.get("type") == now.get("type") == "file" and list(was["identity"]) != list(now["identity"])


def _words(entry: Mapping[str, Any] | None, fields: list[str] | None = None) -> str:
    """An entry as people read it."""
    if entry is None:
        return ""
    if fields is not None:
        return " ".join(f"{field}={entry.get(field)}" for field in fields)
    more = [f"{key}={entry[key]}" for key in ("target", "flags", "xattrs") if entry.get(key)]
    return " ".join([entry["type"], entry["mode"], f"{entry['uid']}:{entry['gid']}", *more])
