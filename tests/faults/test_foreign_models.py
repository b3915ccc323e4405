"""Exported models that are damaged, hostile or something else: one clear sentence each, and no code is run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "workloads")]

import foreign_models  # noqa: E402
from foreign_models import WAYS, ForeignModels, read_and_predict  # noqa: E402


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ForeignModels:
    return ForeignModels(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.full)])
def test_each_is_read_or_refused_by_name(models: ForeignModels, count: int) -> None:
    assert [problem for problem in (models.once() for _ in range(count)) if problem] == []


def test_code_that_runs_would_be_noticed(models: ForeignModels, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: a reader that evaluates what it reads is caught."""

    def careless(path: Path) -> None:
        exec("1 + 1")
        read_and_predict(path)

    monkeypatch.setattr(foreign_models, "read_and_predict", careless)
    assert "'exec'" in models.once() or "'compile'" in models.once()
    assert len({name for name, _ in WAYS}) == 8
