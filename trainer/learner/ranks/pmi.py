"""A PMI-1 server that connects processes not started by an MPI launcher to an MPI world. See `rendezvous`.

`python pmi.py DESCRIPTOR SIZE SECONDS` serves one world on a listening socket until its processes have ended. It is a
separate process, because MPI blocks Python's threads while it starts. It uses only the standard library.

    process → server   RANK SIZE                     first
    server → process   an empty line once all are connected, or an error message
    process ⇄ server   cmd=put, get, barrier_in, …   as described in RFC 13 of the Flux framework
"""

from __future__ import annotations

import contextlib
import io
import socket
import sys
import threading
import time
from collections.abc import Sequence

SECONDS_TO_SPEAK = 5.0
"""Seconds after which a connection that has sent no rank is closed: it belongs to another program."""

SECONDS_TO_LEAVE = 10.0
"""Seconds for the other processes to end after rank 0: a machine may vanish without closing its connections."""


def assembled(listener: socket.socket, size: int, seconds: float) -> tuple[list[io.RawIOBase], str]:
    """Waits for all processes; returns their connections by rank, or those so far with an error message."""
    found: dict[int, io.RawIOBase] = {}
    deadline = time.monotonic() + seconds
    while len(found) < size:
        listener.settimeout(max(deadline - time.monotonic(), 1e-3))
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            missing = ", ".join(str(rank) for rank in range(size) if rank not in found)
            return list(found.values()), f"ranks that have not connected within {seconds:g} s: {missing}"
        connection.settimeout(SECONDS_TO_SPEAK)
        file = connection.makefile("rwb", buffering=0)
        line = b""
        with contextlib.suppress(OSError):
            line = file.readline(64)
        connection.settimeout(None)
        numbers = [int(word) for word in line.split() if word.isdigit()]
        if len(numbers) != 2:
            connection.close()
            continue
        rank, of = numbers
        if of != size or rank >= size:
            return [*found.values(), file], f"RANK={rank} WORLD_SIZE={of}, and WORLD_SIZE={size} for rank 0"
        if rank in found:
            return [*found.values(), file], f"two processes with RANK={rank}"
        found[rank] = file
    return [found[rank] for rank in range(size)], ""


class World:
    """The values and the barrier that processes of an MPI world share before they can exchange messages."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)
        self._values: dict[str, str] = {}
        self._answers = {
            "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "maxes kvsname_max=256 keylen_max=256 vallen_max=1024",
            "get_appnum": "appnum appnum=0",
            "get_my_kvsname": "my_kvsname kvsname=world",
            "get_universe_size": f"universe_size size={size}",
            "put": "put_result rc=0",
            "barrier_in": "barrier_out",
            "finalize": "finalize_ack",
        }

    def serve(self, file: io.RawIOBase) -> None:
        """Answers a process until it ends; then closes the connections of those that would wait for it."""
        with contextlib.suppress(OSError, KeyError, threading.BrokenBarrierError):
            while line := file.readline():
                file.write(f"cmd={self._answer(line.decode())}\n".encode())
        self._barrier.abort()
        file.close()

    def _answer(self, line: str) -> str:
        fields = dict(word.partition("=")[::2] for word in line.split())
        command = fields["cmd"]
        if command == "get":
            value = self._values.get(fields["key"])
            return "get_result rc=-1 value=unknown" if value is None else f"get_result rc=0 value={value}"
        if command == "put":
            self._values[fields["key"]] = fields["value"]
        elif command == "barrier_in":
            self._barrier.wait()
        return self._answers[command]


def main(words: Sequence[str]) -> None:
    """Serves one world; see the module docstring."""
    descriptor, size, seconds = int(words[0]), int(words[1]), float(words[2])
    with socket.socket(fileno=descriptor) as listener:
        files, problem = assembled(listener, size, seconds)
    for file in files:
        with contextlib.suppress(OSError):  # it may have ended
            file.write(f"{problem}\n".encode())
    if problem:
        return
    world = World(size)
    threads = [threading.Thread(target=world.serve, args=(file,), daemon=True) for file in files]
    for thread in threads:
        thread.start()
    threads[0].join()
    deadline = time.monotonic() + SECONDS_TO_LEAVE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1:])
