"""What an inspection counts, and what a contact sheet draws."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from trainer import TrainerError
from trainer.datasets import ArrayDataset
from trainer.datasets.inspection import contact_sheet, inspect
from trainer.datasets.inspection.contact_sheet import SIDE, color, drawn


class Mixed:
    """Three items: two with boxes of 20x40 pixels' pictures, and one that can't be used."""

    class_names = ("cat", "dog")

    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index == 1:
            raise TrainerError("a box has no area", where=self.source(index))
        boxes = np.array([[0, 0, 10, 10], [4, 4, 40, 20]][: index + 1], np.float32)
        return {
            "image": np.full((20, 40, 3), 100, np.uint8),
            "boxes": boxes,
            "labels": np.array([1, 0][: index + 1], np.int64),
            "size": np.array([40, 80], np.int64),
        }

    def source(self, index):
        return f"mixed[{index}]"


def test_boxes_classes_and_sizes_are_counted_at_full_resolution():
    heard = []
    found = inspect(Mixed(), progress=lambda *done: heard.append(done))
    assert (found.items, found.inspected, found.usable) == (3, 3, [0, 2]) and heard == [(1, 3), (2, 3), (3, 3)]
    assert found.reasons == {"a box has no area": 1} and found.bad[0][0] == "mixed[1]"
    assert found.found["classes"] == {"boxes": {"cat": 1, "dog": 2}}
    images, boxes = found.found["images"], found.found["boxes"]
    assert images["most common"] == {"80x40": 2} and images["width"]["mean"] == 80
    assert boxes["boxes"] == 3 and boxes["per image"] == {"minimum": 1, "median": 1.5, "mean": 1.5, "maximum": 2}
    assert boxes["width"] == {"minimum": 20, "median": 20, "mean": 37.3333, "maximum": 72}
    assert boxes["small (below 32x32)"] == 2 and boxes["medium"] == 1
    assert found.fields["boxes"] == "float32 [1, 4]"


def test_a_contact_sheet_has_the_reason_in_the_place_of_a_bad_item(monkeypatch):
    texts = []
    monkeypatch.setattr(ImageDraw.ImageDraw, "multiline_text", lambda pen, place, text, ink: texts.append(text))
    plain = np.asarray(contact_sheet(Mixed(), [1]))
    assert texts == ["a box has no area\n"] and plain[SIDE // 2, SIDE // 2].tolist() == [110, 28, 28]


def test_a_sample_is_spread_evenly():
    dataset = ArrayDataset({"label": np.arange(100) % 10, "features": np.arange(100, dtype=np.float32)[:, None]})
    found = inspect(dataset, most=5)
    assert (found.items, found.usable) == (100, [0, 24, 49, 74, 99])
    assert found.found["numbers"]["features"]["maximum"] == 99 and found.found["classes"]["items"]["9"] == 2


def test_pixels_of_masks_are_counted_and_tokens_too():
    class Texts:
        class_names = ("sky",)

        def __len__(self):
            return 1

        def __getitem__(self, index):
            return {"mask": np.array([[0, 0, 255]], np.uint8), "tokens": np.arange(7, dtype=np.int32)}

        def source(self, index):
            return "text"

    found = inspect(Texts()).found
    assert found["classes"] == {"pixels": {"sky": 2, "(ignored)": 1}} and found["texts"]["tokens"] == 7


def test_an_item_of_the_wrong_form_is_bad():
    class Wrong(Mixed):
        def __getitem__(self, index):
            return {"image": np.zeros((4, 4), np.uint8)}

    found = inspect(Wrong())
    assert found.usable == [] and list(found.reasons) == ["the field 'image' has an invalid form"]


def test_boxes_are_drawn_in_the_color_of_their_class():
    tile = np.asarray(drawn(Mixed()[2], Mixed.class_names))
    assert tile.shape == (SIDE // 2, SIDE, 3)
    factor = SIDE / 40
    assert tuple(tile[int(12 * factor), int(4 * factor)]) == color(0)  # the left edge of the cat
    assert tuple(tile[int(9.9 * factor), 0]) == color(1)
    assert tuple(tile[int(15 * factor), int(20 * factor)]) == (100, 100, 100)


def test_masks_keypoints_and_targets_are_drawn():
    item = {
        "image": np.zeros((10, 10, 1), np.uint8),
        "mask": np.repeat(np.array([[0] * 5 + [255] * 5], np.uint8), 10, axis=0),
        "target": np.full((10, 20, 3), 7, np.uint8),
        "keypoints": np.array([[[8, 5, 2], [2, 5, 0]]], np.float32),
    }
    tile = np.asarray(drawn(item, ("sky",)))
    assert tile.shape == (SIDE, 2 * SIDE, 3)
    assert tuple(tile[20, 20]) == tuple(value // 2 for value in color(0)) and tuple(tile[20, SIDE - 20]) == (0, 0, 0)
    assert tuple(tile[SIDE // 2, int(SIDE * 0.8)]) == (255, 255, 255) and tuple(tile[30, SIDE + 30]) == (7, 7, 7)


def test_a_sheet_has_a_place_for_each_item():
    dataset = ArrayDataset({"image": np.zeros((7, 3, 8, 8), np.uint8), "label": np.arange(7)}, class_names=("a", "b"))
    sheet = contact_sheet(dataset, range(7), columns=3)
    assert isinstance(sheet, Image.Image) and sheet.width > 3 * SIDE and sheet.height > 3 * SIDE
    with pytest.raises(TrainerError, match="a contact sheet needs images"):
        contact_sheet(ArrayDataset({"label": np.arange(3)}), [0])
