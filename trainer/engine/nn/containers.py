"""Modules that contain modules, and modules that only change shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trainer import TrainerError
from trainer.engine.functions import reshape
from trainer.engine.nn.module import Module
from trainer.engine.tensor import Tensor


class ModuleList(Module):
    """A list of modules, named "0", "1", …"""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        """Adds a module at the end."""
        setattr(self, str(len(self._children)), module)
        return self

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._children.values())

    def __getitem__(self, index: int | slice) -> Any:
        chosen = list(self._children.values())[index]
        return type(self)(*chosen) if isinstance(index, slice) and isinstance(self, Sequential) else chosen


class Sequential(ModuleList):
    """Modules applied one after the other."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for module in self._children.values():
            x = module(x)
        return x


class Identity(Module):
    """Returns x unchanged, in any shape."""

    def forward(self, x: Any) -> Any:
        return x


class Flatten(Module):
    """Merges the axes from `start` to `end` (inclusive) into one; [N, C, H, W] becomes [N, C·H·W] by default."""

    def __init__(self, start: int = 1, end: int = -1) -> None:
        self.start, self.end = start, end

    def forward(self, x: Tensor) -> Tensor:
        start, end = self.start % x.ndim, self.end % x.ndim
        if start > end:
            raise TrainerError("Flatten: wrong axes", found=f"start {self.start}, end {self.end}, shape {x.shape}")
        merged = 1
        for extent in x.shape[start : end + 1]:
            merged *= extent
        return reshape(x, (*x.shape[:start], merged, *x.shape[end + 1 :]))


class Unflatten(Module):
    """Splits one axis into several: the reverse of `Flatten`."""

    def __init__(self, axis: int, sizes: tuple[int, ...]) -> None:
        self.axis, self.sizes = axis, tuple(sizes)

    def forward(self, x: Tensor) -> Tensor:
        axis = self.axis % x.ndim
        return reshape(x, (*x.shape[:axis], *self.sizes, *x.shape[axis + 1 :]))
