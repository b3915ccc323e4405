"""The shape of a tile: the part of a contraction that one call of the micro-kernel of `tile.py` computes."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainer.engine.graph.dtypes import DType
from trainer.engine.program.spec import Epilogue
from trainer.engine.targets.cpu.kernels.products import Products
from trainer.engine.targets.ir.writer import Integer


@dataclass(frozen=True, slots=True)
class Level:
    """A loop of the reduction: its extent, and the elements by which `a`, `b` and prefetches advance at each step.

    An `extent` or step that is a register name becomes a parameter of the tile.
    """

    extent: Integer
    a_step: Integer
    b_step: Integer
    ahead_step: int = 0


@dataclass(frozen=True, slots=True)
class LevelPart:
    """A part of the innermost level that applies to only some rows: its extent, and its offsets in `a` and `b`."""

    extent: Integer
    a_shift: int
    b_shift: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """One shape of the micro-kernel.

    rows: displacement of each row in `a`, in elements; outputs: of each row in the output.
    vectors, b_vector_step: number of vectors, and the elements between them in `b`.
    lanes: number of lanes of the last vector that are stored; b_masked: whether only these may be read.
    runs: parts of the innermost level, instead of all of it for all rows.
    accumulate: the output's value is added to the complete sum (then the output has the accumulator's dtype).
    products: the kind of the elements of `a` and `b`, and how two are multiplied (`products.py`).
    prefetched: whether the cache lines of the output, and of epilogue operands of its size, are prefetched before the
    sum begins. right_ahead: number of steps by which a row of `b` is prefetched before its use; 0: never.
    """

    dtype: DType
    rows: tuple[int, ...]
    outputs: tuple[int, ...]
    vectors: int
    b_vector_step: int
    lanes: int
    levels: tuple[Level, ...]
    unroll: int = 1
    b_masked: bool = False
    accumulate: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    runs: tuple[LevelPart, ...] = ()
    products: Products = "single"
    prefetched: bool = False
    right_ahead: int = 0

    @property
    def by_tile_registers(self) -> bool:
        """Whether AMX multiplies."""
        return self.products.startswith("tile_")

    @property
    def asks(self) -> bool:
        """Whether the tile prefetches memory that is read later, some elements at each step of the innermost level; its
        address is the last pointer. Hardware prefetchers follow few streams.
        """
        return bool(self.levels[-1].ahead_step)

    @property
    def variables(self) -> tuple[str, ...]:
        """Registers that the levels use, each once, in order."""
        names = [value for level in self.levels for value in (level.extent, level.a_step, level.b_step)]
        return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
