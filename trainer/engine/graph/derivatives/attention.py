"""Derivatives of attention.

The first derivative is the primitive `attention_gradient`, which recomputes the scores block by block. Its derivatives
are composed of primitives: they form matrices of scores, and have derivatives of every order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Gradient, Node
from trainer.engine.graph.primitives.attention import GROUP, UNLIMITED, options_of, sums_of
from trainer.engine.graph.primitives.compose import add_all, broadcast, scale, transpose_last

Cotangents = Sequence[Node | None]


def _sum(*terms: Node | None) -> Node | None:
    known = [term for term in terms if term is not None]
    return add_all(known) if known else None


def _wide(x: Node) -> Node:
    """`x` in the dtype of sums."""
    return p.cast(x, sums_of(x.dtype))


class _Matrices:
    """The matrices [B, H, M, N] of an attention, as nodes."""

    def __init__(self, node: Node) -> None:
        self.scale, self.window, self.dropout, _ = node.attributes
        self.query, self.key, self.value = (_wide(each) for each in node.inputs[:3])
        self.options = options_of(node.name, node.inputs, node.attributes)
        self.shape = (*self.query.shape[:3], self.key.shape[2])
        self.keys, self.values = self.repeated(self.key), self.repeated(self.value)

    def repeated(self, x: Node) -> Node:
        """`x` with one key or value head for each query head."""
        batch, groups, *rest = x.shape
        heads = self.shape[1]
        if groups == heads:
            return x
        split = p.reshape(x, (batch, groups, 1, *rest))
        return p.reshape(p.expand(split, (batch, groups, heads // groups, *rest)), (batch, heads, *rest))

    def of_groups(self, x: Node) -> Node:
        """The sum of `x` over the query heads of each key head."""
        batch, heads, *rest = x.shape
        groups = self.key.shape[1]
        if groups == heads:
            return x
        return p.reduce_sum(p.reshape(x, (batch, groups, heads // groups, *rest)), (2,))

    def row(self, x: Node) -> Node:
        """`x`, one number for each query, repeated along the keys."""
        return p.expand(p.reshape(x, (*x.shape, 1)), self.shape)

    def distance(self) -> Node:
        """Position of the query minus position of the key, int32."""
        batch, _, rows, keys = self.shape
        whole = (batch, 1, rows, keys)
        distance = p.subtract(p.iota(whole, 2, dtypes.int32), p.iota(whole, 3, dtypes.int32))
        if "first" in self.options:
            distance = p.add(distance, p.expand(p.reshape(self.options["first"][0], (batch, 1, 1, 1)), whole))
        return p.expand(distance, self.shape)

    def scores(self) -> Node:
        """The scores before the softmax."""
        scores = scale(p.matmul(self.query, transpose_last(self.keys)), self.scale)
        if "bias" in self.options:
            scores = p.add(scores, broadcast(self.options["bias"][0], self.shape))
        if "slopes" in self.options:
            slopes = p.expand(p.reshape(self.options["slopes"][0], (1, self.shape[1], 1, 1)), self.shape)
            scores = p.subtract(scores, p.multiply(slopes, self.length()))
        before, after = self.window
        nothing, distance = p.full_like(scores, -math.inf), self.distance()
        if before < UNLIMITED:
            scores = p.where(p.less_equal(distance, p.full_like(distance, before)), scores, nothing)
        if after < UNLIMITED:
            scores = p.where(p.less_equal(p.full_like(distance, -after), distance), scores, nothing)
        return scores

    def length(self) -> Node:
        """The absolute distance, as a float."""
        return p.cast(p.abs(self.distance()), self.query.dtype)

    def kept(self, x: Node) -> Node:
        """`x` after dropout: x / (1 − p) where the weight is kept, else 0."""
        if "dropout" not in self.options:
            return x
        batch, heads, rows, keys = self.shape
        groups, run = -(-keys // GROUP), GROUP // 4
        key, counter = self.options["dropout"]
        draws = [
            p.reshape(p.random_bits(key, counter, (batch, heads, rows, groups, run), word),
                      (batch, heads, rows, groups, 1, run))
            for word in range(4)
        ]  # fmt: skip
        whole = p.reshape(p.concatenate(draws, 4), (batch, heads, rows, groups * GROUP))
        bits = p.slice_(whole, (0,) * 4, self.shape, (1,) * 4)
        uniform = scale(p.cast(p.shift_right_logical(bits, p.full_like(bits, 8)), dtypes.float32), 2.0**-24)
        is_kept = p.less(uniform, p.full_like(uniform, 1 - self.dropout))
        return p.where(is_kept, scale(x, 1 / (1 - self.dropout)), p.full_like(x, 0.0))

    def of_options(self, dscores: Node) -> list[Node | None]:
        """The cotangents of the options, given the cotangent of the scores."""
        found: list[Node | None] = []
        for option, nodes in self.options.items():
            if option == "bias":
                axes = tuple(axis for axis in range(4) if nodes[0].shape[axis] != self.shape[axis])
                total = p.reduce_sum(dscores, axes) if axes else dscores
                found.append(p.reshape(total, nodes[0].shape))
            elif option == "slopes":
                found.append(p.negative(p.reduce_sum(p.multiply(dscores, self.length()), (0, 2, 3))))
            else:
                found += [None] * len(nodes)
        return found


def _attention(node: Node, cotangents: Cotangents) -> Sequence[Node | None]:
    dy, dlog_sum = cotangents
    out, log_sum = (p.output(node, index) for index in range(2))
    dy = p.full_like(out, 0.0) if dy is None else dy
    delta = p.reduce_sum(p.multiply(dy, out), (3,))
    if dlog_sum is not None:
        delta = p.subtract(delta, dlog_sum)
    operands, dtype = node.inputs[:3], node.inputs[0].dtype
    inputs = (*operands, p.cast(dy, dtype), log_sum, delta, *node.inputs[3:])
    *parts, dscores = p.attention_gradient(inputs, node.attributes)
    return (*(p.cast(part, dtype) for part in parts), *_Matrices(node).of_options(dscores))


def _attention_gradient(node: Node, cotangents: Cotangents) -> Sequence[Node | None]:
    """With scores S, P = exp(S − log_sum), dropout Z and the element-wise product ∘, the primitive computes
    dS = P∘(Z∘(dy Vᵀ) − delta), dQ = scale·dS K, dK = scale·dSᵀ Q, dV = (Z∘P)ᵀ dy, and also returns dS.
    """
    m, dtype = _Matrices(node), node.inputs[0].dtype
    dy, log_sum, delta = _wide(node.inputs[3]), *node.inputs[4:6]
    to_query, to_key, to_value, of_dscores = cotangents
    to_key = None if to_key is None else m.repeated(to_key)
    to_value = None if to_value is None else m.repeated(to_value)
    weights = p.exp(p.subtract(m.scores(), m.row(log_sum)))
    inner = p.subtract(m.kept(p.matmul(dy, transpose_last(m.values))), m.row(delta))
    dscores = p.multiply(weights, inner)
    to_dscores = _sum(
        None if to_query is None else scale(p.matmul(to_query, transpose_last(m.keys)), m.scale),
        None if to_key is None else scale(p.matmul(m.query, transpose_last(to_key)), m.scale),
        of_dscores,
    )
    to_weights = _sum(
        None if to_dscores is None else p.multiply(to_dscores, inner),
        None if to_value is None else m.kept(p.matmul(dy, transpose_last(to_value))),
    )
    if to_weights is None:
        return [None] * len(node.inputs)
    to_scores = p.multiply(weights, to_weights)
    of_inner = None if to_dscores is None else p.multiply(to_dscores, weights)
    of_products = None if of_inner is None else m.kept(of_inner)
    query = _sum(
        scale(p.matmul(to_scores, m.keys), m.scale),
        None if to_key is None else scale(p.matmul(dscores, to_key), m.scale),
    )
    key = _sum(
        scale(p.matmul(transpose_last(to_scores), m.query), m.scale),
        None if to_query is None else scale(p.matmul(transpose_last(dscores), to_query), m.scale),
    )
    of_dy = _sum(
        None if of_products is None else p.matmul(of_products, m.values),
        None if to_value is None else p.matmul(m.kept(weights), to_value),
    )
    assert key is not None
    value = None if of_products is None else m.of_groups(p.matmul(transpose_last(of_products), dy))
    return [
        *(None if each is None else p.cast(each, dtype) for each in (query, m.of_groups(key), value, of_dy)),
        p.negative(p.reduce_sum(to_scores, (3,))),
        None if of_inner is None else p.negative(p.reduce_sum(of_inner, (3,))),
        *m.of_options(to_scores),
    ]


GRADIENTS: dict[str, Gradient | None] = {"attention": _attention, "attention_gradient": _attention_gradient}
