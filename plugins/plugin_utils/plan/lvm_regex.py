# SPDX-License-Identifier: GPL-3.0-or-later
r"""The regular expressions of LVM's filters: read and matched as LVM does it. Pure.

Source: lvm2, libdm/regex/parse_rx.c and matcher.c; 2.03.12 to 2.03.31 are the same. Python's re is not used, for two reasons.

It reads other expressions. LVM knows only ``( ) | * + ? . [ ] ^ $`` and the backslash: ``{2}`` stands for itself, ``\d`` is a d, ``a+?`` may be nothing,
``[]x]`` is an empty set with ``x]`` behind it, ``[a-]`` is a range that ends at the bracket. ``^`` and ``$`` are characters before and behind the name,
which ``.`` and ``[^x]`` take as well.

And it tries one way after another, so that an expression that a host made up could keep the controller busy for ever. Here all ways are followed at once,
as LVM does, and the work has an end.

Where LVM itself goes on with half of an expression, as after a bracket too many, this raises ValueError. So it does for what LVM refuses to use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_BEFORE, _BEHIND = 2, 3  # HAT_CHAR and DOLLAR_CHAR
_EVERY = (1 << 256) - 2  # all but zero
_ESCAPED = {ord("n"): ord("\n"), ord("r"): ord("\r"), ord("t"): ord("\t")}
_DEEPEST = 50  # brackets in brackets
MOST_STEPS = 1 << 21  # for all names that are matched with one filter; a hundred expressions and 64 disks take less
_READ, _WALKED = 8, 8  # a character of an expression costs as many steps, and so many of a name cost one


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Work:
    """How many steps reading and matching may still take."""

    def __init__(self, left: int = MOST_STEPS) -> None:
        self.left = left

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise ValueError("it takes too long to match")


class Regex:
    """One expression, as an automaton: a state takes a character of a set and goes on to the next one, or goes on to several without any."""

    def __init__(self, text: str, work: Work) -> None:
        self._work = work
        work.spend(_READ * len(text))
        self._sets: list[int | None] = [None]  # None: it goes on without a character; the first state is the end
        self._ways: list[tuple[int, ...]] = [()]
        self._start = self._build(_Parser(as_bytes(text)).parsed(), 0)
        self._first = self._reached([self._start])
        self._known: dict[tuple[frozenset[int], int], frozenset[int]] = {}  # states, and a character → states

    def is_in(self, name: str) -> bool:
        """Whether it matches anywhere in a name."""
        text, now = (_BEFORE, *as_bytes(name), _BEHIND), self._first
        self._work.spend(1 + len(text) // _WALKED)
        for char in text:
            after = self._known.get((now, char))
            if after is None:
                taken = [self._ways[state][0] for state in now if (self._sets[state] or 0) >> char & 1]
                after = self._known[now, char] = self._reached([*taken, self._start])
            if 0 in after:
                return True
            now = after
        return False

    def _reached(self, states: Iterable[int]) -> frozenset[int]:
        reached: set[int] = set()
        todo = list(states)
        while todo:
            state = todo.pop()
            if state not in reached:
                reached.add(state)
                todo += self._ways[state] if self._sets[state] is None else ()
        self._work.spend(_READ + len(reached))
        return frozenset(reached)

    def _state(self, chars: int | None, *ways: int) -> int:
        self._sets.append(chars)
        self._ways.append(ways)
        return len(self._sets) - 1

    def _build(self, node: tuple[str, Any], then: int) -> int:
        """The state in which a part of the expression begins. *then*: that in which the rest begins."""
        kind, of = node
        if kind == "set":
            return self._state(of, then)
        if kind == "all":
            for part in reversed(of):
                then = self._build(part, then)
            return then
        if kind == "any":
            return self._state(None, *[self._build(part, then) for part in of])
        if kind == "?":
            return self._state(None, self._build(of, then), then)
        again = self._state(None)
        first = self._build(of, again)
        self._ways[again] = (first, then)
        return again if kind == "*" else first


class _Parser:
    """Reads one expression. A part of it is (kind, of what): a set of characters, all parts in turn, any of them, or a part and how often it comes."""

    def __init__(self, text: bytes) -> None:
        self._text, self._at, self._depth = text, 0, 0

    def parsed(self) -> tuple[str, Any]:
        node = self._any()
        if self._at < len(self._text):
            raise ValueError("a bracket too many, or nothing to repeat")
        return node

    def _peek(self) -> str:
        return chr(self._text[self._at]) if self._at < len(self._text) else ""

    def _take(self) -> int:
        if self._at >= len(self._text):
            raise ValueError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _any(self) -> tuple[str, Any]:
        parts = [self._all()]
        while self._peek() == "|":
            self._take()
            parts.append(self._all())
        return ("any", parts) if len(parts) > 1 else parts[0]

    def _all(self) -> tuple[str, Any]:
        parts = []
        while self._peek() not in ("", "|", ")", "*", "+", "?"):
            parts.append(self._repeated())
        if not parts:
            raise ValueError("nothing stands where something has to")
        return "all", parts

    def _repeated(self) -> tuple[str, Any]:
        node, marks = self._one(), set()
        while self._peek() in ("*", "+", "?"):
            marks.add(chr(self._take()))
        return (marks.pop() if len(marks) == 1 else "*", node) if marks else node

    def _one(self) -> tuple[str, Any]:
        char = self._take()
        if char == ord("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise ValueError("more than %d brackets in each other" % _DEEPEST)
            node = self._any()
            self._depth -= 1
            if self._peek() != ")":
                raise ValueError("a bracket is missing")
            self._take()
            return node
        if char == ord("["):
            return "set", self._set()
        if char == ord("\\"):
            char = self._take()
            return "set", 1 << _ESCAPED.get(char, char)
        if char == ord("."):
            return "set", _EVERY & ~(1 << ord("\n") | 1 << ord("\r"))
        return "set", 1 << {ord("^"): _BEFORE, ord("$"): _BEHIND}.get(char, char)

    def _set(self) -> int:
        inverted = self._peek() == "^"
        if inverted:
            self._take()
        chars = before = 0
        while self._peek() != "]":
            first = char = self._take()
            if char == ord("\\"):
                char = self._take()
                first = char = _ESCAPED.get(char, char)
            elif char == ord("-") and before:
                first, char = sorted((before, self._take()))  # whatever stands there, be it the bracket
            chars |= (1 << char + 1) - (1 << first)
            before = char
        self._take()
        return _EVERY & ~chars if inverted else chars
