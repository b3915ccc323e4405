"""Executors: pilots that take orders from a folder, as threads of this process; and once as tasks of Ray and as jobs
of Slurm.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import eventually
from tests.cli.slurm_cluster import SlurmCluster, missing_commands
from trainer import TrainerError, cli
from trainer.cli.executors import executor_named, orders
from trainer.cli.executors.orders import Orders
from trainer.cli.executors.pilot import serve
from trainer.cli.executors.pilots import Pilots
from trainer.cli.executors.slurm import SlurmArray
from trainer.cli.order import Order


def order(name: str) -> Order:
    return Order((name,), os.getpid())


class Runs:
    """The executor of a pilot: its runs last until they are allowed to end."""

    threads = 1

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self.may_end = threading.Event()

    def start(self, order: Order) -> _Run:
        self.started.append(order.words[0])
        return _Run(self, order.words[0])


class _Run:
    def __init__(self, runs: Runs, name: str) -> None:
        self._runs, self._name = runs, name
        self.mistake = "no such config" if name == "wrong" else ""

    def is_over(self) -> bool:
        return self._runs.may_end.is_set() or self._name in self._runs.ended or bool(self.mistake)

    def end(self) -> None:
        self._runs.ended.append(self._name)


class Threads:
    """A launcher whose pilots are threads; `dead` ones take no orders."""

    threads = 3

    def __init__(self, dead: Sequence[int] = ()) -> None:
        self.runs, self.dead, self.launched, self.pilots = Runs(), set(dead), 0, dict[int, threading.Thread]()

    def launch(self, command: Sequence[str], count: int) -> None:
        self.launched += 1
        folder = Path(command[4])
        for number in set(range(count)) - self.dead:
            thread = threading.Thread(target=serve, args=(Orders(folder), number, self.runs))
            thread.start()
            self.pilots[number] = thread

    def living(self) -> set[int]:
        return {number for number, thread in self.pilots.items() if thread.is_alive()}

    def end(self) -> None:
        for thread in self.pilots.values():
            thread.join()

    def last_words(self) -> str:
        return "No module named trainer"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Looks follow each other without a pause."""
    monkeypatch.setattr("trainer.cli.executors.pilots.SECONDS_BETWEEN_CHECKS", 0.0)
    for place in ("orders", "pilot", "pilots"):
        monkeypatch.setattr(f"trainer.cli.executors.{place}.SECONDS_BETWEEN_LOOKS", 0.001)
    yield


def test_pilots_carry_out_orders_and_report_mistakes(tmp_path: Path, quick: None) -> None:
    launcher = Threads()
    with Pilots(tmp_path / "orders", launcher, 2) as pilots:
        jobs = [pilots.start(order(name)) for name in ("a", "wrong", "b")]
        eventually(lambda: len(launcher.runs.started) == 3 and jobs[1].is_over())
        assert jobs[1].mistake == "no such config" and not jobs[0].is_over() and not jobs[2].is_over()
        launcher.runs.may_end.set()
        eventually(lambda: all(job.is_over() for job in jobs))
    assert jobs[0].mistake == "" and pilots.threads == 3 and launcher.launched == 1
    assert not (tmp_path / "orders").exists() and not launcher.living()


def test_an_order_that_no_pilot_has_is_withdrawn_and_a_run_is_ended(tmp_path: Path, quick: None) -> None:
    launcher = Threads()
    with Pilots(tmp_path / "orders", launcher, 1) as pilots:
        first = pilots.start(order("first"))
        eventually(lambda: launcher.runs.started == ["first"])
        second = pilots.start(order("second"))
        second.end()
        first.end()
        assert launcher.runs.ended == ["first"] == launcher.runs.started
        assert first.is_over() and second.is_over()


def test_the_order_of_a_dead_pilot_goes_to_another(tmp_path: Path, quick: None) -> None:
    launcher = Threads(dead=[1])
    with Pilots(tmp_path / "orders", launcher, 2) as pilots:
        pilots.orders.put(7, order("left"))
        assert Orders(pilots.orders.root).take(1) is not None
        pilots._open.add(7)
        job = pilots.start(order("new"))
        eventually(lambda: not job.is_over() and "new" in launcher.runs.started)
        launcher.runs.may_end.set()
        eventually(lambda: job.is_over() and pilots.result(7) == "")
        assert launcher.runs.started == ["new", "left"]


def test_a_pilot_that_is_started_again_continues_its_order(tmp_path: Path) -> None:
    folder = Orders(tmp_path / "orders")
    folder.create()
    folder.put(0, order("a"))
    folder.put(1, order("b"))
    assert folder.take(0) == folder.take(0) == (0, order("a"))
    assert folder.take(1) == (1, order("b")) and folder.take(2) is None
    folder.finish(0, "")
    assert folder.take(0) is None


def test_pilots_that_end_at_once_are_not_started_for_ever(tmp_path: Path, quick: None) -> None:
    launcher = Threads(dead=[0])
    with Pilots(tmp_path / "orders", launcher, 1) as pilots:
        job = pilots.start(order("a"))
        with pytest.raises(TrainerError, match=r"ended without a run[\s\S]*No module named trainer[\s\S]*same Python"):
            job.is_over()


def test_a_pilot_ends_without_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Orders(tmp_path / "orders")
    folder.create()
    assert not folder.is_abandoned()
    monkeypatch.setattr(orders, "SECONDS_WITHOUT_OWNER", -1.0)
    assert folder.is_abandoned()
    monkeypatch.undo()
    folder.delete()
    assert folder.is_abandoned()
    folder.finish(0, "")  # nobody waits for it
    assert not folder.root.exists()


@pytest.mark.parametrize("place", ["ray", "slurm:", "kubernetes:x"])
def test_an_unknown_place_is_refused(place: str, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=rf"no such place[\s\S]*{place}[\s\S]*ray:ADDRESS or slurm:PARTITION"):
        executor_named(place, tmp_path, runs=1, threads=None)


def test_missing_commands_of_slurm_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pilots = Pilots(tmp_path / "orders", SlurmArray("batch", "night", None), 1)
    with pytest.raises(TrainerError, match=r"slurm:batch: Slurm's commands are not installed[\s\S]*no sbatch"), pilots:
        pilots.start(order("a"))


@pytest.mark.skipif(sys.platform == "win32", reason="the command is a shell script")
@pytest.mark.parametrize(
    ("answer", "living"),
    [
        ("echo 1", {1}),
        ("echo Invalid job id specified >&2; exit 1", set()),
        ("echo Unable to contact >&2; exit 1", {0, 1}),
    ],
)
def test_pilots_count_as_ended_only_if_slurm_says_so(
    answer: str, living: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("sbatch", "echo 7"), ("squeue", answer)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    array = SlurmArray("batch", "night", None)
    array.launch(["python", "-P", "-m", "x", str(tmp_path)], 2)
    assert array.living() == living


def test_a_missing_ray_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trainer.cli.executors.ray_tasks", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TrainerError, match=r"Ray, which is not installed[\s\S]*lucid-trainer\[ray\]"):
        executor_named("ray:auto", tmp_path, runs=1, threads=None)


SWEEP = (
    "extends: digits\ntrain: {steps: 6, epochs: null}\ndata: {batch_size: 100}\nvalidate: {every_steps: 3}\n"
    "sweep: {parameters: {optimizer.learning_rate: {values: [0.01, 0.001, 0.1]}}, method: grid, parallel: 2}\n"
)


def sweep_on(place: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs three trials there."""
    from trainer.rundir.sweeps import SweepPaths, read_state

    monkeypatch.chdir(folder)
    (folder / "sweep.yaml").write_text(SWEEP)
    assert cli.main(["sweep", "sweep.yaml", "--name", "far", "--on", place]) == 0
    state = read_state(SweepPaths(folder / "sweeps" / "far"))
    assert [trial.state for trial in state.trials] == ["complete"] * 3
    assert not (folder / "sweeps" / "far" / ".orders").exists()


@pytest.mark.full
def test_a_sweep_trains_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        sweep_on("ray:auto", tmp_path, monkeypatch)
    finally:
        ray.shutdown()


@pytest.mark.full
@pytest.mark.skipif(bool(missing_commands()), reason=f"Slurm is not installed: no {', '.join(missing_commands())}")
def test_a_sweep_trains_on_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SlurmCluster(tmp_path / "slurm") as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.config))
        sweep_on("slurm:batch", tmp_path, monkeypatch)
        with pytest.raises(TrainerError, match=r"Slurm refuses the jobs[\s\S]*invalid partition"):
            SlurmArray("nowhere", "x", None).launch(["python", "-P", "-m", "x", str(tmp_path)], 1)
    shutil.rmtree(tmp_path / "slurm")
