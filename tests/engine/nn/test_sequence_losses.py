"""CTC against the sum over all alignments, one by one; what can't be aligned; derivatives."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


def collapsed(path, blank):
    return tuple(key for key, _ in itertools.groupby(path) if key != blank)


def chance(probabilities, target, blank):
    """The sum over paths of the product of their probabilities."""
    steps, classes = probabilities.shape
    return sum(
        math.prod(probabilities[step, each] for step, each in enumerate(path))
        for path in itertools.product(range(classes), repeat=steps)
        if collapsed(path, blank) == tuple(target)
    )


LENGTHS, TARGETS = [4, 5, 3, 4], [[1, 1], [2, 0], [0], []]


def given(seed):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(5, 4, 4))
    padded = np.array([[*target, *[2] * (2 - len(target))] for target in TARGETS])
    return logits, padded


def test_ctc_loss_is_the_chance_of_all_alignments():
    logits, padded = given(0)
    log_probs = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    lengths = [len(target) for target in TARGETS]
    found = nn.ctc_loss(engine.asarray(log_probs), engine.asarray(padded), LENGTHS, lengths, blank=3, reduction="none")
    expected = [
        -math.log(chance(np.exp(log_probs[:steps, number]), target, 3))
        for number, (steps, target) in enumerate(zip(LENGTHS, TARGETS, strict=True))
    ]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


@pytest.mark.full
def test_derivatives_of_ctc_loss_are_those_of_differences():
    logits, padded = given(1)
    lengths = [len(target) for target in TARGETS]

    def loss(x):
        x = nn.functional.log_softmax(x)
        return nn.ctc_loss(x, engine.asarray(padded), LENGTHS, lengths, blank=3, reduction="sum")

    engine.check_gradient(loss, logits, order=2)


def test_what_no_alignment_fits_is_infinite_or_counts_for_nothing():
    log_probs = engine.asarray(np.log(np.full((2, 2, 3), 1 / 3)))
    targets, rest = engine.asarray([[1, 1], [1, 2]]), ([2, 2], [2, 2])
    found = nn.ctc_loss(log_probs, targets, *rest, reduction="none").numpy()
    assert found[0] == math.inf and found[1] == pytest.approx(math.log(9))
    without = nn.ctc_loss(log_probs, targets, *rest, reduction="none", zero_infinity=True)
    assert without.numpy()[0] == 0
    (gradient,) = engine.gradients(engine.sum(without), [log_probs])
    assert np.isfinite(gradient.numpy()).all() and not gradient.numpy()[:, 0].any()


def test_ctc_targets_are_rows():
    with pytest.raises(TrainerError, match="Pad targets"):
        nn.ctc_loss(engine.zeros((2, 2, 3)), engine.asarray([1, 2]), [2, 2], [1, 1])
