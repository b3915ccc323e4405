"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outcome:
    """`status` is done, stopped, interrupted or failed; `metrics` are the last numbers by "split/name".

    `error` is what a failed run died of.
    """

    status: str
    exit_code: int
    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None
    error: BaseException | None = None

    def check(self) -> Outcome:
        """Raise the error of a failed run; the outcome itself otherwise."""
        if self.error is not None:
            raise self.error
        return self
