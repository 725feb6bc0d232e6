# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive's answers say of its write cache: ATA, SCSI and NVMe. Pure."""

from __future__ import annotations

from typing import Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.ata import AtaCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.scsi import CachingPage

_ONCS_SELECT = 1 << 4  # the controller knows Save and Select
_SAVEABLE, _CHANGEABLE = 1, 1 << 2


def cache_of_ata(cache: AtaCache) -> WriteCache:
    """ATA says what it has and whether it is on. Whether it takes a change shows when one is tried, and it saves none."""
    if cache.supported is None and cache.enabled is None:
        return WriteCache(fault="IDENTIFY DEVICE says nothing of a write cache")
    return WriteCache(present=cache.supported, enabled=cache.enabled, changeable=False if cache.supported is False else None)


def cache_of_scsi(
    current: Optional[CachingPage], changeable: Optional[CachingPage], saved: Optional[CachingPage], volatile: bool, non_volatile: bool
) -> WriteCache:
    """From the caching page's current, changeable and saved values, and the two bits of the Extended INQUIRY page."""
    if current is None:
        return WriteCache(fault="it has no caching page")
    may = changeable.write_back if changeable else None
    only_safe = non_volatile and not volatile
    present: Optional[bool] = None
    if only_safe:
        present = False
    elif volatile or current.write_back or may:
        present = True
    return WriteCache(
        present=present,
        enabled=current.write_back,
        changeable=may,
        saved=saved.write_back if saved and current.savable else None,
        protected=True if only_safe else None,
    )


def select_known(oncs: int) -> bool:
    """Whether an NVMe controller can be asked for capabilities and saved values of its features."""
    return bool(oncs & _ONCS_SELECT)


def cache_of_nvme(vwc: int, current: Optional[int], capabilities: Optional[int], saved: Optional[int]) -> WriteCache:
    """From VWC of Identify Controller and feature 06h: its value, and where these can be asked for its capabilities and saved value."""
    if not vwc & 1:
        return WriteCache(present=False, enabled=False, changeable=False)
    if current is None:
        return WriteCache(present=True, fault="the controller has a write cache and does not answer for feature 06h")
    return WriteCache(
        present=True,
        enabled=bool(current & 1),
        changeable=None if capabilities is None else bool(capabilities & _CHANGEABLE),
        saved=bool(saved & 1) if saved is not None and capabilities is not None and capabilities & _SAVEABLE else None,
    )


def all_paths(caches: Sequence[WriteCache]) -> WriteCache:
    """One subsystem's cache from what each of its controllers says: on where it is on behind any, since any may take a write."""
    if len(caches) < 2:
        return caches[0] if caches else WriteCache(fault="no controller of it is there")
    fault = next((cache.fault for cache in caches if cache.fault), "")

    def some(values: Sequence[Optional[bool]]) -> Optional[bool]:
        return True if True in values else None if None in values else False

    def every(values: Sequence[Optional[bool]]) -> Optional[bool]:
        return False if False in values else None if None in values else True

    return WriteCache(
        present=some([cache.present for cache in caches]),
        enabled=some([cache.enabled for cache in caches]),
        changeable=every([cache.changeable for cache in caches]),
        saved=some([cache.saved for cache in caches]),
        protected=every([cache.protected for cache in caches]),
        fault=fault,
    )
