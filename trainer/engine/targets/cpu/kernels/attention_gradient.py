"""The gradients of attention: a block of keys with one block of queries after the other, with recomputed scores.

Dao 2023 (FlashAttention-2). A task computes all blocks of some keys of one key head, so the sums for keys and values
stay in its scratch memory; those for queries are added in memory in the order of the blocks. With few heads, the keys
are split among tasks with separate query sums, which are added in order afterwards. The lanes are keys: queries and
cotangents are read in their memory layout, one element for all lanes.

Kernel: `void name(ptr arguments, i64 task, ptr scratch)`; arguments: addresses of query, key, value, cotangent, log_sum
and delta (dense [B, H, M]), the options' operands, the gradients of query, key and value, and that of the scores if
`spec.strides` includes its strides. Scores outside the window are not written.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainer.engine.graph.primitives.attention import GROUP
from trainer.engine.targets.cpu.kernels.attention import words_of
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

FEWEST_TASKS = 16
"""Number of tasks below which keys are split: enough for the threads of a desktop, with few sums to add."""


@dataclass(frozen=True, slots=True)
class AttentionGradient:
    """Gradients of query, key and value, optionally also of the scores; `spec.strides` are those of query, key, value,
    cotangent and the gradients.
    """

    spec: AttentionSpec

    @property
    def blocks(self) -> int:
        """Number of blocks of keys."""
        return -(-self.spec.keys // BLOCK)

    @property
    def splits(self) -> int:
        """Number of tasks that share the keys of a head."""
        needed = -(-FEWEST_TASKS // (self.spec.batch * self.spec.groups))
        return -(-self.blocks // self.share) if needed > 1 else 1

    @property
    def share(self) -> int:
        """Number of blocks of keys of a task."""
        needed = -(-FEWEST_TASKS // (self.spec.batch * self.spec.groups))
        return -(-self.blocks // min(needed, self.blocks))

    @property
    def tasks(self) -> int:
        return self.spec.batch * self.spec.groups * self.splits

    @property
    def areas(self) -> tuple[int, ...]:
        """Sizes of transposed keys and values, the sums of both, weights, gradients of scores, a spare row, and for
        bfloat16 of paired keys, queries and cotangents and rounded gradients of scores.
        """
        spec = self.spec
        widths = spec.padded(spec.width), spec.padded(spec.value_width)
        half = BLOCK // 2 if spec.pairs else 0
        return (
            spec.terms(spec.width) * BLOCK, spec.terms(spec.value_width) * BLOCK, widths[0] * BLOCK, widths[1] * BLOCK,
            BLOCK * BLOCK, BLOCK * BLOCK, max(widths), widths[0] * half, widths[0] * half, widths[1] * half,
            BLOCK * half,
        )  # fmt: skip

    @property
    def scratch_bytes(self) -> int:
        return sum(scratch_elements(self.spec, size) for size in self.areas) * self.spec.dtype.itemsize

    def render(self, name: str) -> str:
        """The module of the kernel."""
        return _Backward(self).render(name)


class _Backward(Blocks):
    def __init__(self, kernel: AttentionGradient) -> None:
        first = ("query", "keys", "value", "cotangent", "log_sum", "delta")
        gradients = ("to_query", "to_key", "to_value", "to_scores")[: len(kernel.spec.strides) - 4]
        super().__init__(kernel.spec, words_of(first, kernel.spec.operands, gradients))
        self.kernel, self.keeps_scores = kernel, "to_scores" in gradients
        self.vectors = list(range(0, BLOCK, self.lanes))

    def render(self, name: str) -> str:
        spec, w, kernel = self.spec, self.w, self.kernel
        self.batch, self.group, split = w.unravel("%task", spec.groups, kernel.splits)
        self.first_place = self.first(self.batch)
        (self.turned_keys, self.turned_values, self.key_sums, self.value_sums, self.weights, self.gradients,
         self.spare, self.paired_keys, self.paired_queries, self.paired_cotangents,
         self.rounded) = self.areas(*kernel.areas)  # fmt: skip
        self.factors = (1.0, spec.scale) if spec.pairs else (spec.scale, 1.0)
        self.shared = spec.heads // spec.groups
        self.offset = w.multiply(split, spec.batch * spec.heads * spec.rows * spec.width) if kernel.splits > 1 else 0
        self._clear_queries()
        start = w.multiply(split, kernel.share * BLOCK)
        stop = w.minimum(spec.keys, w.add(start, kernel.share * BLOCK))
        with w.loop(start, str(stop), BLOCK) as loop:
            self._block(loop.index)
        return w.module(name, scratch=True)

    def _head(self, number: Integer) -> Integer:
        return self.w.add(self.w.multiply(self.group, self.shared), number)

    def _to_query(self, head: Integer, row: Integer) -> str:
        return self.memory.at(self.at("to_query", self.spec.strides[4], self.batch, head, row, 0), self.offset)

    def _clear_queries(self) -> None:
        spec, w = self.spec, self.w
        with w.loop(0, str(self.shared)) as number, w.loop(0, str(spec.rows)) as row:
            target = self._to_query(self._head(number.index), row.index)
            for start in range(0, spec.width, self.lanes):
                active = min(self.lanes, spec.width - start)
                self.memory.store(self.f.constant(0.0), target, start, active)

    def _block(self, place: Integer) -> None:
        """Processes a block of keys with all queries that attend to some of them."""
        spec, w, f = self.spec, self.w, self.f
        _, key, value, _, _, to_key, to_value = spec.strides[:7]
        if spec.keys < BLOCK:
            self.count: Integer = spec.keys
        else:
            self.count = w.minimum(BLOCK, w.subtract(spec.keys, place)) if spec.keys % BLOCK else BLOCK
        self.place, self.keys = place, self.at("keys", key, self.batch, self.group, place, 0)
        values = self.at("value", value, self.batch, self.group, place, 0)
        self.transpose_in("key", self.keys, self.turned_keys, tokens=self.count, stride=key[2],
                          width=spec.terms(spec.width), pitch=BLOCK, factor=self.factors[0])  # fmt: skip
        self.transpose_in("value", values, self.turned_values, tokens=self.count, stride=value[2],
                          width=spec.terms(spec.value_width), pitch=BLOCK)  # fmt: skip
        if spec.pairs:
            self.interleave(self.keys, self.paired_keys, tokens=self.count, stride=key[2], width=spec.width)
        self.fill(self.key_sums, spec.padded(spec.width) * BLOCK, f.constant(0.0))
        self.fill(self.value_sums, spec.padded(spec.value_width) * BLOCK, f.constant(0.0))
        low, high = self._seeing()
        with w.loop(0, str(self.shared)) as number:
            head = self._head(number.index)
            with w.loop(low, high, BLOCK) as loop:
                self._pair(head, loop.index)
        for sums, operand, strides, width in (
            (self.key_sums, "to_key", to_key, spec.width), (self.value_sums, "to_value", to_value, spec.value_width),
        ):  # fmt: skip
            target = self.at(operand, strides, self.batch, self.group, place, 0)
            self.transpose_out(operand, sums, target, tokens=self.count, stride=strides[2], width=width, pitch=BLOCK,
                               spare=self.spare)  # fmt: skip

    def _seeing(self) -> tuple[Integer, Integer]:
        """The range of queries that attend to some key of the block; its start is the first query of a block."""
        spec, w = self.spec, self.w
        low: Integer = 0
        high: Integer = spec.rows
        first_key = w.subtract(self.place, self.first_place)
        if self.is_limited(1):
            low = w.maximum(0, w.subtract(first_key, spec.window[1]))
            low = w.multiply(w.divide(low, BLOCK)[0], BLOCK)
        if self.is_limited(0):
            high = w.minimum(spec.rows, w.add(w.add(first_key, self.count), spec.window[0]))
        return low, str(high)

    def _pair(self, head: Integer, row: Integer) -> None:
        """Processes a block of keys with a block of queries."""
        spec, w = self.spec, self.w
        query, key, _, cotangent, to_query = spec.strides[:5]
        if spec.rows < BLOCK:
            rows: Integer = spec.rows
        else:
            rows = w.minimum(BLOCK, w.subtract(spec.rows, row)) if spec.rows % BLOCK else BLOCK
        totals = block_totals(spec.rows, BLOCK)
        queries = self.at("query", query, self.batch, head, row, 0)
        cotangents = self.at("cotangent", cotangent, self.batch, head, row, 0)
        for name, operand, strides, turned, width, output, factor in (
            ("scores", queries, query, self.turned_keys, spec.width, self.weights, self.factors[1]),
            ("weights", cotangents, cotangent, self.turned_values, spec.value_width, self.gradients, 1.0),
        ):
            self.product(
                name, operand, turned, output, rows=rows, row_step=strides[2], steps=spec.terms(width),
                a_step=strides[3], b_step=BLOCK, columns=BLOCK, output_step=BLOCK, heights=totals, factor=factor,
            )  # fmt: skip
        self._differentiate(head, row, rows)
        keys, key_step, gradients, gradient_step = self.keys, key[2], self.gradients, BLOCK
        query_step, cotangent_step = query[2], cotangent[2]
        if spec.pairs:
            self.pair_rows(self.weights, rows=rows, columns=BLOCK, totals=totals)
            self.pair_rows(self.gradients, rows=rows, columns=BLOCK, totals=totals, rounded=self.rounded)
            self.interleave(queries, self.paired_queries, tokens=rows, stride=query[2], width=spec.width)
            self.interleave(cotangents, self.paired_cotangents, tokens=rows, stride=cotangent[2],
                            width=spec.value_width)  # fmt: skip
            queries, cotangents, keys, gradients = (
                self.paired_queries, self.paired_cotangents, self.paired_keys, self.rounded,
            )  # fmt: skip
            query_step, cotangent_step = spec.padded(spec.width), spec.padded(spec.value_width)
            key_step, gradient_step = query_step, BLOCK // 2
        for name, operand, step, matrix, width, output in (
            ("to_value", cotangents, cotangent_step, self.weights, spec.value_width, self.value_sums),
            ("to_key", queries, query_step, self.gradients, spec.width, self.key_sums),
        ):
            self.product(
                name, operand, matrix, output, rows=width, row_step=1, steps=self.terms(rows), a_step=step,
                b_step=BLOCK, columns=BLOCK, output_step=BLOCK, accumulate=True,
            )  # fmt: skip
        self.product(
            "to_query", gradients, keys, self._to_query(head, row), rows=rows, row_step=gradient_step,
            steps=self.terms(self.count), a_step=1, b_step=key_step, columns=spec.width, output_step=to_query[2],
            heights=totals, accumulate=True, is_positive=True,
        )  # fmt: skip

    def _differentiate(self, head: Integer, row: Integer, rows: Integer) -> None:
        """Converts scores to weights, and gradients of the weights to those of the scores."""
        spec, w = self.spec, self.w
        position = w.add(self.first_place, row)
        conditions = []
        if self.is_limited(0):
            distance = w.subtract(w.add(position, w.subtract(rows, 1)), self.place)
            conditions.append(w.value(f"icmp sgt i64 {distance}, {spec.window[0]}"))
        if self.is_limited(1):
            distance = w.subtract(position, w.add(self.place, w.subtract(self.count, 1)))
            conditions.append(w.value(f"icmp slt i64 {distance}, {-spec.window[1]}"))
        if spec.keys % BLOCK:
            conditions.append(w.value(f"icmp ne i64 {self.count}, {BLOCK}"))
        if spec.masks or not conditions:
            return self._differentiate_all(head, row, rows, position, is_plain=not spec.masks)
        either = conditions[0]
        for condition in conditions[1:]:
            either = w.value(f"or i1 {either}, {condition}")
        with w.when(either, "masked"):
            self._differentiate_all(head, row, rows, position, is_plain=False)
        with w.unless(either):
            self._differentiate_all(head, row, rows, position, is_plain=True)

    def _differentiate_all(
        self, head: Integer, row: Integer, rows: Integer, position: Integer, *, is_plain: bool
    ) -> None:
        spec, w, f, memory, whole = self.spec, self.w, self.f, self.memory, self.whole
        has_bias, has_dropout = "bias" in spec.operands and not is_plain, "dropout" in spec.operands
        dense = (spec.heads * spec.rows, spec.rows, 1)
        log_sums, deltas = (self.at(name, dense, self.batch, head, row) for name in ("log_sum", "delta"))
        slope = "" if is_plain else self.slope(head)
        base = self.at("bias", spec.bias, self.batch, head, row, self.place) if has_bias else ""
        to_scores = ""
        if self.keeps_scores:
            to_scores = self.at("to_scores", spec.strides[7], self.batch, head, row, self.place)
        scale, nothing = f.constant(spec.scale), f.constant(0.0)
        with w.loop(0, rows) as line:
            log_sum = self.scalar(memory.at(log_sums, line.index))
            delta = self.scalar(memory.at(deltas, line.index))
            here = "" if is_plain else broadcast(
                w, "i32", w.value(f"trunc i64 {w.add(position, line.index)} to i32"), self.lanes
            )  # fmt: skip
            across = memory.at(base, w.multiply(line.index, spec.bias[2])) if has_bias else ""
            masks = self._kept_keys(head, w.add(row, line.index)) if has_dropout else {}
            for start in self.vectors:
                there = w.add(w.multiply(line.index, BLOCK), start)
                score = memory.load(self.weights, there)
                if not is_plain:
                    distance = whole.operation("sub", here, self.integer_list(w.add(self.place, start)))
                    bias = ""
                    if has_bias:  # the lanes count from the block's first key
                        bias = self._bias(across, start)
                    score = self.adjusted(score, distance, bias, slope)
                    if spec.keys % BLOCK:
                        last = w.value(f"trunc i64 {w.subtract(self.count, start)} to i32")
                        is_inside = whole.operation("icmp slt", self.integer_list(0), broadcast(
                            w, "i32", last, self.lanes))  # fmt: skip
                        score = f.select(is_inside, score, f.constant(float("-inf")))
                weight = mathematics.exp_of_difference(f, f.subtract(score, log_sum))
                gradient = memory.load(self.gradients, there)
                if has_dropout:
                    kept = f.select(masks[start], f.constant(1 / (1 - spec.dropout)), nothing)
                    gradient = f.multiply(gradient, kept)
                    memory.store(f.multiply(weight, kept), self.weights, there)
                else:
                    memory.store(weight, self.weights, there)
                gradient = f.multiply(weight, f.subtract(gradient, delta))
                if to_scores:
                    place = w.add(w.multiply(line.index, spec.strides[7][2]), start)
                    self._store_keys(gradient, memory.at(to_scores, place), start)
                memory.store(f.multiply(gradient, scale), self.gradients, there)

    def _store_keys(self, value: str, target: str, start: int) -> None:
        """Stores the lanes from `start` on in the block that are keys."""
        w, keys = self.w, self.spec.keys
        if keys % BLOCK == 0:
            self.memory.store(value, target)
        elif keys < BLOCK:
            if start < keys:
                self.memory.store(value, target, 0, min(self.lanes, keys - start))
        else:
            for count, _ in w.cut(0, self.count, BLOCK, block_totals(keys, BLOCK)):
                if start < count:
                    self.memory.store(value, target, 0, min(self.lanes, count - start))

    def _bias(self, base: str, start: int) -> str:
        """The biases of a query and the keys from `start` on in the block; past the last key, anything but a fault."""
        spec = self.spec
        if spec.bias[3] != 1 or (spec.keys > BLOCK and spec.keys % BLOCK):
            return self.bias_lanes(base, spec.bias[3], start, 0, self.count)
        active = min(self.lanes, min(spec.keys, BLOCK) - start)
        return self.memory.load(base, start, active) if active > 0 else self.f.constant(0.0)

    def _kept_keys(self, head: Integer, row: Integer) -> dict[int, str]:
        """Masks of a query's kept weights, by vector of keys; a draw covers four keys, a quarter of a block apart."""
        spec, w = self.spec, self.w
        quarter, wide = BLOCK // 4, vector("i64", self.lanes)
        line = w.add(w.multiply(w.add(w.multiply(self.batch, spec.heads), head), spec.rows), row)
        run = w.multiply(w.add(w.multiply(line, -(-spec.keys // GROUP)), w.divide(self.place, GROUP)[0]), quarter)
        found: dict[int, str] = {}
        for start in range(0, quarter, self.lanes):
            lanes = "<" + ", ".join(f"i64 {start + lane}" for lane in range(self.lanes)) + ">"
            index = w.value(f"add {wide} {broadcast(w, 'i64', str(run), self.lanes)}, {lanes}")
            for word, is_kept in enumerate(self.kept(index)):
                found[word * quarter + start] = is_kept
        return found
