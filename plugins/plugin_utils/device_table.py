# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks as they are returned, and as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import rate_text
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import table
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.link_rules import judge_links
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import as_facts, state_of


def device_result(seen: Observation, asked: bool = False) -> dict[str, Any]:
    """``devices``, ``names`` and ``report``, as device_info returns them. *asked*: of what was asked for, be it a disk or not."""
    wanted = [devno for devno in seen.geometries if asked or seen.nodes[devno].kind == "disk"]
    devices = [_describe(seen, devno) for devno in sorted(wanted, key=lambda devno: seen.nodes[devno].name)]
    return {"devices": devices, "names": _names(seen, devices), "report": _report(devices)}


def _names(seen: Observation, devices: Sequence[Mapping[str, Any]]) -> list[str]:
    """The disks as a spec names them, a line each; those that a plan would refuse are comments, with the first reason."""
    devnos = {node.name: devno for devno, node in seen.nodes.items()}
    lines = []
    for device in devices:
        name = seen.link(devnos[device["name"]]) or "/dev/" + device["name"]
        why = next((reason["found"] for reason in device["occupied"]), "nothing was found on it")
        lines.append("%s- %s  # %s, %s: %s" % ("# " if device["occupied"] else "", name, device["name"], human(device["size_bytes"]), why))
    return lines


def _describe(seen: Observation, devno: str) -> dict[str, Any]:
    """One disk as it is returned."""
    node, geometry = seen.nodes[devno], seen.geometries[devno]
    found = seen.tables.get(devno)
    reasons = guards.write_reasons(seen, node)
    links = seen.drive_links.get(devno, ())
    return {
        "name": node.name,
        "links": sorted(link for link, number in seen.links.items() if number == devno),
        "identity": dict(node.identity._asdict(), key=node.identity.key),
        "size_bytes": node.size,
        "rotational": node.rotational,
        "geometry": geometry.as_dict(),
        "queue": node.limits._asdict(),
        "write_cache": as_facts(seen.caches.get(devno), node.write_cache),
        "write_cache_belief": node.write_cache,
        "link": {
            "links": [link.as_dict() for link in links],
            "findings": [finding.as_dict() for finding in judge_links({node.name: links})],
        },
        "partitions": [
            {
                "number": entry.number,
                "name": entry.name,
                "type": entry.type,
                "guid": entry.guid,
                "start_bytes": entry.start,
                "size_bytes": entry.size,
                "phase": entry.start % geometry.grain_bytes,
                "aligned": entry.start % geometry.grain_bytes == geometry.offset_bytes,
            }
            for entry in (found.entries if found else ())
        ],
        "occupied": [reason.as_dict(node.name) for reason in reasons],
    }


def _report(devices: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table for people."""
    rows = [("device", "model", "serial", "size", "block", "grain", "source of the grain", "write cache", "link", "state")]
    for device in devices:
        geometry, identity = device["geometry"], device["identity"]
        state = ", ".join(dict.fromkeys(reason["name"] for reason in device["occupied"])) or "free"
        grain = human(geometry["grain"]["value"])
        source = geometry["grain"]["source"].split(":")[0]
        cache = state_of(WriteCache(present=device["write_cache"]["present"], enabled=device["write_cache"]["enabled"]))
        block = str(geometry["logical"]["value"])
        link = next(("%s %s" % (one["kind"], rate_text(one["kind"], one["speed"], one["width"])) for one in reversed(device["link"]["links"])), "-")
        rows.append((device["name"], identity["model"], identity["serial"], human(device["size_bytes"]), block, grain, source, cache, link, state))
    return table(rows) + ["%s: %s" % (found["level"], found["text"]) for device in devices for found in device["link"]["findings"]]
