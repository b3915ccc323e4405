"""Gradients of bundles and their outputs."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Gradient, Node
from trainer.engine.graph.primitives.host import HostFunction


def _of_host_call(node: Node, cotangents: Sequence[Node | None]) -> Sequence[Node | None]:
    call: HostFunction = node.attributes[0]
    raise refusal(
        "gradients",
        "a host call has no derivative",
        found=f"{call.name}, called at {call.line}",
        hint="Pass its results, or what it takes, through engine.stop_gradient.",
    )


GRADIENTS: dict[str, Gradient | None] = {
    "output": lambda node, dy: (dy,),  # `differentiate` gathers these for the bundle
    "host_call": _of_host_call,
    "host_effect": _of_host_call,
}
