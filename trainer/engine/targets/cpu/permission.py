"""Permission to use AMX's tile registers: Linux keeps their 8 KiB for a process only once it has asked."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
"""The system call's number on x86-64, ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux' asm/prctl.h."""


@functools.cache
def tiles_permitted() -> bool:
    """Whether this process may use them: asked once, for all its threads, before the pool starts any.

    The system refuses where a thread's alternative signal stack is too small for them; elsewhere than on Linux nobody
    was asked, and the answer is no.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(_REQUEST), ctypes.c_long(_TILE_DATA))) == 0
