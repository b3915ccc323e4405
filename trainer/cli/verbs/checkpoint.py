"""`trainer checkpoint`: look into checkpoints and files of weights, check them, turn them into others."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.learner.weights import Weights

EXAMPLES = """\
  trainer checkpoint inspect runs/digits            the arrays of the latest checkpoint
  trainer checkpoint inspect resnet50.pth --json
  trainer checkpoint verify runs/digits             compare every file of every checkpoint with its hash
  trainer checkpoint convert runs/digits net.safetensors --part network
                                                    for PyTorch: net.load_state_dict(safetensors.torch.load_file(...))
  trainer checkpoint convert training.pth weights.npz --entry ema --rename '^module\\.='
"""
SUFFIXES = (".safetensors", ".npz")


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("inspect", "verify", "convert"), help="what to do")
    parser.add_argument(
        "source", metavar="SOURCE", help="a run, a checkpoint, or a file: .safetensors, .pt, .pth, .npz"
    )
    parser.add_argument("target", nargs="?", metavar="TARGET", help="convert: a new .safetensors or .npz file")
    parser.add_argument("--entry", metavar="NAME", help="`ema` of a checkpoint, or a dictionary in a PyTorch file")
    parser.add_argument("--part", metavar="NAME", help="convert: this part of the model, without its name in front")
    parser.add_argument("--include", action="append", metavar="PATTERN", help="convert: only such names (repeatedly)")
    parser.add_argument("--exclude", action="append", metavar="PATTERN", help="convert: not such names (repeatedly)")
    parser.add_argument("--rename", action="append", metavar="REGEX=TEXT", help="convert: change names (repeatedly)")
    parser.add_argument("--json", action="store_true", help="the same as one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer import TrainerError

    if (arguments.action == "convert") != (arguments.target is not None):
        raise TrainerError("convert takes a SOURCE and a TARGET, inspect and verify a SOURCE",
                           hint="See `trainer checkpoint --help`.")  # fmt: skip
    source = Path(arguments.source)
    if arguments.action == "verify":
        return _verify(source, as_json=arguments.json)
    from trainer.learner.weights import read_weights

    weights = read_weights(source, arguments.entry)
    if arguments.action == "inspect":
        _inspect(weights, as_json=arguments.json)
    else:
        _convert(weights, Path(arguments.target), arguments)
    return 0


def _inspect(weights: Weights, *, as_json: bool) -> None:
    arrays = weights.arrays
    total = sum(array.values.nbytes for array in arrays.values())
    elements = sum(array.values.size for array in arrays.values())
    if as_json:
        import json

        rows = {name: {"dtype": array.dtype.name, "shape": list(array.values.shape)} for name, array in arrays.items()}
        print(json.dumps({"path": str(weights.path), "format": weights.format, "bytes": total, "arrays": rows}))
        return
    print(f"{weights.path}: {weights.format}, {len(arrays)} arrays, {elements:,} numbers, {total / 1e6:.2f} MB")
    names = max(map(len, arrays), default=0)
    dtypes = max((len(array.dtype.name) for array in arrays.values()), default=0)
    for name, array in arrays.items():
        print(f"  {name:{names}}  {array.dtype.name:{dtypes}}  {list(array.values.shape)}")


def _verify(place: Path, *, as_json: bool) -> int:
    """Check each checkpoint of a run, or the one that is named; 1 if any is damaged."""
    import json

    from trainer import TrainerError
    from trainer.learner.checkpoints import checkpoints_at, read_checkpoint

    damage: dict[str, str | None] = {}
    for folder in checkpoints_at(place):
        try:
            read_checkpoint(folder)
            damage[str(folder)] = None
        except TrainerError as error:
            damage[str(folder)] = str(error)
    if as_json:
        print(json.dumps({name: {"good": found is None, "problem": found} for name, found in damage.items()}))
    else:
        for name, found in damage.items():
            print(f"{name}: every file is as it was written" if found is None else f"DAMAGED {found}")
    return 1 if any(found is not None for found in damage.values()) else 0


def _convert(weights: Weights, target: Path, arguments: argparse.Namespace) -> None:
    from trainer import TrainerError
    from trainer.learner.weights import Selection
    from trainer.learner.weights.write import selected, write_weights

    if target.suffix not in SUFFIXES:
        raise TrainerError("no such format to write", where=str(target), found=target.suffix or "no ending",
                           expected=" or ".join(SUFFIXES))  # fmt: skip
    if target.exists():
        raise TrainerError("there is such a file already", where=str(target))
    renames = []
    for text in arguments.rename or ():
        pattern, found, replacement = text.partition("=")
        if not found:
            raise TrainerError("--rename takes REGEX=TEXT", found=text)
        renames.append((pattern, replacement))
    selection = Selection(tuple(arguments.include or ("*",)), tuple(arguments.exclude or ()), tuple(renames))
    arrays = selected(weights.arrays, selection, arguments.part or "", where=str(weights.path))
    size = write_weights(target, arrays)
    if arguments.json:
        import json

        print(json.dumps({"path": str(target), "bytes": size, "arrays": list(arrays)}))
    else:
        print(f"{target}: {len(arrays)} arrays of {weights.format}, {size / 1e6:.2f} MB")
