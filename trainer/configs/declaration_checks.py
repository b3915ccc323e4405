"""Checks a configuration against its task's declaration: optimizers, metrics and monitored metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from trainer.configs.declaration import Declaration, Returns
from trainer.configs.metrics import METRICS, MetricConfig, metric_config
from trainer.configs.monitored_metrics import awaited_metrics
from trainer.configs.problems import KeyPath, Problem, dotted
from trainer.configs.run import RunConfig

if TYPE_CHECKING:
    from trainer.configs.load import Loaded

AVERAGED = "ema/"
SPLITS = ("train", "valid")
"""Splits that are evaluated during training."""
OF_EVERY_TRAINING_STEP = {"gradient_norm": ("gradient_norm",)}
"""Predictions that the training loop adds to those of `train_step`."""
MOST_SUGGESTED = 12


def refuse_undeclared(loaded: Loaded) -> Iterator[Problem]:
    """Yields every contradiction between a configuration and its task's declaration; none without a declaration."""
    if loaded.declaration is None:
        return
    yield from _optimizers(loaded, loaded.declaration)
    yield from _reader(loaded, loaded.declaration)
    yield from _normalization(loaded, loaded.declaration)
    yield from _metrics(loaded, loaded.declaration)
    yield from _awaited(loaded, loaded.declaration)


def _optimizers(loaded: Loaded, declaration: Declaration) -> Iterator[Problem]:
    given = loaded.config.all_optimizers()
    if not given or set(given) == set(declaration.optimizers):
        return
    if declaration.optimizers == ("optimizer",):
        expected = "one section `optimizer:`"
        hint = "Write optimizer: {name: adamw, learning_rate: 0.001} in place of `optimizers:`."
    else:
        expected = f"`optimizers:` with {' and '.join(declaration.optimizers)}"
        sections = ", ".join(f"{name}: {{name: adam, learning_rate: 0.0002}}" for name in declaration.optimizers)
        hint = f"Write optimizers: {{{sections}}}."
    single = loaded.config.optimizers is None
    yield loaded.problem(
        ("optimizer",) if single else ("optimizers",),
        f"the task {_name(loaded)} uses other optimizers",
        found="a single `optimizer:`" if single else f"`optimizers:` with {' and '.join(given)}",
        expected=expected,
        hint=hint,
    )


def _reader(loaded: Loaded, declaration: Declaration) -> Iterator[Problem]:
    reader = loaded.config.data.reader
    if reader is not None and not declaration.reads:
        yield loaded.problem(
            ("data", "reader"),
            f"the task {_name(loaded)} creates its data itself and would ignore the reader",
            found=reader.name,
            expected="no data.reader",
            hint="Remove data.reader, or call `self.read_splits()` in the task and declare reads=True.",
        )


def _normalization(loaded: Loaded, declaration: Declaration) -> Iterator[Problem]:
    if loaded.config.model.normalization is not None and declaration.normalization is None:
        yield loaded.problem(
            ("model", "normalization"),
            f"the task {_name(loaded)} doesn't use it",
            expected="null",
            hint="Remove model.normalization; the transform `normalize` in data.transforms applies to every task.",
        )


def _metrics(loaded: Loaded, declaration: Declaration) -> Iterator[Problem]:
    metrics = loaded.config.metrics
    train = {**OF_EVERY_TRAINING_STEP, **declaration.train.predictions}
    yield from _of_split(loaded, "train", metrics.train, declaration.train.metrics, train)
    yield from _of_split(loaded, "valid", metrics.valid, declaration.valid.metrics, declaration.valid.predictions)
    if metrics.test is not None:
        yield from _of_split(loaded, "test", metrics.test, declaration.valid.metrics, declaration.valid.predictions)


def _of_split(
    loaded: Loaded,
    split: str,
    metrics: Sequence[MetricConfig],
    own: Sequence[str],
    predictions: Mapping[str, Sequence[str]],
) -> Iterator[Problem]:
    names: set[str] = set()
    for index, metric in enumerate(metrics):
        path: KeyPath = ("metrics", split, index)
        if metric.shown_as in names or metric.shown_as in own:
            what = "another metric already has" if metric.shown_as in names else "the task's own metric already has"
            yield loaded.problem(
                path, f"{what} the name {metric.shown_as!r}", hint="Remove it, or rename it with `as:`."
            )
        names.add(metric.shown_as)
        needs = metric.roles()
        if needs is None or _fits(needs, metric.of, predictions):
            continue
        suggested = [name for name in METRICS if _fits(_roles_of(name), None, predictions)]
        more = ", …" if len(suggested) > MOST_SUGGESTED else ""
        yield loaded.problem(
            path,
            f"the metric {metric.name!r} can't be computed from the predictions of the task {_name(loaded)}",
            found="; ".join(f"{name} ({', '.join(roles)})" for name, roles in predictions.items()) or "no predictions",
            expected=(f"predictions named {metric.of} with " if metric.of else "predictions with ")
            + ", ".join(" or ".join(need.split("|")) for need in needs),
            hint=f"Remove it, or choose from: {', '.join(suggested[:MOST_SUGGESTED])}{more}."
            if suggested
            else "Remove it.",
        )


def _awaited(loaded: Loaded, declaration: Declaration) -> Iterator[Problem]:
    config = loaded.config
    for path, metric in awaited_metrics(config):
        split, _, name = metric.partition("/")
        known = _measured(config, declaration, split)
        if any(name == one or name.startswith(f"{one}/") for one in known):
            continue
        expected = ", ".join(f"{split}/{one}" for one in known) or "a metric of train or valid, such as valid/loss"
        hint = "Monitor one of those, or add the metric to `metrics:`."
        plain = name.removeprefix(AVERAGED)
        if plain != name and config.train.ema is None:
            hint = "Names with ema/ belong to the averaged weights: set train.ema={decay: 0.999}, or remove ema/."
        elif plain in METRICS and split in SPLITS:
            hint = f"Add {plain} to metrics.{split}, or monitor one of those."
        yield loaded.problem(path, f"{dotted(path)[:-7]} monitors a metric that is never computed",
                             found=metric, expected=expected, hint=hint,
                             rests_on=(("metrics",), ("train", "ema")))  # fmt: skip


def _measured(config: RunConfig, declaration: Declaration, split: str) -> list[str]:
    """The names of a split's metrics; a metric with several values has only the first part of its name."""
    if split not in SPLITS:
        return []
    returned: Returns = getattr(declaration, split)
    asked = config.metrics.train if split == "train" else config.metrics.valid
    names = [*returned.metrics, *(one.shown_as for one in asked)]
    averaged = [f"{AVERAGED}{name}" for name in names] if config.train.ema is not None and split == "valid" else []
    return [*averaged, *names]


def _fits(needs: Sequence[str] | None, of: str | None, predictions: Mapping[str, Sequence[str]]) -> bool:
    """Whether some prediction, or the one named `of`, has all roles, each in one of its alternatives."""
    return needs is not None and any(
        of in (None, name) and all(any(role in roles for role in need.split("|")) for need in needs)
        for name, roles in predictions.items()
    )


def _roles_of(name: str) -> Sequence[str] | None:
    section = metric_config(name)
    return section.needs if "roles" not in vars(section) else None  # an overridden `roles` depends on settings


def _name(loaded: Loaded) -> str:
    return loaded.task.recipe or loaded.task.class_name or loaded.task.module
