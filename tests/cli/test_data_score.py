"""`trainer data score`: files in, pycocotools' lines out."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.cli import main

SIZE = (60, 80)


def polygon(x: float, y: float, width: float, height: float) -> list[list[float]]:
    """An octagon and, apart from it, a triangle."""
    cut = min(width, height) / 4
    outline = [x + cut, y, x + width - cut, y, x + width, y + cut, x + width, y + height - cut,
               x + width - cut, y + height, x + cut, y + height, x, y + height - cut, x, y + cut]  # fmt: skip
    return [outline, [x + width, y, x + width + 6, y, x + width, y + 6]]


def counts(x: float, y: float, width: float, height: float, *, compressed: bool) -> dict[str, Any]:
    """A rectangle as RLE."""
    from pycocotools import mask

    pixels = np.zeros(SIZE, np.uint8, order="F")
    pixels[int(y) : int(y + height), int(x) : int(x + width)] = 1
    if compressed:
        rle = mask.encode(pixels)
        return {"size": list(SIZE), "counts": rle["counts"].decode()}
    flat = pixels.reshape(-1, order="F")
    edges = np.flatnonzero(np.diff(flat, prepend=0))
    return {"size": list(SIZE), "counts": np.diff([0, *edges, flat.size]).tolist()}


class Files:
    """An annotation file and a results file with everything that the formats allow."""

    def __init__(self, folder: Path, kind: str, *, with_boxes: bool = False, seed: int = 0) -> None:
        draws = np.random.default_rng(seed)
        self.truth, self.results = folder / "truth.json", folder / "results.json"
        annotations, results = [], []
        for identity in range(1, 31):
            box = [float(v) for v in (*draws.integers(0, 30, 2), *draws.integers(8, 30, 2))]
            crowd = identity % 7 == 0
            annotations.append({
                "id": identity, "image_id": int(draws.integers(1, 6)), "category_id": int(draws.choice([3, 11, 12])),
                "bbox": box, "area": box[2] * box[3] * 0.8, "iscrowd": int(crowd),
                "segmentation": counts(*box, compressed=identity % 2 == 0) if identity % 3 == 1 or crowd
                else polygon(*box),
                "keypoints": self._points(draws, box, labeled=identity % 4 > 0),
            })  # fmt: skip
            annotations[-1]["num_keypoints"] = int(np.count_nonzero(annotations[-1]["keypoints"][2::3]))
        for number in range(90):
            base = annotations[number % 30]
            box = [max(0.0, round(v + float(draws.integers(-3, 4)), 1)) for v in base["bbox"]]
            result = {"image_id": base["image_id"], "category_id": base["category_id"],
                      "score": float(draws.choice([0.25, 0.5, 0.8]))}  # fmt: skip
            if kind == "bbox" or with_boxes:
                result["bbox"] = box
            if kind == "segm":
                result["segmentation"] = counts(*box, compressed=True)
            if kind == "keypoints":
                result["keypoints"] = self._points(draws, box, labeled=True)
            results.append(result)
        self.truth.write_text(json.dumps({
            "images": [{"id": image, "file_name": f"{image}.png", "height": SIZE[0], "width": SIZE[1]}
                       for image in (5, 4, 1, 2, 3, 6)],
            "categories": [{"id": 12, "name": "c"}, {"id": 3, "name": "a"}, {"id": 11, "name": "b"},
                           {"id": 99, "name": "none of these"}],
            "annotations": annotations,
        }))  # fmt: skip
        self.write(results)

    @staticmethod
    def _points(draws: np.random.Generator, box: list[float], *, labeled: bool) -> list[float]:
        x, y, width, height = box
        return [float(v) for _ in range(17) for v in
                (x + width * draws.integers(0, 5) / 4, y + height * draws.integers(0, 5) / 4,
                 draws.integers(0, 3) * labeled)]  # fmt: skip

    def write(self, results: list[dict[str, Any]]) -> None:
        self.results.write_text(json.dumps(results))

    def printed_by_pycocotools(self, kind: str, *, use_categories: bool = True) -> str:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        printed = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()):
            truth = COCO(str(self.truth))
            run = COCOeval(truth, truth.loadRes(str(self.results)), kind)
            run.params.useCats = int(use_categories)
            run.evaluate()
            run.accumulate()
            with contextlib.redirect_stdout(printed):
                run.summarize()
        return printed.getvalue()


@pytest.mark.parametrize("with_boxes", [True, False])
@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
def test_the_lines_are_those_of_pycocotools(
    kind: str, with_boxes: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Polygons, RLE as numbers and as text, crowds; results with and without boxes beside masks and keypoints."""
    files = Files(tmp_path, kind, with_boxes=with_boxes)
    for evaluator in ("own", "pycocotools"):
        words = [str(files.truth), str(files.results), "--kind", kind, "--evaluator", evaluator]
        assert main(["data", "score", *words]) == 0
        assert capsys.readouterr().out == files.printed_by_pycocotools(kind)


def test_results_of_masks_have_boxes_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path, "segm")
    assert main(["data", "score", str(files.truth), str(files.results), "--no-categories"]) == 0
    assert capsys.readouterr().out == files.printed_by_pycocotools("bbox", use_categories=False)


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_the_published_figures_come_out_digit_for_digit(
    kind: str, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared_data / "coco_eval"
    truth, results = folder / "instances_val2014_100.json", folder / f"instances_val2014_fake{kind}100_results.json"
    assert main(["data", "score", str(truth), str(results), "--kind", kind]) == 0
    authors = (folder / "val2014_fake_eval_res.txt").read_text().split("type=")
    block = next(block for block in authors if block.startswith(f"{kind}\n"))
    theirs = [line.split() for line in block.splitlines() if line.startswith(" Average")]
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == theirs and len(theirs) == 12

    expected = json.loads((folder / "expected_pycocotools.json").read_text())["results"][kind]
    assert main(["data", "score", str(truth), str(results), "--kind", kind, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stats"] == expected["stats"]
    names = {str(item["id"]): item["name"] for item in json.loads(truth.read_text())["categories"]}
    by_name = {row["name"]: row["AP"] for row in told["classes"] if row["AP"] > -1}
    assert by_name == {names[key]: value for key, value in expected["AP_per_category_id"].items()}
    assert main(["data", "score", str(truth), str(results), "--kind", kind, "--json", "--no-categories"]) == 0
    assert json.loads(capsys.readouterr().out)["stats"] == expected["stats_useCats_0"]


def test_a_table_lists_every_category(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path, "bbox")
    assert main(["data", "score", str(files.truth), str(files.results), "--classes"]) == 0
    table = capsys.readouterr().out.splitlines()[12:]
    assert [line[:13].strip() for line in table] == ["", "category", "a", "b", "c", "none of these"]
    assert table[-1].split()[3:] == ["0", *["-"] * 10]


def test_what_does_not_count_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path, "bbox")
    truth = json.loads(files.truth.read_text())
    truth["annotations"][0]["id"] = 0
    truth["annotations"].append(truth["annotations"][1] | {"id": 77, "image_id": 1000})
    files.truth.write_text(json.dumps(truth))
    results = json.loads(files.results.read_text())
    files.write([*results, results[0] | {"category_id": 4}])
    expected = files.printed_by_pycocotools("bbox")
    assert main(["data", "score", str(files.truth), str(files.results)]) == 0
    told = capsys.readouterr()
    assert told.out == expected
    assert [line.split()[1] for line in told.err.splitlines()] == ["1", "1", "an"]


def test_an_empty_list_of_results_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path, "bbox")
    files.write([])
    assert main(["data", "score", str(files.truth), str(files.results), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["stats"].values()) == {0.0, -1.0}


BAD = {
    "to the same split as the annotations.": ({"image_id": 77}, "image ids 77"),
    "a score that is not a number": ({"score": float("nan")}, "[1].score"),
    "a box of three numbers": ({"bbox": [1.0, 2.0, 3.0]}, "[1].bbox"),
    "a text for a category": ({"category_id": "cat"}, "[1].category_id"),
}


@pytest.mark.parametrize("change", BAD)
def test_a_wrong_result_is_named(change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path, "bbox")
    results = json.loads(files.results.read_text())
    results[1] |= BAD[change][0]
    files.write(results)
    assert main(["data", "score", str(files.truth), str(files.results)]) == 2
    assert BAD[change][1] in capsys.readouterr().err


def test_masks_and_keypoints_of_another_form_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, change, place in (
        ("segm", {"segmentation": {"counts": "T3"}}, "[1].segmentation"),
        ("segm", {"segmentation": [[1, 2, 3]]}, "[1].segmentation"),
        ("segm", {"segmentation": []}, "[1].segmentation"),
        ("segm", {"segmentation": {"size": list(SIZE), "counts": "0Yb21Q"}}, "truncated text"),
        ("segm", {"segmentation": {"size": [60, 60], "counts": "T3"}}, "match the image"),
        ("segm", {"image_id": 77}, "image id 77"),
        ("keypoints", {"keypoints": [1.0, 2.0]}, "row 1"),
    ):
        files = Files(tmp_path, kind)
        results = json.loads(files.results.read_text())
        results[1] |= change
        files.write(results)
        assert main(["data", "score", str(files.truth), str(files.results), "--kind", kind]) == 2
        assert place in capsys.readouterr().err


def test_results_of_another_kind_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path, "keypoints")
    assert main(["data", "score", str(files.truth), str(files.results), "--kind", "segm"]) == 2
    assert "segmentation" in capsys.readouterr().err


def test_wrong_annotations_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(tmp_path, "bbox")
    truth = json.loads(files.truth.read_text())
    truth["annotations"][3]["id"] = truth["annotations"][4]["id"]
    files.truth.write_text(json.dumps(truth))
    assert main(["data", "score", str(files.truth), str(files.results)]) == 2
    assert "annotation id 5" in capsys.readouterr().err


def test_a_misspelled_verb_of_a_group_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "scor"]) == 2
    assert "did you mean 'score'?" in capsys.readouterr().err
