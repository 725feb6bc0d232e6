# SPDX-License-Identifier: GPL-3.0-or-later
"""A reading of a host as the controller takes it: of the right types, and sound, before anything is made of it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import NOTHING_WRITTEN, PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import refused_result
from ansible_collections.plumbline.ssd.plugins.module_utils._core.unpacking import unpack
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import PlanAnswer
from ansible_collections.plumbline.ssd.plugins.plugin_utils.sound_reading import check_reading

Made = TypeVar("Made")

_NO_READING = "what the host returned is no reading of this release: "


def unpacked(text: object) -> PlanAnswer:
    """What a host answered. Raises PlumblineError for what is none, or does not fit together."""
    if not isinstance(text, str):
        raise PlumblineError(_NO_READING + "it has no answer; wanted the module of the same release as on the controller")
    try:
        answer: PlanAnswer = unpack(PlanAnswer, text)
    except ValueError as fault:
        raise PlumblineError(f"{_NO_READING}{fault}") from fault
    check_reading(answer.reading.seen)
    return answer


def made_of_reading(make: Callable[..., Made], *arguments: Any, **more: Any) -> Made:
    """What *make* makes of what a host answered. Raises PlumblineError where it refuses, and where it cannot be made of what was read.

    The same code reads what a kernel says. Here its input is what somebody says: that it does not fit together is no fault of the code.
    """
    try:
        return make(*arguments, **more)
    except PlumblineError:
        raise
    except Exception as fault:  # pylint: disable=broad-exception-caught
        last = traceback.extract_tb(fault.__traceback__)[-1]
        where = f"{type(fault).__name__} in {os.path.basename(last.filename)}, line {last.lineno}: {fault}"
        words = "read the host again; if it says so again, it was changed, or this is a fault of the collection"
        raise PlumblineError(f"{NOTHING_WRITTEN}what the host returned does not fit together ({where}); {words}") from fault


def failed_task(fault: PlumblineError, **more: Any) -> dict[str, Any]:
    """The result of a task that fails."""
    return {"failed": True, "changed": False, **refused_result(fault, more)}
