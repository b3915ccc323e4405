"""Host calls: Python functions on NumPy arrays in traced steps and eagerly, on every device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine.targets.cpu.device import CpuDevice

ONE = ((3,), engine.float32)
X = np.float32([1, 2, 3])


@pytest.fixture(scope="module")
def three_threads() -> Iterator[CpuDevice]:
    device = CpuDevice(threads=3, poison=True)
    yield device
    device.pool.close()


@pytest.fixture(params=["cpu", "three_threads", "reference"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    chosen = "reference" if request.param == "reference" else request.getfixturevalue(request.param)
    with engine.device(chosen) as current:
        yield current


def doubled(x: np.ndarray) -> np.ndarray:
    return x * 2


@pytest.mark.parametrize("is_traced", [True, False])
def test_results_are_those_of_the_function(device: Any, is_traced: bool) -> None:
    def step(x: Any) -> Any:
        return engine.host_call(doubled, x + 1, results=[ONE]) * 10

    run = engine.trace(step) if is_traced else step
    for shift in range(3):
        np.testing.assert_array_equal(run(engine.asarray(X + shift)).numpy(), (X + shift + 1) * 20)


@pytest.mark.parametrize("is_traced", [True, False])
def test_several_results_of_several_dtypes(device: Any, is_traced: bool) -> None:
    def statistics(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x > 1), np.asarray(x.size), x.astype(np.float64) + y, x.astype(np.float16), np.zeros((0, 2), np.uint8)

    dtypes = [engine.bool_, engine.int64, engine.float64, engine.float16, engine.uint8]
    kinds = list(zip([(3,), (), (3,), (3,), (0, 2)], dtypes, strict=True))

    def step(x: Any) -> Any:
        return engine.host_call(statistics, x, np.float64([1, 1, 1]), results=kinds)

    results = (engine.trace(step) if is_traced else step)(engine.asarray(X))
    for found, expected in zip(results, statistics(X, np.float64(1)), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    assert [(result.shape, result.dtype) for result in results] == kinds


def test_unused_results_and_second_uses(device: Any) -> None:
    @engine.trace
    def step(x: Any) -> Any:
        parts = engine.host_call(lambda x: (x, x + 1, x + 2), x, results=[ONE] * 3)
        return parts[1] * 2, parts[1].sum()

    twice, total = step(X)
    np.testing.assert_array_equal(twice.numpy(), (X + 1) * 2)
    assert total.item() == 9


def test_results_feed_products_and_other_host_calls(device: Any) -> None:
    a = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)

    @engine.trace
    def step(a: Any) -> Any:
        product = a @ engine.host_call(np.transpose, a, results=[((30, 20), engine.float32)])
        return engine.host_call(lambda x: np.sqrt(x), product * product, results=[((20, 20), engine.float32)])

    np.testing.assert_allclose(step(a).numpy(), np.abs(a @ a.T), rtol=1e-4, atol=1e-5)


def test_arguments_arrive_in_their_logical_shape_as_copies(device: Any) -> None:
    kept: list[np.ndarray] = []
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    @engine.trace
    def step(x: Any) -> None:
        engine.host_call(lambda *arrays: kept.extend(arrays), x.T, engine.flip(x), x[:, ::2], x * 2, effect=True)

    for shift in range(3):
        kept.clear()
        flat = base[0] + shift
        step(flat)
        step(np.zeros_like(flat))
        expected = [flat.T, flat[::-1, ::-1], flat[:, ::2], flat * 2]
        for found, array in zip(kept, expected, strict=False):
            np.testing.assert_array_equal(found, array)
            assert found.flags.owndata or found.base is not None
            assert found.flags.writeable and found.flags.c_contiguous


@pytest.mark.parametrize("is_traced", [True, False])
def test_bfloat16_arrives_and_returns_as_float32(device: Any, is_traced: bool) -> None:
    kinds: list[np.dtype] = []

    def note(x: np.ndarray) -> np.ndarray:
        kinds.append(x.dtype)
        return x + np.float32(1 / 512)

    def step(x: Any) -> Any:
        return engine.host_call(note, x.astype(engine.bfloat16), results=[((3,), engine.bfloat16)])

    result = (engine.trace(step) if is_traced else step)(engine.asarray(X))
    assert kinds == [np.float32] and result.dtype is engine.bfloat16
    np.testing.assert_array_equal(result.numpy(), X)


def test_subnormal_numbers_survive_in_a_host_call(device: Any) -> None:
    tiny = np.float32([1e-40, -1e-40, 1])
    seen: list[np.ndarray] = []

    @engine.trace
    def step(x: Any) -> Any:
        given = engine.host_call(lambda x: seen.append(x + x) or x * np.float32(0.5), x, results=[ONE])
        return given, given * 2

    given, flushed = step(tiny)
    np.testing.assert_array_equal(seen[0], tiny + tiny)
    np.testing.assert_array_equal(given.numpy(), tiny / 2)
    np.testing.assert_array_equal(flushed.numpy(), [0, 0, 1])  # the step around it flushes them


# --- merging, order, effects ------------------------------------------------------------------------------------------


def test_equal_calls_run_once_and_equal_effects_each(device: Any) -> None:
    calls: list[str] = []

    def pure(x: np.ndarray) -> np.ndarray:
        calls.append("pure")
        return x

    def effect(x: np.ndarray) -> np.ndarray:
        calls.append("effect")
        return x

    @engine.trace
    def step(x: Any) -> Any:
        a, b = (engine.host_call(pure, x, results=[ONE]) for _ in range(2))
        c, d = (engine.host_call(effect, x, results=[ONE], effect=True) for _ in range(2))
        return a + b + c + d

    np.testing.assert_array_equal(step(X).numpy(), X * 4)
    assert sorted(calls) == ["effect", "effect", "pure"]


def test_unused_calls_are_left_out_and_unused_effects_run(device: Any) -> None:
    calls: list[str] = []

    @engine.trace
    def step(x: Any) -> Any:
        engine.host_call(lambda x: calls.append("pure") or x, x, results=[ONE])
        engine.host_call(lambda x: calls.append("with results") or x, x, results=[ONE], effect=True)
        engine.host_call(lambda: calls.append("without"), effect=True)
        return x + 1

    for _ in range(3):
        calls.clear()
        step(X)
        assert calls == ["with results", "without"]


def test_effects_run_in_the_order_of_their_calls(device: Any) -> None:
    order: list[int] = []

    @engine.trace
    def step(x: Any) -> Any:
        values = [x, engine.exp(x), x.sum()]
        for number in range(9):
            engine.host_call(lambda _, n: order.append(int(n)), values[-number % 3] * 2, number, effect=True)
        return values[1]

    step(X)
    step(X)
    assert order == [*range(9)] * 2


def test_effects_of_states_that_do_not_change_run_each_time(device: Any) -> None:
    weight, seen = engine.State(X), list[np.ndarray]()

    @engine.trace
    def step(x: Any) -> Any:
        engine.host_call(seen.append, weight * 2, effect=True)
        return x * weight

    for _ in range(3):
        step(X)
    assert len(seen) == 3


def test_an_effect_sees_what_was_assigned_before_it(device: Any) -> None:
    state, seen = engine.State(X), list[np.ndarray]()

    @engine.trace
    def step() -> None:
        engine.host_call(seen.append, state, effect=True)
        state.assign(state + 1)
        engine.host_call(seen.append, state, effect=True)

    step()
    step()
    for found, shift in zip(seen, [0, 1, 1, 2], strict=True):
        np.testing.assert_array_equal(found, X + shift)
    np.testing.assert_array_equal(state.numpy(), X + 2)


def test_results_may_be_assigned_to_states(device: Any) -> None:
    state = engine.State(X)

    @engine.trace
    def step() -> None:
        state.assign(engine.host_call(doubled, state, results=[ONE]))

    step()
    step()
    np.testing.assert_array_equal(state.numpy(), X * 4)


def test_a_function_defined_in_the_step_is_the_same_when_it_is_traced_again(device: Any) -> None:
    step = engine.trace(lambda x: engine.host_call(lambda x: x + 1, x, results=[ONE]), check_every=1)
    for _ in range(3):
        np.testing.assert_array_equal(step(X).numpy(), X + 1)


def test_eager_effects_run_at_once(device: Any) -> None:
    seen: list[np.ndarray] = []
    assert engine.host_call(seen.append, engine.asarray(X) * 2, effect=True) is None
    np.testing.assert_array_equal(seen, [X * 2])


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_traced", [True, False])
def test_gradients_through_a_host_call_are_refused(device: Any, is_traced: bool) -> None:
    def step(x: Any) -> Any:
        y = engine.host_call(doubled, x, results=[ONE])
        return engine.gradients((y * y).sum(), [x])[0]

    with pytest.raises(TrainerError, match="a host call has no derivative") as caught:
        (engine.trace(step) if is_traced else step)(engine.asarray(X))
    assert "test_host_call.py" in str(caught.value.where) and "doubled, called at" in str(caught.value.found)


def test_gradients_pass_beside_a_host_call(device: Any) -> None:
    @engine.trace
    def step(x: Any) -> Any:
        factor = engine.host_call(doubled, engine.stop_gradient(x), results=[ONE])
        signs = engine.host_call(lambda x: x > 1, x, results=[((3,), engine.bool_)])
        return engine.gradients((engine.where(signs, x, 0.0) * factor).sum(), [x])[0]

    np.testing.assert_array_equal(step(X).numpy(), [0, 4, 6])


# --- errors -----------------------------------------------------------------------------------------------------------

_WRONG = {
    "shape": (lambda x: x[:2], ONE, r"found: +float32\[2\]\n +expected: float32\[3\]"),
    "dtype": (lambda x: x.astype(np.float64), ONE, r"found: +float64\[3\]\n +expected: float32\[3\]"),
    "nothing": (lambda x: None, ONE, r"found: +object\[\]"),
    "ragged": (lambda x: [[1.0], [1.0, 2.0]], ONE, "returned no array"),
    "exception": (lambda x: x + {}[1], ONE, "raised KeyError"),
}


@pytest.mark.parametrize("is_traced", [True, False])
@pytest.mark.parametrize("case", _WRONG)
def test_errors_name_the_line_of_the_call_and_the_next_call_works(device: Any, case: str, is_traced: bool) -> None:
    wrong, kind, message = _WRONG[case]
    fails = np.array([True])

    def function(x: np.ndarray) -> Any:
        return wrong(x) if fails[0] else x

    def step(x: Any) -> Any:
        return engine.host_call(function, x + 1, results=[kind]) * 2

    run = engine.trace(step) if is_traced else step
    for _ in range(2):
        with pytest.raises(TrainerError, match=message) as caught:
            run(engine.asarray(X))
        line = step.__code__.co_firstlineno + 1
        assert str(caught.value.where).endswith(f"test_host_call.py:{line}")
    if case == "exception":
        assert isinstance(caught.value.__cause__, KeyError)
    fails[0] = False
    np.testing.assert_array_equal(run(engine.asarray(X)).numpy(), (X + 1) * 2)


def test_another_number_of_results_is_refused(device: Any) -> None:
    for returned, found in (((X,), "1 results"), (X, "ndarray")):
        with pytest.raises(TrainerError, match=f"found: +{found}\n +expected: a tuple of 2"):
            engine.host_call(lambda x, given=returned: given, X, results=[ONE, ONE])


def test_a_call_that_fails_leaves_states_unchanged(device: Any) -> None:
    """Also the states whose new values do not depend on it, whichever thread computes them."""
    fails, later = np.array([True]), list[int]()
    states = [engine.State(np.ones((300, 400), np.float32), f"state {number}") for number in range(3)]

    def function(x: np.ndarray) -> np.ndarray:
        if fails[0]:
            raise RuntimeError("no")
        return x

    @engine.trace
    def step(x: Any) -> Any:
        for state in states[:2]:
            state.assign(state * 2)
        checked = engine.host_call(function, (states[0] * x).sum(), results=[((), engine.float32)])
        states[2].assign(states[2] * checked)
        engine.host_call(lambda: later.append(1), effect=True)
        engine.host_call(later.append, checked, effect=True)
        return checked

    with pytest.raises(TrainerError, match="raised RuntimeError"):
        step(np.float32(0.5))
    assert all((state.numpy() == 1).all() for state in states)
    fails[0] = False
    assert step(np.float32(0.5)).item() == 120000
    assert [state.numpy()[0, 0] for state in states] == [2, 2, 120000]


def test_an_interrupt_in_a_host_call_is_raised_as_it_is(device: Any) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    @engine.trace
    def step(x: Any) -> Any:
        engine.host_call(interrupted, effect=True)
        return x

    with pytest.raises(KeyboardInterrupt):
        step(X)


def test_a_host_function_can_not_compute_with_tensors(cpu: CpuDevice) -> None:
    def nested(x: np.ndarray) -> np.ndarray:
        return (engine.asarray(x) + 1).numpy()

    with engine.device(cpu):
        step = engine.trace(lambda x: engine.host_call(nested, x, results=[ONE]))
        with pytest.raises(TrainerError, match="a host function can't compute with tensors"):
            step(X)
        np.testing.assert_array_equal((engine.asarray(X) + 1).numpy(), X + 1)


def test_arguments_are_checked() -> None:
    with pytest.raises(TrainerError, match="neither results nor an effect"):
        engine.host_call(doubled, X)
    with pytest.raises(TrainerError, match="takes a function"):
        engine.host_call(3, X, results=[ONE])
    with pytest.raises(TrainerError, match="not an element type"):
        engine.host_call(doubled, X, results=[((3,), "float32")])


def test_programs_with_host_calls_are_not_saved(tmp_path: Any) -> None:
    def step(x: Any) -> Any:
        engine.host_call(print, x, effect=True)
        return x + 1

    for function in (step, lambda x: engine.host_call(doubled, x, results=[ONE])):
        with pytest.raises(TrainerError, match="a host call runs Python code"):
            engine.save_program(tmp_path / "program", function, X)


# --- guards -----------------------------------------------------------------------------------------------------------

SHARED: dict[str, Any] = {}


def test_what_a_host_function_sees_may_change_and_what_the_step_sees_may_not() -> None:
    log: list[float] = []
    factors, own = {"host": 1.0}, {"step": 1.0}

    class Counter:
        count = 0

        def note(self, x: np.ndarray) -> None:
            self.count += 1

    counter = Counter()

    def nested(x: np.ndarray) -> None:
        (lambda: log.append(float(x[0]) * factors["host"]))()
        SHARED["last"] = x

    @engine.trace
    def step(x: Any) -> Any:
        engine.host_call(nested, x, effect=True)
        engine.host_call(lambda x: log.append(-1), x, effect=True)
        engine.host_call(counter.note, x, effect=True)
        return x * own["step"]

    programs = []
    for number in range(4):
        factors["host"] = float(number)
        step(X)
        programs += step.programs
    assert len(set(map(id, programs))) == 1
    assert log == [0, -1, 1, -1, 2, -1, 3, -1] and counter.count == 4
    own["step"] = 2.0
    with pytest.raises(TrainerError, match="changed after the step that uses it was traced"):
        step(X)
