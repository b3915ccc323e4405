"""Schedules equal PyTorch's, as tensors and in NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.learner import ByEpoch, Constant, Cosine, LearningRate, MultiStep, StepDecay, WarmUp
from trainer.learner.schedules import schedule_from

SCHEDULES = {
    "step": StepDecay(4, 0.3),
    "multistep": MultiStep((2, 5, 9), 0.2),
    "cosine": Cosine(10, 0.1),
    # torch's LinearLR(start_factor=1/4, total_iters=3) gives 1/4, 2/4, 3/4, 1: a warm-up of four steps.
    "warmup": WarmUp(Constant(), 4),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_equal_torch(name, torch_reference):
    expected = torch_reference["schedules"][name]
    rate = LearningRate(0.5, SCHEDULES[name])
    np.testing.assert_allclose([rate.at(step) for step in range(len(expected))], expected, rtol=1e-12)


@pytest.mark.parametrize("schedule", [*SCHEDULES.values(), WarmUp(ByEpoch(StepDecay(2, 0.5), 3), 5)])
def test_the_tensor_is_the_same_number(schedule):
    rate = LearningRate(0.5, schedule)
    with engine.device("reference"):
        steps = [engine.asarray(np.asarray(step, np.int64)) for step in range(14)]
        found = [rate(step) for step in steps]
        assert {tensor.dtype for tensor in found} == {engine.float64}
        np.testing.assert_allclose([t.item() for t in found], [rate.at(step) for step in range(14)], rtol=1e-12)


def section(**values):
    defaults = {"by": "step", "warmup_steps": None, "warmup_epochs": None}
    return SimpleNamespace(**{**defaults, **values})


def rates(config, *, steps_per_epoch=4, total_steps=40):
    rate = LearningRate(1.0, schedule_from(config, steps_per_epoch=steps_per_epoch, total_steps=total_steps))
    return [rate.at(step) for step in range(total_steps)]


def test_by_epoch_counts_in_epochs():
    found = rates(section(name="step", by="epoch", step_size=None, milestones=(1, 3), gamma=0.5))
    np.testing.assert_allclose(found[:14], [1] * 4 + [0.5] * 8 + [0.25] * 2)
    found = rates(section(name="step", by="epoch", step_size=2, milestones=None, gamma=0.1))
    np.testing.assert_allclose(found[6:10], [1, 1, 0.1, 0.1])


def test_a_warm_up_in_epochs_leads_to_the_cosine():
    found = rates(section(name="cosine", final_factor=0.0, warmup_epochs=1.0))
    np.testing.assert_allclose(found[:5], [0.25, 0.5, 0.75, 1.0, 1.0])
    assert found[22] == pytest.approx(0.5) and found[39] < 0.01
    by_epoch = rates(section(name="cosine", final_factor=0.0, by="epoch"))
    assert by_epoch[0] == by_epoch[3] == 1.0 > by_epoch[4] == by_epoch[7]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(TrainerError, match="increase"):
        MultiStep((5, 2))
    with pytest.raises(TrainerError, match="positive"):
        StepDecay(0)
    with pytest.raises(TrainerError, match="unknown schedule"):
        rates(section(name="exponential"))
