"""BLEU by sacrebleu's definition (Papineni et al. 2002; Post 2018): of a corpus, with its exponential smoothing."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

ORDER = 4
"""Maximum length of compared n-grams."""

Counts = NDArray[np.int64]
"""int64 [2 ORDER + 2]: matching n-grams of each length, all of each length, predicted words, reference words."""

_MARKS = (  # mteval-v13a.pl, as in sacrebleu
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
_ENTITIES = (("<skipped>", ""), ("-\n", ""), ("\n", " "), ("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))


def words_13a(text: str) -> list[str]:
    """The words and punctuation marks of a text by the tokenizer "13a", sacrebleu's default for most languages."""
    for known, plain in _ENTITIES:
        text = text.replace(known, plain)
    text = f" {text} "
    for pattern, spaced in _MARKS:
        text = pattern.sub(spaced, text)
    return text.split()


def bleu_counts(found: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> Counts:
    """The counts of one sentence: n-grams clipped by the reference with the most occurrences.

    The reference length is the one nearest to the prediction's; of two equally near ones, the shorter.
    """
    right, total = np.zeros(ORDER, np.int64), np.zeros(ORDER, np.int64)
    theirs: Counter[tuple[Hashable, ...]] = Counter()
    for reference in references:
        theirs |= _grams(reference)
    for gram, count in _grams(found).items():
        right[len(gram) - 1] += min(count, theirs[gram])
        total[len(gram) - 1] += count
    nearest = min((abs(len(reference) - len(found)), len(reference)) for reference in references)[1]
    return np.concatenate([right, total, [len(found), nearest]])


def bleu_of(counts: Counts) -> float:
    """BLEU in percent from the summed counts of all sentences; NaN without sentences or reference words."""
    right, total, (found, reference) = counts[:ORDER], counts[ORDER : 2 * ORDER], counts[2 * ORDER :]
    if reference == 0:
        return math.nan
    if not right.any() or not total.all():
        return 0.0
    precisions = []
    smoothing = 1.0
    for matched, tried in zip(right.tolist(), total.tolist(), strict=True):
        if matched == 0:
            smoothing *= 2
        precisions.append(matched / tried if matched else 1 / (smoothing * tried))
    brevity = 1.0 if found >= reference else math.exp(1 - reference / found)
    return 100 * brevity * math.exp(sum(map(math.log, precisions)) / ORDER)


def corpus_bleu(found: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """BLEU in percent of texts, each with its references (one or more), words by `words_13a`."""
    counts = np.zeros(2 * ORDER + 2, np.int64)
    for text, theirs in zip(found, references, strict=True):
        counts += bleu_counts(words_13a(text), [words_13a(reference) for reference in theirs])
    return bleu_of(counts)


def _grams(words: Sequence[Hashable]) -> Counter[tuple[Hashable, ...]]:
    return Counter(
        tuple(words[start : start + order])
        for order in range(1, ORDER + 1)
        for start in range(len(words) - order + 1)
    )  # fmt: skip
