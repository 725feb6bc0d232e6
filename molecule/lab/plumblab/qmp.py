# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of QEMU's monitor protocol, as much of it as the lab uses."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import process
from .errors import LabError
from .paths import Paths


class Qmp:
    """One connection; events that arrive between answers are kept."""

    def __init__(self, paths: Paths, timeout_seconds: float = 30) -> None:
        self._paths = paths
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_seconds)
        try:
            self._socket.connect(str(paths.qmp))
        except OSError as error:
            self._socket.close()
            raise LabError(f"QEMU's monitor {paths.qmp} does not answer ({error}); is the machine up?") from error
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        self._receive(timeout_seconds)
        self.command("qmp_capabilities")

    def __enter__(self) -> Qmp:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """The command's return value; LabError with QEMU's words where it refuses."""
        request: dict[str, Any] = {"execute": name}
        if arguments:
            request["arguments"] = arguments
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            message = self._receive(60)
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise LabError(f"QEMU refused {name} {json.dumps(arguments)}: {message['error'].get('desc')}")
            self.events.append(message)

    def wait_event(self, wanted: Callable[[dict[str, Any]], bool], timeout_seconds: float) -> dict[str, Any] | None:
        """The first event that fits, also among those already received; None after the time."""
        end = time.monotonic() + timeout_seconds
        checked = 0
        while True:
            for event in self.events[checked:]:
                if wanted(event):
                    return event
            checked = len(self.events)
            left = end - time.monotonic()
            if left <= 0:
                return None
            try:
                self.events.append(self._receive(left))
            except TimeoutError:
                return None

    def _receive(self, timeout_seconds: float) -> dict[str, Any]:
        self._socket.settimeout(timeout_seconds)
        while b"\n" not in self._buffer:
            chunk = self._socket.recv(65536)
            if not chunk:
                raise LabError(f"QEMU closed its monitor: {process.last_words(self._paths)}")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message
