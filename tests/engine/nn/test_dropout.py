"""Dropout: the right share, a mask per step, module and call, and the same again from the same state."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


class Two(nn.Module):
    def __init__(self) -> None:
        self.first, self.second = nn.Dropout(0.25), nn.Dropout(0.25)

    def forward(self, x):
        return self.first(x), self.first(x), self.second(x)


def masks(random: nn.RandomState, net: nn.Module, *, advance: bool = True) -> list[np.ndarray]:
    with random.step():
        results = [y.numpy() for y in net(engine.ones((100, 100)))]
        if advance:
            random.advance()
    return results


def test_share_and_scale():
    kept = masks(nn.RandomState(0), Two())[0]
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (kept == 0).mean() == pytest.approx(0.25, abs=0.02)


def test_every_call_module_step_and_seed_draws_its_own():
    random, net = nn.RandomState(0), Two()
    drawn = [*masks(random, net), *masks(random, net), *masks(nn.RandomState(1), net)]
    assert len({mask.tobytes() for mask in drawn}) == len(drawn)
    assert random.counter.numpy().tolist() == [2, 0]


def test_the_same_state_draws_the_same():
    random, net = nn.RandomState(5), Two()
    first = masks(random, net, advance=False)
    for one, again in zip(first, masks(random, net), strict=True):
        np.testing.assert_array_equal(one, again)
    resumed = nn.RandomState(5)
    resumed.counter.set_value(random.counter.numpy())
    for one, again in zip(masks(random, net), masks(resumed, net), strict=True):
        np.testing.assert_array_equal(one, again)


def test_gradient_passes_the_same_mask():
    layer, x = nn.Dropout(0.5), engine.asarray(np.ones((50, 50)))
    with nn.RandomState(0).step():
        y = layer(x)
    (gradient,) = engine.gradients(engine.sum(y), [x])
    np.testing.assert_array_equal(gradient.numpy(), y.numpy())


def test_whole_channels():
    layer = nn.Dropout2d(0.5)
    with nn.RandomState(0).step():
        y = layer(engine.ones((8, 16, 3, 3))).numpy()
    per_channel = y.reshape(128, 9)
    assert (per_channel == per_channel[:, :1]).all() and 0 < (per_channel == 0).mean() < 1


def test_inference_needs_no_random_numbers():
    x = engine.ones((4,))
    assert nn.Dropout(0.5).eval()(x) is x


def test_training_outside_of_a_step_is_an_error():
    with pytest.raises(TrainerError, match="random numbers outside of a step"):
        nn.Dropout(0.5)(engine.ones((4,)))
    for p in (-0.1, 1.0, 1.5, float("nan")):
        with pytest.raises(TrainerError, match="probability"):
            nn.Dropout(p)


def test_numbers_that_a_step_draws_by_name_are_of_their_distribution_and_new_each_time():
    random = nn.RandomState(0)
    with random.step() as now:
        drawn = [now.uniform("area", (10_000,)).numpy(), now.normal("noise", (10_000,)).numpy()]
        again = now.uniform("area", (10_000,)).numpy()
    assert drawn[0].min() >= 0 and drawn[0].max() < 1 and drawn[0].mean() == pytest.approx(0.5, abs=0.01)
    assert drawn[1].mean() == pytest.approx(0, abs=0.03) and drawn[1].std() == pytest.approx(1, abs=0.03)
    assert not np.array_equal(drawn[0], again)
    with random.step() as now:
        np.testing.assert_array_equal(now.uniform("area", (10_000,)).numpy(), drawn[0])
