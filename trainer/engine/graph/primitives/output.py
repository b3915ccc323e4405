"""Outputs of bundles: a node that computes several arrays at once has no value; its outputs have values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.engine.graph import dtypes
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Node, Outputs, Primitive, Shape, make_node
from trainer.engine.graph.primitives.table import register_bundle


def _kind(inputs: Sequence[Node], attributes: tuple[Any, ...]) -> tuple[Shape, DType]:
    (bundle,), (index,) = inputs, attributes
    if not bundle.is_bundle or not 0 <= index < len(outputs_of(bundle)):
        raise refusal("output", "no such output", found=f"{bundle!r}, output {index}")
    return outputs_of(bundle)[index]


_OUTPUT = register_bundle(
    Primitive(
        "output", "output", lambda inputs, attributes: _kind(inputs, attributes)[0],
        lambda inputs, attributes: _kind(inputs, attributes)[1], lambda attributes, arrays: arrays[attributes[0]],
        ("index",),
    )
)  # fmt: skip


def output(bundle: Node, index: int) -> Node:
    """Output number `index` of `bundle`."""
    return make_node(_OUTPUT, (bundle,), (index,))


def outputs_of(bundle: Node) -> Outputs:
    """The shape and dtype of each output of `bundle`."""
    assert bundle.operation.outputs is not None
    return bundle.operation.outputs(bundle.inputs, bundle.attributes)


def bundle_dtype(outputs: Outputs) -> DType:
    """The nominal dtype of a bundle: that of its first output which gradients may pass, or bool."""
    return next((dtype for _, dtype in outputs if dtype.is_inexact), dtypes.bool_)
