"""A model that predicts: a pipeline, the device that computes it, and what is known of where it comes from."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from trainer import TrainerError, engine
from trainer.datasets.images import SUFFIXES
from trainer.datasets.workers import processors
from trainer.learner.inference.pipeline import Kind, Pipeline, finish, prepare
from trainer.learner.inference.results import RESULTS, Result, result_from
from trainer.learner.inference.steps import Placement

if TYPE_CHECKING:
    from trainer.engine import Tensor
    from trainer.learner.inference.evaluation import EvaluationReport
    from trainer.rundir import Event

BATCH_SIZE = 8
"""Rows that the network gets at a time, unless the caller says otherwise; an item's bits do not depend on it."""

MOST_THREADS = 16
"""Threads that prepare pictures, on machines with more processors."""

VIDEOS = frozenset({".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".wmv"})

Source = str | os.PathLike[str] | np.ndarray
OnError = Literal["raise", "skip"]

Evaluate = Callable[..., "EvaluationReport"]
Export = Callable[..., Path]


@dataclass(frozen=True)
class About:
    """What is known of a model besides its pipeline.

    Attributes:
        task: the recipe or task; source: the run, checkpoint or file; weights: which of them, in words.
        metrics: those of the checkpoint, by "split/name".
        parameters: how many numbers the weights hold.
        category_ids: the classes' numbers in the training data's own files, where they have any.
        monitored: the metric by which the best checkpoint was chosen, if any.
    """

    task: str
    source: str
    weights: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    parameters: int = 0
    category_ids: tuple[int, ...] | None = None
    monitored: str | None = None


class Model:
    """Predicts; made by `trainer.load_model`. Any thread may call it.

    Args:
        pipeline: from a picture to a result.
        about: where it comes from.
        device: for `engine.device`.
        precision: of the network's operations, as the config's `train.precision`.
        evaluate, export: what the methods of these names call; None where the model can't.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        about: About,
        *,
        device: Any = "cpu",
        precision: str = "float32",
        evaluate: Evaluate | None = None,
        export: Export | None = None,
    ) -> None:
        self.pipeline, self.about = pipeline, about
        self._device, self._precision, self._evaluate, self._export = device, precision, evaluate, export
        self._lock = threading.Lock()
        self._program: Callable[[Any], dict[str, Tensor]] = engine.trace(self._network)

    @property
    def kind(self) -> Kind:
        """What its results are: classification, detections, instances, semantic or image."""
        return self.pipeline.kind

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes in the order of their numbers."""
        return self.pipeline.class_names

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
        """What the model makes of pictures.

        Args:
            source: a file, or an array uint8 [H, W, 3] of RGB: a result. A list or tuple of these: a list. A folder,
                whose files and those of its folders are taken in order, or any other iterable: an iterator, which
                reads as it goes.
            score_threshold: objects below it are left out; None: the task's own.
            classes: names of those whose objects are kept; None: all.
            batch_size: rows that the network gets at a time. Results do not depend on it.
            on_error: "raise", or "skip": a result whose `error` says why there is none.

        Raises:
            TrainerError: a picture can't be read, or an argument is wrong.
        """
        if on_error not in ("raise", "skip"):
            raise TrainerError("no such on_error", found=repr(on_error), expected="raise or skip")
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
        """The metrics of a split of a data set, computed as validation does. The run stays as it is.

        Args:
            data: a folder, which the run's reader reads, or where its files are not there, one for the layout that is
                found; None: the training's own data.
            split: train, valid, test, or another that is there.
            report: a folder for reports and pictures; None: a temporary one.
            tell: hears of progress.

        Raises:
            TrainerError: the model has no task's code to evaluate with, or the data doesn't fit the model.
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
        """Write the model as one file that runs without the task's code.

        Raises:
            TrainerError: it can't be exported or written.
        """
        if self._export is None:
            raise TrainerError("this model can't be exported", where=self.about.source)
        return self._export(self, Path(path), **options)

    def __repr__(self) -> str:
        about = self.about
        names = ", ".join(self.class_names[:12]) + (", …" if len(self.class_names) > 12 else "")
        lines = [
            f"Model of {about.task}: {self.kind}",
            f"  source:     {about.source}, {about.weights}",
            f"  classes:    {len(self.class_names)}{f' ({names})' if names else ''}",
            f"  parameters: {about.parameters:,}",
        ]
        lines += [f"  {name}: {value:.4g}" for name, value in about.metrics.items() if name.startswith("valid/")]
        return "\n".join(lines)

    # --- the way of a picture -------------------------------------------------------------------------------------

    def _stream(
        self, pipeline: Pipeline, sources: Iterable[Source], batch_size: int, on_error: OnError
    ) -> Iterator[Result]:
        """The results in order; pictures of the next batch are prepared by threads while the network computes."""
        remaining = iter(sources)
        with ThreadPoolExecutor(min(processors(), MOST_THREADS), thread_name_prefix="prepare") as threads:

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
            ids = self.about.category_ids
            if isinstance(one, TrainerError):
                yield RESULTS[self.kind](path, (0, 0), self.class_names, str(one), ids, picture)
                continue
            arrays, size = finish(pipeline, next(outputs), one[1]), one[1].size
            yield result_from(
                self.kind, arrays, path=path, picture=picture, size=size, names=self.class_names, category_ids=ids
            )

    def _outputs(self, items: Sequence[np.ndarray], batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """The network's outputs for the rows of each item; rows of one form are computed together."""
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
        """The network's outputs for rows; zeros fill up the batch, so that few programs are compiled."""
        count = min(1 << (len(rows) - 1).bit_length(), batch_size)
        filled = np.zeros((count, *rows.shape[1:]), rows.dtype)
        filled[: len(rows)] = rows
        with self._lock, engine.device(self._device), engine.per_item():
            outputs = self._program(filled)
            return {name: np.array(values.numpy()[: len(rows)]) for name, values in outputs.items()}

    def _network(self, images: Tensor) -> dict[str, Tensor]:
        with engine.autocast(self._precision):
            return dict(self.pipeline.network(images))

    def _numbers(self, classes: Sequence[str] | None) -> tuple[int, ...] | None:
        if classes is None:
            return None
        unknown = [name for name in classes if name not in self.class_names]
        if isinstance(classes, str) or unknown:
            raise TrainerError("no such class", found=classes if isinstance(classes, str) else ", ".join(unknown),
                               expected=f"a list of: {', '.join(self.class_names)}")  # fmt: skip
        return tuple(self.class_names.index(name) for name in classes)


def pictures_in(folder: Path) -> Iterator[Path]:
    """The picture files of a folder and of those in it, in order of their names; hidden ones are left out.

    Raises:
        TrainerError: there are none.
    """
    found = False
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                found = True
                yield Path(parent, name)
    if not found:
        raise TrainerError("no pictures here", where=str(folder), expected=", ".join(sorted(SUFFIXES)))


def _prepared(pipeline: Pipeline, source: Source) -> tuple[np.ndarray, Placement]:
    if isinstance(source, np.ndarray):
        return prepare(pipeline, source)
    if not isinstance(source, str | os.PathLike):
        raise TrainerError("not a picture", found=type(source).__name__,
                           expected="a path, or an array uint8 [H, W, 3] of RGB")  # fmt: skip
    path = Path(source)
    if path.suffix.lower() in VIDEOS:
        hint = "Write its frames as pictures, for example with ffmpeg, and predict the folder."
        raise TrainerError("video is not supported", where=str(path), hint=hint)
    if not path.exists():
        raise TrainerError("no such file", where=str(path))
    return prepare(pipeline, path)
