"""Pictures on a terminal, against the pixels that they stand for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainer.tui.annotations import COLORS, Layers, boxes_of, outline, run_lengths_of
from trainer.tui.glyphs import ASCII, UNICODE
from trainer.tui.panels.samples import text_lines
from trainer.tui.pictures import Sample, draw_picture, read_sample
from trainer.tui.text import Line


def colours(lines: list[Line]) -> np.ndarray:
    """uint8 [2 * lines, cells, 3]: the pixels that half-blocks show."""
    rows = []
    for line in lines:
        halves: tuple[list[str], list[str]] = ([], [])
        for text, role in line:
            upper, _, lower = role.partition(" on ")
            halves[0].extend([upper] * len(text))
            halves[1].extend([lower] * len(text))
        rows += list(halves)
    return np.array([[[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in row] for row in rows], np.uint8)


NOTHING = Layers(boxes=False, masks=False)


def drawn(image: np.ndarray, width: int, height: int) -> list[Line]:
    return draw_picture(Sample(image, size=image.shape[:2]), width, height, UNICODE, has_color=True, layers=NOTHING)


def test_half_blocks_show_every_pixel_of_a_picture_that_fits() -> None:
    image = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)
    np.testing.assert_array_equal(colours(drawn(image, 9, 3)), image)


@pytest.mark.parametrize(("room", "shown"), [((40, 10), (20, 40)), ((40, 40), (20, 40)), ((10, 40), (4, 10))])
def test_a_picture_keeps_its_proportions(room: tuple[int, int], shown: tuple[int, int]) -> None:
    assert colours(drawn(np.zeros((50, 100, 3), np.uint8), *room)).shape[:2] == shown


def test_without_colour_brightness_is_a_shade() -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    image[:, 2:] = 255
    for glyphs, shades in ((UNICODE, "  ██"), (ASCII, "  @@")):
        lines = draw_picture(Sample(image, size=(4, 4)), 4, 2, glyphs, has_color=False, layers=NOTHING)
        assert ["".join(text for text, _ in line) for line in lines] == [shades, shades]


def test_boxes_stand_where_they_are_in_the_picture() -> None:
    image = np.zeros((40, 80, 3), np.uint8)
    sample = Sample(image, size=(40, 80), annotations={"boxes": [[20, 10, 60, 30]], "classes": ["cell"]})
    lines = draw_picture(sample, 40, 10, UNICODE, has_color=True, layers=Layers())
    is_box = (colours(lines) == COLORS[0]).all(axis=2)
    expected = np.zeros((20, 40), bool)
    expected[5:15, 10:30] = True
    expected[6:14, 11:29] = False
    np.testing.assert_array_equal(is_box, expected)


def test_a_box_outside_the_picture_leaves_it_alone_or_touches_its_edge() -> None:
    pixels = np.zeros((4, 4, 3), np.uint8)
    outline(pixels, [3, 3, 3, 3], (1, 1, 1))  # of no area
    assert not pixels.any()
    outline(pixels, [-9, -9, 99, 2], (1, 1, 1))
    assert pixels[0].all() and pixels[1].all() and not pixels[2:].any()


def test_labels_stand_over_their_box() -> None:
    sample = Sample(np.zeros((40, 40, 3), np.uint8), size=(40, 40),
                    annotations={"boxes": [[8, 8, 30, 30]], "classes": ["red"], "scores": [0.876]})  # fmt: skip
    lines = draw_picture(sample, 40, 20, UNICODE, has_color=True, layers=Layers(labels=True))
    assert "".join(text for text, _ in lines[4])[8:16] == "red 0.88"


@pytest.mark.parametrize(
    "annotations",
    [{}, {"boxes": None}, {"boxes": [[1, 2, 3]]}, {"boxes": [["a", 1, 2, 3]]}, {"boxes": {"0": [1, 2, 3, 4]}}],
)
def test_boxes_of_another_form_are_passed_over(annotations: dict[str, object]) -> None:
    assert boxes_of(annotations) == []


def test_reading_a_sample(tmp_path: Path) -> None:
    Image.new("L", (3000, 2000), 7).save(tmp_path / "a.png")
    (tmp_path / "a.json").write_text(json.dumps({"boxes": []}))
    sample = read_sample(tmp_path / "a.png")
    assert sample is not None and sample.image is not None
    assert sample.size == (2000, 3000) and sample.image.shape[0] * sample.image.shape[1] <= 1024 * 1024
    assert (sample.image == 7).all() and sample.annotations == {"boxes": []}
    Image.new("L", (30, 20), 3).save(tmp_path / "b.mask.png")
    Image.new("L", (30, 20), 7).save(tmp_path / "b.png")
    (tmp_path / "b.json").write_text(json.dumps({"mask": "../elsewhere/b.mask.png"}))
    masked = read_sample(tmp_path / "b.png")
    assert masked is not None and masked.mask is not None and (masked.mask == 3).all(), "never outside of its folder"
    (tmp_path / "c.txt").write_text("words")
    assert read_sample(tmp_path / "c.txt") == Sample(text="words")
    (tmp_path / "c.json").write_text(json.dumps({"prompt": 2}))
    assert read_sample(tmp_path / "c.txt") == Sample(text="words", annotations={"prompt": 2})
    (tmp_path / "torn.png").write_bytes((tmp_path / "a.png").read_bytes()[:100])
    assert read_sample(tmp_path / "torn.png") is None and read_sample(tmp_path / "none.png") is None


def test_masks_tint_what_they_cover_and_their_classes_are_named() -> None:
    mask = np.zeros((40, 80), np.uint8)
    mask[10:30, 20:60] = 2
    mask[0:4, 0:4] = 255  # of no class
    sample = Sample(np.full((40, 80, 3), 100, np.uint8), size=(40, 80), mask=mask,
                    annotations={"class_names": ["background", "cat", "dog"]})  # fmt: skip
    expected = np.full((20, 40, 3), 100)
    expected[5:15, 10:30] = (100 + np.array(COLORS[2])) // 2
    shown = draw_picture(sample, 40, 10, UNICODE, has_color=True, layers=Layers())
    np.testing.assert_array_equal(colours(shown), expected)
    hidden = draw_picture(sample, 40, 10, UNICODE, has_color=True, layers=Layers(masks=False, labels=True))
    assert (colours(hidden) == 100).all()
    *_, legend = draw_picture(sample, 40, 11, UNICODE, has_color=True, layers=Layers(labels=True))
    assert "".join(text for text, _ in legend).split() == ["■", "dog"] and legend[0][1] == "#56b4e9"


def test_the_masks_of_objects_are_run_lengths_as_coco_has_them() -> None:
    mask = np.zeros((5, 7), bool)
    mask[1:4, 2:6] = mask[0, 0] = True
    flat = mask.T.ravel()
    cuts = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff([0, *cuts, flat.size]).tolist()
    region = {"size": [5, 7], "counts": [0, *counts] if flat[0] else counts}
    np.testing.assert_array_equal(run_lengths_of(region), mask)
    annotations = {"boxes": [[0, 0, 1, 1]] * 2, "classes": ["a", "b"], "masks": [None, region]}
    sample = Sample(np.zeros((5, 7, 3), np.uint8), size=(5, 7), annotations=annotations)
    tinted = colours(draw_picture(sample, 7, 3, UNICODE, has_color=True, layers=Layers(boxes=False)))
    np.testing.assert_array_equal(tinted.any(axis=2), mask[:4])
    assert (tinted[mask[:4]] == np.array(COLORS[1]) // 2).all()


@pytest.mark.parametrize(
    "region", [None, 3, {}, {"size": [2, 2]}, {"size": [2, 2], "counts": [1]}, {"size": [2, 2], "counts": [-1, 5]},
               {"size": [2, "x"], "counts": [4]}, {"size": [1 << 20, 1 << 20], "counts": [1 << 40]}],
)  # fmt: skip
def test_run_lengths_of_another_form_are_passed_over(region: object) -> None:
    assert run_lengths_of(region) is None


def test_boxes_of_a_class_have_its_colour_in_every_picture() -> None:
    names = ["cat", "dog", "bird"]
    for classes in (["dog"], ["bird", "dog"]):
        found = boxes_of({"boxes": [[0, 0, 9, 9]] * len(classes), "classes": classes, "class_names": names})
        assert found[-1].color == COLORS[1]


def test_the_prompt_of_a_text_is_bold_and_control_characters_are_left_out() -> None:
    sample = Sample(text="ROMEO:\nbut \x1b[31msoft, what light\n", annotations={"prompt": len("ROMEO:\nbut ")})
    assert text_lines(sample, 40) == [(("ROMEO:", "strong"),), (("but ", "strong"), ("soft, what light", "text"))]
    narrow = text_lines(Sample(text="one two three four", annotations={"prompt": 13}), 9)
    assert narrow == [(("one two ", "strong"),), (("three", "strong"), (" ", "text")), (("four", "text"),)]
    assert text_lines(Sample(text="plain", annotations={"prompt": "x"}), 9) == [(("plain", "text"),)]
