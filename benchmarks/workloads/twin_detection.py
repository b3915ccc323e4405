"""The recipe detection in plain PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_replay import Batch, TwinBase, adam

STRIDES = (8, 16, 32)


class Block(nn.Module):
    """Two 3x3 convolutions with a residual connection."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(in_channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample = None
        if stride > 1 or in_channels != width:
            shortcut = nn.Conv2d(in_channels, width, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Backbone(nn.Module):
    """The stages of a residual network."""

    def __init__(self, blocks: list[int], width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.channels = [width << stage for stage in range(len(blocks))]
        before = width
        for stage, count in enumerate(blocks):
            layer = []
            for number in range(count):
                layer.append(Block(before, width << stage, 2 if stage and not number else 1))
                before = width << stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        made = []
        for stage in range(len(self.channels)):
            x = getattr(self, f"layer{stage + 1}")(x)
            made.append(x)
        return made


class Pyramid(nn.Module):
    """A feature pyramid: adds coarse features to finer ones."""

    def __init__(self, in_channels: list[int], channels: int) -> None:
        super().__init__()
        self.inner_blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(count, channels, 1)) for count in in_channels)
        smooth = (nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1)) for _ in in_channels)
        self.layer_blocks = nn.ModuleList(smooth)

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        inner = [block(level) for block, level in zip(self.inner_blocks, features, strict=True)]
        for finer in reversed(range(len(inner) - 1)):
            inner[finer] = inner[finer] + F.interpolate(inner[finer + 1], inner[finer].shape[2:], mode="nearest")
        return [block(level) for block, level in zip(self.layer_blocks, inner, strict=True)]


def tower(channels: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.GroupNorm(channels // 8, channels)]
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Head(nn.Module):
    """Predicts class logits and box distances at all locations."""

    def __init__(self, channels: int, classes: int, depth: int) -> None:
        super().__init__()
        self.class_tower, self.box_tower = tower(channels, depth), tower(channels, depth)
        self.class_logits = nn.Conv2d(channels, classes, 3, padding=1)
        self.box_distances = nn.Conv2d(channels, 4, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(len(STRIDES)))

    def forward(self, features: list[Tensor]) -> tuple[Tensor, Tensor]:
        logits = [self.class_logits(self.class_tower(level)).flatten(2).mT for level in features]
        distances = [
            self.box_distances(self.box_tower(level)).flatten(2).mT * self.scales[number]
            for number, level in enumerate(features)
        ]
        return torch.cat(logits, 1), torch.exp(torch.cat(distances, 1))


class Detector(nn.Module):
    """The complete network: backbone, pyramid and head."""

    def __init__(self, options: dict[str, Any], classes: int) -> None:
        super().__init__()
        self.backbone = Backbone(options["blocks"], options["width"])
        self.pyramid = Pyramid(self.backbone.channels[1:], options["pyramid_channels"])
        self.head = Head(options["pyramid_channels"], classes, options["head_depth"])

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(self.pyramid(self.backbone(images)[1:]))


class Twin(TwinBase):
    """FCOS with the IoU as the target of class scores."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.network = Detector(self.options, classes=3)

    def make_optimizers(self) -> None:
        self.optimizers = {"optimizer": adam(self.network, self.config["optimizer"])}

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        images = (batch["image"].float() * (1 / 127.5) - 1).to(self.dtype)
        logits, distances = self.network(images)
        points, strides, levels = places(images.shape[2:])
        reach = distances * strides[:, None]
        boxes = torch.cat([points - reach[..., :2], points + reach[..., 2:]], -1)
        targets, classes = self.assigned(points, strides, levels, batch["boxes"], batch["labels"])
        counts = (classes >= 0) * batch["weight"][:, None]
        positives = counts.sum().clamp(min=1)
        iou, giou = overlaps(boxes, targets)
        wanted = torch.where(classes[..., None] == torch.arange(logits.shape[2]), iou.detach()[..., None], 0.0)
        entropy = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        focal = entropy * (wanted - torch.sigmoid(logits)).abs() ** 2
        class_loss = (focal * batch["weight"][:, None, None]).sum() / positives
        box_loss = ((1 - giou) * counts).sum() / positives
        loss = class_loss + self.options["box_weight"] * box_loss
        self.minimize(loss)
        return {"loss": loss, "class_loss": class_loss, "box_loss": box_loss}

    def assigned(
        self, points: Tensor, strides: Tensor, levels: Tensor, boxes: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the target box of each location, and its class, or -1 if it has none."""
        boxes = boxes[:, None]
        sides = torch.cat([points[:, None] - boxes[..., :2], boxes[..., 2:] - points[:, None]], -1)
        farthest = sides.amax(-1)
        bounds = torch.tensor([0.0, *self.options["ranges"], math.inf])
        away = (points[:, None] - (boxes[..., :2] + boxes[..., 2:]) / 2).abs().amax(-1)
        answers = (sides.amin(-1) > 0) & (away < self.options["radius"] * strides[:, None])
        answers &= (farthest >= bounds[levels][:, None]) & (farthest < bounds[levels + 1][:, None])
        answers &= labels[:, None] >= 0
        extents = boxes[..., 2:] - boxes[..., :2]
        chosen = torch.where(answers, extents[..., 0] * extents[..., 1], math.inf).argmin(-1)
        targets = boxes[:, 0].gather(1, chosen[..., None].expand(-1, -1, 4))
        return targets, torch.where(answers.any(-1), labels.gather(1, chosen), -1)


def places(size: torch.Size) -> tuple[Tensor, Tensor, Tensor]:
    """Returns points [L, 2], strides [L] and levels [L] for images of this size."""
    points, strides, levels = [], [], []
    for level, stride in enumerate(STRIDES):
        rows, columns = (-(-extent // stride) for extent in size)
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        points.append((torch.stack([x, y], -1).reshape(-1, 2) + 0.5) * stride)
        strides.append(torch.full((rows * columns,), float(stride)))
        levels.append(torch.full((rows * columns,), level))
    return torch.cat(points), torch.cat(strides), torch.cat(levels)


def overlaps(boxes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the IoU and GIoU of pairs of boxes, as torchvision's losses compute them."""
    meet = (torch.minimum(boxes[..., 2:], others[..., 2:]) - torch.maximum(boxes[..., :2], others[..., :2])).clamp(
        min=0
    )
    shared = meet[..., 0] * meet[..., 1]
    extents, wanted = boxes[..., 2:] - boxes[..., :2], others[..., 2:] - others[..., :2]
    union = extents[..., 0] * extents[..., 1] + wanted[..., 0] * wanted[..., 1] - shared
    around = torch.maximum(boxes[..., 2:], others[..., 2:]) - torch.minimum(boxes[..., :2], others[..., :2])
    whole = around[..., 0] * around[..., 1]
    iou = shared / (union + 1e-7)
    return iou, iou - (whole - union) / (whole + 1e-7)
