# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts that nobody should call a device, and hands that damage what was good. All from a seed: a case can be had again by its number."""

from __future__ import annotations

import copy

HOSTILE = (
    "",
    " ",
    "\n",
    "a\nb",
    "\r\nFAIL: all is lost",
    "\x1b[2J\x1b[1;1H\x1b]0;owned\x07",
    "\x00\x01\x7f\x9b31m",
    "\u202egpj.exe\u202c",
    "\u2066\u2069\u200b\ufeff",
    "\u2028pgdata\u2029x\x85y",
    "\udcff\udc80",
    "{{ lookup('pipe', 'touch /tmp/plumbline-owned') }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "{# comment #}",
    "!unsafe x",
    "!!python/object/apply:os.system [touch /tmp/plumbline-owned]",
    "$(touch /tmp/plumbline-owned)",
    "`touch /tmp/plumbline-owned`",
    "; touch /tmp/plumbline-owned #",
    "' || touch /tmp/plumbline-owned || '",
    '", RUN+="/bin/touch /tmp/plumbline-owned',
    "%s%n%d%(name)s",
    "%p%h%i",
    "../../../etc/passwd",
    "/etc/../etc/shadow",
    "--filename=/dev/sda",
    "-f",
    "--force",
    "/dev/sda:/dev/sdb",
    "[global]\nfilename=/dev/sda",
    "\\040\\011\\134",
    "plumbline:pgdata:0",
    "pgdata",
    "*",
    "[!a]",
    "é" * 40,
    "𝔭\U0010ffff",
    "A" * 5000,
    "nan",
    "-1",
    "99999999999999999999999999",
)
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    1 << 63,
    10**400,
    -(10**400),
    1.5,
    float("inf"),
    float("nan"),
    [],
    {},
    [[]],
    [{}],
    {"a": {"b": []}},
    b"bytes",
    (1,),
    *HOSTILE,
)


def text(dice):
    """One hostile text, or two of them joined."""
    return dice.choice(HOSTILE) + (dice.choice(HOSTILE) if dice.randrange(3) == 0 else "")


def damaged_bytes(dice, raw, resize=True):
    """The bytes with a few of them changed; with *resize* also cut, doubled or grown."""
    raw = bytearray(raw)
    for _time in range(dice.choice((1, 1, 2, 4, 16))):
        kind = dice.randrange(8 if resize else 5)
        at = dice.randrange(len(raw) + 1)
        if kind < 3 and at < len(raw):
            raw[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        elif kind == 3:
            size = min(dice.choice((2, 4, 8)), len(raw) - at)
            raw[at : at + size] = dice.choice((b"\xff", b"\x00", b"\x80")) * size
        elif kind == 4 and at + 4 <= len(raw):
            raw[at : at + 4] = dice.randrange(1 << 32).to_bytes(4, "little")
        elif kind == 5:
            del raw[at : at + dice.randrange(64)]
        elif kind == 6:
            raw[at:at] = raw[: dice.randrange(64)]
        elif kind == 7:
            del raw[at:]
    return bytes(raw)


def damaged_text(dice, good):
    """The text with bytes changed, or hostile texts put between its words."""
    if dice.randrange(2):
        return damaged_bytes(dice, good.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
    words = good.split(" ")
    for _time in range(dice.randrange(1, 4)):
        at = dice.randrange(len(words))
        words[at] = dice.choice((text(dice), "", words[at] + text(dice), words[at] * 2))
    return " ".join(words)


def damaged_tree(dice, good):
    """A nested value with values, keys or whole branches exchanged, dropped or moved."""
    tree = copy.deepcopy(good)
    for _time in range(dice.choice((1, 1, 1, 2, 3))):
        places = [(None, None), *_places(tree)]
        holder, key = dice.choice(places)
        # A copy, since the next turn may change what stands there now.
        new = copy.deepcopy(dice.choice(VALUES) if dice.randrange(3) else _at(tree, *dice.choice(places)))
        if holder is None:
            tree = new if dice.randrange(20) == 0 else tree
        elif dice.randrange(4) == 0:
            del holder[key]
        elif isinstance(holder, dict) and dice.randrange(3) == 0:
            holder[dice.choice((text(dice), 0, None, str(key)[:-1], str(key).upper()))] = holder.pop(key)
        else:
            holder[key] = new
    return tree


def _places(tree):
    items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    found = [(tree, key) for key, _value in items]
    for _key, value in items:
        found += _places(value)
    return found


def _at(tree, holder, key):
    return tree if holder is None else holder[key]
