"""What an inspection says of texts and series."""

from __future__ import annotations

from trainer.configs import config_from
from trainer.datasets.inspection import inspect, inspect_splits
from trainer.datasets.readers import read_splits


def splits(root, **reader):
    data = {"root": str(root), "reader": reader}
    config = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}}).data
    return read_splits(config.reader, config.root)


def test_unknown_tokens_and_texts_in_two_splits_are_warnings(tmp_path):
    for name, lines in {
        "train/a": "one\ntwo",
        "train/b": "three",
        "val/a": "one\nxyz",
        "val/b": "three\nthree",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text(lines)
    found, findings = inspect_splits(splits(tmp_path, name="text_classes", folder="{split}"))
    assert found["valid"].found["texts"]["unknown"] == 3 and found["train"].found["texts"]["unknown"] == 0
    said = [(finding.message, finding.found, finding.is_error) for finding in findings]
    assert said == [
        ("valid: 18.8% of the tokens are unknown", "3 of 16", False),
        ("2 texts are both in train and in valid", "3 texts of valid", False),
    ]


def test_byte_pairs_have_no_unknown_tokens_and_a_series_has_a_range(tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be " * 40)
    found = inspect(splits(tmp_path, name="text", file="a.txt", length=9, unit="byte_pairs")["train"])
    assert "unknown" not in found.found["texts"] and not found.bad
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{number},1\n" for number in range(20)))
    keys = {"targets": ["x"], "features": ["y"], "input_length": 3, "forecast_length": 2, "scaling": "none"}
    found = inspect(splits(tmp_path, name="series", file="t.csv", **keys)["train"])
    assert found.found["numbers"]["future"] == {"minimum": 3, "median": 11, "mean": 11, "maximum": 19}
