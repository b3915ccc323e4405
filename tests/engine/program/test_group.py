"""Grouping: what one kernel computes together, in an order in which everything exists before it is read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.engine.program.graphs import Graph, graphs
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import float32
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.storage import Storage
from trainer.engine.program.group import LARGEST_OPERANDS, Group, group
from trainer.engine.program.partition import Policy, partition


def leaf(*shape: int) -> Node:
    return p.buffer(Storage.of(np.zeros(shape, np.float32), float32))


def grouped(*results: Node, policy: Policy | None = None) -> list[Group]:
    return group(partition(topological(results), results, policy or Policy()))


def members(groups: list[Group]) -> list[set[Node]]:
    return [set(each.roots) for each in groups]


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@pytest.mark.parametrize("policy", [Policy(), Policy(recompute=False)], ids=["recomputed", "stored"])
@given(graph=graphs(operations=25))
def test_everything_exists_before_it_is_read(policy: Policy, graph: Graph) -> None:
    outputs = [*graph.results, *(node for _, node in graph.updates)]
    plan = partition(topological(outputs), outputs, policy)
    groups = group(plan)
    computed: set[Node] = set()
    for each in groups:
        assert all(node in computed or node.operation.family == "leaf" for node in each.reads - set(each.roots))
        computed.update(each.roots)
    assert sum(len(each.roots) for each in groups) == len(computed)
    assert computed <= set(plan.roots) and plan.results - computed == {
        node for node in plan.results if node.operation.family == "leaf"
    }


def test_results_over_the_same_space_that_share_what_they_read_are_one_loop() -> None:
    x = leaf(5000)
    a, b = p.exp(x), p.sin(x)
    assert members(grouped(a, b)) == [{a, b}]


def test_a_result_and_what_is_computed_from_it_in_place_are_one_loop() -> None:
    x = leaf(5000)
    a = p.exp(x)
    b = p.sin(a)
    assert members(grouped(a, b)) == [{a, b}]


def test_a_result_and_what_is_computed_from_it_with_merged_axes_are_one_loop() -> None:
    x = leaf(50, 10, 10)
    a = p.exp(x)
    b = p.reshape(p.sin(a), (500, 10))
    product = p.matmul(b, leaf(10, 10))
    assert members(grouped(product, p.reduce_sum(a, (0,))))[0] == {a, b}


def test_what_reads_other_elements_of_a_result_comes_after_it() -> None:
    x = leaf(5000)
    a = p.exp(x)
    b = p.add(p.flip(a, (0,)), x)
    assert members(grouped(a, b)) == [{a}, {b}]


def test_large_loops_that_share_nothing_stay_apart_and_small_ones_join() -> None:
    for extent, count in ((5000, 2), (500, 1)):
        assert len(grouped(p.exp(leaf(extent)), p.sin(leaf(extent)))) == count


def test_other_spaces_and_layouts_stay_apart() -> None:
    x = leaf(10, 10)
    assert len(grouped(p.exp(x), p.sin(p.reshape(x, (100,))))) == 2


def test_reductions_of_the_same_space_over_the_same_axes_are_one_pass() -> None:
    x = leaf(100, 200)
    total, squares, largest = p.reduce_sum(x, (0,)), p.reduce_sum(p.multiply(x, x), (0,)), p.reduce_max(x, (0,))
    assert members(grouped(total, squares, largest)) == [{total, squares, largest}]
    rows, all_ = p.reduce_sum(x, (1,)), p.argmax(x, 0)
    assert len(grouped(total, rows, all_)) == 3


def test_a_reduction_of_a_reduction_comes_after_it() -> None:
    x = leaf(100, 200)
    mean = p.reduce_sum(x, (0,))
    centred = p.subtract(x, p.expand(p.reshape(mean, (1, 200)), x.shape))
    variance = p.reduce_sum(p.multiply(centred, centred), (0,))
    assert members(grouped(mean, variance)) == [{mean}, {variance}]


def test_a_loop_has_a_bounded_number_of_operands() -> None:
    shared = leaf(500)
    results = [p.add(shared, leaf(500)) for _ in range(60)]
    groups = grouped(*results)
    assert 1 < len(groups) < 60
    for each in groups:
        assert each.body is not None
        assert len(each.body.loads) + len(each.roots) <= LARGEST_OPERANDS + 1
