# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""M(plumbline.ssd.report): runs on the controller, asks no host, and writes the report of what was read of many."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.text.converters import to_text
from ansible_collections.plumbline.ssd.plugins.plugin_utils.files import absolute, hosts_of, write_whole
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.build import FORMATS, host_of_file, is_proof, merge, of_proof, render
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import make_fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import UNREADABLE
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.summary import report_lines
from ansible_collections.plumbline.ssd.plugins.plugin_utils.record_file import LARGEST, parse_record
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ControllerAction, print_report

ARGUMENTS = {
    "records": {"type": "list", "elements": "dict", "default": []},
    "directory": {"type": "path"},
    "hosts": {"type": "list", "elements": "str", "default": []},
    "path": {"type": "path", "required": True},
    "title": {"type": "str", "default": "State of the drives"},
    "time": {"type": "str", "default": ""},
    "formats": {"type": "list", "elements": "str", "choices": list(FORMATS), "default": list(FORMATS)},
}
_SKEW = 600  # seconds by which the clocks of several controllers may differ
_PRINTED = 10  # lines of the report, so that a fleet of any size fits on a screen


def _time_after(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def read_file(path: str) -> list[Mapping[str, Any]]:
    """The records of one file: one, or a list of them. Raises ValueError that says what is wrong with it."""
    try:
        with open(path, "rb") as handle:
            read = parse_record(handle.read(LARGEST + 1))
    except OSError as fault:
        raise ValueError(fault.strerror) from fault
    records = read if isinstance(read, list) else [read]
    if not all(isinstance(record, dict) for record in records):
        raise ValueError("found a value that is no mapping; wanted the record of a host, or a list of such")
    return records


def files_of(directory: str) -> list[str]:
    """The JSON files of a directory, by name. Raises AnsibleActionFail."""
    try:
        return sorted(os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".json"))
    except OSError as fault:
        raise AnsibleActionFail(f"directory {directory}: {fault.strerror}") from fault


def by_host(directory: str | None, records: list[Mapping[str, Any]], expected: Sequence[str] = ()) -> Iterator[Mapping[str, Any]]:
    """Each host's record, merged of all that there are of it.

    A file comes from a host, and so may what is in it: the name of the file says which host, and the host of a file that cannot be read or names
    another one gets a finding. It is read again when its host's turn has come, and not kept until then: a fleet may be larger than the memory.
    """
    parts: dict[str, list[str | Mapping[str, Any]]] = {}
    strange: list[str] = []
    for path in files_of(directory) if directory else ():
        try:
            parts.setdefault(host_of_file(_name(path), read_file(path), expected), []).append(path)
        except ValueError:
            strange.append(path)
    for at, record in enumerate(records):
        parts.setdefault(_host_of(record, f"records[{at}]"), []).append(record)
    known = {*parts, *expected}
    for path in strange:
        host = next((candidate for candidate in hosts_of(_name(path)) if candidate in known), hosts_of(_name(path))[0])
        parts.setdefault(host, []).append(path)
    for host, own in parts.items():
        whole: Mapping[str, Any] = {"host": host}
        for part in own:
            for record in _of_file(part, expected) if isinstance(part, str) else [part]:
                whole = merge(whole, record)
        yield {**whole, "host": host}


def _name(path: str) -> str:
    return os.path.basename(path).removesuffix(".json")


def _of_file(path: str, expected: Sequence[str]) -> list[Mapping[str, Any]]:
    try:
        records = read_file(path)
        host_of_file(_name(path), records, expected)
    except ValueError as fault:
        return [{UNREADABLE: [{"file": path, "fault": str(fault)}]}]
    return [of_proof(record) if is_proof(record) else record for record in records]


def _host_of(record: Mapping[str, Any], where: str) -> str:
    host = record.get("host")
    if not isinstance(host, str) or not host:
        raise AnsibleActionFail(f"{where}: found no name of a host; wanted a record with 'host'")
    return host


def kept(path: str) -> bytes | None:
    """What is in a file, or None where there is none. Raises AnsibleActionFail."""
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise AnsibleActionFail(f"{path}: {fault.strerror}; wanted a file that can be written") from fault


def write(path: str, content: bytes) -> None:
    """Write a whole file or none. Raises AnsibleActionFail."""
    try:
        write_whole(path, content)
    except OSError as fault:
        raise AnsibleActionFail(f"{path}: {fault.strerror}; wanted a place that can be written") from fault


class ActionModule(ControllerAction):
    """Needs no connection: all that it does is on the controller."""

    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, params = self.validate_argument_spec(ARGUMENTS)
        directory = params["directory"] and absolute(params["directory"])
        if self._task.check_mode and directory and not os.path.exists(directory):
            directory = None  # what comes before this task makes it
        records = by_host(directory, params["records"], params["hosts"])
        fleet = make_fleet(records, params["hosts"], params["title"], params["time"], _time_after(_SKEW))
        if not fleet.hosts:
            raise AnsibleActionFail("there is no record, and no host is expected; wanted records, a directory with records, or hosts")
        base, files = absolute(params["path"]), []
        for name, text in render(fleet, params["formats"]).items():
            path, content = base + FORMATS[name][0], text.encode("utf-8", "backslashreplace")
            before = kept(path)
            files.append({"format": name, "path": path, "bytes": len(content), "changed": before != content})
            if before != content and not self._task.check_mode:
                write(path, content)
            if before != content and self._task.diff and name == "markdown":
                result["diff"] = [{"before_header": path, "after_header": path, "before": to_text(before or b""), "after": text}]
        lines = report_lines(fleet)
        print_report(self._display, "report", [*lines[:_PRINTED], *(file["path"] for file in files)])
        return {
            **result,
            "changed": any(file["changed"] for file in files),
            "files": files,
            "level": fleet.level,
            "verdict": fleet.verdict(),
            "counts": fleet.counts(),
            "report": lines,
        }
