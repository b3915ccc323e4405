"""The model card: the origin of a model, its training data and its metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.configs import RunConfig
    from trainer.learner.inference.model import About

_LICENSES = ("LICENSE*", "LICENCE*", "COPYING*")
_LONGEST_LICENSE = 300


@dataclass(frozen=True)
class Card:
    """The origin of an exported model, for display only.

    Attributes:
        task: the recipe or task; weights: the checkpoint of the run; averaged: whether weights are moving averages.
        monitored: the metric that selected the checkpoint, if any; metrics: those of the checkpoint, by "split/name".
        data: `reader`, `folder`, `license` (null: unknown), `batch_size`, `steps_per_epoch` of the training data.
        config_sha256: hash of the resolved config; steps, seconds: the length of the training.
        versions: versions of packages that affect results bit for bit, including the image decoder.
        normalization: `mean` and `std` of the network's images, part of its programs; null: not declared.
    """

    task: str
    weights: str = ""
    averaged: bool = False
    monitored: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, str | int | None] = field(default_factory=dict)
    config_sha256: str = ""
    steps: int = 0
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    normalization: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields as plain data."""
        return asdict(self)


def card_of(
    state: Mapping[str, Any], config: RunConfig, about: About, *, averaged: bool, data_license: str | None = None
) -> Card:
    """The card of a checkpoint's model. `state` is the checkpoint's state; without `data_license`, the data's license
    files are read.
    """
    reader, root, normalization = config.data.reader, config.data.root, config.model.normalization
    return Card(
        task=about.task,
        weights=about.weights,
        averaged=averaged,
        monitored=about.monitored,
        metrics={name: value for name, value in about.metrics.items() if math.isfinite(value)},
        data={
            "reader": None if reader is None else reader.name,
            "folder": None if root is None else root.name,
            "license": data_license or (None if root is None else license_in(root)),
            "batch_size": config.data.batch_size,
            "steps_per_epoch": int(state["steps_per_epoch"]),
        },
        config_sha256=state["config_sha256"],
        steps=int(state["step"]),
        seconds=float(state["seconds"]),
        versions=dict(state["versions"]),
        normalization=None if normalization is None else normalization.model_dump(mode="json"),
    )


def license_in(folder: Path) -> str | None:
    """The first line of each license file in a folder; None if there is none."""
    files = sorted({file for pattern in _LICENSES for file in folder.glob(pattern) if file.is_file()})
    lines = []
    for file in files:
        with file.open(encoding="utf-8", errors="replace") as opened:
            first = next((line.strip() for line in opened if line.strip()), "")
        lines.append(f"{file.name}: {first}")
    return "; ".join(lines)[:_LONGEST_LICENSE] or None
