"""What the reference device promises beyond its table: rounding of each node, flushed subnormals, memory of its own."""

from __future__ import annotations

import numpy as np

from trainer.engine.graph import dtypes, half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.targets.reference import ReferenceDevice, evaluate


def leaf(values: object, dtype: dtypes.DType = dtypes.float32) -> Node:
    array = np.asarray(values)
    return p.buffer(Storage.of(half.to_bits(array) if dtype is dtypes.bfloat16 else array, dtype))


def test_bfloat16_rounds_to_nearest_even() -> None:
    halfway_down, halfway_up, above = 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20
    values = np.array([halfway_down, halfway_up, above, -halfway_up, 3.5e38, np.inf, np.nan])
    expected = [1.0, 1 + 2.0**-6, 1 + 2.0**-7, -1 - 2.0**-6, np.inf, np.inf, np.nan]
    np.testing.assert_array_equal(half.rounded(values, dtypes.bfloat16), np.array(expected, np.float32))


def test_every_node_rounds_to_its_dtype() -> None:
    one, small = leaf([1.0], dtypes.bfloat16), leaf([2.0**-9], dtypes.bfloat16)
    (value,) = evaluate([p.subtract(p.add(one, small), one)])
    assert value.tolist() == [0.0]  # exact arithmetic, or rounding once at the end, would keep 2^-9


def test_subnormals_are_flushed_at_both_ends_of_arithmetic_with_their_sign() -> None:
    tiny = float(np.finfo(np.float32).smallest_subnormal)
    x = leaf([tiny, -tiny, 2.0**-126])
    flushing = ReferenceDevice(flush_subnormals=True)
    taken = flushing.evaluate([p.multiply(x, p.full((3,), 2.0**60, dtypes.float32))])[0].view()
    np.testing.assert_array_equal(taken, np.float32([0.0, -0.0, 2.0**-66]))
    assert np.signbit(taken).tolist() == [False, True, False]
    given = flushing.evaluate([p.multiply(x, p.full((3,), 0.5, dtypes.float32))])[0].view()
    np.testing.assert_array_equal(given, np.zeros(3, np.float32))
    kept = ReferenceDevice().evaluate([p.multiply(x, p.full((3,), 2.0, dtypes.float32))])[0].view()
    np.testing.assert_array_equal(kept, np.float32([2 * tiny, -2 * tiny, 2.0**-125]))


def test_moving_bits_does_not_flush() -> None:
    tiny = np.finfo(np.float32).smallest_subnormal
    moved = ReferenceDevice(flush_subnormals=True).evaluate([p.negative(p.flip(leaf([tiny, 1.0]), (0,)))])[0].view()
    assert moved.tolist() == [-1.0, -float(tiny)]


def test_results_do_not_share_memory_with_their_inputs() -> None:
    x = leaf([1.0, 2.0])
    (result,) = ReferenceDevice().evaluate([p.reshape(x, (2, 1))])
    result.view()[...] = 9.0
    assert x.attributes[0].view().tolist() == [1.0, 2.0]


def test_leaves_are_read_through_their_layout() -> None:
    storage = Storage.of(np.arange(6, dtype=np.float32).reshape(2, 3), dtypes.float32)
    storage.lay_out(Layout((1, 0)))
    (value,) = evaluate([p.reduce_sum(p.buffer(storage), (1,))])
    assert value.tolist() == [3.0, 12.0]


def test_a_program_stores_updates_after_everything_is_read() -> None:
    a, b = (Storage.of(np.float32([value]), dtypes.float32, is_state=True) for value in (1.0, 2.0))
    program = ReferenceDevice().compile([p.add(p.buffer(a), p.buffer(b))], [(a, p.buffer(b)), (b, p.buffer(a))])
    (total,) = program.run([])
    assert (total.view()[0], a.view()[0], b.view()[0]) == (3.0, 2.0, 1.0)
