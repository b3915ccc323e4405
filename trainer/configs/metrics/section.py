"""`metrics:` by split."""

from pydantic import Field

from trainer.configs.metrics.table import AnyMetric
from trainer.configs.section import Section


class MetricsConfig(Section):
    """Metrics to compute in addition to those that the task returns itself (its loss, say)."""

    train: tuple[AnyMetric, ...] = Field(
        (), description="Metrics of the train split, computed over the steps between two log records."
    )
    valid: tuple[AnyMetric, ...] = Field((), description="Metrics of the valid split, computed at every validation.")
    test: tuple[AnyMetric, ...] | None = Field(None, description="Metrics of test splits; null: the same as valid.")

    def of_tests(self) -> tuple[AnyMetric, ...]:
        """The metrics of test splits."""
        return self.valid if self.test is None else self.test
