"""Colors, blur and noise against their definitions in NumPy, SciPy, scikit-image and the standard library."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from scipy import ndimage, stats
from skimage.color import yiq2rgb

from trainer import TrainerError
from trainer.datasets import ItemDraws
from trainer.datasets.transforms import ColorJitter, Cutout, GaussianBlur, GaussianNoise, Grayscale, Normalize
from trainer.datasets.transforms.color import color_map, mean_gray, recolored

IMAGE = np.random.default_rng(0).integers(40, 200, (24, 32, 3), dtype=np.uint8)
PICTURE = Image.fromarray(IMAGE)


@pytest.mark.parametrize(("name", "argument"), [("Brightness", 0), ("Contrast", 1), ("Color", 2)])
@pytest.mark.parametrize("factor", [0.0, 0.6, 1.2])
def test_a_change_of_one_kind_is_that_of_pillow(name: str, argument: int, factor: float) -> None:
    factors = [1.0, 1.0, 1.0]
    factors[argument] = factor
    ours = recolored(PICTURE, color_map(*factors, 0.0, mean_gray(PICTURE)))
    expected = np.asarray(getattr(ImageEnhance, name)(PICTURE).enhance(factor))
    assert np.abs(ours.astype(int) - expected).max() <= 1


def test_hue_turns_the_colors_of_yiq_and_leaves_gray_alone() -> None:
    half_turn = recolored(PICTURE, color_map(1, 1, 1, 0.5, 0))
    red, green, blue = np.moveaxis(IMAGE / 255, 2, 0)
    yiq = np.stack(np.vectorize(colorsys.rgb_to_yiq)(red, green, blue), axis=2) * (1, -1, -1)
    expected = np.clip(255 * yiq2rgb(yiq), 0, 255)
    assert np.abs(half_turn - expected).max() < 2.5  # colorsys rounds its matrix to two digits
    gray = np.full((4, 4, 3), 77, np.uint8)
    np.testing.assert_array_equal(recolored(Image.fromarray(gray), color_map(1, 1, 1, 0.3, 0)), gray)


def test_several_changes_are_one_after_the_other_where_nothing_is_cut_off() -> None:
    both = recolored(PICTURE, color_map(0.9, 0.7, 0.5, 0.0, mean_gray(PICTURE)))
    step = recolored(PICTURE, color_map(0.9, 1, 1, 0, 0))
    step = recolored(Image.fromarray(step), color_map(1, 0.7, 1, 0, mean_gray(Image.fromarray(step))))
    step = recolored(Image.fromarray(step), color_map(1, 1, 0.5, 0, 0))
    assert np.abs(both.astype(int) - step).max() <= 2


def test_jitter_draws_from_the_range_asked_for() -> None:
    flat = {"image": np.full((2, 2, 3), 100, np.uint8)}
    jitter = ColorJitter(brightness=0.4)
    drawn = np.array([jitter(flat, ItemDraws(0, 0, index))["image"][0, 0, 0] for index in range(1000)])
    assert drawn.min() in (60, 61) and drawn.max() in (139, 140)
    assert abs(drawn.mean() - 100) < 2
    dark = np.array([ColorJitter(brightness=3.0)(flat, ItemDraws(0, 0, i))["image"].min() for i in range(100)])
    assert dark.min() < 20


def test_a_gray_image_changes_in_brightness_and_contrast_alone() -> None:
    gray = IMAGE[..., :1]
    changed = ColorJitter(saturation=0.9, hue=0.5)({"image": gray}, ItemDraws(0, 0, 0))["image"]
    assert np.abs(changed.astype(int) - gray).max() <= 1
    jitter = ColorJitter(0.5, 0.5)
    colored = jitter({"image": np.repeat(gray, 3, 2)}, ItemDraws(0, 0, 0))["image"]
    assert np.abs(jitter({"image": gray}, ItemDraws(0, 0, 0))["image"].astype(int) - colored[..., :1]).max() <= 1


def test_floats_change_as_bytes_do() -> None:
    jitter = ColorJitter(0.4, 0.4, 0.4, 0.1)
    floats = jitter({"image": IMAGE.astype(np.float32) / 255}, ItemDraws(0, 0, 3))["image"]
    assert np.abs(255 * floats - jitter({"image": IMAGE}, ItemDraws(0, 0, 3))["image"]).max() <= 1.01


def test_gray_is_that_of_pillow() -> None:
    expected = np.asarray(PICTURE.convert("L"))
    gray = Grayscale()({"image": IMAGE}, ItemDraws(0, 0, 0))["image"]
    np.testing.assert_array_equal(gray, np.repeat(expected[..., None], 3, axis=2))
    floats = Grayscale()({"image": IMAGE.astype(np.float32) / 255}, ItemDraws(0, 0, 0))["image"]
    assert np.abs(255 * floats - gray).max() <= 1
    assert Grayscale(channels=1)({"image": IMAGE}, ItemDraws(0, 0, 0))["image"].shape == (24, 32, 1)
    assert Grayscale(channels=3)({"image": IMAGE[..., :1]}, ItemDraws(0, 0, 0))["image"].shape == (24, 32, 3)


@pytest.mark.parametrize("sigma", [0.8, 2.0, 4.0])
def test_blur_is_near_the_gaussian_filter(sigma: float) -> None:
    image = np.zeros((41, 41, 1), np.uint8)
    image[14:27, 16:25] = 240
    ours = GaussianBlur((sigma, sigma))({"image": image}, ItemDraws(0, 0, 0))["image"][..., 0]
    expected = ndimage.gaussian_filter(image[..., 0].astype(float), sigma)
    assert np.abs(ours - expected).max() < 0.05 * 240


def test_blur_of_floats_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"float32\[24, 32, 3\][\s\S]*before normalize"):
        GaussianBlur()({"image": IMAGE.astype(np.float32)}, ItemDraws(0, 0, 0))


def test_noise_is_normal_and_of_the_deviation_asked_for() -> None:
    flat = np.full((200, 200, 3), 128, np.uint8)
    noise = GaussianNoise((0.05, 0.05))({"image": flat}, ItemDraws(0, 0, 0))["image"].astype(float) - 128
    np.testing.assert_allclose([noise.mean(), noise.std()], [0, 0.05 * 255], atol=0.1)
    expected = np.diff(stats.norm(0, 0.05 * 255).cdf(np.arange(-30.5, 31)))
    counts = np.histogram(noise, np.arange(-30.5, 31))[0] / noise.size
    np.testing.assert_allclose(counts, expected, atol=2e-3)
    floats = GaussianNoise((0.05, 0.05))({"image": np.zeros((50, 50, 3), np.float32)}, ItemDraws(0, 0, 0))["image"]
    np.testing.assert_allclose(floats.std(), 0.05, rtol=0.03)


def test_noise_stays_within_bytes() -> None:
    for shade in (0, 255):
        image = np.full((40, 40, 1), shade, np.uint8)
        noisy = GaussianNoise((0.2, 0.2))({"image": image}, ItemDraws(0, 0, 0))["image"]
        assert np.abs(noisy.astype(int) - shade).max() < 255 * 0.2 * 4


def test_holes_have_the_area_asked_for_and_leave_the_rest() -> None:
    image = np.full((100, 120, 3), 200, np.uint8)
    for index in range(30):
        hole = Cutout(scale=(0.1, 0.2), ratio=(0.5, 2.0), fill=5)({"image": image}, ItemDraws(0, 0, index))["image"]
        inside = (hole == 5).all(2)
        assert 0.09 < inside.mean() < 0.21 and (hole[~inside] == 200).all()
        rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
        assert inside.sum() == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)


def test_normalized_numbers() -> None:
    result = Normalize((0.5, 0.4, 0.3), (0.1, 0.2, 0.4))({"image": IMAGE}, ItemDraws(0, 0, 0))["image"]
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, (IMAGE / 255.0 - (0.5, 0.4, 0.3)) / (0.1, 0.2, 0.4), atol=2e-5)
    floats = Normalize((0.5,), (0.1,))({"image": IMAGE.astype(np.float32) / 255}, ItemDraws(0, 0, 0))["image"]
    np.testing.assert_allclose(floats, (IMAGE / 255.0 - 0.5) / 0.1, atol=2e-5)
    with pytest.raises(TrainerError, match="3 numbers for 1 channels"):
        Normalize()({"image": IMAGE[..., :1]}, ItemDraws(0, 0, 0))
