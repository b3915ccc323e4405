"""COCO's report on the evaluation screen: what the metric writes is what the screen reads."""

from __future__ import annotations

import json

from tests.metrics.coco.scenes import SCENE, random_scene
from trainer.metrics.coco import evaluate
from trainer.tui.panels.evaluation import report_of


def test_figures_stand_above_a_row_for_each_class() -> None:
    evaluation = evaluate(SCENE, *random_scene(9, truths=60, detections=400))
    report = report_of(json.loads(json.dumps({"kind": "coco", "format": 1, **evaluation.as_json()})))
    assert report.numbers == {name: value for name, value in evaluation.stats.items() if value > -1}
    assert [row.cells[0] for row in report.rows] == list(SCENE.names)
    assert [column.title for column in report.columns][:4] == ["name", "truths", "AP", "AP50"]
    assert report.rows[3].cells[2] == "-" and report.rows[3].cells[1] == "0"
