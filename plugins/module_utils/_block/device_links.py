# SPDX-License-Identifier: GPL-3.0-or-later
"""Where udev has its links to partitions and to filesystems."""

from __future__ import annotations

BY_GUID, BY_UUID = "/dev/disk/by-partuuid/", "/dev/disk/by-uuid/"
