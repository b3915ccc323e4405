"""Messages between the training process and a worker: Python objects, with file descriptors."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

_HEADER = struct.Struct("=QI")
_MOST_DESCRIPTORS = 64


class Channel:
    """One end of a socket pair. Not safe for several threads in the same direction."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        first, second = socket.socketpair()
        return cls(first), cls(second)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Sends `message`, and a duplicate of each descriptor.

        Raises:
            ConnectionError: the other end is closed.
        """
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        header = _HEADER.pack(len(content), len(descriptors))
        for first in range(0, max(1, len(descriptors)), _MOST_DESCRIPTORS):
            lot = list(descriptors[first : first + _MOST_DESCRIPTORS])
            socket.send_fds(self._socket, [header], lot)
        self._socket.sendall(content)

    def receive(self) -> tuple[Any, list[int]]:
        """Waits for the next message and its descriptors, which the receiver must close.

        Raises:
            EOFError: the other end is closed, or its process has ended.
        """
        length, count, descriptors = 0, 0, list[int]()
        while True:
            try:
                header, lot, _, _ = socket.recv_fds(self._socket, _HEADER.size, _MOST_DESCRIPTORS)
            except ConnectionError as error:
                raise EOFError from error
            descriptors += lot
            header += self._exactly(_HEADER.size - len(header)) if len(header) < _HEADER.size else b""
            length, count = _HEADER.unpack(header)
            if len(descriptors) >= count:
                return pickle.loads(self._exactly(length)), descriptors

    def _exactly(self, count: int) -> bytes:
        content = bytearray(count)
        place, view = 0, memoryview(content)
        while place < count:
            try:
                taken = self._socket.recv_into(view[place:])
            except ConnectionError as error:
                raise EOFError from error
            if not taken:
                raise EOFError
            place += taken
        return bytes(content)

    def close(self) -> None:
        self._socket.close()
