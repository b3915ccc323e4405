"""The base of all optimizers: parameter groups, the step count, the learning rate, clipping, accumulation.

    minimize(loss) → gradients of loss → apply → [add to the sums of earlier micro-batches] → [clip] → update of each

An update is graph code on states and becomes part of the traced step; the compiler fuses the updates of all parameters
into one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import State, Tensor, int64
from trainer.engine.functions.shards import from_process, total
from trainer.engine.nn import Module, Parameter
from trainer.learner import stepping
from trainer.learner.optimizers.accumulation import GradientSums
from trainer.learner.optimizers.clipping import clipped_by_norm, clipped_by_value, squared_norm
from trainer.learner.optimizers.groups import Group, members_of
from trainer.learner.optimizers.partition import current
from trainer.learner.schedules import LearningRate

Target = Module | Mapping[str, Parameter] | Iterable[Parameter]
Moments = Mapping[str, Tensor]


class Common(TypedDict, total=False):
    """Settings that every optimizer has.

    groups: settings for parameters selected by name patterns.
    decay_norms_and_biases: whether weight decay applies to parameters with fewer than two axes.
    gradient_clip_norm: scale all gradients together so that their global L2 norm is at most this.
    gradient_clip_value: clamp each gradient element to at most this in absolute value, before the norm is computed.
    """

    groups: Sequence[Group]
    decay_norms_and_biases: bool
    gradient_clip_norm: float | None
    gradient_clip_value: float | None


@dataclass(frozen=True)
class Settings:
    """The settings of a parameter's update: learning rate and update number (from 1), float64 scalars."""

    learning_rate: Tensor
    step: Tensor
    weight_decay: float


class Optimizer:
    """Base class of optimizers: subclasses name their moments and define the update of one parameter.

    Args:
        target: a module, parameters by name, or parameters.
        learning_rate: a number, or a `LearningRate` with a schedule.
        weight_decay: weight decay, as in the optimizer's formula.
    """

    moment_names: tuple[str, ...] = ()

    def __init__(
        self,
        target: Target,
        learning_rate: float | LearningRate,
        *,
        weight_decay: float = 0.0,
        groups: Sequence[Group] = (),
        decay_norms_and_biases: bool = True,
        gradient_clip_norm: float | None = None,
        gradient_clip_value: float | None = None,
    ) -> None:
        self.learning_rate = learning_rate if isinstance(learning_rate, LearningRate) else LearningRate(learning_rate)
        self.target = _named(target)
        self.members = members_of(
            self.target, groups, self.learning_rate, weight_decay, decay_norms_and_biases=decay_norms_and_biases
        )
        self.parameters = {name: member.parameter for name, member in self.members.items()}
        self.gradient_clip_norm, self.gradient_clip_value = gradient_clip_norm, gradient_clip_value
        self.step_count = State(np.zeros((), np.int64), "step_count", int64)
        self.partition = current()
        self.owners = self.partition.owners({name: math.prod(one.shape) for name, one in self.parameters.items()})
        self.moments: dict[str, dict[str, State]] = {
            name: {
                moment: State(np.full(parameter.shape, self.first_moment(moment)), f"{name}.{moment}", parameter.dtype)
                for moment in self.moments_of(parameter)
            }
            if self.owners[name] == self.partition.process
            else {}
            for name, parameter in self.parameters.items()
        }
        self.skipped_steps = State(np.zeros((), np.int64), "skipped_steps", int64)
        self._sums: GradientSums | None = None

    def minimize(self, loss: Tensor) -> None:
        """Takes one step of gradient descent on `loss` (a scalar): gradients, clipping, update."""
        if loss.shape != ():
            raise TrainerError(
                "the loss is not a scalar", found=f"shape {loss.shape}", hint="Take the mean or the sum."
            )
        scale, share = stepping.current().loss_scale, stepping.current().share
        if share is not None:  # before differentiation: batch statistics are those of all shards
            loss = loss * share.astype(loss.dtype)
        scaled = loss if scale is None else scale.scaled(loss)
        gradients = engine.gradients(scaled, list(self.parameters.values()))
        gradients = gradients if scale is None else scale.unscaled(gradients)
        self.apply([total(gradient) for gradient in gradients])  # zero for shards with only padding

    def apply(self, gradients: Sequence[Tensor]) -> None:
        """Updates the parameters with `gradients`, one per parameter in the order of `parameters`.

        With gradient accumulation, gradients are only summed until the last micro-batch. With `train.shards` they must
        be summed over all shards (`engine.shard_sum`), as `minimize` does.
        """
        with engine.autocast("float32"):  # an update is exact, independent of the precision of the forward pass
            self._apply(gradients)

    def _apply(self, gradients: Sequence[Tensor]) -> None:
        step = stepping.current()
        if step.micro_batches > 1:
            sums = self._gradient_sums()
            if step.loss_scale is not None and not step.is_last:
                step.loss_scale.check(gradients)  # an overflowed norm must not enter the metric
            summed = sums.add(gradients, step.rows, is_last=step.is_last)
            if summed is None:
                return
            gradients = summed
        is_finite = None if step.loss_scale is None else step.loss_scale.check(gradients)
        if step.squared_norms is not None:
            step.squared_norms.append(squared_norm(gradients))
        if self.gradient_clip_value is not None:
            gradients = clipped_by_value(gradients, self.gradient_clip_value)
        if self.gradient_clip_norm is not None:
            gradients = clipped_by_norm(gradients, self.gradient_clip_norm)
        self._update_all(gradients, is_finite)

    def _update_all(self, gradients: Sequence[Tensor], is_finite: Tensor | None) -> None:
        """Updates every parameter; frozen ones keep their values, and all do if a gradient is not finite."""
        count = self.step_count + 1
        number: Tensor = count - self.skipped_steps
        if is_finite is not None:
            self.skipped_steps.assign(self.skipped_steps + engine.logical_not(is_finite).astype(int64))
        rates = {member.learning_rate: member.learning_rate(self.step_count) for member in self.members.values()}
        for (name, member), gradient in zip(self.members.items(), gradients, strict=True):
            settings = Settings(
                rates[member.learning_rate],
                (number - member.unfreeze_at_step).astype(engine.float64),
                member.weight_decay,
            )
            moments, owner = self.moments[name], self.owners[name]
            if owner != self.partition.process:
                member.parameter.assign(engine.stop_gradient(from_process(member.parameter, gradient, owner)))
                continue
            parameter, updated = self.update(member.parameter, gradient, moments, settings)
            gate = is_finite
            if member.unfreeze_at_step:
                is_due = self.step_count >= member.unfreeze_at_step
                gate = is_due if gate is None else engine.logical_and(gate, is_due)
            for state, value in ((member.parameter, parameter), *((moments[key], updated[key]) for key in moments)):
                value = value if gate is None else engine.where(gate, value, state)
                if state is member.parameter and self.partition.processes > 1:
                    value = from_process(value, gradient, owner)
                # A later loss of the same step (a generator's, after its discriminator) uses the given weights.
                state.assign(engine.stop_gradient(value))
        self.step_count.assign(count)

    def trained(self, step: int) -> list[Parameter]:
        """The parameters that are not frozen when `step` steps are done."""
        return [member.parameter for member in self.members.values() if member.unfreeze_at_step <= step]

    @cached_property
    def unfreezing_steps(self) -> frozenset[int]:
        """The numbers of completed steps at which parameters are unfrozen."""
        return frozenset(member.unfreeze_at_step for member in self.members.values()) - {0}

    def update(
        self, parameter: Tensor, gradient: Tensor, moments: Moments, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The next values of a parameter and its moments."""
        raise TrainerError(f"{type(self).__name__} has no `update` method")

    def moments_of(self, parameter: Tensor) -> tuple[str, ...]:
        """The names of the moments of a parameter."""
        return self.moment_names

    def states_elsewhere(self) -> list[str]:
        """The names of the moments that other processes keep, as in `named_states` of a single process."""
        return [
            f"{name}.{moment}"
            for name, parameter in self.parameters.items()
            if self.owners[name] != self.partition.process
            for moment in self.moments_of(parameter)
        ]

    def first_moment(self, name: str) -> float:
        """The initial value of a moment."""
        return 0.0

    def learning_rates(self) -> dict[str, LearningRate]:
        """The learning rate of the optimizer under "", those of its groups under their patterns."""
        rates = {"": self.learning_rate}
        for member in self.members.values():
            if member.group is not None and member.learning_rate is not self.learning_rate:
                rates[",".join(member.group.patterns)] = member.learning_rate
        return rates

    def named_states(self) -> dict[str, State]:
        """Everything that the next step depends on, except the parameters and what other processes keep, by name.

        Sums of micro-batches are not included: they are empty except in the middle of a step (`states_within_step`).
        """
        states = {"step_count": self.step_count, "skipped_steps": self.skipped_steps}
        for group, rate in self.learning_rates().items():
            states.update({f"{group}.{name}".lstrip("."): state for name, state in rate.named_states().items()})
        for name, moments in self.moments.items():
            states.update({f"{name}.{moment}": state for moment, state in moments.items()})
        return states

    def states_within_step(self) -> dict[str, State]:
        """The additional dependencies of the next micro-batch of a step: the sums of the previous ones, by name."""
        return self._gradient_sums().named_states()

    def _gradient_sums(self) -> GradientSums:
        if self._sums is None:
            self._sums = GradientSums(self.parameters)
        return self._sums


def _named(target: Target) -> dict[str, Parameter]:
    if isinstance(target, Module):
        return target.named_parameters()
    if isinstance(target, Mapping):
        return dict(target)
    return {parameter.name or str(index): parameter for index, parameter in enumerate(target)}
