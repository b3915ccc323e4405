"""Epilogues: which element-wise work a contraction does before it stores, and which stays a loop of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import bfloat16, float32
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.storage import Storage
from trainer.engine.program.epilogues import Fused, fuse_epilogues, narrowed
from trainer.engine.program.group import Group, group
from trainer.engine.program.partition import Policy, partition
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.reference import evaluate

DIRECT = {"strides": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}


def leaf(*shape: int) -> Node:
    values = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
    return p.buffer(Storage.of(values, float32))


def fused_of(*results: Node) -> tuple[list[Group], dict[Node, Fused]]:
    plan = partition(topological(results), results, Policy())
    return fuse_epilogues(group(plan), plan)


def assert_same_values(*results: Node) -> None:
    wide = [p.cast(node, float32) for node in results]
    found = CpuDevice(threads=1, poison=True).evaluate(wide)
    for each, expected in zip(found, evaluate(wide), strict=True):
        np.testing.assert_allclose(each.view(), expected, rtol=1e-2, atol=1e-5)


def product() -> Node:
    return p.matmul(leaf(40, 24), leaf(24, 32))


def image() -> Node:
    return p.convolution(leaf(2, 4, 8, 8), leaf(16, 4, 3, 3), **DIRECT)


def channel_row(node: Node) -> Node:
    shape = (1, 32) if node.ndim == 2 else (1, 16, 1, 1)
    return p.expand(leaf(*shape), node.shape)


FUSED: dict[str, Callable[[Node], Node]] = {
    "activation": lambda y: p.maximum(y, p.negative(y)),
    "bias": lambda y: p.add(y, channel_row(y)),
    "scale and bias": lambda y: p.tanh(p.add(p.multiply(y, channel_row(y)), channel_row(y))),
    "scalar": lambda y: p.multiply(y, p.expand(leaf(*(1,) * y.ndim), y.shape)),
    "narrowing": lambda y: p.cast(y, bfloat16),
    "mask": lambda y: p.where(p.less(p.full(y.shape, 0.0, float32), y), y, p.full(y.shape, 0.0, float32)),
}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("contraction", [product, image])
def test_work_on_each_element_is_fused_and_gives_the_same(contraction: Callable[[], Node], name: str) -> None:
    y = contraction()
    root = FUSED[name](y)
    groups, fused = fused_of(root)
    assert list(fused) == [root] and fused[root].contraction is y
    assert [(each.kind, each.roots) for each in groups] == [("call", [root])]
    assert {source for source in y.inputs} <= groups[0].reads and y not in groups[0].reads
    (found,) = CpuDevice(threads=1, poison=True).evaluate([p.cast(root, float32)])
    tolerance = 1e-2 if name == "narrowing" else 1e-5
    np.testing.assert_allclose(found.view(), evaluate([p.cast(root, float32)])[0], rtol=tolerance, atol=1e-5)


def test_a_matrix_laid_out_as_the_product_is_added_in_the_epilogue() -> None:
    y = product()
    root = p.add(y, leaf(40, 32))
    (operand,) = fused_of(root)[1][root].epilogue.operands
    assert operand.addressing == "same"


@pytest.mark.parametrize("between", [(5, 8, 32), (40, 1, 32)])
def test_work_on_the_same_rows_with_split_axes_is_fused_and_gives_the_same(between: tuple[int, ...]) -> None:
    y, bias, other = product(), leaf(32), leaf(*between)
    split = p.add(p.reshape(y, between), p.expand(p.reshape(bias, (1, 1, 32)), between))
    result = p.matmul(p.reshape(p.multiply(p.tanh(split), other), y.shape), leaf(32, 8))
    groups, fused = fused_of(result)
    assert [
        (each.contraction, [operand.addressing for operand in each.epilogue.operands]) for each in fused.values()
    ] == [(y, ["channel", "same"])]
    assert len(groups) == 2
    (found,) = CpuDevice(threads=1, poison=True).evaluate([result])
    np.testing.assert_allclose(found.view(), evaluate([result])[0], rtol=1e-5, atol=1e-5)


def test_work_on_a_channels_last_image_that_a_product_makes_is_fused() -> None:
    y = product()
    image, other = (p.permute(rows, (0, 3, 1, 2)) for rows in (p.reshape(y, (2, 4, 5, 32)), leaf(2, 4, 5, 32)))
    root = p.add(p.tanh(image), other)
    convolved = p.convolution(root, leaf(16, 32, 3, 3), **DIRECT)
    _, fused = fused_of(convolved)
    assert fused[root].contraction is y and [each.addressing for each in fused[root].epilogue.operands] == ["same"]
    (found,) = CpuDevice(threads=1, poison=True).evaluate([convolved])
    np.testing.assert_allclose(found.view(), evaluate([convolved])[0], rtol=1e-4, atol=1e-4)


def test_an_image_that_lies_otherwise_is_not_read_in_the_epilogue() -> None:
    y = image()
    assert fused_of(p.add(y, leaf(*y.shape)))[1] == {}  # the leaf is row-major, the convolution channels-last


@pytest.mark.parametrize(
    "results",
    [
        pytest.param(lambda y: [y, p.exp(y)], id="the product itself is wanted"),
        pytest.param(lambda y: [p.exp(y), p.reduce_sum(y, (0,))], id="another kernel reads the product"),
        pytest.param(lambda y: [p.exp(y), p.reshape(y, (1280,))], id="a view of the product is wanted"),
        pytest.param(lambda y: [p.exp(p.permute(y, (1, 0)))], id="transposed"),
        pytest.param(lambda y: [p.exp(p.slice_(y, (0, 0), (20, 32), (1, 1)))], id="a part"),
        pytest.param(lambda y: [p.exp(p.flip(y, (1,)))], id="mirrored"),
        pytest.param(lambda y: [p.add(y, p.flip(y, (0,)))], id="with other elements of itself"),
        pytest.param(lambda y: [p.add(y, p.expand(leaf(40, 1), y.shape))], id="one element a row"),
        pytest.param(lambda y: [p.reduce_sum(p.exp(y), (1,))], id="reduced"),
        pytest.param(lambda y: [p.exp(p.reshape(y, (40, 4, 8)))], id="with split columns"),
        pytest.param(
            lambda y: [p.add(y, p.cast(p.iota((40, 32), 0, float32), float32))], id="with an index of the element"
        ),
    ],
)
def test_what_does_not_fit_stays_a_loop(results: Callable[[Node], list[Node]]) -> None:
    nodes = results(product())
    assert fused_of(*nodes)[1] == {}
    assert_same_values(*nodes)


def test_a_loop_takes_the_place_of_one_product_only() -> None:
    root = p.add(product(), p.matmul(leaf(40, 8), leaf(8, 32)))
    groups, fused = fused_of(root)
    assert len(fused) == 1 and len(groups) == 2
    assert groups[-1].roots == [root] and groups[0].roots[0] in groups[1].reads


def test_what_a_loop_alone_reads_is_not_stored_so_a_product_takes_the_rest() -> None:
    y = product()
    narrow = p.cast(y, bfloat16)
    total = p.add(p.multiply(narrow, p.cast(leaf(40, 32), bfloat16)), p.tanh(narrow))
    plan = partition(topological([total]), [total], Policy(recompute=False))
    assert narrow in plan.roots and list(fuse_epilogues(group(plan), plan)[1]) == [total]
    assert_same_values(total)


def test_a_product_takes_the_root_through_which_a_loop_reads_it() -> None:
    y = product()
    narrow = p.cast(y, bfloat16)
    results = narrow, p.multiply(p.exp(p.cast(narrow, float32)), leaf(40, 32))
    groups, fused = fused_of(*results)
    assert list(fused) == [narrow] and [each.roots for each in groups] == [[narrow], [results[1]]]
    assert narrow in groups[1].reads and y not in groups[1].reads
    assert_same_values(*results)


def test_a_product_that_several_read_in_bfloat16_is_stored_in_bfloat16() -> None:
    y = image()
    narrow = p.cast(y, bfloat16)
    wide = p.cast(narrow, float32)
    results = p.reduce_sum(wide, (0, 2, 3)), p.exp(p.permute(wide, (1, 0, 2, 3)))
    order = topological(results)
    plan = partition(order, results, Policy())
    found = narrowed(fuse_epilogues(group(plan), plan)[0], plan)
    assert found == {narrow}
    plan = partition(order, results, Policy(), further=found)
    groups, fused = fuse_epilogues(group(plan), plan)
    assert list(fused) == [narrow] and narrowed(groups, plan) == set()
    assert_same_values(*results)
