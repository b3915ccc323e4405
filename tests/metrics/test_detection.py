"""COCO's figures as a metric: batches with padding against an evaluation of the rows, and what a process keeps."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tests.metrics.measuring import measured, part, split_measured, state_of, states_of_pieces
from tests.metrics.objects import batches, by_rows
from trainer import TrainerError
from trainer.metrics.coco import Kind
from trainer.metrics.detection import CocoFigures


@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_the_figures_are_pycocotools_in_any_batches_and_order(kind: Kind) -> None:
    given = batches(kind)
    want = {name: pytest.approx(math.nan if value == -1 else value, nan_ok=True, rel=0, abs=0)
            for name, value in by_rows(given, kind).items()}  # fmt: skip
    assert 0 < by_rows(given, kind)["AP"] < 1
    for sizes, order in (((12,), (0,)), ((5, 5, 2), (2, 0, 1)), ((1, 11), (1, 0))):
        assert split_measured(CocoFigures(kind), sizes, order=order, **given) == want


def test_pycocotools_may_count_instead() -> None:
    given = batches("bbox")
    assert measured(CocoFigures(evaluator="pycocotools"), **given) == pytest.approx(
        measured(CocoFigures(), **given), nan_ok=True, rel=0, abs=0
    )


def test_without_areas_and_crowds_boxes_are_all_there_is() -> None:
    given = batches("bbox")
    plain = {name: values for name, values in given.items() if name not in ("area", "crowd")}
    corners = given["true_boxes"].astype(np.float64)
    area = (corners[..., 2] - corners[..., 0]) * (corners[..., 3] - corners[..., 1])
    want = by_rows(given | {"area": area, "crowd": np.zeros_like(given["crowd"])}, "bbox")
    assert measured(CocoFigures(), **plain)["AP"] == want["AP"]


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_a_state_goes_through_a_checkpoint_as_plain_arrays(kind: Kind) -> None:
    given, metric = batches(kind), CocoFigures(kind)
    first, second = states_of_pieces(metric, (5, 7), 7, given)
    plain = {name: np.array(values) for name, values in first.items()}
    assert all("/" not in name for name in plain)
    later = {name: values[5:] for name, values in given.items()}
    restored = metric.fold(metric.restored(plain), part(metric, later))
    assert metric.values(restored) == pytest.approx(
        metric.values(metric.merge(first, second)), nan_ok=True, rel=0, abs=0
    )


def test_the_report_has_a_table_of_named_classes_and_curves() -> None:
    given = batches("bbox")
    metric = CocoFigures(class_names=("ant", "bee", "cat"))
    report = metric.reports(state_of(metric, given))[""]
    assert report.kind == "coco"
    data = json.loads(json.dumps(report.data))
    assert [row["name"] for row in data["classes"]] == ["ant", "bee", "cat"]
    assert data["stats"] == by_rows(given, "bbox")
    assert len(data["curves"]["0.5"]["bee"]["precision"]) == 101
    with pytest.raises(TrainerError, match="a class has no name"):
        measured(CocoFigures(class_names=("ant", "bee")), **given)


def test_nothing_found_and_nothing_true_have_figures() -> None:
    given = batches("bbox")
    nothing = {name: np.full_like(given[name], -1) for name in ("classes", "true_classes")}
    assert measured(CocoFigures(), **given | {"classes": nothing["classes"]})["AP"] == 0
    assert math.isnan(measured(CocoFigures(), **given | nothing)["AP"])


def test_objects_that_do_not_fit_are_refused() -> None:
    given = batches("bbox")
    with pytest.raises(TrainerError, match="the shape of true_boxes doesn't match true_classes"):
        measured(CocoFigures(), **given | {"true_boxes": given["boxes"]})


def test_a_score_that_is_no_number_is_refused_with_its_image() -> None:
    from trainer.metrics.folding import NotANumber

    given = batches("bbox")
    given["scores"][7, 0] = np.nan
    with pytest.raises(NotANumber) as refused:
        measured(CocoFigures(), **given)
    assert (refused.value.part, refused.value.row) == ("scores", 7)
