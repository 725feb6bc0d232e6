# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a probe may follow itself: a rate, and a share of the requests of a device that others load. Pure."""

from __future__ import annotations

from typing import Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import DiskLoad


class Pace:
    """When the next round may be read.

    The rate always holds. The share holds while others load the device: then a round is read only after so many requests of
    others that it is at most the share of all. Whether they do is inferred from their mean number of requests in flight (Little's law:
    time spent in requests by time passed); the time that a device is busy would count the probe's own short reads as a whole tick each.
    """

    WINDOW = 0.1  # seconds over which the load is looked at
    IDLE = 0.1  # requests of others in flight, on average, below which a device counts as idle
    QUIET = 1.0  # seconds for which it has to be idle before it counts as that again
    SAVED = 1.0  # seconds of allowance that are kept for later, so that no burst follows a pause

    def __init__(self, reads_per_second: float, max_share: float, now: float, load: Optional[DiskLoad]) -> None:
        """*load*: None where the kernel keeps no account, so that only the rate holds."""
        self.rate = reads_per_second
        self.share = max_share
        self.looked = now
        self.free_at = now  # when the rate allows the next round
        self.first = self.last = load
        self.own = 0  # requests
        self.own_ms = 0.0
        self.before = (0, 0.0)
        self.loaded_until = now  # in the past
        self.allowance = 0.0
        self.requested = 0
        self.held = 0.0  # seconds that the share, and not the rate, made it wait

    def note(self, began: float, accesses: int, requests: int, milliseconds: float) -> None:
        """A round is over: since when, its accesses, and the most requests and milliseconds in them that the disks were given for these."""
        if self.rate:  # what was late is made up for within a window; no burst follows a longer pause
            self.free_at = max(self.free_at, began - self.WINDOW) + accesses / self.rate
        self.own += requests
        self.own_ms += milliseconds
        self.allowance -= requests

    def look(self, now: float, load: Optional[DiskLoad]) -> None:
        """The disks' account at this moment. Does nothing before a window has passed."""
        passed = now - self.looked
        if self.last is None or load is None or passed < self.WINDOW:
            return
        done = load.since(self.last)
        others = max(done.requests - (self.own - self.before[0]), 0)
        in_flight = (done.milliseconds - (self.own_ms - self.before[1])) / (passed * 1000)
        if in_flight >= self.IDLE and others:
            self.loaded_until = now + self.QUIET
        if self.is_loaded(now) and self.share < 1:
            earned = others * self.share / (1 - self.share)
            self.allowance = min(self.allowance + earned, max(earned * self.SAVED / passed, self.requested))
        else:
            self.allowance = 0.0
        self.looked, self.last, self.before = now, load, (self.own, self.own_ms)

    def is_loaded(self, now: float) -> bool:
        """Whether others load the device."""
        return now < self.loaded_until

    def wait(self, now: float, requests: int) -> float:
        """Seconds until a round of so many requests may be tried; 0: now."""
        self.requested = requests
        if self.free_at > now:
            return self.free_at - now
        if self.is_loaded(now) and self.share < 1 and self.allowance < requests:
            self.held += self.WINDOW / 2
            return self.WINDOW / 2
        return 0.0

    def made(self, load: Optional[DiskLoad]) -> float:
        """The probe's share of all requests since it began; 0 where the kernel keeps no account."""
        if self.first is None or load is None or not self.own:
            return 0.0
        return self.own / max(load.requests - self.first.requests, self.own)
