"""Evaluates an exported model of texts or series, with the reader and metrics of its validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError, engine
from trainer.configs import RunConfig
from trainer.datasets import loaders
from trainer.learner.exported.evaluating import evaluated_file
from trainer.learner.exported.sequences import SequenceManifest
from trainer.learner.inference.evaluation import EvaluationReport
from trainer.learner.inference.sequences import Forecasting, SequencePipeline, TextClassification, TextGeneration
from trainer.learner.task import Batch, DataSplits, Returned, Task
from trainer.metrics import Predictions

FIELDS = {
    TextGeneration.kind: ("tokens",),
    TextClassification.kind: ("tokens", "label"),
    Forecasting.kind: ("history", "future"),
}
"""The item fields that an evaluation needs, by kind."""


class ExportedSequenceTask(Task):
    """Validates a pipeline of texts or series without the code of its task: metrics of predictions, but no losses."""

    def __init__(self, config: RunConfig, pipeline: SequencePipeline) -> None:
        super().__init__(config)
        self.pipeline_of_file = pipeline

    def data(self) -> DataSplits:
        splits = self.read_splits(*FIELDS[self.pipeline_of_file.kind])
        if isinstance(self.pipeline_of_file, TextClassification):
            self.class_names = list(getattr(next(iter(splits.values())), "class_names", ()))
        return DataSplits(**loaders(splits, self.config))

    def build(self) -> None:
        """The networks are the programs of the file."""

    def valid_step(self, batch: Batch) -> Returned:
        pipeline, weight = self.pipeline_of_file, batch["weight"]
        if isinstance(pipeline, TextClassification):
            logits = pipeline.network(batch["tokens"], batch["length"])["logits"]
            return {"classes": Predictions(logits=logits, labels=batch["label"], weight=weight)}
        if isinstance(pipeline, Forecasting):
            scaling, count = pipeline.scaling, pipeline.targets
            means, deviations = (np.array(x[:count], np.float32) for x in (scaling.means, scaling.deviations))
            predicted, target = pipeline.network(batch["history"]), batch["future"]
            if predicted.shape != target.shape:
                raise TrainerError("the data has other targets than the model", found=list(target.shape[1:]),
                                   expected=list(predicted.shape[1:]))  # fmt: skip
            found, right = (values * deviations + means for values in (predicted, target))
            return {"values": Predictions(predicted=found, target=right, weight=weight)}
        assert pipeline.network is not None
        tokens = batch["tokens"]
        labels = tokens[:, 1:]
        logits = engine.permute_dims(pipeline.network(tokens[:, :-1]), (0, 2, 1))
        counts = engine.take(engine.asarray(pipeline.vocabulary.characters()), labels)
        return {"next": Predictions(logits=logits, labels=labels, characters=counts, weight=weight)}


def evaluate_sequence(
    path: Path, manifest: SequenceManifest, pipeline: SequencePipeline, data: Path | None, **settings: Any
) -> EvaluationReport:
    """The metrics of the model in a file on a split of a data folder, read with the vocabulary or scaling of the file;
    `settings` are those of `evaluated_file`.

    Raises:
        TrainerError: as `evaluated_file` does, or the text generator in the file has no `network`.
    """
    if isinstance(pipeline, TextGeneration) and pipeline.network is None:
        raise TrainerError("the exported model can't be evaluated", where=str(path), found="a pipeline without network",
                           hint="Give TextGeneration a network in the task's pipeline, read texts by a reader "
                           "with a length, and export the run again.",
                           )  # fmt: skip
    evaluation = dict(manifest.evaluation)
    if isinstance(pipeline, TextClassification):
        lengths = {"length_steps": list(pipeline.lengths), "max_tokens": None}  # those that have a program
        evaluation["data"] = {**evaluation["data"], **lengths}
    learned = {"statistics": (manifest.columns, manifest.means, manifest.deviations)} if isinstance(
        pipeline, Forecasting) else {"vocabulary": manifest.tokens}  # fmt: skip
    return evaluated_file(
        path, data, evaluation, manifest.numerics, manifest.origin,
        lambda config: ExportedSequenceTask(config, pipeline), class_names=manifest.class_names, learned=learned,
        **settings,
    )  # fmt: skip
