"""Linear, Bilinear and Embedding."""

from __future__ import annotations

import math

import numpy as np

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.functions.movement import take_rows
from trainer.engine.nn.initializers import Initializer, fan_in_bias, kaiming_uniform, normal, uniform
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare
from trainer.engine.tensor import Tensor


class Linear(Module):
    """x @ weight.T + bias; weight [out_features, in_features], bias [out_features], x [..., in_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = declare((out_features, in_features), kaiming_uniform(math.sqrt(5)))
        self.bias = declare((out_features,), fan_in_bias((out_features, in_features))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        self._check_shape(x.shape[-1:] == (self.in_features,), x, f"[..., {self.in_features}]")
        rows = x if x.ndim == 2 else functions.reshape(x, (-1, self.in_features))
        y = functions.matmul(rows, functions.matrix_transpose(self.weight))
        if self.bias is not None:
            y = (y + self.bias).astype(y.dtype)
        return y if x.ndim == 2 else functions.reshape(y, (*x.shape[:-1], self.out_features))

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """y[..., k] = sum over i, j of x1[..., i]·weight[k, i, j]·x2[..., j], plus bias[k].

    weight [out_features, in1_features, in2_features], bias [out_features]; x1 [..., in1_features] and x2
    [..., in2_features] have the same leading axes.
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True) -> None:
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        bound = 1 / math.sqrt(in1_features)
        self.weight = declare((out_features, in1_features, in2_features), uniform(-bound, bound))
        self.bias = declare((out_features,), uniform(-bound, bound)) if bias else None

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        self._check_shape(x1.shape[-1:] == (self.in1_features,), x1, f"x1 [..., {self.in1_features}]")
        self._check_shape(x2.shape == (*x1.shape[:-1], self.in2_features), x2,
                          f"x2 {[*x1.shape[:-1], self.in2_features]}")  # fmt: skip
        table = functions.reshape(functions.permute_dims(self.weight, (1, 0, 2)), (self.in1_features, -1))
        rows = functions.matmul(functions.reshape(x1, (-1, self.in1_features)), table)
        products = functions.reshape(rows, (*x1.shape[:-1], self.out_features, self.in2_features))
        y = functions.sum(products * functions.expand_dims(x2, axis=-2), axis=-1)
        return y if self.bias is None else (y + self.bias).astype(y.dtype)

    def extra_repr(self) -> str:
        return f"{self.in1_features}, {self.in2_features}, {self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Rows `indices` of weight [num_embeddings, embedding_dim].

    Indices are integers in any shape, 0 to num_embeddings - 1; others read the nearest row and get no gradient. The row
    `padding_idx` (a negative one counts from the end) starts at zero and gets no gradient. The gradients of a row that
    is read several times are added in the order of the indices.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise TrainerError("Embedding has no such row", found=f"padding_idx {padding_idx}",
                                   expected=f"-{num_embeddings} to {num_embeddings - 1}")  # fmt: skip
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight = declare((num_embeddings, embedding_dim), _with_zero_row(padding_idx))

    def forward(self, indices: Tensor) -> Tensor:
        rows = take_rows(self.weight, indices)
        if self.padding_idx is None:
            return rows
        return functions.where(
            functions.expand_dims(indices == self.padding_idx, axis=-1), functions.stop_gradient(rows), rows
        )

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def _with_zero_row(row: int | None) -> Initializer:
    """Returns an initializer: standard normal values, and zeros in `row`."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        values = normal()(generator, shape)
        if row is not None:
            values[row] = 0
        return values

    return draw
