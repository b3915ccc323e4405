"""Evaluates an exported model: a task made of its pipeline, with the reader and metrics of its validation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from trainer import TrainerError
from trainer.configs import RunConfig
from trainer.datasets import Dataset, loaders
from trainer.datasets import Pipeline as Transformed
from trainer.datasets.gray import StretchedGray
from trainer.datasets.readers import detecting, has_files
from trainer.engine import Tensor, float32
from trainer.learner.exported.card import Card
from trainer.learner.exported.manifest import EVALUATED_DATA, names_own_code
from trainer.learner.exported.read import Exported
from trainer.learner.inference import (
    GroupInstances,
    Pipeline,
    Placement,
    Step,
    StretchGray,
    Tile,
    ToPixels,
    TransformPicture,
    finish,
)
from trainer.learner.inference.evaluation import EvaluationReport, evaluate_on
from trainer.learner.inference.instances import INSTANCE_FIELDS, InstanceFigures, InstanceMaps, measured_instances
from trainer.learner.inference.pipeline import Kind
from trainer.learner.inference.placing import placed
from trainer.learner.inference.results import result_from
from trainer.learner.inference.tiles import Tiles
from trainer.learner.samples import Sample
from trainer.learner.task import CATEGORY_IDS, LEARNED, Batch, DataSplits, Returned, Task
from trainer.metrics import Predictions

OfStep = TypeVar("OfStep", bound=Step)

NEEDS: Mapping[Kind, tuple[str, ...]] = {
    "classification": ("image", "label"),
    "detections": ("image", "boxes", "labels", "image_id", "placement"),
    "instances": INSTANCE_FIELDS,
    "semantic": ("image", "mask"),
    "image": ("image", "target"),
}
"""The item fields that an evaluation needs, by kind of result."""


class ExportedTask(Task):
    """Validates a pipeline on the data of a reader, without the code of its task.

    Computes the config's metrics of predictions, but no losses, which need the task's code.
    """

    def __init__(self, config: RunConfig, pipeline: Pipeline) -> None:
        super().__init__(config)
        self.pipeline_of_file = pipeline
        self.class_names = list(pipeline.class_names)

    def data(self) -> DataSplits:
        kind, (_, *steps) = self.pipeline_of_file.kind, self.pipeline_of_file.prepare
        splits = self.read_splits(*NEEDS[kind])
        if kind == "instances":  # instances have one class, whatever its names in the data
            splits = {name: InstanceMaps(part) for name, part in splits.items()}
        else:
            self.class_names = list(getattr(next(iter(splits.values())), "class_names", ()))
        made = {name: prepared_by(steps, part, self.config.seed) for name, part in splits.items()}
        return DataSplits(**loaders(made, self.config))

    def build(self) -> None:
        """Creates the metric that groups objects, for instances; the networks are the programs of the file."""
        if self.pipeline_of_file.kind == "instances":
            self.figures = InstanceFigures(self._step(GroupInstances).made(), self.class_names[0])

    def valid_step(self, batch: Batch) -> Returned:
        kind, weight = self.pipeline_of_file.kind, batch["weight"]
        outputs = self.pipeline_of_file.network(batch["image"])
        if kind == "classification":
            return {"classes": Predictions(logits=outputs["logits"], labels=batch["label"], weight=weight)}
        if kind == "semantic":
            return {"pixels": Predictions(scores=outputs["scores"], labels=batch["mask"], weight=weight)}
        if kind == "image":
            made, target = self.shares(outputs["picture"]), self.shares_of_pixels(batch["target"])
            return {"pictures": Predictions(predicted=made, target=target, weight=weight)}
        if kind == "instances":
            return measured_instances(self.figures, outputs["maps"], batch)
        crowd = {name: batch[name] for name in ("crowd",) if name in batch}
        objects = Predictions(
            image_id=batch["image_id"], classes=outputs["classes"], scores=outputs["scores"],
            boxes=placed(outputs["boxes"], batch["placement"]), true_classes=batch["labels"],
            true_boxes=placed(batch["boxes"], batch["placement"]), weight=weight, **crowd,
        )  # fmt: skip
        return {"objects": objects}

    def samples(self, batch: Batch) -> Iterator[Sample]:
        """Images with their predictions drawn in, at the network's resolution; none if the images were normalized."""
        pipeline, images = self.pipeline_of_file, batch["image"].numpy()
        if images.dtype != np.uint8:
            return
        outputs = {name: values.numpy() for name, values in pipeline.network(batch["image"]).items()}
        for row, image in enumerate(images):
            picture = np.ascontiguousarray(np.broadcast_to(image.transpose(1, 2, 0), (*image.shape[1:], 3)))
            size = picture.shape[:2]
            arrays = finish(
                pipeline, {name: values[row : row + 1] for name, values in outputs.items()}, Placement.of(size, size)
            )
            result = result_from(pipeline.kind, arrays, path=None, picture=picture, size=size,
                                 names=pipeline.class_names, category_ids=None)  # fmt: skip
            yield Sample(f"{row}-predicted", result.drawn(), result.summary())

    def shares(self, pictures: Tensor) -> Tensor:
        """The network's output scaled to 0 to 1, the range of the image metrics."""
        pixels = self._step(ToPixels)
        return (pictures - pixels.low) * (1 / (pixels.high - pixels.low))

    def shares_of_pixels(self, pictures: Tensor) -> Tensor:
        """Converts uint8 images to the same range, with the rounding of the network's images."""
        pixels = self._step(ToPixels)
        return self.shares(pictures.astype(float32) * ((pixels.high - pixels.low) / 255) + pixels.low)

    def _step(self, kind: type[OfStep]) -> OfStep:
        """The step of this kind after the network.

        Raises:
            TrainerError: the file has none.
        """
        found = [step for step in self.pipeline_of_file.finish if isinstance(step, kind)]
        if not found:
            raise TrainerError(
                f"models of {self.pipeline_of_file.kind} need the step {kind.name}", where="finish",
                found=", ".join(step.name for step in self.pipeline_of_file.finish),
            )  # fmt: skip
        return found[0]


def prepared_by(steps: Sequence[Step], dataset: Dataset, seed: int) -> Dataset:
    """The items of a reader after the steps between decoding and the network, with their annotations.

    Raises:
        TrainerError: tiles are cut after another step.
    """
    for step in steps:
        if isinstance(step, TransformPicture):
            dataset = Transformed(dataset, [step.made()], seed)
        elif isinstance(step, StretchGray):
            dataset = StretchedGray(dataset, step.dark, step.bright)
        elif isinstance(step, Tile):
            if step is not steps[0]:
                raise TrainerError(
                    "tiles of transformed images can't be evaluated from an exported file", where="prepare",
                    found=", ".join(one.name for one in steps), expected="tile first", hint="Evaluate the run.",
                )  # fmt: skip
            dataset = Tiles(dataset, step.size, step.margin)
    return dataset


def evaluate_exported(
    exported: Exported, data: Path | None, *, device: str = "cpu", threads: int | None = None, **settings: Any
) -> EvaluationReport:
    """The metrics of a model on a split of a data folder; `settings` are those of `evaluate_on`.

    Raises:
        TrainerError: the file's kind or settings can't be used, or the data does not fit the model.
    """
    manifest = exported.manifest
    return evaluated_file(
        exported.path, data, manifest.evaluation, manifest.numerics, manifest.card,
        lambda config: ExportedTask(config, exported.pipeline), class_names=manifest.class_names,
        category_ids=manifest.category_ids, device=device, threads=threads, **settings,
    )  # fmt: skip


def evaluated_file(
    path: Path,
    data: Path | None,
    evaluation: Mapping[str, Any],
    numerics: Mapping[str, str],
    card: Card,
    make_task: Callable[[RunConfig], Task],
    *,
    class_names: Sequence[str] = (),
    category_ids: Sequence[int] | None = None,
    learned: Mapping[str, Any] | None = None,
    device: str = "cpu",
    threads: int | None = None,
    **settings: Any,
) -> EvaluationReport:
    """The metrics of an exported model, which `make_task` turns into a task, on a split of a data folder.

    Args:
        evaluation, numerics, card: of its manifest.
        class_names, category_ids: of the classes that its data must have.
        learned: the vocabulary or the statistics of its training data.
        settings: those of `evaluate_on`.

    Raises:
        TrainerError: as `evaluate_exported` does.
    """
    where = str(path)
    if data is None:
        raise TrainerError(
            "no data given; an exported model contains none", where=where, expected="a data folder",
            hint="Set it with --data FOLDER, or in Python: model.evaluate(FOLDER).",
        )  # fmt: skip
    if not data.is_dir():
        raise TrainerError("no such data folder", where=str(data))
    config = config_of(evaluation, numerics, data, device, threads, where)
    reader = config.data.reader
    if reader is None or not has_files(reader, data):
        detected = detecting(evaluation["data"]["reader"] or {})
        config = config_of(evaluation, numerics, data, device, threads, where, reader=detected)
    names = {"class_names": list(class_names)} if class_names else {}
    state = {
        "facts": {"task": names, CATEGORY_IDS: category_ids, LEARNED: learned},
        "step": card.steps, "epoch": 0.0, "steps_per_epoch": 1, "total_steps": 0,
    }  # fmt: skip
    return evaluate_on(make_task(config), None, state, **settings)


def evaluation_of(config: RunConfig) -> dict[str, Any]:
    """The settings of a config that an evaluation of the exported model needs, as plain data; custom code is left
    out.
    """
    plain = json.loads(config.model_dump_json(by_alias=True))
    data = {name: plain["data"][name] for name in EVALUATED_DATA}
    if names_own_code(data["reader"]):
        data["reader"] = None
    return {"data": data, "metrics": [one for one in plain["metrics"]["valid"] if not names_own_code(one)]}


def config_of(
    plain: Mapping[str, Any], numerics: Mapping[str, str], folder: Path, device: str, threads: int | None, where: str,
    **data: Any,
) -> RunConfig:  # fmt: skip
    """The config for an evaluation of the model with the settings `plain`. `data` replaces some of them.

    Raises:
        TrainerError: the settings of the file are invalid.
    """
    written = {
        "task": "exported",
        "optimizer": {"name": "sgd"},
        "train": {"epochs": 1},
        "device": device,
        "threads": threads,
        "numerics": dict(numerics),
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
