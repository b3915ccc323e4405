"""`train:` how long, in which precision, and how failures are handled."""

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from trainer.configs.section import Section


class EmaConfig(Section):
    """Maintains an exponential moving average of the weights, updated every step. Raw and averaged weights are both
    validated; metrics of the averaged weights start with `ema/`.
    """

    decay: float = Field(
        0.999,
        gt=0,
        lt=1,
        description="Decay of the average, between 0 and 1: each step keeps this fraction of the average and adds "
        "the rest from the weights.",
    )
    warmup: bool = Field(
        True,
        description="Start with a lower decay: at most (1 + t) / (10 + t) at step t, so that initial weights are "
        "forgotten faster.",
    )


class SpikeConfig(Section):
    """Detects a loss that jumps up. Checked at every log record of the training metrics."""

    metric: str = Field(
        "train/loss",
        pattern=r"^train/\S+$",
        description="Monitored training metric, as train/name, such as train/loss.",
    )
    factor: float = Field(3.0, gt=1, description="Spike threshold, as a multiple of the recent median.")
    window: int = Field(20, ge=3, description="Number of log records in the recent median.")
    action: Literal["warn", "rollback", "stop"] = Field(
        "warn",
        description="What happens at a spike. warn: a warning; rollback: training returns to the last checkpoint "
        "with a lower learning rate; stop: the run ends with an error.",
    )


class TrainConfig(Section):
    """The training loop. At least one of `epochs`, `steps` and `minutes` sets its length."""

    at_most_one_of: ClassVar[tuple[tuple[str, ...], ...]] = (("epochs", "steps"),)

    epochs: int | None = Field(
        None, gt=0, description="Number of passes over the training split; null: `steps` or `minutes` decides."
    )
    steps: int | None = Field(
        None,
        gt=0,
        description="Number of optimizer steps, over as many epochs as needed; null: `epochs` or `minutes` decides.",
    )
    minutes: float | None = Field(
        None,
        gt=0,
        description="Maximum training time in minutes, alone or in addition to epochs or steps; null: no limit.",
    )
    log_every_steps: int = Field(
        10, gt=0, description="Number of optimizer steps between two log records of the training metrics."
    )
    accumulate: int = Field(
        1,
        gt=0,
        description="Number of batches whose gradients are summed for one optimizer step; 1: no gradient accumulation.",
    )
    shards: int = Field(
        1,
        gt=0,
        description="Number of equal parts of each batch that are computed one by one, or by several processes, and "
        "summed in a fixed order: a power of two that divides every batch size. Results depend on the number of "
        "shards, not on the number of processes. 1: the batch is not divided.",
    )
    processes: int = Field(
        1,
        gt=0,
        description="Number of processes on this machine that train together, each on its part of the shards: a power "
        "of two that divides `shards`. Needs the extra `distributed` (mpi4py). Results are those of one process. "
        "Under mpiexec, srun or torchrun, the launcher sets the number and this key is ignored.",
    )
    shard_optimizer: bool = Field(
        False,
        description="Divide the optimizer's state (momentum, averages) among the processes (ZeRO stage 1): each keeps "
        "and updates that of a part of the parameters, and the updated parameters are exchanged. Saves memory, costs "
        "an exchange per step. Results and checkpoints are the same. false: each process keeps all of it.",
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32",
        description="Data type of matrix products and convolutions; weights are always float32. bfloat16 is faster "
        "on processors that support it. float16 scales the loss, and steps whose gradients overflow are skipped.",
    )
    gradient_clip_norm: float | None = Field(
        None,
        gt=0,
        description="Maximum L2 norm of all gradients together; larger gradients are scaled down. null: no clipping.",
    )
    gradient_clip_value: float | None = Field(
        None,
        gt=0,
        description="Maximum absolute value of each gradient element, applied before gradient_clip_norm; null: "
        "no clipping.",
    )
    ema: EmaConfig | None = Field(None, description="Exponential moving average of the weights; null: none.")
    on_nan: Literal["stop", "skip", "rollback"] = Field(
        "stop",
        description="What happens when a loss or gradient is not finite. stop: the run ends with an error; skip: the "
        "step is skipped; rollback: training returns to the last checkpoint with a lower learning rate.",
    )
    nan_limit: int = Field(
        10, gt=0, description="Maximum number of skipped steps or rollbacks; the run ends with an error after that."
    )
    rollback_factor: float = Field(
        0.5, gt=0, le=1, description="Learning-rate factor applied after each rollback; 1: unchanged."
    )
    spike: SpikeConfig | None = Field(None, description="Detection of sudden jumps of a training metric; null: off.")
    overfit_batches: int | None = Field(
        None,
        gt=0,
        description="Train on this many batches only, the same ones in every epoch, to check that the model can "
        "memorize them; null: all training items.",
    )
    watchdog_minutes: float | None = Field(
        30.0, gt=0, description="Minutes without progress after which the run logs where it hangs; null: off."
    )

    @field_validator("shards")
    @classmethod
    def _is_power_of_two(cls, count: int) -> int:
        if count & (count - 1):
            raise ValueError(f"{count} is not a power of two (1, 2, 4, 8, …)")
        return count

    @model_validator(mode="after")
    def _processes_divide_shards(self) -> "TrainConfig":
        if self.shards % self.processes:
            raise ValueError(
                f"{self.processes} processes do not divide {self.shards} shards: set train.shards to a multiple of "
                "train.processes"
            )
        return self


class EarlyStoppingConfig(Section):
    """Stops training when a metric has stopped improving."""

    metric: str = Field(pattern=r"^[^/\s]+/\S+$", description="Monitored metric, as split/name, such as valid/loss.")
    mode: Literal["max", "min"] = Field(
        description="Whether larger (max) or smaller (min) values of the metric are better."
    )
    patience: int = Field(
        10,
        ge=0,
        description="Patience: validations without improvement before training stops at the next one; 0: stops at "
        "the first.",
    )
    min_change: float = Field(
        0.0, ge=0, description="Minimum change of the metric that counts as an improvement, absolute; 0: any change."
    )
    warmup: int = Field(
        0, ge=0, description="Number of validations at the start that are not counted; 0: all are counted."
    )
