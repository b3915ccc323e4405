"""Programs that travel: the same bits on every device, and a file in which nothing is trusted."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from trainer import TrainerError, engine
from trainer.engine import State, nn
from trainer.engine.export.attributes import KINDS
from trainer.engine.export.graph import PROGRAM
from trainer.engine.graph.primitives import BUNDLES, TABLE
from trainer.engine.safetensors import decoded, encoded
from trainer.engine.targets.cpu.device import CpuDevice

RANDOM = np.random.default_rng(5)


class Network(nn.Module):
    def __init__(self) -> None:
        self.convolution = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Linear(8 * 4 * 4, 5)
        self.average = nn.AvgPool2d(3, stride=1, padding=1)

    def forward(self, image: Any) -> Any:
        x = self.pool(engine.maximum(self.norm(self.convolution(image)), 0))
        return {"logits": self.last(self.average(x).reshape((-1, 8 * 4 * 4)))}


def image() -> np.ndarray:
    return RANDOM.standard_normal((2, 3, 16, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "network.safetensors"
    engine.save_program(path, Network().set_seed(1, "net").eval(), image())
    return path


def content_of(path: Path) -> tuple[Any, dict[str, Any]]:
    arrays, metadata = decoded(path.read_bytes(), str(path))
    return arrays, json.loads(metadata[PROGRAM])


def written(path: Path, arrays: Any, document: Any) -> Path:
    path.write_bytes(encoded(arrays, {PROGRAM: json.dumps(document)}))
    return path


# --- the same program ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_module_that_was_saved_gives_the_same_bits(device: str, tmp_path: Path) -> None:
    network = Network().set_seed(1, "net").eval()
    x = image()
    engine.save_program(tmp_path / "network", network, x)
    program = engine.load_program(tmp_path / "network")
    assert repr(program) == "LoadedProgram(image: float32[2, 3, 16, 16] -> logits: float32[2, 5])"
    assert set(program.arrays) == set(f"net.{name}" for name in network.named_states() if "batches" not in name)
    with engine.device(device):
        expected = engine.trace(network.forward)(x)["logits"].numpy()
        for found in (program(x), program(image=x)):
            np.testing.assert_array_equal(found["logits"].numpy().view(np.uint32), expected.view(np.uint32))
        other = image()
        np.testing.assert_array_equal(
            program(other)["logits"].numpy(), engine.trace(network.forward)(other)["logits"].numpy()
        )


def test_a_training_step_goes_on_as_the_original(tmp_path: Path) -> None:
    weight, steps = State(np.ones((4, 3), np.float32), "weight"), State(np.int64(0), "steps")

    def step(batch: dict[str, Any]) -> tuple[Any, Any]:
        loss = engine.mean(engine.square(batch["x"] @ weight - batch["y"]))
        (gradient,) = engine.gradients(loss, [weight])
        weight.assign(weight - 0.1 * gradient)
        steps.assign(steps + 1)
        return loss, steps

    batch = {"x": image().reshape(-1, 4)[:6], "y": np.zeros((6, 3), np.float32)}
    engine.save_program(tmp_path / "step", step, batch, with_updates=True)
    program, traced = engine.load_program(tmp_path / "step"), engine.trace(step)
    assert list(program.inputs) == ["batch.x", "batch.y"] and list(program.outputs) == ["0", "1"]
    assert program.updated == ("weight", "steps")
    for count in range(1, 4):
        loss, _ = traced(batch)
        found = program(batch["x"], batch["y"])
        assert found["0"].item() == loss.item() and found["1"].item() == count
    np.testing.assert_array_equal(program.arrays["weight"].numpy(), weight.numpy())


def everything(x: Any, i: Any) -> list[Any]:
    """At least one primitive of each family, and constants that JSON has no number for."""
    spread = engine.where(x > 0.25, x, -math.inf) + engine.where(x < -9.0, math.nan, -0.0)
    return [
        spread,
        x.astype(engine.bfloat16) * 1.1,
        x.astype(engine.float16) * 1.1,
        engine.concat([engine.flip(x, axis=1), engine.pad(x, ((0, 0), (1, 2)), value=0.1)], axis=1),
        engine.cumulative_sum(engine.take(x, i, axis=0), axis=1),
        engine.argmax(x, axis=1),
        engine.argsort(x, axis=0, descending=True),
        engine.random.uniform((1, 2), (3, 4), (5,)),
        engine.bitwise_left_shift(i, 1) // 3,
        (x > 0) & (x < 1),
        engine.barrier(x) @ engine.matrix_transpose(x),
    ]


def test_every_kind_of_constant_and_dtype_survives(tmp_path: Path) -> None:
    x, i = image().reshape(-1, 12)[:5], np.array([4, 0, 2], np.int32)
    engine.save_program(tmp_path / "all", everything, x, i)
    program, expected = engine.load_program(tmp_path / "all"), engine.trace(everything)(x, i)
    for found, tensor in zip(program(x, i).values(), expected, strict=True):
        assert found.dtype == tensor.dtype
        np.testing.assert_array_equal(found.numpy(), tensor.numpy())
        np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(tensor.numpy()))


def test_what_is_saved_again_is_the_same_file(tmp_path: Path, saved: Path) -> None:
    program = engine.load_program(saved)
    arrays, document = content_of(saved)
    engine.save_program(tmp_path / "again", lambda image: program(image), image())
    again, other = content_of(tmp_path / "again")
    assert other == document and set(again) == set(arrays)


def test_an_input_that_is_not_used_is_still_asked_for(tmp_path: Path) -> None:
    engine.save_program(tmp_path / "p", lambda x, unused: x + 1, np.zeros(2, np.float32), np.zeros(3, np.int32))
    program = engine.load_program(tmp_path / "p")
    assert program(np.ones(2, np.float32), unused=np.zeros(3, np.int32))["output"].tolist() == [2.0, 2.0]


def test_a_state_that_is_assigned_and_never_read_is_kept(tmp_path: Path) -> None:
    last = State(np.zeros(2, np.float32), "last")

    def step(x: Any) -> Any:
        last.assign(x + 1)
        return x * 2

    engine.save_program(tmp_path / "p", step, np.zeros(2, np.float32), with_updates=True)
    program = engine.load_program(tmp_path / "p")
    assert program(np.ones(2, np.float32))["output"].tolist() == [2.0, 2.0]
    assert program.arrays["last"].tolist() == [2.0, 2.0]


def test_the_format_has_every_attribute_of_every_primitive() -> None:
    of_arrays = (each for each in (*TABLE.values(), *BUNDLES.values()) if each.family != "leaf")
    lacking = [primitive.name for primitive in of_arrays if not KINDS.keys() >= set(primitive.attributes)]
    assert lacking == [], "add their attributes to trainer/engine/export/attributes.py and to docs/program.md"


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_function_that_assigns_needs_to_say_so(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"norm\.running") as raised:
        engine.save_program(tmp_path / "p", Network().set_seed(1, "net").train(), image())
    assert ".eval()" in str(raised.value) and not list(tmp_path.iterdir())


def test_results_are_tensors(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="str at kind"):
        engine.save_program(tmp_path / "p", lambda x: {"y": x, "kind": "a"}, np.zeros(2, np.float32))


def test_a_file_that_cannot_be_written_or_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="can't write"):
        engine.save_program(tmp_path / "no" / "p", lambda x: x + 1, np.zeros(2, np.float32))
    with pytest.raises(TrainerError, match="no such file"):
        engine.load_program(tmp_path / "none")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda program: program(), "image, each once"),
        (lambda program: program(image(), image()), "too many inputs"),
        (lambda program: program(image(), image=image()), "each once"),
        (lambda program: program(picture=image()), "found: +picture"),
        (lambda program: program(image()[:1]), r"found: +float32\[1, 3, 16, 16\]"),
        (lambda program: program(image().astype(np.float64)), "found: +float64"),
    ],
)
def test_calls_that_do_not_fit_are_refused(saved: Path, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TrainerError, match=message):
        call(engine.load_program(saved))


def node(document: Any, operation: str) -> Any:
    return next(entry for entry in document["nodes"] if entry["operation"] == operation)


def _set(of: str, **fields: Any) -> Callable[[Any], None]:
    return lambda document: node(document, of).update(fields)


def _attribute(operation: str, name: str, value: Any) -> Callable[[Any], None]:
    return lambda document: node(document, operation)["attributes"].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="pickle"), "wrong format"),
        (lambda d: d.update(version=3), "another version"),
        (lambda d: d.update(version=True), "another version"),
        (lambda d: d.update(code="import os"), "fields"),
        (lambda d: d.pop("outputs"), "fields"),
        (lambda d: d.update(nodes={}), "nodes"),
        (lambda d: d["nodes"].append(3), "without an operation"),
        (_set("convolution", operation="system"), "unknown primitive"),
        (_set("convolution", operation="buffer"), "unknown primitive"),
        (_set("convolution", operation="add"), "node [0-9]+ .add"),
        (_set("convolution", inputs=[0]), "how many inputs"),
        (_set("convolution", inputs=[0, 1, 1]), "how many inputs"),
        (_set("convolution", inputs=[0, 99999]), "before this one"),
        (_set("convolution", inputs=[0, -1]), "before this one"),
        (_set("convolution", inputs=[0, True]), "before this one"),
        (lambda d: node(d, "convolution").update(inputs=[0, d["nodes"].index(node(d, "convolution"))]), "before this"),
        (_set("convolution", shape=[2, 8, 8, 9]), "differs from the operation.s result"),
        (_set("convolution", dtype="float64"), "differs from the operation.s result"),
        (_set("convolution", dtype="object"), "the dtype"),
        (_set("convolution", shape=[2, 8, 8, 8.0]), "the shape"),
        (_set("convolution", shape=[1] * 65), "the shape"),
        (_attribute("convolution", "strides", [0, 2]), "wrong geometry"),
        (_attribute("convolution", "strides", [2]), "the strides"),
        (_attribute("convolution", "strides", "22"), "the strides"),
        (_attribute("convolution", "padding", [[1, 1]]), "the padding"),
        (_attribute("convolution", "groups", 0), "shapes don't fit"),
        (_attribute("convolution", "groups", 1.0), "the groups"),
        (_attribute("convolution", "precision", "float64"), "unknown precision"),
        (_attribute("convolution", "precision", 16), "the precision"),
        (_attribute("convolution", "hook", 1), "fields"),
        (_attribute("constant", "value", "1"), "nan, inf or -inf"),
        (_attribute("constant", "value", 0.1), "has exactly"),
        (_attribute("constant", "value", 1e300), "has exactly"),
        (_attribute("constant", "value", True), "a number of float32"),
        (_attribute("constant", "value", 10**400), "has exactly"),
        (_attribute("window_max", "window", [1 << 40, 1]), "too large to check"),
        (_attribute("window_max", "padding", [[0, 1 << 40], [0, 0]]), "too large to check"),
        (_attribute("resample", "rows", [4, [[0, [1.0]]] * 3]), "differs from the operation.s result"),
        (_attribute("resample", "rows", [4, [[4, [1.0]]] * 4]), "leaves the picture"),
        (_attribute("resample", "rows", [4, [[0, ["inf"]]] * 4]), "finite numbers"),
        (_attribute("resample", "rows", [4, [[0, [math.nan]]] * 4]), "finite numbers"),
        (_attribute("resample", "rows", [4, [[0, 1.0]] * 4]), "where a run begins"),
        (_attribute("resample", "rows", {}), "an extent and its runs"),
        (_set("array", name="other"), "not in the file"),
        (_set("array", shape=[8, 3, 3, 4]), "differs"),
        (_set("array", name=""), "a text, once"),
        (_set("input", name="net.last.bias"), ""),
        (lambda d: d.update(outputs=[{"name": "y", "node": 10**6}]), "below"),
        (lambda d: d.update(outputs=[{"name": "y", "node": 0}, {"name": "y", "node": 0}]), "once"),
        (lambda d: d.update(updates=[{"array": "nothing", "node": 0}]), "unknown array"),
        (lambda d: d.update(updates=[{"array": "net.last.bias", "node": 0}]), "another shape"),
    ],
)
def test_a_document_that_was_tampered_with_is_refused(
    saved: Path, tmp_path: Path, change: Callable[[Any], Any], message: str
) -> None:
    arrays, document = content_of(saved)
    change(document)
    path = written(tmp_path / "bad", arrays, document)
    if not message:
        engine.load_program(path)  # names of inputs and arrays are apart
        return
    with pytest.raises(TrainerError, match=message) as raised:
        engine.load_program(path)
    assert str(path) in str(raised.value)


def test_geometry_that_does_not_fit_the_gradient_of_max_pooling_is_refused(tmp_path: Path) -> None:
    def gradient(x: Any) -> Any:
        return engine.gradients(engine.sum(engine.square(engine.max_pool(x, 2))), [x])[0]

    engine.save_program(tmp_path / "good", gradient, image())
    arrays, document = content_of(tmp_path / "good")
    for name, value in (("strides", [0, 0]), ("strides", [1, 2]), ("window", [9, 9]), ("spatial", [16, 400])):
        changed = copy.deepcopy(document)
        _attribute("window_max_gradient", name, value)(changed)
        if name == "spatial":
            _set("window_max_gradient", shape=[2, 3, *value])(changed)
        with pytest.raises(TrainerError, match="window_max_gradient"):
            engine.load_program(written(tmp_path / "bad", arrays, changed))


def test_arrays_that_no_node_reads_are_refused(saved: Path, tmp_path: Path) -> None:
    arrays, document = content_of(saved)
    arrays["more"] = arrays["net.last.bias"]
    with pytest.raises(TrainerError, match="no node reads"):
        engine.load_program(written(tmp_path / "bad", arrays, document))


def test_sizes_that_would_exhaust_memory_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    size = 1 << 40
    document = {
        "format": "trainer program",
        "version": 1,
        "nodes": [
            {"operation": "constant", "inputs": [], "attributes": {"value": 0.0, "dtype": "float32"},
             "dtype": "float32", "shape": []},
            {"operation": "reshape", "inputs": [0], "attributes": {"shape": [1]}, "dtype": "float32", "shape": [1]},
            {"operation": "expand", "inputs": [1], "attributes": {"shape": [size]}, "dtype": "float32",
             "shape": [size]},
        ],
        "outputs": [{"name": "y", "node": 2}],
        "updates": [],
    }  # fmt: skip
    path = written(tmp_path / "large", {}, document)
    with pytest.raises(TrainerError, match=r"found: +4\.4e\+03 GB"):
        engine.load_program(path)
    engine.load_program(path, memory=1 << 44)
    with pytest.raises(TrainerError, match="more memory"):
        engine.load_program(path, memory=8)


def _headed(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def _entry(**changes: Any) -> bytes:
    return json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cut off"),
        (b"\xff" * 100, "cut off"),
        (_headed(b"{"), "not valid JSON"),
        (_headed(b"[" * 100_000), "not valid JSON"),
        (_headed(b'{"a":1,"a":1}'), "is repeated"),
        (_headed(b"3"), "no object"),
        (_headed(b'{"__metadata__":{"program":3}}'), "not text"),
        (_headed(b'{"a":1}'), "entry 'a'"),
        (_headed(_entry(dtype="F8"), b"\0" * 4), "element type"),
        (_headed(_entry(dtype=[1]), b"\0" * 4), "element type"),
        (_headed(_entry(shape=[2]), b"\0" * 4), "another size"),
        (_headed(_entry(shape=[-1]), b"\0" * 4), "at least 0"),
        (_headed(_entry(shape=[1 << 60]), b"\0" * 4), "at least 0"),
        (_headed(_entry(data_offsets=[0, 400]), b"\0" * 4), "does not begin"),
        (_headed(_entry(data_offsets=[2, 6]), b"\0" * 6), "does not begin"),
        (_headed(_entry(data_offsets=[4, 0]), b"\0" * 4), "entry 'a'"),
        (_headed(_entry(), b"\0" * 5), "no array holds"),
        (_headed(_entry(dtype="BOOL", data_offsets=[0, 1]), b"\2"), "truth values"),
        (_headed(b"{}"), "without a program"),
        (_headed(b'{"__metadata__":{"program":"{"}}'), "not valid JSON"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(TrainerError, match=message) as raised:
        engine.load_program(tmp_path / "bad")
    assert str(tmp_path / "bad") in str(raised.value)


# --- mutations drawn at random ----------------------------------------------------------------------------------------

_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-3, 12), st.floats(), st.text(max_size=5),
    st.sampled_from([*TABLE, "input", "array", "float32", "bool", "int64", [], {}, [0], [1, 1], [[0, 0], [1, 1]]]),
)  # fmt: skip


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    return [place] * bool(place) + [found for key in keys for found in _places(value[key], (*place, key))]


def _mutated(document: Any, place: tuple[Any, ...], kind: str, junk: Any) -> None:
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    if kind == "replace":
        holder[place[-1]] = junk
    elif kind == "delete":
        del holder[place[-1]]
    elif isinstance(holder, list):
        holder.insert(place[-1], copy.deepcopy(holder[place[-1]]))
    else:
        holder[str(junk)] = junk


def small(x: Any, i: Any) -> Any:
    pooled = engine.max_pool(engine.reshape(x, (1, 1, 4, 6)), 2)
    return {"a": engine.take(x * 2 + 1, i, axis=0) // 0.5, "b": pooled}


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    path = tmp_path_factory.mktemp("small") / "program"
    engine.save_program(path, small, np.ones((4, 6), np.float32), np.zeros(3, np.int64))
    return path, *content_of(path)


@pytest.fixture(scope="module")
def cpu() -> CpuDevice:
    return CpuDevice(threads=1)


def _drawn(program: Any, seed: int) -> dict[str, np.ndarray]:
    """Inputs for a program that nobody meant: indices far out of range, numbers that are none."""
    random = np.random.default_rng(seed)
    inputs = {}
    for name, (dtype, shape) in program.inputs.items():
        limits = {"float": [0.0, -1.0, 2.5, np.inf, np.nan, 1e30], "bool": [0, 1]}
        values = random.choice(limits.get(dtype.kind, [0, 1, 2, 3, 200]), shape)
        if dtype.kind == "int" and random.integers(2):
            values = random.choice([-1, np.iinfo(dtype.storage).min, np.iinfo(dtype.storage).max], shape)
        inputs[name] = np.zeros(shape, np.uint16) if dtype.name == "bfloat16" else values.astype(dtype.storage)
    return inputs


@settings(
    max_examples=200, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(data=st.data())
def test_any_mutation_of_the_document_is_refused_or_a_program(
    data: st.DataObject, small_file: tuple[Path, Any, Any], tmp_path: Path, cpu: CpuDevice
) -> None:
    _, arrays, original = small_file
    document = copy.deepcopy(original)
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(document)
        if not places:
            break
        place = data.draw(st.sampled_from(places))
        _mutated(document, place, data.draw(st.sampled_from(["replace", "delete", "add"])), data.draw(_JUNK))
    path = written(tmp_path / "mutated", arrays, document)
    try:
        program = engine.load_program(path, memory=1 << 24)
    except TrainerError as error:
        assert str(path) in str(error)
        return
    _same_on_both(program, _drawn(program, 0), cpu)


def _same_on_both(program: Any, inputs: dict[str, np.ndarray], cpu: CpuDevice) -> None:
    found = []
    for device in ("reference", cpu):
        with engine.device(device):
            outputs = program(**inputs)
            assert {name: (tensor.dtype, tensor.shape) for name, tensor in outputs.items()} == program.outputs
            found.append({name: tensor.numpy() for name, tensor in outputs.items()})
    for name, expected in found[0].items():
        np.testing.assert_allclose(found[1][name], expected, rtol=1e-5, err_msg=name)


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _loaded_with_what_follows(path: Path, arrays: Any, document: Any) -> Any:
    """The program, with the shapes and dtypes that it is told to have; None if it is refused for another reason."""
    for _ in document["nodes"]:
        try:
            return engine.load_program(written(path, arrays, document), memory=1 << 24)
        except TrainerError as error:
            assert str(path) in str(error)
            place = re.search(r"node (\d+) ", str(error.where))
            expected = re.fullmatch(r"(\w+)(\[.*\])", str(error.expected))
            if "is not what the operation gives" not in error.message or not place or not expected:
                return None
            document["nodes"][int(place[1])] |= {"dtype": expected[1], "shape": json.loads(expected[2])}
    return None


_OPERATIONS = [name for name, primitive in TABLE.items() if primitive.family == "elementwise"]


@settings(
    max_examples=40, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)  # fmt: skip
@given(data=st.data())
def test_another_operation_attribute_or_wiring_computes_the_same_on_both_devices(
    data: st.DataObject, small_file: tuple[Path, Any, Any], tmp_path: Path, cpu: CpuDevice
) -> None:
    """Mutants made to survive: other inputs, numbers and operations, with the shapes and dtypes that follow."""
    _, arrays, original = small_file
    document = copy.deepcopy(original)
    node = data.draw(st.sampled_from([node for node in document["nodes"] if "attributes" in node]))
    kind = data.draw(st.sampled_from(["operation", "input", "number"]))
    if kind == "operation":
        node["operation"] = data.draw(st.sampled_from(_OPERATIONS))
    elif kind == "input" and node["inputs"]:
        which = data.draw(st.integers(0, len(node["inputs"]) - 1))
        node["inputs"][which] = data.draw(st.integers(0, document["nodes"].index(node) - 1))
    else:
        numbers = [place for place in _places(node["attributes"]) if type(_at(node["attributes"], place)) is int]
        if numbers:
            place = data.draw(st.sampled_from(numbers))
            _at(node["attributes"], place[:-1])[place[-1]] = data.draw(st.integers(0, 7))
    program = _loaded_with_what_follows(tmp_path / "rewired", arrays, document)
    assume(program is not None)
    for seed in range(2):
        _same_on_both(program, _drawn(program, seed), cpu)


@settings(
    max_examples=200, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(position=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.integers(0, 50))
def test_any_byte_may_be_another(
    position: int, byte: int, cut: int, small_file: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    content = bytearray(small_file[0].read_bytes())
    content[position % len(content)] = byte
    path = tmp_path / "flipped"
    path.write_bytes(bytes(content[: len(content) - cut] if cut < 10 else content))
    try:
        engine.load_program(path, memory=1 << 24)
    except TrainerError as error:
        assert str(path) in str(error)
