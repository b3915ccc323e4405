"""The evaluation compared with pycocotools, bit for bit, and what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.metrics.coco.scenes import CATEGORIES, SCENE, random_scene
from trainer import TrainerError
from trainer.metrics.coco import Detections, Evaluation, Kind, Scene, Truths, evaluate, matching, overlaps

SEEDS = range(20)


def assert_same(ours: Evaluation, oracle: Evaluation) -> None:
    for name in ("precision", "recall", "scores", "truths"):
        np.testing.assert_array_equal(getattr(ours.curves, name), getattr(oracle.curves, name), err_msg=name)
    assert ours.stats == oracle.stats


@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_scenes_are_measured_as_by_pycocotools(seed: int, kind: Kind) -> None:
    truths, detections = random_scene(seed, kind)
    assert_same(
        evaluate(SCENE, truths, detections, kind=kind),
        evaluate(SCENE, truths, detections, kind=kind, evaluator="pycocotools"),
    )


@pytest.mark.parametrize("kind", ["bbox", "segm"])
@pytest.mark.parametrize("seed", SEEDS)
def test_categories_can_be_left_out_of_account(seed: int, kind: Kind) -> None:
    truths, detections = random_scene(seed, kind)
    assert_same(
        evaluate(SCENE, truths, detections, kind=kind, use_categories=False),
        evaluate(SCENE, truths, detections, kind=kind, use_categories=False, evaluator="pycocotools"),
    )


def test_an_image_with_more_detections_than_count_keeps_the_best() -> None:
    truths, detections = random_scene(1)
    crowded = Detections.joined([detections] * 40)
    assert (np.bincount(crowded.image) > 400).any()
    assert_same(
        evaluate(SCENE, truths, crowded, use_categories=False),
        evaluate(SCENE, truths, crowded, use_categories=False, evaluator="pycocotools"),
    )


@pytest.mark.parametrize("missing", ["truths", "detections", "both"])
@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_nothing_to_find_and_nothing_found_are_measured(kind: Kind, missing: str) -> None:
    truths, detections = random_scene(4, kind)
    nothing = np.zeros(0, np.int64)
    truths = truths.take(nothing) if missing != "detections" else truths
    detections = detections.take(nothing) if missing != "truths" else detections
    ours = evaluate(SCENE, truths, detections, kind=kind)
    assert_same(ours, evaluate(SCENE, truths, detections, kind=kind, evaluator="pycocotools"))
    assert ours.stats["AP"] == (0.0 if missing == "detections" else -1.0)


def test_blocks_of_pairs_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    truths, detections = random_scene(5, truths=60, detections=400)
    whole = evaluate(SCENE, truths, detections)
    monkeypatch.setattr(overlaps, "BLOCK", 7)
    monkeypatch.setattr(matching, "BLOCK", 7)
    assert_same(evaluate(SCENE, truths, detections), whole)


def test_rows_may_come_in_any_parts_as_long_as_an_image_stays_in_order() -> None:
    truths, detections = random_scene(3, truths=60, detections=400)
    whole = evaluate(SCENE, truths, detections)
    parts = [(truths.take(np.flatnonzero(truths.image == image)),
              detections.take(np.flatnonzero(detections.image == image))) for image in SCENE.images]  # fmt: skip
    for order in itertools.islice(itertools.permutations(parts), 0, 720, 97):
        assert_same(
            evaluate(SCENE, Truths.joined([t for t, _ in order]), Detections.joined([d for _, d in order])), whole
        )


def test_the_lines_are_those_that_pycocotools_prints(capsys: pytest.CaptureFixture[str]) -> None:
    from pycocotools.cocoeval import COCOeval

    truths, detections = random_scene(7)
    ours = evaluate(SCENE, truths, detections)
    printer = COCOeval(iouType="bbox")
    printer.eval = {"precision": ours.curves.precision, "recall": ours.curves.recall}
    printer.summarize()
    assert ours.lines() == capsys.readouterr().out.splitlines()
    assert list(ours.stats.values()) == printer.stats.tolist()
    assert list(ours.stats) == ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]


def test_keypoints_have_ten_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    from pycocotools.cocoeval import COCOeval

    truths, detections = random_scene(8, "keypoints")
    ours = evaluate(SCENE, truths, detections, kind="keypoints")
    printer = COCOeval(iouType="keypoints")
    printer.eval = {"precision": ours.curves.precision, "recall": ours.curves.recall}
    printer.summarize()
    assert ours.lines() == capsys.readouterr().out.splitlines()
    assert list(ours.stats.values()) == printer.stats.tolist()
    assert list(ours.stats) == ["AP", "AP50", "AP75", "APm", "APl", "AR", "AR50", "AR75", "ARm", "ARl"]


def test_a_class_has_the_figures_of_an_evaluation_of_itself_alone() -> None:
    truths, detections = random_scene(9, truths=60, detections=400)
    rows = evaluate(SCENE, truths, detections).per_class()
    assert [row["name"] for row in rows] == list(SCENE.names)
    for category, name, row in zip(CATEGORIES, SCENE.names, rows, strict=True):
        alone = Scene(SCENE.images, np.array([category]), (name,))
        stats = evaluate(alone, truths, detections, evaluator="pycocotools").stats
        assert row["truths"] == np.sum((truths.category == category) & ~truths.crowd)
        assert row["AR"] == stats["AR100"]
        assert all(row[key] == stats[key] for key in ["AP", "AP50", "AP75", "APs", "APm", "APl", "ARs", "ARm", "ARl"])


def test_the_curve_of_a_class_is_pycocotools_precision_and_score_at_each_recall() -> None:
    truths, detections = random_scene(9, truths=60, detections=400)
    oracle = evaluate(SCENE, truths, detections, evaluator="pycocotools").curves
    curve = evaluate(SCENE, truths, detections).precision_recall(0.75)["dog"]
    assert curve["precision"] == oracle.precision[5, :, 1, 0, 2].tolist() and max(curve["precision"]) > 0
    assert curve["score"] == oracle.scores[5, :, 1, 0, 2].tolist()
    assert curve["recall"][50] == 0.5


def test_categories_without_truth_have_no_figures() -> None:
    truths, detections = random_scene(9)
    some = truths.take(np.flatnonzero(truths.category != CATEGORIES[1]))
    evaluation = evaluate(SCENE, some, detections)
    row = evaluation.per_class()[1]
    assert {row[key] for key in row if key.startswith("A")} == {-1.0} and row["truths"] == 0
    assert "dog" not in evaluation.precision_recall()


def test_detections_of_unknown_categories_are_counted_and_left_out() -> None:
    truths, detections = random_scene(7)
    known = Scene(SCENE.images, SCENE.categories[:2], SCENE.names[:2])
    ours = evaluate(known, truths, detections)
    assert_same(ours, evaluate(known, truths, detections, evaluator="pycocotools"))
    assert ours.unknown == int((detections.category > CATEGORIES[1]).sum()) > 0


def box(image: int = 3, score: float = 0.5, **other: object) -> Detections:
    columns = {"boxes": np.array([[0.0, 0.0, 9.0, 9.0]]), "area": np.array([81.0])} | other
    return Detections(np.array([image]), np.array([2]), np.array([score]), **columns)  # type: ignore[arg-type]


def test_an_image_that_is_not_evaluated_is_refused() -> None:
    with pytest.raises(TrainerError, match="images that the data set doesn't have") as refused:
        evaluate(SCENE, random_scene(1)[0], box(image=4))
    assert refused.value.found == "image ids 4" and refused.value.where == "row 0 of the detections"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_with_the_image(bad: float) -> None:
    with pytest.raises(TrainerError, match=r"row 0 \(image 40\): a value of the detections is not finite"):
        box(image=40, score=bad)
    with pytest.raises(TrainerError, match="boxes"):
        box(boxes=np.array([[0.0, bad, 1.0, 1.0]]))


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TrainerError, match="different lengths"):
        box(area=np.zeros(2))
    with pytest.raises(TrainerError, match="another shape"):
        box(boxes=np.zeros((1, 5)))
    with pytest.raises(TrainerError, match="needs the column masks"):
        evaluate(SCENE, random_scene(1)[0], box(), kind="segm")


def test_masks_of_another_size_than_the_image_are_refused() -> None:
    truths, detections = random_scene(2, "segm")
    first = truths.take(np.array([0]))
    detection = detections.take(np.array([0]))
    row = Detections(first.image, detection.category, detection.score, detection.area,
                     masks=[{"size": [10, 10], "counts": b"T3"}])  # fmt: skip
    with pytest.raises(TrainerError, match="masks of one image have different sizes"):
        evaluate(SCENE, first, row, kind="segm")


def test_keypoints_of_another_number_than_the_sigmas_are_refused() -> None:
    truths, detections = random_scene(3, "keypoints")
    fewer = Truths(truths.image, truths.category, truths.area, truths.crowd, truths.boxes,
                   keypoints=truths.keypoints[:, :5])  # fmt: skip
    with pytest.raises(TrainerError, match="numbers of keypoints"):
        evaluate(SCENE, fewer, detections, kind="keypoints")


def test_progress_ends_with_every_detection() -> None:
    heard: list[tuple[int, int]] = []
    truths, detections = random_scene(9, truths=60, detections=400)
    evaluate(SCENE, truths, detections, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (len(detections), len(detections))
