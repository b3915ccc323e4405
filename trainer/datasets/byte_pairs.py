"""Byte-pair encoding: frequent sequences of bytes become tokens (Sennrich, Haddow and Birch 2016; on bytes as in GPT-2,
Radford et al. 2019).

A text is split into pieces, and pairs are merged only within a piece, so that each distinct piece is encoded only once.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from trainer import TrainerError

PIECES = re.compile(r" ?[^\W\d_]+| ?\d+| ?[^\s\w]+| ?_+|\s+(?!\S)|\s+")
"""The pieces of a text: words, numbers and other signs with the space before them, and white space."""


def _alphabet() -> list[str]:
    """A printable character for each byte, as in GPT-2's vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


ALPHABET = _alphabet()
"""The character that represents each byte in tokens."""

BYTES: Mapping[str, int] = {character: byte for byte, character in enumerate(ALPHABET)}


def train(texts: Iterable[str], count: int) -> list[str]:
    """Returns at most `count` tokens: the 256 bytes, then the merged pairs in the order of their merges.

    The most frequent pair is merged first; among equally frequent pairs, the first in alphabetical order. A pair that
    occurs only once is not merged.

    Raises:
        TrainerError: `count` is below 256.
    """
    if count < len(ALPHABET):
        raise TrainerError(
            "a vocabulary of byte pairs is too small", found=f"room for {count} tokens", expected="at least 256 bytes"
        )
    pieces: Counter[str] = Counter()
    for text in texts:
        pieces.update(PIECES.findall(text))
    words = [[ALPHABET[byte] for byte in piece.encode()] for piece in pieces]
    repeats = list(pieces.values())
    counts: Counter[tuple[str, str]] = Counter()
    places: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for number, word in enumerate(words):
        _count(word, number, repeats[number], counts, places)
    heap = [(-frequency, pair) for pair, frequency in counts.items()]
    heapq.heapify(heap)
    tokens = dict.fromkeys(ALPHABET)
    while len(tokens) < count and heap:
        frequency, pair = heapq.heappop(heap)
        if -frequency != counts[pair]:  # outdated: the heap also has an entry with the current count
            continue
        if -frequency < 2:
            break
        tokens["".join(pair)] = None
        changed: set[tuple[str, str]] = set()
        for number in places.pop(pair):
            word = words[number]
            changed.update(pairwise(word))
            _count(word, number, -repeats[number], counts, places)
            words[number] = _merge(word, pair)
            _count(words[number], number, repeats[number], counts, places)
            changed.update(pairwise(words[number]))
        for other in changed:
            if counts[other]:
                heapq.heappush(heap, (-counts[other], other))
    return list(tokens)


def merged(symbols: list[str], numbers: Mapping[str, int]) -> list[int]:
    """Returns the token numbers of a piece, given as one symbol per byte. Repeatedly merges the pair whose token has
    the lowest number.
    """
    while len(symbols) > 1:
        found = [numbers.get(one + other, len(numbers) << 1) for one, other in pairwise(symbols)]
        place = min(range(len(found)), key=found.__getitem__)
        if found[place] == len(numbers) << 1:
            break
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
    return [numbers[symbol] for symbol in symbols]


def _count(
    word: Sequence[str], number: int, repeats: int, counts: Counter[tuple[str, str]],
    places: defaultdict[tuple[str, str], set[int]],
) -> None:  # fmt: skip
    """Adds the pairs of a word to the counts; a negative `repeats` subtracts them."""
    for pair in pairwise(word):
        counts[pair] += repeats
        if repeats > 0:
            places[pair].add(number)


def _merge(word: Sequence[str], pair: tuple[str, str]) -> list[str]:
    result: list[str] = []
    place = 0
    while place < len(word):
        is_pair = tuple(word[place : place + 2]) == pair
        result.append("".join(pair) if is_pair else word[place])
        place += 2 if is_pair else 1
    return result
