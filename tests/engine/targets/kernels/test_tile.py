"""Parts of the contraction's micro-kernel by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.targets.kernels.loop_runner import addresses, compiled, to_bfloat16
from trainer.engine.graph.dtypes import DType, bfloat16, float32, uint8
from trainer.engine.targets.cpu.kernels.access import load_vector, store_vector
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.ir.expression import cast, narrow
from trainer.engine.targets.ir.writer import Writer

LANES = lanes_of(float32)


def storing(dtype: DType, active: int) -> str:
    """A kernel that stores the first `active` of a vector of floats at its second address, cast to `dtype`."""
    writer = Writer()
    value = load_vector(writer, float32, writer.argument(0), LANES, LANES)
    raw = narrow(writer, cast(writer, value, float32, dtype, LANES), dtype, LANES)
    store_vector(writer, dtype, raw, writer.argument(1), LANES, active)
    return writer.module("kernel")


@pytest.mark.parametrize("narrow_vectors", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("dtype", [bfloat16, uint8, float32], ids=str)
def test_a_store_of_some_lanes_leaves_what_lies_behind_them(dtype: DType, narrow_vectors: bool) -> None:
    values = np.arange(1, LANES + 1, dtype=np.float32)
    stored = to_bfloat16(values) if dtype is bfloat16 else values.astype(dtype.storage)
    for active in range(1, LANES + 1):
        output = np.full(LANES, 77, dtype.storage)
        compiled(storing(dtype, active), narrow=narrow_vectors)(addresses([values, output]), [0])
        np.testing.assert_array_equal(output, [*stored[:active], *[77] * (LANES - active)])
