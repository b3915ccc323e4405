"""Programs for any batch size, and files of several: the traced function's bits at each size, and nothing trusted."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.engine.export import capture_program, load_programs, save_programs
from trainer.engine.export.graph import PROGRAM
from trainer.engine.safetensors import decoded, encoded

BATCHES = (1, 3, 8)


class Detector(nn.Module):
    """A bit of everything whose shapes depend on the batch: heads over levels, norms, resampling, suppression."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.group = nn.GroupNorm(2, 8)
        self.last = nn.Linear(8, 5)

    def forward(self, image: Any) -> dict[str, Any]:
        x = nn.functional.relu(self.norm(self.stem(image.astype(engine.float32) * (1 / 255))))
        y = self.group(nn.functional.interpolate(x, scale_factor=2, mode="bilinear"))
        places = engine.permute_dims(y, (0, 2, 3, 1)).reshape((image.shape[0], -1, 8))
        corners = engine.cumulative_sum(engine.abs(places[:, :20, :4]), axis=2)
        scores, order = engine.top_k(engine.mean(places[:, :20], axis=2), 6, axis=1)
        boxes = engine.take_along_axis(corners, engine.expand_dims(order, axis=-1), axis=1)
        number = engine.arange(image.shape[0]).astype(engine.float32)
        return {
            "logits": self.last(engine.mean(x, axis=(2, 3))),
            "found": {"boxes": boxes, "scores": scores, "kept": nn.nms(boxes, scores, 0.5)},
            "rows": number + engine.zeros((image.shape[0],)),
            "channels": engine.reshape(y, (-1, 16, 16)),
        }


@pytest.fixture(scope="module")
def network() -> Detector:
    return Detector().set_seed(3, "net").eval()


def images(count: int, height: int = 16, width: int = 16) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, 3, height, width), dtype=np.uint8)


def same_bits(found: dict[str, Any], expected: dict[str, Any]) -> None:
    flat = {"logits": expected["logits"], "rows": expected["rows"], "channels": expected["channels"]}
    flat |= {f"found.{name}": value for name, value in expected["found"].items()}
    assert found.keys() == flat.keys()
    for name, value in flat.items():
        assert found[name].numpy().tobytes() == value.numpy().tobytes(), name


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_program_for_any_batch_gives_the_bits_of_the_traced_function(
    device: str, network: Detector, tmp_path: Path
) -> None:
    engine.save_program(tmp_path / "any", network, images(2), any_batch=True)
    program = engine.load_program(tmp_path / "any")
    assert program.has_any_batch
    assert repr(program).startswith("LoadedProgram(image: uint8[batch, 3, 16, 16] -> logits: float32[batch, 5], ")
    assert "channels: float32[8*batch, 16, 16]" in repr(program)
    with engine.device(device):
        for count in BATCHES:
            same_bits(program(images(count)), engine.trace(network.forward)(images(count)))


def test_an_item_has_the_same_bits_in_every_batch(network: Detector, tmp_path: Path) -> None:
    engine.save_program(tmp_path / "any", network, images(2), any_batch=True)
    program = engine.load_program(tmp_path / "any")
    whole = program(images(8))
    for name in ("logits", "found.boxes", "found.kept"):
        parts = [program(images(8)[at : at + 1])[name].numpy() for at in range(8)]
        assert np.concatenate(parts).tobytes() == whole[name].numpy().tobytes()


def test_programs_of_several_sizes_share_their_arrays(network: Detector, tmp_path: Path) -> None:
    sizes = {"16x16": (16, 16), "16x24": (16, 24)}
    programs = {name: capture_program(network, images(1, *size), any_batch=True) for name, size in sizes.items()}
    save_programs(tmp_path / "two", programs, {"note": "of the test"})
    file = load_programs(tmp_path / "two")
    assert file.metadata == {"note": "of the test"} and file.programs.keys() == sizes.keys()
    first, second = (file.programs[name].arrays for name in sizes)
    assert first["net.stem.weight"] is second["net.stem.weight"]
    for name, size in sizes.items():
        expected = engine.trace(network.forward)(images(3, *size))
        assert file.programs[name](images(3, *size))["logits"].numpy().tobytes() == expected["logits"].numpy().tobytes()
    with pytest.raises(TrainerError, match="several programs"):
        engine.load_program(tmp_path / "two")


def test_arrays_of_one_name_and_other_values_are_kept_apart(tmp_path: Path) -> None:
    def shifted(by: int) -> Callable[[Any], Any]:
        return lambda x: x + engine.asarray(np.arange(3, dtype=np.float32) * by)

    programs = {str(by): capture_program(shifted(by), np.zeros((1, 3), np.float32), any_batch=True) for by in (1, 2, 1)}
    save_programs(tmp_path / "p", programs)
    file = load_programs(tmp_path / "p")
    assert len(file.arrays) == 2
    for by in (1, 2):
        found = file.programs[str(by)](np.zeros((2, 3), np.float32))["output"].numpy()
        np.testing.assert_array_equal(found, [[0, by, 2 * by]] * 2)


# --- functions that depend on the batch in another way ----------------------------------------------------------------


def _over_items(x: Any) -> Any:
    return engine.stack([row * 2 for row in (x[number] for number in range(x.shape[0]))])


@pytest.mark.parametrize(
    ("function", "message", "found"),
    [
        (lambda x: x * (1 / x.shape[0]), "numbers that do not grow", "`constant` of float32"),
        (lambda x: engine.zeros((x.shape[0] ** 2, 2)) + x[0, 0], "numbers that do not grow", "3721 for 61"),
        (
            lambda x: x + 2 if x.shape[0] > 65 else x * 2,
            "other operations",
            "`multiply` of float32 or `add` of float32",
        ),
        (_over_items, "(another number of|other) operations", ""),
        (lambda x: x + engine.asarray(np.zeros((x.shape[0], 1), np.float32)), "'constant' differs between", r"61, 1\]"),
    ],
)
def test_a_function_that_no_document_holds_is_refused_with_its_line(
    function: Callable[[Any], Any], message: str, found: str, tmp_path: Path
) -> None:
    with pytest.raises(TrainerError, match=message) as raised:
        engine.save_program(tmp_path / "p", function, np.zeros((1, 3), np.float32), any_batch=True)
    assert re.search(found, str(raised.value.found))
    assert "test_any_batch.py:" in str(raised.value.where)
    assert not list(tmp_path.iterdir())


def test_numbers_without_a_batch_axis_and_updates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="first axis"):
        engine.save_program(tmp_path / "p", lambda x, y: x * y, np.ones((2, 2)), np.float32(2), any_batch=True)
    with pytest.raises(TrainerError, match="for inference"):
        engine.save_program(tmp_path / "p", lambda x: x, np.ones(2), any_batch=True, with_updates=True)


# --- hostile documents ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(network: Detector, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    path = tmp_path_factory.mktemp("any") / "program"
    engine.save_program(path, network, images(2), any_batch=True)
    arrays, metadata = decoded(path.read_bytes(), str(path))
    return arrays, json.loads(metadata[PROGRAM])


def _node(document: Any, operation: str) -> Any:
    return next(entry for entry in document["nodes"] if entry["operation"] == operation)


def _shape(operation: str, axis: int, value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        _node(document, operation)["shape"][axis] = value

    return change


def _attribute(operation: str, name: str, value: Any) -> Callable[[Any], None]:
    return lambda document: _node(document, operation)["attributes"].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=1), "the shape"),
        (lambda d: d.update(version=3), "another version"),
        (_shape("input", 0, 2), "shape of an input"),
        (_shape("input", 0, {"batch": 2, "plus": 0}), "shape of an input"),
        (_shape("input", 2, {"batch": 1, "plus": 0}), "shape of an input"),
        (lambda d: _node(d, "input").update(shape=[]), "shape of an input"),
        (lambda d: _node(d, "input").update(shape={"batch": 1, "plus": 0}), "shape of an input"),
        (_shape("convolution", 0, {"batch": 1 << 60, "plus": 0}), "number that depends on the batch"),
        (_shape("convolution", 0, {"batch": 1.0, "plus": 0}), "number that depends on the batch"),
        (_shape("convolution", 0, {"batch": True, "plus": 0}), "number that depends on the batch"),
        (_shape("convolution", 0, {"batch": "1", "plus": 0}), "number that depends on the batch"),
        (_shape("convolution", 0, {"batch": 1, "plus": 0, "more": 0}), "the shape"),
        (_shape("convolution", 0, {"batch": 1}), "the shape"),
        (_shape("convolution", 0, {"batch": -1, "plus": 0}), "the shape"),
        (_shape("convolution", 0, {"batch": 1, "plus": 1}), "differs from the operation.s result"),
        (_attribute("convolution", "groups", {"batch": 0, "plus": 0}), "shapes don't fit"),
        (_attribute("convolution", "strides", {"batch": 1, "plus": 1}), "the strides"),
        (_attribute("cast", "dtype", {"batch": 1, "plus": 0}), "the dtype"),
        (_shape("array", 0, {"batch": 9, "plus": 0}), "differs"),
        (lambda d: d.update(updates=[{"array": "net.last.bias", "node": 0}]), "with updates|another shape"),
    ],
)
def test_a_document_that_was_tampered_with_is_refused(
    saved: tuple[Any, Any], tmp_path: Path, change: Callable[[Any], Any], message: str
) -> None:
    arrays, document = saved[0], copy.deepcopy(saved[1])
    change(document)
    path = tmp_path / "bad"
    path.write_bytes(encoded(arrays, {PROGRAM: json.dumps(document)}))
    with pytest.raises(TrainerError, match=message) as raised:
        engine.load_program(path)
    assert str(path) in str(raised.value)


def test_lists_within_lists_are_refused(saved: tuple[Any, Any], tmp_path: Path) -> None:
    arrays, document = saved[0], copy.deepcopy(saved[1])
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    _attribute("convolution", "strides", deep)(document)
    (tmp_path / "bad").write_bytes(encoded(arrays, {PROGRAM: json.dumps(document)}))
    with pytest.raises(TrainerError, match=r"the strides|depends on the batch"):
        engine.load_program(tmp_path / "bad")


def test_a_document_that_fits_one_batch_size_alone_is_refused_at_another(
    saved: tuple[Any, Any], tmp_path: Path
) -> None:
    arrays, document = saved[0], copy.deepcopy(saved[1])
    _shape("convolution", 0, {"batch": 2, "plus": -1})(document)
    (tmp_path / "odd").write_bytes(encoded(arrays, {PROGRAM: json.dumps(document)}))
    program = engine.load_program(tmp_path / "odd")
    with pytest.raises(TrainerError, match=r"differs from the operation's result"):
        program(images(3))


def test_a_batch_that_needs_more_memory_than_there_may_be_is_refused(network: Detector, tmp_path: Path) -> None:
    engine.save_program(tmp_path / "any", network, images(2), any_batch=True)
    program = engine.load_program(tmp_path / "any", memory=1_000_000)
    with pytest.raises(TrainerError, match="more memory"):
        program(images(200))
    with pytest.raises(TrainerError, match=r"expected: +uint8\[batch, 3, 16, 16\]"):
        program(images(0))
    with pytest.raises(TrainerError, match=r"expected: +uint8\[2, 3, 16, 16\]"):
        program(images(2, 16, 24))
