"""Metrics: COCO evaluation beside pycocotools, and what evaluating costs a training beside it.

python benchmarks/metrics.py [coco_boxes coco_masks loop_ten_metrics …] [--json] [--rounds N]

Both evaluate the same rows in the same process, from memory to the summary; reading files is not counted. The figures
of both are compared: a difference ends the benchmark.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import subprocess
import sys
import time
from pathlib import Path

from harness import Figure, checkout_environment, run_figures
from workloads.coco_scene import coco_scene

from trainer.metrics.coco import Kind, evaluate
from trainer.metrics.coco.pycocotools import as_dataset

LEAST_SPEED = 10.0
"""Times as fast as pycocotools."""


class CocoPair:
    """One scene, evaluated by both."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    @functools.cached_property
    def scene(self):
        return coco_scene(self.kind)

    @functools.cached_property
    def datasets(self):
        scene, truths, detections = self.scene
        return as_dataset(scene, truths), as_dataset(scene, detections)

    def ours(self) -> float:
        rows = self.scene
        start = time.perf_counter()
        self.stats = list(evaluate(*rows, kind=self.kind).stats.values())
        return time.perf_counter() - start

    def peer(self, python: str) -> float:
        from pycocotools.cocoeval import COCOeval

        truth, detections = self.datasets
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            run = COCOeval(truth, detections, self.kind)
            run.evaluate()
            run.accumulate()
            run.summarize()
        seconds = time.perf_counter() - start
        if run.stats.tolist() != self.stats:
            raise SystemExit(f"the figures differ: {self.stats} and pycocotools' {run.stats.tolist()}")
        return seconds


def coco_figure(name: str, kind: Kind) -> Figure:
    pair = CocoPair(kind)
    return Figure(name, ours=pair.ours, peer=pair.peer, bar=LEAST_SPEED, unit="s", needs_peer_python=False, rounds=3)


TEN = "accuracy,top_k,precision,recall,f1,iou,log_loss,confusion_matrix,roc_auc,average_precision"
MOST_MICROSECONDS = 100.0


def loop_microseconds(metrics: str) -> float:
    """Processor time of the loop's thread a step of the recipe digits, outside the program."""
    command = (sys.executable, str(Path(__file__).parent / "workloads" / "measured.py"), metrics)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=checkout_environment())
    return float(json.loads(done.stdout)["microseconds"])


def ten_metrics() -> float:
    """What ten metrics add to that, two of them of rows that are folded by a process."""
    return loop_microseconds(TEN) - loop_microseconds("none")


FIGURES = [
    coco_figure("coco_boxes", "bbox"),
    coco_figure("coco_masks", "segm"),
    Figure("loop_ten_metrics", ours=ten_metrics, bar=MOST_MICROSECONDS, unit="µs", rounds=3),
]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
