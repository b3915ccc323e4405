"""`trainer export`: writes a run's model to one file that predicts without the run and without the task's code."""

from __future__ import annotations

import argparse

EXAMPLES = """\
  trainer export cells                               cells.model, best weights
  trainer export cells out/cells.model --weights latest
  trainer export cells --size 480x640 --size 640x480
"""

SINKS = ("csv", "tensorboard", "wandb", "mlflow")
ENDING = ".model"


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory, its name in runs/, or a checkpoint")
    parser.add_argument("out", nargs="?", metavar="OUT", help="the new file (default: the run's name with .model)")
    parser.add_argument("--to", default="trainer", metavar="FORMAT", help="format: trainer (default)")
    parser.add_argument(
        "--weights",
        default="best",
        metavar="NAME",
        help="weights: best (default), latest, or a checkpoint such as step-300",
    )
    parser.add_argument(
        "--size", action="append", default=[], metavar="HEIGHTxWIDTH",
        help="a size of input images in pixels, needed if the transforms don't produce a fixed size; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--license", metavar="TEXT", help="license of the training data (default: from the data folder)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer import TrainerError
    from trainer.cli.models import load_model

    if arguments.to != "trainer":
        is_sink = arguments.to in SINKS
        raise TrainerError(
            f"models can't be exported to {arguments.to}", expected="trainer",
            hint=f"To export a run's metrics to it: trainer runs export RUN --to {arguments.to}" if is_sink else None,
        )  # fmt: skip
    sizes = [size_of(text) for text in arguments.size]
    out = Path(arguments.out or f"{Path(arguments.run).resolve().name}{ENDING}")
    if out.is_dir():
        raise TrainerError("the path is a folder", where=str(out), expected="the path of a file to write")
    if out.exists() and not arguments.force:
        raise TrainerError("the file already exists", where=str(out), hint="--force replaces it.")
    model = load_model(arguments.run, arguments.weights)
    model.export(out, picture_sizes=sizes, data_license=arguments.license)
    print(f"{out}: {model.kind} of {model.about.task}, {model.about.weights}, {out.stat().st_size / 1e6:.1f} MB")
    return 0


def size_of(text: str) -> tuple[int, int]:
    """(height, width) from text such as 480x640.

    Raises:
        TrainerError: the text is not a size.
    """
    from trainer import TrainerError

    height, by, width = text.partition("x")
    if not by or not (height.isdecimal() and width.isdecimal()) or not (int(height) and int(width)):
        raise TrainerError("invalid image size", where="--size", found=text, expected="HEIGHTxWIDTH, such as 480x640")
    return int(height), int(width)
