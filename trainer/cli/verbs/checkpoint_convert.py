"""`trainer checkpoint convert`: converts weights to `.safetensors` or `.npz`, with selection and renaming."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer checkpoint convert runs/digits net.safetensors --part network
                          for PyTorch: net.load_state_dict(safetensors.torch.load_file("net.safetensors"))
  trainer checkpoint convert runs/digits/checkpoints/best net.npz
  trainer checkpoint convert training.pth weights.npz --entry ema --rename '^module\\.='
  trainer checkpoint convert resnet50.pth backbone.safetensors --exclude 'fc.*'
"""
SUFFIXES = (".safetensors", ".npz")


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="a run or its name, a checkpoint, or a .safetensors, .pt, .pth or .npz file"
    )
    parser.add_argument("target", metavar="TARGET", help="the new .safetensors or .npz file")
    parser.add_argument(
        "--entry",
        metavar="NAME",
        help="`ema` for a checkpoint's averaged weights, or the key of a dictionary in a PyTorch file",
    )
    parser.add_argument(
        "--part", metavar="NAME", help="only this part of the model, with its name removed from the parameter names"
    )
    parser.add_argument(
        "--include", action="append", metavar="PATTERN", help="only parameters that match this pattern; may be repeated"
    )
    parser.add_argument(
        "--exclude", action="append", metavar="PATTERN", help="no parameters that match this pattern; may be repeated"
    )
    parser.add_argument(
        "--rename",
        action="append",
        metavar="REGEX=TEXT",
        help="replace a regular expression in parameter names first; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer import TrainerError
    from trainer.cli.find import find_source

    source, target = find_source(arguments.source), Path(arguments.target)
    if target.suffix not in SUFFIXES:
        raise TrainerError("unknown format of the target file", where=str(target),
                           found=target.suffix or "no file extension", expected=" or ".join(SUFFIXES))  # fmt: skip
    if target.exists():
        raise TrainerError("the file already exists", where=str(target))
    renames = []
    for text in arguments.rename or ():
        pattern, found, replacement = text.partition("=")
        if not found:
            raise TrainerError("--rename needs REGEX=TEXT", found=text)
        renames.append((pattern, replacement))
    from trainer.learner.weights import Selection, read_weights
    from trainer.learner.weights.files import normalization_of
    from trainer.learner.weights.write import selected, write_weights

    weights = read_weights(source, arguments.entry)
    selection = Selection(tuple(arguments.include or ("*",)), tuple(arguments.exclude or ()), tuple(renames))
    arrays = selected(weights.arrays, selection, arguments.part or "", where=str(weights.path))
    size = write_weights(target, arrays, normalization=normalization_of(weights.path))
    if arguments.json:
        import json

        print(json.dumps({"path": str(target), "bytes": size, "arrays": list(arrays)}))
    else:
        print(f"{target}: {len(arrays)} arrays of {weights.format}, {size / 1e6:.2f} MB")
    return 0
