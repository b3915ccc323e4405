"""Task: what is trained, on which data, how one step goes. The one class that a recipe writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.datasets.known import category_ids_of, require_fields
from trainer.datasets.readers import Opening, read_splits
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
    from trainer.metrics import Measured, Predictions

Batch = Mapping[str, Tensor]

Returned = Mapping[str, "Measured | Predictions"]
"""What a step gives: metrics, and predictions from which those that the config names are computed, by name."""


@dataclass
class Parts:
    """What a task has built, by the names of its attributes."""

    modules: dict[str, Module] = field(default_factory=dict)
    optimizers: dict[str, Optimizer] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)


class Task:
    """Base of tasks; read a subclass from top to bottom:

        class Digits(Task):
            def data(self):                     # the splits
                return DataSplits(train=Loader(...), valid=Loader(...), test=Loader(...))

            def build(self):                    # models and optimisers, as attributes
                self.net = nn.Sequential(...)
                self.optimizer = self.optimizer_for(self.net)

            def train_step(self, batch):        # traced once, then replayed
                logits = self.net(batch["image"])
                loss = Mean(nn.cross_entropy(logits, batch["label"], reduction="none"), batch["weight"])
                self.optimizer.minimize(loss.value)
                classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
                return {"loss": loss, "classes": classes}

            def valid_step(self, batch):        # the same without the optimiser
                ...

    `train_step` and `valid_step` get a batch of tensors and return metrics by name, and predictions, from which those
    are computed that `metrics:` of the config asks for. What they compute becomes one compiled program, so they must
    not read values. Modules are in training mode in the one, in inference mode in the
    other. Rows that only fill the last batch have `batch["weight"]` 0.
    """

    plan: Plan
    opening: Opening = Opening()
    """Hears of progress in reading data, and of records that can't be used; the learner sets it before `data`."""

    largest_image: tuple[int, int] | None = None
    """Maximum height and width of the validation pictures, where a transform of validation pads all to it."""

    def __init__(self, config: RunConfig, options: Any = None) -> None:
        self.config, self.options = config, options

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):  # before an optimiser, or anything else, reads its initial values
            value.set_seed(self.config.seed, name)
        super().__setattr__(name, value)

    def data(self) -> DataSplits:
        """The loaders of the splits."""
        raise TrainerError(f"{type(self).__name__} has no `data` method")

    def data_root(self) -> Path:
        """The folder that `data.root` names. Raises `TrainerError` where it is null."""
        if self.config.data.root is None:
            raise TrainerError(
                f"{type(self).__name__} needs to know where its data is", where="data.root", expected="a folder"
            )
        return self.config.data.root

    def read_splits(self, *fields: str) -> dict[str, Dataset]:
        """The data sets that `data.reader` describes, by split.

        Args:
            fields: what the task needs of each item: "image", "boxes", ….

        Raises:
            TrainerError: as the reader does; the items of a split have no such field.
        """
        data = self.config.data
        if data.reader is None:
            raise TrainerError(
                f"{type(self).__name__} needs to know which data to read",
                where="data.reader",
                expected="data: {root: a folder, reader: {name: coco, …}}",
            )
        splits = read_splits(data.reader, self.data_root(), seed=self.config.seed, opening=self.opening)
        for split, dataset in splits.items():
            require_fields(dataset, fields, split)
        if VALID in splits and any(one.settings().get("to_largest") for one in data.transforms.of(VALID) or ()):
            self.largest_image = largest_image(splits[VALID])
        return splits

    def build(self) -> None:
        """Make models and optimisers and keep them as attributes. `self.plan` is set by then."""
        raise TrainerError(f"{type(self).__name__} has no `build` method")

    def train_step(self, batch: Batch) -> Returned:
        """One step of training: computes the loss, lets the optimisers minimise it, returns metrics by name."""
        raise TrainerError(f"{type(self).__name__} has no `train_step` method")

    def valid_step(self, batch: Batch) -> Returned:
        """The metrics and predictions of a batch of validation or test data."""
        raise TrainerError(f"{type(self).__name__} has no `valid_step` method")

    def pipeline(self) -> Pipeline:
        """From a raw picture to a result; the modules are built by then. What `trainer predict` and `export` use.

        `valid_step` and `samples` call the same functions as its `network` does.

        Raises:
            TrainerError: the task makes no predictions, or the config has a transform that a model can't carry.
        """
        raise TrainerError(
            f"{type(self).__name__} does not say how it predicts",
            expected="a method `pipeline` that returns a trainer.learner.inference.Pipeline",
        )

    def samples(self, batch: Batch) -> Iterable[Sample]:
        """Pictures and texts of a validation batch to look at after each epoch; none by default. It may read values.

        Each of the worst items of an evaluation is shown by a batch of it alone.
        """
        return ()

    def hooks(self) -> Iterable[Hook]:
        """Hooks that belong to the task; none by default."""
        return ()

    def optimizer_for(self, target: Target, name: str = "optimizer") -> Optimizer:
        """The optimiser that the config calls `name` (with a single `optimizer:` section, that one), on `target`."""
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
"""The fact that holds the data set's own numbers of the classes, as COCO has them."""


def facts_of(task: Task, splits: DataSplits) -> dict[str, Any]:
    """What the task knows of its data in plain values, such as class names and sizes, and whether it can predict.

    A checkpoint keeps it, so that `take_facts` can stand for `data` where a model is only used.
    """
    facts = {name: value for name, value in vars(task).items() if name not in _NO_FACTS and _is_plain(value)}
    return {
        "task": facts,
        CATEGORY_IDS: category_ids_of(splits.train.dataset),
        "predicts": type(task).pipeline is not Task.pipeline,
    }


def take_facts(task: Task, facts: Mapping[str, Any]) -> None:
    """Give a task the facts that it had when the checkpoint was written; to be called before `build`."""
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
    """The modules, optimisers and states among the task's attributes."""
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
    """What a step that was begun depends on besides, where gradients are accumulated."""
    return {
        f"{optimizer_name}.within_step.{name}": state
        for optimizer_name, optimizer in parts.optimizers.items()
        for name, state in optimizer.states_within_step().items()
    }


def training_states(parts: Parts) -> dict[str, State]:
    """Everything else that the next step depends on: the optimisers' states and the task's own."""
    states = {
        f"{optimizer_name}.{name}": state
        for optimizer_name, optimizer in parts.optimizers.items()
        for name, state in optimizer.named_states().items()
    }
    return {**states, **parts.states}
