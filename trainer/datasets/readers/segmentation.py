"""Images and masks in two folders. Mask pixels are class indices (grayscale or palette), or colors of a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trainer import TrainerError
from trainer.datasets.fields import IGNORED, Item
from trainer.datasets.images import decode, load, opened
from trainer.datasets.paths import natural, within
from trainer.datasets.readers.boxes import nearest
from trainer.datasets.readers.files import by_stem, files_in, refuse_splits
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.picture_reader import PictureReader


class SegmentationFolders(PictureReader):
    """Items {image, mask, size}: images and masks with the same names except for the extension.

    Args:
        root: the data folder; the other paths are relative to it.
        images: folder of the images.
        masks: folder of the masks.
        classes: names in the order of the indices; None: "0", "1", … up to the maximum, for which every mask is read
            once.
        colors: the color (red, green, blue) of each class, for RGB masks; palette masks hold class indices.
        ignore: values of mask pixels that are ignored (they become 255).
        ignore_colors: colors that are ignored.
        mask_suffix: suffix of mask names after the image's name, as in 0001_mask.png.
        channels: 1 or 3, the number of channels of every image; None: as in each file.

    Raises:
        TrainerError: a folder is missing. Masks without an image go to `opening.on_problem`.
    """

    def __init__(
        self,
        root: Path,
        *,
        images: str = "images",
        masks: str = "masks",
        classes: Sequence[str] | None = None,
        colors: Sequence[Sequence[int]] | None = None,
        ignore: Sequence[int] = (IGNORED,),
        ignore_colors: Sequence[Sequence[int]] = (),
        mask_suffix: str = "",
        channels: Literal[1, 3] | None = 3,
        opening: Opening = Opening(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(channels)
        self.images, self.masks = root / images, root / masks
        images_in, masks_in = os.path.normpath(self.images), os.path.normpath(self.masks)
        self.names = files_in(self.images, below=True, progress=opening.progress)
        mask_names = files_in(self.masks, below=True, progress=opening.progress)
        if images_in == masks_in:
            if not mask_suffix:
                raise TrainerError(
                    "images and masks in the same folder need a suffix",
                    where=images_in,
                    found="mask_suffix: ''",
                    expected="the suffix of masks after the image's name, such as _mask",
                )
            mask_names = [name for name in mask_names if Path(name).stem.endswith(mask_suffix)]
            self.names = sorted(set(self.names) - set(mask_names), key=natural)
        refuse_splits(self.names, self.images)
        found = by_stem(mask_names, self.masks)
        stems = [stem + mask_suffix for stem in by_stem(self.names, self.images)]
        self._mask_names = [found.get(stem) for stem in stems]
        for stray in sorted(set(found) - set(stems)):
            opening.on_problem(
                TrainerError("a mask without an image", where=str(self.masks / found[stray]), found=f"no image {stray}")
            )
        self._ignored = frozenset(ignore)
        self.class_names: Sequence[str] = () if classes is None else tuple(classes)
        self._codes = None if colors is None else _codes(colors, ignore_colors, self.class_names)
        if classes is None:
            self.class_names = self._occurring(opening)

    def shared_settings(self) -> Mapping[str, Any]:
        """The settings that other splits must share."""
        return {"classes": self.class_names}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> np.ndarray:
        """int64 [N, 2]: height and width of each mask, from its file header; 0 if unreadable, because the error is
        reported when the item is read.
        """
        return np.array([self._mask_size(index) for index in range(len(self))], np.int64).reshape(-1, 2)

    def _mask_size(self, index: int) -> tuple[int, int]:
        try:
            width, height = opened(self._mask_path(index)).size
        except TrainerError:
            return 0, 0
        return height, width

    def source(self, index: int) -> str:
        return str(self.images / self.names[index])

    def __getitem__(self, index: int) -> Item:
        where = self.source(index)
        picture = self.picture(within(self.images, self.names[index], str(self.images)), where)
        mask = self.mask(index)
        if mask.shape != picture.size:
            raise TrainerError(
                "the size of a mask doesn't match its image",
                where=where,
                found=f"{self.masks / str(self._mask_names[index])}: {mask.shape[1]}x{mask.shape[0]} pixels",
                expected=f"{picture.size[1]}x{picture.size[0]}",
            )
        return {
            "image": picture.pixels,
            "mask": nearest(mask, picture.pixels.shape),
            "size": np.array(picture.size, np.int64),
        }

    def mask(self, index: int) -> np.ndarray:
        """uint8 or int32 [H, W]: class indices, 255 for ignored pixels.

        Raises:
            TrainerError: the mask is missing or unreadable, or contains a value or color without a class.
        """
        path = self._mask_path(index)
        if self._codes is not None:
            return _by_color(decode(path).pixels, self._codes, path)
        return self._indices(path)

    def _mask_path(self, index: int) -> Path:
        name = self._mask_names[index]
        if name is None:
            expected = str(self.masks / f"{Path(self.names[index]).stem}.png")
            raise TrainerError("an image without a mask", where=self.source(index), expected=expected)
        return within(self.masks, name, str(self.masks))

    def _occurring(self, opening: Opening) -> tuple[str, ...]:
        """Names for 0 to the maximum index that occurs. An unreadable mask is reported as an item later."""
        present: set[int] = set()
        for index in range(len(self)):
            try:
                present.update(np.unique(_values(self._mask_path(index))).tolist())
            except TrainerError:
                continue
            if opening.progress is not None:
                opening.progress(index + 1, len(self))
        counted = present - self._ignored
        if len(counted) < 2 or max(counted) > 2 * len(counted):
            raise TrainerError(
                "the values of the masks are not class indices",
                where=str(self.masks),
                found=f"values {', '.join(map(str, sorted(present)[:12])) or 'none'}; "
                f"{', '.join(map(str, sorted(self._ignored)))} is ignored",
                expected="class indices 0, 1, …",
                hint="For masks of 0 and 255: `data.reader={name: segmentation, classes: [background, object], "
                "colors: [[0, 0, 0], [255, 255, 255]]}`.",
            )
        return tuple(map(str, range(max(counted) + 1)))

    def _indices(self, path: Path) -> np.ndarray:
        values = _values(path)
        present = np.unique(values)
        unknown = [int(value) for value in present if value not in self._ignored and value >= len(self.class_names)]
        if unknown:
            raise TrainerError(
                "a mask contains a value without a class",
                where=str(path),
                found=f"{', '.join(map(str, unknown[:8]))} ({int(np.isin(values, unknown).sum())} pixels)",
                expected=f"0 to {len(self.class_names) - 1}, or an ignored value: {sorted(self._ignored)}",
            )
        wide = values.astype(np.uint8 if len(self.class_names) <= IGNORED else np.int32)
        ignored = np.isin(values, list(self._ignored))
        return np.where(ignored, IGNORED, wide).astype(wide.dtype) if ignored.any() else wide


def _values(path: Path) -> np.ndarray:
    """The indices in a grayscale, palette or 1-bit mask. Raises `TrainerError` for a color mask."""
    image = opened(path)
    load(image, path)
    if image.mode == "1":
        image = image.convert("L").point([min(value, 1) for value in range(256)])
    values = np.asarray(image)
    if values.ndim != 2 or values.dtype.kind not in "ui":
        raise TrainerError(
            "a mask contains colors, but no table of colors is set",
            where=str(path),
            found=f"pixels of mode {image.mode}",
            expected="a grayscale or palette image of class indices",
            hint="Set the color of each class in `colors`.",
        )
    return values


def _codes(
    colors: Sequence[Sequence[int]], ignored: Sequence[Sequence[int]], class_names: Sequence[str]
) -> Mapping[int, int]:
    """The class index by color, with the color as one number."""
    if len(colors) != len(class_names):
        raise TrainerError(
            "each class needs a color",
            found=f"{len(colors)} colors",
            expected=f"{len(class_names)}, in the order of the classes",
        )
    table = {_code(color): index for index, color in enumerate(colors)}
    if len(table) != len(colors):
        raise TrainerError("two classes have the same color", found=", ".join(str(tuple(color)) for color in colors))
    return table | {_code(color): IGNORED for color in ignored}


def _code(color: Sequence[int]) -> int:
    red, green, blue = color
    return red << 16 | green << 8 | blue


def _by_color(pixels: np.ndarray, codes: Mapping[int, int], path: Path) -> np.ndarray:
    """uint8 [H, W]: the class of each pixel's color."""
    wide = pixels.astype(np.int32)
    packed = wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
    present, places = np.unique(packed, return_inverse=True)
    unknown = [int(code) for code in present if int(code) not in codes]
    if unknown:
        first = unknown[0]
        raise TrainerError(
            "a mask contains a color without a class",
            where=str(path),
            found=f"({first >> 16}, {first >> 8 & 255}, {first & 255}) and {len(unknown) - 1} more "
            f"({int(np.isin(packed, unknown).sum())} pixels)",
            hint="JPEG blurs colors; list ignored colors in `ignore_colors`.",
        )
    kind = np.uint8 if len(codes) <= IGNORED + 1 else np.int32
    classes = np.array([codes[int(code)] for code in present], kind)
    return classes[places.reshape(packed.shape)]
