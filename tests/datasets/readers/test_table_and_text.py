"""Tables and texts: items, classes, vocabularies, rows that can't be used."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.datasets import check_item
from trainer.datasets.item_properties import labels_of, sizes_of
from trainer.datasets.readers.table import Table
from trainer.datasets.readers.text import TextClasses, TextFile
from trainer.datasets.vocabulary import Vocabulary

CSV = 'width,height,kind,price\n1,2.5,oak,10\n3,4,"ash, white",20\n'
JSON_LINES = """
{"width": 1, "height": 2.5, "kind": "oak", "price": 10}
{"width": 3, "height": 4, "kind": "ash, white", "price": 20}
"""


@pytest.mark.parametrize(("name", "content"), [("t.csv", CSV), ("t.jsonl", JSON_LINES)])
def test_rows_become_items(tmp_path, text, name, content):
    text(name, content)
    data = Table(tmp_path, file=name, label="kind", value="price")
    assert data.class_names == ("ash, white", "oak") and len(data) == 2
    item = data[0]
    check_item(item)
    assert item["features"].tolist() == [1, 2.5] and item["features"].dtype == np.float32
    assert (item["label"], item["value"]) == (1, 10) and data[1]["label"] == 0
    assert data.source(1).endswith(":3")


def test_several_classes_may_apply(tmp_path, text, refusal):
    text("t.csv", "x,red,round\n1,1,0\n2,0.5,1\n3,2,0\n")
    data = Table(tmp_path, file="t.csv", labels=("red", "round"))
    check_item(data[1])
    assert data[1]["labels_hot"].tolist() == [0.5, 1] and data[1]["features"].tolist() == [2]
    assert data.class_names == ("red", "round") and data.labels is None
    assert "not a number from 0 to 1\n  found:    red = '2'" in refusal(lambda: data[2])
    both = {"label": "x", "labels": ("red",)}
    assert "label and labels are both set; a row has one class or several" in refusal(
        lambda: Table(tmp_path, file="t.csv", **both)
    )


def test_classes_and_sizes_are_known_without_reading_items(tmp_path, text, refusal):
    text("t.csv", CSV)
    data = Table(tmp_path, file="t.csv", label="kind", features=("width",))
    assert labels_of(data).tolist() == [1, 0]
    data = Table(tmp_path, file="t.csv", label="kind", features=("width",), classes=("oak",))
    assert "a row has an unknown class" in refusal(lambda: labels_of(data))
    text("lines/a.txt", "one\nthree\n")
    lines = TextClasses(tmp_path, folder="lines")
    assert sizes_of(lines).tolist() == [3, 5] and labels_of(lines).tolist() == [0, 0]


def test_a_column_may_name_images(tmp_path, text, picture):
    pixels = picture("photos/a.png")
    text("t.csv", "path,age\na.png,3\n/etc/passwd,4\n")
    data = Table(tmp_path, file="t.csv", image="path", images="photos", value="age")
    np.testing.assert_array_equal(data[0]["image"], pixels)
    assert set(data[0]) == {"image", "size", "value"}


def test_classes_that_are_numbers_sort_by_value(tmp_path, text):
    text("t.tsv", "x\ty\n1\t10\n1\t9\n1\tnone\n")
    assert Table(tmp_path, file="t.tsv", label="y").class_names == ("9", "10", "none")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("1,2,oak", "t.csv:4: the number of fields of a row doesn't match the columns\n  found:    3: 1, 2, oak"),
        ("x,2,oak,1", "t.csv:4: not a number\n  found:    width = 'x'"),
        ("1,nan,oak,1", "not a number\n  found:    height = 'nan'"),
        ("1,,oak,1", "not a number\n  found:    height = ''"),
        ("1,2,elm,1", "a row has an unknown class\n  found:    kind = 'elm'"),
        ("1,2,,1", "a row has no class"),
    ],
)
def test_a_row_that_cant_be_used_is_named(tmp_path, text, refusal, row, says):
    text("t.csv", f"{CSV}{row}\n")
    data = Table(tmp_path, file="t.csv", label="kind", classes=("oak", "ash, white"))
    assert len(data) == 3 and data[1]["label"] == 1
    assert says in refusal(lambda: data[2])


def test_paths_in_a_table_stay_in_the_folder(tmp_path, text, refusal):
    text("t.csv", "path\n../a.png\n")
    assert "leads out of the data set's folder" in refusal(lambda: Table(tmp_path, file="t.csv", image="path")[0])


@pytest.mark.parametrize(
    ("name", "content", "options", "says"),
    [
        ("t.csv", CSV, {"label": "sort"}, "no such column\n  found:    width, height, kind, price\n  expected: sort"),
        ("t.csv", "a,b\n", {}, "the table has no rows"),
        ("t.csv", "", {}, "no column is used"),
        ("t.csv", 'a,b\n1,"2\n', {}, "the file is not CSV"),
        ("t.csv", None, {}, "no such file"),
    ],
)
def test_a_table_that_cant_be_used_is_refused(tmp_path, text, refusal, name, content, options, says):
    if content is not None:
        text(name, content)
    assert says in refusal(lambda: Table(tmp_path, file=name, **options))


def test_a_line_that_is_no_json_is_a_bad_item(tmp_path, text, refusal):
    text("t.jsonl", '{"a": 1}\n{"a": \n[1]\n')
    data = Table(tmp_path, file="t.jsonl")
    assert data[0]["features"].tolist() == [1]
    for index in (1, 2):
        assert f"t.jsonl:{index + 1}: a line is not a JSON object" in refusal(lambda index=index: data[index])


def test_a_table_that_is_no_text_is_refused(tmp_path, refusal):
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    assert "the file is not UTF-8 text" in refusal(lambda: Table(tmp_path, file="t.csv"))


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_every_token_but_the_first_is_predicted_once(tmp_path, text, unit):
    content = "To be, or not to be:\nthat is the question é\n"
    text("a.txt", content)
    data = TextFile(tmp_path, file="a.txt", unit=unit, length=4)
    pieces = [data[index]["tokens"] for index in range(len(data))]
    assert all(len(piece) == 4 and piece.dtype == np.int32 for piece in pieces)
    predicted = np.concatenate([piece[1:] for piece in pieces])
    np.testing.assert_array_equal(predicted, data.tokens[1 : 1 + len(predicted)])
    assert len(data.tokens) - 1 - len(predicted) < 3
    decoded = data.vocabulary.decode(data.tokens)
    assert decoded.split() == (content if unit != "words" else content.replace(",", " ,").replace(":", " :")).split()


def test_a_vocabulary_may_be_cut_to_the_most_frequent():
    known = Vocabulary.of("characters", ["aabbbc"], most=2)
    assert known.tokens == ("<padding>", "<unknown>", "a", "b") and known.encode("abcé").tolist() == [2, 3, 1, 1]
    words = Vocabulary.of("words", ["b a b, c"], most=1)
    assert words.encode("a b").tolist() == [1, 2]
    assert Vocabulary.of("bytes", []).encode("é").tolist() == [0xC3, 0xA9]


def test_lines_of_a_file_are_of_its_class(tmp_path, text):
    text("b.txt", "two\n\nthree\n")
    text("a.txt", "one\n")
    data = TextClasses(tmp_path)
    assert data.class_names == ("a", "b") and len(data) == 3
    assert data.source(2) == f"{tmp_path}/b.txt:3"
    item = data[2]
    check_item(item)
    assert item["label"] == 1 and data.vocabulary.decode(item["tokens"]) == "three"


def test_a_text_too_short_for_an_item_is_refused(tmp_path, text, refusal):
    text("a.txt", "abc")
    assert "shorter than one item\n  found:    3 characters" in refusal(
        lambda: TextFile(tmp_path, file="a.txt", length=4)
    )
