"""The listed programs have the launches, kernels and results that are on record, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.engine.golden import record
from tests.engine.golden.listing import listing
from tests.engine.golden.programs import PROGRAMS

CHEAP = (
    "perceptron, Adam", "attention", "depthwise", "few outputs", "plain convolutions, fast", "softmax",
    "sums along every axis", "order", "states not in place", "swapped states", "views", "untraced softmax",
    "random network 0", "random graph 0",
)  # fmt: skip
TELLING = (
    "attention", "few outputs", "order", "sums along every axis", "swapped states", "random graph 0",
    "random network 7", "small ResNet training, fast",
)  # fmt: skip
"""Programs in which the order of equal launches and of what they share would show a set that is walked."""


def test_a_hundred_programs_are_on_record() -> None:
    assert len(PROGRAMS) == 100
    assert list(record.read()) == list(PROGRAMS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in CHEAP else [pytest.mark.full]) for name in PROGRAMS]
)
def test_launches_kernels_and_results_are_as_recorded(name: str) -> None:
    program = PROGRAMS[name]
    found = {**record.lowered_record(listing(program)), "results": record.results_digest(program)}
    assert record.differences(record.read()[name], found) == []


@pytest.mark.parametrize("name", ["digits", "small pix2pix training", "random graph 6"])
def test_a_program_that_is_lowered_twice_has_the_same_text(name: str) -> None:
    assert listing(PROGRAMS[name]) == listing(PROGRAMS[name])


def digests(hash_seed: int, names: Sequence[str]) -> subprocess.Popen[str]:
    """A fresh process that prints the digests of launches and kernels."""
    command = [sys.executable, "-m", "tests.engine.golden", "--digests", *names]
    repository = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(repository)}
    return subprocess.Popen(
        command, cwd=repository, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


@pytest.mark.parametrize("names", [TELLING, pytest.param((), id="all", marks=pytest.mark.full)])
def test_fresh_processes_with_other_hash_seeds_lower_to_the_same_text(names: tuple[str, ...]) -> None:
    processes = [digests(seed, names) for seed in (1, 2)]
    first, second = (process.communicate(timeout=600)[0].splitlines() for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert len(first) == len(names or PROGRAMS)
    assert first == second
