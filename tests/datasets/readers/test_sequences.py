"""Texts, documents and time series: splits, vocabularies, windows, scaling, and data that can't be used."""

from __future__ import annotations

import csv
import os
from datetime import date, timedelta

import numpy as np
import pytest

from trainer.datasets import check_item, loaders
from trainer.datasets.item_properties import labels_of, sizes_of, vocabulary_of
from trainer.datasets.readers import Opening, documents, read_splits
from trainer.datasets.readers.series import Series, following, read_series
from trainer.datasets.readers.text import TextClasses
from trainer.datasets.scaling import Scaling
from trainer.datasets.vocabulary import END, Decoder, Vocabulary

PROSE = "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer\n" * 12
SHARES = {"valid": 0.1, "test": 0.1}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """The splits of a reader's section."""
    from trainer.configs import config_from

    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path / "cache"))

    def of(name, *, seed=0, opening=None, **keys):
        data = {"root": str(tmp_path), "reader": {"name": name, **keys}}
        config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}}).data
        return read_splits(config.reader, config.root, seed=seed, opening=opening or Opening())

    return of


def table(rows, columns):
    return ",".join(columns) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


def days(count, start=date(2024, 2, 20)):
    return [(start + timedelta(days=number)).isoformat() for number in range(count)]


# --- vocabularies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [PROSE, "  \n\t x\r_1²½ naïve 東京 🙂\u0301 ", "<end><padding>"])
def test_byte_pairs_encode_every_text_without_loss(content):
    known = Vocabulary.of("byte_pairs", [PROSE], 300, has_end=True)
    assert len(known) == 300 and known.tokens[known.end] == END
    numbers = known.encode(content)
    assert known.decode(numbers) == content and known.end not in numbers and 0 not in numbers
    assert len(known.encode(PROSE)) < 0.6 * len(PROSE)
    assert Vocabulary(known.unit, known.tokens).encode(content).tolist() == numbers.tolist()


def test_the_most_frequent_pair_is_merged_first():
    """Against a table counted by hand: "lo" occurs 7 times, then "low"; of equal counts the first in the alphabet."""
    known = Vocabulary.of("byte_pairs", ["low low low low low lower lower newest newest"], 262)
    assert known.tokens[257:] == ("lo", "low", "Ġlow", "er", "es")
    assert [known.tokens[number] for number in known.encode("low lowest")] == ["low", "Ġlow", "es", "t"]


def test_a_character_of_several_bytes_is_decoded_when_it_is_complete():
    decoder = Decoder(Vocabulary.of("bytes", []))
    assert [decoder.add(byte) for byte in "é!".encode()] == ["", "é", "!"]
    decoder.add("é".encode()[0])
    assert decoder.finish() == "\ufffd"


@pytest.mark.parametrize("unit", ["characters", "bytes", "byte_pairs"])
def test_the_characters_of_tokens_add_up_to_the_text(unit):
    known = Vocabulary.of(unit, ["naïve 東京"], 260 if unit == "byte_pairs" else None, has_end=True)
    assert known.characters()[known.encode("naïve 東京")].sum() == 8 and known.characters()[known.end] == 0


# --- one text -------------------------------------------------------------------------------------------------------


def test_a_text_is_divided_in_order_and_its_vocabulary_is_that_of_train(read, text):
    content = "ab" * 400 + "abz" * 40 + "ba" * 40
    text("a.txt", content)
    splits = read("text", file="a.txt", length=9, fractions=SHARES)
    assert list(splits) == ["train", "valid", "test"]
    tokens = {name: split.tokens for name, split in splits.items()}
    assert [len(part) for part in tokens.values()] == [800, 100, 100]
    assert splits["train"].class_names == ("<padding>", "<unknown>", "a", "b")
    np.testing.assert_array_equal(tokens["valid"], [2, 3, 1] * 33 + [2])  # z is unknown
    batch = splits["valid"].take(np.array([1, 0]))
    assert batch["tokens"].shape == (2, 9) and batch["length"].tolist() == [9, 9]
    np.testing.assert_array_equal(batch["tokens"][1], splits["valid"][0]["tokens"])
    assert splits["test"].source(0).endswith("a.txt (test): characters 0 to 9")


def test_a_folder_is_one_text_in_the_order_of_its_files(read, text):
    for number in (10, 2, 1):
        text(f"books/{number}.txt", f"chapter {number}. ")
    [whole] = read("text", file="books", length=4).values()
    assert whole.vocabulary.decode(whole.tokens) == "chapter 1. chapter 2. chapter 10. "


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the text is empty\n  found:    0 characters"),
        (b"abc", "the text is shorter than one item\n  found:    3 characters\n  expected: at least 129"),
        (b"one\ntw\xf6" + b"x" * 300, "not UTF-8 text\n  found:    byte 0xf6 at offset 6, line 2"),
    ],
)
def test_a_text_that_cant_be_used_is_refused(read, tmp_path, refusal, content, says):
    (tmp_path / "a.txt").write_bytes(content)
    assert says in refusal(lambda: read("text", file="a.txt"))


def test_a_split_shorter_than_a_window_is_refused(read, text, refusal):
    text("a.txt", "x" * 500)
    said = refusal(lambda: read("text", file="a.txt", fractions=SHARES))
    assert "a.txt (valid): the text is shorter than one item\n  found:    50 characters" in said
    assert "Set a smaller data.reader.length" in said


# --- labeled texts --------------------------------------------------------------------------------------------------

NAMES = {"a": [f"anna{number}" for number in range(100)], "b": [f"bo{number}" for number in range(40)] + ["anna7"] * 9}


def test_equal_texts_are_in_one_split_and_classes_in_equal_proportions(read, text):
    for label, lines in NAMES.items():
        text(f"{label}.txt", "\n".join(lines))
    splits = read("text_classes", fractions=SHARES)
    texts = {name: {split.dataset.texts[index] for index in split.indices} for name, split in splits.items()}
    assert not (texts["train"] & texts["valid"] or texts["train"] & texts["test"] or texts["valid"] & texts["test"])
    assert sum(map(len, splits.values())) == sum(map(len, NAMES.values()))
    assert splits["valid"].vocabulary is splits["train"].vocabulary is splits["train"].dataset.vocabulary is not None
    labels = {name: [int(split[index]["label"]) for index in range(len(split))] for name, split in splits.items()}
    others = {
        name: [sum("anna" in one for one in texts[name]), sum("bo" in one for one in texts[name])] for name in texts
    }
    assert others == {"train": [80, 32], "valid": [10, 4], "test": [10, 4]} and set(labels["test"]) == {0, 1}
    again, other = read("text_classes", fractions=SHARES), read("text_classes", fractions=SHARES, seed=1)
    assert again["test"].indices.tolist() == splits["test"].indices.tolist() != other["test"].indices.tolist()


def test_a_text_column_becomes_tokens(read, text, refusal):
    rows = [(f'"{word}, {number}"', label) for number in range(10) for word, label in (("good", "yes"), ("bad", "no"))]
    text("t.csv", table([*rows, ("", "no")], ["review", "liked"]))
    splits = read("table", file="t.csv", text="review", label="liked", fractions={"valid": 0.2})
    train = splits["train"]
    item = train[0]
    check_item(item)
    assert vocabulary_of(train).decode(item["tokens"]) == "good, 0" and train.class_names == ("no", "yes")
    assert sizes_of(train)[0] == 7 and set(labels_of(splits["valid"])) == {0, 1}
    [whole] = read("table", file="t.csv", text="review", label="liked").values()
    assert "t.csv:22: a row has no text" in refusal(lambda: whole[20])


def test_a_file_of_an_unknown_class_is_refused(read, text, refusal):
    for name in ("train/a", "train/b", "val/a", "val/c"):
        text(f"{name}.txt", "word\n")
    said = refusal(lambda: read("text_classes", folder="{split}"))
    assert "val/c.txt: a file has the name of no class\n  found:    c\n  expected: a, b" in said
    text("val/c.txt", "")
    assert "val/c.txt: a class has no texts\n  found:    an empty file" in refusal(
        lambda: read("text_classes", folder="val")
    )


# --- documents ------------------------------------------------------------------------------------------------------


def test_documents_are_tokenized_once_and_mapped(read, text, tmp_path, monkeypatch):
    for number in range(8):
        text(f"docs/{number}.txt", f"document {number} of a few")
    text("docs/more.jsonl", '{"body": "one more"}\n\n{"body": "and another"}\n')
    keys = {"folder": "docs", "text": "body", "unit": "characters", "length": 8, "fractions": {"valid": 0.2}}
    first = read("documents", **keys)
    train = first["train"]
    texts = [train.vocabulary.decode(part) for part in np.split(train.tokens, np.flatnonzero(train.tokens == 2) + 1)]
    others = first["valid"].vocabulary.decode(first["valid"].tokens)
    assert len(texts) == 9 and texts[-1] == ""
    assert isinstance(train.tokens, np.memmap) and train.tokens.dtype == np.uint16
    assert not any(one and one in others for one in texts)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    monkeypatch.setattr(Vocabulary, "encode", None)
    again = read("documents", **keys)
    np.testing.assert_array_equal(again["valid"].tokens, first["valid"].tokens)
    assert {path: path.stat().st_mtime_ns for path in files} == files and len(files) == 3
    monkeypatch.undo()


def test_documents_that_have_not_changed_are_not_read(read, text, tmp_path, monkeypatch):
    text("docs/a.txt", "some words")
    text("docs/b.jsonl", '{"text": "more"}\n{"text": "of them"}\n')
    keys = {"folder": "docs", "unit": "characters", "length": 4}
    for name in ("a.txt", "b.jsonl"):
        os.utime(tmp_path / "docs" / name, (1e9, 1e9))
    first = read("documents", **keys)["train"].tokens
    with monkeypatch.context() as patch:
        patch.setattr(documents, "read_text", None)
        patch.setattr(documents, "_digest", None)
        np.testing.assert_array_equal(read("documents", **keys)["train"].tokens, first)
    os.utime(tmp_path / "docs" / "a.txt", (1e9, 1e9 + 1))
    assert len(read("documents", **keys)["train"].tokens) == len(first)
    text("docs/a.txt", "same words")
    assert not np.array_equal(read("documents", **keys)["train"].tokens, first)


def test_a_changed_document_is_tokenized_again(read, text, refusal):
    text("docs/a.txt", "first words")
    before = read("documents", folder="docs", unit="characters", length=4)["train"]
    text("docs/a.txt", "other words")
    after = read("documents", folder="docs", unit="characters", length=4)["train"]
    assert after.vocabulary.decode(after.tokens) == "other words" != before.vocabulary.decode(before.tokens)
    text("docs/b.jsonl", '{"title": "no text"}\n')
    said = refusal(lambda: read("documents", folder="docs", unit="characters", length=4))
    assert "b.jsonl:1: a document has no text\n  found:    the fields title\n  expected: text in 'text'" in said


# --- time series ----------------------------------------------------------------------------------------------------


@pytest.fixture
def walk(text):
    """A table of 100 days: a random walk, its negative, and a constant."""
    values = np.cumsum(np.random.default_rng(0).normal(size=100)) + 50
    rows = [(day, value, -value, 7) for day, value in zip(days(100), values.tolist(), strict=True)]
    text("t.csv", table(rows, ["day", "load", "other", "constant"]))
    return values


KEYS = {"file": "t.csv", "date": "day", "targets": ["load"], "features": ["other", "constant"],
        "input_length": 10, "forecast_length": 3}  # fmt: skip


def test_windows_are_scaled_by_the_training_rows_and_divided_in_time(read, walk):
    splits = read("series", **KEYS, fractions={"valid": 0.2, "test": 0.1})
    assert {name: len(split) for name, split in splits.items()} == {"train": 70 - 12, "valid": 18, "test": 8}
    mean, deviation = walk[:70].mean(), walk[:70].std()
    expected = ((walk - mean) / deviation).astype(np.float32)
    first = splits["valid"][0]
    assert first["history"].shape == (10, 3) and first["history"].dtype == np.float32
    np.testing.assert_allclose(first["future"][:, 0], expected[70:73], rtol=1e-6)  # history reaches back into train
    np.testing.assert_allclose(first["history"][:, 0], expected[60:70], rtol=1e-6)
    np.testing.assert_allclose(first["history"][:, 1], -expected[60:70], rtol=1e-5)
    assert not first["history"][:, 2].any()
    last = splits["train"][len(splits["train"]) - 1]
    np.testing.assert_allclose(last["future"][:, 0], expected[67:70], rtol=1e-6)
    scaling = splits["test"].scaling
    restored = Scaling(*(scaling.columns, scaling.means, scaling.deviations))
    np.testing.assert_allclose(restored.unscale(first["future"])[:, 0], walk[70:73], rtol=1e-6)
    assert splits["test"].source(0).endswith("t.csv:82 to 94")


@pytest.mark.parametrize("value", [0.1, 1013.2])
def test_a_constant_column_is_only_centered(value):
    """The standard deviation of equal values may round to 1e-17; divided by it, another value would be huge."""
    scaling = Scaling.of(["constant"], np.full((1000, 1), value))
    assert scaling.deviations == (1,) and abs(scaling.scale(np.array([[value + 1]])) - 1) < 1e-6


def test_windows_are_batches_of_a_loader(read, walk):
    from trainer.configs import config_from

    data = {"root": ".", "reader": {"name": "series", **KEYS}, "batch_size": 8, "shuffle": False}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}})
    from trainer.datasets.readers import mark_read

    splits = mark_read(config.data.reader, read("series", **KEYS, step=5))
    batch = loaders(splits, config)["train"].batch(0, 0)
    assert batch["history"].shape == (8, 10, 3) and batch["future"].shape == (8, 3, 1)
    np.testing.assert_array_equal(batch["history"][1, :5], batch["history"][0, 5:])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((5, 0, ""), "t.csv:7: a row has no time\n  found:    day = ''"),
        ((5, 0, "noon"), "t.csv:7: not a time\n  found:    day = 'noon'\n  expected: ISO 8601"),
        (
            (5, 0, "2024-02-20"),
            "the times of the rows don't increase\n  found:    2024-02-20 after 2024-02-24",
        ),
        ((99, 0, "2024-06-01"), "t.csv:101: the times of the rows have unequal distances"),
        ((5, 0, "2024-02-25T00:00Z"), "t.csv:7: only some times have an offset from UTC"),
        ((5, 1, "nan"), "t.csv:7: not a finite number\n  found:    load = 'nan'"),
        ((5, 2, ""), "t.csv:7: a value of the series is missing\n  found:    other = ''"),
        ((0, None, "load"), "the table has no such column\n  found:    day, x, other, constant\n  expected: load"),
    ],
)
def test_a_series_that_cant_be_used_is_refused(read, walk, tmp_path, refusal, change, says):
    path = tmp_path / "t.csv"
    rows = list(csv.reader(path.open()))
    row, column, value = change
    if column is None:
        rows[0][1] = "x"
    else:
        rows[row + 1][column] = value
    path.write_text("".join(",".join(one) + "\n" for one in rows))
    assert says in refusal(lambda: read("series", **KEYS))
    if "unequal" in says:
        assert len(read("series", **KEYS, regular=False)["train"]) == 88


def test_rows_without_a_number_are_counted_and_in_no_window(read, walk, tmp_path, text, refusal):
    lines = (tmp_path / "t.csv").read_text().splitlines()
    for row in (5, 40):
        day, _, *others = lines[row + 1].split(",")
        lines[row + 1] = ",".join([day, "", *others])
    text("t.csv", "\n".join(lines) + "\n")
    problems = []
    opening = Opening(on_problem=problems.append)
    splits = read("series", **KEYS, fractions={"valid": 0.2, "test": 0.1}, opening=opening)
    assert [error.where.rpartition(":")[2] for error in problems] == ["7", "42"]
    assert len(splits["train"]) == 58 - 6 - 13 and len(splits["valid"]) == 18
    starts = splits["train"]._starts_here
    assert not any(start <= row < start + 13 for start in starts for row in (5, 40))
    for split in splits.values():
        batch = split.take(np.arange(len(split)))
        assert all(np.isfinite(values).all() for values in batch.values())
    known = np.delete(walk[:70], [5, 40])
    assert splits["train"].scaling.means[0] == pytest.approx(known.mean())
    text("t.csv", "\n".join([lines[0], *(",".join([line.split(",")[0], "", "1", "1"]) for line in lines[1:])]) + "\n")
    assert "no training row can be used" in refusal(lambda: read("series", **KEYS, opening=opening))


def test_a_split_without_a_window_is_refused(read, walk, refusal):
    said = refusal(lambda: read("series", **KEYS, fractions={"valid": 0.02}))
    assert (
        "t.csv, split valid: the series is shorter than one window\n  found:    2 rows\n  expected: at least 3" in said
    )


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2024-01-31", "2024-02-29"], ["2024-03-31", "2024-04-30"]),
        (["1960-11", "1960-12"], ["1961-01-01", "1961-02-01"]),
        (["2024-02-27", "2024-02-28"], ["2024-02-29", "2024-03-01"]),
        (["2023-03-01", "2024-03-01"], ["2025-03-01", "2026-03-01"]),
        (["2024-02-28T22:00", "2024-02-28T23:00"], ["2024-02-29T00:00", "2024-02-29T01:00"]),
    ],
)
def test_times_go_on_at_their_distance(text, tmp_path, times, expected):
    text("t.csv", table([(time, 1) for time in times], ["t", "x"]))
    _, read_times, _ = read_series(tmp_path / "t.csv", ["x"], "t")
    assert [time.isoformat()[: max(10, len(times[0]))] for time in following(read_times, 2)] == expected


def test_splits_in_files_share_the_scaling_of_train(read, walk, text, tmp_path):
    text("val.csv", (tmp_path / "t.csv").read_text())
    text(
        "train.csv",
        table([(day, number, 0, 0) for number, day in enumerate(days(30))], ["day", "load", "other", "constant"]),
    )
    splits = read("series", **{**KEYS, "file": "{split}.csv"})
    assert splits["valid"].scaling == splits["train"].scaling and isinstance(splits["valid"], Series)
    assert splits["train"].scaling.means[0] == 14.5


def test_texts_are_in_memory_and_padded_to_few_lengths(read, text):
    from trainer.configs import config_from
    from trainer.datasets.readers import mark_read

    lines = ["x" * length for length in range(1, 65)]
    text("a.txt", "\n".join(lines))
    text("b.txt", "\n".join(line + "y" for line in lines))
    reader = {"name": "text_classes"}
    for keys, expected in [
        ({}, 5), ({"length_steps": 2}, 2), ({"length_steps": [80, 20]}, 2), ({"max_tokens": 70}, 1),
    ]:  # fmt: skip
        data = {"root": ".", "reader": reader, "batch_size": 4, "size_window": 8, **keys}
        config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}})
        loader = loaders(mark_read(config.data.reader, read("text_classes")), config)["train"]
        assert loader.workers.kind == "thread"
        batches = [loader.batch(0, step) for step in range(loader.steps_per_epoch)]
        lengths = {batch["tokens"].shape[1] for batch in batches}
        assert len(lengths) == expected and tuple(sorted(lengths)) == loader.token_lengths
        loader.close()


def test_a_text_longer_than_every_length_is_refused(read, text, refusal):
    from trainer.configs import config_from
    from trainer.datasets.readers import mark_read

    text("a.txt", "short\nfar too long\n")
    data = {"root": ".", "reader": {"name": "text_classes"}, "length_steps": [8], "workers": 0}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}})
    loader = loaders(mark_read(config.data.reader, {"train": read("text_classes")["train"]}), config)["train"]
    said = refusal(lambda: loader.batch(0, 0))
    assert "a.txt:2: an item has more tokens than a batch can hold" in said and "Raise data.length_steps" in said
    assert isinstance(loader.dataset, TextClasses)


def test_one_length_and_several_are_not_set_together():
    from trainer.configs import ConfigError, config_from

    data = {"max_tokens": 8, "length_steps": [8, 16]}
    with pytest.raises(ConfigError, match="set together with 'max_tokens'"):
        config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}})
