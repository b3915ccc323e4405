"""COCO's figures in a training: by name in the configuration, worked out beside the steps, with their report."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.metrics.objects import batches, by_rows
from trainer.datasets import ArrayDataset, Loader
from trainer.learner import DataSplits, Learner
from trainer.learner.checkpoints import pointed, read_checkpoint
from trainer.metrics import Predictions
from trainer.rundir import ReportEvent, create_run

NAMES = ("ant", "bee", "cat")


@pytest.fixture
def detector(blobs: Any) -> Any:
    """The task of three clouds, whose validation gives objects that were found long before."""
    objects = batches("bbox")

    class Detector(blobs):  # type: ignore[misc]
        def data(self) -> DataSplits:
            points = np.zeros((len(objects["classes"]), 2), np.float32)
            given = {f"given_{name}": values for name, values in objects.items()}
            shown = ArrayDataset({**given, "point": points, "label": np.zeros(len(points), np.int64)})
            train = super().data().train
            train.dataset.dataset.class_names = NAMES
            return DataSplits(train=train, valid=Loader(shown, 5))

        def valid_step(self, batch: Any) -> Any:
            roles = {name: batch[f"given_{name}"] for name in objects}
            return {**super().valid_step(batch), "objects": Predictions(weight=batch["weight"], **roles)}

    return Detector


def test_a_training_is_told_of_pycocotools_figures_of_the_data_sets_classes(
    detector: Any, config: Any, tmp_path: Any
) -> None:
    events: list[Any] = []
    paths = create_run(tmp_path, "r")
    settings = config(metrics={"valid": ({"name": "coco"},)}, train={"steps": 4})
    outcome = Learner(detector, settings, paths=paths, sink=events.append).run().check()
    expected = by_rows(batches("bbox"), "bbox", NAMES)
    told = {name: value for name, value in outcome.metrics.items() if name.startswith("valid/coco/")}
    assert told == {
        f"valid/coco/{name}": pytest.approx(np.nan if value == -1 else value, nan_ok=True, rel=0, abs=0)
        for name, value in expected.items()
    }
    assert len(told) == 12
    event = next(event for event in events if isinstance(event, ReportEvent) and event.caption == "coco")
    report = json.loads((paths.root / event.file).read_text())
    assert report["kind"] == "coco" and report["stats"] == expected
    assert [row["name"] for row in report["classes"]] == list(NAMES)


@pytest.mark.parametrize("of", ["", "ema/"])
def test_the_best_checkpoint_may_go_by_figures_that_are_worked_out_beside_the_steps(
    detector: Any, config: Any, tmp_path: Any, of: str
) -> None:
    """Both of the weights and of their average: what a checkpoint waits for is there in time."""
    settings = config(
        metrics={"valid": ({"name": "coco", "class_names": NAMES},)},
        train={"steps": 4, "ema": {"decay": 0.9}},
        checkpoint={"best": {"metric": f"valid/{of}coco/AP", "mode": "max"}},
    )
    outcome = Learner(detector, settings, paths=create_run(tmp_path, "r")).run().check()
    assert outcome.metrics[f"valid/{of}coco/AP"] == by_rows(batches("bbox"), "bbox", NAMES)["AP"]
    assert (tmp_path / "r" / "checkpoints" / "best").exists()
    latest = pointed(tmp_path / "r" / "checkpoints", "latest")
    assert latest is not None
    state = read_checkpoint(latest).state
    assert state["validated_step"] == 4 and {"valid/coco/AP", "valid/ema/coco/AP"} <= set(state["metrics"])
