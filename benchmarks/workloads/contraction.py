"""Contractions of a checkout: reads a line `KIND NUMBER …` and answers with the milliseconds of one call.

Usage: contraction.py     (PYTHONPATH has the checkout and its folder `benchmarks`, where `contractions.py` is)
"""

from __future__ import annotations

import sys

import contractions

for request in sys.stdin:
    kind, *numbers = request.split()
    print(contractions.ours(kind, tuple(map(int, numbers))), flush=True)
