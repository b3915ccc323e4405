"""The partition: which nodes get memory of their own, in which order their elements lie, and what is a mere view."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.engine.program.graphs import Graph, graphs
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import bfloat16, float32
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.primitives.attention import UNLIMITED
from trainer.engine.graph.storage import CHANNELS_LAST, WEIGHTS, Layout, Storage
from trainer.engine.program.partition import Partition, Policy, partition

DIRECT = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}


def leaf(*shape: int) -> Node:
    return p.buffer(Storage.of(np.zeros(shape, np.float32), float32))


def decided(*results: Node, policy: Policy | None = None) -> Partition:
    return partition(topological(results), results, policy or Policy())


def convolved(x: Node) -> Node:
    return p.convolution(x, leaf(8, x.shape[1], 3, 3), **DIRECT)


def test_a_chain_of_elementwise_work_is_one_kernel() -> None:
    x = leaf(100)
    y = p.tanh(p.add(p.exp(x), x))
    assert decided(y).roots == [y]


def test_movement_of_memory_is_a_view_and_of_a_result_a_copy() -> None:
    x = leaf(10, 20)
    moved = p.permute(p.flip(x, (0,)), (1, 0))
    y = p.negative(moved)
    plan = decided(y)
    assert plan.roots == [y]
    assert (plan.views[moved].offset, plan.views[moved].strides) == (180, (1, -20))
    assert decided(moved).roots == []  # delivered by a copy, which reads the view


def test_a_product_that_one_reads_in_bfloat16_is_rounded_in_passing() -> None:
    x = leaf(2, 8, 8, 8)
    narrow = p.cast(convolved(x), bfloat16)
    assert narrow not in decided(p.add(narrow, p.cast(x, bfloat16))).roots


def test_shared_bfloat16_is_stored_before_it_is_widened() -> None:
    narrow = p.tanh(p.cast(leaf(100, 100), bfloat16))
    wide = p.cast(narrow, float32)
    plan = decided(p.reduce_sum(wide, (0,)), p.exp(wide))
    assert narrow in plan.roots and wide not in plan.roots


@pytest.mark.parametrize(
    "make",
    [
        lambda x: p.reduce_sum(x, (1,)),
        lambda x: p.cumulative_sum(x, 0),
        lambda x: p.matmul(x, x),
        lambda x: p.pad(x, (1, 1), (0, 0), (0, 0), 0.0),
        lambda x: p.concatenate([x, x], 0),
        lambda x: p.barrier(p.exp(x), "here"),
    ],
)
def test_what_no_loop_computes_in_passing_is_stored(make: object) -> None:
    node = make(leaf(16, 16))  # type: ignore[operator]
    y = p.negative(node)
    plan = decided(y)
    assert plan.roots == [node, y]


def test_operands_of_contractions_are_stored() -> None:
    x = leaf(16, 16)
    activated = p.exp(x)
    assert activated in decided(p.matmul(activated, x)).roots


def test_a_transposed_operand_of_a_product_is_stored_as_it_lay_before() -> None:
    rounded = p.cast(leaf(20, 30), bfloat16)
    transposed = p.permute(rounded, (1, 0))
    y = p.matmul(p.cast(leaf(10, 30), bfloat16), transposed, bfloat16)
    plan = decided(y)
    assert rounded in plan.roots and transposed not in plan.roots
    assert plan.views[transposed].strides == (1, 30)


def test_parts_of_one_array_that_attention_reads_stay_parts_of_it() -> None:
    joined = p.add(p.matmul(leaf(20, 8), leaf(8, 48)), p.expand(leaf(1, 48), (20, 48)))
    heads = p.permute(p.reshape(joined, (2, 10, 3, 2, 8)), (2, 0, 3, 1, 4))
    parts = [p.slice_(heads, (n, 0, 0, 0, 0), (n + 1, 2, 2, 10, 8), (1,) * 5) for n in range(3)]
    query, key, value = (p.reshape(part, (2, 2, 10, 8)) for part in parts)
    out = p.attention((query, key, value), (0.5, (UNLIMITED, UNLIMITED), 0.0, ()))[0]
    plan = decided(out)
    assert joined in plan.roots and not {query, key, value} & {*plan.roots}
    assert [plan.views[part].offset for part in (query, key, value)] == [0, 16, 32]
    alone = decided(p.attention((query, query, query), (0.5, (UNLIMITED, UNLIMITED), 0.0, ()))[0])
    assert query in alone.roots and joined not in alone.roots  # the other two thirds would be computed for nothing


def test_joined_arrays_lie_as_a_permutation_of_them_is_merged() -> None:
    joined = p.concatenate([leaf(1, 4, 6, 5) for _ in range(3)], 0)
    turned = p.permute(joined, (1, 2, 0, 3))
    merged = p.reshape(turned, (24, 15))
    plan = decided(p.matmul(merged, leaf(15, 7)))
    assert plan.layouts[joined] == Layout((1, 2, 0, 3)) and plan.views[merged].strides == (15, 1)
    split = p.permute(p.concatenate([leaf(4, 9, 5), leaf(4, 7, 5)], 1), (0, 2, 1))
    plan = decided(p.matmul(p.reshape(split, (20, 16)), leaf(16, 7)))
    assert plan.layouts[split.inputs[0]].order == (0, 2, 1)
    pictures = p.reshape(split, (4, 5, 4, 4))
    assert decided(convolved(pictures)).layouts[split.inputs[0]].is_row_major


def test_joined_and_padded_arrays_lie_as_their_parts_do() -> None:
    whole = convolved(leaf(2, 8, 8, 8))
    for moved in (p.concatenate([whole, leaf(2, 3, 8, 8)], 1), p.pad(whole, (0, 0, 1, 0), (0,) * 4, (0,) * 4)):
        assert decided(p.exp(moved)).layouts[moved] == CHANNELS_LAST
    rows = p.concatenate([leaf(2, 8, 8, 8), leaf(2, 3, 8, 8)], 1)
    assert decided(p.exp(rows)).layouts[rows].is_row_major


def test_cheap_shared_work_is_done_again_and_costly_is_not() -> None:
    x = leaf(100)
    for operation, is_stored in ((p.negative, False), (p.exp, True)):
        shared = operation(x)
        results = [p.sqrt(shared), p.floor(shared)]
        assert (shared in decided(*results).roots) == is_stored
        assert shared in decided(*results, policy=Policy(recompute=False)).roots


def test_work_that_a_broadcast_would_repeat_is_stored() -> None:
    row = p.exp(leaf(1, 50))
    y = p.add(p.expand(row, (40, 50)), leaf(40, 50))
    assert decided(y).roots == [row, y]


def test_a_kernel_does_not_grow_without_bound() -> None:
    total = leaf(64)
    for _ in range(40):
        total = p.add(total, leaf(64))
    plan = decided(total)
    assert len(plan.roots) > 1
    long = leaf(64)
    for _ in range(300):
        long = p.negative(p.add(long, long))
    assert len(decided(long).roots) >= 600 // (Policy().largest_operations + 2)


def test_a_reshape_that_merges_axes_of_strided_memory_is_a_copy() -> None:
    x = leaf(4, 6)
    assert decided(p.negative(p.reshape(x, (24,)))).roots[0].name == "negative"
    merged = p.reshape(p.permute(x, (1, 0)), (24,))
    assert merged in decided(p.negative(merged)).roots


def test_convolutions_and_the_work_around_them_lie_channels_last() -> None:
    x = leaf(2, 4, 8, 8)
    normalized = p.exp(x)
    y = convolved(normalized)
    activated = p.maximum(y, p.negative(y))
    plan = decided(p.reduce_sum(activated, (0,)), activated, convolved(activated))
    assert {plan.layouts[node] for node in (normalized, y, activated)} == {CHANNELS_LAST}
    first = decided(activated, policy=Policy(channels_last=False))
    assert first.layouts[y] == CHANNELS_LAST and first.layouts[activated] == Layout.row_major(4)


def test_lines_around_convolutions_of_one_axis_lie_channels_last() -> None:
    """What they read, gated halves of what they write, and what is padded."""
    picture = p.reshape(p.tanh(leaf(2, 16, 40)), (2, 16, 1, 40))
    y = p.convolution(picture, leaf(32, 16, 1, 3), **{**DIRECT, "padding": ((0, 0), (1, 1))})
    whole = p.reshape(y, (2, 32, 40))
    halves = [p.slice_(whole, (0, first, 0), (2, first + 16, 40), (1, 1, 1)) for first in (0, 16)]
    gated = p.multiply(p.tanh(halves[0]), halves[1])
    padded = p.pad(gated, (0, 0, 5), (0, 0, 0), (0, 0, 0), 0.0)
    plan = decided(padded, gated)
    assert plan.roots == [picture, y, gated, padded]
    assert plan.layouts[picture] == plan.layouts[y] == CHANNELS_LAST
    assert plan.layouts[gated] == plan.layouts[padded] == Layout((0, 2, 1))


def test_gradients_of_weights_lie_as_weights() -> None:
    gradient = p.convolution_weight_gradient(leaf(2, 4, 8, 8), leaf(2, 8, 8, 8), **DIRECT, window=(3, 3))
    assert decided(gradient).layouts[gradient] == WEIGHTS


def test_a_layout_that_is_asked_for_is_given_where_a_loop_writes() -> None:
    x = leaf(8, 4, 3, 3)
    loop, total = p.exp(x), p.reduce_sum(leaf(8, 4, 3, 3, 2), (4,))
    plan = partition(topological([loop, total]), [loop, total], Policy(), {loop: WEIGHTS, total: WEIGHTS})
    assert plan.layouts[loop] == WEIGHTS and plan.layouts[total] == Layout.row_major(4)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(graph=graphs())
def test_every_result_and_whatever_a_kernel_reads_can_be_read_from_memory(graph: Graph) -> None:
    outputs = [*graph.results, *(node for _, node in graph.updates)]
    plan = partition(topological(outputs), outputs, Policy())
    assert set(outputs) <= plan.views.keys()
    assert len(set(plan.roots)) == len(plan.roots)
    for view in plan.views.values():
        assert view.base in plan.roots or view.base.operation.family == "leaf"
