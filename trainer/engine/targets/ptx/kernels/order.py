"""Sorting by rank, and greedy suppression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engine.graph.dtypes import bool_, int64
from trainer.engine.targets.ir.sort_keys import Keys
from trainer.engine.targets.ir.writer import Integer
from trainer.engine.targets.ptx.kernels.kernel_writer import KernelWriter
from trainer.engine.targets.ptx.kernels.points import PointKernel, Strides, element


@dataclass(frozen=True)
class RankKernel(PointKernel):
    """The first `count` sorted elements of each line along an axis, or with `places` their indices as int64.

    A thread counts how many elements of its line come before its own. The sort is therefore stable, and its work grows
    with the square of the line's length. Addresses: x, y; strides are by axis.
    """

    keys: Keys
    shape: tuple[int, ...]
    axis: int
    count: int
    places: bool
    input_strides: Strides
    output_strides: Strides
    flush: bool

    @property
    def extents(self) -> tuple[int, ...]:
        return self.shape

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        keys, dtype, own = self.keys, self.keys.dtype, place[self.axis]

        def at(where: Integer) -> list[Integer]:
            return [where if axis == self.axis else index for axis, index in enumerate(place)]

        def key_at(where: Integer) -> str:
            raw = w.load(dtype, element(w, dtype, addresses[0], at(where), self.input_strides), constant=True)
            if dtype.is_float and not dtype.is_half:
                raw = w.value(
                    f"bitcast <1 x {'float' if keys.width == 32 else 'double'}> {raw} to <1 x {keys.element}>"
                )
            return keys.encode(w, w.scalar(keys.element, raw))

        key = key_at(own)
        with w.loop("0", str(self.shape[self.axis]), 1, [("i64", "0")]) as loop:
            other = key_at(loop.index)
            earlier = w.value(f"icmp ult i64 {loop.index}, {own}")
            tied = w.value(f"and i1 {w.value(f'icmp eq {keys.element} {other}, {key}')}, {earlier}")
            before = w.value(f"or i1 {w.value(f'icmp ult {keys.element} {other}, {key}')}, {tied}")
            loop.next = [w.value(f"add i64 {loop.carried[0]}, {w.value(f'zext i1 {before} to i64')}")]
        (rank,) = loop.next
        result = int64 if self.places else dtype
        with w.when(w.value(f"icmp ult i64 {rank}, {self.count}"), "wanted"):
            target = element(w, result, addresses[1], at(rank), self.output_strides)
            if self.places:
                return w.store(int64, w.single("i64", str(own)), target)
            bits = w.single(keys.element, keys.decode(w, key))
            if dtype.is_float and not dtype.is_half:
                bits = w.value(
                    f"bitcast <1 x {keys.element}> {bits} to <1 x {'float' if keys.width == 32 else 'double'}>"
                )
            w.store(dtype, bits, target)


@dataclass(frozen=True)
class SuppressKernel(PointKernel):
    """y [..., N] = whether each candidate is kept, from overlaps x [..., N, N]. Addresses: x, y; strides are by axis.

    A thread block processes one matrix, candidate by candidate; a thread owns every `threads`-th candidate.
    """

    shape: tuple[int, ...]
    input_strides: Strides
    output_strides: Strides
    flush: bool

    @property
    def extents(self) -> tuple[int, ...]:
        return (*self.shape[:-2], self.threads)

    def point(self, w: KernelWriter, place: Sequence[Integer], addresses: Sequence[str]) -> None:
        (x, y), (*matrix, thread), count = addresses, place, self.shape[-1]

        def kept_at(index: Integer) -> str:
            return element(w, bool_, y, [*matrix, index], self.output_strides)

        def flag(address: str) -> str:
            return w.scalar("i8", w.load(bool_, address))

        with w.loop(str(thread), str(count), self.threads) as own:
            w.store(bool_, w.single("i8", "1"), kept_at(own.index))
        w.barrier()
        with w.loop("0", str(count)) as candidate:
            stays = w.value(f"icmp ne i8 {flag(kept_at(candidate.index))}, 0")
            with w.loop(str(thread), str(count), self.threads) as other:
                later = w.value(f"icmp ugt i64 {other.index}, {candidate.index}")
                with w.when(w.value(f"and i1 {stays}, {later}"), "later"):
                    overlap = flag(element(w, bool_, x, [*matrix, candidate.index, other.index], self.input_strides))
                    with w.when(w.value(f"icmp ne i8 {overlap}, 0"), "overlaps"):
                        w.store(bool_, w.single("i8", "0"), kept_at(other.index))
            w.barrier()
