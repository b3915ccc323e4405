"""trace: one program for each signature, replayed; every way in which a step could go stale is refused or handled."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import State, Tensor, history, nn
from trainer.engine.graph.node import topological, uncomputed
from trainer.engine.nn import RandomState
from trainer.engine.program.partition import Policy
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.tracing.arguments import as_storage
from trainer.engine.tracing.trace import CACHED_SIGNATURES, MANY_SIGNATURES

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True, params=["cpu", "reference"])
def device(request: pytest.FixtureRequest, cpu: CpuDevice) -> Iterator[Any]:
    with engine.device(cpu if request.param == "cpu" else "reference") as chosen:
        yield chosen


# --- arguments and results --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


def test_nested_structures_go_in_and_come_out() -> None:
    def step(batch: dict[str, Any], pair: Pair, *rest: Any, shift: Any) -> Any:
        image, (low, high) = batch["image"], batch["bounds"]
        return {"image": image * 2, "rest": [rest[0] + shift, "as it is"], "pair": Pair(low, (pair.second - high,))}

    batch = {"image": X, "bounds": [np.float32(1), engine.asarray(3.0)]}
    for _ in range(2):
        found = engine.trace(step)(batch, Pair(X, X * 5), X + 1, shift=np.float32(0.5))
        assert found["image"].tolist() == (X * 2).tolist()
        assert found["rest"][0].tolist() == (X + 1.5).tolist() and found["rest"][1] == "as it is"
        assert type(found["pair"]) is Pair and isinstance(found["pair"].second, tuple)
        assert found["pair"].first.item() == 1 and found["pair"].second[0].tolist() == (X * 5 - 3).tolist()


def test_images_with_their_channels_last_are_taken_as_they_lie() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 5, 6, 3), dtype=np.uint8)
    images = pixels.transpose(0, 3, 1, 2)
    storage = as_storage(abs, "[0][0]", images)
    assert storage is not None and np.shares_memory(storage.flat(), pixels)
    np.testing.assert_array_equal(storage.view(), images)

    def step(x: Any, weights: Any) -> Any:
        return engine.convolution(x.astype(engine.float32), weights), x + np.uint8(1), x[:, ::-1, 1:]

    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    for taken, copied in zip(
        engine.trace(step)(images, weights), engine.trace(step)(images.copy(), weights), strict=True
    ):
        np.testing.assert_array_equal(taken.numpy(), copied.numpy())


def test_flags_and_strings_select_a_program() -> None:
    def step(x: Any, doubles: bool, name: str) -> Any:
        return x * (2 if doubles else 3) + len(name)

    traced = engine.trace(step)
    for doubles, name in [(True, "a"), (False, "a"), (True, "bb"), (True, "a")]:
        assert traced(X, doubles, name).tolist() == step(X, doubles, name).tolist()
    assert len(traced.programs) == 3


def test_a_step_is_traced_once_for_a_signature() -> None:
    runs = []

    def step(x: Any) -> Any:
        runs.append(x.shape)
        return x + 1

    traced = engine.trace(step)
    for x in (X, X + 1, X.T, X.astype(np.int32), X, X.T):
        assert traced(x).tolist() == (x + 1).tolist()
    assert runs == [(2, 3), (3, 2), (2, 3)] and len(traced.programs) == 3


def test_a_number_that_changes_is_named() -> None:
    def step(batch: dict[str, Any], rate: float) -> Any:
        return batch["x"] * rate * batch["scale"]

    traced = engine.trace(step)
    traced({"x": X, "scale": 1.0}, 0.5)
    with pytest.raises(TrainerError, match="argument rate of a traced step changed") as caught:
        traced({"x": X, "scale": 1.0}, 0.25)
    assert (caught.value.found, str(caught.value.expected)[:3]) == ("0.25", "0.5")
    assert "test_trace.py" in str(caught.value.where)
    with pytest.raises(TrainerError, match=r"argument batch\['scale'\] of a traced step changed"):
        traced({"x": X, "scale": 2.0}, 0.5)
    with pytest.raises(TrainerError, match="argument rate"):
        engine.trace(step)({"x": X, "scale": 1.0}, rate={1, 2})  # type: ignore[arg-type]


def test_a_number_as_an_array_may_change() -> None:
    traced = engine.trace(lambda x, rate: x * rate)
    for rate in (0.5, 0.25):
        assert traced(X, np.float32(rate)).tolist() == (X * rate).tolist()
    assert len(traced.programs) == 1


@pytest.mark.parametrize("argument", [np.ones(2, np.longdouble), {1}, bytearray()])
def test_an_argument_of_a_kind_that_can_not_be_an_input_is_refused(argument: Any) -> None:
    with pytest.raises(TrainerError, match="argument other of a traced step") as caught:
        engine.trace(lambda x, other: x)(X, argument)
    assert "test_trace.py" in str(caught.value.where)


def test_non_contiguous_and_empty_arrays_are_taken() -> None:
    traced = engine.trace(lambda x: x * 2)
    for x in (X[:, ::-1], X.T, X[:0], np.float32(3), np.asfortranarray(X)):
        assert np.array_equal(traced(x).numpy(), x * 2)


# --- values are not there while a step is traced ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "read"),
    [
        ("numpy", lambda x: x.numpy()),
        ("item", lambda x: engine.sum(x).item()),
        ("bool", lambda x: bool(engine.sum(x) > 0)),
        ("float", lambda x: float(engine.sum(x))),
        ("evaluate", lambda x: engine.evaluate(x + 1)),
        ("numpy", lambda x: np.asarray(x)),
        ("numpy", lambda x: State(np.ones(2)).numpy()),
    ],
)
def test_reading_a_value_raises_with_the_users_line(operation: str, read: Callable[[Any], Any]) -> None:
    with pytest.raises(TrainerError, match="value read inside a traced step") as caught:
        engine.trace(read)(X)
    assert caught.value.message.startswith(operation)
    file, _, line = str(caught.value.where).rpartition(":")
    assert file.endswith("test_trace.py") and int(line) == inspect.getsourcelines(read)[1]
    assert (engine.asarray(X) + 1).numpy()[0, 0] == 1  # the trace has ended


def test_a_tensor_that_escapes_from_a_step_has_no_value() -> None:
    escaped: list[Tensor] = []

    def step(x: Any) -> Any:
        escaped.append(x * 2)
        return x

    engine.trace(step)(X)
    with pytest.raises(TrainerError, match="no value outside it") as caught:
        (escaped[0] + 1).numpy()
    assert caught.value.found == "computed from input x"


# --- states -----------------------------------------------------------------------------------------------------------


def test_states_are_captured_updated_in_place_and_returned() -> None:
    weight, unused = State(np.ones(3, np.float32), "weight"), State(np.ones(2), "unused")
    memory = weight.storage.flat()

    def step(x: Any) -> Any:
        before = weight + 0
        weight.assign(weight + engine.sum(x, axis=0))
        weight.assign(weight * 2)
        return before, weight, weight * 10

    traced = engine.trace(step)
    expected = np.ones(3, np.float32)
    kept = []
    for _ in range(3):
        before, after, tenfold = traced(X)
        kept.append((after, (expected + X.sum(0)) * 2))
        assert before.tolist() == expected.tolist()
        expected = (expected + X.sum(0)) * 2
        assert weight.tolist() == expected.tolist() and tenfold.tolist() == (expected * 10).tolist()
    assert weight.storage.flat() is memory and unused.tolist() == [1, 1]
    assert all(after.tolist() == value.tolist() for after, value in kept)


def test_two_states_swap_in_one_step() -> None:
    a, b = State(np.zeros(70000, np.float32)), State(np.ones(70000, np.float32))

    def step() -> None:
        old = a + 0.0
        a.assign(b)
        b.assign(old)

    def step_by_handles() -> None:
        old = a[:]
        a.assign(b)
        b.assign(old)

    for function in (step, step_by_handles):
        traced = engine.trace(function)
        for _ in range(3):
            first, second = a.numpy(), b.numpy()
            traced()
            assert np.array_equal(a.numpy(), second) and np.array_equal(b.numpy(), first)


def test_a_value_set_between_steps_is_seen() -> None:
    rate = State(np.float32(1), "rate")
    traced = engine.trace(lambda x: x * rate)
    for value in (1.0, 0.5, 0.25):
        rate.set_value(np.float32(value))
        assert traced(X).tolist() == (X * value).tolist()
        rate.assign(rate * 2)
        assert traced(X).tolist() == (X * value * 2).tolist()
    assert len(traced.programs) == 1


def test_a_state_may_be_an_argument_of_the_step_that_updates_it() -> None:
    state = State(np.ones(70000, np.float32))

    def step(x: Any) -> Any:
        state.assign(state + 1)
        return state * engine.sum(x), x * 2

    traced = engine.trace(step)
    for value in (1.0, 2.0, 3.0):
        for argument in (state, state[:]):
            state.set_value(np.full(70000, value, np.float32))
            total, doubled = traced(argument)
            assert (doubled.numpy() == 2 * value).all() and (total.numpy() == (value + 1) * 70000 * value).all()


def test_a_handle_from_before_the_step_keeps_the_value_that_the_state_had() -> None:
    state = State(np.ones(4, np.float32))
    initial, lazily = state[:], state * 1.0

    def step() -> Any:
        state.assign(state + 1)
        return state - initial, state - lazily

    def look() -> Any:
        return initial + 0.0, lazily + 0.0

    traced, looking = engine.trace(step), engine.trace(look)
    looking()
    for steps in (1, 2, 3):
        assert [x.tolist() for x in traced()] == [[steps] * 4] * 2
        assert [x.tolist() for x in looking()] == [[1.0] * 4] * 2
    assert state.tolist() == [4.0] * 4


def test_a_schedule_in_a_state_compiles_once() -> None:
    rate, weight = State(np.float32(0), "rate"), State(np.zeros(3, np.float32), "weight")
    traced = engine.trace(lambda x: weight.assign(weight - rate * engine.mean(x, axis=0)))
    total = 0.0
    for step in range(5):
        rate.set_value(np.float32(1 / (1 + step)))
        total += np.float32(1 / (1 + step))
        traced(X)
    assert len(traced.programs) == 1
    np.testing.assert_allclose(weight.numpy(), -total * X.mean(0), rtol=1e-6)


def test_statistics_of_batch_norm_move_once_a_step() -> None:
    layer = nn.BatchNorm2d(2)
    x = np.random.default_rng(0).normal(3, 2, (4, 2, 5, 5)).astype(np.float32)

    def step(x: Any) -> Any:
        loss = engine.mean(engine.square(layer(x)))
        return engine.gradients(loss, [layer.weight])[0]

    traced = engine.trace(step)
    for steps in (1, 2):
        traced(x)
        mean = x.mean((0, 2, 3), dtype=np.float64) * (1 - 0.9**steps)
        np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-5)


# --- a step within a step ---------------------------------------------------------------------------------------------


def test_a_traced_step_within_another_is_a_part_of_it() -> None:
    count = State(np.zeros((), np.float32))

    @engine.trace
    def inner(x: Any) -> Any:
        count.assign(count + 1)
        return x + count

    outer = engine.trace(lambda x: inner(x) * 2)
    for steps in (1, 2, 3):
        assert outer(X).tolist() == ((X + steps) * 2).tolist()
    assert inner.programs == [] and count.item() == 3


# --- results ----------------------------------------------------------------------------------------------------------


def test_results_that_are_held_are_not_written_again() -> None:
    traced = engine.trace(lambda x: (x + 1, engine.sum(x)))
    held = [traced(X * step) for step in range(20)]
    for step, (shifted, total) in enumerate(held):
        assert shifted.tolist() == (X * step + 1).tolist() and total.item() == 15 * step


def test_results_may_be_the_same_the_arguments_or_constants() -> None:
    captured = engine.asarray(X + 7)
    traced = engine.trace(lambda x: (x, x + 1, x + 1, captured, engine.ones((2,)), x.T))
    for x in (X, X + 1):
        expected = [x, x + 1, x + 1, X + 7, np.ones(2), x.T]
        assert all(np.array_equal(a.numpy(), b) for a, b in zip(traced(x), expected, strict=True))


def test_a_sum_of_results_that_is_never_read_evaluates_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "UNREAD_LIMIT", 64)
    traced = engine.trace(engine.sum)
    total, unread, kept = engine.asarray(0.0), 0, 0
    for _ in range(300):
        total = total + traced(X)
        unread = max(unread, len(uncomputed([total.node])))
        kept = max(kept, len(topological([total.node])))
    assert unread <= 2 * 64 + 1 and kept <= 4 * 64 and total.item() == 300 * 15


# --- check_every ------------------------------------------------------------------------------------------------------


def test_checking_finds_a_step_that_is_not_what_it_was() -> None:
    factors = deque([1.0, 2.0])
    traced = engine.trace(lambda x: x * factors[0], check_every=3)
    traced(X)
    factors.reverse()  # no guard looks into deques
    traced(X)
    with pytest.raises(TrainerError, match="has changed since it was traced"):
        traced(X)


def test_checking_finds_an_array_that_was_written_to() -> None:
    mask = np.array([1, np.nan, 1], np.float32)
    traced = engine.trace(lambda x: x * mask, check_every=2)
    for _ in range(4):
        traced(X)
    mask[0] = 0
    traced(X)
    with pytest.raises(TrainerError, match="has changed since it was traced"):
        traced(X)


def test_checking_finds_another_state_in_the_place_of_one() -> None:
    states = deque([State(np.ones(3, np.float32)), State(np.ones(3, np.float32))])
    traced = engine.trace(lambda x: states[0].assign(states[0] + engine.sum(x, axis=0)), check_every=2)
    for _ in range(4):
        traced(X)
    states.reverse()
    traced(X)
    with pytest.raises(TrainerError, match="has changed since it was traced"):
        traced(X)


def test_checking_lets_a_faithful_step_pass() -> None:
    random, layer, count = RandomState(0), nn.Dropout(0.5), State(np.zeros(()))

    def step(x: Any) -> Any:
        with random.step():
            count.assign(count + 1)
            result = layer(x)
            random.advance()
        return result

    traced = engine.trace(step, check_every=1)
    for _ in range(3):
        traced(X)
    assert count.item() == 3 and len(traced.programs) == 1


# --- shapes that keep changing ----------------------------------------------------------------------------------------


def test_changing_shapes_are_bounded_and_one_warning_says_which_input_varies() -> None:
    traced = engine.trace(lambda batch, flag: batch["boxes"] * batch["scale"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for extent in range(1, CACHED_SIGNATURES + 5):
            for flag in (True, False):
                found = traced({"boxes": np.ones((extent, 4), np.float32), "scale": np.float32(3)}, flag)
                assert found.shape == (extent, 4)
    assert len(traced.programs) == CACHED_SIGNATURES
    (warning,) = caught
    expected = f"compiled for {MANY_SIGNATURES} shapes: a new shape of batch['boxes'] compiles again"
    assert expected in str(warning.message)
    assert warning.filename == __file__


def test_flags_alone_warn_of_nothing() -> None:
    traced = engine.trace(lambda x, name: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in "abcdefghijkl":
            traced(X, name)
    assert len(traced.programs) == 12


# --- randomness -------------------------------------------------------------------------------------------------------


def dropout_steps(chosen: Any) -> list[np.ndarray]:
    with engine.device(chosen):
        random, layer = RandomState(3), nn.Dropout(0.5)
        weight = State(np.linspace(1, 2, 500, dtype=np.float32))

        def step(x: Any) -> Any:
            with random.step():
                hidden = layer(engine.exp(x * weight))
                loss = engine.sum(hidden * hidden)
                random.advance()
            return hidden, engine.gradients(loss, [weight])[0]

        traced = engine.trace(step)
        x = np.linspace(-1, 1, 500, dtype=np.float32)
        return [value.numpy() for _ in range(3) for value in traced(x)]


def test_dropout_draws_anew_each_step_and_the_gradient_is_of_the_same_mask(device: Any) -> None:
    found = dropout_steps(device)
    masks = [hidden == 0 for hidden in found[::2]]
    assert all(0.3 < mask.mean() < 0.7 for mask in masks)
    assert not np.array_equal(masks[0], masks[1]) and not np.array_equal(masks[1], masks[2])
    for mask, gradient in zip(masks, found[1::2], strict=True):
        x = np.linspace(-1, 1, 500)
        assert np.array_equal((gradient == 0)[x != 0], mask[x != 0])


def test_dropout_is_the_same_with_and_without_recomputation(device: Any) -> None:
    expected = dropout_steps(CpuDevice(threads=1))
    for policy in (Policy(recompute=False), Policy(shared_loads=99, shared_operations=999)):
        for value, other in zip(dropout_steps(CpuDevice(threads=1, policy=policy)), expected, strict=True):
            assert value.tobytes() == other.tobytes()


# --- floating-point environment ---------------------------------------------------------------------------------------


def test_subnormal_numbers_are_flushed_in_a_step_and_nowhere_else() -> None:
    small = np.full(70000, 1e-38, np.float32)
    traced = engine.trace(lambda x: x * np.float32(0.5))
    assert (traced(small).numpy() == 0).all()
    assert (small * np.float32(0.5) > 0).all()
    assert ((engine.asarray(small) * np.float32(0.5)).numpy() > 0).all()


# --- both devices -----------------------------------------------------------------------------------------------------


def test_a_step_gives_the_same_on_the_reference_device(cpu: CpuDevice) -> None:
    def run() -> list[np.ndarray]:
        weight, moment = State(np.full((3, 4), 0.1, np.float32)), State(np.zeros((3, 4), np.float32))

        def step(x: Any) -> Any:
            loss = engine.mean(engine.square(engine.tanh(x @ weight) - 1))
            (gradient,) = engine.gradients(loss, [weight])
            moment.assign(moment * 0.9 + gradient)
            weight.assign(weight - 0.1 * moment)
            return loss, gradient

        traced = engine.trace(step)
        return [value.numpy() for _ in range(3) for value in (*traced(X), weight, moment)]

    with engine.device(cpu):
        ours = run()
    with engine.device("reference"):
        for value, expected in zip(ours, run(), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7)


def test_cycles_are_not_collected_while_a_step_is_traced_and_are_afterwards_even_if_that_fails() -> None:
    seen: list[bool] = []

    def step(x: Tensor) -> Tensor:
        seen.append(gc.isenabled())
        if len(seen) > 1:
            raise ValueError("no second trace")
        return x + x

    traced = engine.trace(step)
    traced(np.ones(3, np.float32))
    assert seen == [False] and gc.isenabled()
    with pytest.raises(ValueError, match="no second trace"):
        traced(np.ones(4, np.float32))
    assert seen == [False, False] and gc.isenabled()
