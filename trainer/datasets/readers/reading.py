"""Creates a data set for each split from a `reader` section.

splits = read_splits(config.data.reader, config.data.root, seed=config.seed)     # {"train": …, "valid": …}
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from trainer import TrainerError
from trainer.configs.custom_class import own_class
from trainer.configs.readers.splits import SPLIT, split_words
from trainer.datasets.dataset import Dataset, Subset
from trainer.datasets.readers.division import Divided, Division
from trainer.datasets.readers.duplicates import refuse_duplicates
from trainer.datasets.readers.opening import Opening
from trainer.datasets.readers.table import splits_in
from trainer.datasets.split_words import TRAIN

if TYPE_CHECKING:
    from trainer.configs.readers import OwnReader, Reading
    from trainer.datasets.layouts import Layout

AUTO = "auto"
_OF_ITEMS = ("masks", "keypoints", "channels")
"""Keys of a reader that state what the task needs of each item, independent of where the files are."""
_LEARNED = ("vocabulary", "statistics")
Splits = TypeVar("Splits", bound=Mapping[str, Any])
_READ: WeakValueDictionary[int, Reading] = WeakValueDictionary()
"""Sections that have been read, by identity: detects tasks that read other data."""


def read_splits(
    config: Reading,
    root: Path,
    *,
    seed: int = 0,
    opening: Opening = Opening(),  # noqa: B008 - frozen
    learned: Mapping[str, Any] | None = None,
) -> dict[str, Dataset]:
    """A data set for each split of the section: from paths, and from fractions of train.

    Classes and vocabulary are those of the first split, which is train if it exists. `learned` contains settings of
    another data set (`learned_settings`), which `auto` and custom readers ignore.

    Raises:
        TrainerError: as the reader does; no split exists; a fraction leaves a split without items.
    """
    known = {} if config.name == AUTO or config.is_own else learned or {}
    found = _opened(sections(config, root), root, opening, _division(config, seed), known)
    if config.name != AUTO and not config.is_own:
        _warn_of_unread(root, opening)
    mark_read(config, found)
    if config.fractions:
        found = {**found, **_with_fractions(found, config, seed)}
    return found


def learned_settings(dataset: Any) -> dict[str, Any]:
    """Settings that a reader computed from its training items and needs to read other items: the vocabulary of texts,
    the statistics of a series. Plain values; empty for other readers. `dataset` may wrap the reader's data set.
    """
    if hasattr(dataset, "shared_settings"):
        return {key: value for key, value in dataset.shared_settings().items() if key in _LEARNED}
    return learned_settings(dataset.dataset) if hasattr(dataset, "dataset") else {}


def _division(config: Reading, seed: int) -> Division:
    """The splits that are taken from train.

    Raises:
        TrainerError: the fractions leave nothing for train, or include train.
    """
    if sum(config.fractions.values()) >= 1 or TRAIN in config.fractions:
        raise _invalid_fractions(config, "nothing left for train")
    return Division(config.fractions, config.fractions_by, seed)


def _warn_of_unread(root: Path, opening: Opening) -> None:
    """Warns about images in unsupported formats. With `auto`, the description of the layout lists them instead."""
    from trainer.datasets.layouts import unread_images  # layouts use readers
    from trainer.datasets.layouts.listing import Listing

    for suffix, (count, first) in unread_images(Listing.of(root)).items():
        opening.on_warning(
            f"{root}: {count} {suffix} files are not read, for instance {first}; only JPEG and PNG files are"
        )


def read_detected(
    path: Path,
    opening: Opening = Opening(),  # noqa: B008 - frozen
    form: str | None = None,
) -> tuple[Layout, dict[str, Dataset]]:
    """The layout of a folder or a file, and its data sets by split, with all COCO annotations.

    Raises:
        TrainerError: as `detect_path` and the readers do.
    """
    from trainer.datasets.layouts.detect import detect_path
    from trainer.datasets.readers.coco import CocoDataset

    layout, root = detect_path(path, form)
    found = _opened({split: (section_of(part.settings), None) for split, part in layout.splits.items()}, root, opening)
    for dataset in found.values():
        if isinstance(dataset, CocoDataset):
            dataset.masks, dataset.keypoints = dataset.index.has_masks, bool(dataset.index.keypoint_names)
    return layout, found


def _opened(
    sections: Mapping[str, tuple[Reading, str | None]],
    root: Path,
    opening: Opening,
    division: Division = Division(),  # noqa: B008 - frozen
    learned: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Dataset]:
    """A data set for each section; all share the classes and vocabulary of the first, and the `learned` settings.
    Train is read with `division` if its data set divides itself.
    """
    found: dict[str, Dataset] = {}
    shared: Mapping[str, Any] = {}
    for split, (section, word) in sections.items():
        is_divided = section.divides and split == TRAIN and division.fractions
        own = {"division": replace(division, by=section.fractions_by)} if is_divided else {}
        found[split] = read(section, root, word, {**learned, **shared, **own}, opening)
        if not len(found[split]):
            raise TrainerError(
                "a split has no items", where=_described(section, root, word), found=split, expected="at least one item"
            )
        if not shared and hasattr(found[split], "shared_settings"):
            shared = found[split].shared_settings()  # type: ignore[attr-defined]
    _refuse_other_classes(found)
    refuse_duplicates(found, opening)
    return found


def _described(section: Reading, root: Path, word: str | None) -> str:
    """The file or folder that decides which items a split has."""
    settings = section.settings()
    named = next((settings[key] for key in ("image_set", "annotations", "file", "images") if settings.get(key)), "")
    return str(root / str(named).replace(SPLIT, word or ""))


def sections(config: Reading, root: Path) -> dict[str, tuple[Reading, str | None]]:
    """The reader of each split: its section, and the name that replaces `{split}` in its paths.

    Raises:
        TrainerError: no split exists; with `auto`, as `detect` does.
    """
    if config.name != AUTO:
        return {split: (config, word) for split, word in words_of_splits(config, root).items()}
    from trainer.datasets.layouts import detect  # layouts use readers

    layout = detect(root, config.form)
    return {split: (section_of(part.settings, config), None) for split, part in layout.splits.items()}


def section_of(settings: Mapping[str, Any], auto: Reading | None = None) -> Reading:
    """A reader's section from plain data, with the values of the `auto` section if the reader has such keys.

    Raises:
        TrainerError: `auto` has a key that the reader lacks, or a value is invalid.
    """
    from trainer.configs import config_from

    values = dict(settings)
    if auto is not None:
        values |= {key: value for key, value in auto.settings().items() if value and key != "format"}
    data = {"root": ".", "reader": values}
    section = config_from({"data": data, "optimizer": {"name": "sgd"}, "train": {"steps": 1}}).data.reader
    assert section is not None
    return section


def mark_read(config: Reading, splits: Splits) -> Splits:
    """Marks this section as used by the task that created `splits`, and returns them; `read_splits` calls it."""
    _READ[id(config)] = config
    return splits


def is_read(config: Reading) -> bool:
    """Whether data has been read with this section."""
    return _READ.get(id(config)) is config


def read(
    config: Reading,
    root: Path,
    word: str | None = None,
    shared: Mapping[str, Any] | None = None,
    opening: Opening = Opening(),  # noqa: B008 - frozen
) -> Dataset:
    """The data set of one split: `word` replaces `{split}` in paths, `shared` overrides settings."""
    if config.is_own:
        return _own(config, root, word, opening)  # type: ignore[arg-type]
    file, _, name = config.code.partition(":")
    kind = getattr(importlib.import_module(f"trainer.datasets.readers.{file}"), name)
    settings = {
        key: value.replace(SPLIT, word) if word is not None and isinstance(value, str) else value
        for key, value in config.settings().items()
    }
    if settings.get("split_column") is not None and settings["split_value"] is None:
        settings["split_value"] = word
    dataset: Dataset = kind(root, **(settings | dict(shared or {})), opening=opening)
    return dataset


def words_of_splits(config: Reading, root: Path) -> dict[str, str | None]:
    """The splits to read, and the name of each in paths or in a table's split column; None without one.

    Raises:
        TrainerError: `splits` is set but no path has `{split}`, no split exists, or a table's column doesn't contain
            splits.
    """
    settings = config.settings()
    if not config.is_own and settings.get("split_column") is not None and settings["split_value"] is None:
        return dict(config.splits or splits_in(root / settings["file"], settings["split_column"]))
    return split_words(config, root)


def has_files(config: Reading, root: Path) -> bool:
    """Whether all paths of the section exist in the folder, for at least one split."""
    if config.name == AUTO or config.is_own:
        return True
    try:
        words = words_of_splits(config, root).values()
    except TrainerError:
        return False
    paths = [value for name, value in config.settings().items() if name in config.paths and isinstance(value, str)]
    return any(all((root / path.replace(SPLIT, word or "")).exists() for path in paths) for word in words)


def detecting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a reader that detects the layout of another folder, with the keys that the task needs.

    `settings` are those of the reader of the first folder, as plain data.
    """
    kept = {key: settings[key] for key in _OF_ITEMS if settings.get(key) not in (None, False)}
    return {"name": AUTO, **{key: value for key, value in kept.items() if not isinstance(value, str)}}


def _refuse_other_classes(found: Mapping[str, Dataset]) -> None:
    """Checks that two splits have the same classes in the same order, so that labels mean the same."""
    if not found:
        return
    first, *others = found
    names = tuple(found[first].class_names)
    for split in others:
        if tuple(found[split].class_names) != names:
            raise TrainerError(
                "two splits have different classes",
                where=found[split].source(0) if len(found[split]) else split,
                found=f"{split}: {', '.join(found[split].class_names[:12])}",
                expected=f"those of {first}, in the same order: {', '.join(names[:12])}",
            )


def _with_fractions(found: Mapping[str, Dataset], config: Reading, seed: int) -> dict[str, Dataset]:
    """Train without the fractions of the other splits, and these splits."""
    taken = [split for split in config.fractions if split in found]
    if TRAIN not in found or taken:
        raise _invalid_fractions(config, f"next to {', '.join(found)}")
    whole = found[TRAIN]
    if isinstance(whole, Divided):
        parts = whole.divided()
        if parts.keys() == {TRAIN, *config.fractions}:
            return parts
    return {split: Subset(whole, part) for split, part in _division(config, seed).items(len(whole)).items()}


def _invalid_fractions(config: Reading, found: str) -> TrainerError:
    return TrainerError(
        "the fractions can't be taken from train",
        where="data.reader.fractions",
        found=", ".join(f"{split}: {share:g}" for split, share in config.fractions.items()) + f", {found}",
        expected="a train split, names other than those of existing splits, fractions with a sum below 1",
    )


def _own(config: OwnReader, root: Path, word: str | None, opening: Opening) -> Dataset:
    try:
        kind = own_class(config.name)
    except ValueError as error:
        raise TrainerError("no such reader", where="data.reader.name", found=error) from error
    options = dict(config.options)
    if "opening" in inspect.signature(kind).parameters:
        options["opening"] = opening
    try:
        inspect.signature(kind).bind(root, word, **options)
    except TypeError as error:
        raise TrainerError(
            "the reader doesn't accept these options",
            where=config.name,
            found=error,
            expected="Class(root, split, **options), and `opening` if it reports progress",
        ) from None
    dataset = kind(root, word, **options)
    if not isinstance(dataset, Dataset):
        raise TrainerError(
            "the reader is not a data set", where=config.name, expected="__len__, __getitem__, class_names and source"
        )
    return dataset
