"""A hundred steps of training a small convolutional network in float64 equal plain NumPy, by hand, to 1e-9."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tiers import tiered
from trainer import engine
from trainer.engine import nn
from trainer.learner import SGD, Adam

STEPS, BATCH, SIZE, CLASSES = 100, 6, 9, 4
RATE, MOMENTUM, DECAY = 0.05, 0.9, 1e-3
BETAS, EPSILON = (0.9, 0.999), 1e-8


def windows(x: np.ndarray, extent: int, stride: int) -> np.ndarray:
    """[N, C, OH, OW, extent, extent] of x [N, C, H, W]: a view."""
    view = np.lib.stride_tricks.sliding_window_view(x, (extent, extent), (2, 3))
    return view[:, :, ::stride, ::stride]


def put_back(patches: np.ndarray, shape: tuple[int, ...], stride: int) -> np.ndarray:
    """The transpose of `windows`: every element of `patches` added where it came from."""
    total, (*_, rows, columns, extent, _) = np.zeros(shape), patches.shape
    for i in range(extent):
        for j in range(extent):
            total[:, :, i : i + stride * rows : stride, j : j + stride * columns : stride] += patches[..., i, j]
    return total


def padded(x: np.ndarray, value: float) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=value)


class NumpyNet:
    """Convolution 3x3/2 - batch norm - ReLU - max pool 3x3/2 - convolution 3x3 - linear - cross entropy."""

    def __init__(self, parameters: dict[str, np.ndarray], channels: int) -> None:
        self.p = {name: value.copy() for name, value in parameters.items()}
        self.running_mean, self.running_var = np.zeros(channels), np.ones(channels)

    def gradients(self, x: np.ndarray, labels: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        p, n, spread = self.p, len(x), (None, slice(None), None, None)
        # forwards
        x = padded(x, 0)
        patches = windows(x, 3, 2)
        h = np.einsum("nchwij,kcij->nkhw", patches, p["0.weight"])
        count = h.size // h.shape[1]
        mean, var = h.mean((0, 2, 3)), h.var((0, 2, 3))
        self.running_mean += 0.1 * (mean - self.running_mean)
        self.running_var += 0.1 * (var * count / (count - 1) - self.running_var)
        deviation = np.sqrt(var + 1e-5)[spread]
        normal = (h - mean[spread]) / deviation
        a = normal * p["1.weight"][spread] + p["1.bias"][spread]
        pools = windows(padded(np.maximum(a, 0), -np.inf), 3, 2)
        flat = pools.reshape(*pools.shape[:4], 9)
        pooled = flat.max(-1)
        around = padded(pooled, 0)
        pooled_patches = windows(around, 3, 1)
        y = np.einsum("nchwij,kcij->nkhw", pooled_patches, p["4.weight"]) + p["4.bias"][spread]
        features = y.reshape(n, -1)
        z = features @ p["6.weight"].T + p["6.bias"]
        e = np.exp(z - z.max(1, keepdims=True))
        share = e / e.sum(1, keepdims=True)
        loss = -np.log(share[np.arange(n), labels]).mean()
        # backwards
        dz = (share - np.eye(CLASSES)[labels]) / n
        dy = (dz @ p["6.weight"]).reshape(y.shape)
        dpooled = put_back(np.einsum("nkhw,kcij->nchwij", dy, p["4.weight"]), around.shape, 1)[:, :, 1:-1, 1:-1]
        won = np.arange(9) == flat.argmax(-1)[..., None]  # the first of equals
        dpools = (won * dpooled[..., None]).reshape(pools.shape)
        da = put_back(dpools, padded(a, 0).shape, 2)[:, :, 1:-1, 1:-1] * (a > 0)
        dnormal = da * p["1.weight"][spread]
        over = {"axis": (0, 2, 3), "keepdims": True}
        dh = (dnormal - dnormal.mean(**over) - normal * (dnormal * normal).mean(**over)) / deviation
        return loss, {
            "0.weight": np.einsum("nkhw,nchwij->kcij", dh, patches),
            "1.weight": (da * normal).sum((0, 2, 3)), "1.bias": da.sum((0, 2, 3)),
            "4.weight": np.einsum("nkhw,nchwij->kcij", dy, pooled_patches), "4.bias": dy.sum((0, 2, 3)),
            "6.weight": dz.T @ features, "6.bias": dz.sum(0),
        }  # fmt: skip


def numpy_adam(net, gradients, step, moments):
    for name, g in gradients.items():
        m, v = moments.get(name, (0.0, 0.0))
        moments[name] = m, v = BETAS[0] * m + (1 - BETAS[0]) * g, BETAS[1] * v + (1 - BETAS[1]) * g * g
        corrected = m / (1 - BETAS[0] ** (step + 1)), v / (1 - BETAS[1] ** (step + 1))
        net.p[name] -= RATE / 10 * corrected[0] / (np.sqrt(corrected[1]) + EPSILON)


def numpy_nesterov(net, gradients, step, moments):
    for name, g in gradients.items():
        g = g + DECAY * net.p[name]
        moments[name] = MOMENTUM * moments.get(name, 0.0) + g
        net.p[name] -= RATE * (g + MOMENTUM * moments[name])


OPTIMIZERS = {
    "adam": (lambda net: Adam(net, RATE / 10, betas=BETAS, epsilon=EPSILON), numpy_adam),
    "nesterov": (lambda net: SGD(net, RATE, momentum=MOMENTUM, nesterov=True, weight_decay=DECAY), numpy_nesterov),
}


@pytest.mark.parametrize("device", tiered(("reference", "cpu"), ("cpu",)))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps_equal_plain_numpy(name, device):
    make_optimizer, numpy_update = OPTIMIZERS[name]
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(STEPS, BATCH, 3, SIZE, SIZE))
    labels = generator.integers(0, CLASSES, (STEPS, BATCH))
    with engine.device(device):
        net = nn.Sequential(
            nn.Conv2d(3, 10, 3, 2, 1, bias=False),
            nn.BatchNorm2d(10),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(10, 7, 3, 1, 1),
            nn.Flatten(),
            nn.Linear(7 * 3 * 3, CLASSES),
        )
        net.astype(engine.float64).set_seed(1)
        plain = NumpyNet({key: value.numpy() for key, value in net.named_parameters().items()}, 10)
        optimizer = make_optimizer(net)

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
        assert sorted(plain.p) == sorted(net.named_parameters())
        for key, value in net.named_parameters().items():
            np.testing.assert_allclose(value.numpy(), plain.p[key], rtol=1e-9, atol=1e-10, err_msg=key)
        np.testing.assert_allclose(net[1].running_mean.numpy(), plain.running_mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(net[1].running_var.numpy(), plain.running_var, rtol=1e-9)
