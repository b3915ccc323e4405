"""Which of a run's metrics stand in which chart, decided from the names that tasks report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trainer.tui.numbers import number
from trainer.tui.series import Series
from trainer.tui.view import View

LINE_ROLES = ("train", "second", "third")
LESS_IS_BETTER = ("loss", "error", "perplexity", "mae", "mse", "rmse", "fid", "distance")


@dataclass(frozen=True)
class Layer:
    """One series in one look. `raw` is drawn behind the smoothed line of the same series; points get a dot each.

    `mark` is a letter at the last of its points, which tells it from others without colour.
    """

    name: str
    series: Series
    look: Literal["raw", "smoothed", "line", "points"]
    role: str
    mark: str = ""


Smoothing = Literal["0.9", "0.99", "none"]


@dataclass(frozen=True)
class Window:
    """Which part of the steps charts show, and the step at which they tell values; the same for all on a screen.

    Attributes:
        start, end: the steps at the edges; an end of None: as far as the run has got.
        cursor: the step of the cross-hair, None where there is none.
    """

    start: float = 0.0
    end: float | None = None
    cursor: float | None = None
    smoothing: Smoothing = "0.9"


WHOLE = Window()


@dataclass(frozen=True)
class Chart:
    """What stands in a chart, painted in the order of the layers; `best` is a step and a value to be marked."""

    title: str
    layers: tuple[Layer, ...]
    best: tuple[float, float] | None = None
    log_scale: bool = False
    window: Window = WHOLE

    @property
    def version(self) -> tuple[object, ...]:
        """Changes exactly when the drawing would."""
        layers = ((layer.name, layer.series.version) for layer in self.layers)
        return (self.title, self.best, self.log_scale, self.window, *layers)


def better(name: str) -> Literal["min", "max"]:
    """Which end of a metric is the good one, as far as its name tells."""
    return "min" if any(word in name for word in LESS_IS_BETTER) else "max"


def loss_chart(view: View) -> Chart | None:
    """The training losses, raw and smoothed, and the validation loss as points."""
    train = dict(_of(view, "train"))
    names = ["loss"] if "loss" in train else [name for name in train if "loss" in name][: len(LINE_ROLES)]
    layers = [Layer(name, train[name], "raw", f"{role}_raw") for name, role in zip(names, LINE_ROLES, strict=False)]
    layers += [Layer(name, train[name], "smoothed", role) for name, role in zip(names, LINE_ROLES, strict=False)]
    valid = dict(_of(view, "valid")).get("loss")
    if valid is not None:
        layers.append(Layer("valid", valid, "points", "valid"))
    if not layers:
        return None
    told = [f"{layer.name if len(names) > 1 else 'train'} {number(layer.series.smoothed[-1])}"
            for layer in layers if layer.look == "smoothed"]  # fmt: skip
    told += [f"valid {number(valid.last)}"] if valid is not None else []
    bad = sum(train[name].not_finite for name in names)
    told = [f"{bad} not finite", *told] if bad else told  # what comes last goes first where there is no room
    return Chart("loss  " + "  ".join(told), tuple(layers))


def valid_chart(view: View) -> Chart | None:
    """The metric that chooses checkpoints, with its training line and its best point.

    Without one, the first validation metric that is not a loss (else the loss).
    """
    valid = dict(_of(view, "valid"))
    leading = (view.leading or "").removeprefix("valid/")
    name = next((name for name in valid if "loss" not in name), next(iter(valid), None))
    name = leading if leading in valid else name
    if name is None:
        return None
    best = valid[name].best(better(name))
    if view.best_step is not None:
        marked = [pair for pair in zip(valid[name].steps, valid[name].values, strict=True) if pair[0] == view.best_step]
        best = marked[-1] if marked else best
    layers = [Layer("train", series, "smoothed", "train") for other, series in _of(view, "train") if other == name]
    layers += [Layer(name, valid[name], "line", "valid"), Layer(name, valid[name], "points", "valid")]
    told = f"valid/{name}  {number(valid[name].last)}"
    told += f"  best {number(best[1])} at {best[0]:g}" if best is not None else ""
    return Chart(told, tuple(layers), best)


def rate_chart(view: View) -> Chart | None:
    """The learning rates, on a logarithmic scale where they span more than a factor of ten."""
    rates = [(name, series) for name, series in _of(view, "train") if "learning_rate" in name][: len(LINE_ROLES)]
    if not rates:
        return None
    positive = [value for _, series in rates for value in (min(series.values), max(series.values))]
    log_scale = min(positive) > 0 and max(positive) > 10 * min(positive)
    roles = ("rate", *LINE_ROLES[1:])
    layers = tuple(Layer(name, series, "line", role) for (name, series), role in zip(rates, roles, strict=False))
    return Chart("learning rate  " + "  ".join(number(series.last) for _, series in rates), layers, None, log_scale)


def metric_charts(view: View, text: str = "", window: Window = WHOLE, *, log_scale: bool = False) -> list[Chart]:
    """A chart for each metric with `text` in its name: training smoothed, over it other splits and averaged weights."""
    groups: dict[str, list[tuple[str, str, Series]]] = {}
    for (split, name), series in view.series.items():
        if text.lower() in f"{split}/{name}".lower() and len(series):
            groups.setdefault(name.removeprefix("ema/"), []).append((split, name, series))
    return [_metric_chart(name, members, window, log_scale) for name, members in groups.items()]


def _metric_chart(name: str, members: Sequence[tuple[str, str, Series]], window: Window, log_scale: bool) -> Chart:
    layers: list[Layer] = []
    best = None
    roles = iter(OTHER_ROLES * len(members))
    for split, own_name, series in members:
        label = f"{split}/ema" if own_name != name else split
        if split == "train":
            is_noisy = "learning_rate" not in name and window.smoothing != "none"
            layers += [Layer(label, series, "raw", "train_raw")] if is_noisy else []
            layers.append(Layer(label, series, "smoothed" if is_noisy else "line", "train"))
        else:
            role = next(roles)
            layers += [Layer(label, series, "line", role), Layer(label, series, "points", role)]
            best = best or series.best(better(name))
    return Chart(name, tuple(layers), best, log_scale, window)


OTHER_ROLES = ("valid", "third", "second")

CHARTS: dict[str, Callable[[View], Chart | None]] = {"loss": loss_chart, "valid": valid_chart, "rate": rate_chart}


def _of(view: View, split: str) -> Iterator[tuple[str, Series]]:
    return ((name, series) for (of_split, name), series in view.series.items() if of_split == split)
