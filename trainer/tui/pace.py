"""The frame rate of the dashboard: at most four frames a second, and fewer if drawing would slow something down."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

from trainer.rundir import SystemEvent
from trainer.tui.status import Status

READ_SECONDS = 0.03
"""Maximum time of one read of the run directory, during which no key is answered."""

FIRST_READ_SECONDS = 0.01
"""Maximum time of reading before the first frame: about 2,000 records."""

FIRST_FRAME_SECONDS = 0.2
"""Time after which the first frame counts as drawn."""

BEHIND_SECONDS = 0.002
"""The pause between two reads while there is more to read: enough for a key, not for a frame."""

POINTER_SECONDS = 0.3
"""Seconds between two frames for the mouse: moving the cross-hair in all charts writes some kilobytes each time."""

SHARE_OF_A_CORE = 0.022
"""Maximum share of a core for drawing a live run: together with reading, less than 3 %."""

LONGEST_PAUSE_SECONDS = 1.0
LOOK_AFTER_SECONDS = 1.0
MESSAGE_SECONDS = 6.0
SSH_SECONDS = 0.5
BUSY_PERCENT = 95.0


def pause_between_frames(
    status: Status,
    system: SystemEvent | None,
    environment: Mapping[str, str],
    *,
    has_stepped: bool = True,
    frame_seconds: float = 0.0,
) -> float:
    """Seconds between two frames.

    A quarter of a second; half a second over SSH; up to a second if frames of `frame_seconds` of processor time would
    exceed their share of a core; a second when the run is over or paused, or no core is idle. Until the first step, for
    which the user waits, has been drawn, the cost of a frame and idle cores are ignored.
    """
    is_quiet = status.is_over or status.word == "PAUSED"
    is_busy = has_stepped and system is not None and system.cpu is not None and system.cpu >= BUSY_PERCENT
    if is_quiet or is_busy:
        return LONGEST_PAUSE_SECONDS
    shortest = SSH_SECONDS if "SSH_CONNECTION" in environment else 0.25
    return max(shortest, min(LONGEST_PAUSE_SECONDS, frame_seconds / SHARE_OF_A_CORE)) if has_stepped else shortest


class FrameCost:
    """The processor time of a frame, including Textual's: all processor time except for reading the run."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._since = clock()
        self._used = 0.0
        self._last: deque[float] = deque(maxlen=3)

    @property
    def seconds(self) -> float:
        """The median of the last three frames: a frame that fills a new screen or imports a module is an outlier."""
        return sorted(self._last)[1] if len(self._last) == 3 else 0.0

    def reading(self) -> None:
        """Starts reading: from here on, processor time is not part of the frame."""
        self._used += self._clock() - self._since

    def has_read(self) -> None:
        """Ends reading: from here on, processor time is part of the frame."""
        self._since = self._clock()

    def next_frame(self) -> None:
        """Records the cost of a frame; called before the next one is drawn."""
        self._last.append(self._used)
        self._used = 0.0


def pause_between_motions(environment: Mapping[str, str]) -> float:
    """Seconds between two frames for the mouse."""
    return SSH_SECONDS if "SSH_CONNECTION" in environment else POINTER_SECONDS
