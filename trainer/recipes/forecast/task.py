"""Forecasts a time series with long short-term memory (Hochreiter and Schmidhuber 1997).

The network reads the last rows of a table and predicts, for all following rows at once, their differences from the
last known values.
"""

from __future__ import annotations

import numpy as np

from trainer import engine
from trainer.datasets import Scaling, loaders, scaling_of
from trainer.engine import Tensor, nn
from trainer.learner import Batch, DataSplits, Sample, Task, inference
from trainer.metrics import Mean, Predictions

from .options import DECLARATION, Options

SHOWN, HEIGHT, STEP = 4, 96, 6  # samples; their height, and the width of a row of the table, in pixels


class Forecast(Task):
    """Predicts the next values of a time series."""

    options: Options

    def data(self) -> DataSplits:
        splits = self.read_splits(*DECLARATION.fields)
        scaling = scaling_of(splits["train"])
        assert scaling is not None
        self.columns, self.means, self.deviations = scaling.columns, scaling.means, scaling.deviations
        made = loaders(splits, self.config)
        first = made["train"].batch(0, 0)
        self.input_length, self.future_shape = first["history"].shape[1], tuple(first["future"].shape[1:])
        return DataSplits(**made)

    def build(self) -> None:
        self.network = Forecaster(self.options, len(self.columns), *self.future_shape)
        self.optimizer = self.optimizer_for(self.network)

    def train_step(self, batch: Batch) -> dict[str, Mean]:
        loss, _ = self.measure(batch)
        self.optimizer.minimize(loss.value)
        return {"loss": loss}

    def valid_step(self, batch: Batch) -> dict[str, Mean | Predictions]:
        loss, values = self.measure(batch)
        return {"loss": loss, "values": values}

    def measure(self, batch: Batch) -> tuple[Mean, Predictions]:
        """The mean absolute error of scaled values, and the predictions in the units of the table."""
        predicted, target = self.network(batch["history"]), batch["future"]
        losses = engine.mean(engine.abs(predicted - target), axis=(1, 2))
        found, right = (self.unscaled(values) for values in (predicted, target))
        return Mean(losses, batch["weight"]), Predictions(predicted=found, target=right, weight=batch["weight"])

    def unscaled(self, values: Tensor) -> Tensor:
        """Values [N, rows, targets] in the units of the table."""
        count = self.future_shape[1]
        means, deviations = (np.array(each[:count], np.float32) for each in (self.means, self.deviations))
        return values * deviations + means

    def pipeline(self) -> inference.Forecasting:
        reader = self.config.data.reader
        return inference.Forecasting(
            Scaling(tuple(self.columns), tuple(self.means), tuple(self.deviations)),
            targets=self.future_shape[1],
            input_length=self.input_length,
            network=self.network,
            date=getattr(reader, "date", None),
        )

    def samples(self, batch: Batch) -> list[Sample]:
        """Curves of the first target: known values, following values (gray), predicted values (orange)."""
        rows = np.linspace(0, len(batch["history"].numpy()) - 1, SHOWN).astype(int)
        history, future = batch["history"].numpy()[rows, :, 0], batch["future"].numpy()[rows, :, 0]
        predicted = self.network(engine.asarray(batch["history"].numpy()[rows])).numpy()[:, :, 0]
        errors = np.abs(predicted - future).mean(axis=1) * self.deviations[0]
        return [
            Sample(f"forecast-{number}", curves(*lines), f"{self.columns[0]}: mean absolute error {error:.2f}")
            for number, (*lines, error) in enumerate(zip(history, future, predicted, errors, strict=True), 1)
        ]


class Forecaster(nn.Module):
    """Histories [N, rows, columns] to futures [N, rows, targets], both scaled."""

    def __init__(self, options: Options, columns: int, rows: int, targets: int) -> None:
        self.rows, self.targets = rows, targets
        between = options.dropout if options.layers > 1 else 0.0
        self.recurrent = nn.LSTM(columns, options.units, options.layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(options.dropout)
        self.changes = nn.Linear(options.units, rows * targets)

    def forward(self, history: Tensor) -> Tensor:
        _, (last, _) = self.recurrent(history)
        changes = engine.reshape(self.changes(self.dropout(last[-1])), (-1, self.rows, self.targets))
        return history[:, -1:, : self.targets] + changes


def curves(history: np.ndarray, future: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Three lines as a picture [H, W, 3], time from left to right."""
    known, low = np.concatenate([history, future]), min(*history, *future, *predicted)
    high = max(*history, *future, *predicted)
    made = np.full((HEIGHT, STEP * len(known), 3), 255, np.uint8)
    for values, start, color in (
        (history, 0, (40, 40, 40)), (future, len(history), (160, 160, 160)), (predicted, len(history), (230, 120, 20)),
    ):  # fmt: skip
        heights = ((high - values) / max(high - low, 1e-6) * (HEIGHT - 3)).astype(int)
        for place, height in enumerate(heights, start):
            made[height : height + 3, STEP * place : STEP * (place + 1)] = color
    return made
