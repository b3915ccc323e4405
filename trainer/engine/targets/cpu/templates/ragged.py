"""Matrix products over the steps of ragged rows, which are the first rows of packed arrays (`kernels/ragged.py`): their
number is read from memory. "rows": the steps are the rows of `a` and of the output; past them at most the rest of a
tile is written. "depth": the steps are the terms of each sum, which are added to the output block by block.

Numerics class: that of `contraction.py` along "rows"; along "depth" chains over BLOCK_STEPS terms, added in order.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: [a, b, output, epilogue operands…, the number of
steps], addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from trainer.engine.targets.cpu.kernels.tile_shape import Level
from trainer.engine.targets.cpu.machine import Machine
from trainer.engine.targets.cpu.templates.contraction import MatmulKernel, MatmulParameters, MatmulSpec, candidates
from trainer.engine.targets.ir.writer import Integer

BLOCK_STEPS = 512
"""Steps in a block of sums: the parts of both operands that it reads stay in the second-level cache."""

TASK_TILES, LEAST_TASKS = 8, 8
"""Maximum tiles along the rows of a task along "depth", if at least LEAST_TASKS tasks remain: `a` is transposed there,
so a step's rows are neighbors, and each step lies on another page (two tiles: a tenth slower).
"""


@dataclass(frozen=True, slots=True)
class RaggedProduct:
    """A product whose number of rows, or depth, is read from memory."""

    spec: MatmulSpec
    parameters: MatmulParameters
    along: Literal["rows", "depth"]

    @classmethod
    def chosen(cls, spec: MatmulSpec, along: Literal["rows", "depth"], machine: Machine) -> RaggedProduct:
        """The product with the parameters that the cost model chooses. The tuner tries no others, because the number of
        steps, and with it the cost of a candidate, differs between batches.
        """
        if along == "rows":
            return cls(spec, candidates(spec, machine)[0], along)
        parameters = candidates(replace(spec, depth=min(spec.depth, BLOCK_STEPS)), machine)[0]
        tiles = min(TASK_TILES, spec.rows // LEAST_TASKS // parameters.tile_rows)
        task_rows = max(parameters.task_rows, tiles * parameters.tile_rows)
        return cls(spec, replace(parameters, task_rows=task_rows, pack_rows=False), along)

    @property
    def kernel(self) -> MatmulKernel:
        return (_Rows if self.along == "rows" else _Depth)(self.spec, self.parameters)

    @property
    def tasks(self) -> int:
        return self.kernel.tasks

    @property
    def scratch(self) -> int:
        return self.kernel.scratch_bytes

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return self.kernel.render(name)


class _Ragged(MatmulKernel):
    def step_count(self) -> str:
        """The number of steps of all rows."""
        word = 3 + len(self.spec.epilogue.operands)
        return self.w.value(f"load i64, ptr {self.w.argument(word)}")


class _Rows(_Ragged):
    def row_count(self) -> Integer:
        return self.step_count()


class _Depth(_Ragged):
    def write_depth(self, a: str, b: str, level: Level, write_tiles: Callable[..., None]) -> None:
        w, memory, count = self.w, self.memory, self.step_count()
        with w.loop(0, count, BLOCK_STEPS) as block:
            extent = w.minimum(BLOCK_STEPS, w.subtract(count, block.index))
            a_here = memory.at(a, w.multiply(block.index, level.a_step))
            b_here = memory.at(b, w.multiply(block.index, level.b_step))
            write_tiles(a_here, b_here, replace(level, extent="%extent"), {"%extent": extent}, accumulate=True)
