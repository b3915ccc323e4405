"""Pascal VOC: items, image sets, coordinates from 1, and XML that can't be used."""

from __future__ import annotations

import pytest

from trainer.datasets import check_item
from trainer.datasets.readers.voc import VocDataset, read_voc


def xml(*objects, size=(30, 20), file_name="a.png"):
    head = f"<filename>{file_name}</filename><size><width>{size[0]}</width><height>{size[1]}</height></size>"
    return f"<annotation>{head}{''.join(objects)}</annotation>"


def thing(name="dog", box=(3, 4, 13, 14), difficult=0):
    edges = "".join(
        f"<{edge}>{value}</{edge}>" for edge, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    )
    return f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox>{edges}</bndbox></object>"


@pytest.fixture
def dataset(tmp_path, picture, text):
    def make(content, **options):
        picture("JPEGImages/a.png")
        text("Annotations/a.xml", content)
        return VocDataset(tmp_path, **options)

    return make


def test_an_item_has_boxes_and_difficult_ones_as_crowd(dataset):
    item = dataset(xml(thing(), thing("cat", (0, 0.5, 30, 20), 1)))[0]
    check_item(item)
    assert item["boxes"].tolist() == [[3, 4, 13, 14], [0, 0.5, 30, 20]]
    assert item["labels"].tolist() == [1, 0] and item["crowd"].tolist() == [False, True]
    assert item["area"].tolist() == [100, 585] and item["size"].tolist() == [20, 30]


def test_coordinates_from_one_are_those_of_the_original_sets(dataset):
    item = dataset(xml(thing(box=(1, 1, 30, 20))), one_based=True)[0]
    assert item["boxes"].tolist() == [[0, 0, 30, 20]]


def test_classes_are_those_that_occur_or_those_that_are_given(dataset):
    assert dataset(xml(thing("b"), thing("a"), thing("b"))).class_names == ("a", "b")
    assert dataset(xml(thing("b")), classes=("c", "b"))[0]["labels"].tolist() == [1]


def test_an_image_set_names_the_items(dataset, tmp_path, picture, text):
    dataset(xml())
    picture("JPEGImages/b.png")
    text("Annotations/b.xml", xml(thing(), file_name="b.png"))
    text("ImageSets/Main/train.txt", "b\n")
    data = VocDataset(tmp_path, image_set="ImageSets/Main/train.txt")
    assert [data.source(index) for index in range(len(data))] == [str(tmp_path / "Annotations/b.xml")]
    assert len(data[0]["boxes"]) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("<annotation>", "the file is not XML, or truncated"),
        ("<html/>", "not a Pascal VOC annotation\n  found:    <html>"),
        (
            xml("<object><name>dog</name></object>"),
            "object 0: an object has no box of four numbers\n  found:    xmin None",
        ),
        (xml(thing(box=(1, "x", 3, 4))), "ymin x"),
        (xml(thing(name="")), "an object has no name"),
        (xml(thing("cow")), "unknown class of an object\n  found:    cow\n  expected: dog, cat"),
        (xml(thing(box=(1, 2, 300, 4))), "a box exceeds the image\n  found:    object 0 (dog)"),
        (xml(thing(box=(1, "nan", 3, 4))), "a box's coordinates are not finite"),
        (xml(thing(box=(5, 2, 5, 4))), "a box has no area"),
        (xml(size=(20, 30)), "the size of the image doesn't match its annotations"),
        (xml(file_name="../a.png"), "a file name leads out of the data set's folder"),
        (xml(file_name="gone.png"), "no such file"),
    ],
)
def test_what_cant_be_used_is_named(dataset, refusal, content, says):
    text = refusal(lambda: dataset(content, classes=("dog", "cat"))[0])
    assert says in text and ("a.xml" in text or "gone.png" in text)


def test_a_file_that_cant_be_read_does_not_keep_the_others_from_opening(dataset, picture, text, refusal, tmp_path):
    text("Annotations/broken.xml", "<annotation>")
    data = dataset(xml(thing()))
    assert data.class_names == ("dog",) and len(data) == 2 and len(data[0]["boxes"]) == 1
    assert "broken.xml: the file is not XML" in refusal(lambda: data[1])
    assert "no such file" in refusal(lambda: read_voc(tmp_path / "none.xml"))
