"""Commands and keys of other tools, and the equivalents in this one."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("trainer new {rest}", "DIR"),
    "create": ("trainer new {rest}", "DIR"),
    "copy": ("trainer new DIR --recipe {rest}", "RECIPE"),
    "train": ("trainer run {rest}", "CONFIG_OR_RECIPE"),
    "fit": ("trainer run {rest}", "CONFIG_OR_RECIPE"),
    "resume": ("trainer run --resume {rest}", "RUN"),
    "test": ("trainer evaluate {rest}", "RUN"),
    "val": ("trainer evaluate {rest}", "RUN"),
    "eval": ("trainer evaluate {rest}", "RUN"),
    "infer": ("trainer predict {rest}", "RUN IMAGES"),
    "inference": ("trainer predict {rest}", "RUN IMAGES"),
    "detect": ("trainer predict {rest}", "RUN IMAGES"),
    "validate": ("trainer check {rest}", "CONFIG_OR_RECIPE"),
    "lint": ("trainer check {rest}", "CONFIG_OR_RECIPE"),
    "tune": ("trainer autotune {rest}", "CONFIG_OR_RECIPE"),
    "ls": ("trainer list` for recipes, `trainer runs` for runs, `trainer data inspect {rest}", "FOLDER"),
    "rm": ("trainer runs rm {rest}", "RUN"),
    "logs": ("trainer watch {rest}", "RUN"),
    "tensorboard": ("trainer watch {rest}", "RUN"),
    "benchmark": ("trainer profile {rest}", "CONFIG_OR_RECIPE"),
}
"""Maps another tool's command to the command here and a placeholder for missing arguments."""

_PRECISION = "train.precision: float32, bfloat16 or float16"
_SIZE = "`size` of a resize or crop in data.transforms"

KEYS: dict[str, str] = {
    "accum_iter": "train.accumulate",
    "accumulate_grad_batches": "train.accumulate",
    "amp": _PRECISION,
    "augment": "data.transforms.train",
    "base_lr": "optimizer.learning_rate",
    "batch": "data.batch_size",
    "batch_size": "data.batch_size",
    "betas": "optimizer.betas",
    "bf16": _PRECISION,
    "bs": "data.batch_size",
    "clip_grad_norm": "train.gradient_clip_norm",
    "cos_lr": "schedule.name: cosine",
    "cuda": "device: cuda",
    "data_dir": "data.root",
    "dataset": "data.root",
    "dropout": "options.dropout, if the task has it",
    "ema": "train.ema",
    "epochs": "train.epochs",
    "fp16": _PRECISION,
    "gpu": "device: cuda",
    "gpus": "device: cuda",
    "grad_accum": "train.accumulate",
    "gradient_accumulation_steps": "train.accumulate",
    "gradient_clip_val": "train.gradient_clip_norm",
    "half": _PRECISION,
    "image_size": _SIZE,
    "img": _SIZE,
    "img_size": _SIZE,
    "imgsz": _SIZE,
    "iterations": "train.steps",
    "learning_rate": "optimizer.learning_rate",
    "log_interval": "train.log_every_steps",
    "lr": "optimizer.learning_rate",
    "lr0": "optimizer.learning_rate",
    "max_epochs": "train.epochs",
    "max_iters": "train.steps",
    "max_steps": "train.steps",
    "mixed_precision": _PRECISION,
    "momentum": "optimizer.momentum of sgd",
    "n_epochs": "train.epochs",
    "num_epochs": "train.epochs",
    "num_train_epochs": "train.epochs",
    "num_workers": "data.workers",
    "optim": "optimizer.name",
    "output_dir": "--run-dir DIR",
    "patience": "early_stopping.patience",
    "per_device_train_batch_size": "data.batch_size",
    "precision": _PRECISION,
    "pretrained": "model.weights",
    "project": "name",
    "resume": "--resume RUN",
    "save_period": "checkpoint.every_epochs",
    "scheduler": "schedule.name",
    "steps": "train.steps",
    "warmup": "schedule.warmup_steps",
    "warmup_epochs": "schedule.warmup_epochs",
    "warmup_steps": "schedule.warmup_steps",
    "wd": "optimizer.weight_decay",
    "weight_decay": "optimizer.weight_decay",
    "weights": "model.weights",
    "workers": "data.workers",
}
"""Maps a key of other tools to the equivalent key here."""

SECTIONS: dict[str, str] = {
    "data": "data.root",
    "model": "model.weights; the task defines the network",
    "optimizer": "optimizer.name",
    "schedule": "schedule.name",
}
"""Maps a section for which other tools accept a single word to the key that accepts this word here."""

VALUES = {"gpu": "cuda", "nvidia": "cuda"}
"""Maps another tool's word for a value to the word here."""


def command_for(word: str, rest: str) -> str | None:
    """The command here that replaces another tool's `word`, with the arguments `rest`; None for an unknown word."""
    if word not in COMMANDS:
        return None
    text, default = COMMANDS[word]
    return text.format(rest=rest or default)
