"""Derivatives of the element-wise primitives, one line each."""

from __future__ import annotations

import math

from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Gradient, Node
from trainer.engine.graph.primitives.compose import scale


def _x(node: Node) -> Node:
    return node.inputs[0]


def _one(node: Node) -> Node:
    return p.full_like(node, 1.0)


def _zero(node: Node, dy: Node) -> tuple[None, ...]:
    return (None,) * len(node.inputs)


def _erf(node: Node, dy: Node) -> tuple[Node]:
    x = _x(node)
    return (p.multiply(dy, scale(p.exp(p.negative(p.multiply(x, x))), 2.0 / math.sqrt(math.pi))),)


def _cast(node: Node, dy: Node) -> tuple[Node | None]:
    source = _x(node).dtype
    return (p.cast(dy, source) if source.is_float and node.dtype.is_float else None,)


def _multiply(node: Node, dy: Node) -> tuple[Node, Node]:
    a, b = node.inputs
    return p.multiply(dy, b), p.multiply(dy, a)


def _divide(node: Node, dy: Node) -> tuple[Node, Node]:
    da = p.divide(dy, node.inputs[1])
    return da, p.negative(p.multiply(da, node))


def _remainder(node: Node, dy: Node) -> tuple[Node, Node]:
    """a - b·floor(a/b), with the floor constant."""
    a, b = node.inputs
    return dy, p.negative(p.multiply(dy, p.floor(p.divide(a, b))))


def _power(node: Node, dy: Node) -> tuple[Node | None, Node | None]:
    """b·a^(b-1), and a^b·log(a); 0 where b = 0, and 0 where a = 0 (as in PyTorch)."""
    a, b = node.inputs
    if not a.dtype.is_float:
        return None, None
    zero, one = p.full_like(a, 0.0), p.full_like(a, 1.0)
    da = p.where(p.equal(b, zero), zero, p.multiply(b, p.power(a, p.subtract(b, one))))
    is_zero = p.equal(a, zero)
    db = p.where(is_zero, zero, p.multiply(node, p.log(p.where(is_zero, one, a))))
    return p.multiply(dy, da), p.multiply(dy, db)


def _greatest(node: Node, dy: Node) -> tuple[Node, Node]:
    """The cotangent flows to the selected input; equal inputs share it equally (as in PyTorch)."""
    a, b = node.inputs
    zero, half = p.full_like(dy, 0.0), scale(dy, 0.5)
    is_a, is_b = (p.less(b, a), p.less(a, b)) if node.name == "maximum" else (p.less(a, b), p.less(b, a))
    tie = p.where(p.equal(a, b), half, zero)
    return p.where(is_a, dy, tie), p.where(is_b, dy, tie)


def _atan2(node: Node, dy: Node) -> tuple[Node, Node]:
    a, b = node.inputs
    scaled = p.divide(dy, p.add(p.multiply(a, a), p.multiply(b, b)))
    return p.multiply(scaled, b), p.negative(p.multiply(scaled, a))


def _copysign(node: Node, dy: Node) -> tuple[Node, None]:
    """The derivative of |a| times the sign of b: 0 where a is 0 (as in PyTorch)."""
    a, b = node.inputs
    return p.multiply(dy, p.multiply(p.sign(a), p.copysign(_one(node), b))), None


def _parts(node: Node, dz: Node) -> tuple[Node, Node]:
    return p.real(dz), p.imag(dz)


def _where(node: Node, dy: Node) -> tuple[None, Node, Node]:
    condition, zero = _x(node), p.full_like(dy, 0.0)
    return None, p.where(condition, dy, zero), p.where(condition, zero, dy)


GRADIENTS: dict[str, Gradient | None] = {
    "negative": lambda node, dy: (p.negative(dy),),
    "abs": lambda node, dy: (p.multiply(dy, p.sign(_x(node))),),
    "sign": _zero,
    "exp": lambda node, dy: (p.multiply(dy, node),),
    "expm1": lambda node, dy: (p.multiply(dy, p.add(node, _one(node))),),
    "log": lambda node, dy: (p.divide(dy, _x(node)),),
    "log1p": lambda node, dy: (p.divide(dy, p.add(_x(node), _one(node))),),
    "sqrt": lambda node, dy: (p.divide(scale(dy, 0.5), node),),
    "sin": lambda node, dy: (p.multiply(dy, p.cos(_x(node))),),
    "cos": lambda node, dy: (p.negative(p.multiply(dy, p.sin(_x(node)))),),
    "tanh": lambda node, dy: (p.multiply(dy, p.subtract(_one(node), p.multiply(node, node))),),
    "erf": _erf,
    "logistic": lambda node, dy: (p.multiply(dy, p.multiply(node, p.subtract(_one(node), node))),),
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), _zero),
    "cast": _cast,
    "add": lambda node, dy: (dy, dy),
    "subtract": lambda node, dy: (dy, p.negative(dy)),
    "multiply": _multiply,
    "divide": _divide,
    "floor_divide": _zero,
    "remainder": _remainder,
    "power": _power,
    "maximum": _greatest,
    "minimum": _greatest,
    "where": _where,
    "atan2": _atan2,
    "copysign": _copysign,
    "nextafter": lambda node, dy: (dy, None),
    "complex": _parts,
    "real": lambda node, dy: (p.complex_(dy, p.full_like(dy, 0.0)),),
    "imag": lambda node, dy: (p.complex_(p.full_like(dy, 0.0), dy),),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "isfinite", "isnan", "isinf")),
    **dict.fromkeys(("logical_not", "logical_and", "logical_or", "logical_xor")),
    **dict.fromkeys(("bitwise_invert", "bitwise_and", "bitwise_or", "bitwise_xor")),
    **dict.fromkeys(("shift_left", "shift_right", "shift_right_logical")),
}
