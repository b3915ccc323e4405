"""Frozen parameters stay as they are, and so do the running statistics of their norms, until they are unfrozen."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from trainer.configs import ConfigError, config_from
from trainer.learner import Hook, Learner

BOTH = {"0": ("0.weight",), "1": ("1.weight", "1.bias", "1.running_mean", "1.running_var")}


def states_by_step(blobs: Any, config: Any, groups: list[dict[str, Any]]) -> list[dict[str, np.ndarray]]:
    """The network's states before the first step, and after each of six."""
    optimizer = {"name": "sgd", "learning_rate": 0.05, "groups": tuple(groups)}
    settings = config(train={"steps": 6, "epochs": None}, optimizer=optimizer, schedule={"name": "constant"})
    found: list[dict[str, np.ndarray]] = []

    class Watching(Hook):
        is_inline = True

        def before_step(self, training: Any, moment: Any) -> None:
            found.append(learner.task.net.state_dict())

    learner = Learner(blobs, settings, hooks=(Watching(),))
    learner.run().check()
    return [*found, learner.task.net.state_dict()]


def steps_of_changes(states: list[dict[str, np.ndarray]], name: str) -> list[int]:
    return [step for step, (one, other) in enumerate(pairwise(states)) if not np.array_equal(one[name], other[name])]


@pytest.mark.parametrize("patterns", [["0.*", "1.*"], [("0.*", "1.*")]])
def test_frozen_layers_keep_their_statistics(blobs: Any, config: Any, patterns: Any) -> None:
    states = states_by_step(blobs, config, [{"match": pattern, "frozen": True} for pattern in patterns])
    assert all(steps_of_changes(states, name) == [] for name in (*BOTH["0"], *BOTH["1"]))
    assert steps_of_changes(states, "4.weight") == list(range(6))


def test_layers_are_unfrozen_one_after_the_other(blobs: Any, config: Any) -> None:
    groups = [{"match": "0.*", "unfreeze_at_epoch": 1}, {"match": "1.*", "unfreeze_at_step": 2}]  # 4 steps an epoch
    states = states_by_step(blobs, config, groups)
    for names, first in ((BOTH["0"], 4), (BOTH["1"], 2)):
        assert all(steps_of_changes(states, name) == list(range(first, 6)) for name in names)


def test_only_one_key_freezes_a_group() -> None:
    groups = [{"match": "*", "frozen": True, "unfreeze_at_epoch": 3}]
    with pytest.raises(ConfigError, match="set together with 'frozen'"):
        config_from({"optimizer": {"name": "sgd", "learning_rate": 1.0, "groups": groups}, "train": {"steps": 1}})
