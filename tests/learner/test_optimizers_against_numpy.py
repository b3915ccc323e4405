"""Every optimizer equals plain NumPy in float64 over 100 steps; so do groups, clipping, accumulation, loss scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.configs.schedules.waves import CosineSchedule
from trainer.engine import nn
from trainer.learner import (
    LAMB,
    SGD,
    AdaGrad,
    Adam,
    AdamW,
    Adan,
    Group,
    LearningRate,
    Lion,
    Muon,
    Optimizer,
    RMSProp,
)
from trainer.learner.precision import LossScale
from trainer.learner.stepping import Stepping, stepping

STEPS, RATE = 100, 0.02
Array = np.ndarray[Any, Any]
Update = Callable[[Array, Array, dict[str, Any], int, float], Array]
"""(parameter, gradient, moments, step from 1, learning rate) to the next parameter."""


def sgd(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    g = g + 0.1 * p
    held["b"] = 0.9 * held.get("b", 0.0) + g
    return p - rate * (g + 0.9 * held["b"])


def adam(p: Array, g: Array, held: dict[str, Any], t: int, rate: float, decay: float = 0.0) -> Array:
    held["m"] = 0.9 * held.get("m", 0.0) + 0.1 * g
    held["v"] = 0.999 * held.get("v", 0.0) + 0.001 * g**2
    m, v = held["m"] / (1 - 0.9**t), held["v"] / (1 - 0.999**t)
    return p - rate * decay * p - rate * m / (np.sqrt(v) + 1e-8)


def adam_l2(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    return adam(p, g + 0.1 * p, held, t, rate)


def adamw(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    return adam(p, g, held, t, rate, decay=0.1)


def rmsprop(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    g = g + 0.1 * p
    held["v"] = 0.9 * held.get("v", 0.0) + 0.1 * g**2
    held["a"] = 0.9 * held.get("a", 0.0) + 0.1 * g
    held["b"] = 0.5 * held.get("b", 0.0) + g / (np.sqrt(held["v"] - held["a"] ** 2) + 1e-3)
    return p - rate * held["b"]


def adagrad(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    g = g + 0.1 * p
    held["s"] = held.get("s", 0.5) + g**2
    return p - rate / (1 + (t - 1) * 0.01) * g / (np.sqrt(held["s"]) + 1e-10)


def adan(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    change = g - held.get("g", g)
    held["g"] = g
    held["m"] = 0.98 * held.get("m", 0.0) + 0.02 * g
    held["d"] = 0.92 * held.get("d", 0.0) + 0.08 * change
    held["n"] = 0.99 * held.get("n", 0.0) + 0.01 * (g + 0.92 * change) ** 2
    m, d, n = held["m"] / (1 - 0.98**t), held["d"] / (1 - 0.92**t), held["n"] / (1 - 0.99**t)
    return (p - rate * (m + 0.92 * d) / (np.sqrt(n) + 1e-8)) / (1 + rate * 0.1)


def lion(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    m = held.get("m", np.zeros_like(p))
    held["m"] = 0.99 * m + 0.01 * g
    return p - rate * (np.sign(0.9 * m + 0.1 * g) + 0.1 * p)


def lamb(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    held["m"] = 0.9 * held.get("m", 0.0) + 0.1 * g
    held["v"] = 0.999 * held.get("v", 0.0) + 0.001 * g**2
    r = held["m"] / (1 - 0.9**t) / (np.sqrt(held["v"] / (1 - 0.999**t)) + 1e-6) + 0.1 * p
    weights, length = np.linalg.norm(p), np.linalg.norm(r)
    return p - rate * (weights / length if weights > 0 and length > 0 else 1.0) * r


def muon(p: Array, g: Array, held: dict[str, Any], t: int, rate: float) -> Array:
    if p.ndim < 2:
        return adam(p, g, held, t, rate, decay=0.1)
    held["b"] = 0.95 * held.get("b", 0.0) + 0.05 * g
    x = (0.05 * g + 0.95 * held["b"]).reshape(len(p), -1)
    left, values, right = np.linalg.svd(x / np.linalg.norm(x), full_matrices=False)
    for _ in range(5):  # the quintic acts on the singular values alone
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    direction = (left * values @ right).reshape(p.shape)
    return p * (1 - rate * 0.1) - rate * 0.2 * np.sqrt(max(x.shape)) * direction


OPTIMIZERS: dict[str, tuple[Callable[..., Optimizer], Update]] = {
    "sgd": (lambda p, r, **c: SGD(p, r, momentum=0.9, nesterov=True, weight_decay=0.1, **c), sgd),
    "adam": (lambda p, r, **c: Adam(p, r, weight_decay=0.1, **c), adam_l2),
    "adamw": (lambda p, r, **c: AdamW(p, r, weight_decay=0.1, **c), adamw),
    "rmsprop": (
        lambda p, r, **c: RMSProp(
            p, r, alpha=0.9, epsilon=1e-3, momentum=0.5, centered=True, weight_decay=0.1, **c
        ),
        rmsprop,
    ),
    "adagrad": (
        lambda p, r, **c: AdaGrad(p, r, learning_rate_decay=0.01, initial_sum=0.5, weight_decay=0.1, **c), adagrad
    ),
    "adan": (lambda p, r, **c: Adan(p, r, weight_decay=0.1, **c), adan),
    "lion": (lambda p, r, **c: Lion(p, r, weight_decay=0.1, **c), lion),
    "lamb": (lambda p, r, **c: LAMB(p, r, weight_decay=0.1, **c), lamb),
    "muon": (lambda p, r, **c: Muon(p, r, weight_decay=0.1, **c), muon),
}  # fmt: skip
SHAPES = {"matrix": (6, 4), "kernel": (3, 2, 3, 3), "vector": (5,), "scalar": ()}


@pytest.fixture
def parameters() -> dict[str, nn.Parameter]:
    generator = np.random.default_rng(3)
    return {name: nn.Parameter(generator.normal(size=shape), name, engine.float64) for name, shape in SHAPES.items()}


def batches(count: int = STEPS) -> Iterator[dict[str, Array]]:
    """Targets that each parameter is pulled to; the gradient of half the square of the distance is p − target."""
    generator = np.random.default_rng(4)
    for _ in range(count):
        yield {name: generator.normal(size=shape) for name, shape in SHAPES.items()}


def loss_of(parameters: dict[str, nn.Parameter], targets: dict[str, Any]) -> engine.Tensor:
    total = engine.zeros((), dtype=engine.float64)
    for name, parameter in parameters.items():
        distance = parameter - targets[name]
        total = total + engine.sum(distance * distance) * 0.5
    return total


def compare(parameters: dict[str, nn.Parameter], expected: dict[str, Array]) -> None:
    for name, parameter in parameters.items():
        np.testing.assert_allclose(parameter.numpy(), expected[name], rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("device", tiered(("reference", "cpu"), ("cpu",)))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps_equal_plain_numpy(name: str, device: str, parameters: dict[str, nn.Parameter]) -> None:
    make, update = OPTIMIZERS[name]
    plain, held = {key: value.numpy().copy() for key, value in parameters.items()}, {key: {} for key in parameters}
    rate = LearningRate(RATE, CosineSchedule(warmup_steps=5), total_steps=STEPS)
    with engine.device(device):
        optimizer = make(parameters, rate)
        traced = engine.trace(lambda targets: optimizer.minimize(loss_of(parameters, targets)))
        for step, targets in enumerate(batches(), start=1):
            traced(targets)
            for key, value in plain.items():
                plain[key] = update(value, value - targets[key], held[key], step, rate.at(step - 1))
        compare(parameters, plain)
        assert optimizer.step_count.item() == STEPS


@pytest.fixture
def on_reference() -> Iterator[None]:
    with engine.device("reference"):
        yield


def test_groups_have_rates_decays_and_times_of_their_own(
    parameters: dict[str, nn.Parameter], on_reference: None
) -> None:
    start = {key: value.numpy().copy() for key, value in parameters.items()}
    plain, held = dict(start), {key: {} for key in start}
    optimizer = AdamW(
        parameters,
        RATE,
        weight_decay=0.1,
        decay_norms_and_biases=False,
        groups=(
            Group("mat*", learning_rate=0.5, weight_decay=0.0),
            Group(("kernel", "none"), unfreeze_at_step=30),
            Group("sc*", frozen=True),
            Group("matrix", learning_rate=9.0),  # the first that matches holds
        ),
    )
    traced = engine.trace(lambda targets: optimizer.minimize(loss_of(parameters, targets)))
    for step, targets in enumerate(batches(60), start=1):
        traced(targets)
        for key, rate, decay, begins in (("matrix", 0.5, 0.0, 0), ("kernel", RATE, 0.1, 30), ("vector", RATE, 0.0, 0)):
            if step > begins:
                gradient = plain[key] - targets[key]
                plain[key] = adam(plain[key], gradient, held[key], step - begins, rate, decay)
        if step == 30:
            np.testing.assert_array_equal(parameters["kernel"].numpy(), start["kernel"])
    compare(parameters, plain)
    assert set(optimizer.learning_rates()) == {"", "mat*"}


def test_a_group_that_matches_nothing_is_a_mistake(parameters: dict[str, nn.Parameter]) -> None:
    with pytest.raises(TrainerError, match=r"matches no parameter(.|\n)*backbone(.|\n)*matrix, kernel, vector"):
        SGD(parameters, 0.1, groups=[Group("backbone.*")])
    with pytest.raises(TrainerError, match="no trainable parameters"):
        SGD(parameters, 0.1, groups=[Group("*", frozen=True)])


def test_gradients_are_clipped_by_value_and_then_by_their_common_norm(
    parameters: dict[str, nn.Parameter], on_reference: None
) -> None:
    plain = {key: value.numpy().copy() for key, value in parameters.items()}
    optimizer = SGD(parameters, RATE, gradient_clip_value=0.8, gradient_clip_norm=2.0)
    for targets in batches(10):
        optimizer.minimize(loss_of(parameters, targets))
        gradients = {key: np.clip(plain[key] - targets[key], -0.8, 0.8) for key in plain}
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
        assert norm > 2
        for key in plain:
            plain[key] = plain[key] - RATE * gradients[key] * 2.0 / (norm + 1e-6)
    compare(parameters, plain)


@pytest.mark.parametrize("name", ["sgd", "adamw", "muon"])
def test_micro_batches_equal_one_batch_of_all_their_rows(name: str, on_reference: None) -> None:
    generator = np.random.default_rng(0)
    inputs, targets = generator.normal(size=(STEPS, 7, 3)), generator.normal(size=(STEPS, 7, 2))
    whole, parts = (
        {"weight": nn.Parameter(np.ones((3, 2)), "weight", engine.float64)} for _ in range(2)
    )  # fmt: skip
    make = OPTIMIZERS[name][0]
    optimizers = make(whole, RATE), make(parts, RATE)

    def loss(weight: engine.Tensor, x: engine.Tensor, y: engine.Tensor) -> engine.Tensor:
        return engine.mean((x @ weight - y) ** 2)

    def micro_step(x: engine.Tensor, y: engine.Tensor, is_last: bool) -> None:
        rows = engine.asarray(float(x.shape[0]))
        with stepping(Stepping(micro_batches=3, is_last=is_last, rows=rows)):
            optimizers[1].minimize(loss(parts["weight"], x, y))

    step = engine.trace(lambda x, y: optimizers[0].minimize(loss(whole["weight"], x, y)))
    traced = engine.trace(micro_step)
    for x, y in zip(inputs, targets, strict=True):
        step(x, y)
        for begin, end in ((0, 3), (3, 6), (6, 7)):  # the last has fewer rows
            traced(x[begin:end], y[begin:end], end == 7)
    np.testing.assert_allclose(parts["weight"].numpy(), whole["weight"].numpy(), rtol=1e-10)
    assert optimizers[1].step_count.item() == STEPS


def test_steps_that_overflow_are_left_out_and_the_scale_follows(
    parameters: dict[str, nn.Parameter], on_reference: None
) -> None:
    scale = LossScale(8.0, growth_interval=3)
    optimizer = AdamW(parameters, RATE, weight_decay=0.1)
    plain, held = {key: value.numpy().copy() for key, value in parameters.items()}, {key: {} for key in parameters}

    def step(targets: dict[str, engine.Tensor], is_bad: engine.Tensor) -> None:
        with stepping(Stepping(loss_scale=scale)):
            optimizer.minimize(loss_of(parameters, targets) * engine.where(is_bad, np.inf, 1.0))
            scale.update()

    traced = engine.trace(step)
    factor, good, applied = 8.0, 0, 0
    for number, targets in enumerate(batches(20)):
        is_bad = number in (2, 3, 11)
        traced(targets, np.asarray(is_bad))
        good, factor = (0, factor / 2) if is_bad else (good + 1, factor)
        if good == 3:
            good, factor = 0, factor * 2
        assert scale.factor.item() == factor
        applied += not is_bad
        for key in plain if not is_bad else ():
            plain[key] = adam(plain[key], plain[key] - targets[key], held[key], applied, RATE, decay=0.1)
    compare(parameters, plain)
    assert optimizer.skipped_steps.item() == 3 and optimizer.step_count.item() == 20


def test_an_optimizer_of_ones_own_is_one_class(parameters: dict[str, nn.Parameter], on_reference: None) -> None:
    class Halving(Optimizer):
        def update(self, parameter, gradient, moments, settings):  # type: ignore[no-untyped-def]
            return parameter * 0.5, {}

    before = parameters["matrix"].numpy().copy()
    Halving(parameters, 0.1).minimize(loss_of(parameters, next(batches())))
    np.testing.assert_array_equal(parameters["matrix"].numpy(), before * 0.5)
