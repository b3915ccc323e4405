"""The physical orders that convolutions of every target read and write."""

from __future__ import annotations

from trainer.engine.graph.storage import Layout

CHANNELS_LAST = Layout((0, 2, 3, 1))
WEIGHTS = Layout((2, 3, 1, 0))
"""Where output channels are innermost: [R, S, C, K] of the logical [K, C, R, S]."""
