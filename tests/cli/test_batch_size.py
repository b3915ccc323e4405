"""`data.batch_size: auto`: the search on known memory, and the number in the resolved config."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import trainer
from trainer import TrainerError, configs
from trainer.cli import batch_size, dry_run
from trainer.cli.batch_size import Measured, largest_batch_size, read_measurement, with_batch_size
from trainer.cli.order import Order

ITEMS = 50_000


def searched(budget: float, peak: Any, items: int = ITEMS) -> tuple[int, list[int]]:
    """The result, and the sizes in the order in which they were measured."""
    asked: list[int] = []

    def measure(size: int) -> Measured:
        asked.append(size)
        return Measured(peak(size), items)

    return largest_batch_size(measure, budget), asked


@pytest.mark.parametrize("budget", [210, 300, 1_000, 1_500, 10_000, 90_000])
def test_it_is_the_largest_power_of_two_that_fits(budget: int) -> None:
    found, asked = searched(budget, lambda size: 200 + 3.0 * size)
    assert 200 + 3 * found <= budget < 200 + 3 * 2 * found and found in asked
    assert len(asked) <= 6 and all(200 + 3 * size <= budget for size in asked if size > 16)


def test_memory_that_grows_faster_than_a_line_is_found_by_measuring() -> None:
    found, _ = searched(10_000, lambda size: 200 + 0.01 * size**2)
    assert found == 512  # 1,024 would take 10,686


def test_a_process_that_runs_out_of_memory_is_a_size_that_does_not_fit() -> None:
    found, _ = searched(1_000, lambda size: 100.0 if size <= 64 else math.inf)
    assert found == 64


def test_a_batch_is_no_larger_than_the_data() -> None:
    assert searched(1e9, lambda size: 100.0, items=100)[0] == 64


def test_no_batch_at_all_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"batch_size: auto[\s\S]*no batch fits[\s\S]*60%"):
        searched(1_000, lambda size: 5_000.0)


def test_what_the_measuring_process_says() -> None:
    assert read_measurement(0, b'{"peak": 12, "items": 3}\n') == Measured(12, 3)
    assert read_measurement(0, b'{"peak": null, "items": 0}').peak == read_measurement(-9, b"").peak == math.inf
    with pytest.raises(TrainerError, match="no such folder"):
        read_measurement(0, b'{"error": "no such folder"}')
    with pytest.raises(TrainerError, match="ended with 1"):
        read_measurement(1, b"")


def test_a_killed_data_process_is_too_little_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learner = SimpleNamespace(dry_run=lambda seconds: SimpleNamespace(
        killed_data_processes=1, peak_memory=1, data_processes=2, cache_memory=0, data_memory=1, training_items=9
    ))  # fmt: skip
    monkeypatch.setattr("trainer.cli.rehearsal.learner_for_steps", lambda *_, **__: learner)
    monkeypatch.setattr("trainer.cli.dry_run.OOM_SCORE", Path("/nowhere/oom_score_adj"))
    assert dry_run._print_memory(Order(("digits",), 1)) == 0
    assert read_measurement(0, capsys.readouterr().out.encode()).peak == math.inf


def test_the_number_replaces_auto_in_the_resolved_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_size, "_measured", lambda loaded: Measured(1e18 if size_of(loaded) > 32 else 1.0, ITEMS))
    loaded = with_batch_size(configs.load("digits", ["data.batch_size=auto"]))
    assert size_of(loaded) == 32
    assert "batch_size: 32 " in (text := configs.dump_resolved(loaded)) and "# measured, auto at <cli>" in text
    assert with_batch_size(loaded) is loaded
    assert size_of(with_batch_size(configs.load("digits", ["data.batch_size=auto"]), 128)) == 128


def size_of(loaded: configs.Loaded) -> int:
    return loaded.config.data.items_per_batch


@pytest.mark.parametrize("value", ["0", "large", "1.5"])
def test_other_words_and_sizes_are_refused(value: str) -> None:
    with pytest.raises(TrainerError, match=r"data\.batch_size"):
        configs.load("digits", [f"data.batch_size={value}"])


def test_a_learner_without_a_measurement_says_so() -> None:
    config = configs.load("digits", ["data.batch_size=auto"]).config
    with pytest.raises(TrainerError, match="has not been measured"):
        assert config.data.items_per_batch


@pytest.mark.full
def test_a_run_measures_once_and_keeps_its_batch_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trainer.datasets.workers.memory.whole_memory", lambda: 600_000_000)
    settings: dict[str, Any] = {"data.batch_size": "auto", "train.epochs": 1, "name": "auto"}
    first = trainer.run("digits", resume="auto", show=False, **settings)
    assert first.run is not None
    size = size_of(configs.load_resolved(first.run.paths.config(1)))
    assert size >= 8 and size & (size - 1) == 0
    monkeypatch.setattr(batch_size, "_measured", None)
    again = trainer.run("digits", resume="auto", show=False, **{**settings, "train.epochs": 2})
    assert again.run is not None and size_of(configs.load_resolved(again.run.paths.config(2))) == size


def test_a_dry_run_measures_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_size, "_measured", lambda loaded: Measured(1e18 if size_of(loaded) > 16 else 1.0, ITEMS))
    order = dry_run._with_batch_size(Order(("digits", "data.batch_size=auto"), 1), file := tmp_path / "config.yaml")
    assert order.words == (str(file),) and size_of(configs.load(str(file))) == 16
    fixed = Order(("digits", "data.batch_size=8"), 1)
    assert dry_run._with_batch_size(fixed, file) is fixed
