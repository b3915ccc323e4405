"""COCO's report on the evaluation screen: what the metric writes is what the screen reads."""

from __future__ import annotations

import json

from tests.metrics.coco.scenes import SCENE, random_scene
from trainer.metrics.coco import evaluate
from trainer.tui.reports import report_of


def test_figures_stand_above_a_row_for_each_class() -> None:
    evaluation = evaluate(SCENE, *random_scene(9, truths=60, detections=400))
    report = report_of(json.loads(json.dumps({"kind": "coco", "format": 1, **evaluation.as_json()})))
    assert report.numbers == {name: value for name, value in evaluation.stats.items() if value > -1}
    assert [row[0] for row in report.rows] == list(SCENE.names)
    assert report.header[:4] == ["name", "truths", "AP", "AP50"]
    assert report.rows[3][1:3] == (0, None)
    assert [curve.name for curve in report.curves] == [row[0] for row in report.rows if row[1]]


def test_what_there_is_nothing_of_is_not_listed():
    row = {"category": "a", "AP": "nan", "AR": -1}
    content = {"kind": "coco", "stats": {"AP": 0.5, "AP_large": "nan", "AR": -1},
               "classes": [row, {**row, "AP": 0.25}], "curves": {}}  # fmt: skip
    report = report_of(content)
    assert dict(report.numbers) == {"AP": 0.5}
    assert list(report.rows) == [("a", 0.25, None)]
