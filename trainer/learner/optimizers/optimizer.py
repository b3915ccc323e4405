"""What all optimisers share: their parameters, the step count, the learning rate and clipping.

An update is graph code on states, so that it becomes part of the traced step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trainer import TrainerError, engine
from trainer.engine import State, Tensor, int64
from trainer.engine.nn import Module, Parameter
from trainer.learner.schedules import LearningRate

Target = Module | Mapping[str, Parameter] | Iterable[Parameter]


class Optimizer:
    """Base of optimisers: subclasses name their moments and give the update of one parameter.

    Args:
        target: a module, parameters by name, or parameters. Those with `is_trainable=False` are left out.
        learning_rate: a number, or a `LearningRate` with a schedule.
        gradient_clip_norm: scale all gradients together so that their global L2 norm is at most this.
    """

    moment_names: tuple[str, ...] = ()

    def __init__(
        self, target: Target, learning_rate: float | LearningRate, *, gradient_clip_norm: float | None = None
    ) -> None:
        self.parameters = {name: state for name, state in _named(target).items() if state.is_trainable}
        if not self.parameters:
            raise TrainerError("an optimizer was given no trainable parameters")
        self.learning_rate = learning_rate if isinstance(learning_rate, LearningRate) else LearningRate(learning_rate)
        self.gradient_clip_norm = gradient_clip_norm
        self.step_count = State(np.zeros((), np.int64), "step_count", int64)
        self.moments: dict[str, dict[str, State]] = {
            name: {
                moment: State(np.zeros(parameter.shape), f"{name}.{moment}", parameter.dtype)
                for moment in self.moment_names
            }
            for name, parameter in self.parameters.items()
        }

    def minimize(self, loss: Tensor) -> None:
        """One step down the gradient of `loss` (a scalar): gradients, clipping, update."""
        if loss.shape != ():
            raise TrainerError(
                "an optimizer minimizes a scalar", found=f"shape {loss.shape}", hint="Take the mean or the sum."
            )
        self.apply(engine.gradients(loss, list(self.parameters.values())))

    def apply(self, gradients: Sequence[Tensor]) -> None:
        """Update the parameters by `gradients`, one for each parameter in the order of `parameters`."""
        if self.gradient_clip_norm is not None:
            gradients = clipped(gradients, self.gradient_clip_norm)
        learning_rate = self.learning_rate(self.step_count)
        step = (self.step_count + 1).astype(engine.float64)
        for (name, parameter), gradient in zip(self.parameters.items(), gradients, strict=True):
            self.update(parameter, gradient, self.moments[name], learning_rate, step)
        self.step_count.assign(self.step_count + 1)

    def update(
        self, parameter: Parameter, gradient: Tensor, moments: Mapping[str, State], learning_rate: Tensor, step: Tensor
    ) -> None:
        """Assign the parameter's and its moments' next values.

        `learning_rate` and `step` (this step's number, from 1) are float64 scalars.
        """
        raise TrainerError(f"{type(self).__name__} has no `update` method")

    def named_states(self) -> dict[str, State]:
        """Everything that the next step depends on besides the parameters, by name."""
        states = {"step_count": self.step_count, **self.learning_rate.named_states()}
        for name, moments in self.moments.items():
            states.update({f"{name}.{moment}": state for moment, state in moments.items()})
        return states


def clipped(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
    """Gradients times min(1, max_norm / (norm + 1e-6)), with their global L2 norm (as torch's clip_grad_norm_)."""
    squares = [engine.sum(gradient * gradient) for gradient in gradients]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    factor = engine.minimum(max_norm / (engine.sqrt(total) + 1e-6), engine.ones_like(total))
    return [gradient * factor.astype(gradient.dtype) for gradient in gradients]


def _named(target: Target) -> dict[str, Parameter]:
    if isinstance(target, Module):
        return target.named_parameters()
    if isinstance(target, Mapping):
        return dict(target)
    return {parameter.name or str(index): parameter for index, parameter in enumerate(target)}
