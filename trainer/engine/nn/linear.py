"""Linear and Embedding: layers that are one table of numbers."""

from __future__ import annotations

import math

from trainer import TrainerError, engine
from trainer.engine import Tensor
from trainer.engine.nn.initializers import fan_in_bias, kaiming_uniform, normal
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare


class Linear(Module):
    """x @ weight.T + bias; weight [out_features, in_features], bias [out_features], x [..., in_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = declare((out_features, in_features), kaiming_uniform(math.sqrt(5)))
        self.bias = declare((out_features,), fan_in_bias((out_features, in_features))) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            raise TrainerError(f"{self.path or 'Linear'} got another number of features", found=f"shape {x.shape}",
                               expected=f"[..., {self.in_features}]")  # fmt: skip
        rows = x if x.ndim == 2 else engine.reshape(x, (-1, self.in_features))
        y = engine.matmul(rows, engine.matrix_transpose(self.weight))
        if self.bias is not None:
            y = (y + self.bias).astype(y.dtype)
        return y if x.ndim == 2 else engine.reshape(y, (*x.shape[:-1], self.out_features))

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Row `indices` of weight [num_embeddings, embedding_dim]; indices are integers of any shape."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = declare((num_embeddings, embedding_dim), normal())

    def forward(self, indices: Tensor) -> Tensor:
        return engine.take(self.weight, indices, axis=0)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
