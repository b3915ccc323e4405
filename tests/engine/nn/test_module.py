"""Modules: names, order, seeds, state dictionaries, modes."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn


class Net(nn.Module):
    def __init__(self) -> None:
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 3)])
        self.scale = nn.Parameter(np.ones(2, np.float32), "scale")

    def forward(self, x):
        return self.heads[1](engine.mean(self.features(x), axis=(2, 3)))


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


def test_names_are_the_fields():
    net = Net()
    assert list(net.state_dict()) == [
        "scale",
        "features.0.weight",
        "features.1.weight",
        "features.1.bias",
        "features.1.running_mean",
        "features.1.running_var",
        "features.1.num_batches_tracked",
        "heads.0.weight",
        "heads.0.bias",
        "heads.1.weight",
        "heads.1.bias",
    ]
    assert set(net.named_buffers()) == {
        f"features.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert net.features[1].path == "features.1"
    assert net.features[1].num_batches_tracked.dtype == engine.int64


def test_initial_values_depend_on_seed_and_path_alone():
    one, other, third = Net().set_seed(3), Net().set_seed(3), Net().set_seed(4)
    _ = other.heads[1].weight.numpy()  # read in another order
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(value, other.state_dict()[name], err_msg=name)
    assert not np.array_equal(one.heads[0].weight.numpy(), third.heads[0].weight.numpy())
    assert not np.array_equal(one.heads[0].weight.numpy(), one.heads[1].weight.numpy()[:2])
    assert not np.array_equal(one.heads[0].weight.numpy(), Net().set_seed(3, "student").heads[0].weight.numpy())


def test_state_dict_round_trip_and_conversion():
    net, other = Net().set_seed(1), Net().set_seed(2).astype(engine.float64)
    other.load_state_dict(net.state_dict())
    for name, value in other.state_dict().items():
        np.testing.assert_array_equal(value, net.state_dict()[name])
    assert other.heads[0].weight.dtype == engine.float64


def test_loading_names_every_misfit_and_changes_nothing():
    net = Net()
    values = net.state_dict()
    before = net.scale.numpy()
    del values["heads.0.bias"]
    values["head.bias"] = values["scale"] + 1
    values["scale"] = values["scale"] + 1
    values["heads.1.bias"] = np.zeros(7)
    with pytest.raises(TrainerError) as raised:
        net.load_state_dict(values)
    assert all(
        said in str(raised.value)
        for said in (
            "missing: heads.0.bias",
            "unexpected: head.bias",
            "heads.1.bias: shape (7,) where the model has (3,)",
        )
    )
    np.testing.assert_array_equal(net.scale.numpy(), before)
    values["heads.1.bias"] = np.zeros(3)
    assert net.load_state_dict(values, strict=False) == (["heads.0.bias"], ["head.bias"])


def test_modes_reach_every_child():
    net = Net().eval()
    assert not any(module.training for module in net.modules())
    assert all(module.training for module in net.train().modules())


def test_a_shared_module_is_counted_once():
    net = nn.Sequential(nn.Linear(2, 2))
    net.append(net[0])
    assert len(net.parameters()) == 2


def test_an_unknown_attribute_says_which_class():
    with pytest.raises(AttributeError, match="Net has no attribute 'feature'"):
        _ = Net().feature


def test_replacing_an_attribute_replaces_the_child():
    net = Net()
    net.features = nn.Identity()
    net.scale = None
    assert "features.0.weight" not in net.state_dict()
    assert "scale" not in net.state_dict()
