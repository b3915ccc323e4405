"""Times contractions of a checkout: answers each line `KIND NUMBER …` with the milliseconds of one call.

Usage: contraction.py     (PYTHONPATH contains the checkout and its folder `benchmarks`, with `contractions.py`)
"""

from __future__ import annotations

import sys

import contractions

for request in sys.stdin:
    kind, *numbers = request.split()
    print(contractions.ours(kind, tuple(map(int, numbers))), flush=True)
