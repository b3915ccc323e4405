"""Calls: stored nodes that a template computes. One file a family; each adds its launches to the lowering."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer.engine.graph.node import Node
from trainer.engine.program.calls.contraction import (
    emit_convolution,
    emit_input_gradient,
    emit_matmul,
    emit_weight_gradient,
)
from trainer.engine.program.calls.copies import emit_concatenate, emit_pad
from trainer.engine.program.calls.indexing import emit_gather, emit_scatter_add, emit_scatter_add_along, emit_take_along
from trainer.engine.program.calls.order import emit_argsort, emit_suppress
from trainer.engine.program.calls.windows import (
    emit_cumulative_sum,
    emit_resample,
    emit_window_argmax,
    emit_window_max,
    emit_window_max_gradient,
)

if TYPE_CHECKING:
    from trainer.engine.program.epilogues import Fused
    from trainer.engine.program.lower import Lowering

_EMITTERS: dict[str, Callable[[Lowering, Node, Fused | None], None]] = {
    "matmul": emit_matmul,
    "convolution": emit_convolution,
    "convolution_input_gradient": emit_input_gradient,
    "convolution_weight_gradient": emit_weight_gradient,
    "pad": emit_pad,
    "concatenate": emit_concatenate,
    "gather": emit_gather,
    "scatter_add": emit_scatter_add,
    "take_along": emit_take_along,
    "scatter_add_along": emit_scatter_add_along,
    "window_argmax": emit_window_argmax,
    "window_max": emit_window_max,
    "window_max_gradient": emit_window_max_gradient,
    "resample": emit_resample,
    "cumulative_sum": emit_cumulative_sum,
    "argsort": emit_argsort,
    "suppress": emit_suppress,
}


def emit_call(lowering: Lowering, root: Node, fused: Fused | None) -> None:
    """Add the launches that compute `root`: a call itself, or with `fused` the epilogue of one."""
    _EMITTERS[fused.contraction.name if fused else root.name](lowering, root, fused)
