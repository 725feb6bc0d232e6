# SPDX-License-Identifier: GPL-3.0-or-later
"""What an observation is asked about. Pure."""

from __future__ import annotations

from typing import NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import Override


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
    overrides: Tuple[Override, ...] = ()  # the operator's own geometry
    proofs: Tuple[str, ...] = ()  # stacks whose last proof is asked for
    process: str = "self"  # whose mounts are those of the host
    health: bool = False  # whether the last readings of the drives' health are asked for
    serials: Tuple[str, ...] = ()  # of disks that are looked at beside those that are named
