"""Metrics: COCO evaluation beside pycocotools, and what evaluating costs a training beside it.

python benchmarks/metrics.py [coco_boxes coco_masks …] [--json] [--rounds N]

Both evaluate the same rows in the same process, from memory to the summary; reading files is not counted. The figures
of both are compared: a difference ends the benchmark.
"""

from __future__ import annotations

import contextlib
import functools
import io
import time

from harness import Figure, run_figures
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


FIGURES = [coco_figure("coco_boxes", "bbox"), coco_figure("coco_masks", "segm")]

if __name__ == "__main__":
    raise SystemExit(run_figures(FIGURES))
