"""From a convolution of the graph to what the convolutions' templates are asked for."""

from __future__ import annotations

from typing import Any, Protocol

from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Shape
from trainer.engine.graph.storage import Layout
from trainer.engine.program.epilogue import Epilogue
from trainer.engine.program.layouts import WEIGHTS
from trainer.engine.program.work import NOTHING
from trainer.engine.targets.cpu.kernels.geometry import ConvolutionSpec, Direction


class Attributed(Protocol):
    """A node or a call."""

    @property
    def dtype(self) -> DType: ...

    def attribute(self, name: str) -> Any: ...


def specification(
    node: Attributed,
    direction: Direction,
    x_shape: Shape,
    w_shape: Shape,
    order: Layout = WEIGHTS,
    epilogue: Epilogue = NOTHING,
    prologue: Epilogue = NOTHING,
) -> ConvolutionSpec:
    """The convolution of `node`, or the gradient that it is, of x and w of these shapes; w lies in `order`."""
    filters, _, rows, columns = w_shape
    return ConvolutionSpec(
        node.dtype,
        direction,
        x_shape[0],
        x_shape[1],
        (x_shape[2], x_shape[3]),
        filters,
        (rows, columns),
        node.attribute("strides"),
        node.attribute("padding"),
        node.attribute("dilation"),
        node.attribute("groups"),
        weight_order=(order.order[0], order.order[1], order.order[2], order.order[3]),
        epilogue=epilogue,
        prologue=prologue,
        pairs=node.attribute("precision") is not None,
    )
