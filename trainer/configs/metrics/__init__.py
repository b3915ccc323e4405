"""`metrics:` the metrics of each split, by name with options. Each metric has a section, listed in table.py."""

from trainer.configs.metrics.metric import MetricConfig, OwnMetric
from trainer.configs.metrics.section import MetricsConfig
from trainer.configs.metrics.table import METRICS, metric_config

__all__ = ["METRICS", "MetricConfig", "MetricsConfig", "OwnMetric", "metric_config"]
