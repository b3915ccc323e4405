"""What a profile knows: rows by launch, grouped by kernel or module, and the step that they add up to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trainer import TrainerError
from trainer.engine.profiling.chrome import chrome_trace
from trainer.engine.profiling.table import table
from trainer.engine.profiling.timeline import Timeline
from trainer.engine.targets.cpu.peaks import Peaks

By = Literal["kernel", "launch", "module"]
GROUPS: tuple[By, ...] = ("kernel", "launch", "module")
VERSION = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A launch, or several that are alike; all figures are of one step.

    busy: seconds of work, the mean over threads. waiting: seconds at barriers that its slower threads cost the others,
    the mean over threads. imbalance: how much longer than the mean the slowest thread worked, as a fraction.
    nbytes: read and written at least once. operations: arithmetic on elements; None where not known. roofline: seconds
    that the machine's peaks allow for that work.
    """

    kernel: str
    shape: str
    module: str
    calls: float
    busy: float
    waiting: float
    imbalance: float
    nbytes: float
    operations: float | None
    roofline: float

    @property
    def seconds(self) -> float:
        """What the step would be shorter by without it."""
        return self.busy + self.waiting

    @property
    def gflops(self) -> float | None:
        """Billion operations a second; None where they are not known."""
        return None if self.operations is None or not self.seconds else self.operations / self.seconds / 1e9

    @property
    def gbytes(self) -> float:
        """Billion bytes a second."""
        return self.nbytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def of_roofline(self) -> float:
        """Which part of the speed that the peaks allow; more than 1 where memory was read from caches."""
        return self.roofline / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """Where the time of a step went. `rows` has one entry for each launch, in order; `timelines` each profiled run.

    seconds: of one step, from the call to its return. programs: of that in compiled programs. waking: of that until
    all threads were at work, the mean over threads.
    """

    steps: int
    threads: int
    seconds: float
    programs: float
    waking: float
    rows: tuple[Row, ...]
    peaks: Peaks
    timelines: tuple[Timeline, ...]

    @property
    def python(self) -> float:
        """Seconds of a step outside of compiled programs."""
        return max(0.0, self.seconds - self.programs)

    @property
    def waiting(self) -> float:
        """Seconds of a step that threads wait at barriers, the mean over threads."""
        return sum(row.waiting for row in self.rows)

    def grouped(self, by: By) -> list[Row]:
        """Rows that belong together as one, the longest first: "launch" (none), "kernel" (same kernel and shape),
        "module".
        """
        if by not in GROUPS:
            raise TrainerError("a profile has no such groups", found=repr(by), expected=", ".join(GROUPS))
        groups: dict[tuple[object, ...], list[Row]] = {}
        for index, row in enumerate(self.rows):
            key = {"launch": (index,), "kernel": (row.kernel, row.shape), "module": (row.module,)}[by]
            groups.setdefault(key, []).append(row)
        merged = [_merged(rows, by) for rows in groups.values()]
        return sorted(merged, key=lambda row: -row.seconds)

    def table(self, by: By = "kernel", *, width: int = 80, rows: int = 30) -> str:
        """The profile as text of at most `width` columns: the `rows` longest groups, and what the step is made of."""
        return table(self, by, width, rows)

    def chrome_trace(self, path: str | Path) -> None:
        """Write every launch and wait of every thread as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing."""
        Path(path).write_text(json.dumps(chrome_trace(self.timelines)), encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """Everything but the timelines as plain data. Seconds, bytes and operations are of one step."""
        return {
            "version": VERSION,
            "steps": self.steps,
            "threads": self.threads,
            "seconds": self.seconds,
            "programs": self.programs,
            "python": self.python,
            "waking": self.waking,
            "waiting": self.waiting,
            "peaks": asdict(self.peaks),
            "launches": [asdict(row) for row in self.rows],
        }


def _merged(rows: Sequence[Row], by: By) -> Row:
    first = rows[0]
    known = [row.operations for row in rows if row.operations is not None]
    busy = sum(row.busy for row in rows)
    one_module = len({row.module for row in rows}) == 1
    return replace(
        first,
        kernel="" if by == "module" else first.kernel,
        shape="" if by == "module" else first.shape,
        module=first.module if one_module else "",
        calls=sum(row.calls for row in rows),
        busy=busy,
        waiting=sum(row.waiting for row in rows),
        imbalance=sum(row.imbalance * row.busy for row in rows) / busy if busy else 0.0,
        nbytes=sum(row.nbytes for row in rows),
        operations=sum(known) if known else None,
        roofline=sum(row.roofline for row in rows),
    )
