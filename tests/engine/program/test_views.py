"""Views and coordinates of chains of movement operations, against NumPy's strides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.program.graphs import leaf, movement
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Layout
from trainer.engine.program.views import NodeView, identity, is_dense, reshape_groups, through, view_through
from trainer.engine.targets.reference import evaluate

shapes = st.lists(st.integers(1, 6), max_size=4).map(tuple)
property_test = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def chain(data: st.DataObject, node: Node) -> list[Node]:
    nodes = [node]
    for _ in range(data.draw(st.integers(1, 6))):
        nodes.append(movement(data.draw, nodes[-1]))
    return list(dict.fromkeys(nodes))  # a movement that moves nothing is its input


@property_test
@given(data=st.data())
def test_a_view_reads_the_elements_that_numpy_moves(data: st.DataObject) -> None:
    source = leaf(data.draw(shapes))
    layout = Layout(tuple(data.draw(st.permutations(range(source.ndim)))))
    storage = source.attributes[0]
    storage.lay_out(layout)
    view = NodeView.dense(source, layout)
    for node in chain(data, source)[1:]:
        found = view_through(node, view)
        if found is None:
            assert node.name == "reshape"
            return
        view = found
        memory = storage.flat()
        read = np.lib.stride_tricks.as_strided(memory[view.offset :], node.shape, [4 * s for s in view.strides])
        np.testing.assert_array_equal(read, evaluate([node])[0])


@property_test
@given(data=st.data())
def test_coordinates_lead_from_every_element_back_to_its_source(data: st.DataObject) -> None:
    source = leaf(data.draw(shapes))
    nodes = chain(data, source)
    last = nodes[-1]
    coordinates = identity(last.shape)
    for node in reversed(nodes[1:]):
        moved = through(node, coordinates, last.ndim)
        if moved is None:
            assert node.name == "reshape"
            return
        coordinates = moved
    values, expected = evaluate([source, last])
    for index in np.ndindex(last.shape):
        place = tuple(
            each.constant + sum(c * i for c, i in zip(each.coefficients, index, strict=True)) for each in coordinates
        )
        assert values[place] == expected[index]


@property_test
@given(shape=shapes, data=st.data())
def test_a_view_of_a_reshape_exists_where_numpy_needs_no_copy(shape: tuple[int, ...], data: st.DataObject) -> None:
    source = leaf(shape)
    moved = p.permute(source, tuple(data.draw(st.permutations(range(len(shape))))))
    view = view_through(moved, NodeView.dense(source, Layout.row_major(source.ndim)))
    assert view is not None
    half = (2, source.size // 2) if source.size % 2 == 0 else (source.size, 1)
    target = data.draw(st.sampled_from([(source.size,), half, half[::-1], moved.shape[::-1]]))
    array = source.attributes[0].view().transpose(moved.attributes[0] if moved is not source else range(source.ndim))
    try:
        array.reshape(target, copy=False)
        needs_copy = False
    except ValueError:
        needs_copy = True
    assert (view_through(p.reshape(moved, target), view) is None) == needs_copy


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((6,), (2, 3), [([0], [0, 1])]),
        ((2, 3), (6,), [([0, 1], [0])]),
        ((4, 6), (4, 2, 3), [([0], [0]), ([1], [1, 2])]),
        ((2, 1, 3), (1, 2, 3, 1), [([0], [1]), ([2], [2])]),
        ((4, 3), (2, 6), [([0, 1], [0, 1])]),
        ((1, 1), (), []),
    ],
)
def test_a_reshape_falls_apart_into_the_smallest_groups_of_axes(
    before: tuple[int, ...], after: tuple[int, ...], groups: list[tuple[list[int], list[int]]]
) -> None:
    assert reshape_groups(before, after) == groups


@given(shape=shapes, data=st.data())
def test_the_layout_of_dense_strides_is_found(shape: tuple[int, ...], data: st.DataObject) -> None:
    strides = Layout(tuple(data.draw(st.permutations(range(len(shape)))))).strides(shape)
    found = is_dense(shape, strides)
    assert found is not None
    assert all(a == b for a, b, n in zip(found.strides(shape), strides, shape, strict=True) if n != 1)


@pytest.mark.parametrize(("shape", "strides"), [((2, 3), (6, 2)), ((2, 3), (0, 1)), ((4,), (-1,)), ((3, 2), (1, 4))])
def test_strides_with_gaps_repeats_or_backward_steps_are_no_layout(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    assert is_dense(shape, strides) is None
