"""Encodes texts as numbers: by characters, bytes, words or byte pairs."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.byte_pairs import ALPHABET, BYTES, PIECES, merged, train

Unit = Literal["characters", "bytes", "words", "byte_pairs"]

PADDING, UNKNOWN, END = "<padding>", "<unknown>", "<end>"
"""Special tokens: 0 is the padding token and 1 the unknown token, except for bytes, which are their own numbers. Byte
pairs have no unknown token, because every text consists of bytes. `END` ends a document.
"""

BYTE_PAIRS = 4096
"""Default number of tokens of a vocabulary of byte pairs."""

_WORD = re.compile(r"\w+|[^\w\s]|\n")


class Vocabulary:
    """The tokens by number, and encoding of texts.

    `unit` and `tokens` define a vocabulary completely: `Vocabulary(unit, tokens)` restores it, for example from a
    checkpoint's facts.

    Args:
        unit: unit of a token.
        tokens: the tokens in the order of their numbers.
    """

    def __init__(self, unit: Unit, tokens: Sequence[str]) -> None:
        self.unit, self.tokens = unit, tuple(tokens)
        special = [number for number, token in enumerate(self.tokens) if token in (PADDING, UNKNOWN, END)]
        self._special = frozenset(special)
        self._numbers = {token: number for number, token in enumerate(self.tokens) if number not in self._special}
        known = sorted((ord(token), number) for token, number in self._numbers.items() if len(token) == 1)
        self._codes = np.array([code for code, _ in known], np.uint32)
        self._of_codes = np.array([number for _, number in known], np.int32)
        self._pieces: dict[str, list[int]] = {}

    @classmethod
    def of(cls, unit: Unit, texts: Iterable[str], most: int | None = None, *, has_end: bool = False) -> Vocabulary:
        """The vocabulary of some texts.

        Args:
            texts: the texts that contain the tokens; byte pairs are merged by their frequency in these texts.
            most: characters and words: maximum number of tokens without the special ones; the most frequent are kept;
                None: all. Byte pairs: maximum number of all tokens; None: 4,096.
            has_end: whether the vocabulary has the token `END`.
        """
        end = [END] if has_end else []
        if unit == "bytes":
            return cls(unit, [*(f"<{byte:02x}>" for byte in range(256)), *end])
        if unit == "byte_pairs":
            special = [PADDING, *end]
            return cls(unit, [*special, *train(texts, (most or BYTE_PAIRS) - len(special))])
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text if unit == "characters" else _WORD.findall(text))
        ordered = sorted(counts, key=lambda token: (-counts[token], token))[:most]
        return cls(unit, [PADDING, UNKNOWN, *end, *(sorted(ordered) if unit == "characters" else ordered)])

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def end(self) -> int | None:
        """The number of the token that ends a document; None without one."""
        return self.tokens.index(END) if END in self.tokens else None

    @property
    def not_text(self) -> tuple[int, ...]:
        """The numbers of the padding and unknown tokens, which a generated text must not contain."""
        return tuple(number for number in sorted(self._special) if self.tokens[number] != END)

    def encode(self, text: str) -> np.ndarray:
        """int32 [L]: the numbers of a text's tokens; tokens that the vocabulary lacks become the unknown token."""
        if self.unit == "bytes":
            return np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        if self.unit == "byte_pairs":
            return np.fromiter(chain.from_iterable(map(self._piece, PIECES.findall(text))), np.int32)
        if self.unit == "words":
            return np.array([self._numbers.get(word, 1) for word in _WORD.findall(text)], np.int32)
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        if not len(self._codes):
            return np.ones(len(codes), np.int32)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[places] == codes, self._of_codes[places], 1).astype(np.int32)

    def _piece(self, piece: str) -> list[int]:
        """The numbers of a piece's byte pairs, cached because pieces repeat."""
        found = self._pieces.get(piece)
        if found is None:
            found = self._pieces[piece] = merged([ALPHABET[byte] for byte in piece.encode()], self._numbers)
        return found

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of token numbers, without padding and ends.

        Raises:
            TrainerError: a number is not a token.
        """
        decoder = Decoder(self)
        return "".join([*map(decoder.add, numbers), decoder.finish()])

    def characters(self) -> np.ndarray:
        """float32 [V]: the number of characters of each token; 0 for special tokens.

        A token of bytes counts the characters that begin in it. Words count the space before them.
        """
        counts = [0.0 if number in self._special else self._length(token) for number, token in enumerate(self.tokens)]
        return np.array(counts, np.float32)

    def _length(self, token: str) -> float:
        if self.unit == "bytes":
            return float(int(token[1:3], 16) & 0xC0 != 0x80)
        if self.unit == "byte_pairs":
            return float(sum(BYTES[character] & 0xC0 != 0x80 for character in token))
        return len(token) + (self.unit == "words")


class Decoder:
    """Decodes a text token by token: a character appears when its last byte is known."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_first = True

    def add(self, number: int) -> str:
        """Adds a token; returns the text that it completes.

        Raises:
            TrainerError: the number is not a token.
        """
        vocabulary, number = self._vocabulary, int(number)
        if not 0 <= number < len(vocabulary):
            raise TrainerError("not a token", found=number, expected=f"0 to {len(vocabulary) - 1}")
        token = vocabulary.tokens[number]
        if token in (PADDING, END) and number in vocabulary._special:
            return ""
        if vocabulary.unit == "bytes":
            return self._bytes.decode(bytes([number]))
        if vocabulary.unit == "byte_pairs":
            return self._bytes.decode(bytes(BYTES[character] for character in token))
        space = "" if vocabulary.unit == "characters" or self._is_first else " "
        self._is_first = False
        return space + token

    def finish(self) -> str:
        """Returns a replacement character if the text ends within a character."""
        return self._bytes.decode(b"", final=True)
