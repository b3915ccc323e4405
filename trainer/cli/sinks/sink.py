"""The base class of sinks, the table of available sinks, and their construction."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any

from trainer import TrainerError
from trainer.rundir import Record, RunPaths

SINKS: dict[str, tuple[str, str, str | None]] = {
    "csv": ("trainer.cli.sinks.table", "CsvSink", None),
    "tensorboard": ("trainer.cli.sinks.tensorboard_files", "TensorBoardSink", "tensorboard"),
    "wandb": ("trainer.cli.sinks.wandb_run", "WandbSink", "wandb"),
    "mlflow": ("trainer.cli.sinks.mlflow_run", "MlflowSink", "mlflow"),
}
"""By name: module, class, and the package that it requires."""

GROUP = "trainer.sinks"
"""The entry point group in which other packages register sinks."""


class Sink:
    """Receives the records of a run in order, including those that a resumed attempt replaced.

    Created with the run and the options of the configuration. `record` may raise; the sink then ends and the run logs a
    warning. `place` is where the records are written: a file, a folder or an address.
    """

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.place = str(paths.root)

    def record(self, record: Record) -> None:
        """Receives one record."""
        raise TypeError(f"{type(self).__name__} has no method `record`")

    def flush(self) -> None:
        """Flushes received records; called when no more are available for now."""

    def close(self) -> None:
        """Closes the sink: the run has ended."""


def configuration(paths: RunPaths) -> dict[str, Any]:
    """The latest attempt's resolved configuration as plain values; empty if missing."""
    from trainer.configs.problems import Place
    from trainer.configs.reader import read_yaml

    try:
        text = paths.config(max(paths.last_attempt, 1)).read_text(encoding="utf-8")
    except OSError:
        return {}
    value = read_yaml(text, Place(paths.name)).value
    return value if isinstance(value, dict) else {}


def make_sink(name: str, paths: RunPaths, options: dict[str, Any]) -> Sink:
    """Creates the sink with a name.

    Raises:
        TrainerError: no sink has this name, a required package is not installed, or an option is unknown.
    """
    kind = _kind(name)
    try:
        made = kind(paths, **options)
    except TypeError as error:
        raise TrainerError(f"the sink {name} can't be created with these options", found=str(error)) from error
    assert isinstance(made, Sink)
    return made


def check_sink(name: str) -> None:
    """Checks that a sink can be created, without importing its packages.

    Raises:
        TrainerError: no sink has this name, or a required package is not installed.
    """
    if name in SINKS:
        needs = SINKS[name][2]
        if needs is not None and importlib.util.find_spec(needs) is None:
            raise TrainerError(f"the sink {name} needs a package that is not installed", hint=f"pip install {needs}")
    elif name not in (others := _others()):
        known = ", ".join([*SINKS, *others])
        raise TrainerError(f"unknown sink {name}", expected=f"one of {known}, or an entry point of the group {GROUP}")


def _kind(name: str) -> type[Any]:
    check_sink(name)
    if name in SINKS:
        module, class_name, _ = SINKS[name]
        kind: type[Any] = getattr(importlib.import_module(module), class_name)
        return kind
    found: type[Any] = _others()[name].load()
    return found


def _others() -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}
