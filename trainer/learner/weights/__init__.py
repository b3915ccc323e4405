"""Loads initial weights from a file into a model or a part of it, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from trainer import TrainerError
from trainer.engine.nn import Module
from trainer.learner.weights.files import Weights, read_weights
from trainer.learner.weights.matching import Match, Selection, Shape, matched, shown
from trainer.learner.weights.sources import local_file

if TYPE_CHECKING:
    from trainer.configs import ModelConfig

__all__ = ["Match", "Selection", "Weights", "load_weights", "read_weights", "start_from"]


_DEPTH = 3
"""Maximum number of components in the name of a part that an error suggests, such as network.backbone."""


def start_from(config: ModelConfig, modules: Mapping[str, Module], head: Sequence[str] = ()) -> Iterator[str]:
    """Loads all weights of `model:`, the whole model before its parts; yields a line of text for each file.

    `head` has shell patterns of the names that may differ, as in `Task.head`.

    Raises:
        TrainerError: a file can't be read, or doesn't fit.
    """
    for part, section in config.sources().items():
        selection = Selection(section.include, section.exclude, tuple(section.rename.items()), section.strict)
        match = load_weights(local_file(section), modules, part, selection, section.entry, head)
        yield f"{section.weights}{f' for {part}' if part else ''}: {match.report()}"


def load_weights(
    path: Path,
    modules: Mapping[str, Module],
    part: str = "",
    selection: Selection | None = None,
    entry: str | None = None,
    head: Sequence[str] = (),
) -> Match:
    """Loads a file (see `read_weights` for formats) into a task's modules, or into one `part` of them.

    Names are "module.name", as in a checkpoint; with a single module, its own names work as well. A part is found in a
    file of a larger model. `part` is a module or a submodule: "net", "net.backbone"; or "backbone" with a single
    module. `head` has shell patterns of "module.name": these arrays keep their initial values if the file's differ.

    Raises:
        TrainerError: no such file or part; names or shapes differ; nothing matches. The model is then unchanged.
    """
    selection = selection or Selection()
    weights = read_weights(path, entry)
    prefix = _prefix(part, modules)
    shapes = _shapes(modules)
    inside = _inside(shapes, prefix)
    if not inside:
        raise TrainerError(f"the model has no part {part!r}", where="model.parts", expected=shown(_parts(modules)))
    in_file = {name: array.values.shape for name, array in weights.arrays.items()}
    first_names = _shapes(modules, each_once=True)
    heads = [{name for name in inside if fnmatchcase(prefix + name, pattern)} for pattern in head]
    try:
        match = matched(
            inside, in_file, selection, prefix,
            aliases={name for name in inside if prefix + name not in first_names}, heads=heads, is_part=bool(part),
        )  # fmt: skip
    except TrainerError as error:
        error.where = str(path)
        raise
    if not match.pairs or (match.problems and selection.is_strict):
        raise TrainerError(
            "the weights belong to another model", where=str(path),
            found="\n            ".join(match.problems or match.initialized),
            expected=f"the names of {part or 'the model'}, such as {shown(list(inside)[:3])}",
            hint=_remedy(shapes, in_file, modules, len(match.pairs))
            or "`trainer checkpoint inspect FILE` lists its contents. `include`, `exclude`, `rename` and "
            "`strict: false` next to `weights` load a part of it; the task's `head` names arrays that may differ.",
        )  # fmt: skip
    for module_name, module in modules.items():
        own = {
            place.removeprefix(f"{module_name}."): weights.arrays[origin].widened()
            for name, origin in match.pairs.items()
            if (place := prefix + name).startswith(f"{module_name}.")
        }
        module.load_state_dict(own, strict=False)
    return match


def _remedy(
    shapes: Mapping[str, Shape], file: Mapping[str, Shape], modules: Mapping[str, Module], fitting: int
) -> str | None:
    """Advice to load the part of the model that more than `fitting` arrays of the file fit, and whose names are all in
    the file; or None.
    """
    found, count = "", max(1, fitting)
    for part in _parts(modules):
        if part.count(".") < _DEPTH and (inside := _inside(shapes, f"{part}.")):
            with suppress(TrainerError):
                match = matched(inside, file, Selection(), f"{part}.", is_part=True)
                if not match.not_in_file and not match.not_in_model and len(match.pairs) > count:
                    found, count = part, len(match.pairs)
    if not found:
        return None
    name = found.partition(".")[2] if len(modules) == 1 and "." in found else found
    return (
        f"{count} arrays of the file fit {found}: set `model: {{parts: {{{name}: {{weights: …}}}}}}` instead of "
        "`model: {weights: …}`."
    )


def _inside(shapes: Mapping[str, Shape], prefix: str) -> dict[str, Shape]:
    return {name.removeprefix(prefix): shape for name, shape in shapes.items() if name.startswith(prefix)}


def _shapes(modules: Mapping[str, Module], *, each_once: bool = False) -> dict[str, tuple[int, ...]]:
    return {
        f"{module_name}.{name}": shape
        for module_name, module in modules.items()
        for name, shape in module.named_shapes(each_once=each_once).items()
    }


def _prefix(part: str, modules: Mapping[str, Module]) -> str:
    """The name prefix of a part; without a part, that of the only module."""
    only = next(iter(modules)) if len(modules) == 1 else ""
    if not part:
        return f"{only}." if only else ""
    return f"{part}." if part.partition(".")[0] in modules or not only else f"{only}.{part}."


def _parts(modules: Mapping[str, Module]) -> list[str]:
    return [f"{name}.{path}".rstrip(".") for name, module in modules.items() for path, _ in module.named_modules()]
