"""Runs the inference of texts and time series: generates, classifies, forecasts."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError, engine
from trainer.datasets.collate import FIT, Collation, collate
from trainer.datasets.readers.series import following, read_series
from trainer.datasets.vocabulary import Decoder
from trainer.learner.generation import Sampling, beam_search, generate
from trainer.learner.inference.results import VERSION, TextClass
from trainer.learner.inference.sequences import Forecasting, SequencePipeline, TextClassification, TextGeneration


@dataclass(frozen=True)
class Forecast:
    """A forecast.

    Attributes:
        path: path of the table.
        columns: names of the forecast columns.
        values: float64 [forecast_length, columns], in the units of the table.
        times: ISO 8601; None if the table has no times.
    """

    path: str
    columns: tuple[str, ...]
    values: np.ndarray
    times: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The forecast as JSON types, with a format version."""
        return {
            "version": VERSION, "kind": Forecasting.kind, "path": self.path, "columns": list(self.columns),
            "times": None if self.times is None else list(self.times), "values": self.values.tolist(),
        }  # fmt: skip

    def to_csv(self, date: str = "time") -> str:
        """The forecast as CSV with a line of column names; `date` is the name of the time column."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*([] if self.times is None else [date]), *self.columns])
        for number, row in enumerate(self.values.tolist()):
            writer.writerow([*([] if self.times is None else [self.times[number]]), *row])
        return text.getvalue()


class SequenceModel:
    """Runs a pipeline of texts or series; one call computes at a time."""

    def __init__(self, pipeline: SequencePipeline, device: Any, precision: str, lock: threading.Lock) -> None:
        self._pipeline, self._device, self._precision, self._lock = pipeline, device, precision, lock
        self._program: Callable[..., Any] = engine.trace(self._compute)

    def generate(
        self, prompt: str, tokens: int, sampling: Sampling, *, beams: int | None, length_penalty: float
    ) -> Iterator[str]:
        """The text that follows a prompt, in pieces of complete characters."""
        pipeline = self._of(TextGeneration)
        vocabulary = pipeline.vocabulary
        numbers = vocabulary.encode(prompt).tolist()
        if not numbers and vocabulary.end is not None:
            numbers = [vocabulary.end]
        pipeline.check_capacity(len(numbers), tokens)
        exclude = (*sampling.exclude, *vocabulary.not_text)
        decoder = Decoder(vocabulary)
        found: Iterator[int]
        if beams is None:
            found = generate(
                self._step, self._begin(1), numbers, tokens, sampling=replace(sampling, exclude=exclude),
                end=vocabulary.end, piece=pipeline.piece,
            )  # fmt: skip
        else:
            [best, *_] = beam_search(
                self._step, self._begin(beams), numbers, tokens, width=beams, end=vocabulary.end, exclude=exclude,
                length_penalty=length_penalty, piece=pipeline.piece, reorder=self._reorder,
            )  # fmt: skip
            found = iter(best.tokens)
        for number in found:
            if text := decoder.add(number):
                yield text
        if rest := decoder.finish():
            yield rest

    def classify(self, texts: Sequence[str], batch_size: int) -> list[TextClass]:
        """The class of each text."""
        pipeline = self._of(TextClassification)
        items = [pipeline.vocabulary.encode(text) for text in texts]
        empty = next((text for text, item in zip(texts, items, strict=True) if not len(item)), None)
        if empty is not None:
            raise TrainerError("a text has no tokens", found=repr(empty), expected="at least one token")
        found: list[TextClass] = []
        for start in range(0, len(items), batch_size):
            part = items[start : start + batch_size]
            longest = max(map(len, part))
            fits = bool(pipeline.lengths) and longest <= pipeline.lengths[-1]
            count = min(1 << (len(part) - 1).bit_length(), batch_size)
            filled = [*part, *[part[0]] * (count - len(part))]
            batch = collate([{"tokens": item} for item in filled], Collation(lengths=pipeline.lengths) if fits else FIT)
            with self._lock, engine.device(self._device), engine.per_item():
                logits = np.array(self._program(batch["tokens"], batch["length"])["logits"].numpy(), np.float64)
            scores = np.exp(logits - logits.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
            found += [
                TextClass(None, (0, 0), pipeline.class_names, scores=row.astype(np.float32), text=text)
                for row, text in zip(scores[: len(part)], texts[start : start + batch_size], strict=True)
            ]
        return found

    def forecast(self, path: Path) -> Forecast:
        """The rows that follow the last ones of a table."""
        pipeline = self._of(Forecasting)
        scaling, length = pipeline.scaling, pipeline.input_length
        _, times, values = read_series(path, scaling.columns, pipeline.date, is_regular=False)
        if len(values) < length:
            raise TrainerError("the series is shorter than the model's input", where=str(path),
                               found=f"{len(values)} rows", expected=f"at least {length}")  # fmt: skip
        history = scaling.scale(values[-length:])[None]
        with self._lock, engine.device(self._device), engine.per_item():
            future = np.array(self._program(history).numpy(), np.float64)[0]
        shown = None
        if times is not None and len(times) > 1:
            shown = tuple(time.isoformat().removesuffix("T00:00:00") for time in following(times, len(future)))
        return Forecast(str(path), scaling.columns[: pipeline.targets], scaling.unscale(future), shown)

    def _of(self, kind: type[Any]) -> Any:
        if not isinstance(self._pipeline, kind):
            raise TrainerError("the model doesn't support this", found=f"a model for {self._pipeline.kind}",
                               expected=f"a model for {kind.kind}")  # fmt: skip
        return self._pipeline

    def _compute(self, *given: Any) -> Any:
        with engine.autocast(self._precision):
            if isinstance(self._pipeline, TextGeneration):
                return self._pipeline.advance(*given)
            if isinstance(self._pipeline, Forecasting):
                return self._pipeline.network(*given)
            return dict(self._pipeline.network(*given))

    def _begin(self, rows: int) -> Any:
        with self._lock, engine.device(self._device):
            return self._of(TextGeneration).begin(rows)

    def _reorder(self, state: Any, rows: np.ndarray) -> Any:
        with self._lock, engine.device(self._device):
            return self._of(TextGeneration).reorder(state, rows)

    def _step(self, state: Any, tokens: np.ndarray) -> tuple[Any, np.ndarray]:
        with self._lock, engine.device(self._device):
            state, logits = self._program(state, tokens)
            return state, np.array(logits.numpy(), np.float64)
