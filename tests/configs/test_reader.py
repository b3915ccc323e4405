"""YAML to values with places: which words are numbers, and what is refused."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.configs.problems import Place
from trainer.configs.reader import MOST_VALUES, Document, read_yaml


def read(text: str) -> Document:
    return read_yaml(text, Place("c.yaml", 1, 1))


def messages(text: str) -> list[str]:
    return [str(problem) for problem in read(text).problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001), ("1E5", 1e5), ("-2.5", -2.5), (".5", 0.5), ("1.", 1.0), ("+3", 3), ("007", 7),
        ("1_000", 1000), ("0x1F", 31), ("0o17", 15), (".inf", math.inf), ("-.Inf", -math.inf),
        ("true", True), ("False", False), ("~", None), ("", None), ("null", None),
        ("no", "no"), ("on", "on"), ("y", "y"), ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("1e", "1e"),
        ("'1e-3'", "1e-3"), ('"true"', "true"), ("1.2.3", "1.2.3"),
    ],
)  # fmt: skip
def test_plain_words_are_read_by_the_core_schema_of_yaml_1_2(text, value):
    found = read(f"a: {text}").value["a"]
    assert found == value and type(found) is type(value)


def test_nan_is_read():
    assert math.isnan(read("a: .nan").value["a"])


def test_every_key_and_value_has_its_line_and_column():
    document = read("a:\n  b: [1, 2]\n  c: {d: x}\n")
    assert str(document.keys[("a", "b")]) == "c.yaml:2:3"
    assert str(document.values[("a", "b", 1)]) == "c.yaml:2:10"
    assert str(document.values[("a", "c", "d")]) == "c.yaml:3:10"


def test_anchors_and_merge_keys_give_values_that_what_is_written_overrides():
    document = read("base: &b {x: 1, y: {z: 2}}\nother: &o {x: 5, w: 6}\nuse:\n  <<: [*b, *o]\n  y: 3\n")
    assert document.value["use"] == {"x": 1, "y": 3, "w": 6}
    assert document.problems == []
    assert str(document.values[("use", "x")]) == "c.yaml:1:14"
    assert ("use", "y", "z") not in document.values


def test_a_duplicate_key_is_an_error_that_names_both_places():
    assert messages("a: 1\nb: 2\na: 3") == ["c.yaml:3:1 a: duplicate key, first given at line 1"]


@pytest.mark.parametrize(
    "text",
    ["a: !!python/object/apply:os.system [ls]", "a: !!str 5", "a: &x !!int 5", "a: !local {b: 1}", "!!map {a: 1}"],
)
def test_no_tag_is_honored(text):
    document = read(text)
    assert len(document.problems) == 1
    assert "tags are not supported:" in document.problems[0].message
    assert document.value in ({"a": None}, None)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1, 2", "c.yaml:2:1"),
        ("a: 1\nb: : c", "c.yaml:2:4"),
        ("a:\n\t- b", "c.yaml:2:1"),
        ("a: *nothing", "c.yaml:1:4"),
        ("--- 1\n--- 2", "c.yaml:2:1"),
        ("a: 1\nb: \x00", "c.yaml:2:4"),
    ],
)
def test_a_syntax_error_has_a_place(text, place):
    (line,) = messages(text)
    assert line.startswith(f"{place}: not YAML: ")


def test_an_alias_to_what_contains_it_is_refused():
    assert messages("a: &x [1, *x]") == ["c.yaml:1:4 a[1]: an alias to a value that contains it"]


def test_a_short_text_that_means_very_many_values_is_refused():
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for level in range(1, 10):
        text += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    (line,) = messages(text)
    assert f"more than {MOST_VALUES} values" in line


@pytest.mark.parametrize("depth", [100, 20_000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", "- ", "? ", "[{a: "])
def test_deep_nesting_is_refused_and_not_a_crash(depth, opening):
    closing = {"[": "]", "[{a: ": "}]"}.get(opening, "")
    for text in (opening * depth + closing * depth, opening * depth):
        problems = messages(text)
        expected = ("nested more than", "not YAML", "expected a single word as a key")
        assert any(said in problems[0] for said in expected)


NUMBERS = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False)
WORDS = st.text("ab:#'\" \nñ-", max_size=6)
TREES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(TREES)
def test_what_pyyaml_writes_is_read_back(tree):
    assert read(yaml.safe_dump({"value": tree}, allow_unicode=True)).value == {"value": tree}
