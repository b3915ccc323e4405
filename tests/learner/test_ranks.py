"""The exchange between processes, with threads in their place, and how a lost one is named."""

from __future__ import annotations

import json
import mmap
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.cli.launchers import launched
from trainer.configs import RunConfig
from trainer.learner.ranks import Group
from trainer.learner.ranks.agreement import shards_for
from trainer.learner.ranks.heartbeats import SILENT_SECONDS, Heartbeats
from trainer.learner.ranks.start import abandon
from trainer.learner.ranks.tree import SMALL_BYTES


class Thread(Group):
    """A rank whose messages go through queues."""

    def __init__(self, rank: int, size: int, queues: dict[tuple[int, int], queue.Queue[Any]]) -> None:
        super().__init__()
        self.rank, self.size, self._queues = rank, size, queues

    def exchange(self, partner: int, given: np.ndarray, taken: np.ndarray, tag: int) -> Callable[[], bool]:
        self._queues[self.rank, partner].put(given.copy())

        def is_done() -> bool:
            taken[:] = self._queues[partner, self.rank].get(timeout=10)
            return True

        return is_done

    def _send(self, value: Any, ranks: Any) -> None:
        for rank in ranks:
            self._queues[self.rank, rank].put(value)

    def _receive(self, rank: int) -> Any:
        return self._queues[rank, self.rank].get(timeout=10)


def in_ranks(size: int, work: Callable[[Thread], Any]) -> list[Any]:
    """What `work` returns in each of `size` ranks, or the error that it raises."""
    queues = {(a, b): queue.Queue[Any]() for a in range(size) for b in range(size)}
    found: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            found[rank] = work(Thread(rank, size, queues))
        except TrainerError as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def balanced(values: list[np.ndarray]) -> np.ndarray:
    while len(values) > 1:
        values = [one + other for one, other in zip(values[::2], values[1::2], strict=True)]
    return values[0]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_sums_over_ranks_are_those_of_a_balanced_tree(size: int) -> None:
    generator = np.random.default_rng(size)
    lengths = (0, 1, 5, SMALL_BYTES // 4 + 7)  # exchanged whole, together; and in halves that differ by one
    scales = 10.0 ** generator.integers(-6, 6, size)
    given = [[(generator.normal(size=length) * scale).astype(np.float32) for length in lengths] for scale in scales]
    counts = [np.arange(3) * rank for rank in range(size)]
    expected = [balanced([of_rank[place] for of_rank in given]) for place in range(len(lengths))]

    def work(rank: Thread) -> list[np.ndarray]:
        arrays = [*(array.copy() for array in given[rank.rank]), counts[rank.rank].copy()]
        rank.add_up(arrays)
        return arrays

    for found in in_ranks(size, work):
        for one, other in zip(found, [*expected, sum(counts)], strict=True):
            assert one.tobytes() == np.asarray(other).tobytes()


def test_values_of_ranks_reach_the_first_and_all() -> None:
    def work(rank: Thread) -> tuple[Any, ...]:
        return rank.from_first(10 * rank.rank), rank.to_all(rank.rank), rank.joined([rank.rank])

    found = in_ranks(4, work)
    assert found == [(0, [0, 1, 2, 3], [0, 1, 2, 3]), *[(0, [0, 1, 2, 3], [])] * 3]


def test_ranks_that_disagree_are_refused_with_the_fact_and_the_rank() -> None:
    for error in in_ranks(2, lambda rank: rank.require_same({"the data": 5, "the config": f"hash {rank.rank}"})):
        assert "disagree about the config" in str(error) and "hash 1 in rank 1" in str(error)


def test_processes_that_do_not_divide_the_shards_are_refused() -> None:
    with pytest.raises(TrainerError, match="the processes do not divide the shards"):
        shards_for(RunConfig(task="digits", train={"shards": 2}), Thread(0, 4, {}))
    with pytest.raises(ValueError, match="4 processes do not divide 2 shards"):
        RunConfig(task="digits", train={"shards": 2, "processes": 4})


def test_shared_memory_of_mpi_is_deleted_after_a_failure(tmp_path: Path) -> None:
    paths = [tmp_path / "mpich_shm_1", tmp_path / "other"]
    for path in paths:
        path.write_bytes(bytes(mmap.PAGESIZE))
    opened = [path.open("r+b") for path in paths]
    mapped = [mmap.mmap(file.fileno(), 0) for file in opened]
    abandon(f"{tmp_path}/mpich_shm_")
    assert [path.exists() for path in paths] == [False, True]
    for each in (*mapped, *opened):
        each.close()


def test_launchers_are_recognized_by_their_variables() -> None:
    assert launched({"PMI_SIZE": "4", "PMI_RANK": "1"}) == (4, "mpiexec")
    assert launched({"SLURM_STEP_NUM_TASKS": "2"}) == (2, "srun")
    assert launched({"WORLD_SIZE": "8", "RANK": "0"}) == (8, "torchrun")
    assert launched({"SLURM_STEP_NUM_TASKS": "1"}) == launched({}) == (1, "")


def test_a_rank_that_dies_fails_or_falls_silent_is_named(tmp_path: Path) -> None:
    now = [0.0]
    ranks = [Heartbeats(tmp_path, rank, 3, clock=lambda: now[0]) for rank in range(3)]
    for rank in ranks:
        rank.start()
    assert ranks[0].lost() is None
    for rank in ranks[1:]:
        rank.stop()
    assert ranks[0].lost() is None  # they are done

    def note(**fields: Any) -> None:
        path = tmp_path / "2.json"
        path.write_text(json.dumps({"pid": os.getpid(), "started": None, "host": "elsewhere", **fields}))

    note()
    assert ranks[0].lost() is None
    now[0] += SILENT_SECONDS
    assert ranks[0].lost() == f"rank 2 (pid {os.getpid()} on elsewhere) has not responded for {SILENT_SECONDS:.0f} s"
    note(failure="no space left on device")
    assert ranks[0].lost() == f"rank 2 (pid {os.getpid()} on elsewhere) failed: no space left on device"
    note(host=ranks[0]._known["host"], started=-1)  # another process has the pid now
    assert (ranks[0].lost() or "").endswith("died")
    ranks[0].stop()
