"""`metrics:` by split."""

from pydantic import Field

from trainer.configs.metrics.table import AnyMetric
from trainer.configs.section import Section


class MetricsConfig(Section):
    """What is measured beside what the task itself returns (its loss, say)."""

    train: tuple[AnyMetric, ...] = Field((), description="Of the training steps between two logs.")
    valid: tuple[AnyMetric, ...] = Field((), description="Of each validation.")
    test: tuple[AnyMetric, ...] | None = Field(None, description="Of each test split; null: the same as valid.")

    def of_tests(self) -> tuple[AnyMetric, ...]:
        """The metrics of the test splits."""
        return self.valid if self.test is None else self.test
