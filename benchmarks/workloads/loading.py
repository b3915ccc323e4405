"""Loads an epoch of 640x480 JPEG files as augmented 224x224 batches for each line of input; prints images per second.

python benchmarks/workloads/loading.py same|ours|scaled|peer FOLDER PILLOW
python benchmarks/workloads/loading.py write FOLDER

same: our loader with the same function that the peer's data set calls; ours: our reader and transforms; scaled: these
with scaled decoding; peer: PyTorch's DataLoader. PILLOW is a folder that contains Pillow, so that all use the same one.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from photographs import photographs

IMAGES, BATCH, WORKERS, SIDE = 512, 32, 2, 224
JITTER = 0.4


def write(folder: Path) -> None:
    for number, picture in enumerate(photographs(IMAGES, 640, 480)):
        target = folder / f"{number % 2}" / f"{number:03}.jpg"
        target.parent.mkdir(exist_ok=True)
        picture.save(target, quality=90)


def augmented(path: Path, draws: random.Random) -> Any:
    """Returns uint8 [224, 224, 3]: decoding, random resized crop, flip and jitter with Pillow."""
    import numpy as np
    from PIL import Image, ImageEnhance

    image = Image.open(path).convert("RGB")
    width, height = image.size
    for _ in range(10):
        area, ratio = width * height * draws.uniform(0.08, 1), math.exp(draws.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if wide <= width and high <= height:
            break
    else:
        wide = high = min(width, height)
    left, top = draws.randint(0, width - wide), draws.randint(0, height - high)
    image = image.crop((left, top, left + wide, top + high)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    if draws.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = change(image).enhance(draws.uniform(1 - JITTER, 1 + JITTER))
    return np.asarray(image)


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.jpg"))


class SameWork:
    """A data set for our loader with the same items as the peer's."""

    class_names = ("0", "1")

    def __init__(self, folder: Path) -> None:
        self.files = files_of(folder)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return self.item(index, 0)

    def item(self, index: int, epoch: int) -> Any:
        import numpy as np

        path = self.files[index]
        return {"image": augmented(path, random.Random(epoch * IMAGES + index)), "label": np.int64(path.parent.name)}

    def source(self, index: int) -> str:
        return str(self.files[index])


def our_epochs(kind: str, folder: Path) -> Iterator[Any]:
    """Yields epochs of our loader."""
    from trainer.configs import RunConfig
    from trainer.datasets import Pipeline, loaders
    from trainer.datasets.readers.image_folder import ImageFolder
    from trainer.datasets.transforms import ColorJitter, HorizontalFlip, RandomResizedCrop

    dataset: Any = SameWork(folder)
    if kind != "same":
        steps = [
            RandomResizedCrop((SIDE, SIDE)),
            HorizontalFlip(probability=0.5),
            ColorJitter(brightness=JITTER, contrast=JITTER, saturation=JITTER),
        ]
        dataset = Pipeline(ImageFolder(folder), steps)
    config = RunConfig.model_validate(
        {"task": "t", "optimizer": {"name": "sgd"}, "train": {"epochs": 1}}
        | {"data": {"batch_size": BATCH, "workers": WORKERS, "scaled_decoding": kind == "scaled"}}
    )
    loader = loaders({"train": dataset}, config)["train"]
    epoch = 0
    while True:
        yield loader.epoch(epoch)
        epoch += 1


def peer_epochs(folder: Path) -> Iterator[Any]:
    """Yields epochs of PyTorch's DataLoader; its workers persist between epochs, as ours do."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Photographs(Dataset):  # type: ignore[type-arg]
        def __init__(self) -> None:
            self.files = files_of(folder)
            self.draws = random.Random()

        def __len__(self) -> int:
            return len(self.files)

        def __getitem__(self, index: int) -> Any:
            path = self.files[index]
            return torch.from_numpy(augmented(path, self.draws).copy()), int(path.parent.name)

    loader = DataLoader(
        Photographs(), BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True, prefetch_factor=2
    )
    while True:
        yield loader


def measure(epochs: Iterator[Any]) -> Callable[[], float]:
    def images_a_second() -> float:
        started = time.perf_counter()
        batches = sum(1 for _ in next(epochs))
        return batches * BATCH / (time.perf_counter() - started)

    return images_a_second


def main(kind: str, folder: str, pillow: str = "") -> None:
    if kind == "write":
        write(Path(folder))
        return
    sys.path.append(pillow)
    speed = measure(peer_epochs(Path(folder)) if kind == "peer" else our_epochs(kind, Path(folder)))
    speed()  # starts the workers, and reads the files into the page cache
    for _ in sys.stdin:
        print(speed(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
