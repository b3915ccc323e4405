"""Samples as files: the classes by which readers choose colors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trainer.learner.samples import Sample, write_sample

PICTURE = np.zeros((4, 6, 3), np.uint8)


@pytest.mark.parametrize(
    ("sample", "names"),
    [
        (Sample("a", PICTURE, annotations={"boxes": [[0, 0, 2, 2]], "classes": ["dog"]}), ["cat", "dog"]),
        (Sample("a", PICTURE, class_names=("bird",)), ["bird"]),
        (Sample("a", PICTURE, mask=np.ones((4, 6), np.int64), class_names=("sky", "sea")), ["sky", "sea"]),
    ],
    ids=["of the data", "of its own", "of its mask"],
)
def test_a_sample_names_all_classes_so_that_each_has_one_color_everywhere(
    tmp_path: Path, sample: Sample, names: list[str]
) -> None:
    file = write_sample(sample, tmp_path / "samples", tmp_path, ("cat", "dog"))
    assert json.loads(file.with_suffix(".json").read_text())["class_names"] == names


def test_the_length_of_a_prompt_is_written(tmp_path: Path) -> None:
    file = write_sample(Sample("a", text="ROMEO: but soft", prompt=6), tmp_path / "samples", tmp_path)
    assert file.read_text() == "ROMEO: but soft" and json.loads(file.with_suffix(".json").read_text())["prompt"] == 6


def test_without_classes_none_are_named(tmp_path: Path) -> None:
    file = write_sample(Sample("a", PICTURE), tmp_path / "samples", tmp_path)
    assert "class_names" not in json.loads(file.with_suffix(".json").read_text())
