# SPDX-License-Identifier: GPL-3.0-or-later
"""One drive of a call: what is specified for it, and what it reported before."""

from __future__ import annotations

from typing import NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import host
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import command, rules


class Asked(NamedTuple):
    """What is asked of one drive. *identity*: refuse where the path is another drive by now; *serial*: for messages; *accept*: risks taken on."""

    path: str
    state: str
    identity: str = ""
    serial: str = ""
    accept: Tuple[str, ...] = ()


class AskedDrive(NamedTuple):
    """One drive of a call: what is specified, what it reported before anything was set, and what has to be done."""

    asked: Asked
    node: Node
    before: WriteCache
    verdict: rules.CacheVerdict

    @property
    def devno(self) -> str:
        return self.node.devno

    @property
    def name(self) -> str:
        return host.device_label(self.node)

    @property
    def bus(self) -> str:
        return command.bus_word(self.node)
