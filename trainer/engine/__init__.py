"""The tensor engine: lazy arrays with the names of the Python array API standard, gradients, and compiled steps.

`Tensor` values are computed when they are read; `State` values change in place; `gradients` differentiates;
`trace` compiles a function into one program; `device` selects the device that computes.
"""

# ruff: noqa: F403

import importlib
from typing import TYPE_CHECKING, Any

from trainer.engine import functions, random
from trainer.engine.autocast import autocast
from trainer.engine.functions import *
from trainer.engine.gradients import gradients
from trainer.engine.graph.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from trainer.engine.promotion import can_cast, result_type
from trainer.engine.state import State
from trainer.engine.targets import device, per_item, set_default_device
from trainer.engine.tensor import API_VERSIONS, Tensor, evaluate

if TYPE_CHECKING:
    from trainer.engine import nn as nn
    from trainer.engine.autotune.tuner import tuning as tuning
    from trainer.engine.checking.eager import FoundNaN as FoundNaN
    from trainer.engine.checking.eager import eager as eager
    from trainer.engine.checking.eager import find_nan as find_nan
    from trainer.engine.checking.gradients import check_gradient as check_gradient
    from trainer.engine.export.load import LoadedProgram as LoadedProgram
    from trainer.engine.export.load import load_program as load_program
    from trainer.engine.export.save import save_program as save_program
    from trainer.engine.profiling.explain import explain as explain
    from trainer.engine.profiling.measure import profile as profile
    from trainer.engine.profiling.memory import MemoryReport as MemoryReport
    from trainer.engine.profiling.memory import memory_report as memory_report
    from trainer.engine.profiling.report import Profile as Profile
    from trainer.engine.tracing.trace import Traced as Traced
    from trainer.engine.tracing.trace import trace as trace

__array_api_version__ = API_VERSIONS[-1]
bool = bool_
e, pi, inf, nan, newaxis = 2.718281828459045, 3.141592653589793, float("inf"), float("nan"), None

__all__ = [
    "DType",
    "FoundNaN",
    "LoadedProgram",
    "MemoryReport",
    "Profile",
    "State",
    "Tensor",
    "Traced",
    "__array_api_version__",
    "autocast",
    "bfloat16",
    "bool",
    "bool_",
    "can_cast",
    "check_gradient",
    "complex64",
    "complex128",
    "device",
    "e",
    "eager",
    "evaluate",
    "explain",
    "find_nan",
    "float16",
    "float32",
    "float64",
    "gradients",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "load_program",
    "memory_report",
    "nan",
    "newaxis",
    "nn",
    "per_item",
    "pi",
    "profile",
    "random",
    "result_type",
    "save_program",
    "set_default_device",
    "trace",
    "tuning",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]  # fmt: skip
__all__ += functions.__all__

_LAZY = {
    "autotune.tuner": ("tuning",),
    "checking.eager": ("FoundNaN", "eager", "find_nan"),
    "checking.gradients": ("check_gradient",),
    "export": ("LoadedProgram", "load_program", "save_program"),
    "profiling": ("Profile", "profile"),
    "profiling.explain": ("explain",),
    "profiling.memory": ("MemoryReport", "memory_report"),
    "tracing.trace": ("Traced", "trace"),
}
"""Modules that are imported on first use of one of their names; `nn` is imported in the same way."""


def __getattr__(name: str) -> Any:
    if name == "nn":
        return importlib.import_module("trainer.engine.nn")
    for module, names in _LAZY.items():
        if name in names:
            return getattr(importlib.import_module(f"trainer.engine.{module}"), name)
    raise AttributeError(f"module 'trainer.engine' has no attribute {name!r}")
