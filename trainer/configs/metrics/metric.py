"""The base of all entries of `metrics:`, and custom metrics."""

from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr

from trainer.configs.custom_class import PATTERN
from trainer.configs.section import Section

OF_NUMBERS = ("predicted", "target")


class MetricConfig(Section):
    """A metric by name with its options. The section of each metric derives from this; `code` locates the class.

    A single word is short for its name: `[accuracy, {name: top_k, k: 5}]`.
    """

    code: ClassVar[str] = ""
    """The class of the metric: file:Class in trainer/metrics, or an absolute path:Class of a custom metric."""

    needs: ClassVar[tuple[str, ...]] = ()
    """The roles of predictions that the metric needs; alternatives as "logits|scores"."""

    name: str
    as_: str | None = Field(
        None,
        alias="as",
        pattern=r"^[^/\s][^\s]*$",
        description="Name under which the metric is logged; null: the metric's own name.",
    )
    of: str | None = Field(
        None,
        description="Name of the step's predictions that the metric uses, as the task names them; null: the only "
        "ones that fit.",
    )
    _place: str = PrivateAttr("")

    @property
    def place(self) -> str:
        """Where the metric is requested, as file:line:column; empty if unknown."""
        return self._place

    def at(self, place: str) -> Self:
        """The same metric, requested at `place`."""
        copy = self.model_copy()
        copy._place = place
        return copy

    @property
    def shown_as(self) -> str:
        """The name under which the metric is logged."""
        return self.as_ or self.name

    def roles(self) -> tuple[str, ...] | None:
        """The roles needed with these settings; None if they depend on the metric's code."""
        return type(self).needs

    def where(self) -> str:
        """The metric's class, as in `code`."""
        return type(self).code

    def settings(self) -> dict[str, Any]:
        """The keyword arguments of the metric's class."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in MetricConfig.model_fields}


class OwnMetric(MetricConfig):
    """A custom metric: a class derived from trainer.metrics.Metric."""

    name: str = Field(
        pattern=PATTERN, description="Metric class, as ./file.py:Class, relative to the YAML file that sets it."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the metric's constructor.")

    @staticmethod
    def matches(value: dict[str, Any]) -> bool:
        """Whether a mapping selects this section; always true for a mapping with a file name."""
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
