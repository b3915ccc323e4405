"""A data set's own files can't name anything outside its folder."""

from __future__ import annotations

import pytest

from trainer import TrainerError
from trainer.datasets.paths import folder, natural, within


@pytest.mark.parametrize("name", ["a.jpg", "deep/er/a.jpg", "..a/b..jpg", "windows\\a.jpg"])
def test_names_below_the_root_are_its_files(tmp_path, name):
    assert within(tmp_path, name, "x.json") == tmp_path / name.replace("\\", "/")


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../a.jpg", "a/../../b", "..", "C:\\a.jpg", "a\\..\\..\\b", "", "a\0b"]
)
def test_names_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(TrainerError) as caught:
        within(tmp_path, name, "x.json: image 3")
    assert str(caught.value).startswith("x.json: image 3: a file name ") and repr(name) in str(caught.value)


def test_a_link_that_leads_out_is_refused_and_one_that_stays_is_not(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.jpg").touch()
    (root / "inside.jpg").touch()
    (root / "out.jpg").symlink_to(tmp_path / "secret.jpg")
    (root / "folder").symlink_to(tmp_path)
    (root / "in.jpg").symlink_to(root / "inside.jpg")
    assert within(root, "in.jpg", "x").name == "in.jpg"
    for name in ("out.jpg", "folder/secret.jpg"):
        with pytest.raises(TrainerError, match="a symbolic link leads out of the data set's folder"):
            within(root, name, "x")


def test_the_root_itself_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    assert within(tmp_path / "root", "a.jpg", "x") == tmp_path / "root" / "a.jpg"


def test_a_missing_folder_is_told_with_what_is_beside_it(tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(TrainerError, match=f"no such folder\n  found:    in {tmp_path}: images"):
        folder(tmp_path / "imgs")
    (tmp_path / "file").touch()
    with pytest.raises(TrainerError, match="not a folder"):
        folder(tmp_path / "file")


def test_names_sort_as_people_sort_them():
    names = ["10.jpg", "2.jpg", "a2b10", "a2b9", "a.jpg", "1.jpg"]
    assert sorted(names, key=natural) == ["1.jpg", "2.jpg", "10.jpg", "a2b9", "a2b10", "a.jpg"]


def test_names_of_any_digits_are_sorted():
    assert sorted(["10", "²", "2", "٣"], key=natural) == ["2", "٣", "10", "²"]
