"""Listed programs: single kinds of operation, each in the shapes and layouts that decide how it is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.engine.golden.program import Program, Run, eager, integers, stepped, traced, values
from trainer import engine
from trainer.engine import State, Tensor, nn
from trainer.engine.nn.functional import log_softmax, softmax
from trainer.engine.targets.cpu.machine import NARROW

ROWS = 307
"""Rows of 512 columns and more take at least 512 KiB: loops over them may run as one launch."""


def softmax_and_gradient(x: Tensor) -> list[Tensor]:
    y = softmax(x)
    return [y, *engine.gradients(engine.sum(y * y * y), [x])]


def log_softmax_of_bfloat16(x: Tensor) -> list[Tensor]:
    y = log_softmax(x.astype(engine.bfloat16).astype(engine.float32))
    return [y.astype(engine.bfloat16).astype(engine.float32), *engine.gradients(engine.sum(y * x), [x])]


def cross_entropy(x: Tensor) -> list[Tensor]:
    loss = nn.cross_entropy(x, engine.arange(ROWS) % x.shape[1], label_smoothing=0.1, ignore_index=3)
    return [loss, *engine.gradients(loss, [x])]


def rows_of_others(x: Tensor) -> list[Tensor]:
    """Each row meets its mirror image's, the one after it, and the first one's."""
    y = softmax(x)
    mirrored = engine.flip(y, axis=0) * engine.sum(y, axis=1, keepdims=True)
    after = y[1:] * engine.max(y, axis=1, keepdims=True)[:-1]
    return [mirrored, after - mirrored[1:], y * engine.exp(y[:1]), engine.sum(y * x, axis=0)]


def normalized_rows() -> Run:
    def build() -> tuple[Callable[[Tensor, Tensor], Any], dict[str, State]]:
        net = nn.LayerNorm(480)

        def step(x: Tensor, probe: Tensor) -> list[Tensor]:
            y = net(x)
            return [y, *engine.gradients(engine.sum(y * probe), [x, *net.parameters()])]

        return step, {}

    return stepped(build, values(ROWS, 480), values(ROWS, 480, seed=1), calls=1)


def sums_along(x: Tensor) -> list[Tensor]:
    axes = (0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2))
    return [engine.sum(x, axis=axis) for axis in axes] + [engine.max(x * 2, axis=axis) for axis in axes]


def other_reductions(x: Tensor) -> list[Tensor]:
    y = x * 0.1 + 1
    found = [engine.prod(y, axis=1), engine.min(x, axis=(0, 2)), engine.any(x > 2, axis=0), engine.all(x > -3, axis=2)]
    return [*found, engine.std(x, axis=1), engine.var(x, axis=(0, 1), correction=1), engine.mean(engine.exp(x))]


def moments(x: Tensor) -> list[Tensor]:
    mean, variance = engine.moments(x, axis=(0, 2, 3))
    rest = engine.moments(x, axis=(1,))
    return [mean, variance, *rest, *engine.gradients(engine.sum(variance * mean), [x])]


def positions(x: Tensor) -> list[Tensor]:
    return [engine.argmax(x, axis=0), engine.argmin(x, axis=1), engine.argmax(x), engine.argmin(x * x, axis=2)]


def whole(x: Tensor) -> list[Tensor]:
    """Reductions of so many elements that several blocks share each."""
    return [engine.sum(x), engine.sum(x, axis=0), engine.max(engine.abs(x)), engine.sum(x * x, axis=1), engine.mean(x)]


def gathered(x: Tensor, indices: Tensor) -> list[Tensor]:
    y, z = engine.take(x, indices, axis=0), engine.take(x * 2, indices, axis=1)
    return [y, z, *engine.gradients(engine.sum(y * y) + engine.sum(engine.exp(z)), [x])]


def gathered_along(x: Tensor, indices: Tensor) -> list[Tensor]:
    y, z = engine.take_along_axis(x, indices, axis=1), engine.take_along_axis(x, indices[:20], axis=0)
    return [y, z, *engine.gradients(engine.sum(y * y) + engine.sum(z * 3), [x])]


def ordered(x: Tensor) -> list[Tensor]:
    best, places = engine.top_k(x, 5, axis=1)
    found = [engine.sort(x, axis=0), engine.argsort(x, axis=1, descending=True), best, places]
    return [*found, *engine.gradients(engine.sum(engine.sort(x, axis=1)[:, ::2]), [x])]


def suppressed(corners: Tensor, scores: Tensor, classes: Tensor) -> list[Tensor]:
    boxes = engine.concat([corners[..., :2], corners[..., :2] + engine.abs(corners[..., 2:]) + 0.1], axis=-1)
    return [nn.nms(boxes, scores, 0.3), nn.nms(boxes, scores, 0.5, classes=classes), nn.box_iou(boxes[0], boxes[1])]


def counted(x: Tensor, indices: Tensor) -> list[Tensor]:
    sums = [engine.cumulative_sum(x, axis=axis) for axis in (0, 1)]
    return [*sums, engine.bincount(indices, length=64), engine.gradients(engine.sum(sums[0] * sums[1]), [x])[0]]


def pooled(x: Tensor) -> list[Tensor]:
    y, z = engine.max_pool(x, 3, 2, 1), engine.max_pool(x * x, (2, 3), 1, dilation=2)
    mean = engine.average_pool(x, 2)
    total = engine.sum(y * y) + engine.sum(z) + engine.sum(engine.exp(mean))
    return [y, z, mean, *engine.gradients(total, [x])]


def resized(x: Tensor) -> list[Tensor]:
    y = nn.functional.interpolate(x, size=(13, 30), mode="bilinear")
    z = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
    return [y, z, *engine.gradients(engine.sum(y * y) + engine.sum(z * z), [x])]


def moved(x: Tensor) -> list[Tensor]:
    parts = engine.concat([x, engine.flip(x, axis=1) * 2, engine.zeros_like(x)], axis=1)
    padded = engine.pad(x, ((1, 2), (0, 3)), value=0.5)
    found = [parts, padded, engine.roll(x, 3, axis=1), engine.tile(x, (2, 1)), engine.repeat(x, 2, axis=0)]
    return [*found, engine.tril(x), engine.stack([x, x + 1], axis=2), engine.sum(parts[:, 5:90:4] * 2, axis=1)]


def transposed(x: Tensor, weight: Tensor) -> list[Tensor]:
    y = engine.convolution_transpose(x, weight, stride=2, padding=1, output_padding=1)
    z = engine.convolution_transpose(x, weight, stride=1, dilation=2)
    return [y, z, *engine.gradients(engine.sum(y * y) + engine.sum(z), [x, weight])]


def dropped() -> Run:
    def build() -> tuple[Callable[[Tensor], Any], dict[str, State]]:
        random = nn.RandomState(3)

        def step(x: Tensor) -> list[Tensor]:
            with random.step():
                y = nn.Dropout(0.4)(x)
                z = random.uniform("uniform", (7, 9)) + random.normal("normal", (7, 9))
                random.advance()
            return [y, z, *engine.gradients(engine.sum(y * y), [x])]

        return step, {"counter": random.counter}

    return stepped(build, values(33, 65))


def compared(x: Tensor, indices: Tensor) -> list[Tensor]:
    y = engine.where((x > 0) & (indices % 3 != 1), engine.exp(x), engine.floor(x * 4))
    bits = engine.bitwise_xor(indices << 3, indices >> 1) | 5
    found = [y, bits, indices // 7, engine.remainder(x, 0.7), engine.isfinite(engine.log(x)), engine.sign(x) == 1]
    return [*found, engine.clip(x, -0.5, 0.5), engine.round(x * 8), engine.erf(x), engine.expm1(x) ** 3]


def cast(x: Tensor, indices: Tensor) -> list[Tensor]:
    found = [x.astype(dtype) for dtype in (engine.float64, engine.int32, engine.int64, engine.bool)]
    found += [indices.astype(engine.uint8), indices.astype(engine.float32) * x, (indices * 2).astype(engine.int64)]
    return [*found, engine.sum(indices, axis=0), engine.sum(indices.astype(engine.uint8), axis=1)]


def halves(x: Tensor, y: Tensor) -> list[Tensor]:
    a, b = x.astype(engine.float16), y.astype(engine.bfloat16)
    product, other = engine.matmul(a, engine.matrix_transpose(a)), engine.matmul(b, engine.matrix_transpose(b))
    found = [a + a * 3, engine.sum(a, axis=0), engine.exp(a), product]
    rounded = [engine.sum(b, axis=1), engine.tanh(b) * b, other]
    return [*found, *(each.astype(engine.float32) for each in rounded)]


def streamed(x: Tensor) -> list[Tensor]:
    """Outputs of 16 MiB, which are stored past the caches."""
    y = engine.concat([x * 2 + 1] * 4, axis=1)
    return [y, engine.permute_dims(engine.broadcast_to(engine.exp(x)[:, None, :], (1024, 4, 1024)), (0, 2, 1)) + 0]


def products(x: Tensor, y: Tensor, batched: Tensor) -> list[Tensor]:
    square = engine.matmul(batched, engine.matrix_transpose(batched))
    fused = nn.functional.relu(engine.matmul(x, y) + y[:1]) * 2
    vector = engine.matmul(x, y[:, 0])
    found = [fused, square, vector, engine.tensordot(x, y, axes=1), engine.matmul(engine.matrix_transpose(y), y)]
    return [*found, *engine.gradients(engine.sum(fused) + engine.sum(square * square), [x, y, batched])]


def convolved(x: Tensor, weight: Tensor, line: Tensor) -> list[Tensor]:
    y = nn.functional.relu(engine.convolution(x, weight, padding=((1, 0), (2, 1)), dilation=(1, 2), stride=(2, 1)))
    z = engine.convolution(line, weight[:4, :, :, 0], padding=2)
    (gradient,) = engine.gradients(engine.sum(y * y), [weight])
    second = engine.gradients(engine.sum(gradient * gradient), [x])
    return [y, z, gradient, *second]


def changed_in_place() -> Run:
    def build() -> tuple[Callable[[Tensor], Any], dict[str, State]]:
        total, mean = State(values(64, 48), "total"), State(values(48), "mean")

        def step(x: Tensor) -> Tensor:
            total.assign(total * 0.9 + x)
            mean.assign(mean + engine.mean(x, axis=0) * 0.1)
            return engine.sum(total * mean)

        return step, {"total": total, "mean": mean}

    return stepped(build, values(64, 48, seed=1))


def read_elsewhere() -> Run:
    """New values that read other elements of the old one, or that later launches need the old one for."""

    def build() -> tuple[Callable[[Tensor], Any], dict[str, State]]:
        square, line, sums = State(values(40, 40), "square"), State(values(40), "line"), State(values(40, 40), "sums")

        def step(x: Tensor) -> list[Tensor]:
            old = square + 0
            square.assign(engine.permute_dims(square, (1, 0)) + x)
            line.assign(engine.flip(line, axis=0) + engine.sum(x, axis=1))
            sums.assign(engine.matmul(sums, x) + sums)
            return [old, engine.matmul(old, square), engine.sum(line * sums)]

        return step, {"square": square, "line": line, "sums": sums}

    return stepped(build, values(40, 40, seed=1))


def swapped() -> Run:
    def build() -> tuple[Callable[[], Any], dict[str, State]]:
        states = [State(values(30, 5, seed=seed), f"state {seed}") for seed in range(3)]

        def step() -> Tensor:
            first, second, third = (state + 0 for state in states)
            states[0].assign(states[1])
            states[1].assign(first)
            states[2].assign(engine.flip(third, axis=0))
            return engine.sum(first - second)

        return step, {state.name: state for state in states}

    return stepped(build)


def views() -> Run:
    """Results and new values that are views of inputs, of states and of one another."""

    def build() -> tuple[Callable[[Tensor], Any], dict[str, State]]:
        state, copy = State(values(12, 20), "state"), State(values(20, 12), "copy")

        def step(x: Tensor) -> list[Tensor]:
            y = engine.exp(x)
            copy.assign(engine.permute_dims(state, (1, 0)))
            state.assign(x[::-1] * 1.0)
            return [x[2:5], y, engine.permute_dims(y, (1, 0)), engine.reshape(y, (-1,))[::3], y[:, :1], copy[:4], x]

        return step, {"state": state, "copy": copy}

    return stepped(build, values(12, 20, seed=1))


def empty(x: Tensor) -> list[Tensor]:
    return [
        x * 2,
        engine.sum(x, axis=0),
        engine.matmul(x, engine.ones((5, 3))),
        engine.concat([x, engine.ones((2, 5))]),
    ]


LINES, IMAGES = values(ROWS, 512), values(2, 5, 17, 19)
PROGRAMS = [
    Program("softmax", traced(softmax_and_gradient, LINES)),
    Program("unaligned softmax, narrow", traced(softmax_and_gradient, values(ROWS, 523)), machine=NARROW),
    Program("log softmax of bfloat16", traced(log_softmax_of_bfloat16, values(ROWS, 1300))),
    Program("cross entropy", traced(cross_entropy, values(ROWS, 700))),
    Program("rows of others", traced(rows_of_others, values(ROWS, 520))),
    Program("layer normalization", normalized_rows()),
    Program("sums along every axis", traced(sums_along, values(23, 37, 41))),
    Program("other reductions", traced(other_reductions, values(9, 33, 35))),
    Program("moments", traced(moments, values(4, 33, 14, 9))),
    Program("positions", traced(positions, values(9, 33, 35))),
    Program("whole arrays", traced(whole, values(1000, 521))),
    Program("gather", traced(gathered, values(50, 70), integers(50, 31))),
    Program("gather along an axis", traced(gathered_along, values(30, 40), integers(30, 30, 40))),
    Program("order", traced(ordered, values(21, 33))),
    Program("suppression", traced(suppressed, values(2, 40, 4), values(2, 40, seed=1), integers(3, 2, 40))),
    Program("running sums and counts", traced(counted, values(19, 45), integers(64, 3, 300))),
    Program("pooling", traced(pooled, IMAGES)),
    Program("resizing", traced(resized, IMAGES)),
    Program("movement", traced(moved, values(31, 33))),
    Program("transposed convolution", traced(transposed, values(2, 8, 7, 6), values(8, 10, 3, 3, seed=1))),
    Program("dropout", dropped()),
    Program("comparison", traced(compared, values(17, 31), integers(99, 17, 31))),
    Program("casts", traced(cast, values(17, 31), integers(99, 17, 31))),
    Program("16-bit floats", traced(halves, values(20, 34), values(18, 22, seed=1))),
    Program("streamed", traced(streamed, values(1024, 1024))),
    Program("products", traced(products, values(37, 50), values(50, 70, seed=1), values(3, 2, 19, 11, seed=2))),
    Program("convolution and second gradient", traced(convolved, IMAGES, values(16, 5, 3, 3, seed=1),
                                                      values(2, 5, 40, seed=2))),
    Program("states in place", changed_in_place()),
    Program("states not in place", read_elsewhere()),
    Program("swapped states", swapped()),
    Program("views", views()),
    Program("empty arrays", traced(empty, np.zeros((0, 5), np.float32))),
    Program("untraced softmax", eager(softmax_and_gradient, LINES), is_traced=False),
    Program("untraced reductions", eager(sums_along, values(23, 37, 41)), is_traced=False),
]  # fmt: skip
