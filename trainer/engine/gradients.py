"""Gradients of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.engine.graph import differentiate
from trainer.engine.graph import primitives as p
from trainer.engine.graph.errors import describe, refusal
from trainer.engine.sharding import check_rows
from trainer.engine.tensor import Tensor, wrapped


def gradients(output: Tensor, wrt: Sequence[Tensor], *, cotangent: Tensor | None = None) -> list[Tensor]:
    """Returns the derivatives of the scalar `output` with respect to each of `wrt`, with the same shapes and dtypes.

    They are ordinary graph nodes, so higher derivatives work. With `cotangent` (of `output`'s shape and dtype),
    `output` may have any shape: the results are the derivatives of sum(output * cotangent). The derivative with respect
    to a complex z = x + iy is dL/dx + i dL/dy, the direction of steepest ascent, as in PyTorch; for a complex `output`,
    the results are the derivatives of real(sum(output * conj(cotangent))).

    Raises:
        TrainerError: `output` is not a floating-point scalar, or does not depend on one of `wrt`; or, in a step with
            shards, `output` mixes rows of the batch other than by sums.
    """
    if not output.dtype.is_inexact or (cotangent is None and (output.shape != () or output.dtype.is_complex)):
        raise refusal(
            "gradients",
            "the output is not a floating-point scalar",
            found=describe([output]),
            expected="shape () and a floating-point dtype",
            hint="Take the sum or the mean, or pass `cotangent`.",
        )
    if cotangent is not None and (cotangent.shape != output.shape or cotangent.dtype is not output.dtype):
        raise refusal(
            "gradients",
            "the cotangent doesn't match the output",
            found=describe([cotangent]),
            expected=describe([output]),
        )
    check_rows([output.node])
    nodes = [tensor.node for tensor in wrt]
    seed = p.full_like(output.node, 1.0) if cotangent is None else cotangent.node
    found = differentiate.gradients(output.node, nodes, seed)
    results = []
    for position, (tensor, node) in enumerate(zip(wrt, found, strict=True)):
        if node is None:
            name = getattr(tensor, "name", "")
            raise refusal(
                "gradients",
                "the output does not depend on one of `wrt`",
                found=f"number {position} of `wrt`: {name + ', ' if name else ''}{describe([tensor])}",
                expected="floating-point values on a path to the output that no stop_gradient, rounding or comparison "
                "cuts",
                hint="A state that was assigned to since has another value: take gradients before assigning.",
            )
        anchored = p.anchor(node, output.node)  # where the derivative is constant, its own derivatives are zero
        results.append(wrapped(anchored, output, *(() if cotangent is None else (cotangent,))))
    return results
