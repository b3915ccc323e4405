"""Exit codes of the command and of its worker."""

from __future__ import annotations

import signal

DONE = 0
FAILURE = 1
USER_MISTAKE = 2
RANK_LOST = 3
"""Exit code of a rank other than 0 that ends because another rank was lost; the command exits with 1."""
INTERRUPTED = 130
TERMINATED = 143

ALL = (DONE, FAILURE, USER_MISTAKE, INTERRUPTED, TERMINATED)

EXIT_CODES_OF_DASHBOARD = {
    "detached": DONE, "finished": DONE, "stopped": DONE, "terminated": TERMINATED, "hung_up": TERMINATED,
    "failed": FAILURE,
}  # fmt: skip
"""Exit code by how a dashboard was closed (`trainer.tui.TuiResult`), if its worker continues or never started."""

BY_SIGNAL: dict[int, int] = {int(signal.SIGINT): INTERRUPTED, int(signal.SIGTERM): TERMINATED}
"""The signals that end a run; SIGHUP counts as SIGTERM."""
if hasattr(signal, "SIGHUP"):
    BY_SIGNAL[int(signal.SIGHUP)] = TERMINATED

CHECKPOINT_SIGNAL: int | None = int(signal.SIGUSR1) if hasattr(signal, "SIGUSR1") else None
"""The signal that requests a checkpoint without ending the run; blocked unless a thread waits for it."""


def early_exit_code(returncode: int) -> int:
    """The exit code for a worker that ended with `returncode` before its run directory existed."""
    return BY_SIGNAL.get(-returncode, returncode if returncode in ALL and returncode else FAILURE)
