"""Checkpoints: their format on disk, which are kept, and resuming from one."""

from trainer.learner.checkpoints.compare import first_difference
from trainer.learner.checkpoints.disk import DISK, Disk
from trainer.learner.checkpoints.format import (
    STATE,
    Array,
    Checkpoint,
    folder_name,
    pointed,
    read_checkpoint,
    read_group,
    read_state,
    remove_checkpoint,
    steps_in,
    write_checkpoint,
)
from trainer.learner.checkpoints.keeper import (
    CheckpointKeeper,
    Copied,
    checkpoint_folder,
    checkpoints_at,
    read_newest,
    restore,
)
from trainer.learner.checkpoints.policy import Keep, Saved, is_better, superseded

__all__ = [
    "DISK",
    "STATE",
    "Array",
    "Checkpoint",
    "CheckpointKeeper",
    "Copied",
    "Disk",
    "Keep",
    "Saved",
    "checkpoint_folder",
    "checkpoints_at",
    "first_difference",
    "folder_name",
    "is_better",
    "pointed",
    "read_checkpoint",
    "read_group",
    "read_newest",
    "read_state",
    "remove_checkpoint",
    "restore",
    "steps_in",
    "superseded",
    "write_checkpoint",
]
