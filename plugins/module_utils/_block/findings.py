# SPDX-License-Identifier: GPL-3.0-or-later
"""One thing wrong: how bad it is, in which layer, what it is and what it should be. Pure."""

from __future__ import annotations

from typing import Dict, NamedTuple, Sequence

ERROR = "error"  # the proof fails
WARNING = "warning"  # worth a look; fails nothing
INFO = "info"  # good to know; nothing has to be done
OK = "ok"  # nothing was found
LEVELS = (ERROR, WARNING, INFO, OK)  # from the worst


def worst_level(levels: Sequence[str]) -> str:
    """The worst of several; ``ok`` of none."""
    return min(levels, key=LEVELS.index) if levels else OK


class Finding(NamedTuple):
    """One thing wrong: in which layer, on what, what it is, what it should be. *rule*: the name of the check that found it."""

    level: str
    layer: str
    name: str
    found: str
    wanted: str
    rule: str

    def as_dict(self) -> Dict[str, str]:
        return dict(self._asdict(), text=self.text)

    @property
    def text(self) -> str:
        return "%s %s: %s; wanted %s" % (self.layer, self.name, self.found, self.wanted)
