# SPDX-License-Identifier: GPL-3.0-or-later
"""Text for people: what is printable, one line, numbers, tables. Pure."""

from __future__ import annotations

import binascii
import re
from typing import List, Sequence

_WIDEST = 1000  # characters of a cell


def table(rows: Sequence[Sequence[str]]) -> List[str]:
    """Columns of equal width, two blanks between them, nothing behind the last. A cell that is no cell by its length widens no other."""
    widths = [max(len(row[column]) if len(row[column]) < _WIDEST else 0 for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


_LONGEST = 4000  # characters of a message: what comes from outside may be of any length


def escape_unprintable(text: str, keep: str = "") -> str:
    r"""*text* as a person may see it: what is no printable character is written as ``\x1b`` or ``\u202e``, but for those in *keep*.

    Models, labels and names come from devices, which may hold anything: control characters that drive a terminal, marks that turn the
    direction of the text round it (Unicode TR 36), bytes that are no UTF-8 (kept by Python as U+DC80 to U+DCFF), line ends that forge a line.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _code(ord(char)) for char in text)


def _code(number: int) -> str:
    if 0xDC80 <= number <= 0xDCFF:
        return "\\x%02x" % (number - 0xDC00)
    return "\\x%02x" % number if number < 0x100 else "\\u%04x" % number if number < 0x10000 else "\\U%08x" % number


def one_line(text: str) -> str:
    """*text* as one line of a message: its lines joined, nothing in it that is not printable, and of a bounded length.

    Many blanks become a mark: with enough of them a name would reach the end of the terminal's line, and go on as if it were the next one.
    """
    head = text[: 4 * _LONGEST]  # escaping takes the time and the memory of all that it is given
    line = head.strip() if head.isprintable() else escape_unprintable("; ".join(part.strip() for part in head.splitlines() if part.strip()))
    line = re.sub(" {9,}", " … ", line)
    if len(line) <= _LONGEST and len(head) == len(text):
        return line
    return "%s … (%d characters)" % (line[:_LONGEST], max(len(line), len(text)))


def as_yaml(text: str) -> str:
    """*text* as it has to be written into a spec: in quotes where YAML would take it for a number (0123 is 83) or for more than a word."""
    word = text[:1].isalpha() and text.lower() not in ("yes", "no", "on", "off", "true", "false", "null", "y", "n")
    # A number may have an "e" in it, and letters behind 0b, 0o and 0x.
    plain = text.isalnum() and (word or re.match("(?!0[boxBOX])[0-9].*[a-df-zA-DF-Z]", text))
    return text if plain else "'%s'" % text.replace("'", "''")


def number_text(value: float) -> str:
    """Three digits at least, and no more behind the point than that takes."""
    return "%.0f" % value if value >= 100 else "%.3g" % value


def slug(key: str) -> str:
    """A device's identity as a directory's name: readable, and never that of another."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")[:60] or "device"
    return "%s-%08x" % (readable, binascii.crc32(key.encode("utf-8", "surrogateescape")) & 0xFFFFFFFF)
