"""Custom operations: fused functions with gradients of their own, and kernels in LLVM IR."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine.targets.cpu.device import CpuDevice

SQUARE = """
define void @kernel(ptr %x, ptr %y, i64 %task) {
entry:
  %first = mul i64 %task, SHARE
  %last = add i64 %first, SHARE
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %px
  %square = fmul float %v, %v
  %py = getelementptr float, ptr %y, i64 %i
  store float %square, ptr %py
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
TASKS = 4


def texts(x):
    """The same twice: one element at a time, and counting down."""
    return SQUARE.replace("SHARE", str(x.size // TASKS))


square = engine.custom(
    llvm=texts, tasks=TASKS, gradient=lambda dy, y, x: dy * 2 * x, reference=lambda x: x * x, name="square"
)
X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def test_a_function_with_a_gradient_fuses(on_cpu, unpoisoned):
    clipped = engine.custom(lambda x: engine.round(x * 4) / 4, gradient=lambda dy, y, x: dy)

    @engine.trace
    def step(x):
        y = engine.sum(clipped(x + 1) * x)
        return y, engine.gradients(y, [x])[0]

    value, gradient = step(X)
    rounded = np.round((X + 1) * 4) / 4
    np.testing.assert_allclose(value.numpy(), (rounded * X).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient.numpy(), rounded + X, rtol=1e-6)
    assert "custom" not in engine.explain(step) and engine.explain(step, level=1).startswith(
        "program: traced, 2 launches"
    )


def test_a_function_without_a_gradient_is_what_it_is_composed_of():
    @engine.custom
    def cube(x):
        """The third power."""
        return x * x * x

    x = engine.asarray(X)
    (gradient,) = engine.gradients(engine.sum(cube(x)), [x])
    np.testing.assert_allclose(gradient.numpy(), 3 * X * X, rtol=1e-6)
    assert cube.__doc__ == "The third power."


def test_a_gradient_can_be_differentiated_again():
    sine = engine.custom(lambda x: engine.sin(x), gradient=lambda dy, y, x: dy * engine.cos(x))
    with engine.device("reference"):
        engine.check_gradient(sine, X, order=2)
        engine.check_gradient(lambda x: square(x), X.astype(np.float64), order=2)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_kernel_computes_among_other_operations(device):
    with engine.device(device):
        x = engine.asarray(X)
        y = square(engine.permute_dims(x + 1, (1, 0)))  # an operand that lies otherwise
        loss = engine.sum(y * 2)
        (gradient,) = engine.gradients(loss, [x])
        np.testing.assert_array_equal(y.numpy(), ((X + 1) * (X + 1)).T)
        np.testing.assert_allclose(gradient.numpy(), 4 * (X + 1), rtol=1e-6)


def test_a_traced_kernel_is_one_launch(on_cpu, unpoisoned):
    step = engine.trace(lambda x: square(x))
    np.testing.assert_array_equal(step(X).numpy(), X * X)
    assert "custom square" in engine.explain(step)


def test_a_kernel_takes_inputs_of_any_number_and_dtype(on_cpu):
    three = """define void @kernel(ptr %a, ptr %b, ptr %c, ptr %y, i64 %task) {
  %x = load double, ptr %a
  %z = load i64, ptr %b
  %w = load float, ptr %c
  %zd = sitofp i64 %z to double
  %wd = fpext float %w to double
  %s = fadd double %x, %zd
  %t = fmul double %s, %wd
  store double %t, ptr %y
  ret void
}"""
    result = lambda *inputs: ((), engine.float64)  # noqa: E731
    a, b, c = engine.asarray(np.float64(1.5)), engine.asarray(np.int64(2)), engine.asarray(np.float32(3))
    assert engine.custom(llvm=three, result=result)(a, b, c).item() == 10.5
    with pytest.raises(TrainerError, match="at least one tensor"):
        engine.custom(llvm=three, result=result)()


def test_the_source_is_a_part_of_the_key(on_cpu):
    x = engine.asarray(X)
    other = engine.custom(llvm=lambda x: texts(x).replace("fmul float %v, %v", "fadd float %v, %v"), tasks=TASKS)
    np.testing.assert_array_equal(square(x).numpy(), X * X)
    np.testing.assert_array_equal(other(x).numpy(), X + X)


def test_a_kernel_without_a_gradient_says_so():
    kernel = engine.custom(llvm=texts, tasks=TASKS, name="halves")
    x = engine.asarray(X)
    with pytest.raises(TrainerError, match="halves has no derivative"):
        engine.gradients(engine.sum(kernel(x)), [x])


def test_text_that_llvm_refuses_is_refused_at_the_call():
    x = engine.asarray(X)
    with pytest.raises(TrainerError, match="LLVM refuses") as caught:
        engine.custom(llvm="define void @kernel(ptr %x) { nonsense }")(x)
    assert "test_custom.py" in str(caught.value)
    with pytest.raises(TrainerError, match="functions: f"):
        engine.custom(llvm="define void @f() { ret void }")(x)
    with pytest.raises(TrainerError, match="inputs ask for"):
        engine.custom(llvm="define void @kernel(ptr %y, i64 %t) { ret void }")(x)


@pytest.mark.parametrize(
    "given",
    [{"result": lambda x: ((), x.dtype)}, {"tasks": 2}, {"reference": np.sin}],
    ids=["result", "tasks", "reference"],
)
def test_the_description_of_a_kernel_without_its_text_is_refused(given):
    for function in ([], [engine.sin]):
        with pytest.raises(TrainerError, match="describe a kernel"):
            engine.custom(*function, **given)


def test_a_gradient_that_does_not_fit_is_refused():
    wrong = engine.custom(lambda x: x * 2, gradient=lambda dy, y, x: engine.sum(dy))
    x = engine.asarray(X)
    with pytest.raises(TrainerError, match="gradient of input 0 doesn't fit"):
        engine.gradients(engine.sum(wrong(x)), [x])
    many = engine.custom(lambda x: x * 2, gradient=lambda dy, y, x: (dy, dy))
    with pytest.raises(TrainerError, match="another number of results"):
        engine.gradients(engine.sum(many(x)), [x])


def test_programs_are_saved_with_functions_and_without_kernels(tmp_path):
    rounded = engine.custom(lambda x: engine.round(x), gradient=lambda dy, y, x: dy)
    engine.save_program(tmp_path / "rounded.program", lambda x: rounded(x), X)
    found = engine.load_program(tmp_path / "rounded.program")(X)
    np.testing.assert_array_equal(found["output"].numpy(), np.round(X))
    with pytest.raises(TrainerError, match="square is a custom kernel in LLVM IR"):
        engine.save_program(tmp_path / "square.program", lambda x: square(x), X)


def test_the_reference_device_asks_for_a_reference():
    with engine.device("reference"), pytest.raises(TrainerError, match="runs on the cpu device"):
        engine.custom(llvm=texts, tasks=TASKS)(engine.asarray(X)).numpy()


@pytest.mark.full
def test_the_tuner_tries_all_texts_of_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    slow = SQUARE.replace("%square = fmul float %v, %v", "\n".join(
        ["%a0 = fadd float %v, 0.0"]
        + [f"  %a{n} = call float @llvm.canonicalize.f32(float %a{n - 1})" for n in range(1, 40)]
        + ["  %square = fmul float %a39, %a39"]
    )) + "declare float @llvm.canonicalize.f32(float)\n"  # fmt: skip
    x = np.random.default_rng(1).standard_normal((TASKS, 1 << 16)).astype(np.float32)
    share = str(x.size // TASKS)
    both = engine.custom(llvm=lambda x: [slow.replace("SHARE", share), texts(x)], tasks=TASKS, name="both")
    records = []
    with engine.device(CpuDevice(threads=1)):
        step = engine.trace(lambda x: both(x))
        with engine.tuning("upfront", on_record=records.append):
            found = step(x)
        np.testing.assert_array_equal(found.numpy(), x * x)
    assert [record for record in records if "both" in str(record)]
