"""Rows of a profile: one for each launch, grouped by kernel or module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

By = Literal["kernel", "launch", "module"]
GROUPS: tuple[By, ...] = ("kernel", "launch", "module")


@dataclass(frozen=True, slots=True)
class Row:
    """One launch, or several equal ones; all figures are per step.

    busy: seconds of work, the mean over threads. waiting: seconds that other threads wait at barriers for its slower
    threads, the mean over threads. imbalance: time of the slowest thread relative to the mean, minus 1.
    nbytes: bytes read and written, each counted once. operations: arithmetic operations on elements; None if unknown.
    roofline: minimum seconds for this work at the machine's peaks.
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
        """Seconds by which the step would be shorter without this launch."""
        return self.busy + self.waiting

    @property
    def gflops(self) -> float | None:
        """Billion operations per second; None if unknown."""
        return None if self.operations is None or not self.seconds else self.operations / self.seconds / 1e9

    @property
    def gbytes(self) -> float:
        """Billion bytes per second."""
        return self.nbytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def of_roofline(self) -> float:
        """Speed as a fraction of the roofline; above 1 if data was read from caches."""
        return self.roofline / self.seconds if self.seconds else 0.0


def grouped(rows: Sequence[Row], by: By) -> list[Row]:
    """Merges rows of the same group, the longest first; see `Profile.grouped`."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for index, row in enumerate(rows):
        key = {"launch": (index,), "kernel": (row.kernel, row.shape), "module": (row.module,)}[by]
        groups.setdefault(key, []).append(row)
    return sorted([_merged(group, by) for group in groups.values()], key=lambda row: -row.seconds)


def _merged(rows: Sequence[Row], by: By) -> Row:
    first = rows[0]
    known = [row.operations for row in rows if row.operations is not None]
    names = ("calls", "busy", "waiting", "nbytes", "roofline")
    sums = {name: sum(getattr(row, name) for row in rows) for name in names}
    one_module = len({row.module for row in rows}) == 1
    return replace(
        first,
        kernel="" if by == "module" else first.kernel,
        shape="" if by == "module" else first.shape,
        module=first.module if one_module else "",
        imbalance=sum(row.imbalance * row.busy for row in rows) / sums["busy"] if sums["busy"] else 0.0,
        operations=sum(known) if known else None,
        **sums,
    )
