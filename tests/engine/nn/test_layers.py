"""Layers equal PyTorch's in float64: results, gradients, state dictionaries, running statistics, inference mode."""

from __future__ import annotations

import numpy as np
import pytest

from trainer import TrainerError, engine
from trainer.engine import nn

LAYERS = {
    "Linear": lambda: nn.Linear(6, 3),
    "Conv2d": lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 1), dilation=(1, 2), groups=2),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
    "BatchNorm2d": lambda: nn.BatchNorm2d(4),
    "BatchNorm1d": lambda: nn.BatchNorm1d(4, momentum=None),
    "LayerNorm": lambda: nn.LayerNorm((5, 3)),
    "MaxPool2d": lambda: nn.MaxPool2d(3, 2, 1),
    "AvgPool2d": lambda: nn.AvgPool2d((2, 3)),
    "AdaptiveAvgPool2d": lambda: nn.AdaptiveAvgPool2d((1, 3)),
    "Embedding": lambda: nn.Embedding(5, 3),
    "ELU": lambda: nn.ELU(0.7),
    "GELU": lambda: nn.GELU(),
    "GELU_tanh": lambda: nn.GELU(approximate="tanh"),
    "LeakyReLU": lambda: nn.LeakyReLU(0.2),
    "ReLU": lambda: nn.ReLU(),
    "SiLU": lambda: nn.SiLU(),
    "Sigmoid": lambda: nn.Sigmoid(),
    "Softplus": lambda: nn.Softplus(),
    "Tanh": lambda: nn.Tanh(),
    "Softmax": lambda: nn.Softmax(),
    "LogSoftmax": lambda: nn.LogSoftmax(),
}


@pytest.fixture(autouse=True)
def on_the_reference_device():
    with engine.device("reference"):
        yield


@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_torch(name, torch_reference):
    expected = torch_reference["layers"][name]
    layer = LAYERS[name]().astype(engine.float64)
    assert {key: state.shape for key, state in layer.named_states().items()} == {
        key: entry.shape for key, entry in expected["state"].items()
    }
    layer.load_state_dict(expected["state"])
    x = expected["x"]
    x = engine.asarray(x.astype(np.int64) if name == "Embedding" else x)
    y = layer(x)
    wanted = {**({} if name == "Embedding" else {"x": x}), **layer.named_parameters()}
    gradients = engine.gradients(engine.sum(y * engine.asarray(expected["probe"])), list(wanted.values()))
    np.testing.assert_allclose(y.numpy(), expected["y"], rtol=1e-9, atol=1e-9)
    for key, gradient in zip(wanted, gradients, strict=True):
        np.testing.assert_allclose(gradient.numpy(), expected["gradients"][key], rtol=1e-8, atol=1e-9, err_msg=key)
    for key, value in layer.state_dict().items():
        np.testing.assert_allclose(value, expected["state_after"][key], rtol=1e-9, atol=1e-10, err_msg=key)
    np.testing.assert_allclose(layer.eval()(x).numpy(), expected["y_eval"], rtol=1e-9, atol=1e-9)


def test_flatten_and_unflatten_are_each_others_reverse():
    x = engine.asarray(np.arange(24.0).reshape(2, 3, 4))
    y = nn.Sequential(nn.Flatten(), nn.Identity(), nn.Unflatten(1, (3, 4)))(x)
    assert nn.Flatten()(x).shape == (2, 12)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_relu_lets_nan_through():
    assert np.isnan(nn.ReLU()(engine.asarray(np.array([np.nan]))).numpy()).all()


@pytest.mark.parametrize(
    ("layer", "shape", "said"),
    [
        (lambda: nn.Linear(6, 3), (2, 5), "[..., 6]"),
        (lambda: nn.Conv2d(4, 6, 3), (2, 3, 8, 8), "[N, 4, H, W]"),
        (lambda: nn.BatchNorm2d(4), (2, 4), "4 axes"),
        (lambda: nn.LayerNorm(4), (2, 3), "[..., 4]"),
        (lambda: nn.AdaptiveAvgPool2d(2), (1, 1, 3, 4), "divisible"),
        (lambda: nn.BatchNorm1d(4), (1, 4), "more than one value"),
    ],
)
def test_a_wrong_shape_is_refused_in_the_users_words(layer, shape, said):
    with pytest.raises(TrainerError) as raised:
        layer()(engine.zeros(shape))
    assert said in str(raised.value)


def test_channels_that_do_not_fit_groups_are_refused():
    with pytest.raises(TrainerError, match="groups"):
        nn.Conv2d(4, 6, 3, groups=4)
