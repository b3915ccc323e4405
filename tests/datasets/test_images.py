"""Decoding: every mode that image files have, EXIF, scaled JPEG, and each way a file can be broken."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from trainer import TrainerError
from trainer.datasets import image_warnings, images
from trainer.datasets.images import decode

SMOOTH = np.linspace(0, 255, 24 * 32 * 3).reshape(24, 32, 3).astype(np.uint8)
"""No noise, so that JPEG changes little."""


def encoded(kind: str) -> bytes:
    exif, buffer = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    Image.fromarray(SMOOTH).save(buffer, kind, **({"exif": exif} if kind not in ("GIF", "BMP") else {}))
    return buffer.getvalue()


CONTENTS = {kind: encoded(kind) for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")}


def saved(tmp_path: Path, image: Image.Image, name: str = "image.png", **options: object) -> Path:
    image.save(tmp_path / name, **options)  # type: ignore[arg-type]
    return tmp_path / name


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("channels", [1, 3])
def test_modes_of_png_become_what_pillow_converts_them_to(tmp_path, mode, channels):
    image = Image.fromarray(SMOOTH).convert(mode)
    expected = np.asarray(image.convert("RGB" if channels == 3 else "L")).reshape(24, 32, channels)
    picture = decode(saved(tmp_path, image), channels=channels)
    np.testing.assert_array_equal(picture.pixels, expected)
    assert picture.size == (24, 32) and picture.pixels.dtype == np.uint8


@pytest.mark.parametrize(("mode", "channels"), [("1", 1), ("L", 1), ("LA", 1), ("P", 3), ("RGBA", 3), ("RGB", 3)])
def test_an_image_may_keep_its_own_channels(tmp_path, mode, channels):
    path = saved(tmp_path, Image.fromarray(SMOOTH).convert(mode))
    assert decode(path, channels=None).pixels.shape == (24, 32, channels)


def test_warnings_of_the_image_library_name_each_file_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(image_warnings, "_is_installed", False)
    monkeypatch.setattr(image_warnings, "_reported", set())
    with warnings.catch_warnings():
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
        for name in ("a.png", "b.png", "a.png"):
            decode(saved(tmp_path, Image.new("RGB", (12, 12)), name))
        exif = Image.Exif()
        exif[0x0112] = 6
        path = saved(tmp_path, Image.new("RGB", (8, 8)), "c.jpg", exif=exif.tobytes()[:-6])
        decode(path)
        warnings.warn("of another file", stacklevel=1)
    first, second, third, *others = capsys.readouterr().err.splitlines()
    assert first.startswith(f"warning: {tmp_path / 'a.png'}: Image size (144 pixels) exceeds limit of 100 pixels")
    assert second.startswith(f"warning: {tmp_path / 'b.png'}: Image size")
    assert third.startswith(f"warning: {path}: ") and "EXIF" in third
    assert not any("warning: /" in line for line in others)


def test_cmyk_becomes_rgb(tmp_path):
    color = Image.new("RGB", (16, 16), (200, 30, 60)).convert("CMYK")
    pixels = decode(saved(tmp_path, color, "image.jpg", quality=95)).pixels
    assert np.abs(pixels.astype(int) - (200, 30, 60)).max() <= 4


def test_sixteen_bits_become_the_upper_eight(tmp_path):
    values = np.array([[0, 255, 256], [65535, 32768, 511]], np.uint16)
    path = saved(tmp_path, Image.fromarray(values))
    assert decode(path, channels=1).pixels[..., 0].tolist() == [[0, 0, 1], [255, 128, 1]]
    assert decode(path).pixels.shape == (2, 3, 3)


def test_floating_point_pixels_are_refused(tmp_path):
    path = saved(tmp_path, Image.fromarray(np.full((2, 2), 0.5, np.float32)), "image.tif")
    with pytest.raises(TrainerError, match=r"neither 8 nor 16 bits\n  found:    float32 from 0\.5 to 0\.5"):
        decode(path)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied_as_pillow_does(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path, Image.fromarray(SMOOTH), exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(path)))
    picture = decode(path)
    np.testing.assert_array_equal(picture.pixels, expected)
    assert picture.size == expected.shape[:2]


def test_damaged_exif_leaves_the_picture_as_it_lies(tmp_path):
    path = saved(tmp_path, Image.fromarray(SMOOTH), "image.webp", exif=b'Exif\0\0MM\x8b"garbage', lossless=True)
    np.testing.assert_array_equal(decode(path).pixels, SMOOTH)


@given(st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_decoded_or_refused(tmp_path, data):
    """Never another exception than TrainerError, whatever bytes are changed."""
    content = bytearray(CONTENTS[data.draw(st.sampled_from(sorted(CONTENTS)))])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "image").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        assert decode(tmp_path / "image").pixels.dtype == np.uint8
    except TrainerError as error:
        assert error.where == str(tmp_path / "image")


def test_annotations_made_without_exif_keep_the_picture_as_it_lies(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path, Image.fromarray(SMOOTH), exif=exif)
    assert decode(path, annotated_size=(24, 32)).size == (24, 32)
    assert decode(path, annotated_size=(32, 24)).size == (32, 24)


@pytest.mark.parametrize(
    ("at_least", "shape"), [((60, 80), (60, 80)), ((61, 80), (120, 160)), ((1, 1), (30, 40)), ((241, 321), (240, 320))]
)
def test_a_jpeg_is_decoded_at_the_smallest_scale_that_is_enough(tmp_path, at_least, shape):
    image = Image.fromarray(SMOOTH).resize((320, 240))
    path = saved(tmp_path, image, "image.jpg", quality=95)
    picture = decode(path, at_least=at_least)
    assert picture.pixels.shape == (*shape, 3) and picture.size == (240, 320)
    smaller = np.asarray(image.resize(shape[::-1], Image.Resampling.BOX)).astype(int)
    assert np.abs(picture.pixels - smaller).mean() < 3


def test_scaled_decoding_knows_of_rotation(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path, Image.fromarray(SMOOTH).resize((320, 160)), "image.jpg", exif=exif)
    assert decode(path, at_least=(160, 80)).pixels.shape == (160, 80, 3)
    assert decode(path, at_least=(80, 160)).pixels.shape == (320, 160, 3)


def test_a_jpeg_that_is_cut_short_is_refused(tmp_path):
    path = saved(tmp_path, Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)), "a.jpg")
    path.write_bytes(path.read_bytes()[:-600])
    with pytest.raises(TrainerError, match=r"a\.jpg: truncated image\n  found:    image file is truncated"):
        decode(path)


def test_a_damaged_png_is_refused(tmp_path):
    path = saved(tmp_path, Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)))
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(60)
    path.write_bytes(content)
    with pytest.raises(TrainerError, match=r"(damaged|truncated) image"):
        decode(path)


@pytest.mark.parametrize(
    ("content", "found"), [(b"", "an empty file"), (b"<html>not found", "the first bytes 3c 68 74 6d")]
)
def test_what_is_no_image_is_refused(tmp_path, content, found):
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(TrainerError, match=f"not an image, or damaged at its start\n  found:    {found}"):
        decode(tmp_path / "a.jpg")


def test_a_missing_image_is_reported_with_what_is_there(tmp_path):
    saved(tmp_path, Image.fromarray(SMOOTH), "b.png")
    with pytest.raises(TrainerError, match=r"no such file\n  found:    in that folder: b\.png"):
        decode(tmp_path / "a.png")


def png_claiming(width: int, height: int) -> bytes:
    """A PNG of 60 bytes whose header says that it is of this size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("size", [(50_000, 50_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_refused_before_it_unpacks(tmp_path, size):
    (tmp_path / "a.png").write_bytes(png_claiming(*size))
    with pytest.raises(TrainerError, match="the image is too large"):
        decode(tmp_path / "a.png")


def test_the_limit_holds_whatever_pillow_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(images, "MOST_PIXELS", 24 * 32 - 1)
    with pytest.raises(TrainerError, match="too large\n  found:    32x24 pixels\n  expected: at most 767 in all"):
        decode(saved(tmp_path, Image.fromarray(SMOOTH)))
