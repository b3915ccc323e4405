"""The watch over half an hour of training: what it calls growth, and what a leak."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from steady import Look, Watched, by_process, leaks, memory_growth


def watched(memory: list[int], files: list[int]) -> Watched:
    """Looks at two processes each second, one of which stays as it is."""
    looks = [
        look
        for second, (nbytes, descriptors) in enumerate(zip(memory, files, strict=True))
        for look in (
            Look(second, "worker", nbytes, 3, descriptors, 100, 1),
            Look(second, "reader", 50_000_000, 1, 5, 80, 0),
        )
    ]
    return Watched(tuple(looks), tuple((float(second), 0) for second in range(len(memory))))


def test_what_comes_and_goes_is_neither_growth_nor_a_leak() -> None:
    still = watched([150_000_000 + 10_000_000 * (n % 2) for n in range(100)], [20 + 5 * (n % 3) for n in range(100)])
    assert memory_growth(still) == 0 and leaks(still) == 0


def test_what_grew_in_the_first_half_alone_does_not_count() -> None:
    early = watched([min(n, 50) * 1_000_000 for n in range(100)], [min(n, 50) for n in range(100)])
    assert memory_growth(early) == 0 and leaks(early) == 0


def test_what_grows_on_is_told_with_its_process() -> None:
    growing = watched([100_000_000 + 1_000_000 * n for n in range(100)], [20 + n // 10 for n in range(100)])
    assert 15 < memory_growth(growing) < 25 and leaks(growing) == 4
    assert [line.split()[0] for line in by_process(growing) if "files" in line] == ["worker"]
