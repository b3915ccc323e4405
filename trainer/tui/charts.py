"""Selects the metrics of each chart, by the names that tasks report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from trainer.tui.numbers import number
from trainer.tui.series import Series
from trainer.tui.view import View

LINE_ROLES = ("train", "second", "third")
LESS_IS_BETTER = ("loss", "error", "perplexity", "mae", "mse", "rmse", "fid", "distance")


class Layer(NamedTuple):
    """One series drawn in one style. `raw` is drawn behind the smoothed line of the same series; `points` are dots.

    `mark` is a letter at the last point, which identifies the series without color.
    """

    name: str
    series: Series
    look: Literal["raw", "smoothed", "line", "points"]
    role: str
    mark: str = ""


Smoothing = Literal["0.9", "0.99", "none"]


class Window(NamedTuple):
    """The steps and values that charts show, and the step of the cross-hair; the same for all charts of a screen.

    Attributes:
        start, end: the steps at the edges; an end of None follows the run's last step.
        cursor: the step of the cross-hair, None without one.
        is_robust: the range of values excludes outliers, which get a marker at the edge.
    """

    start: float = 0.0
    end: float | None = None
    cursor: float | None = None
    smoothing: Smoothing = "0.9"
    is_robust: bool = True


WHOLE = Window()


class Chart(NamedTuple):
    """The content of a chart, painted in the order of the layers.

    Attributes:
        best: the step and the value to mark.
        log_scale: None: logarithmic if the values span a factor of 20.
        unit: the unit of the horizontal axis.
    """

    title: str
    layers: tuple[Layer, ...]
    best: tuple[float, float] | None = None
    log_scale: bool | None = False
    window: Window = WHOLE
    unit: str = "step"

    @property
    def version(self) -> tuple[object, ...]:
        """A value that changes exactly when the drawing changes."""
        layers = ((layer.name, layer.series.version) for layer in self.layers)
        return (self.title, self.best, self.log_scale, self.window, *layers)


def better(name: str) -> Literal["min", "max"]:
    """Whether a smaller or a larger value of a metric is better, decided from its name."""
    return "min" if any(word in name for word in LESS_IS_BETTER) else "max"


def loss_chart(view: View) -> Chart | None:
    """The training losses, raw and smoothed, and the validation loss with a dot for each validation."""
    train = dict(_of(view, "train"))
    names = ["loss"] if "loss" in train else [name for name in train if "loss" in name][: len(LINE_ROLES)]
    labels = names if len(names) > 1 else ["train"]
    lines = list(zip(labels, names, LINE_ROLES, strict=False))
    layers = [Layer(label, train[name], "raw", f"{role}_raw") for label, name, role in lines]
    layers += [Layer(label, train[name], "smoothed", role) for label, name, role in lines]
    valid = dict(_of(view, "valid")).get("loss")
    layers += _line_with_points("valid", valid, "valid") if valid is not None else []
    if not layers:
        return None
    title = [f"{layer.name} {number(layer.series.smoothed[-1])}" for layer in layers if layer.look == "smoothed"]
    title += [f"valid {number(valid.last)}"] if valid is not None else []
    not_finite = sum(train[name].not_finite for name in names)
    title = [f"{not_finite} not finite", *title] if not_finite else title  # a narrow title drops its last parts first
    return Chart("loss  " + "  ".join(title), tuple(layers), log_scale=None)


def valid_chart(view: View) -> Chart | None:
    """The primary metric, with its training line and its best point; if that is the loss, the first other metric."""
    valid, primary = dict(_of(view, "valid")), primary_metric(view)
    if primary is None:
        return None
    name = next((name for name in valid if "loss" not in name), primary) if primary == "loss" else primary
    best = best_of(view, name)
    layers = [Layer("train", series, "smoothed", "train") for other, series in _of(view, "train") if other == name]
    layers += _line_with_points("valid", valid[name], "valid")
    title = f"valid/{name}  {number(valid[name].last)}"
    title += f"  best {number(best[1])} at {best[0]:g}" if best is not None else ""
    return Chart(title, tuple(layers), best, None if "loss" in name else False)


def primary_metric(view: View) -> str | None:
    """The validation metric that chooses checkpoints; without one, the first that is not a loss (else the loss)."""
    names = [name for name, _ in _of(view, "valid")]
    leading = (view.leading or "").removeprefix("valid/")
    return (
        leading if leading in names else next((name for name in names if "loss" not in name), next(iter(names), None))
    )


def best_of(view: View, name: str) -> tuple[float, float] | None:
    """Step and value of the best validation; for the primary metric, those of the best checkpoint."""
    series = view.series["valid", name]
    if view.best_step is not None and name == primary_metric(view):
        at_checkpoint = series.at(view.best_step)
        if at_checkpoint is not None:
            return view.best_step, at_checkpoint
    return series.best(better(name))


def rate_chart(view: View) -> Chart | None:
    """The learning rates."""
    rates = [(name, series) for name, series in _of(view, "train") if "learning_rate" in name][: len(LINE_ROLES)]
    if not rates:
        return None
    roles = ("rate", *LINE_ROLES[1:])
    labels = ["train"] if len(rates) == 1 else [name.removeprefix("learning_rate/") for name, _ in rates]
    layers = tuple(
        Layer(label, series, "line", role) for label, (_, series), role in zip(labels, rates, roles, strict=False)
    )
    return Chart("learning rate  " + "  ".join(number(series.last) for _, series in rates), layers, log_scale=None)


def _line_with_points(label: str, series: Series, role: str) -> list[Layer]:
    return [Layer(label, series, "line", role), Layer(label, series, "points", role)]


def metric_charts(view: View, text: str = "", window: Window = WHOLE, *, log_scale: bool | None = None) -> list[Chart]:
    """A chart for each metric with `text` in its name: smoothed training values, other splits and averaged weights.

    With a `log_scale` of None, the scale of losses and learning rates is automatic, and that of other metrics linear.
    """
    groups: dict[str, list[tuple[str, str, Series]]] = {}
    for (split, name), series in view.series.items():
        if text.lower() in f"{split}/{name}".lower() and len(series):
            groups.setdefault(name.removeprefix("ema/"), []).append((split, name, series))
    return [_metric_chart(name, members, window, log_scale) for name, members in groups.items()]


def _metric_chart(
    name: str, members: Sequence[tuple[str, str, Series]], window: Window, log_scale: bool | None
) -> Chart:
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
            layers += _line_with_points(label, series, role)
            best = best or series.best(better(name))
    if log_scale is None and "loss" not in name and "learning_rate" not in name:
        log_scale = False
    return Chart(name, tuple(layers), best, log_scale, window)


OTHER_ROLES = ("valid", "third", "second")

CHARTS: dict[str, Callable[[View], Chart | None]] = {"loss": loss_chart, "valid": valid_chart, "rate": rate_chart}


def _of(view: View, split: str) -> Iterator[tuple[str, Series]]:
    return ((name, series) for (of_split, name), series in view.series.items() if of_split == split)
