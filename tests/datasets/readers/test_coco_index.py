"""The index of a COCO file against pycocotools, and files that are not what they should be."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO

from trainer import TrainerError
from trainer.datasets.readers.coco_index import index_coco


def document(**changes: Any) -> dict[str, Any]:
    """Two images, sparse category ids, three annotations, not in the order of the images."""
    return {
        "images": [
            {"id": 70, "file_name": "b.jpg", "height": 20, "width": 30},
            {"id": 7, "file_name": "a.jpg", "height": 40, "width": 50},
        ],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 2, "name": "bicycle"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0},
            {"id": 2, "image_id": 70, "category_id": 2, "bbox": [0, 0, 5.5, 6.25], "iscrowd": 1},
            {"id": 3, "image_id": 7, "category_id": 2, "bbox": [9, 8, 7, 6], "area": 30.5, "iscrowd": 0},
        ],
        **changes,
    }


GOOD = {"id": 5, "image_id": 70, "category_id": 2, "bbox": [1, 2, 3, 4]}


def written(tmp_path: Path, content: Any) -> Path:
    file = tmp_path / "annotations.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_annotations_are_grouped_by_image_with_contiguous_labels(tmp_path):
    index = index_coco(written(tmp_path, document()))
    assert index.image_ids.tolist() == [70, 7] and index.sizes.tolist() == [[20, 30], [40, 50]]
    assert index.category_ids.tolist() == [2, 90] and index.category_names == ("bicycle", "toothbrush")
    assert index.ids[index.of_image(0)].tolist() == [2] and index.ids[index.of_image(1)].tolist() == [1, 3]
    assert index.labels.tolist() == [0, 1, 0] and index.crowd.tolist() == [True, False, False]
    assert index.areas.tolist() == [5.5 * 6.25, 12, 30.5]  # the box's where the file gives none
    assert index.boxes[index.of_image(1)].tolist() == [[1, 2, 3, 4], [9, 8, 7, 6]]
    assert index.image_rows().tolist() == [0, 1, 1] and index.image_row(7) == 1


@pytest.mark.parametrize("file", ["annotations/instances_train.json", "annotations/instances_val.json"])
def test_columns_equal_pycocotools_on_real_annotations(shared_data, file):
    path = shared_data / "coco_subset" / file
    with contextlib.redirect_stdout(io.StringIO()):
        peer = COCO(str(path))
    index = index_coco(path)
    assert index.image_ids.tolist() == list(peer.imgs) and index.category_ids.tolist() == sorted(peer.cats)
    content = path.read_bytes()
    for row, image_id in enumerate(index.image_ids):
        here = index.of_image(row)
        theirs = peer.imgToAnns[int(image_id)]
        assert index.ids[here].tolist() == [one["id"] for one in theirs]
        assert index.boxes[here].tolist() == [one["bbox"] for one in theirs]
        assert index.areas[here].tolist() == [one["area"] for one in theirs]
        assert index.crowd[here].tolist() == [bool(one["iscrowd"]) for one in theirs]
        assert index.category_ids[index.labels[here]].tolist() == [one["category_id"] for one in theirs]
        for (start, length), one in zip(index.segmentations[here], theirs, strict=True):
            assert json.loads(content[start : start + length]) == one["segmentation"]


def test_progress_counts_annotations_to_the_end(tmp_path):
    heard: list[tuple[int, int]] = []
    index_coco(written(tmp_path, document()), lambda done, total: heard.append((done, total)))
    assert heard == [(3, 3)]


def test_a_file_without_images_or_annotations_is_an_empty_index(tmp_path):
    index = index_coco(written(tmp_path, document(images=[], annotations=[])))
    assert len(index) == 0 and index.boxes.shape == (0, 4) and index.first.tolist() == [0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1, 2]", "annotations.json: the JSON doesn't have the expected form\n  found:    Expected object, got array"),
        ({"images": []}, "Object missing required field annotations"),
        (document(images={}), "annotations.json: images: the JSON doesn't have the expected form"),
        (document(images=[{"id": "x", "file_name": "a"}]), "annotations.json: images[0].id: the JSON"),
        (document(annotations=[{"id": 1}]),
         "annotations[0]: the JSON doesn't have the expected form\n  found:    Object"),
        (document(categories=[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]), "two categories have the same id"),
        ("", "the file is empty"),
        ("<xml/>", "not a JSON file"),
        ('{"images": [', "truncated JSON"),
        ('{"images": [NaN', "truncated JSON"),
    ],
)  # fmt: skip
def test_a_file_of_the_wrong_form_is_refused(tmp_path, content, says):
    with pytest.raises(TrainerError) as caught:
        index_coco(written(tmp_path, content))
    assert says in str(caught.value)


def test_a_missing_file_is_reported_with_what_is_there(tmp_path):
    written(tmp_path, document())
    with pytest.raises(TrainerError, match=r"no such file\n  found:    in that folder: annotations.json"):
        index_coco(tmp_path / "instances.json")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bbox": [1, 2, 3]}, "annotation 5: Expected array of length 4 at bbox"),
        ({"bbox": [float("nan"), 2, 3, 4]}, 'got NaN or Infinity at bbox[0] in {"bbox": [NaN, 2, 3, 4]'),
        ({"bbox": [1, 2, float("-inf"), 4]}, "at bbox[2]"),
        ({"id": 10**30}, "Expected int <= 9223372036854775807 at id"),
        ({"category_id": 3}, "annotation 5 is of category 3, which is not in the file"),
        ({"id": 3}, "annotation id 3 is used by two annotations"),
    ],
)
def test_a_wrong_annotation_is_a_problem_of_its_image_alone(tmp_path, changes, problem):
    extra = {**changes, **{key: value for key, value in GOOD.items() if key not in changes}}
    index = index_coco(written(tmp_path, document(annotations=[*document()["annotations"], extra])))
    assert problem in " ".join(index.problems[0])
    assert 1 not in index.problems or "two annotations" in problem
    assert index.ids[index.of_image(1)].tolist() == [1, 3]


def test_an_image_id_given_twice_is_a_problem_of_both(tmp_path):
    images = [*document()["images"], {"id": 70, "file_name": "c.jpg"}]
    index = index_coco(written(tmp_path, document(images=images)))
    assert index.problems == {row: ["image id 70 is used by another image, too"] for row in (0, 2)}
    assert np.diff(index.first).tolist() == [1, 2, 0]


def test_an_annotation_of_no_image_is_kept_apart(tmp_path):
    stray = {"id": 9, "image_id": 123, "category_id": 2, "bbox": [1, 2, 3, 4]}
    index = index_coco(written(tmp_path, document(annotations=[stray])))
    assert index.unattached == ("annotation 9 is of image 123, which is not in the file",)
    assert len(index.ids) == 0


@given(st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_read_or_refused(tmp_path, data):
    """Never another exception than TrainerError, whatever bytes are changed."""
    content = bytearray(json.dumps(document()).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.just(b"999999999999999999999")
        )
    (tmp_path / "a.json").write_bytes(content)
    with contextlib.suppress(TrainerError):
        assert len(index_coco(tmp_path / "a.json")) <= 2
