# SPDX-License-Identifier: GPL-3.0-or-later
"""A flash drive in a few lines: a page map, greedy garbage collection, and nothing but counts."""

from __future__ import annotations

import random

FILLING = 1 << 40  # on top of the valid pages of a block that is free or being filled, so that no minimum finds it


class Flash:
    """A drive behind one sequential fill. The host and garbage collection fill a block of their own each, and two more are kept free."""

    def __init__(self, op: float, pages: int, block_pages: int, seed: str) -> None:
        self.dice = random.Random(seed)
        self.pages, self.block_pages = pages, block_pages
        blocks = -(-int(pages * (1 + op / 100)) // block_pages)
        self.place = list(range(pages))  # by page of the host
        self.owner = [*range(pages), *[-1] * (blocks * block_pages - pages)]  # by page of the flash
        used = -(-pages // block_pages)
        self.valid = [block_pages] * used + [FILLING] * (blocks - used)
        self.free = list(range(blocks - 1, used - 1, -1))
        self.host = [0, 0]  # the next page of the block that the host fills, and its end
        self.collector = [0, 0]
        self.moves = 0

    def _next(self, frontier: list[int]) -> int:
        at, end = frontier
        if at == end:
            if end:
                self.valid[end // self.block_pages - 1] -= FILLING
            at = self.free.pop() * self.block_pages
            frontier[1] = at + self.block_pages
        frontier[0] = at + 1
        return at

    def _collect(self) -> None:
        """Moves what is valid out of the block that has the least of it."""
        victim = self.valid.index(min(self.valid))
        begin = victim * self.block_pages
        for flash in range(begin, begin + self.block_pages):
            page = self.owner[flash]
            if page >= 0:
                self.owner[flash] = -1
                self._put(page, self._next(self.collector))
                self.moves += 1
        self.valid[victim] = FILLING
        self.free.insert(0, victim)

    def _put(self, page: int, flash: int) -> None:
        self.owner[flash] = page
        self.place[page] = flash
        self.valid[flash // self.block_pages] += 1

    def write(self, count: int, run: int = 1) -> float:
        """Pages of the host at uniform random places, so many in a row each. Returns the write amplification."""
        before, block_pages = self.moves, self.block_pages
        place, owner, valid, dice = self.place, self.owner, self.valid, self.dice.random
        for _run in range(count // run):
            first = int(dice() * (self.pages // run)) * run
            for page in range(first, first + run):
                if self.host[0] == self.host[1]:
                    while len(self.free) < 2:
                        self._collect()
                old = place[page]
                valid[old // block_pages] -= 1
                owner[old] = -1
                self._put(page, self._next(self.host))
        return 1 + (self.moves - before) / (count // run * run)
