"""Samples: images and texts that show what the model predicts, with annotations as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.rundir import EventSink, RunPaths, SampleEvent, WarningEvent, make_folders, write_error


@dataclass(frozen=True)
class Sample:
    """An image or text for display. Annotations are stored separately and drawn on top.

    Args:
        name: name of the file; the same at every step.
        image: uint8 [H, W] (gray) or [H, W, 3].
        caption: text below the image.
        annotations: plain JSON. The drawn ones are `boxes` (left, top, right, bottom in pixels), their `classes` and
            `scores`, and `masks` (for each box: `size` [H, W] and `counts`, COCO's run lengths down the columns).
        text: text instead of an image.
        prompt: number of characters at the start of the text that are the prompt of a generated text.
        mask: integers [H, W], the class of each pixel; 255 is not drawn.
        class_names: names of the mask's classes. If the first is "background", it is not drawn.
    """

    name: str
    image: np.ndarray | None = None
    caption: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    mask: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    prompt: int = 0


def write_samples(
    samples: Iterable[Sample], paths: RunPaths, sink: EventSink, *, step: int, split: str,
    class_names: Sequence[str] = (),
) -> None:  # fmt: skip
    """Writes each sample as `samples/step-N/name.png` (or `.txt`) and `.json`, its mask as `name.mask.png`, and emits
    an event.

    A sample that can't be written gives a warning.

    Raises:
        TrainerError: a sample is neither image nor text.
    """
    folder = paths.samples / f"step-{step}"
    for sample in samples:
        try:
            file = write_sample(sample, folder, paths.root, class_names)
        except OSError as error:
            sink(WarningEvent(f"A sample was not written: {write_error(folder / sample.name, error)}"))
            continue
        sink(SampleEvent(step, split, sample.name, str(file.relative_to(paths.root)), sample.caption))


def write_sample(sample: Sample, folder: Path, root: Path, class_names: Sequence[str] = ()) -> Path:
    """Writes the files of a sample to a folder of the run, which is created; returns the path of its image or text.

    `class_names` are all classes of the data, used for a sample without its own: they give each class one color.

    Raises:
        TrainerError: it is neither image nor text.
        OSError: the files can't be written.
    """
    file = folder / f"{sample.name}{'.png' if sample.text is None else '.txt'}"
    annotations = {"caption": sample.caption, **sample.annotations}
    if sample.text is None and (names := sample.class_names or class_names):
        annotations["class_names"] = list(names)
    make_folders(folder, root)
    if sample.prompt:
        annotations["prompt"] = sample.prompt
    if sample.text is not None:
        file.write_text(sample.text, encoding="utf-8")
    else:
        _write_png(file, _picture(sample))
    if sample.mask is not None:
        mask = folder / f"{sample.name}.mask.png"
        _write_png(mask, _classes(sample))
        annotations |= {"mask": mask.name, "class_names": list(sample.class_names)}
    file.with_suffix(".json").write_text(json.dumps(annotations, indent=1), encoding="utf-8")
    return file


def _picture(sample: Sample) -> np.ndarray:
    image = sample.image
    if image is None or image.dtype != np.uint8 or not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)):
        raise TrainerError(
            f"the sample {sample.name!r} is not an image",
            found="nothing" if image is None else f"{image.dtype}{list(image.shape)}",
            expected="uint8 [H, W] or [H, W, 3], or a text",
        )
    return image


def _classes(sample: Sample) -> np.ndarray:
    """The mask as uint8 [H, W]."""
    mask = sample.mask
    assert mask is not None
    size = () if sample.image is None else sample.image.shape[:2]
    if mask.shape != size or mask.dtype.kind not in "iu" or (mask.size and not 0 <= mask.min() <= mask.max() <= 255):
        raise TrainerError(
            f"the mask of the sample {sample.name!r} has invalid values",
            found=f"{mask.dtype}{list(mask.shape)}" + (f" from {mask.min()} to {mask.max()}" if mask.size else ""),
            expected=f"integers from 0 to 255, {list(size)}",
        )
    return mask.astype(np.uint8)


def _write_png(file: Path, image: np.ndarray) -> None:
    from PIL import Image  # the import takes 40 ms: only needed with samples

    Image.fromarray(image).save(file)
