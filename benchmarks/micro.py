"""Our contractions beside PyTorch's: convolutions in three directions and the products of an MLP, packing included.

python benchmarks/micro.py [conv_64x56_3x3_forward …] [--json] [--peer-python PATH] [--rounds N]
"""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from harness import Figure, checkout_environment, run_figures

from trainer.engine.autotune import defaults
from trainer.engine.devices.cpu import native
from trainer.engine.devices.cpu.pool import BARRIER, RECORD_WORDS, shared_pool
from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.storage import aligned_empty
from trainer.engine.kernels import contraction, convolution, pack, weight_gradient
from trainer.engine.kernels.contraction import MatmulSpec
from trainer.engine.kernels.geometry import ConvolutionSpec

REPETITIONS = 5
PEER = Path(__file__).parent / "workloads" / "torch_contractions.py"

CONVOLUTIONS = {  # images, channels, size, filters, window, stride, padding
    "conv_64x56_3x3": (8, 64, 56, 64, 3, 1, 1),
    "conv_128x28_3x3": (8, 128, 28, 128, 3, 1, 1),
    "conv_256x14_3x3": (8, 256, 14, 256, 3, 1, 1),
    "conv_512x7_3x3": (8, 512, 7, 512, 3, 1, 1),
    "conv_64x56_1x1_to_256": (8, 64, 56, 256, 1, 1, 0),
    "conv_256x56_1x1_to_64": (8, 256, 56, 64, 1, 1, 0),
    "conv_1024x14_1x1_to_256": (8, 1024, 14, 256, 1, 1, 0),
    "conv_64x64_4x4_stride_2": (8, 64, 64, 128, 4, 2, 1),
    "conv_3x224_7x7_stride_2": (8, 3, 224, 64, 7, 2, 3),
    "conv_1x28_3x3": (128, 1, 28, 32, 3, 1, 1),
    "conv_32x28_3x3": (128, 32, 28, 64, 3, 1, 1),
}
PRODUCTS = {"mlp_784x512": (128, 784, 512), "mlp_512x512": (128, 512, 512), "mlp_512x10": (128, 512, 10)}

Call = tuple[str, list[np.ndarray], int]
"""The module of a kernel named `kernel`, its arrays and its tasks."""


def _random(*shape: int) -> np.ndarray:
    array = aligned_empty(int(np.prod(shape)), np.dtype(np.float32))
    array[:] = np.random.default_rng(0).standard_normal(array.size, np.float32)
    return array


def _packing(spec: pack.PackSpec, source: np.ndarray) -> tuple[Call, np.ndarray]:
    packed = _random(spec.size)
    return (pack.render(spec, "kernel"), [source, packed], pack.tasks(spec)), packed


def _convolution_calls(kind: str, numbers: tuple[int, ...]) -> list[Call]:
    images, channels, size, filters, window, stride, padding = numbers
    edge = (padding, padding)
    spec = ConvolutionSpec(
        float32, kind, images, channels, (size, size), filters, (window, window), (stride, stride), (edge, edge)
    )
    spec = replace(spec, packed=defaults.prefers_packed(spec))
    x, y = _random(images, size, size, channels), _random(images, *spec.output_spatial, filters)
    w, parameters, calls = _random(window, window, channels, filters), defaults.choose(spec), []
    if kind == "weight_gradient":
        totals = _random(weight_gradient.totals_size(spec))
        ir = weight_gradient.render(spec, parameters, "kernel")
        calls.append((ir, [x, y, totals], weight_gradient.tasks(spec, parameters)))
        if weight_gradient.needs_combine(spec):
            ir = weight_gradient.render_combine(spec, "kernel")
            calls.append((ir, [totals, w], weight_gradient.combine_tasks(spec)))
        return calls
    if spec.packed:
        call, w = _packing(convolution.pack_spec(spec), w)
        calls.append(call)
    arrays = [x, w, y] if kind == "forward" else [y, w, x]
    ir = convolution.render(spec, parameters, "kernel")
    return [*calls, (ir, arrays, convolution.tasks(spec, parameters))]


def _product_calls(kind: str, numbers: tuple[int, ...]) -> list[Call]:
    m, k, n = numbers
    spec = {
        "product": MatmulSpec(float32, m, n, k, (k, 1), (n, 1)),
        "left_gradient": MatmulSpec(float32, m, k, n, (n, 1), (1, n)),
        "right_gradient": MatmulSpec(float32, k, n, m, (1, k), (n, 1)),
    }[kind]
    spec = replace(spec, packed=defaults.prefers_packed(spec))
    a, b, output = _random(spec.rows, spec.depth), _random(spec.depth, spec.columns), _random(spec.rows, spec.columns)
    calls: list[Call] = []
    if spec.packed:
        call, b = _packing(contraction.pack_spec(spec), b)
        calls.append(call)
    parameters = defaults.choose(spec)
    ir = contraction.render(spec, parameters, "kernel")
    return [*calls, (ir, [a, b, output], contraction.tasks(spec, parameters))]


@functools.lru_cache(maxsize=1)
def _program(kind: str, numbers: tuple[int, ...]) -> Callable[[], None]:
    """The calls as a tape that the pool's threads walk."""
    calls = (_product_calls if len(numbers) == 3 else _convolution_calls)(kind, numbers)
    libraries = [native.link({"kernel": native.compile_object(ir)}) for ir, _, _ in calls]
    blocks = [np.array([array.ctypes.data for array in arrays], np.int64) for _, arrays, _ in calls]
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


@functools.lru_cache(maxsize=1)
def _peer(python: str) -> subprocess.Popen[str]:
    command = [python, str(PEER), str(shared_pool().threads)]
    environment = checkout_environment(OMP_WAIT_POLICY=os.environ.get("OMP_WAIT_POLICY", "passive"))
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def peer(kind: str, numbers: tuple[int, ...], python: str) -> float:
    """Milliseconds of the same call in PyTorch."""
    process = _peer(python)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{kind} {' '.join(map(str, numbers))}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def _figure(name: str, kind: str, numbers: tuple[int, ...]) -> Figure:
    return Figure(
        f"{name}_{kind}", functools.partial(ours, kind, numbers), functools.partial(peer, kind, numbers), rounds=3
    )


FIGURES = [
    _figure(name, kind, numbers)
    for table, kinds in (
        (CONVOLUTIONS, ("forward", "input_gradient", "weight_gradient")),
        (PRODUCTS, ("product", "left_gradient", "right_gradient")),
    )
    for name, numbers in table.items()
    for kind in kinds
]

if __name__ == "__main__":
    sys.exit(run_figures(FIGURES))
