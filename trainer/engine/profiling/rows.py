"""Rows of a profile: one for each launch, grouped by kernel or module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

By = Literal["kernel", "launch", "module"]
GROUPS: tuple[By, ...] = ("kernel", "launch", "module")


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


def grouped(rows: Sequence[Row], by: By) -> list[Row]:
    """Rows that belong together as one, the longest first; see `Profile.grouped`."""
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
