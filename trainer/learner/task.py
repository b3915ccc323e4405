"""Task, the one class that a recipe defines: the models, their data, and the training step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.datasets.item_properties import category_ids_of, require_fields
from trainer.datasets.readers import Opening, learned_settings, read_splits
from trainer.datasets.split_words import VALID
from trainer.datasets.transforms.build import largest_image
from trainer.engine import State, Tensor
from trainer.engine.nn import Module
from trainer.learner.optimizers import Optimizer, optimizer_from
from trainer.learner.optimizers.optimizer import Target
from trainer.learner.plan import DataSplits, Plan
from trainer.learner.samples import Sample

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.datasets import Dataset
    from trainer.learner.hooks import Hook
    from trainer.learner.inference import Pipeline
    from trainer.learner.inference.sequences import SequencePipeline
    from trainer.metrics import Measured, Predictions

Batch = Mapping[str, Tensor]

Returned = Mapping[str, "Measured | Predictions"]
"""The result of a step: metrics, and predictions from which the config's metrics are computed, by name."""


@dataclass
class Parts:
    """The parts of a task, by the names of its attributes."""

    modules: dict[str, Module] = field(default_factory=dict)
    optimizers: dict[str, Optimizer] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)


class Task:
    """Base class of tasks. A subclass reads from top to bottom:

        class Digits(Task):
            def data(self):                     # the splits
                return DataSplits(train=Loader(...), valid=Loader(...), test=Loader(...))

            def build(self):                    # models and optimizers, as attributes
                self.net = nn.Sequential(...)
                self.optimizer = self.optimizer_for(self.net)

            def train_step(self, batch):        # traced once, then replayed
                logits = self.net(batch["image"])
                loss = Mean(nn.cross_entropy(logits, batch["label"], reduction="none"), batch["weight"])
                self.optimizer.minimize(loss.value)
                classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
                return {"loss": loss, "classes": classes}

            def valid_step(self, batch):        # the same without the optimizer
                ...

    `train_step` and `valid_step` receive a batch of tensors and return metrics by name, and predictions from which the
    metrics of `metrics:` are computed. Each is compiled into one program, so they must not read values. Modules are in
    training mode in `train_step`, in inference mode in `valid_step`. Padding rows of the last batch have
    `batch["weight"]` 0.
    """

    head: tuple[str, ...] = ()
    """Shell patterns of parameter names, such as `network.fc.*`, that depend on the data's classes. They keep their
    initial values if those of `model.weights` have other shapes or don't exist; each pattern as a whole.
    """

    plan: Plan
    opening: Opening = Opening()
    """Receives progress of reading data and unusable records; the learner sets it before `data`."""

    largest_image: tuple[int, int] | None = None
    """Maximum height and width of the validation images, if a transform of validation pads all images to it."""

    learned_settings: Mapping[str, Any] | None = None
    """The vocabulary or the statistics of the training data, when a trained model is evaluated; None: those of the data
    that is read.
    """

    def __init__(self, config: RunConfig, options: Any = None) -> None:
        self.config, self.options = config, options

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):  # before an optimizer, or anything else, reads its initial values
            value.set_seed(self.config.seed, name)
        super().__setattr__(name, value)

    def data(self) -> DataSplits:
        """The loaders of the splits."""
        raise TrainerError(f"{type(self).__name__} has no `data` method")

    def data_root(self) -> Path:
        """The folder that `data.root` names. Raises `TrainerError` if it is null."""
        if self.config.data.root is None:
            raise TrainerError(f"{type(self).__name__} needs a data folder", where="data.root", expected="a folder")
        return self.config.data.root

    def read_splits(self, *fields: str) -> dict[str, Dataset]:
        """The data sets of `data.reader`, by split.

        Args:
            fields: the fields that the task needs of each item: "image", "boxes", ….

        Raises:
            TrainerError: the reader can't read the data, or the items of a split lack a field.
        """
        data = self.config.data
        if data.reader is None:
            raise TrainerError(
                f"{type(self).__name__} needs a data folder and its format",
                where="data.reader",
                expected="data: {root: a folder, reader: {name: coco, …}}",
            )
        splits = read_splits(data.reader, self.data_root(), seed=self.config.seed, opening=self.opening,
                             learned=self.learned_settings)  # fmt: skip
        for split, dataset in splits.items():
            require_fields(dataset, fields, split)
        if VALID in splits and any(one.settings().get("to_largest") for one in data.transforms.of(VALID) or ()):
            self.largest_image = largest_image(splits[VALID])
        return splits

    def build(self) -> None:
        """Creates models and optimizers as attributes. `self.plan` is set before."""
        raise TrainerError(f"{type(self).__name__} has no `build` method")

    def train_step(self, batch: Batch) -> Returned:
        """One training step: computes the loss, minimizes it with the optimizers, returns metrics by name."""
        raise TrainerError(f"{type(self).__name__} has no `train_step` method")

    def valid_step(self, batch: Batch) -> Returned:
        """The metrics and predictions of a batch of validation or test data."""
        raise TrainerError(f"{type(self).__name__} has no `valid_step` method")

    def pipeline(self) -> Pipeline | SequencePipeline:
        """The inference pipeline from an image, a text or a series to a result, for `trainer predict` and
        `trainer export`; called after `build`.

        `valid_step` and `samples` should call the same functions as its `network`.

        Raises:
            TrainerError: the task doesn't support inference, or the config has a transform that can't be part of a
                model.
        """
        raise TrainerError(
            f"{type(self).__name__} doesn't support inference",
            expected="a method `pipeline` that returns a trainer.learner.inference.Pipeline, or one of a sequence",
        )

    def samples(self, batch: Batch) -> Iterable[Sample]:
        """Images and texts of a validation batch, shown after each epoch; none by default. May read values.

        Each of the worst items of an evaluation is passed as a batch of one item.
        """
        return ()

    def hooks(self) -> Iterable[Hook]:
        """Hooks that belong to the task; none by default."""
        return ()

    def optimizer_for(self, target: Target, name: str = "optimizer") -> Optimizer:
        """Creates the optimizer that the config calls `name` (or the only one of `optimizer:`), for `target`."""
        sections = self.config.all_optimizers()
        if name not in sections:
            raise TrainerError(
                f"the config has no optimizer called {name!r}",
                found=", ".join(sections) or "no optimizer",
                hint="A task with one optimizer reads `optimizer:`, one with several reads `optimizers:` by name.",
            )
        section = sections[name]
        train = self.config.train
        return optimizer_from(
            section,
            target,
            self.config.schedule,
            self.plan,
            gradient_clip_norm=train.gradient_clip_norm,
            gradient_clip_value=train.gradient_clip_value,
        )


CATEGORY_IDS = "category_ids"
"""The fact with the category ids of the classes, as in COCO."""


LEARNED = "learned_settings"
"""The fact with the settings that the reader computed from the training data."""


def facts_of(task: Task, splits: DataSplits) -> dict[str, Any]:
    """The facts of a task and its data as plain values, such as class names and sizes, and whether it predicts.

    Saved in checkpoints, so that `take_facts` replaces `data` for inference.
    """
    facts = {name: value for name, value in vars(task).items() if name not in _NO_FACTS and _is_plain(value)}
    return {
        "task": facts,
        CATEGORY_IDS: category_ids_of(splits.train.dataset),
        LEARNED: learned_settings(splits.train.dataset),
        "predicts": type(task).pipeline is not Task.pipeline,
    }


def take_facts(task: Task, facts: Mapping[str, Any]) -> None:
    """Sets the facts of a task from a checkpoint; call it before `build`."""
    for name, value in facts["task"].items():
        setattr(task, name, _as_tuples(value))


_NO_FACTS = ("config", "options", "plan", "opening")


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def parts_of(task: Task) -> Parts:
    """The modules, optimizers and states among the task's attributes."""
    parts = Parts()
    for name, value in vars(task).items():
        if isinstance(value, Module):
            parts.modules[name] = value
        elif isinstance(value, Optimizer):
            parts.optimizers[name] = value
        elif isinstance(value, State):
            parts.states[name] = value
    return parts


def model_states(parts: Parts) -> dict[str, State]:
    """Parameters and buffers of all modules, by "module.name"."""
    return {
        f"{module_name}.{name}": state
        for module_name, module in parts.modules.items()
        for name, state in module.named_states().items()
    }


def states_within_step(parts: Parts) -> dict[str, State]:
    """The further dependencies of an incomplete step, if gradients are accumulated."""
    return {
        f"{optimizer_name}.within_step.{name}": state
        for optimizer_name, optimizer in parts.optimizers.items()
        for name, state in optimizer.states_within_step().items()
    }


def training_states(parts: Parts) -> dict[str, State]:
    """All other dependencies of the next step: the states of optimizers and of the task."""
    states = {
        f"{optimizer_name}.{name}": state
        for optimizer_name, optimizer in parts.optimizers.items()
        for name, state in optimizer.named_states().items()
    }
    return {**states, **parts.states}
