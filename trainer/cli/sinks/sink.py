"""What a sink is, the table of those there are, and how one is made."""

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
"""By name: module, class, and the package that must be installed for it."""

GROUP = "trainer.sinks"
"""The entry points under which other packages offer sinks of their own."""


class Sink:
    """Takes the records of a run in their order, those that a resumed attempt took back included.

    Made with the run and the options of the configuration. `record` may raise: the sink is then over, and the run has
    a warning. `place` is where the records can be found: a file, a folder or an address.
    """

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.place = str(paths.root)

    def record(self, record: Record) -> None:
        """Take in one record."""
        raise TypeError(f"{type(self).__name__} takes no records")

    def flush(self) -> None:
        """Bring what was taken in to where it can be seen; called when there is nothing more to read for now."""

    def close(self) -> None:
        """The run is over, or this sink's part in it."""


def configuration(paths: RunPaths) -> dict[str, Any]:
    """The latest attempt's resolved configuration as plain values; empty where there is none."""
    from trainer.configs.problems import Place
    from trainer.configs.reader import read_yaml

    try:
        text = paths.config(max(paths.last_attempt, 1)).read_text(encoding="utf-8")
    except OSError:
        return {}
    value = read_yaml(text, Place(paths.name)).value
    return value if isinstance(value, dict) else {}


def make_sink(name: str, paths: RunPaths, options: dict[str, Any]) -> Sink:
    """The sink of a name.

    Raises:
        TrainerError: there is none of that name, what it needs is not installed, or it has no such options.
    """
    kind = _kind(name)
    try:
        made = kind(paths, **options)
    except TypeError as error:
        raise TrainerError(f"the sink {name} can't be made with these options", found=str(error)) from error
    assert isinstance(made, Sink)
    return made


def check_sink(name: str) -> None:
    """Look whether a sink of this name could be made, without importing what it needs.

    Raises:
        TrainerError: there is none of that name, or what it needs is not installed.
    """
    if name in SINKS:
        needs = SINKS[name][2]
        if needs is not None and importlib.util.find_spec(needs) is None:
            raise TrainerError(f"the sink {name} needs a package that is not installed", hint=f"pip install {needs}")
    elif name not in (others := _others()):
        known = ", ".join([*SINKS, *others])
        raise TrainerError(f"no sink {name}", expected=f"one of {known}, or an entry point under {GROUP}")


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
