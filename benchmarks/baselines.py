"""Baselines of the sequence recipes, computed from the same splits without a neural network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from trainer.cli.tasks import task_class
from trainer.configs import load
from trainer.datasets.item_properties import vocabulary_of
from trainer.datasets.readers.series import Series
from trainer.rundir import EndEvent, Run

ORDERS = (3, 6, 12, 24, 25, 48, 49)
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
LONGEST = 4


def against_n_grams(run: Run) -> dict[str, float]:
    """Macro F1 of logistic regression on the n-grams of the `names` recipe's texts, and the run's F1 minus this F1."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score

    texts = {split: texts_of(part) for split, part in splits_of("names").items()}
    counts = TfidfVectorizer(analyzer="char", ngram_range=(1, LONGEST), lowercase=False, sublinear_tf=True)
    counts.fit(texts["train"][0])
    rows = {split: counts.transform(one) for split, (one, _) in texts.items()}
    found: list[tuple[float, float]] = []
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=300, tol=1e-3).fit(rows["train"], texts["train"][1])
        scores = [f1_score(texts[split][1], model.predict(rows[split]), average="macro") for split in ("valid", "test")]
        found.append((float(scores[0]), float(scores[1])))
    _, score = max(found)
    assert isinstance(run.end, EndEvent)
    return {"n_gram_f1": score, "f1_above_n_grams": run.end.metrics["test/ema/f1"] - score}


def against_forecasts(run: Run) -> dict[str, float]:
    """Mean absolute errors of the seasonal naive and the autoregressive forecast on the `forecast` recipe's test split,
    and the run's error relative to each.
    """
    splits: Mapping[str, Series] = splits_of("forecast")
    windows = {split: windows_of(part) for split, part in splits.items()}
    naive = error(windows["test"][0][:, -24:], windows["test"][1])
    histories, futures = windows["train"]
    regression = autoregressive(np.concatenate([histories[:, 0], histories[-1, 1:], futures[-1]]), windows)
    assert isinstance(run.end, EndEvent)
    own = run.end.metrics["test/ema/mean_absolute_error"]
    return {
        "naive_error": naive, "autoregressive_error": regression, "error_by_naive": own / naive,
        "error_by_autoregressive": own / regression,
    }  # fmt: skip


def autoregressive(series: np.ndarray, windows: Mapping[str, tuple[np.ndarray, np.ndarray]], season: int = 24) -> float:
    """The mean absolute test error of an autoregressive model fitted to `series` by least squares. The validation error
    selects its order and whether it models seasonal differences: ARIMA(p, 0, 0)(0, 0 or 1, 0).
    """
    found = []
    for difference, order in product((0, season), ORDERS):
        if difference + order <= windows["test"][0].shape[1]:
            weights = fitted(series[difference:] - series[: len(series) - difference] if difference else series, order)
            errors = [
                error(continued(history, weights, difference, future.shape[1]), future)
                for history, future in (windows["valid"], windows["test"])
            ]
            found.append(errors)
    return min(found)[1]


def fitted(series: np.ndarray, order: int) -> np.ndarray:
    """Weights of the last `order` values, the latest first, then the constant."""
    count = len(series) - order
    terms = [series[order - 1 - lag : order - 1 - lag + count] for lag in range(order)]
    return np.linalg.lstsq(np.stack([*terms, np.ones(count)], axis=1), series[order:], rcond=None)[0]


def continued(history: np.ndarray, weights: np.ndarray, difference: int, steps: int) -> np.ndarray:
    """Forecasts [N, steps] of histories [N, rows]."""
    order, known = len(weights) - 1, history
    series = known[:, difference:] - known[:, : known.shape[1] - difference] if difference else known
    for _ in range(steps):
        following = series[:, : -order - 1 : -1] @ weights[:-1] + weights[-1]
        series = np.concatenate([series, following[:, None]], axis=1)
    found = series[:, -steps:]
    if difference:
        whole = history
        for step in range(steps):
            whole = np.concatenate([whole, (found[:, step] + whole[:, -difference])[:, None]], axis=1)
        found = whole[:, -steps:]
    return found


def error(predicted: np.ndarray, future: np.ndarray) -> float:
    """The mean absolute error."""
    return float(np.abs(predicted - future).mean())


def windows_of(part: Series) -> tuple[np.ndarray, np.ndarray]:
    """Histories and futures of the first target, in its units."""
    batch = part.take(np.arange(len(part)))
    history, future = (part.scaling.unscale(batch[name][..., :1]) for name in ("history", "future"))
    return history[..., 0], future[..., 0]


def texts_of(part: Any) -> tuple[list[str], Sequence[int]]:
    """The texts of a split with their classes."""
    vocabulary = vocabulary_of(part)
    assert vocabulary is not None
    items = [part[index] for index in range(len(part))]
    return [vocabulary.decode(item["tokens"].tolist()) for item in items], [int(item["label"]) for item in items]


def splits_of(recipe: str) -> Any:
    """The splits that a recipe reads."""
    loaded = load(recipe)
    task = task_class(loaded.task)(loaded.config, loaded.options)
    return task.read_splits(*(loaded.declaration.fields if loaded.declaration else ()))
