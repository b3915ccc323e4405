"""A data set with its transforms: what the loader asks for items."""

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
"""So many others are tried where some can't be read: the one that asks is not to blame for them."""


class Pipeline(Wrapped):
    """The items of `dataset` after `transforms`, as a pure function of (seed, epoch, index): `item(index, epoch)`.

    As a `Dataset` it gives the items of epoch 0: take parts of a data set first, and make pipelines of the parts. A
    pipeline of a pipeline is one, with the transforms of both. It can be pickled, and holds no state.
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
        """Item `index` as it is in `epoch`.

        Raises:
            TrainerError: the data set does for this item, or a transform that can't take it.
        """
        try:
            return self._made(index, epoch, len(self.transforms))
        except TrainerError as error:
            if error.where is None:
                error.where = self.source(index)
            raise

    @property
    def decode_hint(self) -> Size | None:
        """What height and width decoded images must at least have, where any that are larger lead to the same size.

        None where the transforms mind how many pixels an image has, or don't always lead to one size.
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
        """The item after consecutive warps, whose matrices are multiplied and whose pixels are sampled once."""
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
        """A drawn item after the transforms before `position`."""
        for attempt in range(_TRIES):
            try:
                return self._made(draws.integer(len(self.dataset)), epoch, position)
            except TrainerError:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError
