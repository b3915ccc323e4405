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
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
    "GroupNorm_vectors": lambda: nn.GroupNorm(2, 6),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(4),
    "InstanceNorm2d_tracked": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "InstanceNorm1d": lambda: nn.InstanceNorm1d(4, affine=True),
    "RMSNorm": lambda: nn.RMSNorm((5, 3)),
    "BatchNorm2d_plain": lambda: nn.BatchNorm2d(4, affine=False, track_running_stats=False),
    "MaxPool2d_ceil": lambda: nn.MaxPool2d(2, 2, ceil_mode=True),
    "MaxPool2d_dilated": lambda: nn.MaxPool2d((3, 2), (1, 2), (1, 0), dilation=(2, 1), ceil_mode=True),
    "AvgPool2d_overlapping": lambda: nn.AvgPool2d(3, 2, 1),
    "AvgPool2d_uncounted": lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "AvgPool2d_ceil": lambda: nn.AvgPool2d((3, 2), (2, 2), (1, 0), ceil_mode=True),
    "AvgPool2d_ceil_uncounted": lambda: nn.AvgPool2d(2, 2, 1, True, False),
    "AdaptiveAvgPool2d_uneven": lambda: nn.AdaptiveAvgPool2d((3, 2)),
    "AdaptiveAvgPool2d_kept": lambda: nn.AdaptiveAvgPool2d((None, 3)),
    "AdaptiveMaxPool2d": lambda: nn.AdaptiveMaxPool2d((7, 1)),
    "AdaptiveMaxPool2d_uneven": lambda: nn.AdaptiveMaxPool2d((3, 2)),
    "Upsample": lambda: nn.Upsample(scale_factor=2),
    "Upsample_odd": lambda: nn.Upsample(scale_factor=(1.7, 0.6)),
    "Upsample_size": lambda: nn.Upsample(size=(5, 13)),
    "Upsample_exact": lambda: nn.Upsample(size=(4, 13), mode="nearest-exact"),
    "Upsample_bilinear": lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
    "Upsample_bilinear_odd": lambda: nn.Upsample(scale_factor=(1.7, 0.6), mode="bilinear"),
    "Upsample_bilinear_size": lambda: nn.Upsample(size=(3, 11), mode="bilinear"),
    "Upsample_corners": lambda: nn.Upsample(size=(3, 11), mode="bilinear", align_corners=True),
    "Upsample_corners_factor": lambda: nn.Upsample(scale_factor=2.5, mode="bilinear", align_corners=True),
    "Upsample_linear": lambda: nn.Upsample(scale_factor=1.5, mode="linear"),
    "Upsample_line": lambda: nn.Upsample(size=11),
    "Upsample_cubic": lambda: nn.Upsample(scale_factor=2, mode="bicubic"),
    "Upsample_cubic_odd": lambda: nn.Upsample(scale_factor=(1.7, 0.6), mode="bicubic"),
    "Upsample_cubic_size": lambda: nn.Upsample(size=(3, 11), mode="bicubic"),
    "Upsample_cubic_corners": lambda: nn.Upsample(size=(3, 11), mode="bicubic", align_corners=True),
    "Upsample_cubic_tiny": lambda: nn.Upsample(size=(4, 3), mode="bicubic"),
    "Upsample_area": lambda: nn.Upsample(size=(3, 2), mode="area"),
    "Upsample_area_larger": lambda: nn.Upsample(size=(10, 5), mode="area"),
    "Upsample_area_line": lambda: nn.Upsample(scale_factor=0.5, mode="area"),
    "PixelShuffle": lambda: nn.PixelShuffle(2),
    "PixelUnshuffle": lambda: nn.PixelUnshuffle(2),
    "Embedding_padding": lambda: nn.Embedding(5, 3, padding_idx=-1),
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
    "Conv1d": lambda: nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2),
    "Conv3d": lambda: nn.Conv3d(2, 4, (3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 2), groups=2),
    "Conv3d_plain": lambda: nn.Conv3d(2, 3, 2, bias=False),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2),
    "ConvTranspose1d_dilated": lambda: nn.ConvTranspose1d(4, 2, 3, 2, 1, 2, dilation=3),
    "ConvTranspose3d": lambda: nn.ConvTranspose3d(
        2, 4, (3, 2, 2), (2, 1, 2), (1, 0, 1), (1, 0, 1), groups=2, dilation=(1, 2, 1)
    ),
    "MaxPool1d": lambda: nn.MaxPool1d(3, 2, 1, dilation=2, ceil_mode=True),
    "MaxPool3d": lambda: nn.MaxPool3d((2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 2), ceil_mode=True),
    "AvgPool1d": lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False),
    "AvgPool3d": lambda: nn.AvgPool3d((2, 3, 2), (2, 2, 3), (1, 1, 0), ceil_mode=True),
    "AdaptiveAvgPool1d": lambda: nn.AdaptiveAvgPool1d(4),
    "AdaptiveAvgPool3d": lambda: nn.AdaptiveAvgPool3d((2, None, 3)),
    "AdaptiveAvgPool3d_uneven": lambda: nn.AdaptiveAvgPool3d((2, 3, 4)),
    "AdaptiveMaxPool1d": lambda: nn.AdaptiveMaxPool1d(4),
    "AdaptiveMaxPool3d": lambda: nn.AdaptiveMaxPool3d((2, 3, 4)),
    "BatchNorm3d": lambda: nn.BatchNorm3d(2),
    "InstanceNorm3d": lambda: nn.InstanceNorm3d(2, affine=True),
    "PReLU": lambda: nn.PReLU(4),
    "PReLU_single": lambda: nn.PReLU(),
    "Mish": lambda: nn.Mish(),
    "Hardswish": lambda: nn.Hardswish(),
    "ReLU6": lambda: nn.ReLU6(),
    "spectral_norm": lambda: nn.spectral_norm(nn.Conv1d(4, 3, 2), n_power_iterations=2),
    "spectral_norm_transposed": lambda: nn.spectral_norm(nn.ConvTranspose1d(4, 3, 2)),
    "weight_norm": lambda: nn.weight_norm(nn.Conv1d(4, 3, 2)),
    "weight_norm_whole": lambda: nn.weight_norm(nn.Linear(9, 3), dim=None),
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
    x = engine.asarray(x.astype(np.int64) if name.startswith("Embedding") else x)
    y = layer(x)
    wanted = {**({} if name.startswith("Embedding") else {"x": x}), **layer.named_parameters()}
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
        (lambda: nn.AdaptiveAvgPool2d(2), (1, 3, 4), "[N, C, H, W]"),
        (lambda: nn.GroupNorm(2, 4), (2, 3, 5), "[N, 4, ...]"),
        (lambda: nn.InstanceNorm2d(4), (2, 4, 1, 1), "more than one value"),
        (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 5), "bilinear and bicubic of [N, C, H, W]"),
        (lambda: nn.Upsample(), (2, 3, 5, 5), "size or scale_factor"),
        (lambda: nn.Upsample(scale_factor=0.1), (2, 3, 5, 5), "the image is empty"),
        (lambda: nn.PixelShuffle(2), (2, 6, 5, 5), "divisible by 4"),
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


PICTURES = {
    "norms": lambda: [nn.GroupNorm(2, 20), nn.InstanceNorm2d(20, affine=True), nn.BatchNorm2d(20), nn.RMSNorm(11)],
    "pools": lambda: [nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d((4, 3)), nn.AdaptiveMaxPool2d((4, 3))],
    "grids": lambda: [
        nn.Upsample(scale_factor=1.6),
        nn.Upsample(size=(5, 30), mode="bilinear"),
        nn.PixelShuffle(2),
        nn.Upsample(size=(12, 7), mode="bicubic"),
        nn.Upsample(size=(4, 5), mode="area"),
    ],
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_compiled_step_of_layers_behind_a_convolution_equals_the_reference(name):
    """The convolution makes its output channels-last, which each layer must take and give back."""
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 11)).astype(np.float32)
    found = {}
    for device in ("cpu", "reference"):
        with engine.device(device):
            first, layers = nn.Conv2d(3, 20, 3, padding=1).set_seed(0), PICTURES[name]()

            def step(image, first=first, layers=layers):
                y = first(image)
                total = sum((engine.sum(layer(y) ** 3) for layer in layers), engine.zeros(()))
                return engine.gradients(total, list(first.named_parameters().values()))

            found[device] = [gradient.numpy() for gradient in engine.trace(step)(x)]
    for ours, expected in zip(found["cpu"], found["reference"], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())
