"""Times operations of arrays and networks. Each line of standard input names a case; the answer is the milliseconds of
a call (median of several).

Usage: operations.py trainer|numpy|torch
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LEAST_CALLS, MOST_CALLS, SECONDS = 3, 40, 0.25
"""Minimum and maximum number of timed calls for an answer, and maximum seconds."""

Cases = dict[str, Callable[[], Callable[[], object]]]
"""By name, a function that creates the data of a case and returns the timed call."""

EINSUMS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "einsum_transposed": ("ij,kj->ik", ((512, 768), (640, 768))),
    "einsum_batched": ("bij,bjk->bik", ((16, 128, 96), (16, 96, 128))),
    "einsum_scores": ("bqhd,bkhd->bhqk", ((4, 128, 8, 64), (4, 128, 8, 64))),
    "einsum_values": ("bhqk,bkhd->bqhd", ((4, 8, 128, 128), (4, 128, 8, 64))),
    "einsum_dots": ("bi,bi->b", ((2048, 512), (2048, 512))),
}
SORTED = 1_000_000
BATCH, CHANNELS, EXTENT = 8, 32, 64


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def whole(limit: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, limit, shape)


def places(*shape: int) -> np.ndarray:
    """Returns a sampling grid of uniform random positions in -1 to 1."""
    return np.random.default_rng(1).uniform(-1, 1, (*shape, 2)).astype(np.float32)


def of_trainer() -> Cases:
    from trainer import engine
    from trainer.engine import nn
    from trainer.engine.nn import functional as F

    def traced(function: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], object]:
        step, tensors = engine.trace(function), [engine.asarray(array) for array in arrays]
        return lambda: step(*tensors)

    def eager(function: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], object]:
        tensors = [engine.asarray(array) for array in arrays]
        return lambda: engine.evaluate(function(*tensors))

    def backward(weight: Any, indices: Any, factors: Any) -> Any:
        return engine.gradients(engine.sum(engine.take(weight, indices, axis=0) * factors), [weight])[0]

    def layer_norm() -> Callable[[], object]:
        layer = nn.LayerNorm(768)
        layer.load_state_dict({"weight": np.ones(768, np.float32), "bias": np.zeros(768, np.float32)})
        return traced(lambda x: layer(x), values(2048, 768))

    def written_out(x: Any, w: Any) -> Any:
        places = engine.windows(x, (3, 3), axis=(2, 3))
        return engine.sum(places[:, None] * w[None, :, :, None, None], axis=(2, 5, 6))

    def chain(x: Any) -> Any:
        y = x
        for _ in range(5):
            y = y * 1.01 + 0.5
        return y

    cases: Cases = {
        "sort": lambda: traced(engine.sort, values(SORTED)),
        "argsort": lambda: traced(engine.argsort, values(SORTED)),
        "top_k": lambda: traced(lambda x: engine.top_k(x, 8), values(64, 10_000)),
        "unique": lambda: eager(engine.unique_values, whole(1000, SORTED)),
        "cumulative_sum": lambda: traced(lambda x: engine.cumulative_sum(x, axis=1), values(1000, 1000)),
        "gather": lambda: traced(
            lambda x, i: engine.take(x, i, axis=0), values(100_000, 64), whole(100_000, 50_000).astype(np.int32)
        ),
        "scatter": lambda: traced(
            lambda x, i: engine.segment_sum(x, i, 10_000), values(50_000, 64), whole(10_000, 50_000)
        ),
        "boolean_selection": lambda: eager(lambda x, mask: x[mask], values(SORTED), values(SORTED, seed=1) > 0),
        "interpolate": lambda: traced(
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), values(BATCH, CHANNELS, EXTENT, EXTENT)
        ),
        "grid_sample": lambda: traced(
            F.grid_sample, values(BATCH, CHANNELS, EXTENT, EXTENT), places(BATCH, EXTENT, EXTENT)
        ),
        "deformable_convolution": lambda: traced(
            lambda x, offset, weight: F.deform_conv2d(x, offset, weight, padding=1),
            values(2, 32, 32, 32), values(2, 18, 32, 32, seed=1), values(32, 32, 3, 3, seed=2),
        ),
        "embedding_backward": lambda: traced(backward, values(20_000, 128), whole(20_000, 8192), values(8192, 128)),
        "softmax": lambda: traced(F.softmax, values(1024, 1024)),
        "layer_norm": layer_norm,
        "conv1d": lambda: traced(
            lambda x, w: engine.convolution(x, w, padding=2), values(16, 64, 1024), values(64, 64, 5, seed=1)
        ),
        "conv3d": lambda: traced(
            lambda x, w: engine.convolution(x, w, padding=1), values(2, 16, 16, 32, 32), values(32, 16, 3, 3, 3, seed=1)
        ),
        "chain": lambda: traced(chain, values(4_000_000)),
        "written_out": lambda: traced(written_out, values(8, 64, 58, 58), values(64, 64, 3, 3, seed=1)),
        "built_in": lambda: traced(engine.convolution, values(8, 64, 58, 58), values(64, 64, 3, 3, seed=1)),
    }  # fmt: skip
    for name, (subscripts, shapes) in EINSUMS.items():
        arrays = [values(*shape, seed=seed) for seed, shape in enumerate(shapes)]
        cases[name] = lambda text=subscripts, arrays=arrays: traced(lambda *x: engine.einsum(text, *x), *arrays)  # type: ignore[misc]
    return cases


def of_numpy() -> Cases:
    def timed(function: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], object]:
        return lambda: function(*arrays)

    def top_k(x: np.ndarray) -> Any:
        found = np.argpartition(x, -8, axis=1)[:, -8:]
        best = np.take_along_axis(x, found, 1)
        order = np.argsort(-best, axis=1)
        return np.take_along_axis(best, order, 1), np.take_along_axis(found, order, 1)

    def scatter(x: np.ndarray, i: np.ndarray) -> np.ndarray:
        total = np.zeros((10_000, x.shape[1]), x.dtype)
        np.add.at(total, i, x)
        return total

    cases: Cases = {
        "sort": lambda: timed(np.sort, values(SORTED)),
        "argsort": lambda: timed(np.argsort, values(SORTED)),
        "top_k": lambda: timed(top_k, values(64, 10_000)),
        "unique": lambda: timed(np.unique, whole(1000, SORTED)),
        "cumulative_sum": lambda: timed(lambda x: np.cumsum(x, axis=1), values(1000, 1000)),
        "gather": lambda: timed(lambda x, i: x[i], values(100_000, 64), whole(100_000, 50_000).astype(np.int32)),
        "scatter": lambda: timed(scatter, values(50_000, 64), whole(10_000, 50_000)),
        "boolean_selection": lambda: timed(lambda x, mask: x[mask], values(SORTED), values(SORTED, seed=1) > 0),
    }
    for name, (subscripts, shapes) in EINSUMS.items():
        arrays = [values(*shape, seed=seed) for seed, shape in enumerate(shapes)]
        cases[name] = lambda text=subscripts, arrays=arrays: timed(  # type: ignore[misc]
            lambda *x: np.einsum(text, *x, optimize=True), *arrays
        )
    return cases


def of_torch() -> Cases:
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def timed(function: Callable[..., Any], *arrays: np.ndarray) -> Callable[[], object]:
        tensors = [torch.from_numpy(array) for array in arrays]

        def call() -> object:
            with torch.no_grad():
                return function(*tensors)

        return call

    def backward() -> Callable[[], object]:
        weight = torch.from_numpy(values(20_000, 128)).requires_grad_()
        indices, factors = torch.from_numpy(whole(20_000, 8192)), torch.from_numpy(values(8192, 128))
        return lambda: torch.autograd.grad((F.embedding(indices, weight) * factors).sum(), weight)

    def deformed(x: Any, offset: Any, weight: Any) -> Any:
        batch, channels, height, width = x.shape
        moves = offset.reshape(batch, 9, 2, height, width)
        down, across = torch.meshgrid(torch.arange(3.0) - 1, torch.arange(3.0) - 1, indexing="ij")
        rows = torch.arange(float(height)).reshape(height, 1) + down.reshape(9, 1, 1) + moves[:, :, 0]
        columns = torch.arange(float(width)) + across.reshape(9, 1, 1) + moves[:, :, 1]
        grid = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], -1)
        found = F.grid_sample(x, grid.reshape(batch, 9 * height, width, 2), align_corners=False)
        return weight.reshape(len(weight), -1) @ found.reshape(batch, channels * 9, height * width)

    def chain(x: Any) -> Any:
        y = x
        for _ in range(5):
            y = y * 1.01 + 0.5
        return y

    def layer_norm() -> Callable[[], object]:
        layer = torch.nn.LayerNorm(768)
        return timed(layer, values(2048, 768))

    cases: Cases = {
        "sort": lambda: timed(lambda x: torch.sort(x).values, values(SORTED)),
        "argsort": lambda: timed(torch.argsort, values(SORTED)),
        "top_k": lambda: timed(lambda x: torch.topk(x, 8), values(64, 10_000)),
        "unique": lambda: timed(torch.unique, whole(1000, SORTED)),
        "cumulative_sum": lambda: timed(lambda x: torch.cumsum(x, 1), values(1000, 1000)),
        "gather": lambda: timed(
            lambda x, i: x.index_select(0, i), values(100_000, 64), whole(100_000, 50_000).astype(np.int32)
        ),
        "scatter": lambda: timed(
            lambda x, i: torch.zeros(10_000, 64).index_add_(0, i, x), values(50_000, 64), whole(10_000, 50_000)
        ),
        "boolean_selection": lambda: timed(lambda x, mask: x[mask], values(SORTED), values(SORTED, seed=1) > 0),
        "interpolate": lambda: timed(
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), values(BATCH, CHANNELS, EXTENT, EXTENT)
        ),
        "grid_sample": lambda: timed(
            lambda x, grid: F.grid_sample(x, grid, align_corners=False),
            values(BATCH, CHANNELS, EXTENT, EXTENT), places(BATCH, EXTENT, EXTENT),
        ),
        "deformable_convolution": lambda: timed(
            deformed, values(2, 32, 32, 32), values(2, 18, 32, 32, seed=1), values(32, 32, 3, 3, seed=2)
        ),
        "embedding_backward": backward,
        "softmax": lambda: timed(lambda x: F.softmax(x, -1), values(1024, 1024)),
        "layer_norm": layer_norm,
        "conv1d": lambda: timed(
            lambda x, w: F.conv1d(x, w, padding=2), values(16, 64, 1024), values(64, 64, 5, seed=1)
        ),
        "conv3d": lambda: timed(
            lambda x, w: F.conv3d(x, w, padding=1), values(2, 16, 16, 32, 32), values(32, 16, 3, 3, 3, seed=1)
        ),
        "chain": lambda: timed(chain, values(4_000_000)),
    }  # fmt: skip
    for name, (subscripts, shapes) in EINSUMS.items():
        arrays = [values(*shape, seed=seed) for seed, shape in enumerate(shapes)]
        cases[name] = lambda text=subscripts, arrays=arrays: timed(lambda *x: torch.einsum(text, *x), *arrays)  # type: ignore[misc]
    return cases


def milliseconds(call: Callable[[], object], seconds: float = SECONDS) -> float:
    """Returns the median time of one call: of LEAST_CALLS calls, or of those that begin within `seconds`."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < LEAST_CALLS or (len(times) < MOST_CALLS and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


if __name__ == "__main__":
    cases = {"trainer": of_trainer, "numpy": of_numpy, "torch": of_torch}[sys.argv[1]]()
    known: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in known:
            known[name] = cases[name]()
            known[name]()  # compiles, or warms up
        print(milliseconds(known[name]), flush=True)
