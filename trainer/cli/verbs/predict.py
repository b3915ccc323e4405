"""`trainer predict`: predicts with the model of a run: on images, on texts, on time series."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from trainer.cli.output import Style, paint

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.learner.inference.model import Model
    from trainer.learner.inference.results import Result
    from trainer.learner.inference.sequence_model import Forecast

EXAMPLES = """\
  trainer predict cells photo.jpg                draws into predictions/
  trainer predict cells photos/ --out found --threshold 0.5
  trainer predict cells photos/ --format coco --out found.json
  trainer predict cells photos/*.png --json      one line of JSON per image
  ls photos/*.jpg | trainer predict cells -      paths on standard input
  trainer predict plays --prompt "ROMEO:" --tokens 500 --temperature 0.8
  trainer predict names --prompts names.txt      the class of each line
  trainer predict sales sales.csv                the rows that follow the last ones
"""

FORMATS = ("images", "txt", "coco", "masks")
DEFAULT_OUT = "predictions"


def describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run, its name in runs/, a checkpoint or an exported file")
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="image files, folders, glob patterns, or - for paths from standard input; tables of a time series",
    )
    parser.add_argument(
        "--out", metavar="DIR",
        help=f"output folder, or output file with `--format coco` (default: {DEFAULT_OUT}, {DEFAULT_OUT}.json)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one line of JSON per image; draw only with --out")
    parser.add_argument(
        "--threshold", type=float, metavar="T", help="score threshold; lower-scoring objects are dropped"
    )
    parser.add_argument("--classes", metavar="A,B", help="only objects of these classes, separated by commas")
    parser.add_argument(
        "--format", choices=FORMATS, default="images",
        help="images: drawn into the image; txt: one line per object; coco: one results file; masks: PNG of class or "
        "object numbers",
    )  # fmt: skip
    parser.add_argument(
        "--weights", default="best", metavar="W", help="weights: best (default), latest, or a checkpoint's name"
    )
    parser.add_argument("--batch-size", type=int, metavar="N", help="images per batch; results don't depend on it")
    texts = parser.add_argument_group("texts")
    texts.add_argument("--prompt", action="append", metavar="TEXT", help="text to continue or to classify; repeatable")
    texts.add_argument("--prompts", metavar="FILE", help="file with a text per line; -: standard input")
    texts.add_argument("--tokens", type=int, default=200, metavar="N", help="tokens to generate (default: 200)")
    texts.add_argument("--temperature", type=float, default=1.0, metavar="T",
                       help="randomness; 0: always the likeliest token (default: 1)")  # fmt: skip
    texts.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens only")
    texts.add_argument("--top-p", type=float, metavar="P",
                       help="draw from the likeliest tokens with this total probability only")  # fmt: skip
    texts.add_argument("--beams", type=int, metavar="N", help="beam search with N beams instead of drawing")
    texts.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the drawn tokens (default: 0)")
    parser.add_argument("--device", metavar="D", help="device instead of the run's own: cpu, cuda, cuda:N or reference")


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from trainer import TrainerError
    from trainer.cli.exit_codes import DONE, FAILURE
    from trainer.cli.models import load_model, warnings_as_lines
    from trainer.cli.progress_line import ProgressLine
    from trainer.learner.inference.model import BATCH_SIZE

    threshold = arguments.threshold
    if threshold is not None and not 0 <= threshold <= 1:
        raise TrainerError(
            "invalid score threshold", where="--threshold", found=threshold, expected="a number from 0 to 1"
        )
    if arguments.prompt or arguments.prompts:
        return _predict_texts(arguments)
    sources = list(_sources(arguments.inputs))
    if not arguments.inputs:
        raise TrainerError("nothing to predict", expected="images, a table, or --prompt TEXT")
    if not sources:
        raise TrainerError("no input images", found="nothing on standard input", expected="one path per line")
    with warnings_as_lines():
        model = load_model(arguments.run, arguments.weights, device=arguments.device)
    if model.kind == "forecast":
        _refuse_image_options(arguments)
        return _forecast(model, [path for path, _ in sources], is_json=arguments.json)
    if model.kind in ("text", "text_classification"):
        raise TrainerError(
            "the model needs texts", where=arguments.run, found="files", expected="--prompt TEXT, or --prompts FILE"
        )
    writes = not arguments.json or arguments.out is not None
    out = Path(arguments.out or (f"{DEFAULT_OUT}.json" if arguments.format == "coco" else DEFAULT_OUT))
    writer = _WRITERS[arguments.format](model, out) if writes else None
    results = model.predict(
        iter([path for path, _ in sources]),
        score_threshold=threshold,
        classes=None if arguments.classes is None else [name.strip() for name in arguments.classes.split(",")],
        batch_size=BATCH_SIZE if arguments.batch_size is None else arguments.batch_size,
        on_error="skip",
    )
    line, bad = ProgressLine(), 0
    show = line.of("pictures")
    for number, (result, (_, relative)) in enumerate(zip(results, sources, strict=True), start=1):
        if result.error is not None:
            bad += 1
            line.clear()
            print(f"skipped: {result.error}", file=sys.stderr)
        elif writer is not None:
            writer.add(result, relative)
        if arguments.json:
            _print_json(result.to_dict())
        elif result.error is None:
            line.clear()
            print(f"{result.path}: {result.summary()}")
        show(number, len(sources))
    line.clear()
    if writer is not None and bad < len(sources):
        print(f"{len(sources) - bad} of {len(sources)} pictures: {writer.close()}", file=sys.stderr)
    if bad:
        print(f"{bad} of {len(sources)} inputs were skipped", file=sys.stderr)
    return FAILURE if bad else DONE


def _predict_texts(arguments: argparse.Namespace) -> int:
    """Continues or classifies the prompts."""
    from trainer import TrainerError
    from trainer.cli.exit_codes import DONE
    from trainer.cli.models import load_model, warnings_as_lines

    if arguments.inputs:
        raise TrainerError(
            "prompts and files are both given", found=", ".join(arguments.inputs), expected="one of them"
        )
    prompts = [*(arguments.prompt or ()), *_lines(arguments.prompts)]
    if not prompts:
        raise TrainerError("no prompts", where=arguments.prompts, found="an empty file", expected="a text per line")
    _refuse_image_options(arguments)
    with warnings_as_lines():
        model = load_model(arguments.run, arguments.weights, device=arguments.device)
    if model.kind == "text_classification":
        batch_size = {} if arguments.batch_size is None else {"batch_size": arguments.batch_size}
        for result in model.classify(prompts, **batch_size):
            if arguments.json:
                _print_json(result.to_dict())
            else:
                print(f"{result.text}: {result.summary()}")
        return DONE
    for prompt in prompts:
        pieces = model.generate(
            prompt, tokens=arguments.tokens, temperature=arguments.temperature, top_k=arguments.top_k,
            top_p=arguments.top_p, seed=arguments.seed, beams=arguments.beams,
        )  # fmt: skip
        if arguments.json:
            _print_json({"version": 1, "kind": "text", "prompt": prompt, "text": "".join(pieces)})
            continue
        paint(sys.stdout, (prompt, Style.HEADING))
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        print(flush=True)
    return DONE


def _refuse_image_options(arguments: argparse.Namespace) -> None:
    """Raises `TrainerError` for options that only predictions on images use."""
    from trainer import TrainerError

    given = {
        "--out": arguments.out is not None, "--threshold": arguments.threshold is not None,
        "--classes": arguments.classes is not None, "--format": arguments.format != "images",
    }  # fmt: skip
    if any(given.values()):
        raise TrainerError(
            "an option is for images only", found=", ".join(name for name, is_given in given.items() if is_given),
            expected="predictions on images", hint="Predictions of texts and series are printed: redirect them with >.",
        )  # fmt: skip


def _lines(file: str | None) -> list[str]:
    """The nonempty lines of a file of prompts."""
    from pathlib import Path

    from trainer.datasets.readers.files import read_text

    if file is None:
        return []
    text = sys.stdin.read() if file == "-" else read_text(Path(file))
    return [line for line in text.split("\n") if line]


def _forecast(model: Model, paths: Sequence[Path], *, is_json: bool) -> int:
    from trainer.cli.exit_codes import DONE

    for path in paths:
        found: Forecast = model.forecast(path)
        if is_json:
            _print_json(found.to_dict())
        else:
            print(found.to_csv(), end="")
    return DONE


def _sources(words: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """Yields each image's path, and the path of its output files relative to the output folder."""
    import glob
    from pathlib import Path

    from trainer import TrainerError
    from trainer.learner.inference.model import pictures_in

    for word in words:
        if word == "-":
            lines = (one.rstrip("\r\n") for one in sys.stdin)
            yield from ((Path(one), Path(Path(one).name)) for one in lines if one)
            continue
        place = Path(word)
        if place.is_dir():
            yield from ((path, path.relative_to(place)) for path in pictures_in(place))
        elif not place.exists() and glob.has_magic(word):
            found = sorted(glob.glob(word, recursive=True))
            if not found:
                raise TrainerError("no file matches the pattern", found=word)
            yield from ((Path(one), Path(Path(one).name)) for one in found if Path(one).is_file())
        else:
            yield place, Path(place.name)


def _print_json(value: Any) -> None:
    import json

    print(json.dumps(value, separators=(",", ":")))


class _Writer:
    """Writes results. Files with the same name from different folders get a number.

    Raises `TrainerError` in `__init__` if the format doesn't support the model's results.
    """

    kinds: tuple[str, ...] = ("classification", "detections", "instances", "semantic", "image")
    suffix = ""

    def __init__(self, model: Model, out: Path) -> None:
        from trainer import TrainerError

        if model.kind not in self.kinds:
            raise TrainerError("the format doesn't support the model's results", where="--format", found=model.kind,
                               expected=f"a model for {' or '.join(self.kinds)}")  # fmt: skip
        self.out = out
        self._taken: set[Path] = set()

    def add(self, result: Result, relative: Path) -> None:
        """Writes a result under the name of its image."""
        from trainer.rundir import write_error

        target = self._free(self.out / relative.with_suffix(self.suffix or _drawable(relative)))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self.write(result, target)
        except OSError as error:
            raise write_error(target, error) from error

    def write(self, result: Result, target: Path) -> None:
        """Writes the file of one result."""
        result.save(target)

    def close(self) -> str:
        """Finishes writing; returns the location."""
        return str(self.out)

    def _free(self, target: Path) -> Path:
        number, free = 2, target
        while free in self._taken:
            free, number = target.with_stem(f"{target.stem}-{number}"), number + 1
        self._taken.add(free)
        return free


class _Text(_Writer):
    """One line per object: class, then center, width and height as fractions of the image, then the score.

    For classification, the classes sorted by score: name and score.
    """

    kinds = ("classification", "detections", "instances")
    suffix = ".txt"

    def write(self, result: Any, target: Path) -> None:
        if result.kind == "classification":
            lines = [f"{name} {score:.6f}" for name, score in result.top()]
        else:
            height, width = result.size
            lines = [
                f"{label} {(left + right) / 2 / width:.6f} {(top + bottom) / 2 / height:.6f} "
                f"{(right - left) / width:.6f} {(bottom - top) / height:.6f} {score:.6f}"
                for (left, top, right, bottom), label, score in zip(
                    result.boxes.tolist(), result.classes.tolist(), result.scores.tolist(), strict=True
                )
            ]
        target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class _Masks(_Writer):
    """A PNG of each image's size: class indices (8 bits), or object numbers (16 bits, 0: background)."""

    kinds = ("instances", "semantic")
    suffix = ".png"

    def write(self, result: Any, target: Path) -> None:
        import numpy as np
        from PIL import Image

        numbers = result.labels if result.kind == "semantic" else result.segments.astype(np.uint16)
        Image.fromarray(numbers).save(target)


class _Coco(_Writer):
    """One file: a COCO results list."""

    kinds = ("detections", "instances")

    def __init__(self, model: Model, out: Path) -> None:
        super().__init__(model, out)
        self._entries: list[dict[str, Any]] = []

    def add(self, result: Result, relative: Path) -> None:
        self._entries += result.to_coco()

    def close(self) -> str:
        import json

        from trainer.rundir import write_error

        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self.out.write_text(json.dumps(self._entries, separators=(",", ":")), encoding="utf-8")
        except OSError as error:
            raise write_error(self.out, error) from error
        return str(self.out)


_WRITERS: dict[str, Callable[[Model, Path], _Writer]] = {
    "images": _Writer, "txt": _Text, "coco": _Coco, "masks": _Masks,
}  # fmt: skip


def _drawable(path: Path) -> str:
    """The file extension of a drawn image: that of the image if it can be written."""
    from trainer.learner.inference.drawing import FORMATS as KNOWN

    return path.suffix if path.suffix.lower() in KNOWN else ".png"
