"""The derivatives of all primitives: `GRADIENTS` has the rule of each name in `TABLE`, or None for a primitive without
one; and the rules of host calls, custom kernels, scans and outputs.

A rule takes (node, cotangent) and returns one node, or None for zero, for each input. It is composed of primitives, so
it can be differentiated again. These modules are above all primitives: no definition of a primitive imports them.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph import primitives as p
from trainer.engine.graph.derivatives import (
    attention,
    contraction,
    elementwise,
    movement,
    places,
    recurrent,
    reduction,
)
from trainer.engine.graph.errors import refusal
from trainer.engine.graph.node import Gradient, Node
from trainer.engine.graph.primitives.custom import CustomKernel
from trainer.engine.graph.primitives.host import HostFunction


def _of_host_call(node: Node, cotangents: Sequence[Node | None]) -> Sequence[Node | None]:
    call: HostFunction = node.attributes[0]
    if call.gradient is not None:
        return call.gradient(node, cotangents)
    raise refusal(
        "gradients",
        "a host call has no derivative",
        found=f"{call.name}, called at {call.line}",
        hint="Pass its results, or what it takes, through engine.stop_gradient.",
    )


def _of_custom(node: Node, dy: Node) -> Sequence[Node | None]:
    kernel: CustomKernel = node.attributes[0]
    if kernel.gradient is None:
        raise refusal(
            "gradients",
            f"the custom kernel {kernel.name} has no derivative",
            hint="Give engine.custom a `gradient`, or pass the kernel's inputs through engine.stop_gradient.",
        )
    return kernel.gradient(dy, node, node.inputs)


GRADIENTS: dict[str, Gradient | None] = {
    **elementwise.GRADIENTS,
    **movement.GRADIENTS,
    **reduction.GRADIENTS,
    **contraction.GRADIENTS,
    **places.GRADIENTS,
    **recurrent.GRADIENTS,
    **attention.GRADIENTS,
    **dict.fromkeys(("host_call", "host_effect"), _of_host_call),
    "custom": _of_custom,
    "shard_sum": lambda node, dy: (p.shard_sum(dy),),  # the loss is the sum of the shards' losses
    "scan": lambda node, cotangents: node.attributes[0].gradient(node, cotangents),
    "with_gradient": lambda node, dy: (None, *node.attributes[0](dy, node, node.inputs[1:])),
    "output": lambda node, dy: (dy,),  # `differentiate` gathers these for the bundle
    **dict.fromkeys(("buffer", "constant", "iota", "random_bits")),
    "barrier": lambda node, dy: (dy,),
    "anchor": lambda node, dy: (dy, None),
    "stop_gradient": None,
}
