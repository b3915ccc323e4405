"""Philox4x32-10 against the vectors published with Random123 (kat_vectors, `philox4x32 10`)."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.philox import philox4x32, random_bits
from trainer.engine.graph.storage import Storage
from trainer.engine.targets.reference import evaluate

VECTORS = [  # counter, key, output
    (
        (0x00000000, 0x00000000, 0x00000000, 0x00000000),
        (0x00000000, 0x00000000),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "output"), VECTORS)
def test_published_vectors(counter: tuple[int, ...], key: tuple[int, int], output: tuple[int, ...]) -> None:
    found = philox4x32(tuple(map(np.uint32, counter)), (np.uint32(key[0]), np.uint32(key[1])))
    assert tuple(int(word) for word in found) == output


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint32).view(np.int32)


@pytest.mark.parametrize("word", range(4))
def test_the_primitive_counts_places_in_row_major_order(word: int) -> None:
    counter, key = VECTORS[2][0], VECTORS[2][1]
    nodes = [p.buffer(Storage.of(words(*pair), dtypes.int32)) for pair in (key, counter[2:])]
    (found,) = evaluate([p.random_bits(*nodes, (2, 3), word)])
    for place, bits in enumerate(found.ravel()):
        expected = philox4x32(
            (np.uint32(place), np.uint32(0), *map(np.uint32, counter[2:])), tuple(map(np.uint32, key))
        )
        assert bits == expected[word].view(np.int32)


def test_zero_key_and_counter_begin_with_the_first_published_vector() -> None:
    assert [int(random_bits(words(0, 0), words(0, 0), (1,), word).view(np.uint32)[0]) for word in range(4)] == [
        *VECTORS[0][2]
    ]
