"""`engine.scan` against the same step in a Python loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.targets.cpu.device import CpuDevice

LENGTH, ROWS, WIDTH = 7, 3, 5


@pytest.fixture(params=["cpu", "reference"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with engine.device(request.param):
        yield request.param


def arrays(dtype: Any = np.float32) -> tuple[engine.Tensor, ...]:
    """Slices [7, 3, 4], the carry before the first step [3, 5], weights [4, 5] and [5, 5]."""
    rng = np.random.default_rng(0)
    shapes = ((LENGTH, ROWS, 4), (ROWS, WIDTH), (4, WIDTH), (WIDTH, WIDTH))
    return tuple(engine.asarray(rng.standard_normal(shape).astype(dtype) * 0.5) for shape in shapes)


def unrolled(step: Callable[..., Any], carry: Any, x: engine.Tensor, *, reverse: bool = False) -> tuple[Any, Any]:
    """What `engine.scan` of a step with one output gives."""
    outputs = {}
    for place in sorted(range(x.shape[0]), reverse=reverse):
        carry, outputs[place] = step(carry, x[place])
    return carry, engine.stack([outputs[place] for place in range(x.shape[0])])


def recurrence(u: engine.Tensor, w: engine.Tensor) -> Callable[..., Any]:
    """A recurrent layer with a softmax in it: products, reductions and element-wise work."""

    def step(h: engine.Tensor, x: engine.Tensor) -> tuple[engine.Tensor, engine.Tensor]:
        h = engine.tanh(x @ u + h @ w)
        return h, h / engine.sum(engine.exp(h), axis=-1, keepdims=True)

    return step


def test_equals_the_loop_bit_for_bit(device: str) -> None:
    x, h, u, w = arrays()
    for reverse in (False, True):
        expected = unrolled(recurrence(u, w), h, x, reverse=reverse)
        for every in (None, 3):
            found = engine.scan(recurrence(u, w), h, x, reverse=reverse, checkpoint_every=every)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize(("reverse", "every"), [(False, None), (True, None), (False, 3), (True, 3)])
def test_gradients_by_differences(reverse: bool, every: int | None) -> None:
    def function(x: Any, h: Any, u: Any, w: Any) -> tuple[Any, Any]:
        return engine.scan(recurrence(u, w), h, x, reverse=reverse, checkpoint_every=every)  # type: ignore[return-value]

    engine.check_gradient(function, *arrays(np.float64))


def test_second_derivatives() -> None:
    def function(x: Any, w: Any) -> Any:
        return engine.scan(lambda h, x: (engine.sin(h * w) + x, h * h), engine.ones((2,), dtype=engine.float64), x)

    rng = np.random.default_rng(0)
    engine.check_gradient(function, rng.standard_normal((4, 2)), rng.standard_normal(2), order=2)


def test_gradients_equal_the_loops(device: str) -> None:
    """Of what each step uses once they have its bits: parts are added from the last step to the first."""
    x, h, u, w = arrays()

    def of(outputs: tuple[Any, Any]) -> list[np.ndarray]:
        loss = engine.sum(outputs[0]) + engine.sum(outputs[1] * outputs[1])
        return [each.numpy() for each in engine.gradients(loss, [x, h, u, w])]

    expected = of(unrolled(recurrence(u, w), h, x))
    for every in (None, 2):
        for one, other in zip(of(engine.scan(recurrence(u, w), h, x, checkpoint_every=every)), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for one, other in zip(of(engine.scan(recurrence(u, w), h, x)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_nested_values_and_no_inputs(device: str) -> None:
    def step(carry: dict[str, Any], x: None) -> tuple[Any, Any]:
        assert x is None
        a, (b, count) = carry["a"], carry["b"]
        return {"a": b, "b": (a + b, count + 1)}, (count, [a])

    carry, (counts, (numbers,)) = engine.scan(step, {"a": 0.0, "b": (1.0, np.int32(0))}, length=6)
    assert numbers.tolist() == [0, 1, 1, 2, 3, 5] and counts.tolist() == [0, 1, 2, 3, 4, 5]
    assert (float(carry["a"]), float(carry["b"][0]), int(carry["b"][1])) == (8.0, 13.0, 6)


def test_a_carry_that_no_step_changes(device: str) -> None:
    x, h, *_ = arrays()
    last, outputs = engine.scan(lambda h, x: (h, None), h, x)
    assert outputs is None
    np.testing.assert_array_equal(last.numpy(), h.numpy())
    last, outputs = engine.scan(lambda h, x: (h, h), h, x)
    slope = engine.gradients(engine.sum(last) + engine.sum(outputs), [h])[0].numpy()
    np.testing.assert_array_equal(slope, np.full(h.shape, LENGTH + 1, np.float32))


def test_scans_within_scans(device: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

    def total(row: engine.Tensor) -> engine.Tensor:
        return engine.scan(lambda a, b: (a * 0.5 + b, None), 0.0, row)[0]

    weight = engine.asarray(2.0)
    last, sums = engine.scan(lambda a, row: (a + total(row * weight), total(row)), 0.0, x)
    rows = np.array([sum(value * 0.5 ** (3 - place) for place, value in enumerate(row)) for row in x])
    np.testing.assert_allclose(sums.numpy(), rows, rtol=1e-5)
    np.testing.assert_allclose(float(last), 2 * rows.sum(), rtol=1e-5)
    (slope,) = engine.gradients(last, [weight])
    np.testing.assert_allclose(float(slope), rows.sum(), rtol=1e-5)


def test_what_strides_say_is_read() -> None:
    """Slices, rows and weights that are views: transposed, broadcast, every other one, backwards."""
    rng = np.random.default_rng(0)
    x, w = (engine.asarray(rng.standard_normal(shape).astype(np.float32)) for shape in ((3, 14, 4), (5, 4)))
    slices = engine.flip(engine.permute_dims(x, (1, 0, 2))[::2], axis=0)
    h = engine.broadcast_to(engine.asarray([0.5]), (3, 5))
    step = recurrence(w.T, engine.broadcast_to(w[:, :1], (5, 5)))
    for one, other in zip(engine.scan(step, h, slices), unrolled(step, h, slices), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


class _Cell(nn.Module):
    def __init__(self) -> None:
        self.inner, self.outer = nn.Linear(4, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, h: engine.Tensor, x: engine.Tensor) -> tuple[engine.Tensor, engine.Tensor]:
        h = engine.tanh(self.inner(x) + self.outer(h))
        return h, h


def test_a_traced_step_trains(device: str) -> None:
    """States are read within the step, and updated by what the scan's gradient says, as with a loop."""
    x, h, *_ = arrays()

    def trained(run: Callable[..., Any]) -> list[np.ndarray]:
        cell = _Cell()
        for state in cell.parameters():
            state.set_value(np.random.default_rng(state.shape[0]).standard_normal(state.shape) * 0.3)

        def update(x: engine.Tensor) -> engine.Tensor:
            loss = engine.mean(run(cell, h, x)[1] ** 2)
            parameters = list(cell.parameters())
            for state, slope in zip(parameters, engine.gradients(loss, parameters), strict=True):
                state.assign(state - 0.1 * slope)
            return loss

        traced = engine.trace(update)
        losses = [float(traced(x)) for _ in range(3)]
        assert losses[2] < losses[0]
        return [state.numpy() for state in cell.parameters()]

    for one, other in zip(trained(engine.scan), trained(unrolled), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def program(length: int, every: int | None = None, *, slope: bool = True) -> Any:
    x, h, u, w = arrays()
    x = engine.broadcast_to(x[:1], (length, *x.shape[1:])) + 0.0
    states = [engine.State(u), engine.State(w)]

    def function(x: engine.Tensor) -> Any:
        loss = engine.sum(engine.scan(recurrence(*states), h, x, checkpoint_every=every)[1])
        return engine.gradients(loss, states) if slope else loss

    traced = engine.trace(function)
    traced(x)
    return traced.programs[0]


@pytest.mark.parametrize("every", [None, 5])
def test_the_length_changes_nothing_that_is_compiled(every: int | None) -> None:
    short, long = program(10, every), program(1000, every)
    kernels = [{each.source for launch in made.launches for each in launch.coded()} for made in (short, long)]
    assert len(short.launches) == len(long.launches) < 45
    assert len(kernels[0]) == len(kernels[1])


def test_checkpoints_take_less_memory() -> None:
    assert program(400, 20).memory.size < program(400).memory.size / 2


def test_weights_are_packed_once() -> None:
    """What a step makes of nothing that changes comes before the scan, and is kept while the weights are unchanged."""
    x, h = engine.ones((LENGTH, 2, 64)), engine.zeros((2, 64))
    weight = engine.State(np.ones((64, 64), np.float32) / 64)
    half = engine.trace(lambda x: engine.scan(lambda h, x: (h @ weight.astype(engine.bfloat16).astype(h.dtype) + x,
                                                            None), h, x)[0])  # fmt: skip
    np.testing.assert_allclose(half(x).numpy(), LENGTH, rtol=1e-2)
    (made,) = half.programs
    assert made.constant and any(launch.body for launch in made.launches[made.constant :])


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_no_bit(threads: int) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) * 0.1 for shape in ((4, 70, 300), (300, 300)))
    device = CpuDevice(threads=threads, poison=True)
    found = []
    try:
        for chosen in (device, engine.targets.get("cpu")):
            with engine.device(chosen):
                weight = engine.asarray(w)
                last, _ = engine.scan(lambda h, x, weight=weight: (engine.tanh(h @ weight + x), None), x[0], x)
                found += [last.numpy(), engine.gradients(engine.sum(last), [weight])[0].numpy()]
    finally:
        device.pool.close()
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])


def test_dropout_differs_by_step_and_is_drawn_again_alike(device: str) -> None:
    drop, x = nn.Dropout(0.5), engine.ones((6, 40))
    random = nn.RandomState(3)

    def function(x: engine.Tensor, every: int | None) -> Any:
        with random.step():
            last, outputs = engine.scan(
                lambda h, x: (h + drop(x), drop(x)), engine.zeros(40), x, checkpoint_every=every
            )
        return last, outputs, engine.gradients(engine.sum(last), [x])[0]

    last, outputs, slopes = (each.numpy() for each in function(x, None))
    assert len({tuple(row) for row in outputs}) == 6
    assert len({tuple(row) for row in slopes}) == 6 and set(slopes.ravel()) == {0.0, 2.0}
    np.testing.assert_array_equal(last, slopes.sum(axis=0))  # the gradient has the masks of the sum
    for one, other in zip(function(x, 2), (last, outputs, slopes), strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


def test_eager_runs_the_steps_one_by_one() -> None:
    x, h, u, w = arrays()
    seen = []

    def step(h: engine.Tensor, x: engine.Tensor) -> Any:
        seen.append(float(engine.sum(x)))
        return recurrence(u, w)(h, x)

    with engine.eager():
        found = engine.scan(step, h, x)
    assert len(seen) == LENGTH
    np.testing.assert_array_equal(found[1].numpy(), unrolled(recurrence(u, w), h, x)[1].numpy())


def grown(h: engine.Tensor, x: engine.Tensor) -> Any:
    return {"a": (h["a"][0], engine.concat([h["a"][1], x]))}, None


@pytest.mark.parametrize(
    ("step", "carry", "inputs", "options", "message"),
    [
        (grown, {"a": (0.0, engine.ones(2))}, engine.ones((3, 1)), {},
         r"carry\['a'\]\[1\].*float32\[3\].*float32\[2\]"),
        (lambda h, x: (h.astype(engine.float64), None), 0.0, engine.ones(3), {}, r"carry.*float64\[\].*float32\[\]"),
        (lambda h, x: ((h, h), None), 0.0, engine.ones(3), {}, r"structure.*carry\[0\], carry\[1\].*carry"),
        (lambda h, x: h, 0.0, engine.ones(3), {}, r"no pair.*Tensor.*\(carry, output\)"),
        (lambda h, x: (h, x), 0.0, (engine.ones(3), engine.ones(4)), {}, r"inputs\[0\] of 3, inputs\[1\] of 4"),
        (lambda h, x: (h, x), 0.0, engine.ones(3), {"length": 5}, "length of 5, inputs of 3"),
        (lambda h, x: (h, x), 0.0, engine.ones((0, 2)), {}, "no steps.*length 0"),
        (lambda h, x: (h, x), 0.0, None, {}, "how many steps"),
        (lambda h, x: (h, x), 0.0, 1.0, {}, "no first axis"),
        (lambda h, x: (h, x), 0.0, engine.ones(3), {"checkpoint_every": 0}, "checkpoint.*0"),
        (lambda h, x: (h * float(x), x), 0.0, engine.ones(3), {}, "read inside a step of a scan"),
        (lambda h, x: (engine.host_call(np.sin, h, results=[((), engine.float32)]), x), 0.0, engine.ones(3), {},
         "calls Python on arrays.*sin"),
    ],
)  # fmt: skip
def test_refusals(step: Any, carry: Any, inputs: Any, options: Any, message: str) -> None:
    with pytest.raises(TrainerError, match=f"(?s){message}") as caught:
        engine.scan(step, carry, inputs, **options)
    assert caught.value.where is not None


def test_a_state_that_is_assigned_to() -> None:
    state = engine.State(0.0, "counter")

    def step(h: Any, x: Any) -> Any:
        state.assign(h)
        return h, x

    with pytest.raises(TrainerError, match=r"(?s)assigns to a state.*counter"):
        engine.scan(step, 0.0, engine.ones(3))


def test_a_saved_program_holds_no_scan(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"save_program: engine\.scan"):
        engine.save_program(
            tmp_path / "p", lambda x: engine.scan(lambda h, x: (h + x, None), 0.0, x)[0], engine.ones(3)
        )
