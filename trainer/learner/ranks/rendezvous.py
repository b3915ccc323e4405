"""Joins processes started by torchrun, or by another program that sets its variables, into an MPI world.

    RANK, WORLD_SIZE            the index of this process, and the number of processes
    MASTER_ADDR, MASTER_PORT    the machine of rank 0, and a port on it

Rank 0 starts a PMI-1 server next to itself (see `pmi`), and all processes connect to it. MPICH and its derivatives find
the addresses of the other processes over a connection whose descriptor is PMI_FD.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainer import TrainerError

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

JOIN_SECONDS = 300.0
"""Seconds within which all processes must start, as for PyTorch's store."""

CONNECT_SECONDS, RETRY_SECONDS = 10.0, 0.1
"""Timeout of one attempt to reach rank 0, and pause before the next one, in seconds: rank 0 may start later."""


@dataclass(frozen=True)
class Place:
    """The place of a process among those that were started together; see the module docstring."""

    rank: int
    size: int
    address: str
    port: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Place:
        """Reads the place from the environment variables.

        Raises:
            TrainerError: a variable is missing or invalid.
        """
        found = {name: environment.get(name, "") for name in VARIABLES}
        numbers = [int(found[name]) for name in VARIABLES if name != "MASTER_ADDR" and found[name].isdigit()]
        if len(numbers) != 3 or not found["MASTER_ADDR"] or numbers[0] >= numbers[1] or not 0 < numbers[2] < 65535:
            raise TrainerError(
                "the variables of torchrun do not name a place among processes",
                found=" ".join(f"{name}={value}" for name, value in found.items()),
                expected="RANK below WORLD_SIZE, MASTER_ADDR the host of rank 0, MASTER_PORT a free port there",
            )
        rank, size, port = numbers
        is_taken = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun itself listens there
        return cls(rank, size, found["MASTER_ADDR"], port + is_taken)


@contextlib.contextmanager
def joined(place: Place, seconds: float = JOIN_SECONDS) -> Iterator[None]:
    """Waits for all processes; inside the context, MPI finds them when it starts.

    Raises:
        TrainerError: the port is in use, rank 0 can't be reached, or not all processes connect.
    """
    deadline = time.monotonic() + seconds
    if place.rank == 0:
        _start_server(place, seconds)
    connection = _connected(place, deadline)
    connection.settimeout(seconds + CONNECT_SECONDS)  # the server reports problems earlier
    problem = _line(connection, f"{place.rank} {place.size}\n")
    if problem != "\n":
        raise _not_joined(place, problem.strip() or "rank 0 has ended")
    connection.settimeout(None)  # MPI expects a blocking socket
    variables = {"PMI_FD": str(connection.detach()), "PMI_RANK": str(place.rank), "PMI_SIZE": str(place.size)}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:  # child processes do not belong to this world
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _start_server(place: Place, seconds: float) -> None:
    try:
        host = place.address if socket.gethostbyname(place.address).startswith("127.") else ""
        listener = socket.create_server((host, place.port), backlog=place.size)
    except OSError as error:
        raise TrainerError(
            f"rank 0 can't listen on port {place.port} of this machine",
            found=str(error),
            hint="Choose a free port as MASTER_PORT. Under torchrun, the next one is used, too.",
        ) from error
    with listener:
        words = [str(listener.fileno()), str(place.size), str(seconds)]
        subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("pmi.py")), *words], pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


def _connected(place: Place, deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection((place.address, place.port), CONNECT_SECONDS)
        except OSError as error:  # rank 0 may start later, and its name may resolve later
            if time.monotonic() > deadline:
                raise _not_joined(place, str(error)) from error
        time.sleep(RETRY_SECONDS)


def _line(connection: socket.socket, question: str) -> str:
    """Sends a question and reads one line, without any byte after it: MPI reads those. Incomplete after an error."""
    line = b""
    with contextlib.suppress(OSError):
        connection.sendall(question.encode())
        while not line.endswith(b"\n") and (byte := connection.recv(1)):
            line += byte
    return line.decode()


def _not_joined(place: Place, found: str) -> TrainerError:
    return TrainerError(
        f"the {place.size} processes have not come together",
        found=found,
        expected=f"all of them connected to rank 0, at port {place.port} of {place.address}",
        hint="Start all of them with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and each with its own RANK.",
    )
