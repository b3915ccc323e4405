"""The exchange between processes, with threads in their place, and how a lost one is named."""

from __future__ import annotations

import json
import mmap
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError
from trainer.cli.launchers import launched
from trainer.configs import RunConfig
from trainer.engine import nn
from trainer.learner.optimizers.adam import Adam
from trainer.learner.optimizers.muon import Muon
from trainer.learner.optimizers.partition import Partition, partitioned
from trainer.learner.ranks import Group, RankLost, agreement
from trainer.learner.ranks.activity import Activity
from trainer.learner.ranks.agreement import shards_for, what_must_agree
from trainer.learner.ranks.heartbeats import SILENT_SECONDS, Heartbeats
from trainer.learner.ranks.lagging import Lagging
from trainer.learner.ranks.pace import DATA, RECENT_STEPS, STEP, Pace
from trainer.learner.ranks.start import abandon, from_launcher
from trainer.learner.ranks.tree import SMALL_BYTES
from trainer.rundir import PhaseEvent, WarningEvent


class Thread(Group):
    """A rank whose messages go through queues."""

    def __init__(self, rank: int, size: int, queues: dict[tuple[int, int, int], queue.Queue[Any]]) -> None:
        super().__init__()
        self.rank, self.size, self._queues = rank, size, queues

    def exchange(self, partner: int, given: np.ndarray, taken: np.ndarray, tag: int) -> Callable[[], bool]:
        self._queues[self.rank, partner, 0].put(given.copy())

        def is_done() -> bool:
            taken[:] = self._queues[partner, self.rank, 0].get(timeout=10)
            return True

        return is_done

    def _send(self, value: Any, ranks: Any, tag: int = 1) -> None:
        for rank in ranks:
            self._queues[self.rank, rank, tag].put(value)

    def _receive(self, rank: int, tag: int = 1) -> Any:
        return self._queues[rank, self.rank, tag].get(timeout=10)


def in_ranks(size: int, work: Callable[[Thread], Any]) -> list[Any]:
    """What `work` returns in each of `size` ranks, or the error that it raises."""
    queues = {(a, b, tag): queue.Queue[Any]() for a in range(size) for b in range(size) for tag in range(4)}
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


@pytest.mark.parametrize("size", [2, 8])
def test_arrays_of_their_owners_reach_all_ranks(size: int) -> None:
    owners = [0, size - 1, 1, 0, size // 2]

    def work(rank: Thread) -> list[np.ndarray]:
        arrays = [np.full(1 + place, rank.rank * 100 + place) for place in range(len(owners))]
        rank.gather(arrays, owners)
        return arrays

    for arrays in in_ranks(size, work):
        for place, (array, owner) in enumerate(zip(arrays, owners, strict=True)):
            assert array.tolist() == [owner * 100 + place] * (1 + place)


def test_the_first_rank_asks_others_that_wait_for_it() -> None:
    def work(rank: Thread) -> Any:
        rank.answer = lambda: [f"{rank.rank}a", f"{rank.rank}b"][: rank.rank]
        found = [*rank.ask(), *rank.ask()] if rank.is_first else None
        return found, rank.from_first("next")

    found = in_ranks(3, work)
    assert found == [(["1a", "2a", "2b"] * 2, "next"), (None, "next"), (None, "next")]


def test_the_largest_parameters_go_to_the_least_loaded_process() -> None:
    sizes = {"a": 10, "b": 100, "c": 60, "d": 45}
    assert Partition(0, 2).owners(sizes) == {"b": 0, "c": 1, "d": 1, "a": 0}
    assert set(Partition().owners(sizes).values()) == {0}


@pytest.mark.parametrize("make", [Adam, Muon])
def test_each_process_keeps_the_moments_of_its_parameters(make: Any) -> None:
    def made(partition: Partition) -> Any:
        with partitioned(partition):
            return make(nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 4)), 0.1)

    whole = set(made(Partition()).named_states())
    first, second = (made(Partition(process, 2)) for process in range(2))
    shared = {"step_count", "skipped_steps", *first.learning_rate.named_states()}
    assert first.named_states().keys() & second.named_states().keys() == shared
    for optimizer in (first, second):
        assert optimizer.states_elsewhere() and len(optimizer.named_states()) > len(shared)
        assert {*optimizer.named_states(), *optimizer.states_elsewhere()} == whole


def test_values_of_ranks_reach_the_first_and_all() -> None:
    def work(rank: Thread) -> tuple[Any, ...]:
        return rank.from_first(10 * rank.rank), rank.to_all(rank.rank), rank.joined([rank.rank])

    found = in_ranks(4, work)
    assert found == [(0, [0, 1, 2, 3], [0, 1, 2, 3]), *[(0, [0, 1, 2, 3], [])] * 3]


def test_ranks_that_disagree_are_refused_with_the_fact_and_the_rank() -> None:
    for error in in_ranks(2, lambda rank: rank.require_same({"the data": 5, "the config": f"hash {rank.rank}"})):
        assert "disagree about the config" in str(error) and "hash 1 in rank 1" in str(error)


def test_processes_agree_on_code_config_data_numerics_and_versions(
    blobs: Any, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(blobs):
        pass

    def facts(of: Any = blobs, **sections: Any) -> dict[str, Any]:
        resolved = config(**sections)
        task = of(resolved)
        return what_must_agree(task, resolved, task.data())

    def differing(**given: Any) -> set[str]:
        return {name for name, fact in facts(**given).items() if fact != before[name]}

    before = facts()
    assert differing() == set()
    assert differing(of=Other) == {"the task's code"}
    assert differing(seed=7) == {"the config"}
    assert "the numerics class" in differing(train={"epochs": 4, "shards": 2})
    assert "the data" in differing(data={"batch_size": 8})
    monkeypatch.setattr(agreement, "versions", lambda: {"numpy": "0"})
    assert differing() == {"the installed versions"}


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


@pytest.mark.parametrize(("name", "found"), [("mpi4py", "no such package"), ("mpi4py.MPI", "no MPI library")])
def test_a_missing_extra_is_one_sentence(name: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name != "mpi4py":
        pytest.importorskip("mpi4py")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TrainerError, match=rf"{found}[\s\S]*pip install 'lucid-trainer\[distributed\]'"):
        from_launcher(2, "mpiexec")


def test_launchers_are_recognized_by_their_variables() -> None:
    assert launched({"PMI_SIZE": "4", "PMI_RANK": "1"}) == (4, "mpiexec")
    assert launched({"SLURM_STEP_NUM_TASKS": "2"}) == (2, "srun")
    assert launched({"WORLD_SIZE": "8", "RANK": "0", "SLURM_STEP_NUM_TASKS": "2"}) == (8, "torchrun")
    assert launched({"WORLD_SIZE": "8", "PMI_SIZE": "2"}) == (2, "mpiexec")  # not of this process
    assert launched({"SLURM_STEP_NUM_TASKS": "1"}) == launched({}) == (1, "")


def test_a_rank_that_does_nothing_in_a_step_is_stuck_and_one_that_loads_data_is_not(tmp_path: Path) -> None:
    rank = Heartbeats(tmp_path, 0, 2)
    name = f"rank 1 (pid {os.getpid()} on elsewhere)"

    def told(**fields: Any) -> str | None:
        known = {"pid": os.getpid(), "started": None, "host": "elsewhere", "waiting": 0.0, **fields}
        (tmp_path / "1.json").write_text(json.dumps(known))
        return lost(rank)

    assert told(activity=STEP, idle=4.9) is None
    assert told(activity=STEP, idle=5.2) == f"{name} is stuck: it has done nothing for 5 s in 'step'"
    assert told(activity=STEP, idle=5.2, waiting=5.2) is None  # it waits for another rank
    assert told(activity=STEP, idle=30.0, is_asynchronous=True) is None  # its GPU computes
    assert told(activity="compile", idle=30.0) is told(activity=DATA, idle=599.0) is None
    assert told(activity=DATA, idle=600.0) == f"{name} is stuck: it has done nothing for 600 s in 'data'"


def test_the_first_rank_reports_all_and_warns_once_of_one_that_is_waited_for(tmp_path: Path) -> None:
    events: list[Any] = []
    now = [0.0]
    rank = Heartbeats(tmp_path, 0, 3, tell=events.append, clock=lambda: now[0])

    def beat(number: int, **fields: Any) -> None:
        known = {"pid": number, "host": "here", "phase": "train", "activity": DATA, "memory": 1 << 20, **fields}
        (tmp_path / f"{number}.json").write_text(json.dumps(known))

    beat(0, step=7, step_ms=10.0, wait=0.5, waiting=6.0)
    beat(1, step=7, step_ms=30.0, wait=0.0, idle=6.0)
    rank.report(rank.look())
    now[0] += 1.0
    rank.report(rank.look())
    reported, warned = events
    assert [(row["rank"], row["state"]) for row in reported.ranks] == [(1, "idle in data"), (0, "waiting")]
    assert reported.ranks[0] == {
        "rank": 1, "host": "here", "pid": 1, "state": "idle in data", "step": 7, "step_ms": 30.0, "wait": 0.0,
        "memory": 1 << 20,
    }  # fmt: skip
    assert warned.message == "rank 1 (pid 1 on here) has done nothing for 6 s in 'data', and others wait for it"
    beat(0, waiting=0.0)
    beat(1, idle=60.0)
    now[0] += 1.0
    rank.report(rank.look())
    assert [type(event).__name__ for event in events[2:]] == ["RanksEvent"]


def test_a_rank_lags_if_its_steps_are_slow_for_long() -> None:
    lagging = Lagging()
    slow, equal = {0: 10.0, 1: 11.0, 2: 16.0, 3: 10.0}, dict.fromkeys(range(4), 10.0)
    found = [
        lagging.found(times, RECENT_STEPS * count)
        for count, times in enumerate([slow, slow, equal, slow, slow, slow, slow], start=1)
    ]
    assert found == [[], [], [], [], [], [(2, 10.0)], []]  # named once
    assert lagging.found(slow, RECENT_STEPS * 7 + 1) == []
    assert [Lagging().found({0: 10.0, 1: 10.0}, RECENT_STEPS)] == [[]]


def test_the_pace_leaves_out_waits() -> None:
    now = [0.0]
    pace = Pace(clock=lambda: now[0])
    assert (pace.activity, pace.phase, pace.step_ms(), pace.wait_share()) == ("start", "start", None, None)
    told: list[Any] = []
    sink = pace.listening(told.append)
    sink(PhaseEvent("train", "started"))
    with pace.during(STEP), pace.wait():
        now[0] += 2.0
        assert (pace.activity, pace.phase, pace.waiting) == (STEP, "train", 2.0)
    for seconds, waited in ((9.0, 0.0), (1.0, 0.25), (1.0, 0.75)):  # the first compiles
        pace.note_step(pace.step + 1, seconds, waited)
    assert (pace.step, pace.waiting, pace.step_ms(), pace.wait_share()) == (3, 0.0, 750.0, 1 / 11)
    sink(PhaseEvent("train", "finished"))
    assert pace.activity == "start" and len(told) == 2


def test_a_thread_that_computes_is_activity_and_one_that_waits_is_not() -> None:
    activity, is_over = Activity(), threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            pass

    thread = threading.Thread(target=compute)
    thread.start()
    assert any(activity.has_any() for _ in range(100))
    is_over.set()
    thread.join()
    may_end = threading.Event()
    waiting = threading.Thread(target=may_end.wait)
    waiting.start()
    assert not all(activity.has_any() for _ in range(100))
    may_end.set()
    waiting.join()


def beats_of(folder: Path, size: int, clock: Callable[[], float]) -> list[Heartbeats]:
    """The heartbeats of ranks that have just started."""
    ranks = [Heartbeats(folder, rank, size, clock=clock) for rank in range(size)]
    for rank in ranks:
        rank.start()
        rank.stop()
        rank._write({})  # as at its start: it neither ended nor failed
    return ranks


def lost(rank: Heartbeats, **options: bool) -> str | None:
    rank.look(**options)
    return rank.lost


def test_a_rank_that_dies_fails_or_falls_silent_is_named(tmp_path: Path) -> None:
    now = [0.0]
    ranks = beats_of(tmp_path, 3, lambda: now[0])
    assert lost(ranks[0]) is None
    for rank in ranks[1:]:
        rank.stop()
    assert lost(ranks[0]) is None  # they are done

    def note(**fields: Any) -> None:
        path = tmp_path / "2.json"
        path.write_text(json.dumps({"pid": os.getpid(), "started": None, "host": "elsewhere", **fields}))

    note()
    for _ in range(round(SILENT_SECONDS)):
        assert lost(ranks[0]) is None
        now[0] += 1.0
    assert lost(ranks[0]) == f"rank 2 (pid {os.getpid()} on elsewhere) has not responded for {SILENT_SECONDS:.0f} s"
    note(failure="no space left on device")
    assert lost(ranks[0]) == f"rank 2 (pid {os.getpid()} on elsewhere) failed: no space left on device"
    note(host=ranks[0]._known["host"], started=-1)  # another process has the pid now
    assert (lost(ranks[0]) or "").endswith("died")


def test_a_rank_that_was_stopped_itself_names_nobody(tmp_path: Path) -> None:
    now = [0.0]
    ranks = beats_of(tmp_path, 2, lambda: now[0])
    assert lost(ranks[0]) is None
    now[0] += 2 * SILENT_SECONDS  # Ctrl-Z, or a suspended job: the others were stopped, too
    assert lost(ranks[0]) is None


def test_other_ranks_watch_the_first_which_fails_with_the_name_of_the_lost_one(tmp_path: Path) -> None:
    ranks = beats_of(tmp_path, 4, lambda: 0.0)
    ranks[2].stop("no memory")
    assert lost(ranks[1]) is None and [beat.rank for beat in ranks[1].look()] == [0]
    named = lost(ranks[0])
    assert named == lost(ranks[1], at_all=True) and (named or "").endswith("failed: no memory")
    ranks[0].stop(named)
    assert str(named) in str(lost(ranks[1]))


def test_a_lost_rank_is_named_in_a_warning_while_the_first_is_busy(tmp_path: Path) -> None:
    events: list[Any] = []
    pace = Pace()
    beats_of(tmp_path, 2, lambda: 0.0)[1].stop("no memory")
    rank = Heartbeats(tmp_path, 0, 2, pace, events.append)

    def warnings() -> list[str]:
        rank.report(rank.look())
        return [event.message for event in events if isinstance(event, WarningEvent)]

    with pace.wait():
        assert warnings() == warnings() == []  # it ends by itself
    with pace.during("hooks"):
        assert warnings() == []
        (named,) = warnings()
        assert "rank 1" in named and "failed: no memory" in named and "'hooks'" in named
        assert warnings() == [named]


def test_a_rank_that_waits_ends_once_another_is_lost(tmp_path: Path) -> None:
    group = Group()
    group.heartbeats = beats_of(tmp_path, 2, lambda: 0.0)[0]
    looks = iter(range(3))

    def is_done() -> bool:
        if next(looks) == 1:
            group.heartbeats.lost = "rank 1 died"  # type: ignore[union-attr]  # as its thread notes it
        return False

    with pytest.raises(RankLost, match="rank 1 died"):
        group.wait(is_done)
