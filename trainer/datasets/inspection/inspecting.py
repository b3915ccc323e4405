"""Reads every item of a data set once: statistics, and the errors of unusable items."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import Dataset
from trainer.datasets.fields import check_item
from trainer.datasets.inspection.collectors import COLLECTORS
from trainer.datasets.item_properties import vocabulary_of
from trainer.datasets.readers.opening import Progress
from trainer.datasets.vocabulary import UNKNOWN


@dataclass(slots=True)
class Inspection:
    """The result for one data set."""

    items: int
    inspected: int
    class_names: Sequence[str]
    fields: dict[str, str] = field(default_factory=dict)
    """The form of each field of the first usable item."""
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Statistics by collector name, as plain data."""
    bad: list[tuple[str, TrainerError]] = field(default_factory=list)
    """(source, error) of each unusable item or record."""
    usable: list[int] = field(default_factory=list)
    """Indices of usable items."""
    unusable: list[int] = field(default_factory=list)
    """Indices of unusable items."""
    image_ids: list[int] = field(default_factory=list)
    """The `image_id` of each usable item that has one."""
    unknown_tokens: int = 0
    """Number of tokens that are not in the vocabulary."""
    texts: set[bytes] = field(default_factory=set)
    """A digest of each labeled text."""

    @property
    def reasons(self) -> dict[str, int]:
        """Number of unusable items by reason, the most frequent first."""
        return dict(Counter(error.message for _, error in self.bad).most_common())

    def to_json(self) -> dict[str, Any]:
        """All results as plain data."""
        return {
            "items": self.items,
            "inspected": self.inspected,
            "usable": len(self.usable),
            "class_names": list(self.class_names),
            "fields": self.fields,
            **self.found,
            "reasons": self.reasons,
            "bad": [{"source": source, "reason": str(error)} for source, error in self.bad],
        }


def inspect(dataset: Dataset, *, most: int | None = None, progress: Progress | None = None) -> Inspection:
    """Inspects every item of a data set, or `most` evenly spaced ones; `progress` receives the number of items done and
    the total.
    """
    count = len(dataset)
    chosen = np.arange(count) if most is None or most >= count else np.linspace(0, count - 1, most).astype(np.int64)
    inspection = Inspection(count, len(chosen), dataset.class_names)
    collectors = [kind() for kind in COLLECTORS]
    vocabulary = vocabulary_of(dataset)
    has_unknown = vocabulary is not None and UNKNOWN in vocabulary.tokens[1:2]
    for done, index in enumerate(chosen.tolist(), 1):
        source = dataset.source(index)
        try:
            item = dataset[index]
            check_item(item, where=source)
        except TrainerError as error:
            inspection.bad.append((source, error))
            inspection.unusable.append(index)
            continue
        finally:
            if progress is not None:
                progress(done, len(chosen))
        if not inspection.usable:
            inspection.fields = {name: f"{value.dtype} {list(value.shape)}" for name, value in item.items()}
        inspection.usable.append(index)
        if "image_id" in item:
            inspection.image_ids.append(int(item["image_id"]))
        if has_unknown:
            inspection.unknown_tokens += int(np.count_nonzero(item["tokens"] == 1))
        if "tokens" in item and "label" in item:
            inspection.texts.add(hashlib.blake2b(item["tokens"].tobytes(), digest_size=16).digest())
        for collector in collectors:
            collector.see(item)
    results = {collector.name: collector.result(dataset.class_names) for collector in collectors}
    inspection.found = {name: result for name, result in results.items() if result is not None}
    if has_unknown and "texts" in inspection.found:
        inspection.found["texts"]["unknown"] = inspection.unknown_tokens
    return inspection
