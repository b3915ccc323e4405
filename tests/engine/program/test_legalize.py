"""Legalising: sums and products of narrow types are computed in wide ones and rounded once; markers are spent."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.engine.graph import dtypes, half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.storage import Storage
from trainer.engine.program.legalize import legalize
from trainer.engine.targets.reference import evaluate


def leaf(shape: tuple[int, ...], dtype: DType) -> Node:
    values = np.random.default_rng(0).integers(1, 200, shape)
    return p.buffer(Storage.of(half.stored(values, dtype).astype(dtype.storage), dtype))


ACCUMULATIONS = {
    "reduce_sum": lambda x: p.reduce_sum(x, (0,)),
    "cumulative_sum": lambda x: p.cumulative_sum(x, 0),
    "matmul": lambda x: p.matmul(x, x),
    "reduce_prod": lambda x: p.reduce_prod(x, (0,)),
}


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [(dtypes.bfloat16, dtypes.float32), (dtypes.float16, dtypes.float32), (dtypes.uint8, dtypes.int32)],
    ids=["bfloat16", "float16", "uint8"],
)
@pytest.mark.parametrize("name", sorted(ACCUMULATIONS))
def test_narrow_types_accumulate_in_wide_ones_and_round_once(name: str, dtype: DType, wide: DType) -> None:
    node = ACCUMULATIONS[name](leaf((8, 8), dtype))
    (legal,) = legalize([node])
    assert legal.name == "cast" and legal.dtype == dtype
    accumulation = legal.inputs[0]
    assert (accumulation.name, accumulation.dtype) == (name, wide)
    if name != "matmul" or dtype is not dtypes.bfloat16:  # the templates multiply bfloat16 as it is
        assert all(source.name == "cast" and source.inputs[0].dtype == dtype for source in accumulation.inputs)
    np.testing.assert_array_equal(evaluate([legal])[0], evaluate([node])[0])


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64])
def test_wide_types_stay_as_they_are(dtype: DType) -> None:
    node = p.reduce_sum(leaf((4,), dtype), (0,))
    assert legalize([node]) == [node]


def test_what_does_not_accumulate_stays_narrow() -> None:
    x = leaf((4,), dtypes.bfloat16)
    node = p.reduce_max(p.add(x, x), (0,))
    assert legalize([node]) == [node]


def test_spent_markers_go_and_barriers_stay() -> None:
    x = leaf((4,), dtypes.float32)
    (legal,) = legalize([p.negative(p.barrier(p.stop_gradient(p.exp(x)), "here"))])
    assert [node.name for node in topological([legal])] == ["buffer", "exp", "barrier", "negative"]


def test_shared_nodes_stay_shared() -> None:
    x = p.stop_gradient(leaf((4,), dtypes.float32))
    y = p.exp(x)
    first, second = legalize([p.negative(y), p.sin(y)])
    assert first.inputs == second.inputs
