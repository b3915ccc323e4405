"""How often the dashboard draws: four times a second at most, and seldom where that would cost somebody."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.rundir import SystemEvent
from trainer.tui.status import Status

READ_SECONDS = 0.03
"""The longest that one read of the run directory may keep the screen from answering a key."""

FIRST_READ_SECONDS = 0.01
"""The longest that reading may keep the first frame: some 2,000 records."""

FIRST_FRAME_SECONDS = 0.2
"""By when the first frame is on the terminal, whatever else has happened."""

BEHIND_SECONDS = 0.002
"""The pause between two reads while there is more to read: time for a key, not for a frame."""

POINTER_SECONDS = 0.3
"""Between two frames that the mouse asks for: a cross-hair that moves in all charts is some kilobytes each time."""

LOOK_AFTER_SECONDS = 1.0
MESSAGE_SECONDS = 6.0
SSH_SECONDS = 0.5
BUSY_PERCENT = 95.0


def pause_between_frames(
    status: Status, system: SystemEvent | None, environment: Mapping[str, str], *, has_stepped: bool = True
) -> float:
    """Seconds between two frames.

    A quarter of a second; half a second over SSH; a second when the run is over or paused, or no core is idle: but not
    before the first step, which is waited for.
    """
    is_quiet = status.is_over or status.word == "PAUSED"
    is_busy = has_stepped and system is not None and system.cpu is not None and system.cpu >= BUSY_PERCENT
    if is_quiet or is_busy:
        return 1.0
    return SSH_SECONDS if "SSH_CONNECTION" in environment else 0.25


def pause_between_motions(environment: Mapping[str, str]) -> float:
    """Seconds between two frames that the mouse asks for."""
    return SSH_SECONDS if "SSH_CONNECTION" in environment else POINTER_SECONDS
