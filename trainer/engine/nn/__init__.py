"""Layers, losses and initialisers, under the field's usual names, shapes and defaults."""

# ruff: noqa: F401, I001

from trainer.engine.nn import functional, initializers
from trainer.engine.nn.activations import ELU, GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Softplus, Tanh
from trainer.engine.nn.boxes import (
    box_area, box_iou, box_iou_loss, distance_box_iou_loss, generalized_box_iou_loss, nms,
)  # fmt: skip
from trainer.engine.nn.containers import Flatten, Identity, ModuleList, Sequential, Unflatten
from trainer.engine.nn.convolution import Conv2d, ConvTranspose2d
from trainer.engine.nn.dropout import Dropout, Dropout2d
from trainer.engine.nn.linear import Embedding, Linear
from trainer.engine.nn.losses import (
    binary_cross_entropy_with_logits, cross_entropy, l1_loss, mse_loss, quality_focal_loss, sigmoid_focal_loss,
)  # fmt: skip
from trainer.engine.nn.module import LoadReport, Module
from trainer.engine.nn.normalization import BatchNorm1d, BatchNorm2d, InstanceNorm1d, InstanceNorm2d
from trainer.engine.nn.overlap_losses import dice_loss
from trainer.engine.nn.parameter import Declaration, Parameter, declare, declare_buffer
from trainer.engine.nn.pooling import AdaptiveAvgPool2d, AdaptiveMaxPool2d, AvgPool2d, MaxPool2d
from trainer.engine.nn.random import RandomState
from trainer.engine.nn.resampling import PixelShuffle, PixelUnshuffle, Upsample
from trainer.engine.nn.sample_normalization import GroupNorm, LayerNorm, RMSNorm
