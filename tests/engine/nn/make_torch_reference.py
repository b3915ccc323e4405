"""Writes torch_reference.json beside it: layers and losses computed by PyTorch in float64.

Run it by hand in an environment that has torch (made with 2.13.0); the tests only read the file.
"""

# mypy: ignore-errors
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)


def numbers(tensor):
    return {
        "shape": list(tensor.shape),
        "values": [float(f"{value:.11g}") for value in tensor.detach().flatten().tolist()],
    }


def layer(make, x, *, integer=False):
    module = make()
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.3, 0.7)
    state = {name: numbers(value) for name, value in module.state_dict().items()}
    x = x if integer else x.clone().requires_grad_()
    y = module(x)
    probe = torch.randn_like(y)
    names = [name for name, _ in module.named_parameters()]
    wanted = [*([] if integer else [x]), *module.parameters()]
    gradients = torch.autograd.grad((y * probe).sum(), wanted)
    result = {"state": state, "x": numbers(x), "y": numbers(y), "probe": numbers(probe)}
    result["gradients"] = {
        name: numbers(g) for name, g in zip([*([] if integer else ["x"]), *names], gradients, strict=True)
    }
    result["state_after"] = {name: numbers(value) for name, value in module.state_dict().items()}
    module.eval()
    result["y_eval"] = numbers(module(x))
    return result


picture = torch.randn(2, 4, 5, 3)
layers = {
    "Linear": layer(lambda: nn.Linear(6, 3), torch.randn(2, 4, 6)),
    "Conv2d": layer(lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 1), dilation=(1, 2), groups=2), picture),
    "ConvTranspose2d": layer(
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), picture[:, :, :3, :3]
    ),
    "BatchNorm2d": layer(lambda: nn.BatchNorm2d(4), picture),
    "BatchNorm1d": layer(lambda: nn.BatchNorm1d(4, momentum=None), picture[0].reshape(4, -1).T),
    "LayerNorm": layer(lambda: nn.LayerNorm((5, 3)), picture),
    "MaxPool2d": layer(lambda: nn.MaxPool2d(3, 2, 1), picture),
    "AvgPool2d": layer(lambda: nn.AvgPool2d((2, 3)), picture),
    "AdaptiveAvgPool2d": layer(lambda: nn.AdaptiveAvgPool2d((1, 3)), picture),
    "Embedding": layer(lambda: nn.Embedding(5, 3), torch.tensor([[0, 4, 4], [2, 0, 1]]), integer=True),
    "ELU": layer(lambda: nn.ELU(0.7), picture[0, 0]),
    "GELU": layer(lambda: nn.GELU(), picture[0, 0]),
    "GELU_tanh": layer(lambda: nn.GELU(approximate="tanh"), picture[0, 0]),
    "LeakyReLU": layer(lambda: nn.LeakyReLU(0.2), picture[0, 0]),
    "ReLU": layer(lambda: nn.ReLU(), picture[0, 0]),
    "SiLU": layer(lambda: nn.SiLU(), picture[0, 0]),
    "Sigmoid": layer(lambda: nn.Sigmoid(), picture[0, 0]),
    "Softplus": layer(lambda: nn.Softplus(), picture[0, 0]),
    "Tanh": layer(lambda: nn.Tanh(), picture[0, 0]),
    "Softmax": layer(lambda: nn.Softmax(-1), picture[0, 0]),
    "LogSoftmax": layer(lambda: nn.LogSoftmax(-1), picture[0, 0]),
}


def loss(function, x, **arguments):
    x = x.clone().requires_grad_()
    value = function(x, **arguments)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    return {"value": numbers(value), "gradient": numbers(gradient)}


logits, labels = torch.randn(6, 4) * 3, torch.tensor([0, 3, 1, 1, -100, 2])
pixels, pixel_labels = torch.randn(2, 3, 2, 2), torch.tensor([[[0, 1], [2, 2]], [[1, 1], [0, 2]]])
class_weight = torch.tensor([0.5, 2.0, 1.0, 3.0])
targets, other = torch.rand(6, 4), torch.randn(6, 4)
inputs = {name: numbers(value) for name, value in locals().items() if name in (
    "logits", "labels", "pixels", "pixel_labels", "class_weight", "targets", "other")}  # fmt: skip
losses = {
    "cross_entropy": loss(F.cross_entropy, logits, target=labels),
    "cross_entropy_none": loss(F.cross_entropy, logits, target=labels, reduction="none"),
    "cross_entropy_pixels": loss(F.cross_entropy, pixels, target=pixel_labels, reduction="sum"),
    "cross_entropy_weighted": loss(F.cross_entropy, logits, target=labels, weight=class_weight),
    "cross_entropy_smooth": loss(F.cross_entropy, logits, target=labels, label_smoothing=0.1),
    "cross_entropy_smooth_weighted": loss(
        F.cross_entropy, logits, target=labels, weight=class_weight, label_smoothing=0.2
    ),
    "bce": loss(F.binary_cross_entropy_with_logits, logits, target=targets),
    "bce_weighted": loss(
        F.binary_cross_entropy_with_logits, logits, target=targets, weight=class_weight, pos_weight=class_weight.flip(0)
    ),
    "l1": loss(F.l1_loss, logits, target=other),
    "mse": loss(F.mse_loss, logits, target=other, reduction="sum"),
}

tokens, image = torch.tensor([[0, 4, 4], [2, 0, 1]]), torch.randn(2, 6, 7, 5)
layers.update(
    {
        "GroupNorm": layer(lambda: nn.GroupNorm(2, 4), picture),
        "GroupNorm_vectors": layer(lambda: nn.GroupNorm(2, 6), torch.randn(5, 6)),
        "InstanceNorm2d": layer(lambda: nn.InstanceNorm2d(4), picture),
        "InstanceNorm2d_tracked": layer(lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), picture),
        "InstanceNorm1d": layer(lambda: nn.InstanceNorm1d(4, affine=True), picture[..., 0]),
        "RMSNorm": layer(lambda: nn.RMSNorm((5, 3)), picture),
        "BatchNorm2d_plain": layer(lambda: nn.BatchNorm2d(4, affine=False, track_running_stats=False), picture),
        "MaxPool2d_ceil": layer(lambda: nn.MaxPool2d(2, 2, ceil_mode=True), image),
        "MaxPool2d_dilated": layer(
            lambda: nn.MaxPool2d((3, 2), (1, 2), (1, 0), dilation=(2, 1), ceil_mode=True), image
        ),
        "AvgPool2d_overlapping": layer(lambda: nn.AvgPool2d(3, 2, 1), image),
        "AvgPool2d_uncounted": layer(lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), image),
        "AvgPool2d_ceil": layer(lambda: nn.AvgPool2d((3, 2), (2, 2), (1, 0), ceil_mode=True), image),
        "AvgPool2d_ceil_uncounted": layer(lambda: nn.AvgPool2d(2, 2, 1, True, False), image),
        "AdaptiveAvgPool2d_uneven": layer(lambda: nn.AdaptiveAvgPool2d((3, 2)), image),
        "AdaptiveAvgPool2d_kept": layer(lambda: nn.AdaptiveAvgPool2d((None, 3)), image),
        "AdaptiveMaxPool2d": layer(lambda: nn.AdaptiveMaxPool2d((7, 1)), image),
        "AdaptiveMaxPool2d_uneven": layer(lambda: nn.AdaptiveMaxPool2d((3, 2)), image),
        "Upsample": layer(lambda: nn.Upsample(scale_factor=2), image),
        "Upsample_odd": layer(lambda: nn.Upsample(scale_factor=(1.7, 0.6)), image),
        "Upsample_size": layer(lambda: nn.Upsample(size=(5, 13)), image),
        "Upsample_exact": layer(lambda: nn.Upsample(size=(4, 13), mode="nearest-exact"), image),
        "Upsample_bilinear": layer(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), image),
        "Upsample_bilinear_odd": layer(lambda: nn.Upsample(scale_factor=(1.7, 0.6), mode="bilinear"), image),
        "Upsample_bilinear_size": layer(lambda: nn.Upsample(size=(3, 11), mode="bilinear"), image),
        "Upsample_corners": layer(lambda: nn.Upsample(size=(3, 11), mode="bilinear", align_corners=True), image),
        "Upsample_corners_factor": layer(
            lambda: nn.Upsample(scale_factor=2.5, mode="bilinear", align_corners=True), image
        ),
        "Upsample_linear": layer(lambda: nn.Upsample(scale_factor=1.5, mode="linear"), image[..., 0]),
        "Upsample_line": layer(lambda: nn.Upsample(size=11), image[..., 0]),
        "PixelShuffle": layer(lambda: nn.PixelShuffle(2), torch.randn(2, 8, 3, 5)),
        "PixelUnshuffle": layer(lambda: nn.PixelUnshuffle(2), torch.randn(2, 3, 4, 6)),
        "Embedding_padding": layer(lambda: nn.Embedding(5, 3, padding_idx=-1), tokens, integer=True),
    }
)
shares, pixel_shares = torch.softmax(torch.randn(6, 4), 1), torch.softmax(torch.randn(2, 3, 2, 2), 1)
inputs.update({"shares": numbers(shares), "pixel_shares": numbers(pixel_shares)})
losses.update(
    {
        "cross_entropy_soft": loss(F.cross_entropy, logits, target=shares),
        "cross_entropy_soft_pixels": loss(F.cross_entropy, pixels, target=pixel_shares, label_smoothing=0.3),
        "cross_entropy_soft_weighted": loss(
            F.cross_entropy, logits, target=shares, weight=class_weight, label_smoothing=0.1, reduction="none"
        ),
    }
)
layers.update(
    {
        "Upsample_cubic": layer(lambda: nn.Upsample(scale_factor=2, mode="bicubic"), image),
        "Upsample_cubic_odd": layer(lambda: nn.Upsample(scale_factor=(1.7, 0.6), mode="bicubic"), image),
        "Upsample_cubic_size": layer(lambda: nn.Upsample(size=(3, 11), mode="bicubic"), image),
        "Upsample_cubic_corners": layer(lambda: nn.Upsample(size=(3, 11), mode="bicubic", align_corners=True), image),
        "Upsample_cubic_tiny": layer(lambda: nn.Upsample(size=(4, 3), mode="bicubic"), image[:, :, :2, :1]),
        "Upsample_area": layer(lambda: nn.Upsample(size=(3, 2), mode="area"), image),
        "Upsample_area_larger": layer(lambda: nn.Upsample(size=(10, 5), mode="area"), image),
        "Upsample_area_line": layer(lambda: nn.Upsample(scale_factor=0.5, mode="area"), image[..., 0]),
    }
)

document = {"torch": torch.__version__, "layers": layers, "loss_inputs": inputs, "losses": losses}
Path(__file__).with_name("torch_reference.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
