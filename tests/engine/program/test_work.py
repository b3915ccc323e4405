"""Items of work alone say what a program computes: interpreted, they give the values of the reference device."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.engine.golden import operations, random_programs
from tests.engine.golden.programs import PROGRAMS
from tests.engine.program.interpreter import Interpreter
from tests.engine.program.test_prologues import PLAIN, step
from tests.engine.program.works import buffer, work
from tests.tiers import tiered
from trainer.engine.graph.dtypes import uint8
from trainer.engine.graph.storage import Storage
from trainer.engine.program.work import place_of
from trainer.engine.targets.reference import ReferenceDevice

QUICK = (
    "digits", "small ResNet training", "small ResNet training, pairs", "small ResNet training, float64",
    "small ResNet inference", "small pix2pix training", "perceptron, Adam", "perceptron, SGD", "attention",
    "depthwise", "grouped", "few outputs", "decoder", "8-bit products",
    *(program.name for program in (*operations.PROGRAMS, *random_programs.PROGRAMS)),
)  # fmt: skip


@functools.lru_cache(maxsize=2)
def expected(name: str) -> list[np.ndarray]:
    return list(PROGRAMS[name].run(ReferenceDevice()))


@pytest.mark.parametrize("has_prologues", tiered((False, True), (True,)), ids=["stored inputs", "prologues"])
@pytest.mark.parametrize("name", tiered(PROGRAMS, QUICK))
def test_interpreted_items_give_the_results_and_states_of_the_reference_device(name: str, has_prologues: bool) -> None:
    """The reference sums in float64, so the order of a sum shows in float64 alone."""
    found = list(PROGRAMS[name].run(Interpreter(has_prologues)))
    for ours, theirs in zip(found, expected(name), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype == np.float64:
            scale = np.max(np.abs(theirs), initial=0.0)
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * scale)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("has_prologues", [False, True])
def test_convolutions_compute_their_input_where_the_target_takes_prologues(has_prologues: bool) -> None:
    _, results = step(PLAIN)
    works = Interpreter(has_prologues).compile(results).program.works
    assert [each.label for each in works if each.prologue.body] == (
        ["convolution", "convolution_weight_gradient"] if has_prologues else []
    )


def test_an_item_lists_each_buffer_once() -> None:
    first, second = buffer(4), buffer(4)
    item = work([first, second, first], [second, second])
    assert (item.sources, item.targets) == ((first, second), (second,))


def test_buffers_of_one_state_or_one_result_are_one_place() -> None:
    state = Storage((4,), uint8)
    assert place_of(buffer(4, storage=state)) == place_of(buffer(4, storage=state))
    assert place_of(buffer(4, result=0)) == place_of(buffer(4, result=0)) != place_of(buffer(4, result=1))
    assert place_of(buffer(4)) != place_of(buffer(4))
