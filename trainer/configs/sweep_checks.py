"""Checks that every value which a sweep may try makes a valid configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trainer.configs.overrides import parse_path
from trainer.configs.problems import ConfigError, Problem, dotted

if TYPE_CHECKING:
    from trainer.configs.load import Loaded
    from trainer.configs.sweep import ParameterConfig

NEVER_SWEPT = ("extends", "name", "sweep", "task", "validate")
"""Sections that identify the trials or would make them incomparable."""


def refuse_unsweepable(loaded: Loaded) -> Iterator[Problem]:
    """Yields a problem for a parameter that is not a config key or has an invalid value, and for a missing metric."""
    sweep = loaded.config.sweep
    if sweep is None:
        return
    if sweep.metric is None and loaded.config.checkpoint.best is None:
        yield loaded.problem(
            ("sweep",), "no metric compares the trials", expected="sweep.metric and sweep.mode, or checkpoint.best",
            hint="Set sweep.metric=valid/loss sweep.mode=min, for instance.",
        )  # fmt: skip
    plain = loaded.config.model_dump(mode="json", by_alias=True, exclude={"extends", "sweep"})
    for name, parameter in sweep.parameters.items():
        path = ("sweep", "parameters", name)
        key = parse_path(name)
        if key is None or key[0] in NEVER_SWEPT:
            yield loaded.problem(path, "not a config key that can be swept", expected="a key such as train.epochs")
            continue
        for value in _extremes(parameter):
            if (error := _error_of(plain, name, value)) is not None:
                yield loaded.problem(path, f"{error}", found=f"{name}={value}")
                break


def _extremes(parameter: ParameterConfig) -> list[Any]:
    """All values of a list, or both ends of a range."""
    if parameter.values is not None:
        return list(parameter.values)
    return list(dict.fromkeys(value for value in (parameter.low, parameter.high) if value is not None))


def _error_of(plain: dict[str, Any], name: str, value: Any) -> str | None:
    """The first problem of the config with this value; None if it is valid."""
    from trainer.configs.load import load

    try:
        load(plain, {name: value})
    except ConfigError as error:
        problem = error.problems[0]
        return f"{dotted(problem.path)}: {problem.message}" if dotted(problem.path) != name else problem.message
    return None
