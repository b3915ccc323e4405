"""Attention and recurrent scans as graphs of primitives give what the bundles are defined to give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import float64, int32
from trainer.engine.graph.node import Node, topological
from trainer.engine.graph.primitives.attention import UNLIMITED
from trainer.engine.graph.primitives.output import output, outputs_of
from trainer.engine.graph.primitives.recurrent import CELLS
from trainer.engine.graph.storage import Storage
from trainer.engine.program.decompose import decomposed
from trainer.engine.program.work import RECURRENT
from trainer.engine.targets.reference import ReferenceDevice

random = np.random.default_rng(0)
STEPS, BATCH, UNITS = 5, 3, 4


def drawn(*shape: int) -> Node:
    return p.buffer(Storage.of(random.standard_normal(shape), float64))


def integers(values: Any) -> Node:
    return p.buffer(Storage.of(np.array(values, np.int32), int32))


def assert_same(bundle: Node) -> None:
    nodes = [output(bundle, number) for number in range(len(outputs_of(bundle)))]
    others = decomposed(nodes)
    assert not ({*RECURRENT, "attention", "attention_gradient"} & {node.name for node in topological(others)})
    device = ReferenceDevice()
    for one, other in zip(device.evaluate(others), device.evaluate(nodes), strict=True):
        np.testing.assert_allclose(one.view(), other.view(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [(), ("bias",), ("slopes", "first"), ("bias", "slopes", "first", "dropout")])
@pytest.mark.parametrize("window", [(UNLIMITED, UNLIMITED), (UNLIMITED, 0), (2, 1)])
def test_attention_and_its_gradient(options: tuple[str, ...], window: tuple[int, int]) -> None:
    batch, heads, groups, rows, keys = 2, 4, 2, 5, 70
    operands = {
        "bias": [drawn(1, heads, 1, keys)], "slopes": [drawn(heads)], "first": [integers([3, -20])],
        "dropout": [integers([1, 2]), integers([7, 0])],
    }  # fmt: skip
    further = [node for option in options for node in operands[option]]
    arrays = [drawn(batch, heads, rows, 6), drawn(batch, groups, keys, 6), drawn(batch, groups, keys, 3)]
    attributes = (0.4, window, 0.25 if "dropout" in options else 0.0, options)
    out, log_sum = p.attention([*arrays, *further], attributes)
    assert_same(out.inputs[0])
    dy = drawn(*out.shape)
    gradient = p.attention_gradient([*arrays, dy, log_sum, drawn(*log_sum.shape), *further], attributes)
    assert_same(gradient[0].inputs[0])


def cells(cell: str) -> tuple[str, int, list[Node], list[Node]]:
    """A cell's name, features of its state, first states and weights of a scan, and its projection."""
    name, size = cell.removeprefix("projected "), 2 if cell.startswith("projected") else UNITS
    projection = [drawn(size, UNITS)] if size != UNITS else []
    further = {"lstm": [drawn(BATCH, UNITS), *projection], "gru": [drawn(UNITS)]}.get(name, [])
    return name, size, [drawn(CELLS[name] * UNITS, size), drawn(BATCH, size), *further], projection


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("cell", [*CELLS, "projected lstm"])
def test_recurrent_scans_and_their_gradients(cell: str, reverse: bool) -> None:
    name, size, states, projection = cells(cell)
    bundle = p.rnn_scan([drawn(STEPS, BATCH, CELLS[name] * UNITS), *states], name, reverse, None)
    assert_same(bundle)
    found = [output(bundle, number) for number in range(len(outputs_of(bundle)))]
    given, (w, h, *others) = [drawn(STEPS, BATCH, size), drawn(BATCH, size)], states
    if name == "lstm":
        given += [drawn(BATCH, UNITS), found[3], found[4], w, others[0], *projection]
    elif name == "gru":
        given += [found[0], found[2], w, h]
    else:
        given += [found[0], w]
    assert_same(p.rnn_scan_gradient(given, name, reverse, None))


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("cell", [*CELLS, "projected lstm"])
def test_ragged_scans_and_their_gradients(cell: str, reverse: bool) -> None:
    name, size, states, projection = cells(cell)
    lengths, wide = integers([5, 0, 3]), CELLS[name] * UNITS
    x, w_ih = drawn(STEPS, BATCH, 6), drawn(wide, 6)
    bundle = p.rnn_scan_ragged([x, w_ih, drawn(wide), *states, lengths], name, reverse, None)
    assert_same(bundle)
    found = [output(bundle, number) for number in range(len(outputs_of(bundle)))]
    given, (w, h, *others) = [drawn(STEPS, BATCH, size), drawn(BATCH, size)], states
    if name == "lstm":
        given += [drawn(BATCH, UNITS), found[0], found[3], found[4], x, w_ih, w, h, others[0], *projection]
    else:
        given += [found[0], *([found[2]] if name == "gru" else []), x, w_ih, w, h]
    assert_same(p.rnn_scan_ragged_gradient([*given, lengths], name, reverse, None))
