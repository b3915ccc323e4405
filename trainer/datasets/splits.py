"""Creates the loaders of a task's splits from the config's `data:` section."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainer import TrainerError
from trainer.datasets.cache import Cached, ItemCache
from trainer.datasets.collate import LEAST_ROOM, Collation
from trainer.datasets.dataset import Dataset, Subset, gives_batches
from trainer.datasets.item_properties import labels_of, most_objects, sizes_of, token_lengths, vocabulary_of
from trainer.datasets.length_steps import LENGTH_STEPS, length_steps
from trainer.datasets.loader import Loader
from trainer.datasets.making import BatchMaker, BatchTransform, EpochDataset
from trainer.datasets.samplers import (
    BySize,
    ClassBalanced,
    FirstEpoch,
    InOrder,
    Sampler,
    Shuffled,
    Weighted,
    class_weights,
)
from trainer.datasets.split_words import TRAIN
from trainer.datasets.transforms import Pipeline
from trainer.datasets.transforms.build import pipeline_for
from trainer.datasets.workers import Workers

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.configs.data import DataConfig

MOST_WORKERS = 8
"""Maximum default number of workers; more rarely help, and each needs memory."""


def loaders(
    splits: Mapping[str, Dataset], config: RunConfig, *, augmentation: BatchTransform | None = None
) -> dict[str, Loader]:
    """A loader for each of `splits`, with the transforms of the config.

    "train" is shuffled or sampled, and `augmentation` changes its batches; the other splits are in order. The loaders
    share workers, which start here, so that they are ready before the model.
    """
    from trainer.engine.targets.cpu.topology import available_processors  # imports the engine, 60 ms

    data = config.data
    _refuse_unread(config)
    _refuse_unmeasured(splits, config)
    splits = {name: pipeline_for(split, data.transforms.of(name), config.seed) for name, split in splits.items()}
    workers: Workers | int | None = data.workers
    made: dict[str, Loader] = {}
    collation = _collation(list(splits.values()), data)
    shares = sum(map(len, splits.values()))
    for name, dataset in splits.items():
        if workers is None:
            workers = 1 if BatchMaker(dataset).is_in_memory else min(max(available_processors() - 1, 1), MOST_WORKERS)
        prepared = _prepared(
            dataset, data, len(dataset) / shares, workers if isinstance(workers, int) else workers.workers
        )
        batch_size = data.items_per_batch if name == TRAIN else data.valid_batch_size or data.items_per_batch
        made[name] = Loader(
            prepared,
            batch_size,
            config.seed,
            sampler=_sampler(dataset, config, batch_size) if name == TRAIN else None,
            transform=augmentation if name == TRAIN else None,
            collation=collation,
            on_error=data.on_error,
            never_empty=name == TRAIN,
            workers=workers,
            worker_kind=data.worker_kind,
            prefetch=data.prefetch,
        )
        workers = made[name].workers
    return made


def _collation(splits: Iterable[Dataset], data: DataConfig) -> Collation:
    """Pads batches of all splits to the maximum number of objects of an item, so that a step has one shape.

    Transforms that mix items may need more; those batches are padded to the next power of two.
    """
    most = most_objects(splits) if data.max_objects is None else None
    least = None if most is None else max(1, -(-most // LEAST_ROOM)) * LEAST_ROOM
    lengths = () if data.max_tokens is not None else _lengths(list(splits), data)
    return Collation(data.max_objects, data.max_tokens, data.image_sizes, least, lengths)


def _lengths(splits: Sequence[Dataset], data: DataConfig) -> tuple[int, ...]:
    """The token lengths of batches: those of the config, or chosen from the lengths of all items."""
    steps = data.length_steps
    if isinstance(steps, tuple):
        return tuple(sorted(set(steps)))
    if steps is None and any(vocabulary_of(dataset) is None for dataset in splits):
        return ()
    known = [lengths for dataset in splits if (lengths := token_lengths(dataset)) is not None]
    if len(known) < len(splits):
        if steps is None:
            return ()
        raise TrainerError(
            "the lengths can't be chosen: the data set has no token counts of its items", where="data.length_steps",
            found=steps, expected="a list of lengths, or texts whose lengths the reader knows",
        )  # fmt: skip
    return length_steps(np.concatenate(known), steps or LENGTH_STEPS)


def _refuse_unread(config: RunConfig) -> None:
    """Raises `TrainerError` if the config sets a reader and the task created its data without it."""
    from trainer.datasets.readers import is_read  # readers import the configuration, which workers don't need

    if config.data.reader is not None and not is_read(config.data.reader):
        raise TrainerError(
            "the task ignores the reader",
            where="data.reader",
            found=f"{config.data.reader.name}, and data that the task creates itself",
            expected="a task that reads with `self.read_splits()`, or no data.reader",
        )


def _refuse_unmeasured(splits: Mapping[str, Dataset], config: RunConfig) -> None:
    """Raises `TrainerError` if the config has validation metrics but no validation split exists."""
    from trainer.configs.monitored_metrics import no_validation  # as above
    from trainer.configs.problems import dotted

    missing = no_validation(config, {name: len(split) for name, split in splits.items()})
    if TRAIN in splits and missing is not None:
        raise TrainerError(
            missing.message,
            where=", ".join(map(dotted, missing.paths)),
            found=missing.found,
            expected=missing.expected,
            hint=missing.hint(missing.paths),
        )


def _sampler(dataset: Dataset, config: RunConfig, batch_size: int) -> Sampler:
    """The items of a training epoch, and their order."""
    data = config.data
    sampler: Sampler = Shuffled(len(dataset)) if data.shuffle else InOrder(len(dataset))
    if data.sampler is not None and data.sampler.name == "class_balanced":
        sampler = ClassBalanced(labels_of(dataset), data.sampler.samples)
    elif data.sampler is not None:
        sampler = Weighted(_weights(dataset, data.sampler.class_weights), data.sampler.samples)
    if data.size_window is not None:
        sampler = BySize(sampler, sizes_of(dataset), batch_size, data.size_window)
    batches = config.train.overfit_batches
    return sampler if batches is None else FirstEpoch(sampler, batches * batch_size)


def _weights(dataset: Dataset, weights: Mapping[str, float]) -> np.ndarray:
    names = list(dataset.class_names)
    unknown = [name for name in weights if name not in names]
    if unknown:
        raise TrainerError(
            "no such class",
            where="data.sampler.class_weights",
            found=unknown[0],
            expected=", ".join(names) or "a data set with classes",
        )
    return class_weights(labels_of(dataset), {names.index(name): weight for name, weight in weights.items()})


def _prepared(dataset: Dataset, data: DataConfig, share: float, workers: int) -> Dataset:
    """The data set with the config's cache and scaled decoding between its reader and its transforms."""
    if isinstance(dataset, Pipeline):
        dataset = copy.copy(dataset)
        if data.scaled_decoding and dataset.decode_hint is not None:
            dataset.dataset = _decoding(dataset.dataset, dataset.decode_hint)
        dataset.dataset = _cached(dataset.dataset, data, share, workers)
        return dataset
    return _cached(dataset, data, share, workers)


def _decoding(dataset: Dataset, at_least: tuple[int, int]) -> Dataset:
    """The data set with images decoded at `at_least` (height, width) or larger, if supported."""
    if isinstance(dataset, Subset):
        return Subset(_decoding(dataset.dataset, at_least), dataset.indices)
    if hasattr(dataset, "at_least"):
        dataset = copy.copy(dataset)
        dataset.at_least = at_least
    return dataset


def _cached(dataset: Dataset, data: DataConfig, share: float, workers: int) -> Dataset:
    limit = int(data.cache_gb * 1e9 * share)
    if not limit or gives_batches(dataset) or isinstance(dataset, EpochDataset):
        return dataset
    return Cached(dataset, ItemCache(len(dataset), limit, workers + 1))
