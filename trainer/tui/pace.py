"""How often the dashboard draws: at most four times a second, and less often where that would slow something down."""

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
"""The pause between two reads while there is more to read: time for a key, not for a frame."""

POINTER_SECONDS = 0.3
"""Between two frames that the mouse asks for: a cross-hair that moves in all charts is some kilobytes each time."""

SHARE_OF_A_CORE = 0.022
"""Maximum share for drawing a live run: together with reading, less than 3 %."""

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

    A quarter of a second; half a second over SSH; up to a second where frames, of `frame_seconds` of processor time,
    would take more than their share of a core; a second when the run is over or paused, or no core is idle. Before the
    first step, which is waited for, neither what a frame takes counts nor whether a core is idle.
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
        """The median of the last three frames: a frame that fills a new screen or imports a module is an exception."""
        return sorted(self._last)[1] if len(self._last) == 3 else 0.0

    def reading(self) -> None:
        """From here on, processor time belongs to reading."""
        self._used += self._clock() - self._since

    def has_read(self) -> None:
        """From here on, processor time belongs to the frame."""
        self._since = self._clock()

    def next_frame(self) -> None:
        """A frame is about to be drawn."""
        self._last.append(self._used)
        self._used = 0.0


def pause_between_motions(environment: Mapping[str, str]) -> float:
    """Seconds between two frames that the mouse asks for."""
    return SSH_SECONDS if "SSH_CONNECTION" in environment else POINTER_SECONDS
