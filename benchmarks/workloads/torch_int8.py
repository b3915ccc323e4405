"""Times PyTorch's product of int8 matrices: answers each line "rows columns depth" with milliseconds.

python torch_int8.py THREADS
"""

import statistics
import sys
import time

import torch

torch.set_num_threads(int(sys.argv[1]))
for line in sys.stdin:
    rows, columns, depth = map(int, line.split())
    a = torch.randint(-128, 128, (rows, depth), dtype=torch.int8)
    b = torch.randint(-128, 128, (columns, depth), dtype=torch.int8).t()
    times = []
    for _ in range(30):
        start = time.perf_counter()
        torch._int_mm(a, b)
        times.append(time.perf_counter() - start)
    print(1e3 * statistics.median(times[5:]), flush=True)
