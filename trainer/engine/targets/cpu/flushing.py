"""The floating-point environment of traced programs, for Python code that computes in their place."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager

from trainer.engine.targets.cpu import native
from trainer.engine.targets.cpu.system import floating_point_ir

_ENTRANCES = """
define i64 @begin() {
  %state = call i64 @flush_on()
  ret i64 %state
}
define void @restore(i64 %state) {
  call void @flush_restore(i64 %state)
  ret void
}
"""


@contextmanager
def flushing() -> Iterator[None]:
    """Treats subnormal numbers as zeros in this thread inside the `with` block, also in NumPy's arithmetic."""
    library = _library()
    state = ctypes.CFUNCTYPE(ctypes.c_int64)(library["begin"])()
    try:
        yield
    finally:
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(library["restore"])(state)


@functools.cache
def _library() -> native.Library:
    code = native.compile_object(floating_point_ir() + _ENTRANCES)
    return native.link({"flushing": code}, "flushing", exports=("begin", "restore"))
