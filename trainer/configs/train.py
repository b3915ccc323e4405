"""`train:` how long, in which precision, and what happens when something goes wrong."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.section import Section


class EmaConfig(Section):
    """An exponential moving average of the weights, kept beside them and evaluated by itself."""

    decay: float = Field(0.999, gt=0, lt=1, description="How much of the average stays at each step.")
    warmup: bool = Field(True, description="Begin with a lower decay: at step t at most (1 + t) / (10 + t).")


class SpikeConfig(Section):
    """A guard against a loss that jumps up, looked at whenever the training metrics are logged."""

    metric: str = Field("train/loss", pattern=r"^train/\S+$", description="The metric, as train/name.")
    factor: float = Field(3.0, gt=1, description="How many times the median of late a spike is.")
    window: int = Field(20, ge=3, description="Records that the median is taken over.")
    action: Literal["warn", "rollback", "stop"] = Field("warn", description="What a spike does to the run.")


class TrainConfig(Section):
    """The training loop; `epochs`, `steps` or `minutes` say how long it runs."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("epochs", "steps"),)

    epochs: int | None = Field(None, gt=0, description="Passes over the training split.")
    steps: int | None = Field(None, gt=0, description="Optimizer steps, over as many epochs as they take.")
    minutes: float | None = Field(
        None, gt=0, description="Minutes of training after which it ends, alone or as a limit beside epochs or steps."
    )
    log_every_steps: int = Field(10, gt=0, description="Steps between two training records.")
    accumulate: int = Field(1, gt=0, description="Batches of data whose gradients are added up for one step.")
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32",
        description="What products and convolutions are computed in; weights are always float32. With float16 the loss "
        "is scaled, and steps whose gradients overflow are left out.",
    )
    gradient_clip_norm: float | None = Field(
        None, gt=0, description="Largest norm of all gradients together; null: no clipping."
    )
    gradient_clip_value: float | None = Field(
        None, gt=0, description="Largest size of each number of a gradient, before the norm; null: no clipping."
    )
    ema: EmaConfig | None = Field(None, description="Keep an average of the weights, too.")
    on_nan: Literal["stop", "skip", "rollback"] = Field(
        "stop",
        description="A loss or gradient that is not finite ends the run, leaves out its step, or takes the run back to "
        "its last checkpoint with a lower learning rate.",
    )
    nan_limit: int = Field(10, gt=0, description="So many skipped steps or rollbacks end the run after all.")
    rollback_factor: float = Field(0.5, gt=0, le=1, description="The learning rate after a rollback, by the former.")
    spike: SpikeConfig | None = Field(None, description="Watch a training metric for spikes.")
    watchdog_minutes: float | None = Field(
        30.0, gt=0, description="A run that is silent for so long says where it hangs; null: it doesn't."
    )


class EarlyStoppingConfig(Section):
    """End training when a metric has stopped improving."""

    metric: str = Field(pattern=r"^[^/\s]+/\S+$", description="Split and name, such as valid/loss.")
    mode: Literal["max", "min"] = Field(description="Which end of the metric is better.")
    patience: int = Field(10, ge=0, description="Measurements without an improvement that are borne.")
    min_change: float = Field(0.0, ge=0, description="How much better counts as an improvement.")
    warmup: int = Field(0, ge=0, description="Measurements at the beginning that don't count.")
