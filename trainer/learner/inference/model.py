"""A model that predicts: a pipeline, its device, and information about its origin."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from trainer import TrainerError, engine
from trainer.datasets.images import SUFFIXES
from trainer.engine.targets.cpu.topology import available_processors
from trainer.learner.generation import Sampling
from trainer.learner.inference.pipeline import Kind, Pipeline, finish, prepare
from trainer.learner.inference.results import RESULTS, Result, TextClass, result_from
from trainer.learner.inference.sequences import SequenceKind, SequencePipeline
from trainer.learner.inference.steps import Placement

if TYPE_CHECKING:
    from trainer.engine import Tensor
    from trainer.learner.inference.evaluation import EvaluationReport
    from trainer.learner.inference.sequence_model import Forecast, SequenceModel
    from trainer.rundir import Event

BATCH_SIZE = 8
"""Default number of rows per batch of the network; results don't depend on it."""

MOST_THREADS = 16
"""Maximum number of threads that prepare images."""

VIDEOS = frozenset({".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv"})

AnyPipeline = Pipeline | SequencePipeline

Source = str | os.PathLike[str] | np.ndarray
OnError = Literal["raise", "skip"]

Evaluate = Callable[..., "EvaluationReport"]
Export = Callable[..., Path]


@dataclass(frozen=True)
class About:
    """Information about a model, in addition to its pipeline.

    Attributes:
        task: the recipe or task; source: the run, checkpoint or file; weights: the selected weights, for display.
        metrics: those of the checkpoint, by "split/name".
        parameters: number of elements of the weights.
        category_ids: the category ids of the classes in the training data's files, if any.
        monitored: the metric that selected the best checkpoint, if any.
    """

    task: str
    source: str
    weights: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    parameters: int = 0
    category_ids: tuple[int, ...] | None = None
    monitored: str | None = None


class Model:
    """A model for prediction, created by `trainer.load_model`. Callable from any thread.

    Args:
        pipeline: from an input to a result, or a function that creates it; an unsupported task raises its error on
            first use.
        about: its origin.
        device: for `engine.device`.
        precision: of the network's operations, as the config's `train.precision`.
        evaluate, export: the implementations of the methods with these names; None if unsupported.
    """

    def __init__(
        self,
        pipeline: AnyPipeline | Callable[[], AnyPipeline],
        about: About,
        *,
        device: Any = "cpu",
        precision: str = "float32",
        evaluate: Evaluate | None = None,
        export: Export | None = None,
    ) -> None:
        self._declared, self.about = pipeline, about
        self._device, self._precision, self._evaluate, self._export = device, precision, evaluate, export
        self._lock = threading.Lock()
        self._program: Callable[[Any], dict[str, Tensor]] = engine.trace(self._network)

    @cached_property
    def declared(self) -> AnyPipeline:
        """The task's pipeline, of images or of sequences. Raises `TrainerError` if the task has none."""
        return self._declared() if callable(self._declared) else self._declared

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline from an image to a result. Raises `TrainerError` if the task doesn't support it."""
        if not isinstance(self.declared, Pipeline):
            raise TrainerError(
                "the model's inputs are not images", where=self.about.source, found=f"a model for {self.kind}"
            )
        return self.declared

    @cached_property
    def _sequences(self) -> SequenceModel:
        if isinstance(self.declared, Pipeline):
            raise TrainerError("the model's inputs are images", where=self.about.source,
                               found=f"a model for {self.kind}", expected="a model of texts or series")  # fmt: skip
        from trainer.learner.inference.sequence_model import SequenceModel

        return SequenceModel(self.declared, self._device, self._precision, self._lock)

    @property
    def kind(self) -> Kind | SequenceKind:
        """The kind of its results: classification, detections, instances, semantic or image; for texts and series
        text, text_classification or forecast.
        """
        return self.declared.kind

    def generate(
        self, prompt: str, *, tokens: int = 200, temperature: float = 1.0, top_k: int | None = None,
        top_p: float | None = None, seed: int = 0, beams: int | None = None, length_penalty: float = 0.0,
    ) -> Iterator[str]:  # fmt: skip
        """Continues a prompt; yields the pieces of the text as they are generated.

        Args:
            prompt: the start of the text, which is not repeated.
            tokens: maximum number of tokens; the text ends earlier if the model generates the end token.
            temperature, top_k, top_p, seed: as for `trainer.learner.generation.Sampling`; temperature 0 is greedy.
            beams: number of beams of a beam search, which returns the likeliest continuation that it finds; None: the
                tokens are drawn.
            length_penalty: length penalty of the beam search.

        Raises:
            TrainerError: the model doesn't generate text, or an argument is invalid.
        """
        sampling = Sampling(temperature, top_k, top_p, seed)
        return self._sequences.generate(prompt, tokens, sampling, beams=beams, length_penalty=length_penalty)

    def classify(self, texts: Sequence[str], *, batch_size: int = BATCH_SIZE) -> list[TextClass]:
        """The class of each text.

        Args:
            texts: the texts. batch_size: texts per batch of the network; results don't depend on it.

        Raises:
            TrainerError: the model doesn't classify texts, or a text is empty.
        """
        return self._sequences.classify(texts, batch_size)

    def forecast(self, table: str | os.PathLike[str]) -> Forecast:
        """The rows that follow the last rows of a table, which has the columns and the time steps of the training data.

        Raises:
            TrainerError: the model doesn't forecast, or the table is too short or can't be used.
        """
        return self._sequences.forecast(Path(table))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes in the order of their numbers."""
        return self.declared.class_names

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics of the checkpoint, by "split/name"."""
        return self.about.metrics

    @overload
    def predict(
        self, source: np.ndarray, *, score_threshold: float | None = ..., classes: Sequence[str] | None = ...,
        batch_size: int = ..., on_error: OnError = ...,
    ) -> Result: ...  # fmt: skip
    @overload
    def predict(
        self, source: Sequence[Source], *, score_threshold: float | None = ..., classes: Sequence[str] | None = ...,
        batch_size: int = ..., on_error: OnError = ...,
    ) -> list[Result]: ...  # fmt: skip
    @overload
    def predict(
        self, source: Any, *, score_threshold: float | None = ..., classes: Sequence[str] | None = ...,
        batch_size: int = ..., on_error: OnError = ...,
    ) -> Any: ...  # fmt: skip
    def predict(
        self,
        source: Any,
        *,
        score_threshold: float | None = None,
        classes: Sequence[str] | None = None,
        batch_size: int = BATCH_SIZE,
        on_error: OnError = "raise",
    ) -> Any:
        """Predicts on images.

        Args:
            source: a file, or an array uint8 [H, W, 3] of RGB: returns a result. A list or tuple of these: returns a
                list. A folder, including its subfolders, or another iterable: returns a lazy iterator.
            score_threshold: lower-scoring objects are dropped; None: the task's threshold.
            classes: names of the classes whose objects are kept; None: all.
            batch_size: rows per batch of the network. Results don't depend on it.
            on_error: "raise", or "skip", which returns a result with the reason in `error`.

        Raises:
            TrainerError: an image can't be read, or an argument is invalid.
        """
        if on_error not in ("raise", "skip"):
            raise TrainerError("invalid on_error", found=repr(on_error), expected="raise or skip")
        if batch_size < 1:
            raise TrainerError("the batch size is too small", found=batch_size, expected="at least 1")
        pipeline = self.pipeline.selecting(score_threshold, self._numbers(classes))
        if isinstance(source, np.ndarray) or (isinstance(source, str | os.PathLike) and not Path(source).is_dir()):
            [result] = self._stream(pipeline, [source], 1, on_error)
            return result
        if isinstance(source, str | os.PathLike):
            return self._stream(pipeline, pictures_in(Path(source)), batch_size, on_error)
        results = self._stream(pipeline, source, batch_size, on_error)
        return list(results) if isinstance(source, Sequence) else results

    def evaluate(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        split: str = "valid",
        report: str | os.PathLike[str] | None = None,
        tell: Callable[[Event], None] = lambda event: None,
    ) -> EvaluationReport:
        """Evaluates a split of a data set, as validation does. The run is not changed.

        Args:
            data: a folder, read with the run's reader if its files exist, otherwise with the detected layout; None: the
                data of the training.
            split: train, valid, test, or another existing split.
            report: a folder for reports and images; None: a temporary one.
            tell: receives progress events.

        Raises:
            TrainerError: the model has no task code for evaluation, or the data doesn't fit the model.
        """
        if self._evaluate is None:
            raise TrainerError("this model can't be evaluated", where=self.about.source,
                               expected="a run or a checkpoint of one")  # fmt: skip
        return self._evaluate(
            None if data is None else Path(data),
            split=split,
            report=None if report is None else Path(report),
            tell=tell,
        )

    def export(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Writes the model to one file that needs no task code.

        Raises:
            TrainerError: it can't be exported or written.
        """
        if self._export is None:
            raise TrainerError("this model can't be exported", where=self.about.source)
        return self._export(self, Path(path), **options)

    def __repr__(self) -> str:
        about = self.about
        kind: str
        try:
            kind, class_names = self.kind, self.class_names
        except TrainerError as error:
            kind, class_names = error.message, ()
        names = ", ".join(class_names[:12]) + (", …" if len(class_names) > 12 else "")
        lines = [
            f"Model of {about.task}: {kind}",
            f"  source:     {about.source}, {about.weights}",
            f"  classes:    {len(class_names)}{f' ({names})' if names else ''}",
            f"  parameters: {about.parameters:,}",
        ]
        lines += [f"  {name}: {value:.4g}" for name, value in about.metrics.items() if name.startswith("valid/")]
        return "\n".join(lines)

    # --- from an image to a result --------------------------------------------------------------------------------

    def _stream(
        self, pipeline: Pipeline, sources: Iterable[Source], batch_size: int, on_error: OnError
    ) -> Iterator[Result]:
        """The results in order; threads prepare images of the next batch while the network computes."""
        remaining = iter(sources)
        with ThreadPoolExecutor(min(available_processors(), MOST_THREADS), thread_name_prefix="prepare") as threads:

            def begin() -> list[tuple[Source, Future[Any]]]:
                return [(one, threads.submit(_prepared, pipeline, one)) for one in islice(remaining, batch_size)]

            coming = begin()
            while coming:
                now, coming = coming, begin()
                yield from self._batch(pipeline, now, batch_size, on_error)

    def _batch(
        self,
        pipeline: Pipeline,
        items: Sequence[tuple[Source, Future[tuple[np.ndarray, Placement]]]],
        batch_size: int,
        on_error: OnError,
    ) -> Iterator[Result]:
        made: list[tuple[Source, tuple[np.ndarray, Placement] | TrainerError]] = []
        for source, future in items:
            try:
                made.append((source, future.result()))
            except TrainerError as error:
                if error.where is None and not isinstance(source, np.ndarray):
                    error.where = str(source)
                if on_error == "raise":
                    raise
                made.append((source, error))
        outputs = iter(self._outputs([one[0] for _, one in made if isinstance(one, tuple)], batch_size))
        for source, one in made:
            path, picture = (None, source) if isinstance(source, np.ndarray) else (str(source), None)
            ids = self._category_ids()
            if isinstance(one, TrainerError):
                yield RESULTS[pipeline.kind](path, (0, 0), self.class_names, str(one), ids, picture)
                continue
            arrays, size = finish(pipeline, next(outputs), one[1]), one[1].size
            yield result_from(
                pipeline.kind, arrays, path=path, picture=picture, size=size, names=self.class_names, category_ids=ids
            )

    def _outputs(self, items: Sequence[np.ndarray], batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """The network's outputs for the rows of each item; rows of equal shape and dtype are computed together."""
        found: list[dict[str, list[np.ndarray]]] = [{} for _ in items]
        forms: dict[tuple[Any, ...], list[int]] = {}
        for number, rows in enumerate(items):
            forms.setdefault((rows.shape[1:], rows.dtype), []).append(number)
        for numbers in forms.values():
            owners = [number for number in numbers for _ in range(len(items[number]))]
            rows = np.concatenate([items[number] for number in numbers])
            for start in range(0, len(rows), batch_size):
                part = rows[start : start + batch_size]
                for name, values in self._run(part, batch_size).items():
                    for owner, value in zip(owners[start : start + batch_size], values, strict=True):
                        found[owner].setdefault(name, []).append(value)
        return ({name: np.stack(values) for name, values in outputs.items()} for outputs in found)

    def _run(self, rows: np.ndarray, batch_size: int) -> dict[str, np.ndarray]:
        """The network's outputs for rows; batches are padded with zeros, so that few programs are compiled."""
        count = min(1 << (len(rows) - 1).bit_length(), batch_size)
        filled = np.zeros((count, *rows.shape[1:]), rows.dtype)
        filled[: len(rows)] = rows
        with self._lock, engine.device(self._device), engine.per_item():
            outputs = self._program(filled)
            return {name: np.array(values.numpy()[: len(rows)]) for name, values in outputs.items()}

    def _network(self, images: Tensor) -> dict[str, Tensor]:
        with engine.autocast(self._precision):
            return dict(self.pipeline.network(images))

    def _category_ids(self) -> tuple[int, ...] | None:
        """The category ids of the training data, unless the task defines other classes."""
        ids = self.about.category_ids
        return ids if ids is not None and len(ids) == len(self.class_names) else None

    def _numbers(self, classes: Sequence[str] | None) -> tuple[int, ...] | None:
        if classes is None:
            return None
        unknown = [name for name in classes if name not in self.class_names]
        if isinstance(classes, str) or unknown:
            raise TrainerError("unknown class", found=classes if isinstance(classes, str) else ", ".join(unknown),
                               expected=f"a list of: {', '.join(self.class_names)}")  # fmt: skip
        return tuple(self.class_names.index(name) for name in classes)


def pictures_in(folder: Path) -> Iterator[Path]:
    """The image files of a folder and its subfolders, sorted by name, without hidden files.

    Raises:
        TrainerError: the folder contains no images.
    """
    found = False
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                found = True
                yield Path(parent, name)
    if not found:
        raise TrainerError("no images here", where=str(folder), expected=", ".join(sorted(SUFFIXES)))


def _prepared(pipeline: Pipeline, source: Source) -> tuple[np.ndarray, Placement]:
    if isinstance(source, np.ndarray):
        return prepare(pipeline, source)
    if not isinstance(source, str | os.PathLike):
        raise TrainerError("not an image", found=type(source).__name__,
                           expected="a path, or an array uint8 [H, W, 3] of RGB")  # fmt: skip
    path = Path(source)
    if path.suffix.lower() in VIDEOS:
        hint = "Write its frames as pictures, for example with ffmpeg, and predict the folder."
        raise TrainerError("video is not supported", where=str(path), hint=hint)
    if not path.exists():
        raise TrainerError("no such file", where=str(path))
    return prepare(pipeline, path)
