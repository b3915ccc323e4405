"""Repeats: items built by hand, run by the CPU as one record, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import float32, int64
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.program.loops import copy, fill, loop, repeat
from trainer.engine.program.spec import Instruction
from trainer.engine.program.work import Buffer, Reduce, View, Work
from trainer.engine.targets.cpu import defaults
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.cpu.executable import Program
from trainer.engine.targets.cpu.lowering.expand import expand
from trainer.engine.targets.cpu.lowering.lower import lower
from trainer.engine.targets.cpu.poison import poisoned
from trainer.engine.targets.cpu.target import Lowered

LOAD = [Instruction("load", (), float32, (number,)) for number in range(3)]
WIDE = 50_000  # several tasks
TIMES = 64


@pytest.fixture(params=[1, 2, 3])
def device(request: pytest.FixtureRequest) -> Iterator[CpuDevice]:
    device = CpuDevice(threads=request.param, poison=True)
    yield device
    device.pool.close()


def row(buffer: Buffer, width: int, number: int = 0, step: int = 1) -> View:
    """A row of a buffer of rows, from its end if `step` is -1."""
    start = number * width + (width - 1 if step < 0 else 0)
    return View(buffer, float32, (width,), (step,), start)


def runner(
    device: CpuDevice, works: Sequence[Work], inputs: Sequence[Storage], result: Buffer, shape: tuple[int, ...]
) -> Callable[..., np.ndarray]:
    """A function of arrays that runs the items on them."""
    works = expand(works, device.target.machine, "exact", "pairs")
    launches = [lower(work, lambda spec: defaults.choose(spec, device.target.machine)) for work in works]
    launches = poisoned(launches)
    lowered = Lowered(launches, 0, [result], [Layout.row_major(len(shape))])
    kernels = device.kernels.of(launches)
    program = Program(device, lowered, kernels, [p.buffer(each) for each in inputs], [shape], flush=True)

    def run(*arrays: np.ndarray, stamped: bool = False) -> np.ndarray:
        if not stamped:
            return program.run([Storage.of(array, float32) for array in arrays])[0].view().copy()
        with device.recorded() as recording:
            (found,) = program.run([Storage.of(array, float32) for array in arrays])
        (own,) = recording.runs
        assert own.stamps.shape[1] == len(launches) + 1
        assert (np.diff(own.stamps.reshape(len(own.stamps), -1)[:, :-2]) >= 0).all()
        return found.view().copy()

    return run


def leaf(*shape: int) -> tuple[Storage, Buffer]:
    storage = Storage(shape, float32, name="input")
    return storage, Buffer(int(np.prod(shape)), float32, "input", storage)


def recurrence(device: CpuDevice, width: int, times: int) -> Callable[..., np.ndarray]:
    """h[t + 1] = h[t] * a + x[t] from h[0] = 1, as one part."""
    (x, x_buffer), (a, a_buffer) = leaf(times, width), leaf(width)
    h = Buffer((times + 1) * width, float32, "h", result=0)
    body = [*LOAD, Instruction("multiply", (0, 1), float32), Instruction("add", (3, 2), float32)]
    reads = [row(h, width), row(a_buffer, width), row(x_buffer, width)]
    part = loop((width,), body, reads, [row(h, width, 1)], [4], "step")
    first = loop((width,), [Instruction("constant", (), float32, (1.0,))], [], [row(h, width)], [0], "first")
    items = [first, repeat([part], [[width, 0, width, width]], times, "recurrence")]
    return runner(device, items, [x, a], h, (times + 1, width))


def expected_recurrence(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    h = [np.ones_like(a)]
    for each in x:
        h.append(h[-1] * a + each)
    return np.array(h)


@pytest.mark.parametrize(("width", "times"), [(7, 64), (WIDE, TIMES), (WIDE, 1), (7, 1)])
def test_a_recurrence_is_that_of_numpy_each_time_that_it_runs(device: CpuDevice, width: int, times: int) -> None:
    run, random = recurrence(device, width, times), np.random.default_rng(0)
    for number in range(3):
        x = random.normal(size=(times, width)).astype(np.float32)
        a = random.uniform(-1, 1, width).astype(np.float32)
        np.testing.assert_allclose(
            run(x, a, stamped=number == 1), expected_recurrence(x, a), rtol=2e-4, atol=2e-5
        )  # the kernel fuses the multiplication and the addition


def test_a_repeat_of_no_times_does_nothing(device: CpuDevice) -> None:
    run = recurrence(device, WIDE, 0)
    np.testing.assert_array_equal(run(np.ones((0, WIDE), np.float32), np.ones(WIDE, np.float32)), np.ones((1, WIDE)))


@pytest.mark.parametrize("width", [9, WIDE])
def test_parts_see_all_of_what_earlier_parts_wrote(device: CpuDevice, width: int) -> None:
    """u = h[t] * a in memory of the arena, then h[t + 1] = u from its end to its beginning + x[t] + t."""
    (x, x_buffer), (a, a_buffer) = leaf(TIMES, width), leaf(width)
    h = Buffer((TIMES + 1) * width, float32, "h", result=0)
    u = Buffer(width, float32, "u")
    product = loop(
        (width,), [*LOAD[:2], Instruction("multiply", (0, 1), float32)],
        [row(h, width), row(a_buffer, width)], [row(u, width)], [2], "product",
    )  # fmt: skip
    body = [
        *LOAD[:2], Instruction("load", (), int64, (2,)), Instruction("cast", (2,), float32),
        Instruction("add", (0, 1), float32), Instruction("add", (4, 3), float32),
    ]  # fmt: skip
    count = View(None, int64, (width,), (0,))
    total = loop(
        (width,), body, [row(u, width, step=-1), row(x_buffer, width), count], [row(h, width, 1)], [5], "total"
    )
    steps = [[width, 0, 0], [0, width, 1, width]]
    run = runner(device, [fill(h, 1.0), repeat([product, total], steps, TIMES, "both")], [x, a], h, (TIMES + 1, width))
    random = np.random.default_rng(1)
    for _ in range(3):
        given = random.normal(size=(TIMES, width)).astype(np.float32)
        factor = random.uniform(-1, 1, width).astype(np.float32)
        rows = [np.ones(width, np.float32)]
        for number, each in enumerate(given):
            rows.append((rows[-1] * factor)[::-1] + each + np.float32(number))
        np.testing.assert_array_equal(run(given, factor), rows)


def test_a_reduction_may_be_a_part_and_its_operands_step_backwards(device: CpuDevice) -> None:
    """The sum of each row of x, from the last row to the first, then copied out by an item after the repeat."""
    height, width = 40, 64
    x, x_buffer = leaf(TIMES, height, width)
    sums = Buffer(TIMES * height, float32, "sums")
    last = (TIMES - 1) * height * width
    part = Work(
        "reduction", Reduce(("sum",), (1,)),
        (View(x_buffer, float32, (height, width), (width, 1), last),),
        (View(sums, float32, (height,), (1,)),), "sum", (height, width), (LOAD[0],), (0,),
    )  # fmt: skip
    result = Buffer(TIMES * height, float32, "result", result=0)
    out = copy(row(sums, TIMES * height), row(result, TIMES * height), "copy")
    item = repeat([part], [[-height * width, height]], TIMES, "sums")
    run = runner(device, [item, out], [x], result, (TIMES, height))
    given = np.random.default_rng(2).integers(-9, 9, (TIMES, height, width)).astype(np.float32)
    for shift in range(2):
        np.testing.assert_array_equal(run(given + shift), (given + shift).sum(axis=2)[::-1])


def test_memory_of_a_repeat_lives_as_long_as_all_of_it() -> None:
    """What a part needs only for the first part of a time is needed again the next time."""
    a, b, c = (Buffer(64, float32, name) for name in "abc")
    item = repeat([copy(row(a, 64), row(b, 64), "1"), copy(row(b, 64), row(c, 64), "2")], [[0, 0], [0, 0]], 3, "both")
    assert item.sources == (a, b) and item.targets == (b, c)
