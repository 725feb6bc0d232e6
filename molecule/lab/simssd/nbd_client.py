# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of an NBD client as the tests need: fixed newstyle handshake, simple replies, many requests under way at once."""

from __future__ import annotations

import itertools
import select
import socket
import struct
from pathlib import Path

READ, WRITE, FLUSH, TRIM, ZEROES = 0, 1, 3, 4, 6
FUA = 1
HAS_FUA = 1 << 3

_OPTION_GO = 7
_REPLY_ACK, _REPLY_INFO = 1, 3
_REQUEST = struct.Struct(">IHHQQI")
_REPLY = struct.Struct(">IIQ")


class NBDError(OSError):
    """A request that the server answered with an error number."""


class NBDClient:
    """One connection. Replies may come in any order; each submit() gives the handle that result() wants.

    `polling` waits for replies awake: a client that sleeps is woken late, and the later the longer it slept.
    """

    def __init__(self, path: Path, polling: bool = False) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(30)
        self._socket.connect(str(path))
        self._polling = False
        self._handles = itertools.count(1)
        self._expected: dict[int, int] = {}
        self._results: dict[int, tuple[int, bytes]] = {}
        self.size_bytes, self.flags = self._handshake()
        self._polling = polling  # from here on

    def close(self) -> None:
        self._socket.close()

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            while self._polling and not select.select([self._socket], [], [], 0)[0]:
                pass
            piece = self._socket.recv(length - len(data))
            if not piece:
                raise ConnectionError("the NBD server closed the connection")
            data += piece
        return bytes(data)

    def _handshake(self) -> tuple[int, int]:
        magic, option_magic, _flags = struct.unpack(">8s8sH", self._receive(18))
        assert (magic, option_magic) == (b"NBDMAGIC", b"IHAVEOPT")
        go = struct.pack(">IH", 0, 0)  # the default export, no further questions
        self._socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", _OPTION_GO, len(go)) + go)
        size_bytes = flags = 0
        while True:
            _magic, _option, kind, length = struct.unpack(">QIII", self._receive(20))
            body = self._receive(length)
            if kind == _REPLY_INFO and body[:2] == b"\0\0":
                size_bytes, flags = struct.unpack(">QH", body[2:12])
            elif kind == _REPLY_ACK:
                return size_bytes, flags
            elif kind != _REPLY_INFO:
                raise ConnectionError(f"the NBD server refused the export: {kind:#x} {body!r}")

    def submit(self, command: int, offset: int = 0, length: int = 0, data: bytes = b"", flags: int = 0) -> int:
        handle = next(self._handles)
        self._expected[handle] = length if command == READ else 0
        self._socket.sendall(_REQUEST.pack(0x25609513, flags, command, handle, offset, len(data) or length) + data)
        return handle

    def result(self, handle: int) -> bytes:
        while handle not in self._results:
            _magic, error, answered = _REPLY.unpack(self._receive(_REPLY.size))
            length = self._expected.pop(answered)
            self._results[answered] = (error, self._receive(length) if not error else b"")
        error, data = self._results.pop(handle)
        if error:
            raise NBDError(error, f"the NBD server answered with error {error}")
        return data

    def read(self, offset: int, length: int) -> bytes:
        return self.result(self.submit(READ, offset, length))

    def write(self, offset: int, data: bytes, fua: bool = False) -> None:
        self.result(self.submit(WRITE, offset, data=data, flags=FUA if fua else 0))

    def flush(self) -> None:
        self.result(self.submit(FLUSH))

    def trim(self, offset: int, length: int) -> None:
        self.result(self.submit(TRIM, offset, length))

    def zero(self, offset: int, length: int) -> None:
        self.result(self.submit(ZEROES, offset, length))
