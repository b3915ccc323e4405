"""The derivative of every primitive: `GRADIENTS` gives the rule of each name in `TABLE`, or None where it has none;
and those of host calls and of outputs.

A rule takes (node, cotangent) and returns one node, or None for zero, for each input. It is written in primitives, so
it can be differentiated again. These files stand above all primitives: a definition knows no other primitive.
"""

from __future__ import annotations

from trainer.engine.graph.derivatives import bundles, contraction, elementwise, movement, places, reduction
from trainer.engine.graph.node import Gradient

GRADIENTS: dict[str, Gradient | None] = {
    **elementwise.GRADIENTS,
    **movement.GRADIENTS,
    **reduction.GRADIENTS,
    **contraction.GRADIENTS,
    **places.GRADIENTS,
    **bundles.GRADIENTS,
    **dict.fromkeys(("buffer", "constant", "iota", "random_bits")),
    "barrier": lambda node, dy: (dy,),
    "anchor": lambda node, dy: (dy, None),
    "stop_gradient": None,
}
