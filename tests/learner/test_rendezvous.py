"""Processes that torchrun has started form an MPI world."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from trainer import TrainerError
from trainer.learner.ranks.pmi import World, assembled
from trainer.learner.ranks.rendezvous import Place

PATIENCE = 60.0
"""Seconds until a test gives up."""

IN_A_WORLD = """\
import os
from trainer.learner.ranks import start
group = start.from_launcher(2, "torchrun")
print(group.to_all(group.rank + 1), sorted(name for name in os.environ if name.startswith("PMI_")))
start.end(group)
"""
OUTSIDE = """\
import os, sys
from trainer import TrainerError
from trainer.learner.ranks.rendezvous import Place, joined
try:
    with joined(Place.of(os.environ), float(sys.argv[1])):
        pass
except TrainerError as error:
    print(error)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def started(code: str, port: int, rank: int, size: int = 2, *words: str) -> subprocess.Popen[str]:
    variables = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True
    )


def test_processes_with_the_variables_of_torchrun_are_a_world_of_mpi() -> None:
    pytest.importorskip("mpi4py", reason="a world needs the extra `distributed`")
    port = free_port()
    processes = [started(IN_A_WORLD, port, rank) for rank in (1, 0)]  # in any order
    for process in processes:
        assert process.communicate(timeout=PATIENCE)[0].strip() == "[1, 2] []"
        assert process.returncode == 0


def test_a_process_that_does_not_come_is_named() -> None:
    found, _ = started(OUTSIDE, free_port(), 0, 4, "0.5").communicate(timeout=PATIENCE)
    assert "the 4 processes have not come together" in found
    assert "ranks that have not connected within 0.5 s: 1, 2, 3" in found


def test_a_port_in_use_and_a_first_rank_that_does_not_come_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        found, _ = started(OUTSIDE, port, 0, 2, "1").communicate(timeout=PATIENCE)
    assert f"rank 0 can't listen on port {port}" in found and "MASTER_PORT" in found
    found, _ = started(OUTSIDE, free_port(), 1, 2, "0").communicate(timeout=PATIENCE)
    assert "Connection refused" in found and "MASTER_PORT" in found


def test_variables_that_name_no_place_are_refused() -> None:
    given = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    assert Place.of(given) == Place(1, 2, "node1", 29500)
    assert Place.of({**given, "TORCHELASTIC_USE_AGENT_STORE": "True"}).port == 29501  # torchrun has the other
    for name, value in (("RANK", "2"), ("RANK", "-1"), ("WORLD_SIZE", ""), ("MASTER_ADDR", ""), ("MASTER_PORT", "0")):
        with pytest.raises(TrainerError, match=f"{name}={value}"):
            Place.of({**given, name: value})


def gathered(size: int, *said: str) -> tuple[list[io.RawIOBase], str]:
    """What `assembled` returns, given what processes say that connect one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections = [socket.create_connection(listener.getsockname()) for _ in said]
        for connection, text in zip(connections, said, strict=True):
            connection.sendall(text.encode())
            connection.close()
        return assembled(listener, size, 0.2)


def test_the_server_takes_each_rank_once_and_leaves_out_other_programs() -> None:
    files, problem = gathered(2, "GET / HTTP/1.1\r\n", "1 2\n", "", "0 2\n")
    assert len(files) == 2 and not problem
    assert gathered(2, "1 2\n", "1 2\n")[1] == "two processes with RANK=1"
    assert gathered(2, "1 3\n")[1] == "RANK=1 WORLD_SIZE=3, and WORLD_SIZE=2 for rank 0"
    assert gathered(3, "1 3\n")[1] == "ranks that have not connected within 0.2 s: 0, 2"


class Process:
    """A process of a world as the server knows it."""

    def __init__(self, world: World) -> None:
        self.own, other = socket.socketpair()
        self.own.settimeout(PATIENCE)
        self._file = self.own.makefile("rwb", buffering=0)
        self._thread = threading.Thread(target=world.serve, args=(other.makefile("rwb", buffering=0),))
        other.close()
        self._thread.start()

    def ask(self, text: str) -> str:
        self._file.write(f"cmd={text}\n".encode())
        return self._file.readline().decode().strip()

    def end(self) -> None:
        self._file.close()
        self.own.close()
        self._thread.join()


def together(*asked: Callable[[], str]) -> list[str]:
    """The answers to questions that are asked at the same time."""
    found = [""] * len(asked)

    def ask(place: int) -> None:
        found[place] = asked[place]()

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_a_world_passes_on_values_after_a_barrier() -> None:
    world = World(2)
    one, other = Process(world), Process(world)
    assert one.ask("init pmi_version=1 pmi_subversion=1") == "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
    assert one.ask("get_universe_size") == "cmd=universe_size size=2"
    assert one.ask("put kvsname=world key=address[0] value=tcp=:#1") == "cmd=put_result rc=0"
    barrier = "barrier_in"
    assert together(lambda: one.ask(barrier), lambda: other.ask(barrier)) == ["cmd=barrier_out"] * 2
    assert other.ask("get kvsname=world key=address[0]") == "cmd=get_result rc=0 value=tcp=:#1"
    assert other.ask("get kvsname=world key=address[1]") == "cmd=get_result rc=-1 value=unknown"
    assert one.ask("finalize") == "cmd=finalize_ack"
    one.end()
    other.end()


@pytest.mark.parametrize("last", ["", "spawn"])
def test_nobody_waits_for_a_process_that_has_ended(last: str) -> None:
    world = World(2)
    one, other = Process(world), Process(world)
    if last:
        assert other.ask(last) == ""  # a question that the server does not know ends it, too
    other.end()
    assert one.ask("barrier_in") == ""
    one.end()
