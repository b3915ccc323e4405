"""A data set with its transforms, from which the loader reads items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import numpy as np

from trainer import TrainerError
from trainer.datasets.dataset import Dataset, Wrapped
from trainer.datasets.fields import Item
from trainer.datasets.transforms.draws import ItemDraws
from trainer.datasets.transforms.geometry import Size, image_size, warp
from trainer.datasets.transforms.transform import Mixing, Transform, Warp

_TRIES = 8
"""Maximum number of other items to try if some are unreadable; the requesting item is not at fault."""


class Pipeline(Wrapped):
    """The items of `dataset` after `transforms`, as a pure function of (seed, epoch, index): `item(index, epoch)`.

    As a `Dataset` it returns the items of epoch 0; take subsets of a data set first, then create pipelines of them. A
    pipeline of a pipeline is flattened. It can be pickled and has no state.
    """

    def __init__(self, dataset: Dataset, transforms: Sequence[Transform], seed: int = 0) -> None:
        super().__init__(dataset)
        self.transforms: tuple[Transform, ...] = tuple(transforms)
        self.seed = seed
        if isinstance(dataset, Pipeline):
            self.dataset, self.transforms = dataset.dataset, (*dataset.transforms, *transforms)

    def __getitem__(self, index: int) -> Item:
        return self.item(index, 0)

    def item(self, index: int, epoch: int) -> Item:
        """Item `index` in `epoch`.

        Raises:
            TrainerError: the data set raises for this item, or a transform can't process it.
        """
        try:
            return self._made(index, epoch, len(self.transforms))
        except TrainerError as error:
            if error.where is None:
                error.where = self.source(index)
            raise

    @property
    def decode_hint(self) -> Size | None:
        """Minimum height and width of decoded images, if all larger images give the same size.

        None if the result depends on the number of pixels, or doesn't always have one size.
        """
        for transform in self.transforms:
            if transform.decode_hint is not None:
                return transform.decode_hint if transform.probability == 1 else None
            if transform.minds_scale:
                return None
        return None

    def _made(self, index: int, epoch: int, end: int) -> Item:
        """The item after the transforms before position `end`."""
        item = self.dataset[index]
        for is_warp, group in groupby(range(end), lambda position: isinstance(self.transforms[position], Warp)):
            if is_warp:
                item = self._warped(item, index, epoch, list(group))
                continue
            for position in group:
                transform, draws = self.transforms[position], ItemDraws(self.seed, epoch, index, position)
                if not draws.chance(transform.probability):
                    continue
                if isinstance(transform, Mixing):
                    item = transform.mix(item, draws, partial(self._other, epoch, position, draws))
                else:
                    item = transform(item, draws)
        return item

    def _warped(self, item: Item, index: int, epoch: int, positions: Sequence[int]) -> Item:
        """The item after consecutive warps, with multiplied matrices and one resampling."""
        size = image_size(item)
        matrix, chosen = np.eye(3), []
        for position in positions:
            step, draws = self.transforms[position], ItemDraws(self.seed, epoch, index, position)
            assert isinstance(step, Warp)
            if draws.chance(step.probability):
                matrix = step.matrix(size, draws) @ matrix
                chosen.append(step)
        if not chosen:
            return item
        min_visible = max(step.min_visible for step in chosen)
        return warp(item, matrix, size, fill=chosen[-1].fill, min_visible=min_visible)

    def _other(self, epoch: int, position: int, draws: ItemDraws) -> Item:
        """A random item after the transforms before `position`."""
        for attempt in range(_TRIES):
            try:
                return self._made(draws.integer(len(self.dataset)), epoch, position)
            except TrainerError:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError
