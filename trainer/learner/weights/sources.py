"""Finds the file of `model.weights` and the facts about the weights: SHA-256, license, normalization."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.learner.weights.download import Facts, Progress, downloaded, sha256_of
from trainer.learner.weights.files import normalization_of

if TYPE_CHECKING:
    from trainer.configs.model import ModelConfig, NormalizationConfig, WeightsConfig


def local_file(section: WeightsConfig, progress: Progress = lambda done, total: None) -> Path:
    """The run, checkpoint or file that a section names, downloaded if necessary and compared with its SHA-256.

    Raises:
        TrainerError: the file can't be downloaded, or has another SHA-256.
    """
    return _fetched(section, progress)[0]


def settled(config: ModelConfig, progress: Progress = lambda done, total: None, *, is_normalized: bool) -> ModelConfig:
    """The section with the facts about its weights, as the resolved config records them.

    Downloads the weights on first use. The normalization is that of the config; if it sets none, that of the weights,
    if they have one and the task uses `model.normalization` (`is_normalized`).

    Raises:
        TrainerError: weights can't be read or downloaded, or differ in their normalization.
    """
    sections: dict[str, WeightsConfig] = {}
    found: dict[str, NormalizationConfig] = {}
    for part, section in config.sources().items():
        file, facts = _fetched(section, progress)
        known = {"sha256": facts.sha256, "license": section.license or facts.license}
        sections[part] = section.model_copy(update={name: value for name, value in known.items() if value is not None})
        if (
            config.normalization is None
            and is_normalized
            and (normalization := _normalization(file, facts)) is not None
        ):
            found[part] = normalization
    whole = sections.pop("", config)
    if len({one.model_dump_json() for one in found.values()}) > 1:
        raise TrainerError(
            "the weights were trained with different normalizations", where="model",
            found="; ".join(_described(found)), expected="one for all",
            hint="Set `model.normalization` to the one that the images get.",
        )  # fmt: skip
    chosen = config.normalization or next(iter(found.values()), None)
    return config.model_copy(update={
        **{name: getattr(whole, name) for name in ("sha256", "license")}, "parts": {**config.parts, **sections},
        "normalization": chosen,
    })  # fmt: skip


def _fetched(section: WeightsConfig, progress: Progress) -> tuple[Path, Facts]:
    assert section.weights is not None
    if isinstance(section.weights, str):
        file, facts = downloaded(section.weights, progress)
    else:
        file, facts = section.weights, Facts()
    if section.sha256 is not None:
        found = facts.sha256 or (sha256_of(file) if file.is_file() else None)
        if found != section.sha256:
            raise TrainerError(
                "the weights are not those that the config names", where=str(section.weights),
                found=f"sha256 {found}" if found else "a folder", expected=f"sha256 {section.sha256}",
                hint="Remove `sha256` next to `weights` to accept this file, or name the file's earlier revision.",
            )  # fmt: skip
    return file, facts


def _normalization(file: Path, facts: Facts) -> NormalizationConfig | None:
    from trainer.configs.model import NormalizationConfig

    found = facts.normalization or normalization_of(file)
    return None if found is None else NormalizationConfig(mean=tuple(found["mean"]), std=tuple(found["std"]))


def _described(found: dict[str, NormalizationConfig]) -> Iterator[str]:
    for part, one in found.items():
        yield f"{part or 'the model'}: mean {list(one.mean)}, std {list(one.std)}"
