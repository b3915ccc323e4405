"""A hundred steps of training in float64 equal a plain NumPy implementation, written out by hand, to 1e-9."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer import engine
from trainer.configs.schedules.waves import CosineSchedule
from trainer.engine import nn
from trainer.learner import SGD, AdamW, LearningRate

STEPS, BATCH, FEATURES, HIDDEN, CLASSES = 100, 16, 6, 12, 3
BASE, WARMUP, DECAY = 0.02, 10, 0.05


class NumpyNet:
    """Linear - batch norm - ReLU - linear - cross entropy, forwards and backwards."""

    def __init__(self, parameters: dict[str, np.ndarray]) -> None:
        self.p = {name: value.copy() for name, value in parameters.items()}
        self.running_mean, self.running_var = np.zeros(HIDDEN), np.ones(HIDDEN)

    def gradients(self, x: np.ndarray, labels: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        p, n = self.p, len(x)
        h = x @ p["0.weight"].T
        mean, var = h.mean(0), h.var(0)
        self.running_mean += 0.1 * (mean - self.running_mean)
        self.running_var += 0.1 * (var * n / (n - 1) - self.running_var)
        deviation = np.sqrt(var + 1e-5)
        normal = (h - mean) / deviation
        a = normal * p["1.weight"] + p["1.bias"]
        r = np.maximum(a, 0)
        z = r @ p["3.weight"].T + p["3.bias"]
        e = np.exp(z - z.max(1, keepdims=True))
        share = e / e.sum(1, keepdims=True)
        loss = -np.log(share[np.arange(n), labels]).mean()
        dz = (share - np.eye(CLASSES)[labels]) / n
        da = (dz @ p["3.weight"]) * (a > 0)
        dnormal = da * p["1.weight"]
        dh = (dnormal - dnormal.mean(0) - normal * (dnormal * normal).mean(0)) / deviation
        return loss, {
            "0.weight": dh.T @ x, "1.weight": (da * normal).sum(0), "1.bias": da.sum(0),
            "3.weight": dz.T @ r, "3.bias": dz.sum(0),
        }  # fmt: skip


def rate(step: int) -> float:
    warm = min(1.0, (step + 1) / WARMUP)
    return BASE * warm * 0.5 * (1 + math.cos(math.pi * max(0, step - WARMUP) / (STEPS - WARMUP)))


def numpy_adamw(net, gradients, step, moments):
    for name, g in gradients.items():
        m, v = moments.setdefault(name, (np.zeros_like(g), np.zeros_like(g)))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        moments[name] = m, v
        net.p[name] *= 1 - rate(step) * DECAY
        corrected = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
        net.p[name] -= rate(step) * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)


def numpy_momentum(net, gradients, step, moments):
    for name, g in gradients.items():
        moments[name] = 0.9 * moments.get(name, 0.0) + g + DECAY * net.p[name]
        net.p[name] -= rate(step) * moments[name]


OPTIMIZERS = {
    "adamw": (lambda net, rate: AdamW(net, rate, weight_decay=DECAY), numpy_adamw),
    "momentum": (lambda net, rate: SGD(net, rate, momentum=0.9, weight_decay=DECAY), numpy_momentum),
}


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps_equal_plain_numpy(name, device):
    make_optimizer, numpy_update = OPTIMIZERS[name]
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(STEPS, BATCH, FEATURES))
    labels = generator.integers(0, CLASSES, (STEPS, BATCH))
    with engine.device(device):
        net = nn.Sequential(
            nn.Linear(FEATURES, HIDDEN, bias=False), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
        )
        net.astype(engine.float64).set_seed(1)
        plain = NumpyNet({key: value.numpy() for key, value in net.named_parameters().items()})
        optimizer = make_optimizer(net, LearningRate(BASE, CosineSchedule(warmup_steps=WARMUP), total_steps=STEPS))

        def step(x, y):
            loss = nn.cross_entropy(net(x), y)
            optimizer.minimize(loss)
            return loss

        traced, moments = engine.trace(step), {}
        for number in range(STEPS):
            loss = traced(inputs[number], labels[number]).item()
            expected, gradients = plain.gradients(inputs[number], labels[number])
            numpy_update(plain, gradients, number, moments)
            assert loss == pytest.approx(expected, rel=1e-9), number
        for key, value in net.named_parameters().items():
            np.testing.assert_allclose(value.numpy(), plain.p[key], rtol=1e-9, atol=1e-12, err_msg=key)
        np.testing.assert_allclose(net[1].running_mean.numpy(), plain.running_mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(net[1].running_var.numpy(), plain.running_var, rtol=1e-9)
