"""Random numbers repeat exactly, differ between keys and counters, and have the distributions they are named for."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import engine
from trainer.engine import bfloat16, float32, float64, random
from trainer.engine.graph.dtypes import DType

KEY, COUNTER = (1234, -5), (7, 0)


def test_bits_begin_with_the_published_vector() -> None:
    found = [int(random.bits((0, 0), (0, 0), (1,), word=word).numpy().view(np.uint32)[0]) for word in range(4)]
    assert found == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_a_draw_depends_on_key_counter_and_place_alone() -> None:
    whole = random.bits(KEY, COUNTER, (6, 4)).numpy()
    np.testing.assert_array_equal(whole.ravel()[:5], random.bits(KEY, COUNTER, (5,)).numpy())
    for key, counter in (((1235, -5), COUNTER), ((1234, -4), COUNTER), (KEY, (8, 0)), (KEY, (7, 1))):
        assert (random.bits(key, counter, (6, 4)).numpy() != whole).mean() > 0.9


def test_the_counter_may_be_a_state() -> None:
    counter = engine.State(np.array(COUNTER, np.int32))
    np.testing.assert_array_equal(
        random.uniform(KEY, counter, (3,)).numpy(), random.uniform(KEY, COUNTER, (3,)).numpy()
    )


@pytest.mark.parametrize(("dtype", "step"), [(float32, 2.0**-24), (float64, 2.0**-53), (bfloat16, 2.0**-8)])
def test_uniform(dtype: DType, step: float) -> None:
    drawn = random.uniform(KEY, COUNTER, (20000,), dtype=dtype)
    assert drawn.dtype is dtype
    values = drawn.numpy().astype(np.float64)
    assert values.min() >= 0 and values.max() < 1
    assert (values / step == np.round(values / step)).all()
    assert abs(values.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 20000) + step
    assert abs(values.var() - 1 / 12) < 0.002


@pytest.mark.parametrize("dtype", [float32, float64])
def test_normal(dtype: DType) -> None:
    values = random.normal(KEY, COUNTER, (20000,), dtype=dtype).numpy().astype(np.float64)
    assert np.isfinite(values).all()
    assert abs(values.mean()) < 5 / np.sqrt(20000)
    assert abs(values.var() - 1) < 0.05
    inside = [(np.abs(values) < bound).mean() for bound in (1, 2, 3)]
    np.testing.assert_allclose(inside, [0.6827, 0.9545, 0.9973], atol=0.012)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_bernoulli(probability: float) -> None:
    drawn = random.bernoulli(KEY, COUNTER, probability, (20000,)).numpy()
    assert abs(drawn.mean() - probability) <= 5 * np.sqrt(probability * (1 - probability) / 20000)


def test_keys_from_names_are_stable_and_differ() -> None:
    assert random.key_for(0, "encoder.dropout", 1).dtype == np.int32
    assert len({tuple(random.key_for(seed, path, draw)) for seed in (0, 1) for path in "ab" for draw in (0, 1)}) == 8
