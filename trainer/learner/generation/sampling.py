"""Generates token by token: greedy, or at random with a temperature, top-k and top-p."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine.random import philox4x32

Step = Callable[[Any, np.ndarray], tuple[Any, Any]]
"""(state, tokens int32 [B]) to (next state, logits [B, V] of the token that follows), as arrays or tensors; for
prompts, the tokens may also be int32 [B, T].
"""

PIECE = 64
"""Number of tokens of a prompt that are computed at once, if the model can: a program for each length of a prompt would
take longer to compile than it saves.
"""

_BLOCK = 256


@dataclass(frozen=True)
class Sampling:
    """Settings for choosing the next token from its logits.

    The random number of a token depends only on `seed` and on its position, so the same prompt gives the same text.

    Args:
        temperature: divides the logits: below 1 likely tokens become likelier. 0: greedy, always the likeliest token.
        top_k: only the k likeliest tokens are drawn; None: all.
        top_p: only the likeliest tokens whose probabilities first sum to at least this are drawn (nucleus sampling,
            Holtzman et al. 2020); None: all. After `top_k`.
        seed: seed of the random numbers.
        exclude: tokens that are never drawn, such as the padding and unknown tokens.

    Raises:
        TrainerError: an argument is out of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    exclude: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, value, is_valid, expected in (
            ("temperature", self.temperature, 0 <= self.temperature < np.inf, "a number from 0 on"),
            ("top_k", self.top_k, self.top_k is None or self.top_k >= 1, "at least 1"),
            ("top_p", self.top_p, self.top_p is None or 0 < self.top_p <= 1, "above 0, at most 1"),
        ):
            if not is_valid:
                raise TrainerError(f"invalid {name}", found=value, expected=expected)

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """The probability of drawing each token, float64 [V]. Among tokens with equal logits, the first counts as the
        likeliest.

        Raises:
            TrainerError: a logit is NaN or infinite, or every token is excluded.
        """
        values = np.array(logits, np.float64)
        values[list(self.exclude)] = -np.inf
        refuse_infinite(values)
        best = int(values.argmax())
        if self.temperature == 0:
            return np.eye(1, len(values), best)[0]
        weights: np.ndarray = np.exp((values - values[best]) / self.temperature)
        if self.top_k is not None or self.top_p is not None:
            order = np.argsort(-weights, kind="stable")[: self.top_k]
            if self.top_p is not None:
                shares = np.cumsum(weights[order]) / weights[order].sum()
                order = order[: int(np.searchsorted(shares, self.top_p)) + 1]
            weights = np.where(np.isin(np.arange(len(weights)), order), weights, 0)
        return weights / weights.sum()

    def choose(self, logits: np.ndarray, position: int) -> int:
        """Draws the token at a position from its logits [V]."""
        upper = np.cumsum(self.probabilities(logits))
        number = int(np.searchsorted(upper, uniform(self.seed, position) * upper[-1], side="right"))
        return min(number, int(np.searchsorted(upper, upper[-1])))  # rounding may reach beyond the last token


def refuse_infinite(logits: np.ndarray) -> None:
    """Raises `TrainerError` if the largest logit of a row of [..., V] is NaN or infinite."""
    largest = logits.max(axis=-1)
    if not np.isfinite(largest).all():
        raise TrainerError(
            "the model gives no probabilities", found=f"a largest logit of {largest[~np.isfinite(largest)][0]}",
            expected="finite logits, and a token that is not excluded",
        )  # fmt: skip


def uniform(seed: int, position: int) -> float:
    """The random number of a position, uniform in [0, 1)."""
    return float(_block(seed, position // _BLOCK)[position % _BLOCK])


@functools.lru_cache(maxsize=4)
def _block(seed: int, number: int) -> np.ndarray:
    """The random numbers of consecutive positions, float64; a generator call takes as long for a block as for one."""
    low = 0xFFFFFFFF
    places = np.arange(number * _BLOCK, (number + 1) * _BLOCK, dtype=np.uint64)
    zeros = np.zeros(_BLOCK, np.uint32)
    counter = ((places & np.uint64(low)).astype(np.uint32), (places >> np.uint64(32)).astype(np.uint32), zeros, zeros)
    words = philox4x32(counter, (np.uint32(seed & low), np.uint32(seed >> 32 & low)))
    bits = words[0].astype(np.uint64) << np.uint64(32) | words[1].astype(np.uint64)
    found: np.ndarray = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return found


def generate(
    step: Step, state: Any, prompt: Sequence[int], count: int, *, sampling: Sampling = Sampling(),
    end: int | None = None, piece: int = 1,
) -> Iterator[int]:  # fmt: skip
    """The tokens that follow a prompt, one by one.

    Args:
        step: the model's step, for one row.
        state: the state before the prompt.
        prompt: the tokens of the prompt, at least one.
        count: maximum number of tokens.
        end: the token that ends the text; it is not returned. None: no token does.
        piece: number of tokens of the prompt that `step` takes at once, as in `read_prompt`.

    Raises:
        TrainerError: the prompt is empty.
    """
    state, logits = read_prompt(step, state, prompt, piece=piece)
    for position in range(len(prompt), len(prompt) + count):
        token = sampling.choose(np.asarray(logits)[0], position)
        if token == end:
            return
        yield token
        if position + 1 < len(prompt) + count:
            state, logits = step(state, np.array([token], np.int32))


def read_prompt(step: Step, state: Any, prompt: Sequence[int], *, rows: int = 1, piece: int = 1) -> tuple[Any, Any]:
    """The state after a prompt in all rows, and the logits [rows, V] of the token that follows.

    Args:
        piece: number of tokens that `step` takes at once, int32 [rows, piece]; the rest of the prompt, and with 1 all
            of it, is taken token by token.

    Raises:
        TrainerError: the prompt is empty.
    """
    if not len(prompt):
        raise TrainerError("the prompt is empty", expected="at least one token")
    tokens = np.tile(np.asarray(prompt, np.int32), (rows, 1))
    whole = len(prompt) // piece * piece if piece > 1 else 0
    logits: Any = None
    for start in range(0, whole, piece):
        state, logits = step(state, tokens[:, start : start + piece])
    for place in range(whole, len(prompt)):
        state, logits = step(state, tokens[:, place])
    return state, logits
