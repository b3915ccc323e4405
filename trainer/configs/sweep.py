"""`sweep:` the values that `trainer sweep` tries, and the metric that compares them."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, ClassVar, Literal

from pydantic import Field

from trainer.configs.section import Contradiction, Section

METHODS = ("grid", "random", "tpe", "halving", "hyperband")


class ParameterConfig(Section):
    """The values of one parameter: a list, or a range from `low` to `high`."""

    exactly_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("values", "low"),)

    values: tuple[Any, ...] | None = Field(
        None, min_length=1, description="The values to try, of any kind; null: `low` and `high` give a range."
    )
    low: int | float | None = Field(
        None, description="Smallest value. If low, high and step are integers, all values are; null: `values` is used."
    )
    high: int | float | None = Field(None, description="Largest value, inclusive; null: `values` is used.")
    log: bool = Field(
        False, description="Draw on a logarithmic scale, as for learning rates, so that each decade is equally likely."
    )
    step: int | float | None = Field(
        None, gt=0, description="Distance between two values; null: 1 for integers, otherwise any number."
    )

    def contradictions(self) -> Iterable[Contradiction]:
        if self.values is not None and (self.high is not None or self.step is not None or self.log):
            yield ("values",), "a list of values has no 'high', 'step' or 'log'", ("values", "high", "step", "log")
        if self.low is None:
            return
        if self.high is None:
            yield ("low",), "'high' is required with 'low'", ("low", "high")
        elif self.high < self.low:
            yield ("high",), f"expected a number of at least low: {self.low}, found {self.high}", ("low", "high")
        if self.log and self.low <= 0:
            yield ("low",), f"expected a number above 0 with log: true, found {self.low}", ("low", "log")
        if self.log and self.step is not None:
            yield ("step",), "a logarithmic range has no step", ("log", "step")

    @property
    def is_integer(self) -> bool:
        """Whether all values of the range are integers."""
        return all(isinstance(one, int) for one in (self.low, self.high)) and isinstance(self.step, int | None)

    def points(self) -> list[Any] | None:
        """All values in their order; None for a continuous range."""
        if self.values is not None:
            return list(self.values)
        if self.low is None or self.high is None or (self.step is None and not self.is_integer):
            return None
        step = self.step or 1
        count = int((self.high - self.low) / step + 1e-9) + 1
        return [self.low + step * index for index in range(count)]


class SweepConfig(Section):
    """A search for good values: many runs of this config, each with different values of some keys."""

    parameters: dict[str, ParameterConfig] = Field(
        min_length=1,
        description="Values to try by config key, such as optimizer.learning_rate: {low: 1e-4, high: 0.1, log: true}.",
    )
    method: Literal["grid", "random", "tpe", "halving", "hyperband"] = Field(
        "tpe",
        description="How values are chosen. grid: every combination; random: independent draws; tpe: draws near "
        "the best trials so far (tree-structured Parzen estimator). halving and hyperband draw as tpe does, and stop "
        "trials early whose validation metric is not among the best at the same validation.",
    )
    metric: str | None = Field(
        None,
        pattern=r"^valid[^/\s]*/\S+$",
        description="Validation metric that compares trials by its best value, such as valid/accuracy; null: that of "
        "checkpoint.best.",
    )
    mode: Literal["max", "min"] | None = Field(
        None,
        description="Whether larger (max) or smaller (min) values of the metric are better; null: as checkpoint.best.",
    )
    trials: int | None = Field(
        None, gt=0, le=100_000, description="Number of trials; null: every combination, for method grid only."
    )
    seeds: int = Field(
        1,
        gt=0,
        le=100,
        description="Number of runs of each trial, with consecutive seeds; the mean of their metrics counts.",
    )
    parallel: int = Field(
        1, gt=0, le=256, description="Number of runs at the same time; each gets an equal share of the cores."
    )

    def contradictions(self) -> Iterable[Contradiction]:
        if self.method != "grid" and self.trials is None:
            yield ("trials",), f"'trials' is required with method {self.method}", ("method", "trials")
        if self.seeds > 1 and "seed" in self.parameters:
            yield ("seeds",), "the parameter 'seed' leaves no other seeds to a trial", ("seeds", "parameters")
        if (self.metric is None) != (self.mode is None):
            yield ("metric",), "'metric' and 'mode' are set together or not at all", ("metric", "mode")
        if self.method == "grid":
            for name, parameter in self.parameters.items():
                if parameter.low is not None and parameter.high is not None and parameter.points() is None:
                    keys = ("parameters", name)
                    yield keys, "a grid needs 'values' or a 'step' of the range", ("method", "parameters")

    def grid(self) -> Iterator[dict[str, Any]]:
        """Every combination of the parameters' values; the last parameter varies fastest."""
        points = [parameter.points() or [] for parameter in self.parameters.values()]
        for combination in product(*points):
            yield dict(zip(self.parameters, combination, strict=True))

    def total(self) -> int:
        """The number of trials."""
        if self.method != "grid":
            return self.trials or 0
        count = 1
        for parameter in self.parameters.values():
            count *= len(parameter.points() or [])
        return count if self.trials is None else min(count, self.trials)
