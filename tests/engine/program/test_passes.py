"""How often a step passes over its activations: counted from the launches of the compiled program, not from clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer import engine
from trainer.engine import Tensor, nn
from trainer.engine.nn.functional import relu

SHAPE = (4, 32, 20, 24)
"""Nothing else in these steps is as large."""


def passes(step: Callable[[Tensor], Any], shape: tuple[int, ...] = SHAPE) -> list[tuple[str, int, int]]:
    """(kind, arrays of `shape` that are read, that are written) of each launch of every run that touches any."""
    with engine.device("cpu"):
        traced = engine.trace(step)
        traced(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    (program,) = traced.programs
    size = int(np.prod(shape))
    counted = []
    for launch in program.launches[program.constant :]:
        read, written = (sum(b.size == size for b in buffers) for buffers in (launch.reads, launch.writes))
        if read or written:
            counted.append((launch.label.split(" ")[0], read, written))
    return counted


@pytest.mark.usefixtures("unpoisoned")
def test_batch_norm_and_relu_between_convolutions_take_two_passes_each_way() -> None:
    """Forward: statistics (a read), apply (a read, a write). Backward: both sums (two reads), the gradient (two reads,
    a write). The convolutions' own: 1x1 kernels keep the size, so each reads and writes once.
    """
    net = nn.Sequential(nn.Conv2d(32, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 8, 1))
    probe = engine.asarray(np.ones((4, 8, 20, 24), np.float32))

    def step(x: Tensor) -> list[Tensor]:
        return engine.gradients(engine.sum(net(x) * probe), list(net.parameters()))

    found = passes(step)
    others = [entry for entry in found if not entry[0].startswith(("convolution", "relayout", "combine", "pack"))]
    assert [(read, written) for _, read, written in others] == [(1, 0), (1, 1), (2, 0), (2, 1)], found
    assert others[0][0] == "reduce_mean+reduce_deviations"


@pytest.mark.usefixtures("unpoisoned")
def test_batch_norm_and_relu_before_padding_are_computed_by_the_convolutions_that_read_them() -> None:
    """Statistics (a read); both sums (two reads), the gradient (two reads, a write). What is applied is not stored: the
    second convolution and its weight gradient read what the first one left.
    """
    net = nn.Sequential(
        nn.Conv2d(32, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 16, 3, padding=1)
    )

    def step(x: Tensor) -> list[Tensor]:
        y = net(x)
        return engine.gradients(engine.sum(y * y), list(net.parameters()))

    found = passes(step)
    others = [entry for entry in found if not entry[0].startswith(("convolution", "relayout", "combine", "pack"))]
    assert [(read, written) for _, read, written in others] == [(1, 0), (2, 0), (2, 1)], found
    reads = [entry for entry in found if entry[0].startswith("convolution") and entry[1]]
    assert len(reads) == 4, "two forward, two weight gradients: what they read is as large as the first one's result"


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (lambda: nn.LayerNorm(96), (40, 50, 96), [(1, 1)]),
        (lambda: nn.LayerNorm(1024), (200, 1024), [(1, 0), (1, 1)]),  # a row's two blocks are merged in between
        (lambda: nn.InstanceNorm2d(32, affine=True), SHAPE, [(1, 0), (1, 1)]),
        (lambda: nn.InstanceNorm2d(32), (16, 32, 20, 24), [(1, 1)]),
        (lambda: nn.GroupNorm(4, 32), SHAPE, [(1, 0), (1, 1)]),
    ],
)
def test_other_norms_read_at_most_twice_and_write_once(
    layer: Callable[[], nn.Module], shape: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    net = layer()
    assert [entry[1:] for entry in passes(lambda x: net(x), shape)] == expected


def test_group_norm_behind_a_convolution_needs_no_copy() -> None:
    net = nn.Sequential(nn.Conv2d(32, 32, 1, bias=False), nn.GroupNorm(4, 32), nn.ReLU(), nn.Conv2d(32, 8, 1))
    probe = engine.asarray(np.ones((4, 8, 20, 24), np.float32))
    found = passes(lambda x: engine.gradients(engine.sum(net(x) * probe), list(net.parameters())))
    assert Counter(kind for kind, *_ in found)["terms"] == 0
    assert Counter(kind for kind, *_ in found)["relayout"] == 1, "the input is given row by row"


@pytest.mark.usefixtures("unpoisoned")
def test_total_sums_of_channels_last_images_need_no_copy() -> None:
    net = nn.Conv2d(32, 32, 3, padding=1)

    def step(x: Tensor) -> Tensor:
        return engine.mean(relu(net(x)))

    kinds = [kind for kind, *_ in passes(step)]
    assert kinds == ["relayout", "convolution", "reduce_sum"]


def test_max_pooling_between_convolutions_stays_channels_last() -> None:
    net = nn.Sequential(nn.Conv2d(32, 32, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(32, 8, 1))

    def step(x: Tensor) -> list[Tensor]:
        y = net(x)
        return engine.gradients(engine.sum(y * y), list(net.parameters()))

    found = passes(step)
    kinds = Counter(kind for kind, *_ in found)
    assert kinds["terms"] == 0
    assert kinds["relayout"] == 1, "the input is given row by row"
    assert [entry for entry in found if "window" in entry[0]] == [
        ("window_max", 1, 0), ("window_argmax", 1, 0), ("window_max_gradient", 0, 1),
    ]  # fmt: skip


def test_the_gradient_of_a_global_average_is_spread_once_and_terms_are_not_stored() -> None:
    net = nn.Sequential(nn.Conv2d(32, 32, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def step(x: Tensor) -> list[Tensor]:
        y = net(x)
        return engine.gradients(engine.sum(y * y), list(net.parameters()))

    kinds = [kind for kind, *_ in passes(step)]
    assert "terms" not in kinds
    assert kinds.count("operand") == 1


def test_cross_entropy_and_its_gradient_read_once_and_write_once() -> None:
    """The maximum, the exponentials, both sums and the gradient of a few rows are one task."""
    labels = engine.asarray(np.random.default_rng(0).integers(0, 96, 2000))

    def step(x: Tensor) -> list[Tensor]:
        return engine.gradients(nn.cross_entropy(x, labels), [x])

    assert [entry[1:] for entry in passes(step, (2000, 96))] == [(1, 1)]


def test_layer_norm_and_its_gradient_read_both_arrays_once_for_rows_and_once_for_columns() -> None:
    net = nn.LayerNorm(96)
    probe = engine.asarray(np.ones((2000, 96), np.float32))

    def step(x: Tensor) -> list[Tensor]:
        y = net(x)
        return [y, *engine.gradients(engine.sum(y * probe), [x, *net.parameters()])]

    assert [entry[1:] for entry in passes(step, (2000, 96))] == [(2, 2), (2, 0)]
