"""Texts as numbers: by characters, bytes or words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

Unit = Literal["characters", "bytes", "words"]

FILLING, UNKNOWN = "<filling>", "<unknown>"
"""The first two tokens of a vocabulary, except for bytes: 0 is the padding token, 1 the unknown token."""

_WORD = re.compile(r"\w+|[^\w\s]|\n")


class Vocabulary:
    """The tokens by number, and encoding of texts. Bytes are their own numbers, 0 to 255."""

    def __init__(self, unit: Unit, tokens: Sequence[str]) -> None:
        self.unit, self.tokens = unit, tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens)}
        known = sorted((ord(token), number) for token, number in self._numbers.items() if len(token) == 1)
        self._codes = np.array([code for code, _ in known], np.uint32)
        self._of_codes = np.array([number for _, number in known], np.int32)

    @classmethod
    def of(cls, unit: Unit, texts: Iterable[str], most: int | None = None) -> Vocabulary:
        """The tokens that occur in `texts`, at most the `most` frequent ones: characters sorted, words by frequency."""
        if unit == "bytes":
            return cls(unit, [f"<{byte:02x}>" for byte in range(256)])
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text if unit == "characters" else _WORD.findall(text))
        ordered = sorted(counts, key=lambda token: (-counts[token], token))[:most]
        return cls(unit, [FILLING, UNKNOWN, *(sorted(ordered) if unit == "characters" else ordered)])

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> np.ndarray:
        """int32 [L]: the numbers of a text's tokens."""
        if self.unit == "bytes":
            return np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        if self.unit == "words":
            return np.array([self._numbers.get(word, 1) for word in _WORD.findall(text)], np.int32)
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        if not len(self._codes):
            return np.ones(len(codes), np.int32)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[places] == codes, self._of_codes[places], 1).astype(np.int32)

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of token numbers, without padding."""
        if self.unit == "bytes":
            return bytes(int(number) for number in numbers).decode("utf-8", "replace")
        words = [self.tokens[int(number)] for number in numbers if int(number) != 0]
        return ("" if self.unit == "characters" else " ").join(words)
