# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether drives whose write cache this host keeps are as kept: for whoever reads the drives anyway, every few minutes. Pure."""

from __future__ import annotations

from typing import List, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import kept_paths, rules
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import WRITE_BACK, state_of

_MEND = "run the role write_cache, or: systemctl start %s" % kept_paths.UNIT


def kept_drift(seen: Observation, kept: Mapping[str, str]) -> List[Finding]:
    """What is wrong with drives that are kept. *kept*: identity → state, as read_kept() has it. A drive that is not there gives no finding here."""
    nodes = {node.identity.key: node for node in seen.nodes.values() if node.kind == "disk" and node.identity.key}
    there = [(nodes[identity], kept[identity]) for identity in sorted(kept) if identity in nodes]
    return [finding for node, state in there for finding in _judge(node, state, seen.caches.get(node.devno, WriteCache(fault="it was not asked")))]


def _judge(node: Node, state: str, cache: WriteCache) -> List[Finding]:
    name = "%s (%s)" % (node.name, node.identity.serial) if node.identity.serial else node.name
    if not state:
        text = "what keeps its setting is damaged: a file was changed, the service does not start at boot, or a tool is gone"
        return [Finding(WARNING, "write_cache", name, text, "a whole one; run the role write_cache", "kept_setting")]
    if state_of(cache) == "unknown":
        why = cache.fault or "it does not say whether its write cache is on"
        text = "its write cache is kept %s, and cannot be known: %s" % (state, why)
        return [Finding(WARNING, "write_cache", name, text, "a drive that answers", "kept_unknown")]
    if state_of(cache) != state and (state, state_of(cache)) != ("off", "none"):
        text = "its write cache is %s, and is kept %s: a reset or a power cycle that the kernel did not report" % (state_of(cache), state)
        return [Finding(ERROR, "write_cache", name, text, "%s; %s" % (state, _MEND), "kept_state")]
    if rules.believed_wrongly(cache, node.write_cache):
        text = "its volatile write cache is on and the kernel believes 'write through': flushes are dropped"
        remedy = "'%s'; %s; and find who wrote queue/write_cache" % (WRITE_BACK, _MEND)
        return [Finding(ERROR, "write_cache", name, text, remedy, "kept_belief")]
    return []
