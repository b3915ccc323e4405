"""The benchmark of operations without a trace: its bars, its cases, and what it says where a peer is missing."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "workloads"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import eager
from against import Checkout
from few_numbers import cases
from harness import NO_PEER, Family, Figure, run_figures

from trainer import engine

ROOT = Path(__file__).parents[2]


def figures(old: bool, tmp_path: Path) -> dict[str, Figure | Family]:
    checkout = Checkout(ROOT, tmp_path)
    return {figure.name: figure for figure in eager.figures(checkout, checkout if old else None)}


def test_bars_are_those_of_the_older_time_and_of_what_is_used_again(tmp_path: Path) -> None:
    found = figures(True, tmp_path)
    assert {name: figure.bar for name, figure in found.items()} == {
        "operation": 2.0, "chain": 1 / 0.75, "unread": 0.9, "new": 1 / 1.2, "beside_numpy": 0.0, "beside_torch": 0.0,
    }  # fmt: skip


def test_without_peers_figures_say_what_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.MINIMUM_ROUND_SECONDS", 0.0)
    asked = ["operation/add", "unread", "beside_torch/add"]
    assert run_figures(list(figures(False, tmp_path).values()), [*asked, "--json", "--rounds", "1"]) == NO_PEER
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(result["name"], result["ok"], result["ratio"]) for result in results] == [
        (name, None, None) for name in asked
    ]
    assert ["--checkout" in results[0]["note"], "--peer-python" in results[2]["note"]] == [True, True]


def test_every_case_is_asked_for_and_new_ones_are_new() -> None:
    with engine.device("reference"):
        known = cases(engine)
        asked = {*eager.OPERATIONS, *eager.CHAINS, *eager.NEW, *eager.NEW.values(), "unread"}
        assert asked == set(known)
        for name in ("new_number", "new_index", "new_slice"):
            first, second = known[name](), known[name]()
            assert not np.array_equal(first, second)


def test_libraries_compute_the_same() -> None:
    with engine.device("reference"):
        ours, theirs = cases(engine), cases(np)
        for name in ours.keys() - {"unread", "exp"}:
            np.testing.assert_allclose(ours[name](), theirs[name](), rtol=1e-6)
