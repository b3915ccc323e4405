"""Training with `train.shards`: the same task, in parts of each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainer import TrainerError, engine
from trainer.configs import RunConfig
from trainer.engine import nn
from trainer.learner import Learner
from trainer.metrics import Mean
from trainer.rundir import RunPaths

SGD = {"name": "sgd", "learning_rate": 0.05}  # Adam would make a step of the noise in gradients that are zero


def without_dropout(blobs: Any) -> Any:
    """The task of clouds without random numbers, whose bits are those of the shards."""

    class Plain(blobs):
        def build(self) -> None:
            self.net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
            self.optimizer = self.optimizer_for(self.net)

    return Plain


@pytest.mark.parametrize("train", [{}, {"accumulate": 2, "gradient_clip_norm": 0.5}])
def test_shards_reach_the_metrics_of_the_whole_batch(blobs: Any, config: Any, train: dict[str, Any]) -> None:
    # the last batch has 2 rows of 16: three of four shards are padding alone
    found = []
    for shards in (1, 4):
        sections = {"train": {"epochs": 2, "shards": shards, **train}, "optimizer": SGD}
        learner = Learner(without_dropout(blobs), config(**sections))
        learner.run().check()
        found.append(learner.metrics)
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        assert found[1][name] == pytest.approx(value, rel=1e-5), name


def test_another_number_of_shards_is_another_numerics_class(blobs: Any, config: Any, tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    Learner(blobs, config(train={"steps": 2, "shards": 2}), paths=paths).run().check()
    with pytest.raises(TrainerError, match="can't resume with a different numerics"):
        Learner(blobs, config(train={"steps": 4, "shards": 4}), paths=paths, resume=tmp_path).run().check()


def test_a_batch_that_the_shards_do_not_divide_is_refused_before_the_first_step(blobs: Any, config: Any) -> None:
    with pytest.raises(TrainerError, match="the shards do not divide the batch"):
        Learner(blobs, config(data={"batch_size": 12}, train={"steps": 1, "shards": 8})).run().check()


def test_the_number_of_shards_is_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="6 is not a power of two"):
        RunConfig(task="blobs", train={"shards": 6})


def test_metrics_that_mix_rows_are_refused(blobs: Any, config: Any) -> None:
    class Compared(blobs):
        def valid_step(self, batch: Any) -> Any:
            scores = self.net(batch["point"])
            return {"similarity": Mean(engine.mean(scores @ scores.T), engine.sum(batch["weight"]))}

    with pytest.raises(TrainerError, match="matmul mixes rows of the batch"):
        Learner(Compared, config(train={"steps": 1, "shards": 2})).run().check()
