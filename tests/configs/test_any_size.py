"""Numbers of any length and any number of keys: what they cost grows with their number, and messages stay short."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from trainer.configs import ConfigError, RecipeIndex, load
from trainer.configs.problems import LONGEST_LINE, MOST_SHOWN
from trainer.configs.reader import MOST_DIGITS

TEXT = "extends: tiny\n"


@pytest.mark.parametrize("digits", [MOST_DIGITS + 1, 4300, 4301, 100_000])
def test_an_integer_of_any_length_is_a_problem_with_a_place(problems, digits):
    (line,) = problems(f"{TEXT}seed: {'9' * digits}")
    assert line == f"config.yaml:2:7 seed: expected an integer of at most 308 digits, found {digits} digits"


@pytest.mark.parametrize("number", ["0x" + "f" * 5000, "0o" + "7" * 5000, "-" + "1" * 5000, "1_" * 5000 + "1"])
def test_every_way_of_writing_a_long_integer_is_a_problem(problems, number):
    (line,) = problems(TEXT, f"seed={number}")
    assert line.startswith("<cli> seed: expected an integer of at most 308 digits, found")


def test_a_long_integer_from_python_is_a_problem(gallery: RecipeIndex):
    with pytest.raises(ConfigError, match="seed: expected an integer of at most 308 digits, found 5001 digits"):
        load("tiny", {"seed": 10**5000}, recipes=gallery)


def test_a_long_number_of_an_item_is_no_key(problems):
    (line,) = problems(TEXT, f"options.sizes[{'9' * 5000}]=1")
    assert "is not of the form key=value" in line


@pytest.mark.parametrize("word", ["seed=\udcff", "name=a\udcffb", "\udcff=1", "options.\ud800=1"])
def test_words_that_are_not_utf_8_are_problems(problems, word):
    (line,) = problems(TEXT, word)
    assert "not UTF-8 text" in line or "is not of the form key=value" in line
    line.encode()


@pytest.mark.parametrize("data", [{"name": "\ud800"}, {"options": {"\ud800": 1}}])
def test_texts_from_python_that_are_not_utf_8_are_problems(gallery: RecipeIndex, data):
    with pytest.raises(ConfigError, match=r"UTF-8 text|expected text as a key") as caught:
        load("tiny", data, recipes=gallery)
    str(caught.value).encode()


def test_a_message_lists_the_first_problems_and_counts_the_rest(gallery: RecipeIndex, tmp_path):
    (tmp_path / "many.yaml").write_text(TEXT + "".join(f"unknown{i}: 1\n" for i in range(1000)))
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "many.yaml"), recipes=gallery)
    lines = str(caught.value).splitlines()
    assert len(caught.value.problems) == 1000
    assert (len(lines), lines[-1]) == (MOST_SHOWN + 1, "980 more")


def test_a_line_of_a_message_has_an_end(problems):
    (line,) = problems(f"{TEXT}{'k' * 100_000}: 1")
    assert len(line) <= LONGEST_LINE + len(" … ")


def _operations(work: Callable[[], Any]) -> int:
    """How many instructions of the interpreter `work` takes: a cost that no other process changes."""
    count = 0

    def count_one(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return count_one

    former = sys.gettrace()
    sys.settrace(count_one)
    try:
        work()
    finally:
        sys.settrace(former)
    return count


@pytest.mark.parametrize("section", ["", "train", "optimizer", "options", "data.transforms"])
def test_unknown_keys_cost_in_proportion_to_their_number(gallery: RecipeIndex, tmp_path, section):
    file = tmp_path / "many.yaml"

    def refused() -> None:
        with pytest.raises(ConfigError):
            load(str(file), recipes=gallery)

    costs = []
    for count in (100, 100, 200, 400):  # the first also imports what is needed
        names = section.split(".") if section else []
        head = "".join(f"{'  ' * depth}{name}:\n" for depth, name in enumerate(names))
        keys = "".join(f"{'  ' * len(names)}unknown{i}: 1\n" for i in range(count))
        file.write_text(TEXT + head + keys)
        costs.append(_operations(refused))
    _, one, two, four = costs
    assert four - two < 2.5 * (two - one)


def test_values_of_a_valid_config_cost_in_proportion_to_their_number(gallery: RecipeIndex, tmp_path):
    file = tmp_path / "many.yaml"
    costs = []
    for count in (100, 100, 200, 400):
        keys = "".join(f"    key{i}: 1\n" for i in range(count))
        file.write_text(f"{TEXT}optimizer:\n  name: ./own.py:Own\n  learning_rate: 0.1\n  options:\n{keys}")
        costs.append(_operations(lambda: load(str(file), recipes=gallery)))
    _, one, two, four = costs
    assert four - two < 2.5 * (two - one)
