"""Parameter groups: settings for parameters selected by name patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from trainer import TrainerError
from trainer.engine.nn import Parameter
from trainer.learner.schedules import LearningRate


@dataclass(frozen=True)
class Group:
    """Settings for the parameters whose names match; None: the optimizer's setting.

    Args:
        match: a shell pattern (`backbone.*`, `*.bias`), or several.
        learning_rate: a number or a `LearningRate`.
        weight_decay: weight decay.
        frozen: don't train the parameters.
        unfreeze_at_step: don't train them until this many steps are done.
    """

    match: str | Sequence[str]
    learning_rate: LearningRate | float | None = None
    weight_decay: float | None = None
    frozen: bool = False
    unfreeze_at_step: int = 0

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns, one of which has to match."""
        return (self.match,) if isinstance(self.match, str) else tuple(self.match)


@dataclass(frozen=True)
class Member:
    """A parameter that is trained, and its settings."""

    parameter: Parameter
    learning_rate: LearningRate
    weight_decay: float
    unfreeze_at_step: int = 0
    group: Group | None = field(default=None, compare=False)


def members_of(
    parameters: Mapping[str, Parameter],
    groups: Sequence[Group],
    learning_rate: LearningRate,
    weight_decay: float,
    *,
    decay_norms_and_biases: bool,
) -> dict[str, Member]:
    """Each parameter that is trained with its settings, by name. If several groups match, the first one applies.

    Raises:
        TrainerError: a pattern matches no parameter, or all parameters are frozen.
    """
    for group in groups:
        if not any(_matches(group, name) for name in parameters):
            raise TrainerError(
                "a parameter group matches no parameter",
                found=", ".join(group.patterns),
                expected="a pattern of " + _some(parameters),
            )
    rates = [_rate(group, learning_rate) for group in groups]
    members = {}
    for name, parameter in parameters.items():
        index = next((index for index, group in enumerate(groups) if _matches(group, name)), None)
        decay = weight_decay if decay_norms_and_biases or len(parameter.shape) > 1 else 0.0
        if index is None:
            members[name] = Member(parameter, learning_rate, decay)
        else:
            group = groups[index]
            decay = decay if group.weight_decay is None else group.weight_decay
            members[name] = Member(parameter, rates[index], decay, group.unfreeze_at_step, group)
        if index is not None and groups[index].frozen:
            del members[name]
    if not members:
        raise TrainerError("the optimizer has no trainable parameters", found=_some(parameters))
    return members


def _rate(group: Group, learning_rate: LearningRate) -> LearningRate:
    if isinstance(group.learning_rate, LearningRate):
        return group.learning_rate
    return learning_rate if group.learning_rate is None else learning_rate.rebased(group.learning_rate)


def _matches(group: Group, name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in group.patterns)


def _some(names: Mapping[str, object]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
