"""Exported models: the bits of the pipeline without its code, and files in which nothing is trusted."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.learner.exported.models import CARD, EXACT, PIPELINES, features, pictures, predicted, written
from trainer import TrainerError, engine
from trainer.engine.safetensors import decoded, encoded
from trainer.learner import inference
from trainer.learner.exported import read_exported, write_exported
from trainer.learner.exported.manifest import ENTRY
from trainer.learner.inference import Pipeline, TransformPicture
from trainer.learner.inference.finishing import Arrays, Finishing

ELSEWHERE = """
import hashlib, json, sys
import numpy as np
sys.modules["trainer.recipes"] = None  # importing it fails
sys.path.append(sys.argv[2])
from tests.learner.exported.models import pictures, predicted
from trainer.learner.exported import read_exported
pipeline = read_exported(sys.argv[1]).pipeline
print(json.dumps([hashlib.sha256(repr(predicted(pipeline, one)).encode()).hexdigest() for one in pictures()]))
"""


@pytest.mark.parametrize("kind", list(PIPELINES))
def test_an_exported_model_gives_the_bits_of_its_pipeline(kind: str, tmp_path: Path) -> None:
    pipeline = written(tmp_path / "model", kind)
    exported = read_exported(tmp_path / "model")
    assert (exported.pipeline.kind, exported.pipeline.class_names) == (pipeline.kind, pipeline.class_names)
    assert (exported.manifest.prepare, exported.manifest.finish) == (pipeline.prepare, pipeline.finish)
    assert exported.manifest.card == CARD and exported.parameters > 0
    for picture in pictures():
        assert predicted(exported.pipeline, picture) == predicted(pipeline, picture)


def test_it_needs_no_code_of_the_task(tmp_path: Path) -> None:
    """In another process, in which recipes can't be imported; nothing of the model's module is in the file."""
    pipeline = written(tmp_path / "model", "detections")
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "model"), root], capture_output=True, text=True, check=True,
        cwd=root,
    )  # fmt: skip
    expected = [hashlib.sha256(repr(predicted(pipeline, one)).encode()).hexdigest() for one in pictures()]
    assert json.loads(done.stdout) == expected


def test_the_same_model_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path / name, "semantic")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_was_read_can_be_written_again_and_nothing_is_lost(tmp_path: Path) -> None:
    written(tmp_path / "a", "classification", category_ids=(1, 7, 90))
    exported = read_exported(tmp_path / "a")
    pipeline = replace(exported.pipeline, prepare=exported.manifest.prepare)
    ids = exported.manifest.category_ids
    write_exported(tmp_path / "b", pipeline, numerics=EXACT, card=exported.manifest.card, category_ids=ids)
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_normalized_and_gray_pictures_keep_their_dtype_and_channels(tmp_path: Path) -> None:
    net = features(3)
    pipeline = Pipeline(
        "classification", ("a", "b", "c"),
        prepare=(
            inference.Decode(1), TransformPicture("resize", {"size": (8, 8)}),
            TransformPicture("normalize", {"mean": (10.0,), "std": (20.0,)}),
        ),
        network=lambda images: {"logits": engine.mean(net(engine.concat([images] * 3, axis=1)), axis=(2, 3))},
        finish=(inference.Softmax(),),
    )  # fmt: skip
    manifest = write_exported(tmp_path / "model", pipeline, numerics=EXACT, card=CARD)
    assert (manifest.sizes, manifest.channels, manifest.dtype) == (((8, 8),), 1, "float32")
    exported = read_exported(tmp_path / "model").pipeline
    assert predicted(exported, pictures()[0]) == predicted(pipeline, pictures()[0])


def test_products_keep_their_precision(tmp_path: Path) -> None:
    pipeline = written(tmp_path / "model", "classification", precision="bfloat16")
    exported = read_exported(tmp_path / "model").pipeline
    with engine.autocast("bfloat16"):
        expected = predicted(pipeline, pictures()[0])
    assert predicted(exported, pictures()[0]) == expected != predicted(pipeline, pictures()[0])


# --- sizes ------------------------------------------------------------------------------------------------------------


def of_any_size() -> Pipeline:
    multiple = TransformPicture("resize_to_multiple", {"multiple": 8})
    return replace(PIPELINES["classification"](), prepare=(inference.Decode(), multiple))


def test_pictures_of_many_sizes_need_the_sizes(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="--size HEIGHTxWIDTH"):
        write_exported(tmp_path / "model", of_any_size(), numerics=EXACT, card=CARD)
    assert not list(tmp_path.iterdir())
    sizes = [(20, 30), (33, 17)]
    manifest = write_exported(tmp_path / "model", of_any_size(), numerics=EXACT, card=CARD, picture_sizes=sizes)
    assert len(manifest.sizes) == 2
    exported = read_exported(tmp_path / "model").pipeline
    for picture in pictures()[:2]:
        assert predicted(exported, picture) == predicted(of_any_size(), picture)
    with pytest.raises(TrainerError, match="no program for images of this size"):
        predicted(exported, pictures()[2])


# --- code of the user's own -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnStep(Finishing):
    name = "softmax"

    def __call__(self, arrays: Arrays, placement: Any) -> Arrays:
        return {"scores": arrays["logits"][0]}


def test_a_step_of_the_user_s_own_is_refused_with_its_line(tmp_path: Path) -> None:
    pipeline = replace(PIPELINES["classification"](), finish=(OwnStep(),))
    with pytest.raises(TrainerError, match="custom code,") as raised:
        write_exported(tmp_path / "model", pipeline, numerics=EXACT, card=CARD)
    assert "test_exported.py:" in str(raised.value.where) and raised.value.found == "OwnStep"


def test_python_within_the_network_is_refused_with_its_line(tmp_path: Path) -> None:
    def network(images: Any) -> dict[str, Any]:
        total = engine.sum(images.astype(engine.float32), axis=(2, 3))
        return {"logits": engine.host_call(lambda x: np.sort(x, axis=1), total, results=[(total.shape, total.dtype)])}

    pipeline = replace(PIPELINES["classification"](), network=network)
    with pytest.raises(TrainerError, match="host call") as raised:
        write_exported(tmp_path / "model", pipeline, numerics=EXACT, card=CARD)
    assert "test_exported.py:" in str(raised.value.where)


# --- hostile manifests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m["evaluation"]["metrics"].append({"name": "./evil.py:Metric"}), "evaluation settings"),
        (lambda m: m["evaluation"]["data"].update(reader={"name": "/tmp/evil.py:Reader"}), "evaluation settings"),
        (lambda m: m["evaluation"]["data"].update(reader={"name": "coco", "images": "../x"}), "evaluation settings"),
        (lambda m: m["evaluation"]["data"].update(reader={"name": "coco", "images": "/etc"}), "evaluation settings"),
        (lambda m: m["evaluation"]["data"].update(reader="coco"), "evaluation settings"),
        (lambda m: m["prepare"].insert(0, m["prepare"][0]), "the first step must be decode, and only the first"),
        (lambda m: m["prepare"][1].update(settings={"size": [16]}), "size"),
        (lambda m: m["prepare"][1].update(transform="os:system"), "parameters"),
        (lambda m: m["finish"][0].update(name="tile"), "unknown parameters"),
        (lambda m: m["finish"][0].update(version=2), "unknown version of the step softmax"),
        (lambda m: m["finish"].append(m["finish"][0]), "don't fit"),
        (lambda m: m.update(kind="detections"), "the result is not of the kind detections"),
        (lambda m: m["class_names"].append("more"), "the result's scores"),
        (lambda m: m["input"].update(sizes=[[16, 25]]), "expected one program per size"),
        (lambda m: m["input"].update(channels=1), "invalid input of the program"),
        (lambda m: m["card"].update(metrics={"valid/accuracy": "high"}), "the card's metrics"),
        (lambda m: m["card"].update(html="<script>"), "fields"),
        (lambda m: m.update(category_ids=[1]), "category ids"),
        (lambda m: m.update(code="import os"), "fields"),
        (lambda m: m.update(version=2), "another version of the format"),
    ],
)
def test_a_manifest_that_was_tampered_with_is_refused(change: Any, said: str, tmp_path: Path) -> None:
    written(tmp_path / "good", "classification")
    arrays, metadata = decoded((tmp_path / "good").read_bytes(), "")
    manifest = json.loads(metadata[ENTRY])
    change(manifest)
    (tmp_path / "bad").write_bytes(encoded(arrays, {**metadata, ENTRY: json.dumps(manifest)}))
    with pytest.raises(TrainerError, match=said) as raised:
        read_exported(tmp_path / "bad")
    assert str(tmp_path / "bad") in str(raised.value)
