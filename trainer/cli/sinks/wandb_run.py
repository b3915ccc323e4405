"""Weights & Biases, offline unless another mode is set: `wandb sync` uploads the files."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import wandb

from trainer.cli.sinks.sink import Sink, configuration
from trainer.rundir import EndEvent, MetricEvent, Record, RunPaths, SampleEvent


class WandbSink(Sink):
    """A W&B run with the name of the run and its resolved configuration; files go to `wandb/` in the run directory.

    Options are those of `wandb.init` (`project`, `entity`, `tags`, `mode`, …).
    """

    def __init__(self, paths: RunPaths, **options: Any) -> None:
        super().__init__(paths)
        settings = {"mode": "offline", "dir": str(paths.root), "name": paths.name, "project": "trainer", **options}
        self._run = wandb.init(config=configuration(paths), **settings)
        self.place = str(self._run.url or Path(self._run.dir).parent)
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def record(self, record: Record) -> None:
        event = record.event
        if isinstance(event, MetricEvent):
            values = {f"{event.split}/{name}": value for name, value in event.values.items()}
            self._run.log({"step": event.step, "epoch": event.epoch, **values})
        elif isinstance(event, SampleEvent):
            path = self.paths.inside(event.file)
            if path is not None:
                self._run.log({"step": event.step, f"{event.split}/{event.name}": _shown(path, event.caption)})
        elif isinstance(event, EndEvent):
            self._run.summary.update({"status": event.status, **event.metrics})

    def close(self) -> None:
        self._run.finish()


def _shown(path: Path, caption: str | None) -> Any:
    """A picture, or a preformatted text."""
    if path.suffix == ".png":
        return wandb.Image(str(path), caption=caption)
    return wandb.Html(f"<pre>{html.escape(path.read_text(encoding='utf-8', errors='replace'))}</pre>", inject=False)
