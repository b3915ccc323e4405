"""Starting from weights: by the task's names, by the model's own, of any kind of file, in part; misfits are named."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.learner import Learner
from trainer.learner.checkpoints import Array, write_checkpoint
from trainer.learner.checkpoints.format import point
from trainer.learner.weights import Selection, load_weights
from trainer.learner.weights.files import normalization_of
from trainer.learner.weights.write import selected, write_weights
from trainer.rundir import create_run_at


@pytest.fixture
def values():
    return {"weight": np.full((2, 3), 0.5, np.float32), "bias": np.array([1.0, 2.0], np.float32)}


@pytest.mark.parametrize("prefix", ["", "net."])
def test_names_with_and_without_the_modules(tmp_path, values, prefix):
    save_file({prefix + name: value for name, value in values.items()}, tmp_path / "w.safetensors")
    net = nn.Linear(3, 2)
    load_weights(tmp_path / "w.safetensors", {"net": net})
    np.testing.assert_array_equal(net.state_dict()["bias"], values["bias"])


def test_a_checkpoint_folder(tmp_path, values):
    arrays = {f"net.{name}": Array(value, engine.float32) for name, value in values.items()}
    folder, _ = write_checkpoint(tmp_path, 5, {"model": arrays, "training": {}}, {})
    net = nn.Linear(3, 2)
    load_weights(folder, {"net": net})
    np.testing.assert_array_equal(net.state_dict()["weight"], values["weight"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"other": np.zeros(2, np.float32)}, "net.other"),
        ({"bias": np.zeros(3, np.float32)}, "bias: shape (3,) where the model has (2,)"),
        ({"bias": None}, "bias: not in the file; the model has shape (2,)"),
    ],
)
def test_misfits_are_named(tmp_path, values, change, said):
    kept = {name: value for name, value in {**values, **change}.items() if value is not None}
    save_file({f"net.{name}": value for name, value in kept.items()}, tmp_path / "w.safetensors")
    with pytest.raises(TrainerError) as raised:
        load_weights(tmp_path / "w.safetensors", {"net": nn.Linear(3, 2)})
    assert said in str(raised.value)


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"PK\x03\x04 not safetensors at all")
    with pytest.raises(TrainerError, match="not a safetensors file"):
        load_weights(tmp_path / "w.safetensors", {"net": nn.Linear(3, 2)})


def test_arrays_that_overlap_are_refused(tmp_path, values):
    save_file(values, tmp_path / "w.safetensors")
    content = (tmp_path / "w.safetensors").read_bytes()
    assert content.count(b'"data_offsets":[8,32]') == 1  # the weight, after the two floats of the bias
    (tmp_path / "w.safetensors").write_bytes(content.replace(b"[8,32]", b"[4,28]"))
    with pytest.raises(TrainerError, match="'weight' does not begin where the one before ends"):
        load_weights(tmp_path / "w.safetensors", {"net": nn.Linear(3, 2)})


# --- parts and patterns -----------------------------------------------------------------------------------------------


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 2)


def numbers(module, start=0.0):
    """Every array of a module, each with numbers of its own."""
    return {
        name: (np.arange(np.prod(shape, dtype=int)) + start + index).reshape(shape).astype(np.float32)
        for index, (name, shape) in enumerate(module.named_shapes().items())
    }


@pytest.fixture
def detector():
    return Detector().set_seed(0)


@pytest.mark.parametrize(
    "prefix", ["", "module.", "backbone.", "encoder.net.", "net.backbone.", "module.net.backbone."]
)
@pytest.mark.parametrize("part", ["backbone", "net.backbone"])
def test_a_part_is_found_under_any_prefix(tmp_path, detector, prefix, part):
    given = numbers(detector.backbone)
    others = {f"{prefix}fc.bias": np.zeros(5, np.float32), "other.0.weight": np.zeros((4, 2), np.float32)}
    save_file({**{prefix + name: value for name, value in given.items()}, **others}, tmp_path / "b.safetensors")
    before = detector.head.weight.numpy()
    match = load_weights(tmp_path / "b.safetensors", {"net": detector}, part)
    place = f" from {prefix.removesuffix('.')}" if prefix else ""
    unused = f"{prefix}fc" + ("" if prefix else ", other")
    assert match.report() == f"7 of 7 arrays loaded{place}; not used: {unused}"
    for name, value in detector.backbone.state_dict().items():
        np.testing.assert_array_equal(value, given[name])
    np.testing.assert_array_equal(detector.head.weight.numpy(), before)


def test_a_deeper_model_does_not_fit_a_part(tmp_path, detector):
    given = {f"backbone.{name}": value for name, value in numbers(detector.backbone).items()}
    save_file({**given, "backbone.1.more.weight": np.zeros(4, np.float32)}, tmp_path / "b.safetensors")
    with pytest.raises(TrainerError, match=r"backbone\.1\.more\.weight: not in the model"):
        load_weights(tmp_path / "b.safetensors", {"net": detector}, "backbone")


def test_a_part_that_is_in_the_file_twice_must_be_chosen(tmp_path, detector):
    given = numbers(detector.backbone)
    places = ("student.", "teacher.")
    arrays = {place + name: np.asarray(value + len(place)) for place in places for name, value in given.items()}
    save_file(arrays, tmp_path / "b.safetensors")
    with pytest.raises(TrainerError, match="several places") as raised:
        load_weights(tmp_path / "b.safetensors", {"net": detector}, "backbone")
    assert "student, teacher" in str(raised.value) and r"rename: {'^student\.': ''}" in str(raised.value)
    load_weights(tmp_path / "b.safetensors", {"net": detector}, "backbone", Selection(rename=[(r"^teacher\.", "")]))
    np.testing.assert_array_equal(detector.backbone[0].bias.numpy(), given["0.bias"] + len("teacher."))


def test_the_remedy_names_the_part_that_fits(tmp_path, detector):
    save_file(numbers(detector.backbone), tmp_path / "b.safetensors")
    with pytest.raises(TrainerError) as raised:
        load_weights(tmp_path / "b.safetensors", {"net": detector})
    assert "7 arrays of the file fit net.backbone: set `model: {parts: {backbone: {weights: …}}}`" in str(raised.value)
    save_file({**numbers(detector.backbone), "0.bias": np.zeros(1, np.float32)}, tmp_path / "b.safetensors")
    with pytest.raises(TrainerError, match=r"0\.bias: shape \(1,\) where(.|\n)*`exclude`") as raised:
        load_weights(tmp_path / "b.safetensors", {"net": detector}, "backbone")
    assert "parts" not in str(raised.value)  # no smaller part that happens to fit


# --- the head ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
def test_only_the_head_may_differ_and_is_initialized_as_a_whole(tmp_path, detector, missing):
    given = numbers(detector)
    given["head.weight"] = np.zeros((7, 4), np.float32)
    if missing:
        del given["head.weight"]
    save_file(given, tmp_path / "w.safetensors")
    before = detector.head.state_dict()
    match = load_weights(tmp_path / "w.safetensors", {"net": detector}, head=["net.head.*"])
    reason = "not in the file" if missing else "shape (7, 4) where the model has (2, 4)"
    assert match.report() == f"7 of 7 arrays loaded; the head is initialized (head.weight: {reason}, head.bias)"
    assert all(np.array_equal(value, before[name]) for name, value in detector.head.state_dict().items())
    np.testing.assert_array_equal(detector.backbone[0].bias.numpy(), given["backbone.0.bias"])
    given["backbone.0.bias"] = np.zeros(9, np.float32)
    save_file(given, tmp_path / "w.safetensors")
    with pytest.raises(TrainerError, match=r"backbone\.0\.bias: shape \(9,\) where the model has \(4,\)"):
        load_weights(tmp_path / "w.safetensors", {"net": detector}, head=["net.head.*"])


def test_a_head_that_fits_is_loaded(tmp_path, detector):
    given = numbers(detector)
    save_file(given, tmp_path / "w.safetensors")
    assert load_weights(tmp_path / "w.safetensors", {"net": detector}, head=["net.head.*"]).report() == (
        "9 of 9 arrays loaded"
    )
    np.testing.assert_array_equal(detector.head.weight.numpy(), given["head.weight"])


def test_what_is_loaded_can_be_chosen_by_pattern(tmp_path, detector):
    given = numbers(detector)
    save_file(given, tmp_path / "w.safetensors")
    before = detector.state_dict()
    match = load_weights(
        tmp_path / "w.safetensors", {"net": detector}, selection=Selection(include=["backbone.*"], exclude=["*.bias"])
    )
    after = detector.state_dict()
    loaded = {name for name in given if np.array_equal(after[name], given[name])}
    assert loaded == {name for name in given if name.startswith("backbone.") and not name.endswith(".bias")}
    assert all(np.array_equal(after[name], before[name]) for name in given if name not in loaded)
    assert match.report() == "5 of 5 arrays loaded; 4 excluded by include or exclude"


def test_without_strict_the_rest_is_told_of(tmp_path, detector):
    given = {**numbers(detector), "head.weight": np.zeros((7, 4), np.float32), "extra": np.zeros(1, np.float32)}
    del given["backbone.0.bias"]
    save_file(given, tmp_path / "w.safetensors")
    match = load_weights(tmp_path / "w.safetensors", {"net": detector}, selection=Selection(is_strict=False))
    assert match.report() == (
        "7 of 9 arrays loaded; 1 not in the file (backbone.0.bias); 1 not in the model (extra); "
        "1 with another shape (head.weight: shape (7, 4) where the model has (2, 4))"
    )
    np.testing.assert_array_equal(detector.head.bias.numpy(), given["head.bias"])


def test_nothing_in_common_is_an_error_even_without_strict(tmp_path, detector, values):
    save_file(values, tmp_path / "w.safetensors")
    before = detector.state_dict()
    with pytest.raises(TrainerError, match="belong to another model"):
        load_weights(tmp_path / "w.safetensors", {"net": detector}, selection=Selection(is_strict=False))
    assert all(np.array_equal(value, before[name]) for name, value in detector.state_dict().items())


def test_a_part_that_is_none_is_told_those_that_are(tmp_path, detector, values):
    save_file(values, tmp_path / "w.safetensors")
    with pytest.raises(TrainerError, match="no part 'neck'") as raised:
        load_weights(tmp_path / "w.safetensors", {"net": detector}, "neck")
    assert "net.backbone" in str(raised.value)


def test_a_counter_of_batches_may_be_missing(tmp_path, detector):
    given = {name: value for name, value in numbers(detector).items() if not name.endswith("num_batches_tracked")}
    save_file(given, tmp_path / "w.safetensors")
    assert load_weights(tmp_path / "w.safetensors", {"net": detector}).report() == "8 of 8 arrays loaded"


def test_a_weight_of_two_names_may_have_one_in_the_file(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.weight

    net = Tied()
    given = np.full((3, 3), 2.0, np.float32)
    for names in (["first.weight"], ["first.weight", "second.weight"]):
        save_file({name: given for name in names}, tmp_path / "w.safetensors")
        load_weights(tmp_path / "w.safetensors", {"net": net})
        np.testing.assert_array_equal(net.second.weight.numpy(), given)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_numpy_archive(tmp_path, detector, save):
    given = numbers(detector)
    save(tmp_path / "w.npz", **given)
    load_weights(tmp_path / "w.npz", {"net": detector})
    np.testing.assert_array_equal(detector.head.weight.numpy(), given["head.weight"])


def test_numpy_archives_that_would_unpickle_or_grow_are_refused(tmp_path):
    np.savez(tmp_path / "objects.npz", weight=np.array([{"a": 1}], dtype=object))
    np.savez_compressed(tmp_path / "bomb.npz", weight=np.zeros(1 << 27, np.uint8))
    np.savez(tmp_path / "complex.npz", weight=np.zeros(2, complex))
    for name, said in (
        ("objects", "not an array of supported numbers"),
        ("bomb", "too much"),
        ("complex", "complex128"),
    ):
        with pytest.raises(TrainerError, match=said):
            load_weights(tmp_path / f"{name}.npz", {"net": nn.Linear(3, 2)})


def test_a_numpy_archive_whose_header_has_an_open_bracket_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "open.npz", "w") as archive:
        archive.writestr("weight.npy", b"\x93NUMPY\x01\x00" + bytes([20, 0]) + b"{'shape': (2, 3".ljust(19) + b"\n")
    with pytest.raises(TrainerError, match="not a NumPy archive"):
        load_weights(tmp_path / "open.npz", {"net": nn.Linear(3, 2)})


def test_a_changed_byte_of_a_numpy_archive_is_noticed_or_changes_nothing(tmp_path):
    np.savez_compressed(tmp_path / "w.npz", weight=np.arange(6.0).reshape(2, 3), bias=np.float32([1, 2]))
    content, random = (tmp_path / "w.npz").read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(content)
        changed[int(random.integers(len(content)))] ^= 1 << int(random.integers(8))
        (tmp_path / "c.npz").write_bytes(changed)
        net = nn.Linear(3, 2)
        try:
            load_weights(tmp_path / "c.npz", {"net": net})
        except TrainerError:
            continue
        np.testing.assert_array_equal(net.weight.numpy(), np.arange(6.0).reshape(2, 3))


def test_of_a_run_the_weights_that_it_predicts_with_are_loaded(tmp_path, values):
    config = {"train": {"ema": {"decay": 0.9}}, "checkpoint": {"best": {"metric": "valid/ema/loss"}}}
    for step, is_averaged in ((5, True), (6, False)):
        metric = "valid/ema/loss" if is_averaged else "valid/loss"
        groups = {
            stem: {f"net.{name}": Array(value + step + shift, engine.float32) for name, value in values.items()}
            for stem, shift in (("model", 0), ("ema", 100))
        }
        state = {"config": {**config, "checkpoint": {"best": {"metric": metric}}}}
        write_checkpoint(tmp_path / "checkpoints", step, groups, state)
    point(tmp_path / "checkpoints", "latest", 6)
    expected = {None: values["bias"] + 6, "model": values["bias"] + 6, "ema": values["bias"] + 106}
    for entry, bias in expected.items():
        net = nn.Linear(3, 2)
        load_weights(tmp_path, {"net": net}, entry=entry)
        np.testing.assert_array_equal(net.bias.numpy(), bias)
    point(tmp_path / "checkpoints", "best", 5)
    net = nn.Linear(3, 2)
    load_weights(tmp_path, {"net": net})
    np.testing.assert_array_equal(net.bias.numpy(), values["bias"] + 105)


def test_an_exported_model_gives_its_weights(tmp_path, detector):
    shift = engine.asarray(np.arange(3, dtype=np.float32))
    trained = detector.eval().set_seed(1, "net")
    network = nn.Sequential(trained.backbone, trained.head)
    engine.save_program(
        tmp_path / "model.trainer", lambda rows: network(rows + shift), np.zeros((1, 3), np.float32), any_batch=True
    )
    fresh = Detector().set_seed(0, "net")
    assert load_weights(tmp_path / "model.trainer", {"net": fresh}).report() == "8 of 8 arrays loaded from net"
    for name, value in trained.state_dict().items():
        np.testing.assert_array_equal(fresh.state_dict()[name], value)


def test_of_a_checkpoint_a_damaged_file_is_refused(tmp_path, values):
    arrays = {f"net.{name}": Array(value, engine.float32) for name, value in values.items()}
    folder, _ = write_checkpoint(tmp_path, 5, {"model": arrays, "ema": arrays}, {})
    load_weights(folder, {"net": nn.Linear(3, 2)}, entry="ema")
    with pytest.raises(TrainerError, match="has no 'training'"):
        load_weights(folder, {"net": nn.Linear(3, 2)}, entry="training")
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(TrainerError, match="damaged checkpoint"):
        load_weights(folder, {"net": nn.Linear(3, 2)})


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_written_weights_are_those_of_the_part(tmp_path, detector, suffix):
    arrays = {f"net.{name}": Array(value, engine.float32) for name, value in detector.state_dict().items()}
    kept = selected(arrays, Selection(exclude=["*.bias"], rename=[("head", "fc")]), "net", where="here")
    normalization = {"mean": [0.5], "std": [0.25]}
    write_weights(tmp_path / f"w{suffix}", kept, normalization=normalization)
    assert normalization_of(tmp_path / f"w{suffix}") == (normalization if suffix == ".safetensors" else None)
    found = load_file(tmp_path / "w.safetensors") if suffix == ".safetensors" else dict(np.load(tmp_path / "w.npz"))
    assert "fc.weight" in found and "backbone.0.weight" in found and "backbone.0.bias" not in found
    np.testing.assert_array_equal(found["fc.weight"], detector.head.weight.numpy())


def test_a_run_says_what_it_started_from(blobs, config, tmp_path):
    first = Learner(blobs, config(train={"steps": 2, "epochs": None}))
    first.run().check()
    head = {name: value for name, value in first.task.net.state_dict().items() if name.startswith("4.")}
    save_file({name.removeprefix("4."): value for name, value in head.items()}, tmp_path / "head.safetensors")
    events = []
    model = {"parts": {"net.4": {"weights": tmp_path / "head.safetensors"}}}
    second = Learner(blobs, config(train={"steps": 2, "epochs": None}, model=model), sink=events.append)
    second._prepare()
    np.testing.assert_array_equal(second.task.net.state_dict()["4.weight"], head["4.weight"])
    (told,) = [event.message for event in events if event.kind == "log"]
    assert told.endswith("head.safetensors for net.4: 2 of 2 arrays loaded")


def test_a_resumed_run_does_not_need_the_weights_that_it_started_from(blobs, config, tmp_path):
    whole = Learner(blobs, config(train={"steps": 1, "epochs": None}))
    whole.run().check()
    weights = tmp_path / "start.safetensors"
    save_file(whole.task.net.state_dict(), weights)
    paths = create_run_at(tmp_path / "run")
    for steps, resume in ((2, None), (4, paths.root)):
        settings = config(train={"steps": steps, "epochs": None}, model={"weights": weights})
        Learner(blobs, settings, paths=paths, resume=resume).run().check()
        weights.unlink(missing_ok=True)
