"""Compares our contractions with the peers': convolutions in three directions and matrix products, including packing.

Each layer and product is a figure. `FAMILIES` take the geometric mean over the layers of ResNet-50 at batch 8, over
products from 64 to 4096 (relative to PyTorch and to NumPy's BLAS), over depthwise layers and small groups, and over the
3x3 layers of ResNet-50 in the numerics class "fast".
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from harness import BestPolicy, Family, Figure

from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.storage import aligned_empty
from trainer.engine.targets.cpu import defaults, native
from trainer.engine.targets.cpu.kernels import pack, winograd_choice
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec
from trainer.engine.targets.cpu.kernels.totals import TotalsSpec
from trainer.engine.targets.cpu.machine import host_machine
from trainer.engine.targets.cpu.pool import BARRIER, RECORD_WORDS, shared_pool
from trainer.engine.targets.cpu.templates import (
    contraction,
    convolution,
    depthwise,
    depthwise_weights,
    weight_gradient,
    winograd,
    winograd_gradient,
)
from trainer.engine.targets.cpu.templates.contraction import MatmulSpec
from trainer.engine.targets.cpu.templates.depthwise import ExchangedWeights
from trainer.engine.targets.cpu.templates.winograd import WinogradWeights

REPETITIONS = 5
PEERS = Path(__file__).parent / "workloads"
LEAST = 0.7
"""No contraction may run below this share of the peer's speed."""

RESNET_50 = [  # channels, size, filters, window, stride: every convolution of ResNet-50, once
    (3, 224, 64, 7, 2),
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1),
    (128, 56, 128, 3, 2),
    (128, 28, 512, 1, 1),
    (256, 56, 512, 1, 2),
    (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1),
    (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2),
    (256, 14, 1024, 1, 1),
    (512, 28, 1024, 1, 2),
    (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1),
    (1024, 14, 512, 1, 1),
    (512, 14, 512, 3, 2),
    (512, 7, 2048, 1, 1),
    (1024, 14, 2048, 1, 2),
    (2048, 7, 512, 1, 1),
    (512, 7, 512, 3, 1),
]
FURTHER = [  # images, channels, size, filters, window, stride, padding: other networks' layers
    (8, 64, 64, 128, 4, 2, 1),
    (1, 512, 32, 512, 4, 2, 1),
    (16, 128, 56, 256, 5, 2, 2),
    (16, 3, 112, 64, 5, 2, 2),
    (128, 1, 28, 32, 3, 1, 1),
    (128, 32, 28, 64, 3, 1, 1),
]
GROUPED = [  # images, channels, size, filters, window, stride, padding, groups: MobileNet, EfficientNet, ResNeXt
    (8, 32, 112, 32, 3, 1, 1, 32),
    (8, 96, 56, 96, 3, 1, 1, 96),
    (8, 96, 56, 96, 5, 1, 2, 96),
    (8, 144, 56, 144, 3, 2, 1, 144),
    (8, 576, 14, 576, 3, 1, 1, 576),
    (8, 960, 7, 960, 5, 1, 2, 960),
    (8, 128, 56, 128, 3, 1, 1, 32),
    (8, 256, 28, 256, 3, 1, 1, 32),
    (8, 512, 28, 512, 3, 2, 1, 128),
]
PRODUCTS = [  # rows, depth, columns
    *((size, size, size) for size in (64, 128, 256, 512, 1024, 2048, 4096)),
    *((size, size, size) for size in (67, 131, 257, 509, 1021, 2053)),
    (128, 784, 512),
    (128, 512, 10),
    (8, 2048, 1000),
    (4096, 64, 4096),
    (64, 4096, 64),
    (1000, 333, 77),
]
DIRECTIONS = {
    "conv_forward": "forward",
    "conv_data_gradient": "input_gradient",
    "conv_weight_gradient": "weight_gradient",
}
SIDES = {"matmul": "product", "matmul_left_gradient": "left_gradient", "matmul_right_gradient": "right_gradient"}

Call = tuple[str, list[np.ndarray | int], int]
"""The module of a kernel named `kernel`, its arrays and the words after their addresses, and its number of tasks."""


def _random(*shape: int) -> np.ndarray:
    array = aligned_empty(int(np.prod(shape)), np.dtype(np.float32))
    array[:] = np.random.default_rng(0).standard_normal(array.size, np.float32)
    return array


def _packing(spec: pack.PackSpec, source: np.ndarray) -> tuple[Call, np.ndarray]:
    packed = _random(spec.size)
    return (spec.render("kernel"), [source, packed, *spec.words], spec.tasks), packed


def _specification(kind: str, numbers: tuple[int, ...]) -> ConvolutionSpec:
    images, channels, size, filters, window, stride, padding, groups = (*numbers, 1)[:8]
    edge = (padding, padding)
    return ConvolutionSpec(
        float32, kind, images, channels, (size, size), filters, (window, window), (stride, stride), (edge, edge),
        groups=groups,
    )  # fmt: skip


def _gradient_calls(
    ir: str, arrays: list[np.ndarray], tasks: int, sums: TotalsSpec, words: tuple[int, ...] = ()
) -> list[Call]:
    """Calls of a weight gradient, and of the sum over its groups of blocks if there are several."""
    parts = _random(sums.size)
    calls: list[Call] = [(ir, [*arrays, parts, *words], tasks)]
    if sums.is_needed:
        calls.append((sums.render("kernel"), [parts, _random(sums.weights), *sums.words], sums.tasks))
    return calls


def _grouped_calls(kind: str, numbers: tuple[int, ...]) -> list[Call]:
    """Calls of depthwise convolutions and of convolutions with small groups."""
    spec = _specification(kind, numbers)
    alone = depthwise.depthwise(spec)
    if alone is None:
        raise ValueError(f"not a convolution of small groups: {numbers}")
    x, y = _random(spec.images, *spec.spatial, spec.channels), _random(spec.images, *spec.output_spatial, spec.filters)
    w, parameters = _random(*spec.window, alone.group, spec.filters), defaults.choose(alone)
    if kind == "weight_gradient":
        ir, tasks = (
            depthwise_weights.TEMPLATE.render(alone, parameters, "kernel"),
            depthwise_weights.TEMPLATE.tasks(alone, parameters),
        )
        return _gradient_calls(ir, [x, y], tasks, weight_gradient.totals_of(spec))
    calls = []
    if alone.exchanges:
        exchanged = _random(w.size)
        calls.append((ExchangedWeights(alone).render("kernel"), [w, exchanged], ExchangedWeights(alone).tasks))
        w = exchanged
    arrays = [x, w, y] if kind == "forward" else [y, w, x]
    ir = depthwise.TEMPLATE.render(alone, parameters, "kernel")
    return [*calls, (ir, arrays, depthwise.TEMPLATE.tasks(alone, parameters))]


def _fast_calls(kind: str, numbers: tuple[int, ...]) -> list[Call]:
    """Calls in the numerics class "fast": Winograd's algorithm for the shapes that it suits."""
    spec = _specification(kind, numbers)
    fast = winograd_choice.algorithm(spec)
    if fast is None:
        return _convolution_calls(kind, numbers)
    x, y = _random(spec.images, *spec.spatial, spec.channels), _random(spec.images, *spec.output_spatial, spec.filters)
    if kind == "weight_gradient":
        choice = defaults.choose(fast)
        ir, tasks = (
            winograd_gradient.TEMPLATE.render(fast, choice, "kernel"),
            winograd_gradient.TEMPLATE.tasks(fast, choice),
        )
        return _gradient_calls(ir, [x, y], tasks, winograd_gradient.totals_of(fast))
    call, packed = _packing(convolution.pack_spec(spec), _random(*spec.window, spec.channels, spec.filters))
    weights, parameters = _random(WinogradWeights(fast).size), defaults.choose(fast)
    transform = WinogradWeights(fast).render("kernel"), [packed, weights], WinogradWeights(fast).tasks
    arrays = [x, weights, y] if kind == "forward" else [y, weights, x]
    return [
        call,
        transform,
        (winograd.TEMPLATE.render(fast, parameters, "kernel"), arrays, winograd.TEMPLATE.tasks(fast, parameters)),
    ]


def _convolution_calls(kind: str, numbers: tuple[int, ...]) -> list[Call]:
    spec = _specification(kind, numbers)
    spec = replace(spec, packed=defaults.prefers_packed(spec, host_machine()))
    x, y = _random(spec.images, *spec.spatial, spec.channels), _random(spec.images, *spec.output_spatial, spec.filters)
    w, parameters, calls = _random(*spec.window, spec.channels, spec.filters), defaults.choose(spec), []
    if kind == "weight_gradient":
        ir, tasks = (
            weight_gradient.TEMPLATE.render(spec, parameters, "kernel"),
            weight_gradient.TEMPLATE.tasks(spec, parameters),
        )
        return _gradient_calls(ir, [x, y], tasks, weight_gradient.totals_of(spec), weight_gradient.words(spec))
    if spec.packed:
        call, w = _packing(convolution.pack_spec(spec), w)
        calls.append(call)
    arrays = [x, w, y] if kind == "forward" else [y, w, x]
    ir = convolution.TEMPLATE.render(spec, parameters, "kernel")
    return [*calls, (ir, [*arrays, *convolution.words(spec)], convolution.TEMPLATE.tasks(spec, parameters))]


def _product_calls(kind: str, numbers: tuple[int, ...]) -> list[Call]:
    m, k, n = numbers
    spec = {
        "product": MatmulSpec(float32, m, n, k, (k, 1), (n, 1)),
        "left_gradient": MatmulSpec(float32, m, k, n, (n, 1), (1, n)),
        "right_gradient": MatmulSpec(float32, k, n, m, (1, k), (n, 1)),
    }[kind]
    spec = replace(spec, packed=defaults.prefers_packed(spec, host_machine()))
    a, b, output = _random(spec.rows, spec.depth), _random(spec.depth, spec.columns), _random(spec.rows, spec.columns)
    calls: list[Call] = []
    if spec.packed:
        call, b = _packing(contraction.pack_spec(spec), b)
        calls.append(call)
    parameters = defaults.choose(spec)
    ir = contraction.TEMPLATE.render(spec, parameters, "kernel")
    return [*calls, (ir, [a, b, output], contraction.TEMPLATE.tasks(spec, parameters))]


@functools.lru_cache(maxsize=1)
def _program(kind: str, numbers: tuple[int, ...]) -> Callable[[], None]:
    """Returns a function that runs the calls as a tape on the pool's threads."""
    if kind.startswith("fast_"):
        calls = _fast_calls(kind.removeprefix("fast_"), numbers)
    else:
        calls = {3: _product_calls, 7: _convolution_calls, 8: _grouped_calls}[len(numbers)](kind, numbers)
    libraries = [native.link({"kernel": native.compile_object(ir)}) for ir, _, _ in calls]
    blocks = [
        np.array([each if isinstance(each, int) else each.ctypes.data for each in arrays], np.int64)
        for _, arrays, _ in calls
    ]
    tape = aligned_empty(RECORD_WORDS * len(calls), np.dtype(np.int64))
    tape[:] = 0
    for number, (library, block, (_, _, tasks)) in enumerate(zip(libraries, blocks, calls, strict=True)):
        tape[RECORD_WORDS * number :][:4] = library["kernel"], block.ctypes.data, tasks, BARRIER
    keep = libraries, blocks, calls

    def run() -> None:
        shared_pool().run(tape.ctypes.data, len(keep[2]))

    for _ in range(3):
        run()
    return run


def ours(kind: str, numbers: tuple[int, ...]) -> float:
    """Milliseconds of one call through the pool."""
    run, times = _program(kind, numbers), []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


@functools.cache
def _peer(python: str, script: str) -> BestPolicy:
    threads = str(shared_pool().threads)
    return BestPolicy(python, str(PEERS / script), threads, OPENBLAS_NUM_THREADS=threads)


def peer(script: str, kind: str, numbers: tuple[int, ...], python: str) -> float:
    """Milliseconds of the same call in PyTorch or NumPy."""
    return _peer(python, script)(f"{kind} {' '.join(map(str, numbers))}")


def _figure(
    family: str, kind: str, numbers: tuple[int, ...], *, bar: float = LEAST, script: str = "torch_contractions.py"
) -> Figure:
    return Figure(
        f"{family}/{'x'.join(map(str, numbers))}",
        functools.partial(ours, kind, numbers),
        functools.partial(peer, script, kind.removeprefix("fast_"), numbers),
        bar,
        needs_peer_python=script.startswith("torch"),
        rounds=3,
    )


def _family(name: str, bar: float, figures: list[Figure]) -> Family:
    return Family(name, tuple(figures), bar)


_LAYERS = [(8, *layer, layer[3] // 2) for layer in RESNET_50]
_FAST_LAYERS = [layer for layer in _LAYERS if layer[4:6] == (3, 1)]

FAMILIES = [
    *(
        _family(name, 1.2 if kind == "weight_gradient" else 0.95, [_figure(name, kind, layer) for layer in _LAYERS])
        for name, kind in DIRECTIONS.items()
    ),
    *(
        _family(f"{name}_of_other_networks", 0.95, [_figure(f"{name}_other", kind, layer) for layer in FURTHER])
        for name, kind in DIRECTIONS.items()
    ),
    *(
        _family(f"{name}_of_small_groups", 0.95, [_figure(f"{name}_groups", kind, layer) for layer in GROUPED])
        for name, kind in DIRECTIONS.items()
    ),
    *(
        _family(f"{name}_fast", 1.2, [_figure(f"{name}_fast", f"fast_{kind}", layer) for layer in _FAST_LAYERS])
        for name, kind in DIRECTIONS.items()
    ),
    *(_family(name, 0.95, [_figure(name, kind, sizes) for sizes in PRODUCTS]) for name, kind in SIDES.items()),
    _family(
        "matmul_beside_numpy",
        0.95,
        [_figure("matmul_numpy", "product", sizes, script="numpy_products.py") for sizes in PRODUCTS],
    ),
]
