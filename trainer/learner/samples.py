"""Samples: pictures of what the model makes of its data, with what belongs to them as JSON, never burned in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.rundir import EventSink, RunPaths, SampleEvent, WarningEvent, write_error


@dataclass(frozen=True)
class Sample:
    """A picture to look at.

    `image` is uint8 [H, W] (grey) or [H, W, 3]; `annotations` is plain JSON: boxes, classes, scores, captions.
    """

    name: str
    image: np.ndarray
    caption: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)


def write_samples(samples: Iterable[Sample], paths: RunPaths, sink: EventSink, *, step: int, split: str) -> None:
    """Write each sample as `samples/step-N/name.png` and `.json`, and tell of it.

    One that can't be written is a warning.

    Raises:
        TrainerError: a sample is no picture.
    """
    folder = paths.samples / f"step-{step}"
    for sample in samples:
        file = folder / f"{sample.name}.png"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_png(file, sample.image)
            text = json.dumps({"caption": sample.caption, **sample.annotations}, indent=1)
            file.with_suffix(".json").write_text(text, encoding="utf-8")
        except OSError as error:
            sink(WarningEvent(f"A sample was not written: {write_error(file, error)}"))
            continue
        sink(SampleEvent(step, split, sample.name, str(file.relative_to(paths.root)), sample.caption))


def _write_png(file: Path, image: np.ndarray) -> None:
    if image.dtype != np.uint8 or not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)):
        raise TrainerError(
            f"the sample {file.stem!r} is no picture",
            found=f"{image.dtype}{list(image.shape)}",
            expected="uint8 [H, W] or [H, W, 3]",
        )
    from PIL import Image  # takes 40 ms to import: only where there are samples

    Image.fromarray(image).save(file)
