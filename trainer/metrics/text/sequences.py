"""Metrics of sequences: error rates, BLEU and ROUGE-L, of tokens or of words between separators.

A step returns `predicted_tokens` [B, L] with `predicted_length` [B], and the batch's `tokens` [B, M] with `length` [B].
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer import TrainerError
from trainer.engine import Tensor
from trainer.metrics.metric import WEIGHT, Metric, Part, Place, State
from trainer.metrics.predictions import Predictions
from trainer.metrics.ratio import divided
from trainer.metrics.text.bleu import ORDER, bleu_counts, bleu_of
from trainer.metrics.text.distances import Integers, common_lengths, edit_distances


@dataclass(frozen=True)
class Pairs:
    """Predicted and target sequences: rows of integers with lengths."""

    found: Integers
    found_length: Integers
    right: Integers
    right_length: Integers


class Sequences(Metric):
    """Base class of metrics that compare pairs of sequences; their state is the sum of the arrays of `sums`.

    Args:
        separator: the token between words, for a comparison of words if tokens are characters.
    """

    needs = ("predicted_tokens", "predicted_length", "tokens", "length")
    folds_in: Place = "worker"

    def __init__(self, separator: int | None = None) -> None:
        self.separator = separator

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        for rows, length in (("predicted_tokens", "predicted_length"), ("tokens", "length")):
            if given[rows].ndim != 2 or given[length].ndim != 1:
                raise TrainerError(
                    f"{type(self).__name__} needs sequences",
                    found=f"{rows} {list(given[rows].shape)}, {length} {list(given[length].shape)}",
                    expected="tokens [B, L] with lengths [B]",
                )
        return {name: given[name] for name in self.needs}

    def fold(self, state: State, part: Part) -> State:
        counts = np.flatnonzero(part[WEIGHT])
        pairs = Pairs(*(part[name][counts] for name in self.needs))
        if self.separator is not None:
            pairs = in_words(pairs, self.separator)
        return {name: state.get(name, 0) + np.asarray(value) for name, value in self.sums(pairs).items()}

    def sums(self, pairs: Pairs) -> Mapping[str, NDArray[np.number]]:
        """The contribution of some pairs to the state."""
        raise NotImplementedError

    def state_key(self) -> Hashable:
        return type(self), self.separator


def in_words(pairs: Pairs, separator: int) -> Pairs:
    """The same sequences with a number per word; equal words have the same number."""
    numbers: dict[tuple[int, ...], int] = {}

    def words(rows: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        texts = []
        for row, length in zip(rows, lengths.tolist(), strict=True):
            parts = np.split(row[:length], np.flatnonzero(row[:length] == separator))
            plain = [tuple(token for token in part.tolist() if token != separator) for part in parts]
            texts.append([numbers.setdefault(word, len(numbers)) for word in plain if word])
        width = max(map(len, texts), default=0)
        filled = np.array([text + [-1] * (width - len(text)) for text in texts], np.int64).reshape(len(texts), width)
        return filled, np.array([len(text) for text in texts], np.int64)

    return Pairs(*words(pairs.found, pairs.found_length), *words(pairs.right, pairs.right_length))


class ErrorRate(Sequences):
    """Edits from prediction to target, per token or word of the target: CER, WER.

    The minimum number of insertions, deletions and substitutions (Levenshtein 1965), over the whole split. Exact in any
    order of batches.
    """

    def sums(self, pairs: Pairs) -> Mapping[str, NDArray[np.number]]:
        edits = edit_distances(pairs.found, pairs.found_length, pairs.right, pairs.right_length)
        return {"edits": np.asarray(edits.sum()), "length": np.asarray(pairs.right_length.astype(np.int64).sum())}

    def values(self, state: State) -> Mapping[str, float]:
        return {"": divided(state["edits"], state["length"])}


class Bleu(Sequences):
    """BLEU of the whole split in percent, of n-grams up to 4: sacrebleu's, with its exponential smoothing.

    Tokens (or words) are used unchanged: sacrebleu with `tokenize="none"`. `corpus_bleu` in bleu.py takes texts. Exact
    in any order of batches.
    """

    def sums(self, pairs: Pairs) -> Mapping[str, NDArray[np.number]]:
        counts = np.zeros(2 * ORDER + 2, np.int64)
        rows = zip(pairs.found.tolist(), pairs.found_length.tolist(), pairs.right.tolist(),
                   pairs.right_length.tolist(), strict=True)  # fmt: skip
        for found, found_length, right, right_length in rows:
            counts += bleu_counts(found[:found_length], [right[:right_length]])
        return {"counts": counts}

    def values(self, state: State) -> Mapping[str, float]:
        return {"": bleu_of(state["counts"])}


class RougeL(Sequences):
    """ROUGE-L (Lin 2004) with equal weight for precision and recall: the mean over pairs of 2 LCS / (predicted length +
    target length), with LCS the longest common subsequence.

    Summed in float64, so the order of batches may change the last bits.
    """

    def sums(self, pairs: Pairs) -> Mapping[str, NDArray[np.number]]:
        common = common_lengths(pairs.found, pairs.found_length, pairs.right, pairs.right_length)
        both = pairs.found_length.astype(np.int64) + pairs.right_length
        scores = np.divide(2 * common, both, out=np.zeros(len(both)), where=both > 0)
        return {"scores": scores.sum(), "pairs": np.int64(len(scores))}

    def values(self, state: State) -> Mapping[str, float]:
        return {"": divided(state["scores"], state["pairs"])}
