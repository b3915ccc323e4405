"""Speed of element-wise chains relative to the faster of a plain and a non-temporal memory copy in the same run.

python benchmarks/chains.py [gelu_25mb …] [--json] [--rounds N]

Bytes are what a chain must read and write once, and what a copy reads and writes. Both run on the pool's threads, so
the copies are kernels, too: one calls the C library's `memcpy`, one has vector loads and streaming stores.
"""

from __future__ import annotations

import ctypes
import functools
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from harness import Figure, run_figures

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage, aligned_empty
from trainer.engine.targets import get
from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.pool import BARRIER, RECORD_WORDS, shared_pool

SIZES = {"25mb": 25_000_000 // 4 // 4096 * 4096, "200mb": 200_000_000 // 4 // 4096 * 4096}
"""Elements of each array."""

REPETITIONS = 9
COPIED_ELEMENTS = 16384
LEAST_SHARE = 0.9

_COPY = f"""
define void @kernel(ptr %arguments, i64 %task, ptr %scratch) nounwind {{
entry:
  %p.to = getelementptr i64, ptr %arguments, i64 1
  %from = load ptr, ptr %arguments
  %to = load ptr, ptr %p.to
  %p.f = getelementptr i64, ptr %arguments, i64 2
  %f = load ptr, ptr %p.f
  %first = mul i64 %task, {COPIED_ELEMENTS}
  %source = getelementptr float, ptr %from, i64 %first
  %target = getelementptr float, ptr %to, i64 %first
"""
COPIES = {
    "memcpy": _COPY + f"  call ptr %f(ptr %target, ptr %source, i64 {4 * COPIED_ELEMENTS})\n  ret void\n}}\n",
    "streamed": _COPY
    + f"""  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a = getelementptr float, ptr %source, i64 %i
  %b = getelementptr float, ptr %target, i64 %i
  %x = load <16 x float>, ptr %a, align 64
  store <16 x float> %x, ptr %b, align 64, !nontemporal !0
  %next = add i64 %i, 16
  %more = icmp ult i64 %next, {COPIED_ELEMENTS}
  br i1 %more, label %loop, label %done
done:
  fence seq_cst
  ret void
}}
!0 = !{{i32 1}}
""",
}


def _constant(value: float, like: Node) -> Node:
    return p.full(like.shape, value, float32)


def _gelu(x: Node) -> Node:
    inner = p.add(p.erf(p.multiply(x, _constant(0.5**0.5, x))), _constant(1.0, x))
    return p.multiply(p.multiply(x, _constant(0.5, x)), inner)


# name -> (number of inputs, chain)
CHAINS: dict[str, tuple[int, Callable[..., Node]]] = {
    "scale_shift": (1, lambda x: p.add(p.multiply(x, _constant(1.5, x)), _constant(0.25, x))),
    "relu_of_sum": (2, lambda x, y: p.maximum(p.add(x, y), _constant(0.0, x))),
    "multiply_add": (3, lambda x, y, z: p.add(p.multiply(x, y), z)),
    "gelu": (1, _gelu),
    "tanh": (1, p.tanh),
    "exp": (1, p.exp),
    "logistic": (1, p.logistic),
}


def _adam(weight: Node, first: Node, second: Node, gradient: Node) -> tuple[Node, Node, Node]:
    """The new weight and moments (Kingma & Ba 2015, without bias correction)."""
    decayed = p.multiply(first, _constant(0.9, first))
    new_first = p.add(decayed, p.multiply(gradient, _constant(0.1, first)))
    square = p.multiply(p.multiply(gradient, gradient), _constant(0.001, first))
    new_second = p.add(p.multiply(second, _constant(0.999, first)), square)
    size = p.add(p.sqrt(new_second), _constant(1e-8, first))
    return p.subtract(weight, p.multiply(p.divide(new_first, size), _constant(1e-3, first))), new_first, new_second


def _array(size: int) -> np.ndarray:
    array = aligned_empty(size, np.dtype(np.float32))
    array[:] = np.resize(np.random.default_rng(0).standard_normal(1 << 16, np.float32), size)
    return array


@functools.lru_cache(maxsize=1)
def _memory(size: int) -> tuple[np.ndarray, ...]:
    """The arrays that chains and copies of this size share."""
    return tuple(_array(size) for _ in range(4))


def _leaf(array: np.ndarray, *, is_state: bool = False) -> Node:
    storage = Storage(array.shape, float32, is_state=is_state)
    storage.put(array, storage.layout)
    return p.buffer(storage)


def _seconds(run: Callable[[], object]) -> float:
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@functools.lru_cache(maxsize=1)
def _chain(name: str, size: int) -> tuple[Callable[[], object], int]:
    """Returns a function that runs the chain, and the number of arrays that it reads or writes."""
    arrays = _memory(size)
    device = get("cpu")
    if name == "adam":
        leaves = [_leaf(array, is_state=True) for array in arrays]
        news = zip((leaf.attributes[0] for leaf in leaves), _adam(*leaves), strict=False)
        program, streams = device.compile([], list(news), flush=True), 7
        return (lambda: program.run([])), streams
    count, build = CHAINS[name]
    leaves = [_leaf(array) for array in arrays[:count]]
    program = device.compile([build(*leaves)], inputs=leaves)
    storages = [leaf.attributes[0] for leaf in leaves]
    return (lambda: program.run(storages)), count + 1


@functools.lru_cache(maxsize=4)
def _copy(kind: str, size: int) -> Callable[[], None]:
    source, target = _memory(size)[:2]
    library = native.link({"kernel": native.compile_object(COPIES[kind])})
    memcpy = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value or 0
    block = np.array([source.ctypes.data, target.ctypes.data, memcpy], np.int64)
    tape = aligned_empty(RECORD_WORDS, np.dtype(np.int64))
    tape[:] = 0
    tape[:4] = library["kernel"], block.ctypes.data, size // COPIED_ELEMENTS, BARRIER

    def run() -> None:
        assert library.addresses and block.size  # keeps both alive
        shared_pool().run(tape.ctypes.data, 1)

    return run


def chain_rate(name: str, size: int) -> float:
    """Returns the GB/s that a chain reads and writes, with arrays of `size` elements."""
    run, streams = _chain(name, size)
    run()
    return streams * 4 * size / _seconds(run) / 1e9


def copy_rate(size: int) -> float:
    """Returns the GB/s that the faster of the two copies reads and writes."""
    rates = []
    for kind in COPIES:
        run = _copy(kind, size)
        run()
        rates.append(8 * size / _seconds(run) / 1e9)
    return max(rates)


FIGURES = [
    Figure(
        f"{name}_{label}",
        functools.partial(chain_rate, name, size),
        lambda python, size=size: copy_rate(size),
        bar=LEAST_SHARE,
        better="higher",
        unit="GB/s",
        needs_peer_python=False,
    )
    for label, size in SIZES.items()
    for name in (*CHAINS, "adam")
]

if __name__ == "__main__":
    sys.exit(run_figures(FIGURES))
