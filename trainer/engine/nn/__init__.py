"""Layers, losses and initializers with the usual names, shapes and defaults."""

# ruff: noqa: F401, I001

from trainer.engine.nn import functional, initializers
from trainer.engine.nn.activations import (
    ELU, GELU, Hardsigmoid, Hardswish, LeakyReLU, LogSoftmax, Mish, PReLU, ReLU, ReLU6, Sigmoid, SiLU, Softmax,
    Softplus, Tanh,
)  # fmt: skip
from trainer.engine.nn.attention import MultiheadAttention
from trainer.engine.nn.boxes import (
    box_area, box_iou, box_iou_loss, complete_box_iou_loss, distance_box_iou_loss, generalized_box_iou_loss, nms,
)  # fmt: skip
from trainer.engine.nn.containers import Flatten, Identity, ModuleList, Sequential, Unflatten
from trainer.engine.nn.convolution import (
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
)  # fmt: skip
from trainer.engine.nn.dropout import Dropout, Dropout1d, Dropout2d, Dropout3d
from trainer.engine.nn.key_value_cache import KeyValueCache, KeyValues
from trainer.engine.nn.linear import Bilinear, Embedding, Linear
from trainer.engine.nn.losses import (
    binary_cross_entropy_with_logits, cross_entropy, huber_loss, kl_div, l1_loss, mse_loss, quality_focal_loss,
    sigmoid_focal_loss, smooth_l1_loss,
)  # fmt: skip
from trainer.engine.nn.module import LoadReport, Module
from trainer.engine.nn.normalization import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d,
)  # fmt: skip
from trainer.engine.nn.overlap_losses import dice_loss, lovasz_loss, tversky_loss
from trainer.engine.nn.parameter import Declaration, Parameter, declare, declare_buffer
from trainer.engine.nn.pooling import (
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
)  # fmt: skip
from trainer.engine.nn.positions import LearnedPositions, RotaryEmbedding, SinusoidalPositions
from trainer.engine.nn.ranking_losses import (
    cosine_embedding_loss, cosine_similarity, hinge_embedding_loss, margin_ranking_loss, multi_margin_loss,
    pairwise_distance, triplet_margin_loss,
)  # fmt: skip
from trainer.engine.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from trainer.engine.nn.reparametrization import spectral_norm, weight_norm
from trainer.engine.nn.sequence_losses import ctc_loss
from trainer.engine.nn.random import RandomState
from trainer.engine.nn.resampling import PixelShuffle, PixelUnshuffle, Upsample
from trainer.engine.nn.sample_normalization import GroupNorm, LayerNorm, RMSNorm
from trainer.engine.nn.transformer import TransformerDecoderLayer, TransformerEncoderLayer
