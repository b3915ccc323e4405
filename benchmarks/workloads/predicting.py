"""Predicts a folder of one-megapixel JPEG files for each line of input; prints images per second.

python benchmarks/workloads/predicting.py write FOLDER
python benchmarks/workloads/predicting.py export resnet50|detection MODEL
python benchmarks/workloads/predicting.py ours MODEL FOLDER
python benchmarks/workloads/predicting.py peer resnet50|detection FOLDER PILLOW
python benchmarks/workloads/predicting.py first MODEL FILE

Both decode at full resolution and use 2 threads. The peer is PyTorch in inference mode with a DataLoader of 2 workers,
in the faster of two memory layouts. PILLOW is a folder that contains Pillow, so that both use the same one. `first`
predicts one file and exits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from photographs import photographs

IMAGES, BATCH, WORKERS, THREADS = 500, 8, 2, 2
WIDTH, HEIGHT = 1152, 868
"""Size of the images in pixels: one megapixel."""
SIZES = {"resnet50": (224, 224), "detection": (288, 384)}
CLASSES = {"resnet50": 1000, "detection": 3}
CANDIDATES, LEAST_SCORE, IOU_THRESHOLD, MOST = 300, 0.02, 0.6, 100
"""Settings of the recipe `detection`; the script checks that the recipe has these values."""


def write(folder: Path) -> None:
    for number, picture in enumerate(photographs(IMAGES, WIDTH, HEIGHT)):
        picture.save(folder / f"{number:03}.jpg", quality=90)


# --- ours -------------------------------------------------------------------------------------------------------------


def export(kind: str, file: Path) -> None:
    """Writes a model with its untrained initial weights."""
    from trainer.learner.exported import Card, write_exported

    pipeline = resnet_pipeline() if kind == "resnet50" else detection_pipeline()
    write_exported(file, pipeline, numerics={"class": "exact", "bfloat16": "pairs"}, card=Card(kind))


def resnet_pipeline() -> Any:
    from tests.engine.networks.networks import ResNet
    from trainer.engine import float32
    from trainer.learner import inference

    network = ResNet().set_seed(0, "network").eval()
    return inference.Pipeline(
        "classification", tuple(map(str, range(CLASSES["resnet50"]))),
        prepare=(inference.Decode(), inference.TransformPicture("resize", {"size": SIZES["resnet50"]})),
        network=lambda images: {"logits": network(images.astype(float32) * (1 / 127.5) - 1)},
        finish=(inference.Softmax(),),
    )  # fmt: skip


def detection_pipeline() -> Any:
    from dataclasses import replace

    from tests.recipes.building import built
    from trainer.learner import inference

    task = built("detection", "data.workers=0")
    options = task.options
    found = (options.candidates, options.score_threshold, options.iou_threshold, options.detections)
    if found != (CANDIDATES, LEAST_SCORE, IOU_THRESHOLD, MOST):
        raise SystemExit(
            f"the recipe detects with {found}, the peer with {(CANDIDATES, LEAST_SCORE, IOU_THRESHOLD, MOST)}"
        )
    pipeline = task.pipeline()
    _, *others = pipeline.prepare
    return replace(pipeline, prepare=(inference.Decode(), *others))  # at full resolution


def ours(model: Path, folder: Path) -> Callable[[], int]:
    import trainer

    loaded = trainer.load_model(model, threads=THREADS)
    return lambda: sum(result.error is None for result in loaded.predict(folder, batch_size=BATCH))


def first(model: Path, file: Path) -> None:
    import trainer

    trainer.load_model(model, threads=THREADS).predict(file)


# --- the peer ---------------------------------------------------------------------------------------------------------


def peer(kind: str, folder: Path) -> Callable[[], int]:
    import torch

    torch.set_num_threads(THREADS)
    layouts = [torch.contiguous_format, torch.channels_last]
    ways = [in_layout(kind, folder, layout) for layout in layouts]
    seconds = []
    for way in ways:
        started = time.perf_counter()
        way()
        seconds.append(time.perf_counter() - started)
    return ways[seconds.index(min(seconds))]


def in_layout(kind: str, folder: Path, layout: Any) -> Callable[[], int]:
    import numpy as np
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    height, width = SIZES[kind]

    class Photographs(Dataset):  # type: ignore[type-arg]
        files = sorted(folder.glob("*.jpg"))

        def __len__(self) -> int:
            return len(self.files)

        def __getitem__(self, index: int) -> Any:
            image = Image.open(self.files[index]).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
            return torch.from_numpy(np.array(image)).permute(2, 0, 1)

    network = (torch_resnet() if kind == "resnet50" else torch_detector()).eval().to(memory_format=layout)
    loader = DataLoader(Photographs(), BATCH, num_workers=WORKERS, persistent_workers=True)

    def predict() -> int:
        count = 0
        with torch.inference_mode():
            for images in loader:
                prepared = (images.float() * (1 / 127.5) - 1).contiguous(memory_format=layout)
                count += sum(1 for _ in results_of(kind, network(prepared), (height, width)))
        return count

    return predict


def torch_resnet() -> Any:
    from torch_networks import ResNet

    return ResNet()


def torch_detector() -> Any:
    from twin_detection import Detector

    options = {"blocks": [2, 2, 2, 2], "width": 32, "pyramid_channels": 64, "head_depth": 4}
    return Detector(options, CLASSES["detection"])


def results_of(kind: str, outputs: Any, size: tuple[int, int]) -> Iterator[Any]:
    """Yields the arrays of each image: probabilities, or boxes in pixels of the file, scores and classes."""
    import torch

    if kind == "resnet50":
        yield from torch.softmax(outputs, 1).numpy()
        return
    from twin_detection import places

    logits, distances = outputs
    points, strides, _ = places(torch.Size(size))
    reach = distances * strides[:, None]
    boxes = torch.cat([points - reach[..., :2], points + reach[..., 2:]], -1)
    scale = torch.tensor([WIDTH / size[1], HEIGHT / size[0]] * 2)
    scores, order = torch.sigmoid(logits).flatten(1).topk(CANDIDATES)
    for row in range(len(scores)):
        good = scores[row] > LEAST_SCORE
        classes, place = order[row, good] % logits.shape[2], order[row, good] // logits.shape[2]
        kept = greedy(boxes[row, place], classes)[:MOST]
        yield (boxes[row, place][kept] * scale).numpy(), scores[row, good][kept].numpy(), classes[kept].numpy()


def greedy(boxes: Any, classes: Any) -> Any:
    """Returns the indices of the boxes that NMS per class keeps, best first (plain PyTorch has no such function)."""
    import torch

    corners = (
        torch.maximum(boxes[:, None, :2], boxes[None, :, :2]),
        torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:]),
    )
    shared = (corners[1] - corners[0]).clamp(min=0).prod(2)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    overlaps = shared / (areas[:, None] + areas[None] - shared) > IOU_THRESHOLD
    overlaps = (overlaps & (classes[:, None] == classes[None])).numpy()
    stays = torch.ones(len(boxes), dtype=torch.bool).numpy()
    for number in range(len(stays)):
        if stays[number]:
            stays[number + 1 :] &= ~overlaps[number, number + 1 :]
    return torch.from_numpy(stays.nonzero()[0])


def main(mode: str, *words: str) -> None:
    if mode == "write":
        write(Path(words[0]))
    elif mode == "export":
        export(words[0], Path(words[1]))
    elif mode == "first":
        first(Path(words[0]), Path(words[1]))
    else:
        if mode == "peer":
            sys.path.append(words[2])
            predict = peer(words[0], Path(words[1]))
        else:
            predict = ours(Path(words[0]), Path(words[1]))
        predict()  # compiles, starts the workers, and reads the files into the page cache
        for _ in sys.stdin:
            started = time.perf_counter()
            count = predict()
            print(count / (time.perf_counter() - started), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
