"""Where a program flushes subnormal numbers, the `cpu` device and the reference device do it in the same places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.reference import ReferenceDevice

TINY = 3e-40
WINDOW = ((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1))
BINARY = (p.add, p.subtract, p.multiply, p.divide, p.maximum, p.minimum, p.equal, p.less, p.less_equal, p.remainder)
UNARY = (p.negative, p.abs, p.sign, p.floor, p.ceil, p.round, p.trunc, p.isfinite, p.isnan)


def of_one(function: Callable[[Node], Node]) -> Callable[[Node, Node], Node]:
    return lambda x, y: function(x)


EXACT: dict[str, Callable[[Node, Node], Node]] = {
    **{function.__name__: function for function in (*BINARY, p.floor_divide)},
    **{function.__name__: of_one(function) for function in UNARY},
    "where": lambda x, y: p.where(p.isfinite(y), x, y),
    **{
        f"where {relation.__name__}{', exchanged' if exchanged else ''}": (
            lambda x, y, relation=relation, exchanged=exchanged: p.where(
                relation(x, y), *((y, x) if exchanged else (x, y))
            )
        )
        for relation in (p.less, p.less_equal)
        for exchanged in (False, True)
    },
    "where less than 0": lambda x, y: p.where(p.less(x, p.full_like(x, 0.0)), x, p.full_like(x, 0.0)),
    "where above 0, as a rectifier": lambda x, y: p.where(p.less(p.full_like(x, 0.0), x), x, p.full_like(x, 0.0)),
    "where negative": lambda x, y: p.where(p.less(x, p.full_like(x, 0.0)), p.negative(x), x),
    "square root": lambda x, y: p.sqrt(p.abs(x)),
    "to float64": lambda x, y: p.cast(x, dtypes.float64),
    "to int32": lambda x, y: p.cast(x, dtypes.int32),
    "to bfloat16 and back": lambda x, y: p.cast(p.cast(x, dtypes.bfloat16), dtypes.float32),
    "to bfloat16 and back, times 1": lambda x, y: p.multiply(p.cast(p.cast(x, dtypes.bfloat16), dtypes.float32), y),
    "to float16 and back": lambda x, y: p.cast(p.cast(x, dtypes.float16), dtypes.float32),
    "products of float16": lambda x, y: p.multiply(
        p.cast(x, dtypes.float16), p.full_like(p.cast(y, dtypes.float16), 1e-7)
    ),
    "argmax": lambda x, y: p.argmax(p.reshape(x, (12, 12)), 1),
    "maximum of windows": lambda x, y: p.window_max(p.reshape(x, (1, 1, 12, 12)), *WINDOW),
    "maximum of windows, channels last": lambda x, y: p.window_max(
        p.permute(p.reshape(x, (1, 6, 6, 4)), (0, 3, 1, 2)), *WINDOW
    ),
    "where windows have it": lambda x, y: p.window_argmax(p.reshape(x, (1, 1, 12, 12)), *WINDOW),
}


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    numbers = np.array([0.0, -0.0, TINY, -TINY, 1.0, -1.0, 2.5, -3e-39, 1e-38, np.inf, np.nan, 1e30], np.float32)
    x, y = (
        p.buffer(Storage.of(array.ravel(), dtypes.float32)) for array in np.meshgrid(numbers, numbers)
    )  # every pair of them
    nodes = [made(x, y) for made in EXACT.values()]
    ours, expected = (
        [storage.view().copy() for storage in device.compile(nodes, flush=True).run([])]
        for device in (CpuDevice(threads=1), ReferenceDevice())
    )
    return dict(zip(EXACT, zip(ours, expected, strict=True), strict=True))


@pytest.mark.parametrize("name", EXACT)
def test_what_is_exact_flushes_as_the_reference_does(
    name: str, found: dict[str, tuple[np.ndarray, np.ndarray]]
) -> None:
    ours, expected = found[name]
    np.testing.assert_array_equal(ours, expected)
