"""Trains a network of 100 million parameters, and prints the cost of each checkpoint as a JSON object.

python benchmarks/workloads/checkpointed.py [--steps 200] [--every 50] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from trainer import engine
from trainer.configs import config_from
from trainer.datasets import ArrayDataset, Loader
from trainer.engine import nn
from trainer.learner import DataSplits, Learner, Task
from trainer.metrics import Mean
from trainer.rundir import Event, create_run

WIDTH, LAYERS, ROWS = 3162, 10, 8


class Wide(Task):
    """Ten square layers of ten million weights each."""

    def data(self) -> DataSplits:
        values = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
        data = ArrayDataset({"x": values})
        return DataSplits(train=Loader(data, ROWS), valid=Loader(data, ROWS))

    def build(self) -> None:
        self.net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch: dict[str, engine.Tensor]) -> dict[str, Mean]:
        loss = engine.mean(self.net(batch["x"]) ** 2)
        self.optimizer.minimize(loss)
        return {"loss": Mean(loss)}

    def valid_step(self, batch: dict[str, engine.Tensor]) -> dict[str, Mean]:
        return {"loss": Mean(engine.mean(self.net(batch["x"]) ** 2))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    config = config_from(
        {
            "optimizer": {"name": "sgd", "learning_rate": 1e-3},
            "train": {"steps": arguments.steps},
            "validate": {"every_steps": arguments.steps},
            "checkpoint": {"every_steps": arguments.every, "keep_last": 1},
            "autotune": {"mode": "off"},
        }
    )
    steps: list[float] = []

    def hear(event: Event) -> None:
        if event.kind == "system":
            steps.append(event.step_ms)  # type: ignore[attr-defined]
        elif event.kind == "checkpoint":
            names = ("step", "bytes", "copy_ms", "stall_ms", "write_s", "cpu_s")
            print(json.dumps({name: getattr(event, name) for name in names}), flush=True)

    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        Learner(Wide, config, paths=create_run(Path(folder), "wide"), sink=hear).run().check()
    print(json.dumps({"step_ms": steps}))


if __name__ == "__main__":
    main()
