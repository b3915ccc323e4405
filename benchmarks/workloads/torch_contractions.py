"""Times PyTorch's contractions: answers each line `KIND NUMBERS…` with the milliseconds of one call.

Kinds: forward, input_gradient, weight_gradient (images channels size filters window stride padding, optionally groups;
the faster of contiguous and channels-last) and product, left_gradient, right_gradient (rows depth columns).

Usage: torch_contractions.py THREADS
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable

import torch

REPETITIONS = 5


def convolution(kind: str, numbers: list[int]) -> Callable[[], object]:
    layouts = torch.channels_last, torch.contiguous_format
    return min((convolution_in(layout, kind, numbers) for layout in layouts), key=milliseconds)


def convolution_in(layout: torch.memory_format, kind: str, numbers: list[int]) -> Callable[[], object]:
    images, channels, size, filters, window, stride, padding, groups = (*numbers, 1)[:8]
    x = torch.randn(images, channels, size, size).to(memory_format=layout)
    w = torch.randn(filters, channels // groups, window, window).to(memory_format=layout)
    y = torch.conv2d(x, w, stride=stride, padding=padding, groups=groups)
    if kind == "forward":
        return lambda: torch.conv2d(x, w, stride=stride, padding=padding, groups=groups)
    wanted = [kind == "input_gradient", kind == "weight_gradient", False]
    geometry = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups
    return lambda: torch.ops.aten.convolution_backward(y, x, w, None, *geometry, wanted)


def product(kind: str, numbers: list[int]) -> Callable[[], object]:
    rows, depth, columns = numbers
    a, b, c = torch.randn(rows, depth), torch.randn(depth, columns), torch.randn(rows, columns)
    return {"product": lambda: a @ b, "left_gradient": lambda: c @ b.T, "right_gradient": lambda: a.T @ c}[kind]


@functools.lru_cache(maxsize=1)
def call(line: str) -> Callable[[], object]:
    kind, *words = line.split()
    numbers = [int(word) for word in words]
    function = (product if len(numbers) == 3 else convolution)(kind, numbers)
    for _ in range(3):
        function()
    return function


def milliseconds(function: Callable[[], object]) -> float:
    times = []
    function()
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


torch.set_num_threads(int(sys.argv[1]))
with torch.no_grad():
    for request in sys.stdin:
        print(milliseconds(call(request.strip())), flush=True)
