"""`data.transforms`: every mistake at its place, sizes of one number, custom classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.configs import config_from, dump_resolved, load, load_resolved

BASE = "task: tiny\noptimizer: {name: adam}\ntrain: {epochs: 5}\ndata:\n  transforms:\n    train:\n"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("name: random_crp, size: 8", "7:9 data.transforms.train[0]: expected 'resize', "),
        ("name: random_crop, sizes: 8", "7:29 data.transforms.train[0].sizes: unknown key, did you mean 'size'?"),
        ("name: random_crop", "7:9 data.transforms.train[0].size: required key is missing"),
        ("name: random_crop, size: 0",
         "7:35 data.transforms.train[0].size: expected a number above 0, found 0"),
        ("name: resize, size: [8, 9.5]",
         "7:34 data.transforms.train[0].size[1]: expected an integer, found 9.5"),
        ("name: random_resized_crop, size: 8, scale: [0.5, 1.5]",
         "7:59 data.transforms.train[0].scale[1]: expected a number of at most 1, found 1.5"),
        ("name: random_resized_crop, size: 8, scale: [0.5, 0.2]",
         "7:53 data.transforms.train[0].scale: expected the smaller number first, found 0.5 before 0.2"),
        ("name: horizontal_flip, probability: 1.2",
         "7:46 data.transforms.train[0].probability: expected a number of at most 1, found 1.2"),
        ("name: color_jitter, hue: 0.6",
         "7:35 data.transforms.train[0].hue: expected a number of at most 0.5, found 0.6"),
        ("name: pad, size: 8, multiple: 4",
         "7:40 data.transforms.train[0].multiple: set together with 'size'; expected only one of them"),
        ("name: pad", "7:9 data.transforms.train[0]: one of 'size' and 'multiple' is required"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(problems, section, message):
    found = problems(f"{BASE}      - {{{section}}}\n")
    assert any(line.startswith(f"config.yaml:{message}") for line in found), found


def test_one_number_is_height_and_width():
    sections = [{"name": "resize", "size": 32}, {"name": "letterbox", "size": [4, 6]}]
    data = {"optimizer": {"name": "adam"}, "train": {"epochs": 1}}
    loaded = config_from({**data, "data": {"transforms": {"train": sections}}})
    resize, letterbox = loaded.data.transforms.train
    assert (resize.size, letterbox.size, letterbox.fill) == ((32, 32), (4, 6), 114)


def test_test_splits_are_treated_like_validation_unless_told_otherwise():
    def of(split: str, **transforms):
        data = {"optimizer": {"name": "adam"}, "train": {"epochs": 1}}
        loaded = config_from({**data, "data": {"transforms": transforms}})
        sections = loaded.data.transforms.of(split)
        return sections if sections is None else [section.name for section in sections]

    train, valid = [{"name": "vertical_flip"}], [{"name": "grayscale"}]
    assert of("train", train=train, valid=valid) == ["vertical_flip"]
    assert of("valid", train=train) is None
    assert of("test", train=train, valid=valid) == of("test/night", valid=valid) == ["grayscale"]
    assert of("test", valid=valid, test=[]) == []


def test_a_class_of_ones_own_is_found_from_the_file_that_names_it_and_resolves(gallery, tmp_path: Path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "config.yaml").write_text(
        f"{BASE}      - {{name: ./mine.py:Mine, options: {{least: 3}}}}\n      - {{name: resize, size: 8}}\n"
    )
    loaded = load(str(folder / "config.yaml"), recipes=gallery)
    assert loaded.config.data.transforms.train[0].name == f"{folder / 'mine.py'}:Mine"
    (tmp_path / "resolved.yaml").write_text(dump_resolved(loaded))
    monkeypatch.chdir(tmp_path)
    assert load_resolved(tmp_path / "resolved.yaml", recipes=gallery).config.data == loaded.config.data
