"""A metric that takes its time, for tests; the process that folds imports it."""

from __future__ import annotations

from typing import Any

from trainer.metrics import Predictions, Rows


class Waits(Rows):
    """The number of rows, as soon as somebody has written to a pipe."""

    needs = ("labels",)
    folds_in = "aside"

    def __init__(self, pipe: str) -> None:
        self.pipe = pipe

    def partial(self, given: Predictions) -> dict[str, Any]:
        return {"labels": given["labels"]}

    def values(self, state: Any) -> dict[str, float]:
        with open(self.pipe, "rb", buffering=0) as pipe:
            pipe.read(1)
        return {"rows": len(state["labels"])}
