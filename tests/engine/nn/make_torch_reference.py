"""Writes torch_reference.json next to it: layers and losses computed by PyTorch in float64.

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


def complete_box_iou(boxes, targets, eps=1e-7):
    """torchvision.ops.complete_box_iou_loss, whose package this needs not."""
    low, high = torch.max(boxes[:, :2], targets[:, :2]), torch.min(boxes[:, 2:], targets[:, 2:])
    shared = (high - low).clamp(min=0).prod(1)
    sizes = [box[:, 2:] - box[:, :2] for box in (boxes, targets)]
    union = sizes[0].prod(1) + sizes[1].prod(1) - shared
    around = torch.max(boxes[:, 2:], targets[:, 2:]) - torch.min(boxes[:, :2], targets[:, :2])
    middles = (boxes[:, :2] + boxes[:, 2:] - targets[:, :2] - targets[:, 2:]) / 2
    iou = shared / (union + eps)
    angles = [torch.atan(size[:, 0] / size[:, 1]) for size in sizes]
    v = 4 / torch.pi**2 * (angles[1] - angles[0]) ** 2
    with torch.no_grad():
        alpha = v / (1 - iou + v + eps)
    return 1 - iou + middles.square().sum(1) / (around.square().sum(1) + eps) + alpha * v


def recurrent(make, lengths=None):
    """Outputs, last states and all gradients of a recurrent layer on 3 rows of at most 4 steps."""
    module = make()
    state = {name: numbers(value) for name, value in module.state_dict().items()}
    x = torch.randn(4, 3, module.input_size, requires_grad=True)
    count = module.num_layers * (2 if module.bidirectional else 1)
    sizes = (module.proj_size or module.hidden_size, module.hidden_size)[: 2 if module.mode == "LSTM" else 1]
    first = [torch.randn(count, 3, size, requires_grad=True) for size in sizes]
    states = tuple(first) if len(first) == 2 else first[0]
    if lengths is None:
        y, last = module(x, states)
    else:
        rows = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
        y, last = module(rows, states)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, total_length=4)
    last = list(last) if len(first) == 2 else [last]
    probes = [torch.randn_like(value) for value in (y, *last)]
    loss = sum((value * probe).sum() for value, probe in zip((y, *last), probes, strict=True))
    gradients = torch.autograd.grad(loss, [x, *first, *module.parameters()])
    names = ["x", *["h", "c"][: len(first)], *[name for name, _ in module.named_parameters()]]
    return {
        "state": state, "x": numbers(x), "y": numbers(y), "first": dict(enumerate(map(numbers, first))),
        "last": dict(enumerate(map(numbers, last))), "probes": dict(enumerate(map(numbers, probes))),
        "gradients": {name: numbers(value) for name, value in zip(names, gradients, strict=True)},
    }  # fmt: skip


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

line, volume, few = torch.randn(2, 4, 9), torch.randn(2, 2, 5, 4, 6), torch.randn(1, 2, 3, 3, 2)
layers.update(
    {
        "Conv1d": layer(lambda: nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2), line),
        "Conv3d": layer(lambda: nn.Conv3d(2, 4, (3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 2), groups=2), volume),
        "Conv3d_plain": layer(lambda: nn.Conv3d(2, 3, 2, bias=False), few),
        "ConvTranspose1d": layer(lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2), line),
        "ConvTranspose1d_dilated": layer(lambda: nn.ConvTranspose1d(4, 2, 3, 2, 1, 2, dilation=3), line),
        "ConvTranspose3d": layer(
            lambda: nn.ConvTranspose3d(2, 4, (3, 2, 2), (2, 1, 2), (1, 0, 1), (1, 0, 1), groups=2, dilation=(1, 2, 1)),
            few,
        ),
        "MaxPool1d": layer(lambda: nn.MaxPool1d(3, 2, 1, dilation=2, ceil_mode=True), line),
        "MaxPool3d": layer(lambda: nn.MaxPool3d((2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 2), ceil_mode=True), volume),
        "AvgPool1d": layer(lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False), line),
        "AvgPool3d": layer(lambda: nn.AvgPool3d((2, 3, 2), (2, 2, 3), (1, 1, 0), ceil_mode=True), volume),
        "AdaptiveAvgPool1d": layer(lambda: nn.AdaptiveAvgPool1d(4), line),
        "AdaptiveAvgPool3d": layer(lambda: nn.AdaptiveAvgPool3d((2, None, 3)), volume),
        "AdaptiveAvgPool3d_uneven": layer(lambda: nn.AdaptiveAvgPool3d((2, 3, 4)), volume),
        "AdaptiveMaxPool1d": layer(lambda: nn.AdaptiveMaxPool1d(4), line),
        "AdaptiveMaxPool3d": layer(lambda: nn.AdaptiveMaxPool3d((2, 3, 4)), volume),
        "BatchNorm3d": layer(lambda: nn.BatchNorm3d(2), few),
        "InstanceNorm3d": layer(lambda: nn.InstanceNorm3d(2, affine=True), few),
        "PReLU": layer(lambda: nn.PReLU(4), line),
        "PReLU_single": layer(lambda: nn.PReLU(), line),
        "Mish": layer(lambda: nn.Mish(), line * 3),
        "Hardswish": layer(lambda: nn.Hardswish(), line * 3),
        "ReLU6": layer(lambda: nn.ReLU6(), line * 5),
        "spectral_norm": layer(lambda: nn.utils.spectral_norm(nn.Conv1d(4, 3, 2), n_power_iterations=2), line),
        "spectral_norm_transposed": layer(lambda: nn.utils.spectral_norm(nn.ConvTranspose1d(4, 3, 2)), line),
        "weight_norm": layer(lambda: nn.utils.weight_norm(nn.Conv1d(4, 3, 2)), line),
        "weight_norm_whole": layer(lambda: nn.utils.weight_norm(nn.Linear(9, 3), dim=None), line),
    }
)
signs, rows, others_of_rows = torch.tensor([1.0, -1, 1, -1, 1, -1]), torch.randn(6, 4), torch.randn(6, 4)
frames = torch.randn(7, 3, 4)
words, frame_lengths = torch.tensor([[1, 2, 2], [3, 1, 0], [2, 0, 0]]), torch.tensor([7, 6, 2])
word_lengths = torch.tensor([3, 2, 1])
log_shares = torch.log_softmax(torch.randn(6, 4), 1)
found = torch.tensor([[0.0, 0, 4, 2], [1, 1, 3, 6], [5, 5, 6, 9]])
right = torch.tensor([[1.0, 0, 4, 3], [1, 2, 5, 5], [0, 0, 2, 2]])
inputs.update(
    {
        name: numbers(value)
        for name, value in {
            "sign_labels": signs, "rows": rows, "others_of_rows": others_of_rows, "frames": frames,
            "word_labels": words, "frame_lengths_labels": frame_lengths, "word_lengths_labels": word_lengths,
            "log_shares": log_shares, "found": found, "right": right, "row_labels": labels.clamp(min=0),
        }.items()
    }
)  # fmt: skip
ctc = {"targets": words, "input_lengths": frame_lengths, "target_lengths": word_lengths}


def ctc_loss(x, **arguments):  # torch's own gradient is one with respect to what log_softmax was taken of
    return F.ctc_loss(torch.log_softmax(x, 2), **arguments)


sides = {"input2": others_of_rows, "target": signs}
triplet = {"positive": others_of_rows, "negative": logits}
losses.update(
    {
        "smooth_l1": loss(F.smooth_l1_loss, logits, target=other),
        "smooth_l1_beta": loss(F.smooth_l1_loss, logits, target=other, beta=0.3, reduction="sum"),
        "smooth_l1_zero": loss(F.smooth_l1_loss, logits, target=other, beta=0.0),
        "huber": loss(F.huber_loss, logits, target=other, delta=1.7),
        "kl_div": loss(F.kl_div, log_shares, target=shares),
        "kl_div_batchmean": loss(F.kl_div, log_shares, target=shares, reduction="batchmean"),
        "kl_div_log": loss(F.kl_div, log_shares, target=shares.log(), log_target=True, reduction="none"),
        "ctc": loss(ctc_loss, frames, **ctc),
        "ctc_none": loss(ctc_loss, frames, **ctc, reduction="none"),
        "ctc_blank": loss(ctc_loss, frames, **{**ctc, "targets": words.where(words > 0, 1)}, blank=0),
        "triplet": loss(F.triplet_margin_loss, rows, **triplet),
        "triplet_swap": loss(F.triplet_margin_loss, rows, **triplet, margin=3.0, p=1, swap=True, reduction="none"),
        "triplet_cubic": loss(F.triplet_margin_loss, rows, **triplet, margin=4.0, p=3),
        "cosine": loss(F.cosine_embedding_loss, rows, **sides, margin=0.1, reduction="none"),
        "cosine_similarity": loss(F.cosine_similarity, rows, x2=others_of_rows),
        "hinge": loss(lambda x: F.hinge_embedding_loss(x[:, 0], signs), rows),
        "margin_ranking": loss(lambda x: F.margin_ranking_loss(x[:, 0], others_of_rows[:, 0], signs, margin=0.2), rows),
        "multi_margin": loss(F.multi_margin_loss, rows, target=labels.clamp(min=0)),
        "multi_margin_squared": loss(
            F.multi_margin_loss, rows, target=labels.clamp(min=0), p=2, margin=0.5, weight=class_weight
        ),
    }
)
ciou = found.clone().requires_grad_()
value = complete_box_iou(ciou, right)
losses["ciou"] = {"value": numbers(value), "gradient": numbers(torch.autograd.grad(value.sum(), ciou)[0])}

recurrent_layers = {
    "tanh": recurrent(lambda: nn.RNN(2, 3)),
    "relu": recurrent(lambda: nn.RNN(2, 3, nonlinearity="relu", bidirectional=True, bias=False), [2, 4, 1]),
    "gru": recurrent(lambda: nn.GRU(2, 3, num_layers=2), [2, 4, 1]),
    "gru_both": recurrent(lambda: nn.GRU(2, 3, bidirectional=True)),
    "lstm": recurrent(lambda: nn.LSTM(2, 3, num_layers=2, bidirectional=True), [2, 4, 1]),
    "lstm_projected": recurrent(lambda: nn.LSTM(2, 3, num_layers=2, bidirectional=True, proj_size=2), [4, 3, 3]),
}

document = {"torch": torch.__version__, "layers": layers, "loss_inputs": inputs, "losses": losses}
document["recurrent"] = recurrent_layers
Path(__file__).with_name("torch_reference.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
