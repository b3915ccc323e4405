"""Constants of the pool and its runtime: tape records, their flags and time stamps, words of the control block."""

RECORD_WORDS = 8
BARRIER, SINGLE, REPEAT = 1, 2, 4
"""Flags of a record: wait for all earlier records; run only on the calling thread; repeat a body of records."""

STAMPS = 3
"""Number of time stamps that a thread writes for each record: arrival, begin (after the barrier), end."""

THREAD_BITS = 11
"""Number of low bits of the launch word that hold the number of participating threads; the launch's number is above
them. The other threads only see that a launch has passed, and may miss several.
"""

MOST_THREADS = (1 << THREAD_BITS) - 1

# Words of the pool's control block, each on its own cache line.
LAUNCH, ARRIVED, GENERATION, SLEEPERS, TAPE, COUNT, THREADS, FLUSH, PROFILE, READY, CPU, FAILED = range(0, 96, 8)
# Addresses of system functions and masks, written once: the runtime's object code is the same in every process.
WAIT, CURRENT_CPU, PLACE, MASKS = range(96, 100)

MASK_BYTES = 128
"""Size of a set of processors in bytes, as the system calls expect it."""
