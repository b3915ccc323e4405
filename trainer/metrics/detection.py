"""COCO metrics of detections: rows are kept over the split, and evaluated in a separate process."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import Tensor
from trainer.metrics.coco import Detections, Evaluation, Kind, Scene, Truths, area_of, evaluate, settings_of
from trainer.metrics.coco.evaluation import Evaluator
from trainer.metrics.metric import WEIGHT, Metric, Part, Place, Report, State
from trainer.metrics.predictions import Predictions
from trainer.metrics.tables import Tables

FOUND, TRUE = "found", "true"
"""The tables of a state; `found_masks` and `true_masks` contain the concatenated bytes of their RLE."""

OF_KIND: Mapping[Kind, tuple[str, ...]] = {"bbox": ("boxes",), "segm": ("masks",), "keypoints": ("keypoints", "boxes")}
OPTIONAL = ("crowd", "area")


class CocoFigures(Metric):
    """COCO average precision and recall of detections: pycocotools' 12 values (10 for keypoints).

    A step returns, for each image, D detections and M ground truths, padded with rows of class -1:

        image_id                   integers [B]
        classes, scores            [B, D]
        true_classes               [B, M]; also `crowd` and `area`, if the data set has them
        boxes, true_boxes          [B, D, 4], [B, M, 4]: x_min, y_min, x_max, y_max in pixels
        masks, true_masks          bool [B, D, H, W], [B, M, H, W], for kind `segm`
        keypoints, true_keypoints  [B, D, K, 3], [B, M, K, 3], for kind `keypoints`, in addition to the boxes

    The values are the same, bit for bit, for all batch sizes and orders. Undefined values are NaN.

    Args:
        kind: `bbox`, `segm` or `keypoints`.
        class_names: for the report by class; default: those of the data set, or the class numbers.
        use_categories: False: treat all objects as one class.
        evaluator: `own` or `pycocotools`, which is slower with the same values.
        sigmas: OKS constants, one per keypoint, for keypoints other than COCO's 17 of people.
    """

    folds_in: Place = "aside"

    def __init__(
        self,
        kind: Kind = "bbox",
        class_names: Sequence[str] = (),
        use_categories: bool = True,
        evaluator: Evaluator = "own",
        sigmas: Sequence[float] | None = None,
    ) -> None:
        self.kind, self.class_names, self.evaluator = kind, tuple(class_names), evaluator
        self.settings = settings_of(kind, use_categories=use_categories, sigmas=sigmas)
        objects = [f"{side}{name}" for name in OF_KIND[kind] for side in ("", "true_")]
        self.needs = ("image_id", "classes", "scores", "true_classes", *objects)
        self._last: tuple[State, int, Evaluation] | None = None

    def name_classes(self, names: Sequence[str]) -> None:
        self.class_names = self.class_names or tuple(names)

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        roles = {name: given[name] for name in (*self.needs, *OPTIONAL) if name in given}
        for name, values in roles.items():
            counted = "true_classes" if name.startswith("true_") or name in OPTIONAL else "classes"
            if name != "image_id" and values.shape[:2] != roles[counted].shape:
                raise TrainerError(
                    f"the shape of {name} doesn't match {counted}",
                    found=f"{list(values.shape)} for {list(roles[counted].shape)}",
                    expected="objects as the first two axes of both",
                )
        return roles

    def fold(self, state: State, part: Part) -> State:
        tables = state if isinstance(state, Tables) else Tables(state)
        rows = np.flatnonzero(part[WEIGHT])
        for table, side, others in ((FOUND, "", ("scores",)), (TRUE, "true_", OPTIONAL)):
            classes = part[f"{side}classes"][rows]
            image, at = np.nonzero(classes >= 0)
            columns = {"image": part["image_id"][rows[image]].astype(np.int64), "class": classes[image, at]}
            for name in (*others, *(f"{side}{name}" for name in OF_KIND[self.kind])):
                if name in part:
                    columns[name.removeprefix(side)] = part[name][rows[image], at]
            if "masks" in columns:
                tables.append(f"{table}_masks", _run_lengths(columns))
            tables.append(table, columns)
        return tables

    def merge(self, one: State, other: State) -> State:
        if not one or not other:
            return one or other
        tables = one if isinstance(one, Tables) else Tables(one)
        tables.extend(Tables(other))
        return tables

    def restored(self, state: State) -> State:
        return Tables(state)

    def values(self, state: State) -> Mapping[str, float]:
        return {name: math.nan if value == -1 else value for name, value in self.evaluated(state).stats.items()}

    def reports(self, state: State) -> Mapping[str, Report]:
        return {"": Report("coco", self.evaluated(state).as_json())}

    def state_key(self) -> Hashable:
        return CocoFigures, self.kind

    def evaluated(self, state: State) -> Evaluation:
        """The full evaluation.

        Raises:
            TrainerError: more classes than names.
        """
        rows = sum(len(column) for column in state.values())
        if self._last is None or self._last[0] is not state or self._last[1] != rows:
            self._last = state, rows, self._evaluated(Tables(state))
        return self._last[2]

    def _evaluated(self, tables: Tables) -> Evaluation:
        found, true = tables.table(FOUND), tables.table(TRUE)
        numbers = np.unique(np.concatenate([found["class"], true["class"]]))
        if self.class_names and len(numbers) and numbers[-1] >= len(self.class_names):
            raise TrainerError(
                "a class has no name",
                found=f"class {numbers[-1]}",
                expected=f"0 to {len(self.class_names) - 1}, with {len(self.class_names)} names",
            )
        classes = np.arange(len(self.class_names)) if self.class_names else numbers.astype(np.int64)
        names = self.class_names or tuple(map(str, classes.tolist()))
        scene = Scene(np.unique(np.concatenate([found["image"], true["image"]])), classes, names)
        ours, theirs = self._objects(tables, FOUND), self._objects(tables, TRUE)
        area = true["area"].astype(np.float64) if "area" in true else area_of(theirs.get("boxes"), theirs.get("masks"))
        crowd = true["crowd"].astype(bool) if "crowd" in true else np.zeros(len(area), bool)
        return evaluate(
            scene,
            Truths(true["image"], true["class"].astype(np.int64), area, crowd, **theirs),
            Detections(
                found["image"], found["class"].astype(np.int64), found["scores"].astype(np.float64), area_of(**ours),
                **ours,
            ),
            settings=self.settings,
            evaluator=self.evaluator,
        )  # fmt: skip

    def _objects(self, tables: Tables, table: str) -> dict[str, Any]:
        """The columns of boxes, masks and keypoints for an evaluation."""
        rows = tables.table(table)
        columns: dict[str, Any] = {}
        if "boxes" in rows:
            corners = rows["boxes"].astype(np.float64)
            columns["boxes"] = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
        if "keypoints" in rows:
            columns["keypoints"] = rows["keypoints"].astype(np.float64)
        if self.kind == "segm":
            text = tables[f"{table}_masks.bytes"].tobytes()
            ends = np.cumsum(rows["length"]).tolist()
            columns["masks"] = [
                {"size": size, "counts": text[start:end]}
                for size, start, end in zip(rows["size"].tolist(), [0, *ends], ends, strict=False)
            ]
        return columns


def _run_lengths(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Writes the length of each mask's RLE and its size to `columns`; returns the concatenated bytes."""
    from pycocotools import mask as coding

    masks = columns.pop("masks")
    pixels = np.asfortranarray(np.moveaxis(masks, 0, -1), np.uint8)
    texts = [rle["counts"] for rle in coding.encode(pixels)] if len(masks) else []
    columns["length"] = np.array([len(text) for text in texts], np.int64)
    columns["size"] = np.tile(np.array(masks.shape[1:], np.int64), (len(masks), 1))
    return {"bytes": np.frombuffer(b"".join(texts), np.uint8)}
