"""What the pool and its runtime share: records of a tape, their flags and stamps, the words of the control block."""

RECORD_WORDS = 8
BARRIER, SINGLE, REPEAT = 1, 2, 4
"""Flags of a record: wait for all earlier ones; run on the calling thread alone; walk a body again and again."""

STAMPS = 3
"""Time stamps that a thread leaves for each record: it arrived, it began (past the barrier), it ended."""

THREAD_BITS = 11
"""The word of launches holds, below the launch's number, how many threads take part in it: the others only note that
it has passed, and may miss several.
"""

MOST_THREADS = (1 << THREAD_BITS) - 1

# Words of the pool's control block, each on a cache line of its own.
LAUNCH, ARRIVED, GENERATION, SLEEPERS, TAPE, COUNT, THREADS, FLUSH, PROFILE, READY, CPU, FAILED = range(0, 96, 8)
# What the system offers, as addresses: written once, so that the runtime's object code is the same in every process.
WAIT, CURRENT_CPU, PLACE, MASKS = range(96, 100)

MASK_BYTES = 128
"""Of a set of processors, as the system's calls take it."""
