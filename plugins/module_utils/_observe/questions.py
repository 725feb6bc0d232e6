# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""What an observation is asked about. Pure."""

from __future__ import annotations

from typing import NamedTuple, Tuple


class Questions(NamedTuple):
    """What an observation is asked about. Empty *devices*: every disk of the host."""

    devices: Tuple[Tuple[str, str], ...] = ()  # (path as the user named it, test identity)
    models: Tuple[str, ...] = ()
    mounts: Tuple[str, ...] = ()
    files: Tuple[str, ...] = ()
    users: Tuple[str, ...] = ()
    groups: Tuple[str, ...] = ()
    contexts: Tuple[str, ...] = ()  # of SELinux
    volumes: Tuple[Tuple[str, str], ...] = ()  # (VG, LV) that are to be there
    full_proof: bool = False
    prove: bool = True
    guards: bool = True  # whether it is asked what speaks against taking the devices, beside what they carry
    everything: bool = False
