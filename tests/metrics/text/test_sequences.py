"""Metrics of sequences against sacrebleu, published examples and definitions by brute force."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
import sacrebleu

from tests.metrics.measuring import measured, split_measured
from trainer import TrainerError
from trainer.metrics.text.bleu import bleu_counts, corpus_bleu, words_13a
from trainer.metrics.text.sequences import Bleu, ErrorRate, RougeL

TEXTS = [
    ("The cat sat on the mat.", "The cat is sitting on the mat."),
    ("It's 3.5% - or 2,000 more; isn't it?", "It is 3.5 % or 2,000 more, isn't it?"),
    ("&quot;Hello&quot; she said.", '"Hello," she said.'),
    ("a guide to action which ensures that the military always obeys", "a guide to action that ensures that the "
     "military will forever heed party commands"),
    ("", "nothing was found"),
]  # fmt: skip


def padded(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Filled up with a token that occurs in the sequences too."""
    width = max(map(len, rows)) + 1
    return (np.array([row + [1] * (width - len(row)) for row in rows], np.int32),
            np.array([len(row) for row in rows], np.int64))  # fmt: skip


def roles(found: list[list[int]], right: list[list[int]]) -> dict[str, np.ndarray]:
    (tokens, length), (true_tokens, true_length) = padded(found), padded(right)
    return {"predicted_tokens": tokens, "predicted_length": length, "tokens": true_tokens, "length": true_length}


def random_pairs(count: int = 30, words: int = 4, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    random = np.random.default_rng(seed)
    right = [random.integers(0, words, random.integers(1, 12)).tolist() for _ in range(count)]
    found = [[int(token) for token in sequence if random.random() < 0.8]
             + random.integers(0, words, random.integers(0, 3)).tolist() for sequence in right]  # fmt: skip
    return found, right


def edits(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    @functools.cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1,
                   distance(i - 1, j - 1) + (one[i - 1] != other[j - 1]))  # fmt: skip

    return distance(len(one), len(other))


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    @functools.cache
    def length(i: int, j: int) -> int:
        if not i or not j:
            return 0
        return length(i - 1, j - 1) + 1 if one[i - 1] == other[j - 1] else max(length(i - 1, j), length(i, j - 1))

    return length(len(one), len(other))


@pytest.mark.parametrize("sizes", [(30,), (12, 12, 6)])
def test_error_rates_are_all_edits_over_all_tokens(sizes: tuple[int, ...]) -> None:
    found, right = random_pairs()
    want = sum(edits(tuple(a), tuple(b)) for a, b in zip(found, right, strict=True)) / sum(map(len, right))
    assert split_measured(ErrorRate(), sizes, **roles(found, right)) == {"": want}


def characters(text: str) -> list[int]:
    return [ord(character) for character in text]


def test_the_published_distances() -> None:
    """Levenshtein's usual examples."""
    for one, other, distance in (("kitten", "sitting", 3), ("saturday", "sunday", 3), ("", "abc", 3), ("abc", "", 3)):
        found = measured(ErrorRate(), **roles([characters(one), [5]], [characters(other), [5]]))
        assert found == {"": distance / (len(other) + 1)}


def test_words_are_what_lies_between_separators() -> None:
    """The word error rate of one substitution and one deletion in six words; spaces at the ends are none."""
    found, right = characters(" the cat sit on  mat "), characters("the cat sat on the mat")
    assert measured(ErrorRate(separator=ord(" ")), **roles([found], [right])) == {"": 2 / 6}


def test_without_any_right_token_there_is_no_rate() -> None:
    for metric in (ErrorRate(), Bleu(), RougeL()):
        found, right = random_pairs(3)
        assert math.isnan(measured(metric, np.zeros(3, np.float32), **roles(found, right))[""])
    assert math.isnan(measured(ErrorRate(), **roles([[1]], [[]]))[""])


def as_text(sequences: list[list[int]]) -> list[str]:
    return [" ".join(map(str, sequence)) for sequence in sequences]


@pytest.mark.parametrize("seed", range(6))
def test_bleu_of_tokens_is_sacrebleus_in_any_batches(seed: int) -> None:
    found, right = random_pairs(words=3 + 8 * (seed % 3), seed=seed)
    want = sacrebleu.corpus_bleu(as_text(found), [as_text(right)], tokenize="none", force=True).score
    whole = measured(Bleu(), **roles(found, right))[""]
    assert whole == pytest.approx(want, rel=1e-12)
    assert split_measured(Bleu(), (12, 12, 6), order=(2, 0, 1), **roles(found, right))[""] == whole


def test_bleu_of_texts_is_sacrebleus() -> None:
    found, right = [list(side) for side in zip(*TEXTS, strict=True)]
    other = [text.lower() + " indeed" for text in right]
    assert corpus_bleu(found, [[text] for text in right]) == pytest.approx(
        sacrebleu.corpus_bleu(found, [right]).score, rel=1e-12
    )
    assert corpus_bleu(found, [list(pair) for pair in zip(right, other, strict=True)]) == pytest.approx(
        sacrebleu.corpus_bleu(found, [right, other]).score, rel=1e-12
    )


@pytest.mark.parametrize(
    "texts", [("a b", "a b"), ("x", "a b c d e"), ("a b c d", "a b x d"), ("a b c d e", "v w x y z")]
)
def test_short_and_wrong_texts_score_as_in_sacrebleu(texts: tuple[str, str]) -> None:
    want = sacrebleu.corpus_bleu([texts[0]], [[texts[1]]]).score
    assert corpus_bleu([texts[0]], [[texts[1]]]) == pytest.approx(want, rel=1e-12, abs=1e-12)


def test_the_papers_clipped_count() -> None:
    """Papineni et al. 2002: "the" seven times has a unigram precision of 2/7."""
    references = [["the", "cat", "is", "on", "the", "mat"], ["there", "is", "a", "cat", "on", "the", "mat"]]
    counts = bleu_counts(["the"] * 7, references)
    assert (counts[0], counts[4], counts[-1]) == (2, 7, 7)


@pytest.mark.parametrize("text", [side for pair in TEXTS for side in pair])
def test_words_and_marks_are_told_apart_as_by_13a(text: str) -> None:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert " ".join(words_13a(text)) == Tokenizer13a()(text)


@pytest.mark.parametrize("sizes", [(30,), (12, 12, 6)])
def test_rouge_l_is_the_mean_f_of_longest_common_subsequences(sizes: tuple[int, ...]) -> None:
    found, right = random_pairs()
    want = np.mean([2 * common(tuple(a), tuple(b)) / (len(a) + len(b)) for a, b in zip(found, right, strict=True)])
    assert split_measured(RougeL(), sizes, **roles(found, right))[""] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(("text", "score"), [("police kill the gunman", 3 / 4), ("the gunman kill police", 2 / 4),
                                             ("the gunman police killed", 2 / 4)])  # fmt: skip
def test_the_papers_sentences_have_the_papers_rouge_l(text: str, score: float) -> None:
    """Lin 2004, section 3.1: against "police killed the gunman", where recall and precision are equal."""
    pair = roles([characters(text)], [characters("police killed the gunman")])
    assert measured(RougeL(separator=ord(" ")), **pair) == {"": score}


@pytest.mark.parametrize("metric", [ErrorRate, Bleu, RougeL])
def test_other_shapes_are_refused(metric: Any) -> None:
    with pytest.raises(TrainerError, match="needs sequences"):
        measured(metric(), **(roles([[1]], [[1]]) | {"tokens": np.zeros(1, np.int32)}))
