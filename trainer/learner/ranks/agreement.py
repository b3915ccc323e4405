"""The facts on which all processes of a training must agree before the first step, and the division of shards."""

from __future__ import annotations

import hashlib
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import TrainerError
from trainer.engine import targets
from trainer.engine.sharding import Shards
from trainer.learner.progress import config_hash, versions
from trainer.learner.ranks.group import Group
from trainer.rundir import host_name

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.plan import DataSplits
    from trainer.learner.task import Task


def shards_for(config: RunConfig, group: Group) -> Shards:
    """The shards of this process, on the current device: each process has the same number of consecutive shards.

    Raises:
        TrainerError: the number of processes does not divide that of shards, or their GPUs can't exchange values.
    """
    count = config.train.shards
    if count % group.size:
        raise TrainerError(
            "the processes do not divide the shards",
            where="train.shards",
            found=f"{count} shards and {group.size} processes",
            expected="a number of shards that is a multiple of the number of processes",
        )
    local = count // group.size
    return Shards(count, group.rank * local, local, targets.current().exchange(group) if group.size > 1 else None)


def local_rank(group: Group) -> tuple[int, int]:
    """The index of this process among those on this machine that see the same GPUs, and their number."""
    own = host_name(), os.environ.get("CUDA_VISIBLE_DEVICES")
    found = group.to_all(own)
    return found[: group.rank].count(own), found.count(own)


def what_must_agree(task: Task, config: RunConfig, splits: DataSplits) -> dict[str, Any]:
    """Facts that determine the bits of a training, by their names in messages."""
    return {
        "the installed versions": versions(),
        "the config": config_hash(config),
        "the numerics class": {**config.numerics.model_dump(mode="json"), "shards": config.train.shards},
        "the task's code": _code_of(type(task)),
        "the data": [(len(loader.dataset), loader.batch_size, loader.steps_per_epoch) for loader in splits.all()],
    }


def _code_of(task: type) -> str:
    """A hash of the files that define a task and its base classes; of the name of a class without a file."""
    digest = hashlib.sha256()
    for one in task.__mro__:
        try:
            digest.update(Path(inspect.getfile(one)).read_bytes())
        except (TypeError, OSError):
            digest.update(one.__qualname__.encode())
    return digest.hexdigest()
