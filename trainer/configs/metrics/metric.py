"""What every entry of `metrics:` has, and metrics of the user's own."""

from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr

from trainer.configs.own import PATTERN
from trainer.configs.section import Section

OF_NUMBERS = ("predicted", "target")


class MetricConfig(Section):
    """A metric by name with its options. The section of each kind derives from this; `code` says where the metric is.

    A word alone stands for its name: `[accuracy, {name: top_k, k: 5}]`.
    """

    code: ClassVar[str] = ""
    """Where the metric is: file:Class in trainer/metrics, or an absolute path:Class of the user's own."""

    needs: ClassVar[tuple[str, ...]] = ()
    """The roles of predictions that the metric is computed from; alternatives as "logits|scores"."""

    name: str
    as_: str | None = Field(
        None, alias="as", pattern=r"^[^/\s][^\s]*$", description="What its numbers are called; null: its name."
    )
    of: str | None = Field(
        None, description="Which predictions of the step, where several would do, by the name the task gives them."
    )
    _place: str = PrivateAttr("")

    @property
    def place(self) -> str:
        """Where the metric is asked for, as file:line:column; empty where that is not known."""
        return self._place

    def at(self, place: str) -> Self:
        """The same, asked for at `place`."""
        copy = self.model_copy()
        copy._place = place
        return copy

    @property
    def shown_as(self) -> str:
        """What its numbers are called."""
        return self.as_ or self.name

    def roles(self) -> tuple[str, ...] | None:
        """What `needs` is with these settings; None where only the metric's own code tells."""
        return type(self).needs

    def where(self) -> str:
        """The class that it is made of."""
        return type(self).code

    def settings(self) -> dict[str, Any]:
        """What the class is made with."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in MetricConfig.model_fields}


class OwnMetric(MetricConfig):
    """A class derived from trainer.metrics.Metric, named as ./file.py:Class."""

    name: str = Field(pattern=PATTERN, description="The class, as ./file.py:Class.")
    options: dict[str, Any] = Field(default_factory=dict, description="What it is made with.")

    @staticmethod
    def is_meant_by(value: dict[str, Any]) -> bool:
        """Whether a mapping names a class of the user's own: every one of this kind does."""
        return True

    @property
    def shown_as(self) -> str:
        return self.as_ or self.name.rpartition(":")[2]

    def roles(self) -> None:
        return None

    def where(self) -> str:
        return self.name

    def settings(self) -> dict[str, Any]:
        return dict(self.options)
