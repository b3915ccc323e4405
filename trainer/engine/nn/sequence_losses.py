"""Losses for sequences whose alignment is unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.graph.dtypes import int64
from trainer.engine.nn.losses import reduced
from trainer.engine.nn.statistics import wide
from trainer.engine.tensor import Tensor, as_tensor

_IMPOSSIBLE = -1e30
"""Represents log(0); finite, so that the difference of two is a number."""


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int], target_lengths: Tensor | Sequence[int],
    *, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False, sample_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Connectionist temporal classification (Graves et al. 2006): −log of the total probability of all alignments.

    An alignment names a class or `blank` for each step; repeated classes count once unless a blank is between them.
    The recursion is unrolled over the steps, so a program grows with T.

    Args:
        log_probs: [T, N, C], log-probabilities, such as the result of `log_softmax`.
        targets: [N, S], integers in [0, C) other than `blank`; elements after a target's length are ignored.
        input_lengths, target_lengths: [N], integers: each sample's steps, at most T, and classes, at most S.
        reduction: "mean" divides each loss by its target's length (at least 1) and takes the mean, as torch does; sum;
            none: [N].
        zero_infinity: a target without a possible alignment has loss 0 instead of infinity.

    Raises:
        TrainerError: shapes or dtypes are incompatible.
    """
    steps, taken = as_tensor(input_lengths, operation="ctc_loss"), as_tensor(target_lengths, operation="ctc_loss")
    batch = log_probs.shape[1:2]
    if (
        log_probs.ndim != 3 or not log_probs.shape[0] or targets.ndim != 2 or targets.shape[:1] != batch
        or not targets.dtype.is_integer or steps.shape != batch or taken.shape != batch
        or not 0 <= blank < log_probs.shape[2]
    ):  # fmt: skip
        found = f"log_probs {log_probs.shape}, targets {targets.shape} {targets.dtype}, input_lengths {steps.shape}, "
        raise TrainerError(
            "ctc_loss: targets don't match the probabilities",
            found=f"{found}target_lengths {taken.shape}, blank {blank}",
            expected="log_probs [T, N, C], integer targets [N, S], lengths [N], and blank in [0, C)",
            hint="Pad targets that follow each other to [N, S].",
        )
    x, steps, taken = wide(log_probs), steps.astype(int64), taken.astype(int64)
    count, longest = targets.shape[0], targets.shape[1]
    states = 2 * longest + 1  # a blank before each class, and after the last one
    blanks = functions.full((count, longest + 1), blank, dtype=targets.dtype)
    pairs = functions.stack([blanks[:, :longest], targets], axis=2)
    classes = functions.concat([functions.reshape(pairs, (count, states - 1)), blanks[:, longest:]], axis=1)
    repeats = functions.concat([functions.ones((count, min(2, states)), dtype=functions.asarray(True).dtype),
                                classes[:, 2:] == classes[:, :-2]], axis=1)  # fmt: skip
    skips = (classes != blank) & ~repeats
    everywhere = functions.broadcast_to(classes, (x.shape[0], count, states))
    chances = functions.maximum(functions.take_along_axis(x, everywhere, axis=2), _IMPOSSIBLE)
    front = [(0, 0), (2, 0)]
    begin = functions.where(functions.arange(states) < 2, chances[0], _IMPOSSIBLE)
    alpha = functions.pad(begin, front, value=_IMPOSSIBLE)
    for step in range(1, x.shape[0]):
        stays, moves = alpha[:, 2:], alpha[:, 1:-1]
        jumps = functions.where(skips, alpha[:, :-2], _IMPOSSIBLE)
        top = functions.stop_gradient(functions.maximum(functions.maximum(stays, moves), jumps))
        total = functions.exp(stays - top) + functions.exp(moves - top) + functions.exp(jumps - top)
        after = top + functions.log(total) + chances[step]
        is_running = functions.expand_dims(steps > step, axis=1)
        alpha = functions.pad(functions.where(is_running, after, stays), front, value=_IMPOSSIBLE)
    place = functions.arange(states)
    last = functions.expand_dims(2 * taken, axis=1)
    ends = functions.where((place == last) | (place == last - 1), alpha[:, 2:], _IMPOSSIBLE)
    top = functions.stop_gradient(functions.max(ends, axis=1))
    total = functions.sum(functions.exp(ends - functions.expand_dims(top, axis=1)), axis=1)
    loss = -(top + functions.log(total))
    loss = functions.where(loss > -0.1 * _IMPOSSIBLE, 0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        loss = loss / functions.maximum(taken, 1).astype(loss.dtype)
    return reduced(loss, None, reduction, sample_weight)
