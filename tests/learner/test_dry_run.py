"""A dry run: what it says of a run follows from the config, the data and its own steps, and it leaves a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.datasets import ArrayDataset, Cached, ItemCache, Loader, Subset
from trainer.learner import Batch, Learner, TrainingFailure
from trainer.learner.checkpoints import read_checkpoint
from trainer.learner.dry_run import DryRun, cache_growth, caches_of
from trainer.learner.task import model_states
from trainer.learner.training import Training
from trainer.metrics import Mean, Measured
from trainer.rundir import CheckpointEvent, Event, MetricEvent, ResumedEvent, RunPaths

OWN_HOOK = """\
from trainer.learner import Hook

class Shout(Hook):
    is_inline = True

    def after_validation(self, training, moment):
        raise RuntimeError("a dry run calls no hook of the user's own")

    after_log = on_start = on_end = on_error = after_step = after_validation
"""


def dried(blobs: Any, config: Any, folder: Path, events: list[Event]) -> tuple[Learner, DryRun]:
    learner = Learner(blobs, config, paths=RunPaths(folder), sink=events.append)
    return learner, learner.dry_run(seconds=0.0)


def test_it_steps_validates_and_goes_on_from_its_checkpoint(blobs: Any, config: Any, tmp_path: Path) -> None:
    events: list[Event] = []
    (tmp_path / "shout.py").write_text(OWN_HOOK)
    hooks = ({"name": f"{tmp_path / 'shout.py'}:Shout"},)
    learner, found = dried(blobs, config(hooks=hooks, train={"epochs": 5}), tmp_path, events)
    assert found.batch == {"point": ((16, 2), "float32"), "label": ((16,), "int64"), "weight": ((16,), "float32")}
    assert found.parameters == {"net": 2 * 8 + 8 + 8 + 8 + 8 * 3 + 3}
    assert (found.steps_per_epoch, found.total_steps, found.validations) == (4, 20, 5)
    assert found.epoch_seconds == pytest.approx(4 * found.step_seconds + found.validation_seconds)
    assert found.total_seconds == pytest.approx(5 * found.epoch_seconds)
    assert found.timed_steps >= 1 and found.peak_memory > 1e7 and found.checkpoint_bytes > 0
    (saved,) = (event for event in events if isinstance(event, CheckpointEvent))
    assert any(isinstance(event, ResumedEvent) for event in events)
    assert learner.training is not None and learner.training.progress.step == saved.step
    written = read_checkpoint(tmp_path / saved.path).arrays["model"]
    for name, state in model_states(learner.training.parts).items():
        np.testing.assert_array_equal(written[name].values, state.numpy())
    assert {event.split for event in events if isinstance(event, MetricEvent)} == {"train", "valid"}


@pytest.mark.parametrize(
    ("train", "validate", "expected"),
    [
        ({"steps": 2}, {}, (2, 1)),
        ({"epochs": 3}, {"every_steps": 5}, (12, 3)),
        ({"minutes": 3.0}, {}, (None, None)),
    ],
)
def test_the_length_is_the_configs(
    blobs: Any, config: Any, tmp_path: Path, train: Any, validate: Any, expected: tuple[int | None, int | None]
) -> None:
    made = config(train=train, validate=validate, schedule={"name": "constant"})
    _, found = dried(blobs, made, tmp_path, [])
    assert (found.total_steps, found.validations) == expected
    if found.total_steps is None:
        assert found.total_seconds == 180
    else:
        steps = found.total_steps * found.step_seconds
        assert found.total_seconds == pytest.approx(steps + expected[1] * found.validation_seconds)


def test_without_timing_only_a_part_of_the_validation_split_is_evaluated(
    blobs: Any, config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrained detector's full validation takes minutes, and `data.batch_size: auto` validates several times."""
    limits: list[int | None] = []
    monkeypatch.setattr(Training, "validate", lambda self, limit=None: limits.append(limit))
    dried(blobs, config(data={"batch_size": 4}), tmp_path, [])
    assert limits == [2, 2]  # of five


def test_what_a_run_fails_of_is_raised(blobs: Any, config: Any, tmp_path: Path) -> None:
    class Broken(blobs):  # type: ignore[misc]
        def train_step(self, batch: Batch) -> dict[str, Measured]:
            returned: dict[str, Measured] = super().train_step(batch)
            return {**returned, "ratio": Mean(engine.full((), float("nan")), engine.full((), 1.0))}

    with pytest.raises(TrainingFailure, match="train/ratio is not finite at step 1"):
        dried(Broken, config(), tmp_path, [])


def test_caches_grow_to_all_items_or_their_limits() -> None:
    items = ArrayDataset({"x": np.zeros((10, 100), np.uint8)})
    full, short = Cached(items, ItemCache(10, 10**6)), Cached(items, ItemCache(10, 600))
    caches = caches_of([Loader(Subset(full, [1, 2]), 1), Loader(short, 2), Loader(items, 2)])
    assert [(cache, length) for cache, length in caches] == [(full.cache, 10), (short.cache, 10)]
    assert [full[index]["x"].shape for index in range(4)] == [(100,)] * 4
    each = full.cache.bytes_used // 4
    kept, growth = cache_growth(caches)
    assert [cache.size for cache in kept] == [10 * each, 600]
    assert growth == 10 * each + 600 - 4 * each
