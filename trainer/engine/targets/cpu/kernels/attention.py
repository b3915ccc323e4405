"""Attention, forward: a block of queries with one block of keys after the other, with a running maximum and sum.

Dao et al. 2022 (FlashAttention), Milakov & Gimelshein 2018 (online softmax). The lanes are queries: keys and values are
read in their memory layout, one element for all lanes; maxima and sums need no operation across lanes; only the queries
and the output are transposed, once each.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: addresses of query, key, value, the options'
operands, out and log_sum (dense [B, H, M]).
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.graph.primitives.attention import GROUP
from trainer.engine.targets.cpu.kernels.attention_blocks import (
    BLOCK,
    AttentionSpec,
    Blocks,
    block_totals,
    scratch_elements,
)  # fmt: skip
from trainer.engine.targets.cpu.kernels.loops import broadcast
from trainer.engine.targets.ir import mathematics
from trainer.engine.targets.ir.writer import Integer, vector

OPTION_WORDS = {"bias": ("bias",), "slopes": ("slopes",), "first": ("first",), "dropout": ("key", "counter")}


def words_of(first: tuple[str, ...], operands: tuple[str, ...], last: tuple[str, ...]) -> list[str]:
    """The names of an argument block's words."""
    return [*first, *(word for option in operands for word in OPTION_WORDS[option]), *last]


@dataclass(frozen=True, slots=True)
class Attention:
    """Computes out and log_sum from query, key and value; `spec.strides` are those of query, key, value and out."""

    spec: AttentionSpec

    @property
    def block(self) -> int:
        """Number of queries of a task."""
        return min(BLOCK, self.spec.padded(self.spec.rows))

    @property
    def tasks(self) -> int:
        return self.spec.batch * self.spec.heads * -(-self.spec.rows // self.block)

    @property
    def areas(self) -> tuple[int, ...]:
        """Sizes of transposed queries, scores, transposed output, maxima, sums, factors, a spare row, paired values."""
        spec, block = self.spec, self.block
        places = spec.padded(spec.value_width)
        turned, paired = spec.terms(spec.width) * block, spec.terms(BLOCK) * places if spec.pairs else 0
        return turned, BLOCK * block, places * block, block, block, block, places, paired

    @property
    def scratch_bytes(self) -> int:
        return sum(scratch_elements(self.spec, size) for size in self.areas) * self.spec.dtype.itemsize

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return _Forward(self).render(name)


class _Forward(Blocks):
    def __init__(self, kernel: Attention) -> None:
        words = words_of(("query", "keys", "value"), kernel.spec.operands, ("out", "log_sum"))
        super().__init__(kernel.spec, words)
        self.kernel, self.block = kernel, kernel.block
        self.vectors = [start for start in range(0, self.block, self.lanes)]

    def render(self, name: str) -> str:
        spec, w, f, block = self.spec, self.w, self.f, self.block
        self.batch, self.head, number = w.unravel("%task", spec.heads, -(-spec.rows // block))
        group, _ = w.divide(self.head, spec.heads // spec.groups)
        query, key, value, out = spec.strides
        self.row = w.multiply(number, block)
        rows = w.minimum(block, w.subtract(spec.rows, self.row)) if spec.rows % block else block
        self.position = w.add(self.first(self.batch), self.row)
        turned, self.scores, output, self.top, self.total, self.factor, spare, paired = self.areas(*self.kernel.areas)
        early, late = (1.0, spec.scale) if spec.pairs else (spec.scale, 1.0)
        self.transpose_in(
            "query", self.at("query", query, self.batch, self.head, self.row, 0), turned, tokens=rows,
            stride=query[2], width=spec.terms(spec.width), pitch=block, factor=early,
        )  # fmt: skip
        self.fill(output, spec.padded(spec.value_width) * block, f.constant(0.0))
        self.fill(self.top, block, f.constant(float("-inf")))
        self.fill(self.total, block, f.constant(0.0))
        keys, values = (self.at(*operand, self.batch, group, 0, 0) for operand in (("keys", key), ("value", value)))
        low, high = self._visible(rows)
        with w.loop(low, high, BLOCK) as loop:
            place = loop.index
            if spec.keys < BLOCK:
                count: Integer = spec.keys
            else:
                count = w.minimum(BLOCK, w.subtract(spec.keys, place)) if spec.keys % BLOCK else BLOCK
            totals = block_totals(spec.keys, BLOCK)
            self.product(
                "scores", self.memory.at(keys, w.multiply(place, key[2])), turned, self.scores, rows=count,
                row_step=key[2], steps=spec.terms(spec.width), a_step=key[3], b_step=block, columns=block,
                output_step=block, heights=totals, factor=late,
            )  # fmt: skip
            self._adjust(place, count, rows)
            self._normalize(place, count)
            with w.loop(0, spec.padded(spec.value_width)) as line:
                for start in self.vectors:
                    there = w.add(w.multiply(line.index, block), start)
                    scaled = f.multiply(self.memory.load(output, there), self.memory.load(self.factor, start))
                    self.memory.store(scaled, output, there)
            source, along = self.memory.at(values, w.multiply(place, value[2])), value[2]
            if spec.pairs:
                self.pair_rows(self.scores, rows=count, columns=block, totals=totals)
                self.interleave(source, paired, tokens=count, stride=along, width=spec.value_width)
                source, along = paired, spec.padded(spec.value_width)
            self.product(
                "output", source, self.scores, output, rows=spec.value_width, row_step=value[3],
                steps=self.terms(count), a_step=along, b_step=block, columns=block, output_step=block, accumulate=True,
            )  # fmt: skip
        self._finish(rows)
        target = self.at("out", out, self.batch, self.head, self.row, 0)
        self.transpose_out(
            "output", output, target, tokens=rows, stride=out[2], width=spec.value_width, pitch=block, spare=spare,
            factors=self.factor,
        )  # fmt: skip
        return w.module(name, scratch=True)

    def _visible(self, rows: Integer) -> tuple[Integer, Integer]:
        """The range of keys that some query of the block attends to; its start is the first key of a block."""
        spec, w = self.spec, self.w
        low: Integer = 0
        high: Integer = spec.keys
        if self.is_limited(0):
            low = w.maximum(0, w.subtract(self.position, spec.window[0]))
            low = w.multiply(w.divide(low, BLOCK)[0], BLOCK)
        if self.is_limited(1):
            high = w.minimum(spec.keys, w.add(w.add(self.position, rows), spec.window[1]))
        return low, high if isinstance(high, str) else str(high)

    def _adjust(self, place: Integer, count: Integer, rows: Integer) -> None:
        """Adds biases and slopes, and masks scores outside the window, where the specification has these."""
        spec, w = self.spec, self.w
        if self._has_rows_of_bias:
            self._add_rows_of_bias(place, count, rows)
        if self._has_gathered_bias or "slopes" in spec.operands:
            return self._adjust_all(place, count)
        conditions = []
        if self.is_limited(0):  # the last query and the first key
            distance = w.subtract(w.add(self.position, w.subtract(rows, 1)), place)
            conditions.append(w.value(f"icmp sgt i64 {distance}, {spec.window[0]}"))
        if self.is_limited(1):  # the first query and the last key
            distance = w.subtract(self.position, w.add(place, w.subtract(count, 1)))
            conditions.append(w.value(f"icmp slt i64 {distance}, {-spec.window[1]}"))
        if conditions:
            either = conditions[0] if len(conditions) == 1 else w.value(f"or i1 {conditions[0]}, {conditions[1]}")
            with w.when(either, "masked"):
                self._adjust_all(place, count)

    @property
    def _has_rows_of_bias(self) -> bool:
        """Whether each query has biases that are contiguous along the keys."""
        return "bias" in self.spec.operands and self.spec.bias[3] == 1 and self.spec.bias[2] != 0

    @property
    def _has_gathered_bias(self) -> bool:
        return "bias" in self.spec.operands and not self._has_rows_of_bias

    def _add_rows_of_bias(self, place: Integer, count: Integer, rows: Integer) -> None:
        """Adds transposed squares of the bias: gathering its lanes takes longer than the product of the scores."""
        spec, w = self.spec, self.w
        source = self.at("bias", spec.bias, self.batch, self.head, self.row, place)
        for width, _ in w.cut(0, count, BLOCK, block_totals(spec.keys, BLOCK)):
            self.transpose_in(
                "bias", source, self.scores, tokens=rows, stride=spec.bias[2], width=width, pitch=self.block,
                accumulate=True,
            )  # fmt: skip

    def _adjust_all(self, place: Integer, count: Integer) -> None:
        spec, w = self.spec, self.w
        slope = self.slope(self.head)
        places = [self.integer_list(w.add(self.position, start)) for start in self.vectors]
        has_bias = self._has_gathered_bias
        base = self.at("bias", spec.bias, self.batch, self.head, self.row, place) if has_bias else ""
        with w.loop(0, count) as row:
            key = broadcast(w, "i32", w.value(f"trunc i64 {w.add(place, row.index)} to i32"), self.lanes)
            column = self.memory.at(base, w.multiply(row.index, spec.bias[3])) if has_bias else ""
            for start, position in zip(self.vectors, places, strict=True):
                there = w.add(w.multiply(row.index, self.block), start)
                distance = self.whole.operation("sub", position, key)
                bias = ""
                if has_bias:
                    bias = self.bias_lanes(column, spec.bias[2], start, self.row, spec.rows)
                score = self.adjusted(self.memory.load(self.scores, there), distance, bias, slope)
                self.memory.store(score, self.scores, there)

    def _normalize(self, place: Integer, count: Integer) -> None:
        """Converts scores to exponentials; updates maxima and sums, and computes the factors of earlier sums."""
        w, f, memory, kind = self.w, self.f, self.memory, self.memory.kind
        old = [memory.load(self.top, start) for start in self.vectors]
        with w.loop(0, count, 1, [(kind, value) for value in old]) as row:
            row.next = []
            for start, top in zip(self.vectors, row.carried, strict=True):
                score = memory.load(self.scores, w.add(w.multiply(row.index, self.block), start))
                row.next.append(f.select(f.compare("ogt", score, top), score, top))
        news, sums = row.next, []
        shifts = []
        for start, top, new in zip(self.vectors, old, news, strict=True):
            shift = f.select(f.compare("oeq", new, f.constant(float("-inf"))), f.constant(0.0), new)
            factor = mathematics.exp_of_difference(f, f.subtract(top, shift))
            memory.store(new, self.top, start)
            memory.store(factor, self.factor, start)
            shifts.append(shift)
            sums.append(f.multiply(memory.load(self.total, start), factor))
        if "dropout" in self.spec.operands:
            totals = self._exponentials_with_dropout(place, count, shifts, sums)
        else:
            with w.loop(0, count, 1, [(kind, value) for value in sums]) as row:
                row.next = []
                for start, shift, total in zip(self.vectors, shifts, row.carried, strict=True):
                    there = w.add(w.multiply(row.index, self.block), start)
                    weight = mathematics.exp_of_difference(f, f.subtract(memory.load(self.scores, there), shift))
                    memory.store(weight, self.scores, there)
                    row.next.append(f.add(total, weight))
            totals = row.next
        for start, total in zip(self.vectors, totals, strict=True):
            memory.store(total, self.total, start)

    def _exponentials_with_dropout(
        self, place: Integer, count: Integer, shifts: list[str], sums: list[str]
    ) -> list[str]:
        """The exponentials and their sums with dropout; a draw covers four keys, a quarter of a block apart."""
        spec, w, f, memory, kind = self.spec, self.w, self.f, self.memory, self.memory.kind
        quarter, wide = BLOCK // 4, vector("i64", self.lanes)
        if count != BLOCK:
            first = w.multiply(count, self.block)
            self.fill(memory.at(self.scores, first), w.subtract(BLOCK * self.block, first), f.constant(float("-inf")))
        groups = -(-spec.keys // GROUP)
        line = w.add(w.multiply(w.add(w.multiply(self.batch, spec.heads), self.head), spec.rows), self.row)
        start_of_lines = [self._lines(w.add(line, start), groups * quarter) for start in self.vectors]
        run = w.multiply(w.divide(place, GROUP)[0], quarter)
        kept_factor = f.constant(1 / (1 - spec.dropout))
        with w.loop(0, quarter, 1, [(kind, value) for value in sums]) as row:
            totals = list(row.carried)
            for number, start in enumerate(self.vectors):
                shift = broadcast(w, "i64", w.value(f"add i64 {run}, {row.index}"), self.lanes)
                index = w.value(f"add {wide} {start_of_lines[number]}, {shift}")
                for word, is_kept in enumerate(self.kept(index)):
                    there = w.add(w.multiply(w.add(row.index, word * quarter), self.block), start)
                    weight = mathematics.exp_of_difference(
                        f, f.subtract(memory.load(self.scores, there), shifts[number])
                    )
                    totals[number] = f.add(totals[number], weight)
                    left = f.select(is_kept, f.multiply(weight, kept_factor), f.constant(0.0))
                    memory.store(left, self.scores, there)
            row.next = totals
        return row.next

    def _lines(self, first: Integer, step: int) -> str:
        """step · (first, first + 1, …) as i64 lanes."""
        wide = vector("i64", self.lanes)
        lanes = "<" + ", ".join(f"i64 {lane}" for lane in range(self.lanes)) + ">"
        line = self.w.value(f"add {wide} {broadcast(self.w, 'i64', str(first), self.lanes)}, {lanes}")
        return self.w.value(f"mul {wide} {line}, splat (i64 {step})")

    def _finish(self, rows: Integer) -> None:
        """Computes the reciprocals of the sums as factors of the output, and the logarithms of the sums."""
        w, f, memory, spec = self.w, self.f, self.memory, self.spec
        dense = (spec.heads * spec.rows, spec.rows, 1)
        target = self.at("log_sum", dense, self.batch, self.head, self.row)
        for start in self.vectors:
            total = memory.load(self.total, start)
            is_blind = f.compare("oeq", total, f.constant(0.0))
            inverse = f.divide(f.constant(1.0), total)
            memory.store(f.select(is_blind, f.constant(0.0), inverse), self.factor, start)
            log_sum = f.add(memory.load(self.top, start), mathematics.log(f, total))
            log_sum = f.select(is_blind, f.constant(float("inf")), log_sum)
            if rows == self.block:
                memory.store(log_sum, target, start)
            else:
                memory.store(log_sum, self.top, start)
        if rows != self.block:
            with w.loop(0, rows) as row:
                value = w.value(f"load {self.element}, ptr {memory.at(self.top, row.index)}")
                w.emit(f"store {self.element} {value}, ptr {memory.at(target, row.index)}")
