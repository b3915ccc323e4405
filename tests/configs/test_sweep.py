"""The section `sweep:`: its values, and what `check` says about its parameters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from trainer import configs
from trainer.configs import ConfigError, ParameterConfig, SweepConfig

RATE = {"optimizer.learning_rate": {"low": 1e-4, "high": 0.1, "log": True}}


def load(**section: Any) -> SweepConfig:
    sweep = configs.load("digits", {"sweep": {"parameters": RATE, "trials": 3, **section}}).config.sweep
    assert sweep is not None
    return sweep


@pytest.mark.parametrize(
    ("parameter", "points"),
    [
        ({"values": [1, "a", None, [2]]}, [1, "a", None, [2]]),
        ({"low": 1, "high": 4}, [1, 2, 3, 4]),
        ({"low": 2, "high": 9, "step": 3}, [2, 5, 8]),
        ({"low": 0.0, "high": 0.3, "step": 0.1}, pytest.approx([0.0, 0.1, 0.2, 0.3])),
        ({"low": 0.0, "high": 1}, None),
    ],
)
def test_the_points_of_a_parameter(parameter: dict[str, Any], points: Any) -> None:
    parsed = ParameterConfig.model_validate(parameter, strict=False)
    assert parsed.points() == points
    if points is not None and parsed.values is None and isinstance(parameter["high"], int):
        assert all(isinstance(point, int) for point in parsed.points() or [])


def test_a_grid_is_every_combination_or_the_first_trials() -> None:
    parameters = {"train.epochs": {"values": [1, 2, 3]}, "seed": {"low": 0, "high": 1}}
    assert load(parameters=parameters, method="grid", trials=None).total() == 6
    assert load(parameters=parameters, method="grid", trials=4).total() == 4
    first = list(load(parameters=parameters, method="grid").grid())[:3]
    assert first == [{"train.epochs": 1, "seed": 0}, {"train.epochs": 1, "seed": 1}, {"train.epochs": 2, "seed": 0}]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"trials": None}, "sweep.trials: 'trials' is required with method tpe"),
        ({"metric": "valid/accuracy"}, "'metric' and 'mode' are set together or not at all"),
        ({"metric": "test/accuracy", "mode": "max"}, "sweep.metric: expected another form (Validation metric"),
        ({"metric": "valid/no", "mode": "max"}, "sweep.metric: sweep monitors a metric that is never computed"),
        ({"parameters": {"seed": {"values": [1]}}, "seeds": 2}, "the parameter 'seed' leaves no other seeds"),
        ({"method": "grid"}, "a grid needs 'values' or a 'step' of the range"),
        ({"method": "bayes"}, "sweep.method: expected 'grid', 'random', 'tpe', 'halving' or 'hyperband'"),
        ({"parameters": {}}, "sweep.parameters: expected at least 1 items"),
        ({"parameters": {"seed": {}}}, "one of 'values' and 'low' is required"),
        ({"parameters": {"seed": {"values": [1], "high": 2}}}, "a list of values has no 'high', 'step' or 'log'"),
        ({"parameters": {"seed": {"low": 1}}}, "'high' is required with 'low'"),
        ({"parameters": {"seed": {"low": 3, "high": 1}}}, "expected a number of at least low: 3, found 1"),
        ({"parameters": {"seed": {"low": 0, "high": 1, "log": True}}}, "above 0 with log: true, found 0"),
        ({"parameters": {"seed": {"low": 1, "high": 4, "log": True, "step": 1}}}, "logarithmic range has no step"),
        ({"parameters": {"optimizer.learning_rat": {"values": [1]}}}, "did you mean 'learning_rate'?"),
        ({"parameters": {"train.epochs": {"low": 0, "high": 4}}}, "train.epochs: expected a number above 0, found 0"),
        ({"parameters": {"options.dropout": {"values": [0.1, 7]}}}, "found 7"),
        ({"parameters": {"sweep.trials": {"values": [1]}}}, "not a config key that can be swept"),
        ({"parameters": {"validate.test": {"values": [True]}}}, "not a config key that can be swept"),
        ({"parameters": {"a b": {"values": [1]}}}, "not a config key that can be swept"),
    ],
)
def test_what_is_refused(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        load(**section)
    assert len(refused.value.problems) == 1


def test_a_parameter_is_blamed_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "extends: digits\nsweep:\n  parameters:\n    data.batch_siz: {values: [8]}\n  trials: 3\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=r"sweep\.yaml:4:21 sweep\.parameters\.data\.batch_siz: unknown key"):
        configs.load(str(file))


def test_a_sweep_needs_a_metric() -> None:
    with pytest.raises(ConfigError, match=r"no metric compares the trials[\s\S]*sweep\.metric=valid/loss"):
        configs.load("digits", {"sweep": {"parameters": RATE, "trials": 3}, "checkpoint.best": None})


def test_a_resolved_sweep_is_read_again(tmp_path: Path) -> None:
    loaded = configs.load("digits", {"sweep": {"parameters": RATE, "method": "hyperband", "trials": 3}})
    file = tmp_path / "resolved.yaml"
    file.write_text(configs.dump_resolved(loaded), encoding="utf-8")
    again = configs.load_resolved(file).config
    assert configs.changes(again, loaded.config) == [] and again.sweep == loaded.config.sweep
