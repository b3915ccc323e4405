"""The extreme element of few long rows is found block by block, by as many tasks; its place is NumPy's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.program.graphs import leaf
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import BY_NAME
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.lowering.loops import TASK_ELEMENTS

LONG = 2 * TASK_ELEMENTS + 777
RANDOM = np.random.default_rng(0)
NORMAL = RANDOM.standard_normal(LONG).astype(np.float32)
LATE_NAN = NORMAL.copy()
LATE_NAN[[LONG - 5, LONG - 3]] = np.nan

CASES: dict[str, tuple[np.ndarray, int]] = {
    "one row": (NORMAL, 0),
    "equal everywhere": (np.full(LONG, 3, np.float32), 0),
    "infinite everywhere": (np.full(LONG, -np.inf, np.float32), 0),
    "the first of two NaN": (LATE_NAN, 0),
    "few values, many times each": (RANDOM.integers(-4, 5, LONG).astype(np.int32), 0),
    "unsigned": (RANDOM.integers(0, 256, LONG).astype(np.uint8), 0),
    "three rows": (RANDOM.standard_normal((3, LONG)).astype(np.float32), 1),
    "twelve columns": (RANDOM.standard_normal((LONG, 12)).astype(np.float32), 0),
    "rows within": (RANDOM.integers(0, 50, (2, LONG, 2)).astype(np.float64), 1),
}


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice(threads=3, poison=True)


@pytest.mark.parametrize(("position", "expected"), [(p.argmax, np.argmax), (p.argmin, np.argmin)])
@pytest.mark.parametrize("name", CASES)
def test_the_place_is_numpys(
    device: CpuDevice, name: str, position: Callable[[Node, int], Node], expected: Callable[..., np.ndarray]
) -> None:
    values, axis = CASES[name]
    (found,) = device.evaluate([position(p.buffer(Storage.of(values, BY_NAME[values.dtype.name])), axis)])
    np.testing.assert_array_equal(found.view(), expected(values, axis=axis))


def test_blocks_are_tasks() -> None:
    device = CpuDevice(threads=1, poison=False)
    launches = device.compile([p.argmax(leaf((LONG,)), 0)]).launches
    assert launches[0].tasks >= 64 and len(launches) == 3
    assert len(device.compile([p.argmax(leaf((100, LONG)), 1)]).launches) == 1  # rows are tasks enough
