"""Convolutions and pooling of one and three spatial axes: against plain loops in float64, and their derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn

GEOMETRIES = {
    "line": ((2, 4, 9), (6, 2, 3), {"stride": 2, "padding": ((2, 1),), "dilation": 2, "groups": 2}),
    "volume": (
        (2, 4, 5, 4, 6),
        (4, 2, 3, 2, 3),
        {"stride": (2, 1, 2), "padding": ((1, 0), (0, 1), (2, 2)), "dilation": (1, 2, 2), "groups": 2},
    ),
    "deep taps": ((1, 2, 7, 3, 3), (3, 2, 3, 1, 1), {"stride": (2, 1, 1), "dilation": (2, 1, 1)}),
}


def plain(rank, stride=1, padding=0, dilation=1, groups=1):
    """Stride, (before, after) and dilation of each axis."""
    strides, paddings, dilations = (
        value if isinstance(value, tuple) else (value,) * rank for value in (stride, padding, dilation)
    )
    return strides, [ends if isinstance(ends, tuple) else (ends, ends) for ends in paddings], dilations


def convolved(x, w, **geometry):
    """Window by window."""
    rank, groups = x.ndim - 2, geometry.get("groups", 1)
    strides, ends, dilations = plain(rank, **geometry)
    x = np.pad(x, ((0, 0), (0, 0), *ends))
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    extents = [(e - r) // s + 1 for e, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *extents))
    channels, filters = x.shape[1] // groups, w.shape[0] // groups
    for place in np.ndindex(*extents):
        cut = [slice(i * s, i * s + r, d) for i, s, r, d in zip(place, strides, reach, dilations, strict=True)]
        for group in range(groups):
            window = x[(slice(None), slice(group * channels, (group + 1) * channels), *cut)]
            rows, axes = slice(group * filters, (group + 1) * filters), tuple(range(1, rank + 2))
            y[(slice(None), rows, *place)] = np.tensordot(window, w[rows], (axes, axes))
    return y


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolution_is_the_sum_over_windows_and_its_transpose_the_adjoint(name, device):
    x_shape, w_shape, geometry = GEOMETRIES[name]
    random = np.random.default_rng(0)
    x, w = random.standard_normal(x_shape), random.standard_normal(w_shape)
    expected = convolved(x, w, **geometry)
    dy = random.standard_normal(expected.shape)
    fields = (x_shape[2:], w_shape[2:], *plain(x.ndim - 2, **geometry))
    extra = tuple((e + sum(ends) - d * (k - 1) - 1) % s for e, k, s, ends, d in zip(*fields, strict=True))
    with engine.device(device):
        found = engine.convolution(engine.asarray(x), engine.asarray(w), **geometry).numpy()
        back = engine.convolution_transpose(
            engine.asarray(dy), engine.asarray(w), output_padding=extra, **geometry
        ).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert back.shape == x_shape
    assert math.isclose((back * x).sum(), (dy * expected).sum(), rel_tol=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("name", GEOMETRIES)
def test_derivatives_of_convolutions_are_those_of_differences(name):
    x_shape, w_shape, geometry = GEOMETRIES[name]
    random = np.random.default_rng(1)
    with engine.device("reference"):
        engine.check_gradient(
            lambda x, w: engine.square(engine.convolution(x, w, **geometry)),
            random.standard_normal(x_shape), random.standard_normal(w_shape), order=2,
        )  # fmt: skip


def test_a_maximum_of_a_volume_is_the_first_of_equals():
    x = engine.asarray(np.ones((1, 1, 2, 2, 2)))
    (gradient,) = engine.gradients(engine.sum(nn.MaxPool3d(2)(x)), [x])
    np.testing.assert_array_equal(gradient.numpy().ravel(), [1, 0, 0, 0, 0, 0, 0, 0])


def test_nan_and_padding_in_pools_of_volumes():
    x = -np.ones((1, 1, 3, 3, 3))
    x[0, 0, 2, 2, 2] = np.nan
    found = nn.MaxPool3d(2, 2, 1)(engine.asarray(x)).numpy()
    assert np.isnan(found[0, 0, 1, 1, 1]) and (found.ravel()[:-1] == -1).all()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda padding: nn.Conv1d(2, 3, 5, padding=padding), (1, 2, 7)),
        (lambda padding: nn.Conv2d(2, 3, (3, 1), padding=padding, dilation=2), (1, 2, 7, 8)),
        (lambda padding: nn.Conv3d(2, 3, 3, padding=padding), (1, 2, 4, 5, 6)),
    ],
)
def test_layers_that_keep_the_extents(layer, shape):
    found = layer("same")
    assert found(engine.ones(shape)).shape == (1, 3, *shape[2:])
    assert layer("valid").padding == layer(0).padding and found.state_dict().keys() == layer(0).state_dict().keys()


def test_padding_by_name_that_can_not_be_is_refused_by_the_layer():
    for problem, options in (("keeps the extents", {"stride": 2}), ("no such padding", {"padding": "full"})):
        with pytest.raises(TrainerError, match=f"Conv2d: .*{problem}"):
            nn.Conv2d(2, 3, 3, **{"padding": "same", **options})


@pytest.mark.parametrize(
    ("layer", "shape", "said"),
    [
        (lambda: nn.Conv1d(4, 6, 3), (2, 4, 8, 8), r"\[N, 4, L\]"),
        (lambda: nn.Conv3d(4, 6, 3), (2, 4, 8, 8), r"\[N, 4, D, H, W\]"),
        (lambda: nn.Conv3d(4, 6, 3), (2, 4, 2, 8, 8), "geometry"),
        (lambda: nn.MaxPool1d(2), (2, 4), r"\[N, C, L\]"),
        (lambda: nn.Conv3d(4, 6, (3, 3)), (2, 4, 8, 8, 8), "kernel_size"),
        (lambda: nn.BatchNorm3d(4), (2, 4, 3, 3), "5 axes"),
        (lambda: nn.PReLU(3), (2, 4, 3), r"\[1\] or \[C\]"),
        (lambda: nn.spectral_norm(nn.ReLU()), (2, 4), "no parameter 'weight'"),
    ],
)
def test_wrong_shapes_are_refused(layer, shape, said):
    with pytest.raises(TrainerError, match=said):
        layer()(engine.zeros(shape))


def test_bilinear_is_the_form_of_its_table():
    layer = nn.Bilinear(3, 4, 2).astype(engine.float64)
    random = np.random.default_rng(2)
    x1, x2 = random.standard_normal((5, 2, 3)), random.standard_normal((5, 2, 4))
    weight, bias = layer.weight.numpy(), layer.bias.numpy()
    assert weight.shape == (2, 3, 4) and bias.shape == (2,)
    with engine.device("reference"):
        found = layer(engine.asarray(x1), engine.asarray(x2)).numpy()
    np.testing.assert_allclose(found, np.einsum("abi,kij,abj->abk", x1, weight, x2) + bias, rtol=1e-10)


def test_normalized_weights_start_as_what_they_were():
    plain, normed = nn.Sequential(nn.Conv2d(3, 4, 3)), nn.Sequential(nn.weight_norm(nn.Conv2d(3, 4, 3)))
    normed.load_state_dict({"0.weight_v": plain[0].weight.numpy(), "0.bias": plain[0].bias.numpy()}, strict=False)
    x = engine.asarray(np.random.default_rng(3).standard_normal((2, 3, 6, 6)).astype(np.float32))
    np.testing.assert_allclose(normed(x).numpy(), plain(x).numpy(), rtol=1e-5, atol=1e-5)
    assert set(normed.state_dict()) == {"0.weight_g", "0.weight_v", "0.bias"}
    assert normed[0].weight_g.shape == (4, 1, 1, 1)


def test_spectral_norm_finds_the_largest_singular_value_in_a_traced_step():
    layer = nn.spectral_norm(nn.Linear(5, 4))

    @engine.trace
    def step(x):
        return layer(x), layer.weight

    for _ in range(200):
        _, weight = step(np.ones((2, 5), np.float32))
    original = layer.weight_orig.numpy()
    np.testing.assert_allclose(weight.numpy(), original / np.linalg.svd(original)[1][0], rtol=1e-4, atol=1e-6)
    before = layer.weight_u.numpy()
    layer.eval()(engine.ones((2, 5))).numpy()
    np.testing.assert_array_equal(layer.weight_u.numpy(), before)
