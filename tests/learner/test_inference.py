"""Steps before and after the network: places in the original picture, plain data and back, what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from pycocotools import mask as coding

from trainer import TrainerError, engine
from trainer.datasets.transforms import ItemDraws
from trainer.datasets.transforms.build import transforms_for
from trainer.learner import inference
from trainer.learner.inference import (
    Decode,
    LabelPixels,
    Pipeline,
    SelectByScore,
    StretchGray,
    Tile,
    ToPixels,
    TransformPicture,
    finish,
    prepare,
    steps_from_json,
    steps_to_json,
)
from trainer.learner.inference.placing import placed
from trainer.learner.inference.results import RESULTS, Detections, SemanticMask, result_from

TRANSFORMS = {
    "resize": {"size": (32, 48)},
    "resize_shorter_side": {"size": 24, "longest": 40},
    "resize_to_multiple": {"multiple": 16},
    "letterbox": {"size": (50, 40), "fill": 114},
    "pad": {"size": (70, 96), "fill": 0},
    "center_crop": {"size": (40, 90), "fill": 0, "min_visible": 0.0},
}


def pipeline_of(
    *steps: inference.Step, finish: tuple[inference.Step, ...] = (), names: tuple[str, ...] = ()
) -> Pipeline:
    return Pipeline("semantic", names, (Decode(), *steps), lambda images: {}, finish)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_boxes_come_back_to_where_the_transform_took_them_from(name):
    """Against the transforms' own way with boxes."""
    step = TransformPicture(name, TRANSFORMS[name])
    picture = np.zeros((60, 80, 3), np.uint8)
    boxes = np.array([[30, 15, 50, 45], [26, 12, 41, 33]], np.float32)
    item = {"image": picture, "boxes": boxes, "labels": np.zeros(2, np.int64), "placement": np.eye(3, dtype=np.float32)}
    moved = step.made()(item, ItemDraws(0, 0, 0))
    rows, placement = prepare(pipeline_of(step), picture)
    assert rows.shape == (1, 3, *moved["image"].shape[:2])
    found = placement.boxes(moved["boxes"])
    np.testing.assert_allclose(found, boxes, atol=1e-4)
    with engine.device("reference"):  # as validation measures them
        validated = placed(engine.asarray(moved["boxes"][None]), engine.asarray(moved["placement"][None]))
        assert found.tobytes() == validated.numpy().tobytes()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_labels_come_back_to_the_pixels_that_they_are_of(name):
    """The picture's left half is 1, its right half 2; a transformed picture's labels are what it shows."""
    picture = np.full((60, 80, 3), 100, np.uint8)
    picture[:, 40:] = 200
    step = TransformPicture(name, TRANSFORMS[name])
    rows, placement = prepare(pipeline_of(step), picture)
    labels = np.where(rows[0, 0] > 150, 2, 1).astype(np.uint8)
    found = placement.labels(labels)
    assert found.shape == (60, 80)
    inside = slice(10, 50) if name == "center_crop" else slice(None)  # what was cut off has no label
    assert (found[inside, :38] == 1).all()
    assert (found[inside, 42:] == 2).all()
    if name == "center_crop":
        assert not found[:10].any()


def test_windows_are_put_together_to_the_picture():
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 3, (150, 97, 1), np.uint8).repeat(3, axis=2)
    pipeline = pipeline_of(Tile(64, 12), finish=(LabelPixels(),))
    rows, placement = prepare(pipeline, picture)
    assert len(rows) == len(placement.windows) > 1
    scores = np.stack([rows[:, 0] == number for number in range(3)], axis=1).astype(np.float32)
    assert np.array_equal(finish(pipeline, {"scores": scores}, placement)["labels"], picture[..., 0])


def test_a_picture_of_floats_becomes_pixels_without_its_border():
    pipeline = pipeline_of(TransformPicture("pad", {"size": (70, 96)}), finish=(ToPixels(),))
    _, placement = prepare(pipeline, np.zeros((60, 80, 3), np.uint8))
    picture = np.full((1, 3, 70, 96), 0.5, np.float32)
    found = finish(pipeline, {"picture": picture}, placement)["image"]
    assert found.shape == (60, 80, 3)
    assert (found == 191).all()  # 1.5 * 127.5 is 191.25


def test_selected_instances_are_numbered_anew():
    arrays = {
        "segments": np.array([[0, 1, 2, 3]], np.int32), "scores": np.array([0.5, 0.1, 0.9]),
        "classes": np.array([0, 0, 1]),
    }  # fmt: skip
    found = SelectByScore(0.4)(arrays, None)  # type: ignore[arg-type]
    assert found["segments"].tolist() == [[0, 2, 0, 1]]
    assert found["scores"].tolist() == [0.9, 0.5]
    assert SelectByScore(0.4, (1,))(arrays, None)["segments"].tolist() == [[0, 0, 0, 1]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "not a list of steps"),
        ([3], "not a step"),
        ([{"name": "shell", "version": 1}], "unknown step"),
        ([{"name": "softmax", "version": 2}], "unknown version of the step softmax"),
        ([{"name": "tile", "version": 1, "size": 3}], "unknown parameters of the step tile"),
        ([{"name": "transform", "version": 1, "transform": "os", "settings": {}}], "invalid parameters of the step"),
        ([{"name": "transform", "version": 1, "transform": "resize", "settings": {"x": 1}}], "invalid parameters"),
    ],
)
def test_steps_that_are_none_are_refused(data, message):
    with pytest.raises(TrainerError, match=message):
        steps_from_json(data, where="model")


def test_steps_survive_plain_data():
    steps = (Decode(1, (8, 8)), TransformPicture("pad", {"size": (8, 8)}), StretchGray(), SelectByScore(0.25, (1, 2)))
    assert steps_from_json(steps_to_json(steps), where="model")[0] == steps[0]
    assert [step["version"] for step in steps_to_json(steps)] == [1, 1, 1, 1]


def test_transforms_of_a_config_are_those_of_the_step():
    """A step makes the transform that `data.transforms` makes, with the same settings."""
    from trainer.configs import config_from

    sections = [
        {"name": name, **{key: value for key, value in settings.items()}} for name, settings in TRANSFORMS.items()
    ]
    config = config_from(
        {"data": {"transforms": {"valid": sections}}, "optimizer": {"name": "sgd"}, "train": {"steps": 1}}
    )
    steps = inference.preparation(config)[1:]
    made = transforms_for(config.data.transforms.of("valid") or (), ())
    assert [step.made() for step in steps] == made  # type: ignore[attr-defined]


def test_results_say_what_they_hold_in_plain_data():
    picture = np.zeros((20, 30, 3), np.uint8)
    segments = np.zeros((20, 30), np.int32)
    segments[2:8, 3:9], segments[10:14, 20:25] = 1, 2
    result = result_from(
        "instances", {"segments": segments, "scores": np.array([0.9, 0.5]), "classes": np.array([0, 1])},
        path=None, picture=picture, size=(20, 30), names=("cat", "dog"), category_ids=(17, 18),
    )  # fmt: skip
    assert isinstance(result, Detections)
    assert result.boxes.tolist() == [[3, 2, 9, 8], [20, 10, 25, 14]]
    entries = result.to_coco(5)
    assert [entry["category_id"] for entry in entries] == [17, 18]
    assert entries[0]["bbox"] == [3, 2, 6, 6]
    coded = coding.frPyObjects(entries[1]["segmentation"], 20, 30)
    assert np.array_equal(coding.decode(coded), segments == 2)
    plain = result.to_dict()
    assert (plain["version"], plain["kind"], plain["size"]) == (1, "instances", [20, 30])
    assert [one["name"] for one in plain["objects"]] == ["cat", "dog"]
    drawn = result.drawn()
    assert drawn.shape == picture.shape
    assert not np.array_equal(drawn[4, 5], drawn[11, 22])  # a color of its own for each
    assert not drawn[0, 29].any()


def test_labels_are_covered_by_colors_of_their_classes():
    labels = np.zeros((200, 200), np.uint8)
    labels[:, 100:] = 1
    result = SemanticMask(
        None, (200, 200), ("background", "road"), picture=np.zeros((200, 200, 3), np.uint8), labels=labels
    )
    assert not result.drawn()[150, :99].any()
    assert result.drawn()[150, 101:].any()
    assert result.shares == {"background": 0.5, "road": 0.5}


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_without_a_prediction_says_why(kind, tmp_path):
    result = RESULTS[kind]("bad.png", (0, 0), ("a",), "damaged image\n  found: 3 bytes")
    assert len(result) == 0
    assert result.to_dict()["error"].startswith("damaged image")
    assert repr(result).endswith("bad.png: damaged image>")
    with pytest.raises(TrainerError, match="no prediction to draw"):
        result.save(tmp_path / "out.png")
