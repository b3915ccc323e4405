"""Memory of a tensor: a view in logical order, and where it begins."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.engine.graph import dtypes
from trainer.engine.graph.storage import Layout, Storage, aligned_empty


@pytest.mark.parametrize("shape", [(), (1,), (5,), (0,), (2, 3), (3, 0, 2), (2, 3, 4, 5)])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_view_has_the_logical_shape_in_any_layout(shape: tuple[int, ...], reverse: bool) -> None:
    values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    storage = Storage.of(values, dtypes.int32)
    storage.lay_out(Layout(tuple(range(len(shape)))[:: -1 if reverse else 1]))
    np.testing.assert_array_equal(storage.view(), values)
    storage.view()[...] = 7
    np.testing.assert_array_equal(storage.view(), np.full(shape, 7))


def test_the_address_is_that_of_the_memory_that_is_there_now() -> None:
    storage = Storage.of(np.zeros((2, 3), np.float32), dtypes.float32)
    for _ in range(2):
        assert storage.address == storage.flat().ctypes.data
        storage.lay_out(Layout((1, 0)))
    storage.put(aligned_empty(6, np.dtype(np.float32)), storage.layout)
    assert storage.address == storage.flat().ctypes.data
