# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The drives below a volume, and how their write caches are switched for a measurement: not saved, and not kept. I/O."""

from __future__ import annotations

import os
from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _cache, _cacheio, _cachekeep, _cacheset, _cachestates, _sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Observation, WriteCache

Runner = Callable[[Sequence[str]], Tuple[int, str, str]]


class Drives(NamedTuple):
    """The drives below a volume, all in one state, and how to change that."""

    legs: List[str]
    was: bool
    caches: Mapping[str, WriteCache]
    means: _cachestates.Means

    @property
    def protected(self) -> Optional[bool]:
        """Power-loss protection by the word of all drives."""
        said = {cache.protected for cache in self.caches.values()}
        return said.pop() if len(said) == 1 else None


def drives_of(devno: str, run: Runner, tools: Mapping[str, str]) -> Drives:
    """Ask the drives below a device. Raises PlumblineError where their caches cannot be switched. Nothing is set."""
    seen = Observation(nodes=_sysfs.read_nodes(), mounts=_sysfs.read_mounts())
    seen.in_force = _sysfs.read_in_force(seen.nodes, seen.mounts)
    legs = _cachestates.legs_of(seen, devno)
    caches = {leg: _cacheio.read_cache(seen.nodes[leg]) for leg in legs}
    was = _cachestates.state_of(seen, legs, caches)
    _need_tools(seen, legs, tools)
    return Drives(legs, was, caches, _means(seen, run, tools))


def _need_tools(seen: Observation, legs: Sequence[str], tools: Mapping[str, str]) -> None:
    wanted = {_cache.TOOLS[_cache.bus_word(seen.nodes[leg])] for leg in legs}
    missing = sorted(wanted - set(tools))
    if missing:
        words = (", ".join(missing), ", ".join(_cache.PACKAGES[tool] for tool in missing))
        raise PlumblineError("cache_states: %s is not on this host, and sets the write cache; install the package %s" % words)


def _means(seen: Observation, run: Runner, tools: Mapping[str, str]) -> _cachestates.Means:
    def read(leg: str) -> WriteCache:
        return _cacheio.read_cache(seen.nodes[leg])

    def switch(leg: str, on: bool) -> None:
        node, state = seen.nodes[leg], "on" if on else "off"
        drive = _cacheset.Drive(_cacheset.Asked(node.path, state), node, read(leg), _cache.Verdict(set=True))
        _cacheset.set_drive(run, tools, drive, state, False)
        _cacheset.settle_belief(drive, read(leg))

    def timer(words: Sequence[str]) -> None:
        # The timer of write_cache puts a kept setting back every few seconds.
        if _cacheset.has_systemd() and os.path.lexists(_cachekeep.TIMER):
            code, out, err = run(["systemctl", *words])
            if code:
                said = " ".join((err or out).split()) or "return code %d" % code
                raise PlumblineError("the timer that looks after the write caches: systemctl %s failed: %s" % (words[0], said))

    return _cachestates.Means(
        read=read,
        set=switch,
        hold=lambda: timer(["stop", "--quiet", *_cachekeep.UNITS]),
        release=lambda: timer(["start", "--quiet", _cachekeep.UNITS[0]]),
        name=lambda leg: _cache.label(seen.nodes[leg]),
    )
