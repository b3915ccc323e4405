"""Beam search: several likely continuations at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer import TrainerError, engine
from trainer.learner.generation.sampling import Step, read_prompt, refuse_infinite

Reorder = Callable[[Any, np.ndarray], Any]
"""(state of B rows, indices int32 [B]) to the state with these rows."""


@dataclass(frozen=True)
class Beam:
    """A continuation.

    Attributes:
        tokens: its tokens, without the end.
        log_probability: the sum of log p of its tokens, and of the end if it has one, in nats.
        is_complete: whether it ended with the end token.
    """

    tokens: tuple[int, ...]
    log_probability: float
    is_complete: bool = False

    def score(self, length_penalty: float) -> float:
        """log p divided by the number of tokens to the power of `length_penalty`."""
        return self.log_probability / max(1, len(self.tokens) + self.is_complete) ** length_penalty


def take_rows(state: Any, rows: np.ndarray) -> Any:
    """The rows of a state: arrays with the batch as their first axis, in any nesting of mappings, lists and tuples."""
    if isinstance(state, Mapping):
        return {name: take_rows(part, rows) for name, part in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(take_rows(part, rows) for part in state)
    return engine.take(engine.asarray(state), engine.asarray(rows.astype(np.int32)), axis=0)


def beam_search(
    step: Step,
    state: Any,
    prompt: Sequence[int],
    count: int,
    *,
    width: int,
    end: int | None = None,
    exclude: Sequence[int] = (),
    length_penalty: float = 0.0,
    piece: int = 1,
    reorder: Reorder = take_rows,
) -> list[Beam]:
    """The continuations with the highest scores that the search finds, at most `width`, the best first.

    Every step keeps the `width` likeliest continuations by one token. The search ends after `count` tokens, or, without
    a length penalty, when `width` continuations are complete and no other one is likelier. A wide beam finds likelier
    texts, not better ones.

    Args:
        step: the model's step, for `width` rows.
        state: the state of `width` rows before the prompt.
        prompt: the tokens of the prompt, at least one.
        count: maximum number of tokens.
        width: number of rows.
        end: the token that completes a continuation; None: no token does.
        exclude: tokens that are never chosen.
        length_penalty: exponent of the number of tokens by which log p is divided; 0: none, 1: the mean per token.
        piece: number of tokens of the prompt that `step` takes at once, as in `read_prompt`.
        reorder: selects rows of a state.

    Raises:
        TrainerError: the prompt is empty, `width` is below 1, or a logit is NaN or infinite.
    """
    if width < 1:
        raise TrainerError("beam search needs rows", found=f"width {width}", expected="at least 1")
    state, logits = read_prompt(step, state, prompt, rows=width, piece=piece)
    beams, complete = [Beam((), 0.0)], list[Beam]()
    for number in range(count):
        gains = _log_probabilities(np.asarray(logits)[: len(beams)], exclude)
        totals = (np.array([beam.log_probability for beam in beams])[:, None] + gains).reshape(-1)
        best = [int(place) for place in np.argsort(-totals, kind="stable")[: 2 * width] if np.isfinite(totals[place])]
        kept: list[tuple[int, Beam]] = []
        for place in best:
            row, token = divmod(place, gains.shape[1])
            if token == end:
                complete.append(Beam(beams[row].tokens, float(totals[place]), is_complete=True))
            elif len(kept) < width:
                kept.append((row, Beam((*beams[row].tokens, token), float(totals[place]))))
        complete = sorted(complete, key=lambda beam: -beam.score(length_penalty))[:width]
        beams = [beam for _, beam in kept]
        is_over = len(complete) == width and length_penalty == 0 and (
            not beams or beams[0].log_probability <= complete[-1].log_probability)  # fmt: skip
        if is_over or not beams:
            break
        if number + 1 < count:
            rows = np.array([row for row, _ in kept] + [0] * (width - len(kept)))
            tokens = np.array([beam.tokens[-1] for beam in beams] + [0] * (width - len(kept)), np.int32)
            state, logits = step(reorder(state, rows), tokens)
    return sorted([*complete, *beams], key=lambda beam: -beam.score(length_penalty))[:width]


def _log_probabilities(logits: np.ndarray, exclude: Sequence[int]) -> np.ndarray:
    """log softmax of [B, V] in float64, -inf for excluded tokens."""
    values = np.array(logits, np.float64)
    values[:, list(exclude)] = -np.inf
    refuse_infinite(values)
    values -= values.max(axis=1, keepdims=True)
    result: np.ndarray = values - np.log(np.exp(values).sum(axis=1, keepdims=True))
    return result
