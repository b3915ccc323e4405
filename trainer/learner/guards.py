"""The guard against non-finite numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.learner.failures import TrainingFailure, not_finite
from trainer.learner.optimizers import learning_rates
from trainer.learner.precision import SMALLEST_FACTOR
from trainer.learner.verdict import Verdict
from trainer.rundir import EventSink, WarningEvent

if TYPE_CHECKING:
    from trainer.configs.train import TrainConfig
    from trainer.learner.deferred_actions import Read
    from trainer.learner.state import TrainingState
    from trainer.learner.tally import Tally


class NanGuard:
    """Checks for non-finite numbers before they do harm: when metrics are read, and before each save."""

    def __init__(self, config: TrainConfig, state: TrainingState, tally: Tally, tell: EventSink) -> None:
        self._config, self._state, self._tally, self._tell = config, state, tally, tell
        self._skipped = 0

    def begin(self) -> None:
        """Marks all steps skipped so far as reported: training continues from a checkpoint."""
        self._skipped = self._state.skipped_steps()

    def __call__(self, read: Read) -> Verdict | None:
        """The verdict on the first non-finite number, if any."""
        scale = self._state.loss_scale
        if scale is not None:
            if (verdict := self._count_skipped(read, is_limited=not scale.is_dynamic)) is not None:
                return verdict
            factor = float(read(scale.factor))
            if factor < SMALLEST_FACTOR:
                return Verdict(TrainingFailure(
                    "the gradients overflow float16 even with the smallest loss scale",
                    found=f"a loss scale of {factor:g}",
                    hint="Try train.precision=bfloat16 (with float32's range), a lower learning rate or a warm-up.",
                ))  # fmt: skip
        found = self._tally.first_not_finite(read)
        if found is None:
            return None
        metric, step = found
        progress = self._state.progress
        failure = not_finite(
            metric, step, learning_rates(self._state.parts.optimizers, progress.step), progress.saved_step
        )
        return Verdict(failure, goes_back=self._config.on_nan == "rollback")

    def _count_skipped(self, read: Read, *, is_limited: bool) -> Verdict | None:
        """Reports skipped steps. With a dynamic loss scale (float16) their number is not limited."""
        skipped = self._state.skipped_steps(read)
        if skipped > self._skipped:
            self._tell(WarningEvent(
                f"{skipped - self._skipped} steps were skipped because their gradients were not finite ({skipped} in "
                    "total)"
            ))  # fmt: skip
            self._skipped = skipped
        if not is_limited or skipped <= self._config.nan_limit:
            return None
        return Verdict(TrainingFailure(
            f"{skipped} steps had gradients that were not finite",
            expected=f"at most {self._config.nan_limit} (train.nan_limit)",
            hint="A lower learning rate, a warm-up or train.gradient_clip_norm often helps.",
        ))  # fmt: skip
