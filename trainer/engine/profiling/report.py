"""A profile: the rows of a step and their sum."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainer import TrainerError
from trainer.engine.profiling.chrome import chrome_trace
from trainer.engine.profiling.rows import GROUPS, By, Row, grouped
from trainer.engine.profiling.table import percent, table
from trainer.engine.profiling.timeline import Timeline
from trainer.engine.targets.cpu.peaks import Peaks

VERSION = 1


@dataclass(frozen=True)
class Profile:
    """The time of a step, by launch. `rows` has an entry for each launch, in order; `timelines` for each profiled call.

    seconds: duration of one step, from the call to its return. programs: the part of it in compiled programs. waking:
    the part of it before threads start to work, the mean over threads.
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
        """Seconds of a step in which threads wait at barriers, the mean over threads."""
        return sum(row.waiting for row in self.rows)

    def grouped(self, by: By) -> list[Row]:
        """Returns rows, longest first, summed by "kernel" (same kernel and shape) or "module", or not ("launch")."""
        if by not in GROUPS:
            raise TrainerError("unknown grouping of a profile", found=repr(by), expected=", ".join(GROUPS))
        return grouped(self.rows, by)

    def table(self, by: By = "kernel", *, width: int = 80, rows: int = 30) -> str:
        """Formats the profile in at most `width` columns: the `rows` longest groups, and the parts of the step."""
        lines = table(self.grouped(by), by, self.seconds, width, rows)
        return "\n".join(line[:width] for line in [*lines, "", *self._summary()])

    def _summary(self) -> list[str]:
        """The parts of the step, and the machine's peaks."""
        parts = {"kernels": sum(row.busy for row in self.rows), "waiting at barriers": self.waiting}
        parts |= {"waking threads": self.waking, "Python": self.python}
        lines = [f"one step {1000 * self.seconds:.3f} ms (median of {self.steps}), {self.threads} threads"]
        for name, spent in parts.items():
            lines.append(f"  {name:20}{1000 * spent:10.3f} ms {percent(spent / self.seconds):>6} %")
        float32, bfloat16 = self.peaks.float32 / 1e9, self.peaks.bfloat16 / 1e9
        bandwidth = self.peaks.bandwidth / 1e9
        peaks = f"peaks: {float32:.0f} GFLOP/s float32, {bfloat16:.0f} bfloat16, {bandwidth:.1f} GB/s"
        return [*lines, peaks]

    def chrome_trace(self, path: str | Path) -> None:
        """Writes launches and waits of every thread as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing."""
        Path(path).write_text(json.dumps(chrome_trace(self.timelines)), encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """Returns everything except the timelines as plain data. Seconds, bytes and operations are per step."""
        figures = ("steps", "threads", "seconds", "programs", "python", "waking", "waiting")
        return {
            "version": VERSION,
            **{name: getattr(self, name) for name in figures},
            "peaks": asdict(self.peaks),
            "launches": [asdict(row) for row in self.rows],
        }
