"""Reads and combines elements at computed positions: gather, take_along and their transposes as one loop nest.

It runs over the space of the *dense* array (the output of a gather, the updates of a scatter). For each element, an
index array gives its position along one axis of the *table*. An index outside the axis is clamped when reading and
dropped when combining, so no index touches memory outside the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.work import Work
from trainer.engine.targets.ir.expression import literal

Operation = Literal["gather", "scatter_add", "scatter_prod", "scatter_max", "scatter_min"]
COMBINING = {"scatter_add": "add", "scatter_prod": "multiply", "scatter_max": "maximum", "scatter_min": "minimum"}


@dataclass(frozen=True, slots=True)
class Indexing:
    """One indexing loop nest. `sizes` is the dense array's shape; all strides are in elements, along its dimensions.

    `table_strides` are 0 along dimensions that select a position on the axis (those of gather's indices, or the axis of
    take_along). A scatter clears the table first.
    """

    operation: Operation
    dtype: DType
    index_dtype: DType
    sizes: tuple[int, ...]
    axis_size: int
    axis_stride: int
    dense_strides: tuple[int, ...]
    index_strides: tuple[int, ...]
    table_strides: tuple[int, ...]

    @classmethod
    def of(cls, work: Work) -> Self:
        """Returns the loop nest of an item, whose operands are read and written with their strides."""
        (values, indices), target, name = work.reads, work.writes[0], work.spec.operation.name
        scatters, along = name.startswith("scatter"), name.endswith("along")
        table, dense = (target, values) if scatters else (values, target)
        operation: Any = name.removesuffix("_along") if scatters else "gather"
        return cls.over(
            operation, along, table.shape, indices.shape, work.spec.attribute("axis"), values.dtype, indices.dtype,
            table_strides=table.strides, index_strides=indices.strides, dense_strides=dense.strides,
        )  # fmt: skip

    @classmethod
    def over(
        cls, operation: Operation, along: bool, table_shape: Sequence[int], indices_shape: Sequence[int], axis: int,
        dtype: DType, index_dtype: DType, *,
        table_strides: Sequence[int], index_strides: Sequence[int], dense_strides: Sequence[int],
    ) -> Self:  # fmt: skip
        """dense = table.take(indices, axis), of shape table[:axis] + indices + table[axis+1:]; or, with `along`,
        numpy.take_along_axis(table, indices, axis), of the indices' shape. The transpose of either combines the dense
        array with a cleared table, in row-major order of the indices.
        """
        if along:
            sizes, indices = tuple(indices_shape), tuple(index_strides)
            table = tuple(0 if dimension == axis else stride for dimension, stride in enumerate(table_strides))
        else:
            sizes = (*table_shape[:axis], *indices_shape, *table_shape[axis + 1 :])
            indices = (*[0] * axis, *index_strides, *[0] * (len(table_shape) - axis - 1))
            table = (*table_strides[:axis], *[0] * len(indices_shape), *table_strides[axis + 1 :])
        extent, step = table_shape[axis], table_strides[axis]
        return cls(operation, dtype, index_dtype, sizes, extent, step, tuple(dense_strides), indices, table)

    @property
    def combining(self) -> tuple[int, ...]:
        """The dimensions along which several elements of a scatter may be combined at one position of the table."""
        if self.operation == "gather":
            return ()
        return tuple(axis for axis, size in enumerate(self.sizes) if self.table_strides[axis] == 0 and size != 1)

    @property
    def neutral(self) -> str:
        """The literal with which the first update is combined."""
        if self.operation in ("scatter_add", "scatter_prod"):
            return literal(self.dtype, self.operation == "scatter_prod")
        is_greatest = self.operation == "scatter_min"
        if self.dtype.is_float:
            return literal(self.dtype, math.inf if is_greatest else -math.inf)
        limits = np.iinfo(self.dtype.storage)
        return literal(self.dtype, limits.max if is_greatest else limits.min)
