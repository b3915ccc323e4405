"""Starting from weights: by the task's names, by the model's own, from a checkpoint folder; misfits are named."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from trainer import TrainerError, engine
from trainer.engine import nn
from trainer.learner.checkpoints import Array, write_checkpoint
from trainer.learner.weights import load_weights


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
        ({"bias": None}, "missing: bias"),
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
