"""Every metric of the table: its section and its class agree, and mistakes are reported at their place."""

from __future__ import annotations

import inspect

import pytest

from trainer.configs import ConfigError, config_from
from trainer.configs.metrics import METRICS, MetricConfig, metric_config
from trainer.metrics import Metric, metric_from


def section(name: str, **options: object) -> MetricConfig:
    (found,) = config_from(
        {"optimizer": {"name": "sgd"}, "train": {"steps": 1}, "metrics": {"valid": [{"name": name, **options}]}}
    ).metrics.valid
    return found


REQUIRED = {"panoptic_quality": {"classes": 3}}


@pytest.mark.parametrize("name", METRICS)
def test_a_metrics_section_says_what_its_class_takes(name: str) -> None:
    found = section(name, **REQUIRED.get(name, {}))
    assert type(found) is metric_config(name) and type(found).__doc__
    made = metric_from(found)
    assert isinstance(made, Metric) and made.needs and type(made).__doc__
    parameters = inspect.signature(type(made).__init__).parameters
    for option, value in found.settings().items():
        assert parameters[option].default in (value, inspect.Parameter.empty), f"{option} of {name} has another default"


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
def test_the_binned_form_of_an_area_takes_its_options(name: str) -> None:
    made = metric_from(section(name, bins=77, average="micro"))
    assert made.folds_in == "device" and (made.bins, made.average) == (77, "micro")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"name": "roc_auc", "averge": "micro"}, "metrics.valid[0].averge: unknown key, did you mean 'average'?"),
        ({"name": "roc_auc", "average": "mikro"}, "metrics.valid[0].average: expected 'macro', 'weighted' or 'micro'"),
        ({"name": "top_k", "k": 0}, "metrics.valid[0].k: expected a number above 0, found 0"),
        ("acuracy", "metrics.valid[0]: no metric 'acuracy', did you mean 'accuracy'?"),
        ({"k": 3}, "metrics.valid[0].name: required key is missing"),
        (3, "metrics.valid[0]: expected a metric's name, or a mapping with its name and options"),
    ],
)
def test_mistakes_are_told_of_with_their_place(entry: object, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config_from({"optimizer": {"name": "sgd"}, "train": {"steps": 1}, "metrics": {"valid": [entry]}})
    assert problem in str(refused.value)


def test_metrics_are_written_out_with_their_options_and_read_again() -> None:
    config = config_from(
        {"optimizer": {"name": "sgd"}, "train": {"steps": 1}, "metrics": {"train": ["f1", {"name": "iou", "as": "j"}]}}
    )
    plain = config.model_dump(mode="json", by_alias=True)["metrics"]
    assert plain["train"][1] == {
        "name": "iou", "as": "j", "of": None, "average": "macro", "threshold": 0.5, "top_k": None, "exclude": [],
        "ignore_index": None,
    }  # fmt: skip
    again = config_from({"optimizer": {"name": "sgd"}, "train": {"steps": 1}, "metrics": plain})
    assert again.metrics == config.metrics
