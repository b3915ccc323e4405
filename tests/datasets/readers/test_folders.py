"""Readers of folders: classes, masks, pairs."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from trainer.datasets import check_item
from trainer.datasets.item_properties import sizes_of
from trainer.datasets.readers import files
from trainer.datasets.readers.image_folder import ImageFolder
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.pairs import PairedImages
from trainer.datasets.readers.segmentation import SegmentationFolders


def test_a_folder_is_a_class_and_its_files_are_items(tmp_path, picture):
    pixels = picture("data/dog/10.png", seed=1)
    for name in ("data/dog/2.png", "data/cat/deeper/1.png", "data/cat/.hidden.png"):
        picture(name)
    (tmp_path / "data/cat/notes.txt").touch()
    data = ImageFolder(tmp_path, images="data")
    assert data.class_names == ("cat", "dog") and len(data) == 3
    assert [data.source(n).removeprefix(f"{tmp_path}/data/") for n in range(3)] == [
        "cat/deeper/1.png",
        "dog/2.png",
        "dog/10.png",
    ]
    item = data[2]
    check_item(item)
    np.testing.assert_array_equal(item["image"], pixels)
    assert item["label"] == 1 and item["size"].tolist() == [20, 30]


@pytest.mark.parametrize("reader", [PairedImages, ImageFolder])
def test_reading_a_large_folder_is_told_of_and_can_be_ended(tmp_path, picture, monkeypatch, reader):
    monkeypatch.setattr(files, "FILES_BETWEEN", 2)
    for number in range(5):
        picture(f"one/{number}.png")
    told = []
    reader(tmp_path, opening=Opening(lambda done, total: told.append((done, total))))
    assert told[:2] == [(2, 0), (4, 0)]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reader(tmp_path, opening=Opening(stop))


def test_classes_may_be_given_in_another_order(tmp_path, picture):
    picture("dog/1.png")
    data = ImageFolder(tmp_path, classes=("dog", "cat"))
    assert data[0]["label"] == 0 and data.class_names == ("dog", "cat")


def test_folders_that_are_no_classes_are_refused(tmp_path, picture, refusal):
    picture("dog/1.png")
    picture("rabbit/1.png")
    says = refusal(lambda: ImageFolder(tmp_path, classes=("dog", "cat")))
    assert "rabbit: the folder is not one of the classes\n  found:    rabbit\n  expected: dog, cat" in says
    (tmp_path / "empty/cat").mkdir(parents=True)
    assert "no files of this kind in the folder" in refusal(lambda: ImageFolder(tmp_path, images="empty"))
    assert "no class folders" in refusal(lambda: ImageFolder(tmp_path, images="empty/cat"))


def test_a_link_out_of_the_folder_is_a_bad_item(tmp_path, picture, refusal):
    picture("secret.png")
    picture("data/dog/1.png")
    (tmp_path / "data/dog/2.png").symlink_to(tmp_path / "secret.png")
    data = ImageFolder(tmp_path, images="data")
    assert data[0]["label"] == 0
    assert "a symbolic link leads out of the data set's folder" in refusal(lambda: data[1])


MASK = np.array([[0, 1, 2], [255, 2, 1]], np.uint8)
COLORS = ((0, 0, 0), (255, 0, 0), (0, 255, 0))


@pytest.fixture
def masked(tmp_path, picture):
    def make(mask: Image.Image, name: str = "a.png", **options):
        picture("images/a.png", 2, 3)
        (tmp_path / "masks").mkdir(exist_ok=True)
        mask.save(tmp_path / "masks" / name)
        return SegmentationFolders(tmp_path, classes=("sky", "car", "tree"), **options)

    return make


def test_masks_are_gray_or_palette_indices(masked):
    palette = Image.fromarray(MASK).convert("P")
    palette.putdata(MASK.ravel().tolist())
    palette.putpalette([17, 18, 19] * 256)
    for mask in (Image.fromarray(MASK), palette, Image.fromarray(MASK.astype(np.uint16))):
        item = masked(mask)[0]
        check_item(item)
        assert item["mask"].tolist() == MASK.tolist() and item["mask"].dtype == np.uint8


def test_masks_of_one_bit_have_two_classes(masked):
    assert masked(Image.fromarray(MASK == 1))[0]["mask"].tolist() == (MASK == 1).tolist()


def test_values_and_colors_that_dont_count_become_255(masked):
    assert masked(Image.fromarray(np.where(MASK == 255, 9, MASK)), ignore=(9,))[0]["mask"].tolist() == MASK.tolist()
    colors = np.array([*COLORS, (9, 9, 9)], np.uint8)[np.where(MASK == 255, 3, MASK)]
    data = masked(Image.fromarray(colors), colors=COLORS, ignore_colors=((9, 9, 9),))
    assert data[0]["mask"].tolist() == MASK.tolist()


@pytest.mark.parametrize(
    ("mask", "options", "says"),
    [
        (Image.fromarray(MASK), {"ignore": ()}, "a mask contains a value without a class\n  found:    255 (1 pixels)"),
        (Image.fromarray(MASK[:1]), {}, "the size of a mask doesn't match its image\n  found:    "),
        (Image.new("RGB", (3, 2)), {}, "a mask contains colors, but no table of colors is set"),
        (Image.new("RGB", (3, 2), (1, 2, 3)), {"colors": COLORS},
         "a mask contains a color without a class\n  found:    (1, 2, 3)"),
    ],
)  # fmt: skip
def test_a_mask_that_cant_be_used_is_named(masked, refusal, mask, options, says):
    assert says in refusal(lambda: masked(mask, **options)[0])


def test_sizes_are_known_from_the_heads_of_the_masks(masked):
    data = masked(Image.fromarray(MASK))
    assert sizes_of(data).tolist() == [list(MASK.shape)]
    assert sizes_of(data)[0].tolist() == data[0]["size"].tolist()


def test_masks_may_have_a_suffix(masked):
    assert masked(Image.fromarray(MASK), "a_mask.png", mask_suffix="_mask")[0]["mask"].tolist() == MASK.tolist()


def test_images_without_mask_and_masks_without_image_are_told_of(masked, refusal):
    assert "b.png: a mask without an image" in refusal(lambda: masked(Image.fromarray(MASK), "b.png"))
    heard = []
    data = masked(Image.fromarray(MASK), "b.png", opening=Opening(on_problem=heard.append))
    assert "an image without a mask" in refusal(lambda: data[0]) and len(heard) == 1


def test_colors_must_be_one_a_class(masked, refusal):
    mask = Image.fromarray(MASK)
    assert "each class needs a color" in refusal(lambda: masked(mask, colors=COLORS[:2]))
    assert "two classes have the same color" in refusal(lambda: masked(mask, colors=(COLORS[0], *COLORS[:2])))


@pytest.mark.parametrize(("direction", "first"), [("left_to_right", "image"), ("right_to_left", "target")])
def test_pairs_side_by_side_are_halves(tmp_path, picture, direction, first):
    pixels = picture("a.png", 20, 30)
    item = PairedImages(tmp_path, direction=direction)[0]
    check_item(item)
    np.testing.assert_array_equal(item[first], pixels[:, :15])
    np.testing.assert_array_equal(item["target" if first == "image" else "image"], pixels[:, 15:])
    assert item["size"].tolist() == [20, 15]


def test_pairs_of_two_folders_have_one_name(tmp_path, picture, refusal):
    images = [picture("photos/a.png", seed=1), picture("maps/a.png", 40, 60, seed=2)]
    data = PairedImages(tmp_path, images="photos", targets="maps")
    np.testing.assert_array_equal(data[0]["image"], images[0])
    np.testing.assert_array_equal(data[0]["target"], images[1])
    picture("photos/b.png")
    data = PairedImages(tmp_path, images="photos", targets="maps")
    assert "an image without a target" in refusal(lambda: data[1])
    picture("maps/c.png")
    assert "a target without an image" in refusal(lambda: PairedImages(tmp_path, images="photos", targets="maps"))


def test_two_halves_need_an_even_width(tmp_path, picture, refusal):
    picture("a.png", 20, 31)
    assert "the width of a file with two images is odd\n  found:    31 pixels" in refusal(
        lambda: PairedImages(tmp_path)[0]
    )


def test_two_files_of_one_name_are_refused(tmp_path, picture, refusal):
    picture("images/a.png", 2, 3)
    picture("images/a.jpg", 2, 3)
    Image.fromarray(MASK).save(tmp_path / "a.png")
    says = refusal(lambda: SegmentationFolders(tmp_path, masks=".", classes=("a",), opening=Opening(on_problem=print)))
    assert "two files have the same name except for the extension" in says
