"""Training in float16: the loss scale against plain NumPy, in the loop, in checkpoints, and where nothing helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.learner.test_hooks import bad_at
from trainer import engine
from trainer.engine import float32, nn
from trainer.learner import SGD, Hook, Learner, Moment, Training
from trainer.learner.precision import LossScale
from trainer.learner.stepping import Stepping, stepping
from trainer.rundir import Event, create_run

RATE = 2.0**-8


def test_steps_that_overflow_are_left_out_and_the_scale_is_that_of_plain_numpy() -> None:
    random = np.random.default_rng(0)
    inputs = random.integers(-3, 4, (60, 4, 3)).astype(np.float32)
    inputs[::10] *= 40  # outliers, whose gradients overflow long after the others' don't
    weight = nn.Parameter(random.integers(-2, 3, (3, 2)).astype(np.float32))
    scale, optimizer = LossScale(growth_interval=4), SGD({"weight": weight}, RATE)

    def step(x: engine.Tensor) -> None:
        with stepping(Stepping(loss_scale=scale)), engine.autocast("float16"):
            optimizer.minimize(engine.mean(nn.functional.relu(x @ weight) ** 2))
            scale.update()

    traced = engine.trace(step)
    expected, factor, good, skipped = weight.numpy(), np.float32(2**16), 0, 0
    for x in inputs:
        traced(x)
        with np.errstate(all="ignore"):
            y = np.maximum((x @ expected.astype(np.float16).astype(np.float32)).astype(np.float16), 0)
            dy = (2 * y.astype(np.float32) * (factor / np.float32(y.size))).astype(np.float16)
            gradient = x.T @ np.where(y > 0, dy.astype(np.float32), 0) / factor
        if np.isfinite(gradient).all():
            expected, good = expected - np.float32(RATE) * gradient, good + 1
        else:
            factor, good, skipped = factor / 2, 0, skipped + 1
        if good == 4:
            factor, good = factor * 2, 0
        assert scale.factor.item() == factor
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert optimizer.skipped_steps.item() == skipped > 5


def test_a_factor_never_grows_beyond_float32() -> None:
    scale = LossScale(2.0**127, growth_interval=1)
    scale.check([engine.ones((2,))])
    scale.update()
    assert scale.factor.item() == 2.0**127


def test_a_loss_of_float16_is_scaled_in_float32() -> None:
    scaled = LossScale().scaled(engine.asarray(3.0, dtype=engine.float16))
    assert scaled.dtype is float32 and scaled.item() == 3 * 2**16


class Listens(Hook):
    """Collects the training records, and stops at a step."""

    is_inline = True

    def __init__(self, stop_at: int = -1) -> None:
        self.stop_at = stop_at
        self.records: list[dict[str, float]] = []
        self.warnings: list[str] = []

    def on_start(self, training: Training, moment: Moment) -> None:
        training.listeners.append(self._hear)

    def after_step(self, training: Training, moment: Moment) -> None:
        if moment.step == self.stop_at:
            training.request("stop")

    def _hear(self, event: Event) -> None:
        if event.kind == "metric" and event.split == "train":  # type: ignore[attr-defined]
            self.records.append(dict(event.values))  # type: ignore[attr-defined]
        elif event.kind == "warning":
            self.warnings.append(event.message)  # type: ignore[attr-defined]


def test_a_run_shows_its_loss_scale_and_steps_that_were_left_out(blobs: Any, config: Any) -> None:
    hears = Listens()
    settings = config(device="cpu", train={"epochs": 30, "precision": "float16", "log_every_steps": 20})
    learner = Learner(blobs, settings, hooks=[hears])
    assert learner.run().check().metrics["test/accuracy"] > 0.8
    assert learner.task.net.state_dict()["0.weight"].dtype == np.float32
    first, last = hears.records[0], hears.records[-1]
    assert first["loss_scale"] == 2**16 / 2 ** first["skipped_steps"]
    assert last["loss_scale"] == 2**16 / 2 ** last["skipped_steps"]
    assert bool(hears.warnings) == (last["skipped_steps"] > 0)


def test_a_resumed_run_takes_up_the_loss_scale(blobs: Any, config: Any, tmp_path: Any) -> None:
    settings = config(train={"epochs": 3, "precision": "float16", "ema": {}})

    class Overflows(blobs):
        """Its loss is so large that the scale has to fall at first."""

        def measured(self, loss: Any, logits: Any, batch: Any) -> Any:
            return super().measured(loss, logits, batch)

        def train_step(self, batch: Any) -> Any:
            logits = self.net(batch["point"])
            loss = nn.cross_entropy(logits, batch["label"], sample_weight=batch["weight"])
            self.optimizer.minimize(loss * 300.0)
            return self.measured(loss, logits, batch)

    whole = Learner(Overflows, settings)
    whole.run().check()
    paths = create_run(tmp_path, "b")
    assert Learner(Overflows, settings, paths=paths, hooks=[Listens(stop_at=5)]).run().status == "stopped"
    hears = Listens()
    resumed = Learner(Overflows, settings, paths=paths, attempt=2, resume=paths.root, hooks=[hears])
    assert resumed.run().check().metrics == whole.metrics
    assert hears.records[-1]["skipped_steps"] > 0 and hears.records[-1]["loss_scale"] < 2**16
    for name, values in whole.task.net.state_dict().items():
        np.testing.assert_array_equal(resumed.task.net.state_dict()[name], values, err_msg=name)


def test_gradients_that_no_scale_helps_end_the_run_with_what_to_do(blobs: Any, config: Any) -> None:
    class Beyond(blobs):
        def train_step(self, batch: Any) -> Any:
            logits = self.net(batch["point"])
            self.optimizer.minimize(nn.cross_entropy(logits * 1e30, batch["label"]) * 1e30)
            return {}

    with pytest.raises(Exception, match=r"(?s)overflow float16.*train.precision=bfloat16"):
        Learner(Beyond, config(train={"epochs": 20, "precision": "float16", "log_every_steps": 5})).run().check()


@pytest.mark.parametrize("train", [{"precision": "float16"}, {"on_nan": "skip"}])
def test_a_micro_batch_that_overflows_is_not_measured(blobs: Any, config: Any, train: dict[str, Any]) -> None:
    """The first of a step's two: its loss must neither end the run nor be in the mean of the others."""
    hears = Listens()
    train = {"steps": 4, "accumulate": 2, "log_every_steps": 4, **train}
    learner = Learner(bad_at(2)(blobs), config(train=train, autotune={"mode": "off"}), hooks=[hears])
    outcome = learner.run().check()
    assert outcome.step == 4 and all(np.isfinite(record["loss"]) for record in hears.records)
    assert learner.training is not None and learner.training.state.skipped_steps() == 1
