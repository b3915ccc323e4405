"""The IDX reader against a file made by hand, and one clear error for each way a file can be wrong."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from trainer import TrainerError
from trainer.datasets import read_idx, read_idx_pair

NAMES = tuple("0123456789")


def idx(array: np.ndarray, code: int) -> bytes:
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_pair(folder: Path, images: np.ndarray, labels: np.ndarray) -> tuple[Path, Path]:
    paths = folder / "images.gz", folder / "labels"
    paths[0].write_bytes(gzip.compress(idx(images, 8)))
    paths[1].write_bytes(idx(labels, 8))
    return paths


@pytest.mark.parametrize(("dtype", "code"), [("u1", 8), ("i1", 9), ("i2", 11), ("i4", 12), ("f4", 13), ("f8", 14)])
@pytest.mark.parametrize("packed", [False, True])
def test_reads_every_element_type(tmp_path: Path, dtype: str, code: int, packed: bool) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    content = idx(array, code)
    path = tmp_path / "array.idx"
    path.write_bytes(gzip.compress(content) if packed else content)
    read = read_idx(path)
    np.testing.assert_array_equal(read, array)
    assert read.dtype == np.dtype(dtype)


def test_a_pair_becomes_items(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    dataset = read_idx_pair(*write_pair(tmp_path, images, np.array([1, 0, 9, 3, 3], np.uint8)), class_names=NAMES)
    assert len(dataset) == 5 and dataset.class_names == NAMES
    np.testing.assert_array_equal(dataset[2]["image"], images[2][:, :, None])
    assert dataset[2]["label"] == 9 and dataset[2]["label"].dtype == np.int64
    assert "images.gz" in dataset.source(2) and "2" in dataset.source(2)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: b"\x89PNG" + content[4:], "not an IDX file"),
        (lambda content: b"", "not an IDX file"),
        (lambda content: content[:6], "truncated IDX file"),
        (lambda content: content[:-1], "truncated IDX file"),
        (lambda content: content + b"\0", "longer than its header"),
        (lambda content: gzip.compress(content)[:-12], "truncated or damaged gzip file"),
    ],
)
def test_a_damaged_file_is_named_with_what_was_expected(tmp_path: Path, damage: object, message: str) -> None:
    path = tmp_path / "images.idx"
    path.write_bytes(damage(idx(np.zeros((4, 3, 3), np.uint8), 8)))  # type: ignore[operator]
    with pytest.raises(TrainerError, match=message) as caught:
        read_idx(path)
    assert caught.value.where == str(path)


def test_a_missing_file_says_what_is_there_instead(tmp_path: Path) -> None:
    (tmp_path / "train-images.gz").write_bytes(b"")
    with pytest.raises(TrainerError, match=r"no such file[\s\S]*train-images\.gz"):
        read_idx(tmp_path / "images.gz")
    with pytest.raises(TrainerError, match="the folder"):
        read_idx(tmp_path / "nowhere" / "images.gz")


def test_a_huge_shape_in_the_header_is_refused_without_taking_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", *[2**32 - 1] * 3))
    with pytest.raises(TrainerError, match="truncated IDX file"):
        read_idx(path)


def test_images_and_labels_must_belong_together(tmp_path: Path) -> None:
    images = np.zeros((5, 4, 4), np.uint8)
    with pytest.raises(TrainerError, match=r"different numbers[\s\S]*4 labels[\s\S]*5"):
        read_idx_pair(*write_pair(tmp_path, images, np.zeros(4, np.uint8)), class_names=NAMES)
    with pytest.raises(TrainerError, match="don't contain images and labels"):
        read_idx_pair(*reversed(write_pair(tmp_path, images, np.zeros(5, np.uint8))), class_names=NAMES)
    with pytest.raises(TrainerError, match=r"\[3\][\s\S]*label 10"):
        read_idx_pair(*write_pair(tmp_path, images, np.array([0, 1, 2, 10, 4], np.uint8)), class_names=NAMES)
