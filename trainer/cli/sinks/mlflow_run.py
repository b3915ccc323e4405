"""MLflow, in a local folder unless another store is named; `mlflow ui` shows it."""

from __future__ import annotations

import math
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from trainer.cli.sinks.sink import Sink, configuration
from trainer.rundir import EndEvent, MetricEvent, Record, RunPaths, SampleEvent
from trainer.tui.comparison import leaves

MOST_LETTERS = 500
"""Maximum length of a parameter value in MLflow's stores."""

MOST_TOGETHER = 100
"""Parameters per call."""

_STATUS = {"done": "FINISHED", "stopped": "FINISHED", "pruned": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class MlflowSink(Sink):
    """An MLflow run with the name of the run and its configuration as parameters.

    Args:
        tracking_uri: the store; default: a database in the run directory, with the samples next to it.
        experiment: the experiment's name; created if missing.
    """

    def __init__(self, paths: RunPaths, tracking_uri: str | None = None, experiment: str = "trainer") -> None:
        super().__init__(paths)
        self.place = tracking_uri or f"sqlite:///{paths.root.resolve() / 'mlflow.db'}"
        self._client: Any = MlflowClient(self.place)
        known = self._client.get_experiment_by_name(experiment)
        # a database has no artifact location: MLflow would use the current working directory
        samples = None if tracking_uri else (paths.root.resolve() / "mlflow").as_uri()
        made = known is None and self._client.create_experiment(experiment, artifact_location=samples)
        identity = made or known.experiment_id
        self._run = self._client.create_run(identity, run_name=paths.name).info.run_id
        values = [(key, value) for key, value in leaves(configuration(paths)) if not isinstance(value, dict)]
        parameters = [Param(key, str(value)[:MOST_LETTERS]) for key, value in values]
        for start in range(0, len(parameters), MOST_TOGETHER):
            self._client.log_batch(self._run, params=parameters[start : start + MOST_TOGETHER])
        self._status = "KILLED"

    def record(self, record: Record) -> None:
        event = record.event
        if isinstance(event, MetricEvent):
            milliseconds = round(1000 * record.time)
            values = [
                Metric(_key(f"{event.split}/{name}"), value, milliseconds, event.step)
                for name, value in event.values.items()
                if not math.isnan(value)  # rejected by its stores
            ]
            self._client.log_batch(self._run, metrics=values)
        elif isinstance(event, SampleEvent):
            path = self.paths.inside(event.file)
            if path is not None:
                self._client.log_artifact(self._run, str(path), f"samples/step-{event.step}")
        elif isinstance(event, EndEvent):
            self._status = _STATUS.get(event.status, "FINISHED")

    def close(self) -> None:
        self._client.set_terminated(self._run, self._status)


def _key(name: str) -> str:
    """A name with only the characters that MLflow allows."""
    return "".join(letter if letter.isalnum() or letter in "_-./ " else "_" for letter in name)
