"""From the config to data sets: every section names a reader, splits by words and by shares, custom readers."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

from trainer.configs import config_from
from trainer.configs.choice import choice_of
from trainer.configs.readers import READERS, Reading
from trainer.datasets.readers import read_splits

VARIANTS = [choice_of(Reading).section(name) for name in READERS]


@pytest.fixture
def section(tmp_path):
    def of(**reader) -> Reading:
        data = {"root": str(tmp_path), "reader": reader}
        return config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"epochs": 1}}).data.reader

    return of


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if not variant.is_own and variant.code != "auto"])
def test_each_section_names_a_reader_that_takes_its_settings(variant):
    file, _, name = variant.code.partition(":")
    kind = getattr(importlib.import_module(f"trainer.datasets.readers.{file}"), name)
    parameters = set(inspect.signature(kind).parameters) - {"root", "opening"}
    settings = set(variant.model_fields) - set(Reading.model_fields)
    assert settings <= parameters and parameters - settings <= {"vocabulary", "division", "statistics"}


def test_the_splits_that_are_there_are_read(tmp_path, section, picture):
    for name in ("train/dog/1.png", "train/cat/1.png", "validation/dog/2.png"):
        picture(name)
    splits = read_splits(section(name="image_folder", images="{split}"), tmp_path)
    assert {name: len(data) for name, data in splits.items()} == {"train": 2, "valid": 1}
    assert splits["valid"].class_names == ("cat", "dog")  # of train, though there is no folder of cats
    assert splits["valid"][0]["label"] == 1


def test_words_for_the_splits_may_be_given(tmp_path, section, picture, refusal):
    picture("one/dog/1.png")
    config = section(name="image_folder", images="{split}", splits={"train": "one", "test": "two"})
    assert "no such folder\n" in refusal(lambda: read_splits(config, tmp_path))
    picture("two/dog/1.png")
    assert set(read_splits(config, tmp_path)) == {"train", "test"}


def test_no_split_at_all_is_refused(tmp_path, section, refusal):
    says = refusal(lambda: read_splits(section(name="image_folder", images="{split}"), tmp_path))
    assert "no split found\n  found:    nothing at {split} for any of train, training, val" in says
    config = section(name="image_folder", splits={"train": "a"})
    assert "the reader's paths are the same for every split" in refusal(lambda: read_splits(config, tmp_path))


def lines(tmp_path, count):
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{n}\n" for n in range(count)))


def test_shares_are_decided_by_the_seed_and_leave_no_item_out(tmp_path, section):
    lines(tmp_path, 100)
    config = section(name="table", file="t.csv", fractions={"valid": 0.1, "test": 0.25})
    splits = read_splits(config, tmp_path, seed=3)
    numbers = {name: [int(data[n]["features"][0]) for n in range(len(data))] for name, data in splits.items()}
    assert {name: len(items) for name, items in numbers.items()} == {"train": 65, "valid": 10, "test": 25}
    assert sorted(number for part in numbers.values() for number in part) == list(range(100))
    again = read_splits(config, tmp_path, seed=3)["valid"]
    assert [int(again[n]["features"][0]) for n in range(10)] == numbers["valid"]
    other = read_splits(config, tmp_path, seed=4)["valid"]
    assert [int(other[n]["features"][0]) for n in range(10)] != numbers["valid"]


def test_shares_in_order_come_from_the_end(tmp_path, section):
    lines(tmp_path, 10)
    config = section(name="table", file="t.csv", fractions={"valid": 0.2}, fractions_by="order")
    valid = read_splits(config, tmp_path)["valid"]
    assert [int(valid[n]["features"][0]) for n in range(2)] == [8, 9]


@pytest.mark.parametrize(
    ("fractions", "says"),
    [
        ({"valid": 0.001}, "a split has no items\n  found:    train: 10, valid: 0 of 10 items"),
        ({"valid": 0.6, "test": 0.5}, "the fractions can't be taken from train"),
        ({"train": 0.5}, "the fractions can't be taken from train"),
    ],
)
def test_shares_that_cant_be_taken_are_refused(tmp_path, section, refusal, fractions, says):
    lines(tmp_path, 10)
    assert says in refusal(lambda: read_splits(section(name="table", file="t.csv", fractions=fractions), tmp_path))


def test_a_vocabulary_is_that_of_train(tmp_path, section, text):
    text("train.txt", "abc" * 20)
    text("val.txt", "abd" * 20)
    splits = read_splits(section(name="text", file="{split}.txt", length=4), tmp_path)
    assert splits["valid"].class_names == splits["train"].class_names == ("<padding>", "<unknown>", "a", "b", "c")
    np.testing.assert_array_equal(splits["valid"][0]["tokens"], [2, 3, 1, 2])


OWN = """
import numpy as np

class Squares:
    class_names = ()
    def __init__(self, root, split, count=3):
        self.root, self.split, self.count = root, split, count
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        return {"square": np.float32(index**2)}
    def source(self, index):
        return f"{self.split}[{index}]"

class Nothing:
    def __init__(self, root, split):
        pass
"""


def test_a_reader_of_ones_own_is_a_class_in_a_file(tmp_path, section, text, refusal):
    file = text("readers.py", OWN)
    splits = read_splits(
        section(name=f"{file}:Squares", options={"count": 5}, splits={"train": "a", "valid": "b"}), tmp_path
    )
    assert len(splits["valid"]) == 5 and splits["valid"].source(1) == "b[1]" and splits["train"][2]["square"] == 4
    for name, options, says in [
        (f"{file}:Squares", {"cuont": 5}, "the reader doesn't accept these options\n  found:    got an unexpected"),
        (f"{file}:Nothing", {}, "the reader is not a data set"),
        (f"{file}:None_", {}, "no such reader"),
    ]:
        assert says in refusal(
            lambda name=name, options=options: read_splits(section(name=name, options=options), tmp_path)
        )
