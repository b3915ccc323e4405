"""Sweeps: the loop with scripted runs in place of training, killed at every line of its journal; and once for real."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna")

from optuna.samplers import RandomSampler, TPESampler

from tests.cli.conftest import Commands, eventually
from trainer import TrainerError, cli, configs
from trainer.cli.batch_size import Measured
from trainer.cli.executors import LocalProcesses
from trainer.cli.find import find_run, find_sweep
from trainer.cli.order import Order
from trainer.cli.report.sweep import parallel_coordinates
from trainer.cli.sweep.running import Sweep, run_sweep, take_up
from trainer.cli.sweep.search import Grid, Search
from trainer.configs import ParameterConfig, SweepConfig
from trainer.rundir import EndEvent, EventWriter, MetricEvent, open_run, take_requests, take_up_run
from trainer.rundir.sweeps import SweepPaths, SweepState, Trial, read_state, write_state

RATE, DEPTH = "optimizer.learning_rate", "data.batch_size"
PARAMETERS = {RATE: {"low": 1e-4, "high": 1e-1, "log": True}, DEPTH: {"values": [16, 32]}}
Metric = Callable[[Mapping[str, Any], int], float]
"""The metric of a validation, from the values of the run and the number of the validation, from 1."""


def surface(values: Mapping[str, Any], validation: int) -> float:
    """Best at a learning rate of 0.01 and a batch size of 32."""
    return abs(math.log10(values[RATE]) + 2) + (values[DEPTH] == 16) + 1 / validation


class Scripted:
    """An executor whose runs write their events one look after the other, without a process."""

    threads = 1

    def __init__(self, metric: Metric = surface, *, validations: int = 3, name: str = "loss") -> None:
        self.metric, self.validations, self.name = metric, validations, name
        self.orders: list[Order] = []
        self.ended = 0

    def start(self, order: Order) -> ScriptedJob:
        self.orders.append(order)
        return ScriptedJob(self, order)


class ScriptedJob:
    mistake = ""

    def __init__(self, executor: Scripted, order: Order) -> None:
        self._executor = executor
        self.values = {name: json.loads(value) for name, _, value in (word.partition("=") for word in order.words[1:])}
        assert order.run_dir is not None and order.resume == "auto"
        paths = take_up_run(order.run_dir)
        attempt = paths.last_attempt + 1
        paths.config(attempt).touch()
        self._paths = paths
        self._write = EventWriter(paths.events, attempt=attempt, process_start=0.0)
        self._done = 0

    def is_over(self) -> bool:
        if take_requests(self._paths):
            return self._ended_as("pruned", 0)
        if self._done == self._executor.validations:
            return self._ended_as("done", 0)
        self._done += 1
        try:
            value = self._executor.metric(self.values, self._done)
        except ZeroDivisionError as error:
            self._write(EndEvent("failed", 1, reason=str(error)))
            self._write.close()
            return True
        self._write(MetricEvent(self._done, self._done, "valid", {self._executor.name: value}))
        return False

    def end(self) -> None:
        self._executor.ended += 1
        self._ended_as("interrupted", 130)

    def _ended_as(self, status: str, code: int) -> bool:
        self._write(EndEvent(status, code, self._done))
        self._write.close()
        return True


def sweep_of(root: Path, **section: Any) -> Sweep:
    paths = SweepPaths(root)
    root.mkdir(parents=True, exist_ok=True)
    given = {"parameters": PARAMETERS, "method": "random", "trials": 4, **section}
    return take_up(paths, configs.load("digits", {"sweep": given, "threads": 1}))


def swept(sweep: Sweep, executor: Scripted | None = None) -> SweepState:
    return run_sweep(sweep, executor or Scripted(), tell=lambda trial, is_best: None, wait=lambda seconds: None)


@pytest.mark.parametrize("method", ["random", "tpe", "halving", "hyperband"])
def test_every_method_runs_all_trials_within_their_ranges(tmp_path: Path, method: str) -> None:
    executor = Scripted()
    state = swept(sweep_of(tmp_path, method=method, trials=9, parallel=2), executor)
    assert [trial.number for trial in state.trials] == list(range(9)) and state.count("failed", "running") == 0
    assert all(1e-4 <= trial.parameters[RATE] <= 0.1 and trial.parameters[DEPTH] in (16, 32) for trial in state.trials)
    assert len({trial.parameters[RATE] for trial in state.trials}) == 9
    assert state.best == min(
        (trial for trial in state.trials if trial.state == "complete"), key=lambda one: surface(one.parameters, 3)
    )
    assert read_state(SweepPaths(tmp_path)) == state


def test_a_grid_has_every_combination_once(tmp_path: Path) -> None:
    parameters = {RATE: {"values": [0.1, 0.01]}, "train.epochs": {"low": 1, "high": 5, "step": 2}}
    section = {"parameters": parameters, "method": "grid", "trials": None}
    state = swept(sweep_of(tmp_path, **section), Scripted(lambda values, _: values[RATE]))
    expected = [(rate, epochs) for rate in (0.1, 0.01) for epochs in (1, 3, 5)]
    assert [tuple(trial.parameters.values()) for trial in state.trials] == expected
    assert all(isinstance(trial.parameters["train.epochs"], int) for trial in state.trials)


def test_trials_leave_the_test_split_alone_and_the_best_config_does_not(tmp_path: Path) -> None:
    executor = Scripted()
    state = swept(sweep_of(tmp_path), executor)
    assert all("validate.test=false" in order.words and "sweep=null" in order.words for order in executor.orders)
    best = configs.load(str(SweepPaths(tmp_path).best)).config
    assert best.sweep is None and best.validate.test and state.best is not None and best.optimizer is not None
    assert best.optimizer.learning_rate == state.best.parameters[RATE]
    trial = configs.load(executor.orders[0].words[0], executor.orders[0].words[1:]).config
    assert trial.sweep is None and not trial.validate.test


def test_halving_stops_the_worse_half_early(tmp_path: Path) -> None:
    executor = Scripted(validations=8)
    state = swept(sweep_of(tmp_path, method="halving", trials=12), executor)
    pruned = [trial for trial in state.trials if trial.state == "pruned"]
    assert all(open_run(tmp_path / f"trial-{trial.number}").status == "pruned" for trial in pruned)
    assert len(pruned) > 3 and executor.ended == 0 and state.count("complete") + state.count("pruned") == 12
    worst = max(state.trials, key=lambda one: surface(one.parameters, 3))
    assert worst.state == "pruned" or worst.number == 0


def test_the_mean_over_seeds_counts(tmp_path: Path) -> None:
    executor = Scripted(lambda values, validation: values["seed"] + validation)
    state = swept(sweep_of(tmp_path, trials=2, seeds=3), executor)
    assert [trial.value for trial in state.trials] == [2.0, 2.0]  # the best of seeds 0, 1, 2 are 1, 2, 3
    assert sorted(path.name for path in tmp_path.glob("trial-*"))[:3] == [f"trial-0-seed-{seed}" for seed in range(3)]


def test_a_sweep_killed_at_any_line_of_its_journal_gives_the_same_trials(tmp_path: Path) -> None:
    whole = swept(sweep_of(tmp_path / "whole", method="tpe", trials=3))
    journal = SweepPaths(tmp_path / "whole").journal.read_bytes()
    lines = journal.splitlines(keepends=True)
    for cut in range(1, len(lines)):
        root = tmp_path / f"cut-{cut}"
        shutil.copytree(tmp_path / "whole", root)
        SweepPaths(root).journal.write_bytes(b"".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2])
        (root / "journal.log.lock").symlink_to("a killed process")
        executor = Scripted(lambda values, _: pytest.fail("a run that had ended was started again"))
        assert swept(Sweep(SweepPaths(root), sweep_of(root, method="tpe", trials=3).loaded), executor) == whole, cut


def test_an_interrupted_sweep_resumes_its_running_trials(tmp_path: Path) -> None:
    sweep, looks = sweep_of(tmp_path, parallel=2), iter(range(100))

    def interrupt(seconds: float) -> None:
        if next(looks) == 2:
            raise KeyboardInterrupt

    executor = Scripted()
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, executor, tell=lambda trial, is_best: None, wait=interrupt)
    assert executor.ended == 2 and read_state(sweep.paths).count("running") == 2
    state = swept(sweep_of(tmp_path, parallel=1), Scripted())
    assert state.count("complete") == 4
    assert state.trials == swept(sweep_of(tmp_path.with_name("whole"))).trials


def test_a_run_whose_worker_was_killed_with_the_sweep_is_resumed(tmp_path: Path) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    sweep = sweep_of(tmp_path / "killed", trials=1)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, Scripted(), tell=lambda trial, is_best: None, wait=interrupt)
    with EventWriter(sweep.paths.run(0, 0, 1).events, attempt=1, process_start=0.0) as write:
        write(EndEvent("failed", 1, reason="the worker was killed by SIGKILL"))
    assert swept(sweep_of(tmp_path / "killed", trials=1)) == swept(sweep_of(tmp_path / "whole", trials=1))


def test_more_trials_can_follow(tmp_path: Path) -> None:
    few = swept(sweep_of(tmp_path, trials=2))
    executor = Scripted()
    more = swept(sweep_of(tmp_path, trials=4), executor)
    assert more.trials[:2] == few.trials and len(executor.orders) == 2


def test_another_sweep_is_refused(tmp_path: Path) -> None:
    swept(sweep_of(tmp_path, trials=1))
    with pytest.raises(TrainerError, match=r"another sweep[\s\S]*sweep\.method: random there, tpe here[\s\S]*--name"):
        sweep_of(tmp_path, method="tpe")


def test_the_journal_of_another_sweep_is_refused(tmp_path: Path) -> None:
    swept(sweep_of(tmp_path / "one", trials=1))
    other = sweep_of(tmp_path / "other", parameters={RATE: {"values": [0.1]}})
    shutil.copy(tmp_path / "one" / "journal.log", tmp_path / "other")
    with pytest.raises(TrainerError, match=r"journal\.log: the journal belongs to another sweep"):
        swept(other)


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(TrainerError, match=r"holds no sweep[\s\S]*thesis\.tex"):
        sweep_of(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="no flock")
def test_two_processes_do_not_run_one_sweep(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path)
    with paths.locked(), pytest.raises(TrainerError, match="another process runs this sweep"), paths.locked():
        pass


def test_a_metric_that_no_trial_reports_ends_the_sweep_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"no trial reports the metric valid/loss[\s\S]*valid/accuracy"):
        swept(sweep_of(tmp_path), Scripted(name="accuracy"))


def test_a_trial_may_fail_but_not_all_of_the_first(tmp_path: Path) -> None:
    state = swept(sweep_of(tmp_path / "one"), Scripted(lambda values, _: 1 / (values[RATE] < 0.01)))
    failed = [trial for trial in state.trials if trial.state == "failed"]
    assert failed and failed[0].reason == "division by zero" and state.best is not None
    with pytest.raises(TrainerError, match=r"first 3 trials failed[\s\S]*division by zero"):
        swept(sweep_of(tmp_path / "all", trials=9), Scripted(lambda values, _: 1 / 0))


@pytest.mark.parametrize(
    ("method", "sampler"),
    [
        ("grid", Grid),
        ("random", RandomSampler),
        ("tpe", TPESampler),
        ("halving", TPESampler),
        ("hyperband", TPESampler),
    ],
)
def test_each_method_draws_as_its_name_says(tmp_path: Path, method: Any, sampler: type) -> None:
    """What TPE finds, compared with random draws, is measured: `benchmarks/sweeps.py tpe`."""
    section = SweepConfig(parameters={"a": ParameterConfig(values=(1, 2))}, method=method, trials=2)
    search = Search(SweepPaths(tmp_path), section, mode="min", seed=0)
    search.ask()
    assert isinstance(search._study.sampler, sampler)


def test_the_importance_finds_the_parameter_that_matters(tmp_path: Path) -> None:
    state = swept(sweep_of(tmp_path, trials=16), Scripted(lambda values, _: abs(math.log10(values[RATE]) + 2)))
    assert state.importance[RATE] > 0.8 > 0.2 > state.importance[DEPTH]


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepPaths:
    """A sweep in sweeps/night of the working directory, whose best trial is number 2."""
    monkeypatch.chdir(tmp_path)
    paths = SweepPaths(Path("sweeps/night"))
    paths.root.mkdir(parents=True)
    paths.config.touch()
    trials = [
        Trial(0, "complete", {RATE: 0.1, "options.kind": "<b>"}, 0.5),
        Trial(1, "pruned", {RATE: 0.2, "options.kind": "x"}, 0.9),
        Trial(2, "complete", {RATE: 0.001, "options.kind": "x"}, 0.75),
        Trial(3, "failed", {RATE: 0.001, "options.kind": "x"}, None, "no memory\nmore"),
        Trial(4, "complete", {RATE: 0.01, "options.kind": "<b>"}, 0.625),
    ]
    importance = {RATE: 0.75, "options.kind": 0.25}
    write_state(paths, SweepState("valid/accuracy", "max", "halving", 8, 1, [RATE], trials, importance))
    for number in range(5):
        run = take_up_run(paths.run(number, 0, 1).root)
        with EventWriter(run.events, attempt=1, process_start=0.0) as write:
            write(EndEvent("done", 0, 1))
    return paths


def test_the_report_of_a_sweep_is_one_page(finished: SweepPaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "sweeps/night"]) == 0
    page = Path("night.html").read_text()
    assert page.count("<polyline") == 3 and page.count("<tr>") >= 6 + 2 and "<script" not in page
    assert "&lt;b&gt;" in page and "<b>:" not in page and "no memory" in page
    assert "halving, 5 of 8 trials: 3 complete, 1 pruned, 1 failed" in page
    assert page.index("trial 2\n") > page.index("trial 4\n") > page.index("trial 0\n")  # the best one on top
    assert cli.main(["report", "night", "-o", "night.md"]) == 0
    lines = Path("night.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("| 2 |")] == ["| 2 | complete | 0.75 | 0.001 | x | - |"]


def test_a_sweep_is_named_like_its_best_run(finished: SweepPaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_run("night").name == find_run("sweeps/night").name == "trial-2"
    assert cli.main(["watch", "night"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "3 complete, 1 pruned, 1 failed"
    assert [line.split()[:2] for line in told[2:]] == [["2", "0.75"], ["4", "0.625"], ["0", "0.5"]]
    assert cli.main(["runs", "list", "sweeps/night"]) == 0
    assert "trial-4" in capsys.readouterr().out


def test_a_run_comes_before_a_sweep_of_the_same_name(finished: SweepPaths) -> None:
    take_up_run("runs/night").config(1).touch()
    assert find_run("night").root == Path("runs/night") and find_sweep("night") is None
    assert find_sweep("sweeps/night") == SweepPaths(Path("sweeps/night"))


def test_parallel_coordinates_scale_by_what_a_parameter_is() -> None:
    """Heights by hand: 0.001 is two decades below 0.1 of three; the kinds in order of appearance; equal values."""
    parameters = [{RATE: 0.1, "k": "a", "n": 3}, {RATE: 0.001, "k": "b", "n": 3}, {RATE: 0.01, "k": "a", "n": 3}]
    trials = [Trial(number, "complete", values, float(number)) for number, values in enumerate(parameters)]
    drawn = parallel_coordinates(SweepState("valid/loss", "min", "tpe", 3, 1, [RATE], trials))
    points = {found[2]: found[1] for found in re.finditer(r'points="([^"]*)".*?trial (\d)', drawn)}
    assert points["0"].split() == ["70.0,40.0", "343.3,320.0", "616.7,180.0", "890.0,320.0"]
    assert points["1"].split() == ["70.0,320.0", "343.3,40.0", "616.7,180.0", "890.0,180.0"]
    assert points["2"].split()[0] == "70.0,180.0"


def test_the_best_is_the_earliest_of_equals() -> None:
    trials = [Trial(0, "running", {}, 9.0), Trial(1, "complete", {}, 2.0), Trial(2, "complete", {}, 2.0)]
    assert SweepState("valid/accuracy", "max", "tpe", 3, trials=trials).best == trials[1]


def test_a_damaged_file_of_trials_is_refused(tmp_path: Path) -> None:
    state = SweepState("valid/loss", "min", "tpe", 3, 1, [], [Trial(0, "complete", {RATE: 0.1}, 1.0)])
    paths = SweepPaths(tmp_path)
    with pytest.raises(TrainerError, match="no trials yet"):
        read_state(paths)
    write_state(paths, state)
    assert read_state(paths) == state
    paths.state.write_text(paths.state.read_text().replace("metric", "metrics"))
    with pytest.raises(TrainerError, match=r"trials\.json: the file of trials is damaged"):
        read_state(paths)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("search", "running"):
        monkeypatch.delitem(sys.modules, f"trainer.cli.sweep.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.main(["sweep", "digits", "sweep={parameters: {train.epochs: {values: [1, 2]}}, method: grid}"]) == 2
    assert "sweeps need Optuna" in (told := capsys.readouterr().err) and "lucid-trainer[sweep]" in told


def test_an_interrupted_command_says_how_to_continue_and_keeps_its_batch_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    measured: list[int] = []

    def measure(loaded: configs.Loaded) -> Measured:
        measured.append(loaded.config.data.items_per_batch)
        return Measured(1.0 if measured[-1] <= 16 else math.inf, 1000)

    def interrupt(sweep: Sweep, *_: object, **__: object) -> SweepState:
        assert sweep.loaded.config.data.items_per_batch == 16
        raise KeyboardInterrupt

    monkeypatch.setattr("trainer.cli.batch_size._measured", measure)
    monkeypatch.setattr("trainer.cli.sweep.running.run_sweep", interrupt)
    words = ["sweep", "digits", "sweep={parameters: {seed: {values: [1]}}, method: grid}", "data.batch_size=auto"]
    assert cli.main(words) == cli.main(words) == 130
    assert measured == [8, 16, 128, 64, 32]  # once
    assert "`trainer sweep sweeps/digits` resumes" in capsys.readouterr().err


def test_a_config_without_the_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", "digits"]) == 2
    assert "no section `sweep:`" in capsys.readouterr().err


def test_a_run_that_can_not_start_says_why(tmp_path: Path) -> None:
    order = Order(("digits", "train.epochs=0"), os.getpid(), run_dir=str(tmp_path / "run"), resume="auto")
    job = LocalProcesses().start(order)
    eventually(job.is_over)
    assert "train.epochs: expected a number above 0, found 0" in job.mistake and not (tmp_path / "run").exists()


def test_the_time_of_a_trial_begins_with_its_run(tmp_path: Path) -> None:
    executor = Scripted()
    before = time.time()
    swept(sweep_of(tmp_path, trials=1), executor)
    assert executor.orders[0].started is not None and before <= executor.orders[0].started <= time.time()
    again = Order.from_json(executor.orders[0].to_json())
    assert again == executor.orders[0]


@pytest.mark.full
def test_a_killed_sweep_trains_every_trial_once(commands: Commands) -> None:
    (commands.folder / "sweep.yaml").write_text(
        "extends: digits\ntrain: {epochs: 1}\ndata: {batch_size: 500}\n"
        "sweep: {parameters: {optimizer.learning_rate: {values: [0.01, 0.001, 0.1]}}, method: grid, parallel: 2}\n"
    )
    first = commands.start("sweep", "sweep.yaml", "--name", "killed")
    commands.event("metric", "sweeps/killed/trial-1")
    first.send_signal(signal.SIGKILL)
    done = commands.finish("sweep", "sweeps/killed", "--json")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(trial["number"] for trial in told if trial["state"] == "complete") == [0, 1, 2]
    state = read_state(SweepPaths(commands.folder / "sweeps" / "killed"))
    assert [trial.parameters for trial in state.trials] == [{RATE: rate} for rate in (0.01, 0.001, 0.1)]
    splits = {event["split"] for event in commands.events("sweeps/killed/trial-0") if event["kind"] == "metric"}
    assert splits == {"train", "valid"}
