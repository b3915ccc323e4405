"""The primitives: `TABLE` has one entry for each that computes from arrays alone. A function of the same name builds a
node of it; for complex inputs it may compose primitives of their parts (`complex.py`).

Everything the engine computes is composed of these. Inputs of element-wise primitives have one shape and dtype: the
tensor layer broadcasts and promotes.
"""

# ruff: noqa: F401, I001

from trainer.engine.graph.primitives.attention import attention, attention_gradient
from trainer.engine.graph.primitives.complex import complex_, hypot, imag, real
from trainer.engine.graph.primitives.compose import broadcast, full, full_like
from trainer.engine.graph.primitives.contraction import (
    convolution, convolution_input_gradient, convolution_weight_gradient, matmul,
)  # fmt: skip
from trainer.engine.graph.primitives.custom import custom, with_gradient
from trainer.engine.graph.primitives.elementwise import (
    abs, add, atan2, bitwise_and, bitwise_invert, bitwise_or, bitwise_xor, cast, cast_values, ceil, copysign, cos,
    divide, equal, erf, exp, expm1, floor, floor_divide, isfinite, isinf, isnan, less, less_equal, log, log1p,
    logical_and, logical_not, logical_or, logical_xor, logistic, maximum, minimum, multiply, negative, nextafter,
    not_equal, power, remainder, round, shift_left, shift_right, shift_right_logical, sign, sin, sqrt, subtract, tanh,
    trunc, where,
)  # fmt: skip
from trainer.engine.graph.primitives.host import host_call
from trainer.engine.graph.primitives.index import (
    gather, gather_sum, scatter_add, scatter_add_along, scatter_max_along, scatter_min_along, scatter_prod_along,
    take_along,
)  # fmt: skip
from trainer.engine.graph.primitives.marker import anchor, barrier, stop_gradient
from trainer.engine.graph.primitives.movement import (
    alias, concatenate, expand, flip, is_alias, origin, pad, permute, reshape, slice_, windows,
)  # fmt: skip
from trainer.engine.graph.primitives.order import argsort, sort, suppress, top_k
from trainer.engine.graph.primitives.output import output, outputs_of
from trainer.engine.graph.primitives.ragged import rnn_scan_ragged, rnn_scan_ragged_gradient
from trainer.engine.graph.primitives.recurrent import rnn_scan, rnn_scan_gradient
from trainer.engine.graph.primitives.reduction import (
    argmax, argmin, cumulative_prod, cumulative_sum, reduce_deviations, reduce_max, reduce_mean, reduce_min,
    reduce_prod, reduce_sum,
)  # fmt: skip
from trainer.engine.graph.primitives.resampling import resample
from trainer.engine.graph.primitives.scan import scan
from trainer.engine.graph.primitives.shards import from_process, shard_sum
from trainer.engine.graph.primitives.sources import (
    NEGATIVE_ZERO, become_leaf, buffer, canonical, constant, iota, random_bits,
)  # fmt: skip
from trainer.engine.graph.primitives.table import BUNDLES, TABLE
from trainer.engine.graph.primitives.window import window_argmax, window_max, window_max_gradient
