"""Converts between exported files and models that predict."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.engine.export import ProgramFile, load_programs
from trainer.engine.safetensors import parsed
from trainer.learner.exported.card import Card, card_of
from trainer.learner.exported.read import device_of, read_exported
from trainer.learner.exported.sequences import ENTRY as SEQUENCE
from trainer.learner.exported.sequences import read_sequence, write_sequence
from trainer.learner.exported.write import write_exported
from trainer.learner.inference import Pipeline
from trainer.learner.inference.model import About, Model
from trainer.learner.inference.steps import Size
from trainer.learner.progress import other_versions

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.inference.evaluation import EvaluationReport


def model_in(path: Path, *, device: str | None = None, threads: int | None = None) -> Model:
    """Loads the model of an exported file. Runs no code of its author.

    Warns about package versions that differ from those of its training and affect results bit for bit.

    Raises:
        TrainerError: as `read_exported` does.
    """
    file = load_programs(path)
    if SEQUENCE in file.metadata:
        return _sequence_model(path, file, device=device, threads=threads)
    exported = read_exported(path, file=file)
    manifest, card = exported.manifest, exported.manifest.card
    if found := other_versions(card.versions):
        warnings.warn(f"{found}: predictions may round differently than in validation.", stacklevel=3)
    about = replace(_about(card, path, exported.parameters), category_ids=manifest.category_ids)

    def evaluate(data: Path | None, **settings: Any) -> EvaluationReport:
        from trainer.learner.exported.evaluating import evaluate_exported

        return evaluate_exported(exported, data, device=device or "cpu", threads=threads, **settings)

    return Model(
        exported.pipeline, about, device=exported.device(device or "cpu", threads), evaluate=evaluate,
        export=_copying(path),
    )  # fmt: skip


def _sequence_model(path: Path, file: ProgramFile, *, device: str | None, threads: int | None) -> Model:
    """The model of texts or series in a file."""
    data = parsed(file.metadata[SEQUENCE], f"{path}, {SEQUENCE}")
    manifest, pipeline = read_sequence(file, data, str(path))
    about = _about(manifest.origin, path, sum(state.size for state in file.arrays.values()))

    def evaluate(folder: Path | None, **settings: Any) -> EvaluationReport:
        from trainer.learner.exported.sequence_evaluating import evaluate_sequence

        return evaluate_sequence(path, manifest, pipeline, folder, device=device or "cpu", threads=threads, **settings)

    return Model(
        pipeline, about, device=device_of(manifest.numerics, device or "cpu", threads), evaluate=evaluate,
        export=_copying(path),
    )  # fmt: skip


def _about(card: Card, path: Path, parameters: int) -> About:
    return About(
        task=card.task,
        source=str(path),
        weights=f"exported from {card.weights}" if card.weights else "exported",
        metrics=card.metrics,
        parameters=parameters,
        monitored=card.monitored,
    )


def _copying(path: Path) -> Callable[..., Path]:
    """Returns an `export` method that copies the file of a model."""

    def copy(model: Model, to: Path, *, picture_sizes: Sequence[Size] = (), data_license: str | None = None) -> Path:
        if picture_sizes or data_license is not None:
            raise TrainerError(
                "an exported model can only be copied unchanged", where=str(path),
                hint="To change sizes or the license, export the run again.",
            )  # fmt: skip
        try:
            shutil.copyfile(path, to)
        except OSError as error:
            raise TrainerError(
                "the model can't be written", where=str(to), found=error.strerror or str(error)
            ) from error
        return to

    return copy


def export_model(
    model: Model,
    path: Path,
    *,
    state: Mapping[str, Any],
    config: RunConfig,
    averaged: bool,
    picture_sizes: Sequence[Size] = (),
    data_license: str | None = None,
) -> Path:
    """Writes a checkpoint's model as one file; `state` is the checkpoint's.

    Raises:
        TrainerError: as `write_exported` does.
    """
    from trainer.learner.exported.evaluating import evaluation_of  # imports everything that computes metrics

    numerics, evaluation = config.numerics.model_dump(mode="json", by_alias=True), evaluation_of(config)
    card = card_of(state, config, model.about, averaged=averaged, data_license=data_license)
    if not isinstance(model.declared, Pipeline):
        if picture_sizes:
            raise TrainerError("a model of texts or series has no image sizes", found=picture_sizes[0])
        write_sequence(
            path, model.declared, numerics=numerics, card=card, evaluation=evaluation, precision=config.train.precision
        )
        return path
    write_exported(
        path,
        model.pipeline,
        numerics=numerics,
        card=card,
        evaluation=evaluation,
        category_ids=model.about.category_ids,
        picture_sizes=picture_sizes,
        precision=config.train.precision,
    )
    return path
