# SPDX-License-Identifier: GPL-3.0-or-later
"""Synchronous writes as PostgreSQL's pg_test_fsync makes them: the rows of its table. Pure.

The rows, their order, titles, sizes, offsets and open flags are those of pg_test_fsync (PostgreSQL 9.2 to 18 are alike
in them), so that its users find their table again. Percentiles and intervals are ours; the guide on sync latency has
the formulas.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB

# One WAL segment, written before anything is measured: the rows then overwrite, as they do in a recycled segment.
FILE_BYTES = 16 * MIB


class Row(NamedTuple):
    """One line of the table: what one operation of it does."""

    name: str  # in options and results
    group: int
    title: str  # in the table
    write: int  # bytes of one write; writes follow each other from the file's first byte
    times: int  # writes of one operation
    flag: int = 0  # O_DSYNC or O_SYNC, and with it O_DIRECT; 0: through the page cache
    sync: str = ""  # fdatasync, fsync or sync_file_range after the writes; fsync_close and close_fsync with a descriptor of its own


HEADINGS = (
    "Compare file sync methods using one 8kB write:",
    "Compare file sync methods using two 8kB writes:",
    "Compare open_sync with different write sizes (16kB in all):",
    "Test if fsync on non-write file descriptor is honored:",
    "Non-sync'ed 8kB writes:",
)


def _methods(group: int, suffix: str, count: int) -> Tuple[Row, ...]:
    return (
        Row("open_datasync" + suffix, group, "open_datasync", 8 * KIB, count, flag=os.O_DSYNC),
        Row("fdatasync" + suffix, group, "fdatasync", 8 * KIB, count, sync="fdatasync"),
        Row("fsync" + suffix, group, "fsync", 8 * KIB, count, sync="fsync"),
        Row("open_sync" + suffix, group, "open_sync", 8 * KIB, count, flag=os.O_SYNC),
    )


def _cut(count: int) -> Row:
    size = 16 // count
    return Row("open_sync_%dx%dk" % (count, size), 2, "%2d * %2dkB open_sync write%s" % (count, size, "s"[: count - 1]), size * KIB, count, flag=os.O_SYNC)


ROWS = (
    *_methods(0, "", 1),
    *_methods(1, "_2", 2),
    *(_cut(count) for count in (1, 2, 4, 8, 16)),
    Row("write_fsync_close", 3, "write, fsync, close", 8 * KIB, 1, sync="fsync_close"),
    Row("write_close_fsync", 3, "write, close, fsync", 8 * KIB, 1, sync="close_fsync"),
    Row("write", 4, "write", 8 * KIB, 1),
)
# What the write cache's two states are compared by, beside the row fdatasync. pg_test_fsync has no such rows. A write past the page cache
# and no flush behind it: without the drive's cache it is the plain durable write. And all that fdatasync does but its flush.
DIRECT = Row("direct_write", 4, "write, O_DIRECT", 8 * KIB, 1, flag=os.O_DIRECT)
WRITTEN = Row("write_sync_file_range", 4, "write, sync_file_range", 8 * KIB, 1, sync="sync_file_range")
