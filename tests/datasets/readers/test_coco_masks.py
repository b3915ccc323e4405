"""COCO's compressed run lengths against pycocotools on random masks, and damaged ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as peer

from trainer import TrainerError
from trainer.datasets.readers.coco_masks import counts_of, mask_of


def counts_by_hand(mask: np.ndarray) -> list[int]:
    """Run lengths down the columns, the first of zeros."""
    flat = np.concatenate([[False], mask.T.ravel()])
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    return np.diff([0, *changes, mask.size]).tolist()


@settings(deadline=None)
@given(st.integers(0, 2**32), st.floats(0.01, 0.99), st.integers(1, 90), st.integers(1, 90))
def test_counts_equal_the_masks_own(seed, share, height, width):
    mask = np.random.default_rng(seed).random((height, width)) < share
    text = peer.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"]
    assert counts_of(text) == counts_by_hand(mask)
    np.testing.assert_array_equal(
        mask_of({"size": [height, width], "counts": text.decode()}, (height, width), "x"), mask
    )


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=40))
def test_any_text_is_a_mask_or_refused(text):
    try:
        assert mask_of({"size": [20, 30], "counts": text}, (20, 30), "x").shape == (20, 30)
    except TrainerError as error:
        assert "run lengths of a mask don't add up to the image" in str(error)


@pytest.mark.parametrize("name", ["nuclei/annotations/instances_val.json"])
def test_real_compressed_masks_decode_to_their_areas(shared_data, name):
    from trainer.datasets.readers.coco import CocoDataset

    data = CocoDataset(
        shared_data / "nuclei", images="images/val", annotations="annotations/instances_val.json", masks=True
    )
    for index in range(0, len(data), 10):
        item = data[index]
        assert item["masks"].sum((1, 2)).tolist() == item["area"].tolist()
