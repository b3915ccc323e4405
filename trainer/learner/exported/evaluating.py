"""Evaluates an exported model: a task made of its pipeline, with the reader and metrics of its validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainer import TrainerError, engine
from trainer.configs import RunConfig
from trainer.configs.transforms import TransformsConfig
from trainer.datasets import loaders
from trainer.datasets.dataset import gives_batches
from trainer.datasets.readers import has_files
from trainer.engine import Tensor, float32
from trainer.learner.exported.manifest import EVALUATED_DATA, Manifest, names_own_code
from trainer.learner.exported.read import Exported
from trainer.learner.inference import Pipeline, Tile, ToPixels
from trainer.learner.inference.evaluation import EvaluationReport, evaluate_on
from trainer.learner.inference.tiles import Tiles
from trainer.learner.task import Batch, DataSplits, Returned, Task
from trainer.metrics import Predictions

NEEDS: Mapping[str, tuple[str, ...]] = {
    "classification": ("label",),
    "detections": ("boxes", "labels", "image_id", "size"),
    "semantic": ("mask",),
    "image": ("target",),
}
"""The kinds that can be evaluated, and the fields that a batch must have. For instances, only the task knows the
targets.
"""


class ExportedTask(Task):
    """Validates a pipeline on the data of a reader, without the code of its task.

    Computes the config's metrics of predictions; losses belong to the task's code.
    """

    def __init__(self, config: RunConfig, pipeline: Pipeline) -> None:
        super().__init__(config)
        self.pipeline_of_file = pipeline
        self.class_names = list(pipeline.class_names)

    def data(self) -> DataSplits:
        splits = self.read_splits()
        self.class_names = list(getattr(next(iter(splits.values())), "class_names", ()))
        tile = next((step for step in self.pipeline_of_file.prepare if isinstance(step, Tile)), None)
        if tile is not None:
            splits = {name: Tiles(part, tile.size, tile.margin) for name, part in splits.items()}
        elif any(map(gives_batches, splits.values())):  # arrays that were read at the network's size, or are rejected
            return DataSplits(**loaders(splits, without_transforms(self.config)))
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        """Does nothing: the networks are the programs of the file."""

    def valid_step(self, batch: Batch) -> Returned:
        kind = self.pipeline_of_file.kind
        if missing := [name for name in NEEDS[kind] if name not in batch]:
            raise TrainerError(
                f"the data has no targets for {kind}", where="data",
                found=", ".join(batch), expected=", ".join(missing),
            )  # fmt: skip
        outputs = self.pipeline_of_file.network(batch["image"])
        weight = batch["weight"]
        if kind == "classification":
            return {"classes": Predictions(logits=outputs["logits"], labels=batch["label"], weight=weight)}
        if kind == "semantic":
            return {"pixels": Predictions(scores=outputs["scores"], labels=batch["mask"], weight=weight)}
        if kind == "image":
            made, target = self.shares(outputs["picture"]), self.shares_of_pixels(batch["target"])
            return {"pictures": Predictions(predicted=made, target=target, weight=weight)}
        scale = original_scale(batch)
        crowd = {name: batch[name] for name in ("crowd",) if name in batch}
        objects = Predictions(
            image_id=batch["image_id"], classes=outputs["classes"], scores=outputs["scores"],
            boxes=outputs["boxes"] * scale, true_classes=batch["labels"], true_boxes=batch["boxes"] * scale,
            weight=weight, **crowd,
        )  # fmt: skip
        return {"objects": objects}

    def shares(self, pictures: Tensor) -> Tensor:
        """The network's output scaled to 0 to 1, the range of the image metrics."""
        pixels = self._to_pixels()
        return (pictures - pixels.low) * (1 / (pixels.high - pixels.low))

    def shares_of_pixels(self, pictures: Tensor) -> Tensor:
        """uint8 images in the same range, rounded as the network's images."""
        pixels = self._to_pixels()
        return self.shares(pictures.astype(float32) * ((pixels.high - pixels.low) / 255) + pixels.low)

    def _to_pixels(self) -> ToPixels:
        return next(step for step in self.pipeline_of_file.finish if isinstance(step, ToPixels))


def original_scale(batch: Batch) -> Tensor:
    """The matrices that map boxes to the image before it was resized: float32 [N, 1, 4]."""
    height, width = batch["image"].shape[2:]
    sizes = batch["size"].astype(float32)
    down, across = sizes[:, 0] * (1 / height), sizes[:, 1] * (1 / width)
    return engine.expand_dims(engine.stack([across, down, across, down], axis=1), axis=1)


def evaluate_exported(
    exported: Exported, data: Path | None, *, device: str = "cpu", threads: int | None = None, **settings: Any
) -> EvaluationReport:
    """The metrics of a model on a split of a data folder; `settings` are those of `evaluate_on`.

    Raises:
        TrainerError: the file's kind or settings can't be used, or the data does not fit the model.
    """
    manifest, where = exported.manifest, str(exported.path)
    if manifest.kind not in NEEDS:
        raise TrainerError(
            f"exported models of {manifest.kind} can't be evaluated", where=where,
            expected=", ".join(NEEDS),
            hint="Evaluate the run instead: only the task's code knows the targets of objects.",
        )  # fmt: skip
    if data is None:
        raise TrainerError(
            "no data given; an exported model contains none", where=where, expected="a data folder",
            hint="Set it with --data FOLDER, or in Python: model.evaluate(FOLDER).",
        )  # fmt: skip
    if not data.is_dir():
        raise TrainerError("no such data folder", where=str(data))
    config = config_of(manifest, data, device, threads, where)
    reader = config.data.reader
    if reader is None or not has_files(reader, data):
        config = config_of(manifest, data, device, threads, where, reader={"name": "auto"})
    names = {"class_names": list(manifest.class_names)} if manifest.class_names else {}
    state = {
        "facts": {"task": names, "category_ids": manifest.category_ids},
        "step": manifest.card.steps, "epoch": 0.0, "steps_per_epoch": 1, "total_steps": 0,
    }  # fmt: skip
    return evaluate_on(ExportedTask(config, exported.pipeline), None, state, **settings)


def evaluation_of(config: RunConfig) -> dict[str, Any]:
    """The settings of a config that an evaluation of the exported model needs, as plain data; custom code is left
    out.
    """
    plain = json.loads(config.model_dump_json(by_alias=True))
    data = {name: plain["data"][name] for name in EVALUATED_DATA}
    if names_own_code(data["reader"]):
        data["reader"] = None
    data["transforms"] = {"valid": plain["data"]["transforms"]["valid"]}
    return {"data": data, "metrics": [one for one in plain["metrics"]["valid"] if not names_own_code(one)]}


def config_of(manifest: Manifest, folder: Path, device: str, threads: int | None, where: str, **data: Any) -> RunConfig:
    """The config for an evaluation of the model. `data` replaces the settings of the file.

    Raises:
        TrainerError: the settings of the file are invalid.
    """
    plain = manifest.evaluation
    written = {
        "task": "exported",
        "optimizer": {"name": "sgd"},
        "train": {"epochs": 1},
        "device": device,
        "threads": threads,
        "numerics": dict(manifest.numerics),
        "data": {**plain["data"], "root": str(folder.absolute()), **data},
        "metrics": {"valid": plain["metrics"]},
    }
    try:
        return RunConfig.model_validate_json(json.dumps(written))
    except ValidationError as error:
        first = error.errors()[0]
        raise TrainerError(
            "not an exported model: invalid evaluation settings", where=where,
            found=f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:200],
        ) from error  # fmt: skip


def without_transforms(config: RunConfig) -> RunConfig:
    """The config for data read at the network's size."""
    return config.model_copy(update={"data": config.data.model_copy(update={"transforms": TransformsConfig()})})
