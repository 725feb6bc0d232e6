# SPDX-License-Identifier: GPL-3.0-or-later
"""When a drive's rated endurance will be used up, as an interval. Pure.

The percentage used is a whole number: *u* means that the truth lies in [u, u + 1). So a slope is an interval, and so are the days that are left.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Reading

DAY = 86400
SPAN_SECONDS = 7 * DAY  # between two readings that make a slope
_WARN_DAYS = 365


class Projection(NamedTuple):
    """Days until 100 % are used: at least *days_min*, at most *days_max* (None: no bound). *basis*: readings, lifetime or writes."""

    days_min: int
    days_max: Optional[int]
    basis: str

    def as_dict(self) -> Dict[str, object]:
        return dict(self._asdict())


def hours_of(drive: Health) -> Optional[int]:
    """The power-on hours, unless the drive says that it was busy for longer than that (an HGST SN260 shows 482 beside 19,743)."""
    hours = drive.counters.get("power_on_hours")
    return None if hours is None or hours * 60 < drive.counters.get("busy_minutes", 0) else hours


def project(drive: Health, now: int, history: Sequence[Reading] = (), rated_bytes: int = 0) -> Optional[Projection]:
    """The earlier end of the two that are known: by the percentage used, and by the bytes that the drive is rated for. None where neither is known."""
    projections = [projection for projection in (_by_wear(drive, now, history), _by_writes(drive, now, history, rated_bytes)) if projection]
    if not projections:
        return None
    ends = [projection.days_max for projection in projections if projection.days_max is not None]
    first = min(projections, key=lambda projection: projection.days_min)
    return first._replace(days_max=min(ends) if ends else None)


def _since(now: int, history: Sequence[Reading]) -> Optional[Reading]:
    return next((reading for reading in history if now - reading.when >= SPAN_SECONDS), None)


def _by_wear(drive: Health, now: int, history: Sequence[Reading]) -> Optional[Projection]:
    if drive.used is None:
        return None
    if drive.used >= 100:
        return Projection(0, 0, "readings" if history else "lifetime")
    then = _since(now, history)
    if then is not None and then.used is not None and then.used <= drive.used:
        days, steps = (now - then.when) / DAY, drive.used - then.used
        # Readings without a step between them bound the slope by their distance alone; where that is too short to exclude a year, they say nothing.
        if steps or (99 - drive.used) * days >= _WARN_DAYS:
            return _interval(drive.used, (steps - 1) / days, (steps + 1) / days, "readings")
    hours = hours_of(drive)
    if hours is None or hours * 3600 < SPAN_SECONDS:
        return None
    return _interval(drive.used, drive.used * 24 / hours, (drive.used + 1) * 24 / hours, "lifetime")


def _interval(used: int, slowest: float, fastest: float, basis: str) -> Projection:
    """*slowest* and *fastest* in percent a day."""
    return Projection(int((99 - used) / fastest), int((100 - used) / slowest) + 1 if slowest > 0 else None, basis)


def _by_writes(drive: Health, now: int, history: Sequence[Reading], rated_bytes: int) -> Optional[Projection]:
    written = drive.counters.get("host_bytes_written")
    if not rated_bytes or written is None:
        return None
    left = max(rated_bytes - written, 0)
    then = _since(now, history)
    before = then.counters.get("host_bytes_written") if then else None
    hours = hours_of(drive)
    if then is not None and before is not None and before <= written:
        rate = (written - before) * DAY / (now - then.when)
    elif hours is not None and hours * 3600 >= SPAN_SECONDS:
        rate = written * 24 / hours
    else:
        return None
    days = int(left / rate) if rate else None
    return Projection(days, days + 1, "writes") if days is not None else None
