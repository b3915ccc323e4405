"""Functions of tensors, under the names of the Python array API standard where it has them."""

# ruff: noqa: I001

from trainer.engine.functions.convolution import average_pool, convolution, convolution_transpose, max_pool, resample
from trainer.engine.functions.custom import custom
from trainer.engine.functions.creation import (
    arange, asarray, empty, empty_like, eye, from_dlpack, full, full_like, linspace, one_hot, ones, ones_like, zeros,
    zeros_like,
)  # fmt: skip
from trainer.engine.functions.elementwise import (
    abs, acos, acosh, add, asin, asinh, astype, atan, atan2, atanh, barrier, bitwise_and, bitwise_invert,
    bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor, ceil, clip, conj, copysign, cos, cosh, divide,
    equal, erf, exp, expm1, floor, floor_divide, greater, greater_equal, hypot, imag, isfinite, isinf, isnan, less,
    less_equal, log, log1p, log2, log10, logaddexp, logical_and, logical_not, logical_or, logical_xor, logistic,
    maximum, minimum, multiply, negative, nextafter, not_equal, positive, pow, real, reciprocal, remainder, round, sign,
    signbit, sin, sinh, sqrt, square, stop_gradient, subtract, tan, tanh, trunc, where,
)  # fmt: skip
from trainer.engine.functions import fft, linalg
from trainer.engine.functions.einsum import einsum
from trainer.engine.functions.host import host_call
from trainer.engine.functions.indexing import nonzero
from trainer.engine.functions.inspection import __array_namespace_info__, finfo, iinfo, isdtype
from trainer.engine.functions.linear import matmul, matrix_transpose, tensordot, vecdot
from trainer.engine.functions.movement import (
    bincount, broadcast_arrays, broadcast_shapes, broadcast_to, concat, expand_dims, flip, meshgrid, moveaxis,
    permute_dims, repeat, reshape, roll, split, squeeze, stack, take, take_along_axis, tile, tril, triu, unstack,
)  # fmt: skip
from trainer.engine.functions.operators import attach
from trainer.engine.functions.padding import pad
from trainer.engine.functions.quantiles import median, quantile
from trainer.engine.functions.reductions import (
    all, any, argmax, argmin, count_nonzero, cumulative_prod, cumulative_sum, diff, max, mean, min, moments, prod, std,
    sum, var,
)  # fmt: skip
from trainer.engine.functions.scan import scan
from trainer.engine.functions.scattering import scatter, segment_sum
from trainer.engine.functions.shards import shard_sum
from trainer.engine.functions.sorting import (
    argsort, isin, searchsorted, sort, suppress, top_k, unique_all, unique_counts, unique_inverse, unique_values,
)  # fmt: skip
from trainer.engine.functions.windows import fold, unfold, windows

attach()

__all__ = [
    "__array_namespace_info__", "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort",
    "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "average_pool", "barrier", "bincount",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "ceil", "clip", "concat", "conj", "convolution",
    "convolution_transpose", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum", "custom",
    "diff", "divide", "einsum", "empty", "empty_like", "equal", "erf", "exp", "expand_dims", "expm1", "eye", "fft",
    "finfo", "flip", "floor", "floor_divide", "fold", "from_dlpack", "full", "full_like", "greater", "greater_equal",
    "host_call", "hypot", "iinfo", "imag", "isdtype", "isfinite", "isin", "isinf", "isnan", "less", "less_equal",
    "linalg", "linspace", "log", "log1p", "log2", "log10", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logistic", "matmul", "matrix_transpose", "max", "max_pool", "maximum", "mean", "median", "meshgrid",
    "min", "minimum", "moments", "moveaxis", "multiply", "negative", "nextafter", "nonzero", "not_equal", "one_hot",
    "ones", "ones_like", "pad", "permute_dims", "positive", "pow", "prod", "quantile", "real", "reciprocal",
    "remainder", "repeat", "resample", "reshape", "roll", "round", "scan", "scatter", "searchsorted", "segment_sum",
    "shard_sum", "sign", "signbit", "sin", "sinh", "sort", "split", "sqrt", "square", "squeeze", "stack", "std",
    "stop_gradient", "subtract", "sum", "suppress", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile",
    "top_k", "tril", "triu", "trunc", "unfold", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "unstack", "var", "vecdot", "where", "windows", "zeros", "zeros_like",
]  # fmt: skip
