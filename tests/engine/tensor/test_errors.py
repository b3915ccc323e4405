"""Every mistake is one clear error: operation, found, expected, and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import float32, int32

F = engine.ones((2, 3))
I = engine.ones((2, 3), dtype=int32)  # noqa: E741
B = engine.ones((2, 3), dtype=engine.bool)
IMAGE = engine.ones((1, 4, 5, 5))


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (IndexError, lambda: engine.expand_dims(F, axis=4)),
        (TypeError, lambda: engine.result_type(F, I)),
        (TypeError, lambda: I + 0.5),
        (TypeError, lambda: engine.exp(I)),
        (ValueError, lambda: engine.reshape(F, (4,))),
    ],
)
def test_errors_are_of_the_kinds_that_libraries_expect(kind: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, TrainerError)


@pytest.mark.parametrize(
    ("call", "message", "found"),
    [
        (lambda: F + engine.ones((2, 4)), "add: shapes don't broadcast", "[2, 3] and [2, 4]"),
        (lambda: engine.where(F, F, F), "where: the condition must be bool", "float32"),
        (lambda: I / I, "divide: does not take int32", "int32[2, 3] and int32[2, 3]"),
        (lambda: B + B, "add: does not take bool", "bool[2, 3] and bool[2, 3]"),
        (lambda: engine.exp(I), "exp: does not take int32", "int32[2, 3]"),
        (lambda: F & F, "bitwise_and: does not take float32", "float32[2, 3] and float32[2, 3]"),
        (lambda: engine.logical_not(F), "logical_not: does not take float32", "float32[2, 3]"),
        (lambda: engine.sum(F, axis=2), "sum: no such axis", "axis 2 of 2"),
        (lambda: engine.max(F, axis=-3), "max: no such axis", "axis -3 of 2"),
        (lambda: engine.sum(F, axis=(0, -2)), "sum: an axis is repeated", "axes [0, -2] of 2"),
        (lambda: engine.sum(F, axis=0.5), "sum: an axis must be an integer", "0.5"),
        (lambda: engine.mean(I), "mean: of integers", "int32[2, 3]"),
        (lambda: engine.max(engine.zeros((0, 3)), axis=0), "max: of no elements", "float32[0, 3]"),
        (lambda: engine.argmax(engine.zeros((0,))), "argmax: of no elements", "float32[0]"),
        (lambda: engine.reshape(F, (4, -1)), "reshape: sizes differ", "float32[2, 3] to [4, -1]"),
        (lambda: engine.permute_dims(F, (0, 0)), "permute_dims: not a permutation", "[0, 0] of float32[2, 3]"),
        (lambda: engine.squeeze(F, axis=0), "squeeze: an axis is not 1", "float32[2, 3], axis 0"),
        (lambda: engine.broadcast_to(F, (2, 4)), "broadcast_to: shapes don't broadcast", "[2, 3] and [2, 4]"),
        (
            lambda: engine.concat([F, IMAGE]),
            "concat: shapes don't fit together",
            "float32[2, 3] and float32[1, 4, 5, 5]",
        ),
        (lambda: engine.concat([]), "concat: of nothing", None),
        (lambda: engine.stack([F, F[:1]]), "stack: shapes differ", "float32[2, 3] and float32[1, 3]"),
        (lambda: F[2], "index: out of range", "2 at axis 0 of float32[2, 3]"),
        (lambda: F[0, 0, 0], "index: too many indices", "3 indices for float32[2, 3]"),
        (lambda: F[[0.5]], "index: indices are integers", "float64[1]"),
        (lambda: F["a"], "index: not an index", "'a'"),
        (lambda: F @ F, "matmul: shapes don't fit", "float32[2, 3] and float32[2, 3]"),
        (lambda: F @ I.T, "matmul: dtypes of different kinds don't mix", "float32 and int32"),
        (lambda: engine.take(F, F, axis=0), "take: indices are integers", "float32[2, 3]"),
        (lambda: engine.take(F, [0]), "take: the axis is missing", "2 axes and axis=None"),
        (lambda: engine.zeros((-1,)), "shape: an extent is negative", "[-1]"),
        (lambda: engine.full((2,), 0.5, dtype=int32), "full: a Python float can't be combined with int32", "0.5"),
        (
            lambda: engine.asarray(np.array(["1", "2"])),
            "asarray: unsupported element type",
            "<U1 of shape (2,)",
        ),
        (lambda: engine.asarray(["a"]), "asarray: unsupported element type", "<U1 of shape (1,)"),
        (lambda: engine.convolution(IMAGE, engine.ones((8, 3, 3, 3))), "convolution: shapes don't fit", None),
        (lambda: engine.convolution(F, F), "convolution: wrong rank", "float32[2, 3] and float32[2, 3]"),
        (
            lambda: engine.convolution(IMAGE, engine.ones((8, 4, 7, 7))),
            "convolution: the window is larger than the padded input",
            None,
        ),
        (lambda: engine.max_pool(F, 2), "max_pool: wrong rank", "float32[2, 3]"),
        (lambda: engine.max_pool(IMAGE, 2, padding=2), "max_pool: padding is more than half the window", None),
        (
            lambda: engine.average_pool(IMAGE, 7, stride=1),
            "average_pool: the window is larger than the padded input",
            None,
        ),
        (
            lambda: engine.random.uniform((1, 2, 3), (0, 0), (2,)),
            "random: key and counter must be two words",
            "int32[3]",
        ),
        (lambda: engine.random.bernoulli((1, 2), (0, 0), 1.5, (2,)), "random.bernoulli: not a probability", "1.5"),
        (lambda: engine.arange(0, 5, 0), "arange: the step must not be 0", "from 0 to 5 by 0"),
        (lambda: engine.reshape(F, (2.0, 3)), "reshape: a shape is integers", "(2.0, 3)"),
        (lambda: engine.pad(F, 1), "pad: a pair for each axis", "1 for float32[2, 3]"),
        (lambda: engine.pad(F, (1, 1)), "pad: a pair for each axis", "(1, 1) for float32[2, 3]"),
        (lambda: engine.concat(3), "concat: takes several arrays", "int"),
        (lambda: engine.repeat(F, -2), "repeat: `repeats` is an integer", "-2"),
        (lambda: engine.one_hot(I, -1), "one_hot: the number of classes is an integer", "-1"),
        (lambda: engine.linspace(0, 1, -2), "linspace: `num` is an integer", "-2"),
        (lambda: F[::0], "index: not a slice of integers", "slice(None, None, 0)"),
        (lambda: F[0:"a"], "index: not a slice of integers", "slice(0, 'a', None)"),
        (lambda: engine.asarray([[1], [1, 2]]), "asarray: the lists are ragged", None),
        (lambda: engine.asarray([1.0], dtype="x"), "asarray: not an element type", "'x'"),
        (lambda: engine.zeros((2,), dtype=np.float32), "constant: not an element type", "<class 'numpy.float32'>"),
        (lambda: engine.arange(3, dtype="f4"), "arange: not an element type", "'f4'"),
        (lambda: F.astype("float32"), "astype: not an element type", "'float32'"),
        (lambda: engine.sum(F, dtype="x"), "astype: not an element type", "'x'"),
        (
            lambda: engine.convolution(IMAGE, engine.ones((8, 4, 3, 3)), stride=1.5),
            "convolution: stride is one number, or one for each spatial axis",
            "1.5",
        ),
        (lambda: engine.average_pool(IMAGE, 0), "average_pool: window and stride are positive", None),
        (lambda: engine.device("gpu").__enter__(), "device: unknown device", "'gpu'"),
    ],
)
def test_a_mistake_is_one_clear_error(call: Callable[[], Any], message: str, found: str | None) -> None:
    with pytest.raises(TrainerError) as caught:
        call()
    error = caught.value
    assert error.message == message
    if found is not None:
        assert str(error.found) == found
    lines = [line for _, _, line in call.__code__.co_lines() if line is not None]
    file, _, number = str(error.where).rpartition(":")
    assert file.endswith("test_errors.py") and int(number) in lines


def test_the_line_is_the_users_and_not_ours() -> None:
    with pytest.raises(TrainerError) as caught:
        engine.mean(
            engine.ones((2,), dtype=int32),
        )
    frame_line = caught.traceback[0].lineno + 1
    assert caught.value.where is not None and caught.value.where.endswith(f"test_errors.py:{frame_line}")


def test_dtypes_that_do_fit_raise_nothing() -> None:
    assert (F * 2).dtype is float32
