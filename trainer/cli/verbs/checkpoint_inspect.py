"""`trainer checkpoint inspect`: lists the arrays of a checkpoint or a weights file."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer checkpoint inspect digits-2               the latest checkpoint of a run
  trainer checkpoint inspect resnet50.pth --json
  trainer checkpoint inspect training.pth --entry ema.state_dict
"""


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="a run or its name, a checkpoint, or a .safetensors, .pt, .pth or .npz file"
    )
    parser.add_argument(
        "--entry",
        metavar="NAME",
        help="`ema` for a checkpoint's averaged weights, or the key of a dictionary in a PyTorch file",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(arguments: argparse.Namespace) -> int:
    from trainer.cli.find import find_source
    from trainer.learner.weights import read_weights

    weights = read_weights(find_source(arguments.source), arguments.entry)
    arrays = weights.arrays
    total = sum(array.values.nbytes for array in arrays.values())
    if arguments.json:
        import json

        rows = {name: {"dtype": array.dtype.name, "shape": list(array.values.shape)} for name, array in arrays.items()}
        print(json.dumps({"path": str(weights.path), "format": weights.format, "bytes": total, "arrays": rows}))
        return 0
    elements = sum(array.values.size for array in arrays.values())
    print(f"{weights.path}: {weights.format}, {len(arrays)} arrays, {elements:,} numbers, {total / 1e6:.2f} MB")
    names = max(map(len, arrays), default=0)
    dtypes = max((len(array.dtype.name) for array in arrays.values()), default=0)
    for name, array in arrays.items():
        print(f"  {name:{names}}  {array.dtype.name:{dtypes}}  {list(array.values.shape)}")
    return 0
