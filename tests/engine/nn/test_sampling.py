"""Reading pictures between pixels, against loops over places and pixels in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.engine.nn import functional as F

Picture = np.ndarray


@pytest.fixture(autouse=True)
def on_the_reference_device() -> Iterator[None]:
    with engine.device("reference"):
        yield


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def mirrored(place: float, extent: int, align_corners: bool) -> float:
    """Step by step: turned back at each edge until it lies inside."""
    low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
    if low == high:
        return 0.0
    while not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return min(max(place, 0.0), extent - 1.0)


def held(place: float, extent: int, padding: str, align_corners: bool) -> float:
    if padding == "reflection":
        return mirrored(place, extent, align_corners)
    return min(max(place, 0.0), extent - 1.0) if padding == "border" else place


def keys(distance: float, a: float = -0.75) -> float:
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def read(x: Picture, row: float, column: float, mode: str, padding: str, align_corners: bool) -> np.ndarray:
    """One place of [C, H, W]: every pixel's weight by its distance."""
    extents = x.shape[1:]
    if mode != "bicubic":
        row, column = (held(p, n, padding, align_corners) for p, n in zip((row, column), extents, strict=True))
    reach, weight = {"bilinear": (1, lambda d: max(0.0, 1 - abs(d))), "bicubic": (2, keys)}.get(mode, (0, None))
    if mode == "nearest":
        places = [(round(row), round(column), 1.0)]
    else:
        top, left = math.floor(row), math.floor(column)
        span = range(1 - reach, reach + 1)
        places = [(top + i, left + j, weight(row - top - i) * weight(column - left - j)) for i in span for j in span]
    total = np.zeros(len(x))
    for r, c, share in places:
        if mode == "bicubic":
            r, c = (round(held(p, n, padding, align_corners)) for p, n in zip((r, c), extents, strict=True))
        if 0 <= r < extents[0] and 0 <= c < extents[1]:
            total += share * x[:, r, c]
    return total


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, align_corners: bool) -> None:
    x, grid = normal(2, 3, 4, 5), np.random.default_rng(1).uniform(-2.2, 2.2, (2, 3, 6, 2))
    expected = np.zeros((2, 3, 3, 6))
    for n, p, q in np.ndindex(2, 3, 6):
        places = [
            (g + 1) / 2 * (extent - 1) if align_corners else ((g + 1) * extent - 1) / 2
            for g, extent in zip(grid[n, p, q], (5, 4), strict=True)
        ]
        expected[n, :, p, q] = read(x[n], places[1], places[0], mode, padding, align_corners)
    found = F.grid_sample(engine.asarray(x), engine.asarray(grid), mode, padding, align_corners)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", pytest.param("bicubic", marks=pytest.mark.full)])
def test_derivatives_of_grid_sample(mode: str, padding: str) -> None:
    grid = np.random.default_rng(1).uniform(-1.4, 1.4, (1, 2, 3, 2))
    check_derivatives(lambda x, g: F.grid_sample(x, g, mode, padding), normal(1, 2, 4, 5), grid)


def test_a_grid_sample_of_one_pixel() -> None:
    x, grid = np.full((1, 1, 1, 1), 3.0), np.array([[[[0.0, 0.0], [5.0, -5.0]]]])
    for padding, expected in (("zeros", [3.0, 0.0]), ("border", [3.0, 3.0]), ("reflection", [3.0, 3.0])):
        for align_corners in (False, True):
            if padding == "zeros" and align_corners:
                continue  # all places are the pixel's
            found = F.grid_sample(engine.asarray(x), engine.asarray(grid), "bilinear", padding, align_corners)
            assert found.numpy().ravel().tolist() == expected


def test_sampling_that_can_not_be_is_refused() -> None:
    x, grid = engine.zeros((1, 1, 2, 2)), engine.zeros((1, 1, 1, 2))
    with pytest.raises(TrainerError, match="unknown mode"):
        F.grid_sample(x, grid, "cubic")
    with pytest.raises(TrainerError, match="shapes don't fit"):
        F.grid_sample(x, grid[..., :1])
    with pytest.raises(TrainerError, match="sampling_ratio"):
        F.roi_align(x, engine.zeros((1, 5)), 2, sampling_ratio=0)
    with pytest.raises(TrainerError, match="shapes don't fit"):
        F.deform_conv2d(x, engine.zeros((1, 17, 2, 2)), engine.zeros((1, 1, 3, 3)), padding=1)
    with pytest.raises(TrainerError, match="shapes don't fit"):
        F.affine_grid(engine.zeros((1, 2, 2)), (1, 1, 2, 2))
    with pytest.raises(TrainerError, match="shapes don't fit"):
        F.warp_perspective(x, engine.zeros((1, 2, 3)), (2, 2))


@pytest.mark.parametrize("align_corners", [False, True])
def test_affine_grid(align_corners: bool) -> None:
    theta = normal(2, 2, 3)
    found = F.affine_grid(engine.asarray(theta), (2, 1, 3, 4), align_corners).numpy()
    for n, i, j in np.ndindex(2, 3, 4):
        x, y = (2 * p / (m - 1) - 1 if align_corners else (2 * p + 1) / m - 1 for p, m in ((j, 4), (i, 3)))
        np.testing.assert_allclose(found[n, i, j], theta[n] @ [x, y, 1.0], rtol=1e-6, atol=1e-6)
    check_derivatives(lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners), theta)


def test_warp_perspective_takes_pixels_where_the_matrix_says() -> None:
    x = normal(2, 3, 5, 6)
    matrix = np.eye(3) + 0.1 * normal(2, 3, 3, seed=1) * np.array([[1, 1, 5], [1, 1, 5], [0.2, 0.2, 1]])
    found = F.warp_perspective(engine.asarray(x), engine.asarray(matrix), (4, 7)).numpy()
    for n, i, j in np.ndindex(2, 4, 7):
        column, row, scale = np.linalg.inv(matrix[n]) @ [j, i, 1.0]
        expected = read(x[n], row / scale, column / scale, "bilinear", "zeros", True)
        np.testing.assert_allclose(found[n, :, i, j], expected, rtol=1e-8, atol=1e-8)
    check_derivatives(lambda t, m: F.warp_perspective(t, m, (3, 3)), x[:1], matrix[:1])


@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(aligned: bool) -> None:
    x = normal(2, 3, 6, 7)
    boxes = np.array([[0, 1.0, 2.0, 9.0, 8.0], [1, 0.0, 0.0, 0.5, 0.3], [1, -4.0, 6.0, 20.0, 30.0]])
    found = F.roi_align(engine.asarray(x), engine.asarray(boxes), (2, 3), 0.5, 2, aligned).numpy()
    for k, i, j in np.ndindex(3, 2, 3):
        left, top, right, bottom = boxes[k, 1:] * 0.5 - (0.5 if aligned else 0.0)
        height, width = (max(e, -math.inf if aligned else 1.0) for e in (bottom - top, right - left))
        total = np.zeros(3)
        for a, b in np.ndindex(2, 2):
            row, column = top + (i + (a + 0.5) / 2) * height / 2, left + (j + (b + 0.5) / 2) * width / 3
            if -1 <= row <= 6 and -1 <= column <= 7:
                row, column = min(max(row, 0.0), 5.0), min(max(column, 0.0), 6.0)
                total += read(x[int(boxes[k, 0])], row, column, "bilinear", "zeros", True) / 4
        np.testing.assert_allclose(found[k, :, i, j], total, rtol=1e-9, atol=1e-9)
    numbers = boxes[:, :1]
    check_derivatives(
        lambda t, b: F.roi_align(t, engine.concat([engine.asarray(numbers), b], axis=1), 2, 0.5, 2, aligned),
        x, boxes[:, 1:] + 0.1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "parts", "has_mask"),
    tiered(((2, 2, True), (1, 1, False), (2, 1, True), (1, 2, False)), ((2, 2, True),)),
)
def test_deformable_convolution_and_all_its_gradients(groups: int, parts: int, has_mask: bool) -> None:
    x, weight, bias = normal(2, 4, 5, 6), normal(6, 4 // groups, 3, 2, seed=1), normal(6, seed=2)
    geometry: dict[str, Any] = {"stride": (2, 1), "padding": (1, 1), "dilation": (1, 2)}
    extents = ((5 + 2 - 2 - 1) // 2 + 1, 6 + 2 - 2 - 1 + 1)
    offset = normal(2, 2 * parts * 6, *extents, seed=3) * 1.5
    mask = np.random.default_rng(4).uniform(0, 1, (2, parts * 6, *extents)) if has_mask else None
    expected = np.zeros((2, 6, *extents))
    for n, k, p, q in np.ndindex(expected.shape):
        total = bias[k]
        for c, r, s in np.ndindex(4 // groups, 3, 2):
            channel = k // (6 // groups) * (4 // groups) + c
            part, tap = channel // (4 // parts), r * 2 + s
            moves = offset[n, 2 * (part * 6 + tap) : 2 * (part * 6 + tap) + 2, p, q]
            row, column = p * 2 - 1 + r + moves[0], q - 1 + 2 * s + moves[1]
            found = read(x[n, channel : channel + 1], row, column, "bilinear", "zeros", False)[0]
            total += weight[k, c, r, s] * found * (1.0 if mask is None else mask[n, part * 6 + tap, p, q])
        expected[n, k, p, q] = total

    def run(*arrays: Any) -> engine.Tensor:
        factors = arrays[4] if has_mask else None
        return F.deform_conv2d(*(arrays[:4]), mask=factors, **geometry)

    arrays = [x, offset, weight, bias, *([mask] if mask is not None else [])]
    np.testing.assert_allclose(run(*map(engine.asarray, arrays)).numpy(), expected, rtol=1e-9, atol=1e-9)
    check_derivatives(run, *arrays)


def test_a_compiled_deformable_convolution_equals_the_reference() -> None:
    arrays = [normal(*s, seed=i).astype(np.float32) for i, s in enumerate(((1, 3, 6, 6), (1, 18, 6, 6), (4, 3, 3, 3)))]
    arrays[1] *= 2

    def step(*tensors: engine.Tensor) -> Any:
        y = F.deform_conv2d(*tensors, padding=1)
        return y, *engine.gradients(engine.sum(y * y), list(tensors))

    expected = step(*map(engine.asarray, arrays))
    with engine.device("cpu"):
        found = engine.trace(step)(*map(engine.asarray, arrays))
    for own, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(own.numpy(), reference.numpy(), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 4), (9, 2), (16, 20)])
def test_antialiased_resizing_stretches_the_filter_over_what_shrinks(mode: str, size: tuple[int, int]) -> None:
    x = normal(2, 2, 8, 10)
    kernel: Callable[[float], float] = (
        (lambda d: max(0.0, 1 - abs(d))) if mode == "bilinear" else (lambda d: keys(d, -0.5))
    )
    matrices = []
    for extent, count in zip(x.shape[2:], size, strict=True):
        scale = extent / count
        matrix = np.array(
            [[kernel(((i + 0.5) * scale - j - 0.5) / max(scale, 1.0)) for j in range(extent)] for i in range(count)]
        )
        matrices.append(matrix / matrix.sum(1, keepdims=True))
    found = F.interpolate(engine.asarray(x), size, mode=mode, antialias=True)
    np.testing.assert_allclose(found.numpy(), np.einsum("ph,nchw,qw->ncpq", matrices[0], x, matrices[1]), atol=1e-9)
    for options in ({"mode": "nearest"}, {"mode": mode, "align_corners": True}):
        with pytest.raises(TrainerError, match="antialias"):
            F.interpolate(engine.asarray(x), size, antialias=True, **options)
