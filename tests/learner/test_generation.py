"""Generation from a step function, against distributions and searches computed independently."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from trainer import TrainerError
from trainer.learner.generation import Sampling, beam_search, generate
from trainer.learner.generation.sampling import uniform

LOGITS = np.log(np.array([0.4, 0.3, 0.2, 0.07, 0.03]))
TABLE = np.random.default_rng(3).normal(size=(5, 5, 5))
"""Logits by the last two tokens."""


def step(state, tokens):
    """A model that remembers two tokens; the state is int32 [B]."""
    return tokens, TABLE[np.asarray(state), tokens]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.4, 0.3, 0.2, 0.07, 0.03]),
        ({"temperature": 0.5}, np.array([0.16, 0.09, 0.04, 0.0049, 0.0009]) / 0.2958),
        ({"temperature": 0}, [1, 0, 0, 0, 0]),
        ({"top_k": 2}, [4 / 7, 3 / 7, 0, 0, 0]),
        ({"top_p": 0.6}, [4 / 7, 3 / 7, 0, 0, 0]),
        ({"top_p": 0.4}, [1, 0, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.9}, [4 / 9, 3 / 9, 2 / 9, 0, 0]),
        ({"exclude": (0, 4)}, [0, 30 / 57, 20 / 57, 7 / 57, 0]),
    ],
)
def test_tokens_have_the_probabilities_of_their_definition(options, expected):
    np.testing.assert_allclose(Sampling(**options).probabilities(LOGITS), expected, rtol=1e-12)


def test_of_equal_logits_the_first_tokens_are_kept():
    np.testing.assert_array_equal(Sampling(top_k=2).probabilities(np.zeros(4)), [0.5, 0.5, 0, 0])
    assert Sampling(temperature=0).choose(np.zeros(4), 0) == 0


def test_tokens_are_drawn_as_often_as_their_probability():
    draws = [Sampling(seed=1).choose(LOGITS, position) for position in range(1500)]
    np.testing.assert_allclose(np.bincount(draws, minlength=5) / 1500, np.exp(LOGITS), atol=0.04)
    numbers = [uniform(2, position) for position in range(1000)]
    assert 0 <= min(numbers) < 0.01 and 0.99 < max(numbers) < 1 and len(set(numbers)) == 1000


@pytest.mark.parametrize("options", [{"temperature": -1}, {"top_k": 0}, {"top_p": 0}, {"top_p": 1.5}])
def test_an_argument_out_of_its_range_is_refused(options):
    with pytest.raises(TrainerError, match=f"invalid {next(iter(options))}"):
        Sampling(**options)


@pytest.mark.parametrize("logit", [np.nan, np.inf])
def test_logits_that_are_nan_or_infinite_are_refused(logit):
    with pytest.raises(TrainerError, match=f"the model gives no probabilities\n  found:    a largest logit of {logit}"):
        Sampling().probabilities(np.array([0.0, logit]))
    with pytest.raises(TrainerError, match="the model gives no probabilities"):
        beam_search(lambda state, tokens: (state, np.array([[0.0, logit]])), None, [1], 1, width=1)
    with pytest.raises(TrainerError, match="a largest logit of -inf"):
        Sampling(exclude=(0, 1)).probabilities(np.zeros(2))


def test_the_same_seed_gives_the_same_text_and_a_greedy_one_needs_none():
    def run(**options):
        return list(generate(step, np.zeros(1, np.int32), [1, 2], 12, sampling=Sampling(**options)))

    assert run(seed=5) == run(seed=5) != run(seed=6) and len(run()) == 12
    expected, last = [], [1, 2]
    for _ in range(12):
        last.append(int(TABLE[last[-2], last[-1]].argmax()))
        expected.append(last[-1])
    assert run(temperature=0) == run(temperature=0, seed=9) == run(top_k=1) == expected


def test_a_text_ends_with_the_end_token_and_is_made_step_by_step():
    calls = []

    def counted(state, tokens):
        calls.append(int(tokens[0]))
        return step(state, tokens)

    whole = list(generate(step, np.zeros(1, np.int32), [1], 30, sampling=Sampling(seed=1)))
    end = whole[5]
    stream = generate(counted, np.zeros(1, np.int32), [1], 30, sampling=Sampling(seed=1), end=end)
    assert next(stream) == whole[0] and calls == [1]
    assert [whole[0], *stream] == whole[: whole.index(end)]
    with pytest.raises(TrainerError, match="the prompt is empty"):
        next(generate(step, np.zeros(1, np.int32), [], 3))


def log_probability(tokens, end=None):
    """Of a continuation of [1, 2], token by token."""
    last, total = [1, 2], 0.0
    for token in tokens:
        logits = TABLE[last[-2], last[-1]]
        total += logits[token] - np.log(np.exp(logits).sum())
        last.append(token)
    return total


def search(width, count, **options):
    def reorder(state, rows):
        return state[rows]

    return beam_search(step, np.zeros(width, np.int32), [1, 2], count, width=width, reorder=reorder, **options)


def test_a_wide_beam_finds_the_likeliest_of_all_continuations():
    ranked = sorted(product(range(5), repeat=3), key=log_probability, reverse=True)
    found = search(25, 3)
    assert [beam.tokens for beam in found[:5]] == ranked[:5]
    np.testing.assert_allclose([beam.log_probability for beam in found], list(map(log_probability, ranked[:25])))
    assert search(1, 3)[0].tokens == tuple(
        generate(step, np.zeros(1, np.int32), [1, 2], 3, sampling=Sampling(temperature=0))
    )
    assert all(0 not in beam.tokens for beam in search(4, 3, exclude=(0,)))


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_continuations_may_end_early(penalty):
    every = [tokens for length in range(4) for tokens in product(range(1, 5), repeat=length)]
    scores = {}
    for tokens in every:
        ended = (*tokens, 0) if len(tokens) < 3 else tokens
        scores[tokens] = log_probability(ended) / len(ended) ** penalty
    ranked = sorted(scores, key=scores.get, reverse=True)
    found = search(64, 3, end=0, length_penalty=penalty)
    assert [beam.tokens for beam in found[:6]] == ranked[:6]
    assert [beam.is_complete for beam in found[:6]] == [len(tokens) < 3 for tokens in ranked[:6]]
    np.testing.assert_allclose([beam.score(penalty) for beam in found[:6]], [scores[tokens] for tokens in ranked[:6]])


@pytest.mark.parametrize("count", [1, 3, 4, 7, 8, 9])
def test_a_prompt_is_read_in_pieces_and_the_rest_token_by_token(count):
    """The state is all tokens so far; the likeliest token follows from their number and the last one."""
    shapes = []

    def step(state, tokens):
        shapes.append(tokens.shape)
        state = np.concatenate([state, tokens.reshape(len(tokens), -1)], axis=1)
        return state, np.eye(50)[(state.shape[1] + 3 * state[:, -1]) % 50]

    prompt = list(range(2, 2 + count))
    found = {
        piece: list(generate(step, np.zeros((1, 0), int), prompt, 5, sampling=Sampling(temperature=0), piece=piece))
        for piece in (1, 4)
    }
    assert found[1] == found[4] and shapes.count((1, 4)) == count // 4
    shapes.clear()
    [best] = beam_search(step, np.zeros((1, 0), int), prompt, 5, width=1, piece=4,
                         reorder=lambda state, rows: state[rows])  # fmt: skip
    assert list(best.tokens) == found[1] and shapes.count((1, 4)) == count // 4
