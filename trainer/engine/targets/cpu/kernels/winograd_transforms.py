"""The transforms of Winograd's minimal filtering F(mxm, rxr) in one dimension, as instructions on vectors.

    y = A^T [(G g) * (B^T d)],  d of m + r - 1 inputs, g of r taps, y of m outputs

The products are the polynomials' values at the points 0, +-p for each p of `pairs`, and infinity. Both signs of a point
share an even and an odd part, so six inputs take twelve instructions. Points: +-1 for four inputs; for six +-5/8 and
+-3/2, exact in binary. With three taps their rounding errors grow by at most 63 over those of the direct sum; with the
usual +-1 and +-2 they grow by up to 256 (measured on random data 0.84 and 1.82 units in the last place of sum |a||b|,
direct sum 0.45).

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016; Barabasz et al., "Error Analysis and
Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from trainer.engine.graph.dtypes import DType
from trainer.engine.targets.cpu.kernels.tile import lanes_of
from trainer.engine.targets.ir.expression import MEMORY
from trainer.engine.targets.ir.vectors import Floats
from trainer.engine.targets.ir.writer import Writer

PAIRS = {4: (Fraction(1),), 6: (Fraction(5, 8), Fraction(3, 2))}
"""By number of points, those other than 0 and infinity; the negative of each is also a point."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """F(mxm, rxr) with m `outputs` and r `taps`, at least two of each."""

    outputs: int
    taps: int = 3

    @property
    def points(self) -> int:
        """Products along one axis: m + r - 1."""
        return self.outputs + self.taps - 1

    @property
    def pairs(self) -> tuple[Fraction, ...]:
        return PAIRS[self.points]

    def others(self, pair: Fraction) -> tuple[Fraction, ...]:
        """Squares of the other pairs' points."""
        return tuple(other * other for other in self.pairs if other != pair)

    def scale(self, pair: Fraction) -> Fraction:
        """The product of the point's distances to all other finite points."""
        square = pair * pair
        return 2 * square * math.prod((square - other for other in self.others(pair)), start=Fraction(1))


class Transforms:
    """Writes the transforms of one algorithm; each takes and returns names of vectors."""

    def __init__(self, writer: Writer, dtype: DType, algorithm: Algorithm) -> None:
        self.algorithm, self.floats = algorithm, Floats(writer, MEMORY[dtype.name], lanes_of(dtype))

    def _fma(self, factor: Fraction, value: str, total: str) -> str:
        """factor * value + total, rounded once."""
        if abs(factor) == 1:
            return (self.floats.add if factor > 0 else self.floats.subtract)(total, value)
        return self.floats.fma(self.floats.constant(float(factor)), value, total)

    def _scaled(self, factor: Fraction, value: str) -> str:
        return value if factor == 1 else self.floats.multiply(self.floats.constant(float(factor)), value)

    def _even(self, values: Sequence[str], squares: tuple[Fraction, ...]) -> str:
        """The polynomial with roots +-sqrt(squares), its powers of the square times `values`, highest power last."""
        if not squares:
            return values[0]
        if len(squares) == 1:
            return self._fma(-squares[0], values[0], values[1])
        low, high = squares
        return self._fma(low * high, values[0], self._fma(-(low + high), values[1], values[2]))

    def square(
        self, transform: Callable[[Sequence[str]], list[str]], side: int, load: Callable[[int, int], str]
    ) -> Iterator[tuple[int, int, str]]:
        """Yields (row, column, value) of a square's transform, columns first; `load(row, column)` loads its values."""
        columns = [transform([load(row, column) for row in range(side)]) for column in range(side)]
        for row in range(len(columns[0])):
            for column, value in enumerate(transform([part[row] for part in columns])):
                yield row, column, value

    def data(self, d: Sequence[str]) -> list[str]:
        """B^T d: inputs to as many points."""
        squares = tuple(pair * pair for pair in self.algorithm.pairs)
        result = [self._even(d[0:-1:2], squares)]
        for pair in self.algorithm.pairs:
            others = self.algorithm.others(pair)
            even, odd = self._even(d[2:-1:2], others), self._even(d[1:-1:2], others)
            result += [self._fma(pair, odd, even), self._fma(-pair, odd, even)]
        return [*result, self._even(d[1::2], squares)]

    def filter(self, g: Sequence[str]) -> list[str]:
        """G g: taps to points."""
        squares = tuple(pair * pair for pair in self.algorithm.pairs)
        zero = math.prod((-square for square in squares), start=Fraction(1))
        result = [self._scaled(1 / zero, g[0])]
        for pair in self.algorithm.pairs:
            scale = self.algorithm.scale(pair)
            even = self._scaled(1 / scale, g[0])
            for power in range(2, len(g), 2):
                even = self._fma(pair**power / scale, g[power], even)
            for point in (pair, -pair):
                total = even
                for power in range(1, len(g), 2):
                    total = self._fma(point**power / scale, g[power], total)
                result.append(total)
        return [*result, g[-1]]

    def output(self, m: Sequence[str]) -> list[str]:
        """A^T m: points to outputs."""
        pairs = self.algorithm.pairs
        sums = [self.floats.add(m[1 + 2 * i], m[2 + 2 * i]) for i in range(len(pairs))]
        differences = [self.floats.subtract(m[1 + 2 * i], m[2 + 2 * i]) for i in range(len(pairs))]
        result = []
        for power in range(self.algorithm.outputs):
            parts = sums if power % 2 == 0 else differences
            total = m[0] if power == 0 else m[-1] if power == self.algorithm.outputs - 1 else ""
            for pair, part in zip(pairs, parts, strict=True):
                factor = pair**power
                total = self._fma(factor, part, total) if total else self._scaled(factor, part)
            result.append(total)
        return result

    def gradient(self, y: Sequence[str]) -> list[str]:
        """A y, the transpose of `output`: values to points."""
        result = [y[0]]
        for pair in self.algorithm.pairs:
            parts = [y[0], y[1]]
            for power in range(2, len(y)):
                parts[power % 2] = self._fma(pair ** (power - power % 2), y[power], parts[power % 2])
            even, odd = parts
            result += [self._fma(pair, odd, even), self._fma(-pair, odd, even)]
        return [*result, y[-1]]

    def weights(self, u: Sequence[str]) -> list[str]:
        """G^T u, the transpose of `filter`: points to taps."""
        pairs = self.algorithm.pairs
        zero = math.prod((-pair * pair for pair in pairs), start=Fraction(1))
        taps = self.algorithm.taps
        totals = [self._scaled(1 / zero, u[0]), *[""] * (taps - 2), u[-1]]
        for number, pair in enumerate(pairs):
            above, below = u[1 + 2 * number], u[2 + 2 * number]
            parts = self.floats.add(above, below), self.floats.subtract(above, below)
            for power in range(taps):
                factor, part = pair**power / self.algorithm.scale(pair), parts[power % 2]
                total = totals[power]
                totals[power] = self._fma(factor, part, total) if total else self._scaled(factor, part)
        return totals
