"""Hooks: code that runs at certain points of training, one file each. HOOKS lists the built-in ones.

   on_start → { before_step → step → after_step [→ after_log, before/after_validation, after_checkpoint] }
        → on_end or on_error

`order` sorts the hooks of a training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.configs.custom_class import own_subclass
from trainer.learner.hooks.background_hooks import BackgroundHook
from trainer.learner.hooks.checkpointing import SaveCheckpoints
from trainer.learner.hooks.early_stopping import EarlyStopping
from trainer.learner.hooks.handle import MOMENTS, Moment, TrainingHandle
from trainer.learner.hooks.hook import Hook
from trainer.learner.hooks.input_bound import InputBound
from trainer.learner.hooks.limits import TimeLimit
from trainer.learner.hooks.logging import Log
from trainer.learner.hooks.plateau import FeedSchedules
from trainer.learner.hooks.requests import AnswerRequests
from trainer.learner.hooks.spikes import SpikeGuard
from trainer.learner.hooks.validating import Validate
from trainer.learner.hooks.watchdog import Watchdog
from trainer.learner.verdict import Verdict

if TYPE_CHECKING:
    from trainer.configs import HookConfig, RunConfig

__all__ = ["HOOKS", "MOMENTS", "Hook", "Hooks", "Moment", "TrainingHandle", "hooks_for"]

HOOKS: tuple[type[Hook], ...] = (
    Watchdog,
    AnswerRequests,
    Log,
    InputBound,
    SpikeGuard,
    TimeLimit,
    Validate,
    FeedSchedules,
    EarlyStopping,
    SaveCheckpoints,
)


class Hooks:
    """The hooks of a training, in order."""

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self.all = sorted(
            (hook if hook.is_inline else BackgroundHook(hook) for hook in hooks), key=lambda hook: hook.order
        )
        self._at = {name: [hook for hook in self.all if _listens(hook, name)] for name in MOMENTS}

    def __call__(self, name: str, training: TrainingHandle, **fields: Any) -> Verdict | None:
        """Calls the method `name` of every hook, until one returns a verdict; `fields` are further fields of the
        moment.
        """
        if not self._at[name]:
            return None
        moment = training.moment(**fields)
        for hook in self._at[name]:
            if isinstance(verdict := getattr(hook, name)(training, moment), Verdict):
                return verdict
        return None

    def close(self, training: TrainingHandle) -> None:
        """Waits briefly, after the last moment, for hooks in background threads to finish."""
        for hook in self.all:
            if isinstance(hook, BackgroundHook):
                hook.close(training)


def _listens(hook: Hook, name: str) -> bool:
    return name in vars(hook) or getattr(type(hook), name) is not getattr(Hook, name)


def hooks_for(config: RunConfig, further: Sequence[Hook]) -> Hooks:
    """The built-in hooks that the config enables, the custom ones that it names, and the `further` ones."""
    made = [hook for kind in HOOKS if (hook := kind.for_config(config)) is not None]
    return Hooks([*made, *(_own(section) for section in config.hooks), *further])


def _own(section: HookConfig) -> Hook:
    kind = own_subclass(section.name, Hook, "trainer.learner.Hook")
    try:
        made: Hook = kind(**section.options)
    except TypeError as error:
        raise TrainerError(f"the hook {section.name} can't be created", found=str(error)) from error
    return made
