"""Exported models of texts and series: one file with programs, and the vocabulary or the scaling as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from trainer import TrainerError, engine
from trainer.datasets import Scaling, Vocabulary
from trainer.datasets.byte_pairs import BYTES
from trainer.datasets.vocabulary import END, PADDING, UNKNOWN, Unit
from trainer.engine import LoadedProgram, Tensor
from trainer.engine.export import ProgramFile, capture_program, save_programs
from trainer.learner.exported.card import Card
from trainer.learner.exported.manifest import MOST_CLASSES, NUMERICS, evaluation_from, is_plain
from trainer.learner.exported.types import misfit
from trainer.learner.generation import PIECE
from trainer.learner.inference.sequences import Forecasting, SequencePipeline, TextClassification, TextGeneration

ENTRY, FORMAT, VERSION = "sequence model", "trainer sequence model", 1

STEP, BEGIN, READ, NETWORK = "step", "begin", "read", "network"
"""The names of the programs of a text generator (its step, its state before the first token, and if it has them `read`
and `network`), and of a forecast.
"""

MOST = 1 << 31
"""Numbers in a manifest are below this limit."""


@dataclass(frozen=True)
class SequenceManifest:
    """The description of a model, apart from its programs; a field that its kind does not use is empty.

    Attributes:
        kind: text, text_classification or forecast.
        numerics: the settings under which the model was validated. card: its origin, as plain data.
        evaluation: `data` and `metrics` of the config of its validation.
        class_names: the classes of a classification. unit, tokens: the vocabulary.
        lengths: the lengths to which texts are padded; one program for each.
        capacity: maximum number of tokens, including the prompt; None: unlimited.
        columns, means, deviations: the scaling. targets, input_length, date: as in `Forecasting`.
    """

    kind: str
    numerics: Mapping[str, str]
    card: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    class_names: tuple[str, ...] = ()
    unit: str = ""
    tokens: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    capacity: int | None = None
    columns: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()
    targets: int = 0
    input_length: int = 0
    date: str | None = None

    @property
    def origin(self) -> Card:
        """The card."""
        return Card(**self.card)


def write_sequence(
    path: str | Path, pipeline: SequencePipeline, *, numerics: Mapping[str, str], card: Card,
    evaluation: Mapping[str, Any], precision: str,
) -> None:  # fmt: skip
    """Writes a pipeline, whose modules are in inference mode, as one file without code.

    The `network` of a text generator becomes a program for texts of the reader's `length` in `evaluation`.

    Raises:
        TrainerError: a text classification has no lengths, an operation can't be exported, or the file can't be
            written.
    """
    common: dict[str, Any] = {
        "kind": pipeline.kind, "numerics": dict(numerics), "card": card.to_json(), "evaluation": evaluation,
    }  # fmt: skip
    with engine.autocast(precision):
        if isinstance(pipeline, TextGeneration):
            first = pipeline.begin(1)
            state = {name: np.asarray(array) for name, array in _arrays(first).items()}
            programs = {
                BEGIN: capture_program(lambda: _arrays(pipeline.begin(1))),
                STEP: capture_program(_stating(pipeline.step, first), state, np.zeros(1, np.int32), any_batch=True),
            }
            if pipeline.read is not None:
                piece = np.zeros((1, PIECE), np.int32)
                programs[READ] = capture_program(_stating(pipeline.read, first), state, piece, any_batch=True)
            count = _length(evaluation)
            if pipeline.network is not None and count is not None:
                network, whole = pipeline.network, np.zeros((1, count), np.int32)
                programs[NETWORK] = capture_program(lambda tokens: {"logits": network(tokens)}, whole, any_batch=True)
            found = SequenceManifest(**common, **_words(pipeline.vocabulary), capacity=pipeline.capacity)
        elif isinstance(pipeline, TextClassification):
            if not pipeline.lengths:
                raise TrainerError(
                    "an exported model needs a program for each length of texts",
                    expected="a pipeline with `lengths`, such as those of the loader",
                )
            programs = {
                str(length): capture_program(
                    pipeline.network, np.zeros((1, length), np.int32), np.ones(1, np.int64), any_batch=True
                )
                for length in pipeline.lengths
            }
            found = SequenceManifest(
                **common, **_words(pipeline.vocabulary), class_names=pipeline.class_names, lengths=pipeline.lengths
            )
        else:
            scaling = pipeline.scaling
            history = np.zeros((1, pipeline.input_length, len(scaling.columns)), np.float32)
            programs = {NETWORK: capture_program(lambda history: {"future": pipeline.network(history)}, history,
                                                 any_batch=True)}  # fmt: skip
            found = SequenceManifest(
                **common, **asdict(scaling), targets=pipeline.targets, input_length=pipeline.input_length,
                date=pipeline.date,
            )  # fmt: skip
    text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(found)}, allow_nan=False)
    _manifest_from(json.loads(text), str(path))  # only a readable file is written
    save_programs(path, programs, {ENTRY: text})


def read_sequence(file: ProgramFile, data: Any, where: str) -> tuple[SequenceManifest, SequencePipeline]:
    """Reads the model of a file: its manifest from plain data, and its pipeline.

    Raises:
        TrainerError: the manifest or a program does not follow docs/export.md.
    """
    manifest = _manifest_from(data, where)
    programs: dict[str, LoadedProgram] = dict(file.programs)
    if manifest.kind == Forecasting.kind:
        columns, targets = len(manifest.columns), manifest.targets
        network = _program(programs, NETWORK, where)
        _check(network, {"history": ("float32", ("batch", manifest.input_length, columns))}, where)
        _need(list(network.outputs) == ["future"] and network.outputs["future"][1][2:] == (targets,), where, "outputs")
        pipeline: SequencePipeline = Forecasting(
            Scaling(manifest.columns, manifest.means, manifest.deviations), targets, manifest.input_length,
            lambda history: network(history)["future"], manifest.date,
        )  # fmt: skip
    elif manifest.kind == TextClassification.kind:
        found = {length: _program(programs, str(length), where) for length in manifest.lengths}
        for length, program in found.items():
            _check(program, {"tokens": ("int32", ("batch", length)), "length": ("int64", ("batch",))}, where)
            _logits(program, ("batch", len(manifest.class_names)), where)
        pipeline = TextClassification(
            manifest.class_names, _vocabulary(manifest), _by_length(found, manifest), manifest.lengths
        )
    else:
        begin, step = _program(programs, BEGIN, where), _program(programs, STEP, where)
        read, whole = (programs.pop(name) if name in programs else None for name in (READ, NETWORK))
        for advance, extents in ((step, ("batch",)), (read, ("batch", PIECE))):
            if advance is not None:
                _check_state(begin, advance, extents, where)
                _logits(advance, ("batch", len(manifest.tokens)), where)
        if whole is not None:
            count = _length(manifest.evaluation)
            _need(count is not None, where, "the length of evaluated texts", count)
            _check(whole, {"tokens": ("int32", ("batch", count))}, where)
            _logits(whole, ("batch", count, len(manifest.tokens)), where)
        pipeline = TextGeneration(
            _vocabulary(manifest), _begin(begin), _stepping(step), capacity=manifest.capacity,
            read=None if read is None else _stepping(read), network=None if whole is None else _network(whole),
        )  # fmt: skip
    _need(not programs, where, "an unknown program", ", ".join(map(ascii, programs)))
    return manifest, pipeline


def _length(evaluation: Mapping[str, Any]) -> int | None:
    """The number of tokens of evaluated texts that the network receives: all but the last one."""
    length = (evaluation["data"]["reader"] or {}).get("length")
    return length - 1 if type(length) is int and length > 1 else None


def _words(vocabulary: Vocabulary) -> dict[str, Any]:
    return {"unit": vocabulary.unit, "tokens": vocabulary.tokens}


def _vocabulary(manifest: SequenceManifest) -> Vocabulary:
    return Vocabulary(manifest.unit, manifest.tokens)  # type: ignore[arg-type]


def _arrays(state: Any, name: str = "") -> dict[str, Any]:
    """The arrays of a state by their paths: those of ({"h": a}, b) are "0.h" and "1"."""
    if isinstance(state, Mapping | list | tuple):
        parts = state.items() if isinstance(state, Mapping) else enumerate(state)
        nested = [_arrays(part, f"{name}.{key}" if name else str(key)) for key, part in parts]
        return {path: array for each in nested for path, array in each.items()}
    return {name or "0": state}


def _like(template: Any, arrays: Iterator[Any]) -> Any:
    """A state with the structure of `template` and other arrays, in the same order."""
    if isinstance(template, Mapping):
        return {key: _like(part, arrays) for key, part in template.items()}
    if isinstance(template, list | tuple):
        return type(template)([_like(part, arrays) for part in template])
    return next(arrays)


def _stating(advance: Callable[..., Any], first: Any) -> Callable[..., Any]:
    """Wraps a step so that its state, with the structure of `first`, is passed as arrays by name."""

    def step(state: Mapping[str, Tensor], tokens: Tensor) -> dict[str, Any]:
        following, logits = advance(_like(first, (state[name] for name in _arrays(first))), tokens)
        return {"state": _arrays(following), "logits": logits}

    return step


def _begin(program: LoadedProgram) -> Callable[[int], Any]:
    def begin(rows: int) -> dict[str, Tensor]:
        first = engine.zeros((rows,), dtype=engine.int32)
        return {name: engine.take(value, first, axis=0) for name, value in program().items()}

    return begin


def _stepping(program: LoadedProgram) -> Callable[[Any, Tensor], tuple[Any, Tensor]]:
    def step(state: Mapping[str, Tensor], tokens: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        found = program(**{f"state.{name}": value for name, value in state.items()}, tokens=tokens)
        return {name: found[f"state.{name}"] for name in state}, found["logits"]

    return step


def _network(program: LoadedProgram) -> Callable[[Tensor], Tensor]:
    return lambda tokens: program(tokens)["logits"]


def _by_length(programs: Mapping[int, LoadedProgram], manifest: SequenceManifest) -> Callable[..., Any]:
    def network(tokens: Tensor, length: Tensor) -> dict[str, Tensor]:
        if tokens.shape[1] not in programs:
            raise TrainerError("the text is longer than the exported model supports", found=f"{tokens.shape[1]} tokens",
                               expected=f"at most {manifest.lengths[-1]}")  # fmt: skip
        return programs[tokens.shape[1]](tokens, length)

    return network


def _manifest_from(data: Any, where: str) -> SequenceManifest:
    _need(isinstance(data, dict) and data.get("format") == FORMAT, where, "the format", expected=FORMAT)
    _need(data.get("version") == VERSION, where, "another version of the format", data.get("version"), VERSION)
    values = {
        key: value if key == "evaluation" else _frozen(value)
        for key, value in data.items()
        if key not in ("format", "version")
    }
    _need(
        values.keys() == {field.name for field in fields(SequenceManifest)}, where, "fields", sorted(map(str, values))
    )
    wrong = misfit(SequenceManifest, values) or misfit(Card, values["card"])
    _need(wrong is None and is_plain(data["card"]), where, f"the field {wrong or 'card'}")
    _need(values["card"].keys() == {field.name for field in fields(Card)}, where, "the card")
    evaluation_from(values["evaluation"], where)
    numerics = values["numerics"]
    is_known = numerics.keys() == NUMERICS.keys() and all(numerics[name] in NUMERICS[name] for name in NUMERICS)
    _need(is_known, where, "the numerics", numerics)
    found = SequenceManifest(**values)
    kinds = {kind.kind: kind for kind in (TextGeneration, TextClassification, Forecasting)}
    _need(found.kind in kinds, where, "the kind", found.kind, ", ".join(kinds))
    numbers = (found.targets, found.input_length, found.capacity or 1, *found.lengths)
    _need(all(0 <= number < MOST for number in numbers), where, "a number", numbers)
    _need(max(len(found.tokens), len(found.class_names)) <= MOST_CLASSES, where, "the number of names")
    if found.kind == Forecasting.kind:
        count = len(found.columns)
        is_whole = len(found.means) == len(found.deviations) == count >= found.targets >= 1 <= found.input_length
        is_finite = all(map(math.isfinite, (*found.means, *found.deviations)))
        _need(is_whole and is_finite, where, "the scaling")
    else:
        _need(found.unit in get_args(Unit) and _is_vocabulary(found), where, "the vocabulary", found.unit)
    if found.kind == TextClassification.kind:
        _need(bool(found.class_names) and bool(found.lengths), where, "the classes or lengths")
        _need(list(found.lengths) == sorted(set(found.lengths)) and found.lengths[0] > 0, where, "the lengths")
    return found


def _is_vocabulary(manifest: SequenceManifest) -> bool:
    """Whether the tokens are those of their unit: every token of bytes and byte pairs must be decodable, and every
    byte a token.
    """
    special = {PADDING, UNKNOWN, END}
    if manifest.unit == "bytes":
        every = Vocabulary.of("bytes", [], has_end=True).tokens
        return manifest.tokens in (every, every[:-1])
    if manifest.unit == "byte_pairs":
        is_decodable = all(token in special or set(token) <= BYTES.keys() for token in manifest.tokens)
        return is_decodable and BYTES.keys() <= set(manifest.tokens)
    return bool(manifest.tokens)


def _check(program: LoadedProgram, expected: Mapping[str, tuple[str, tuple[Any, ...]]], where: str) -> None:
    """Checks dtypes and shapes of the inputs, whatever their names."""
    found = [(dtype.name, tuple(shape)) for dtype, shape in program.inputs.values()]
    _need(found == list(expected.values()) and program.has_any_batch, where, "the inputs of a program", found,
          list(expected.values()))  # fmt: skip


def _logits(program: LoadedProgram, expected: tuple[Any, ...], where: str) -> None:
    dtype, shape = program.outputs.get("logits", (None, ()))
    _need(dtype is not None and dtype.name.startswith(("float", "bfloat")) and tuple(shape) == expected, where,
          "the logits of a program", shape, expected)  # fmt: skip


def _check_state(begin: LoadedProgram, step: LoadedProgram, extents: tuple[Any, ...], where: str) -> None:
    """Checks that the step accepts and returns the state that `begin` creates, and accepts tokens of these extents."""
    first = {f"state.{name}": (dtype.name, ("batch", *shape[1:])) for name, (dtype, shape) in begin.outputs.items()
             if shape[:1] == (1,)}  # fmt: skip
    given = {name: (dtype.name, tuple(shape)) for name, (dtype, shape) in step.inputs.items()}
    returned = {name: (dtype.name, tuple(shape)) for name, (dtype, shape) in step.outputs.items() if name != "logits"}
    is_fit = not begin.inputs and len(first) == len(begin.outputs) and step.has_any_batch
    expected = {**first, "tokens": ("int32", extents)}
    _need(is_fit and given == expected and returned == first, where, "the state", given, expected)


def _program(programs: dict[str, LoadedProgram], name: str, where: str) -> LoadedProgram:
    _need(name in programs, where, "a missing program", ", ".join(map(ascii, programs)), name)
    return programs.pop(name)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(one) for key, one in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _need(holds: bool, where: str, problem: str, found: object = None, expected: object = None) -> None:
    if not holds:
        shown = None if found is None else f"{found!r:.200}"
        raise TrainerError(f"not an exported model: {problem}", where=where, found=shown, expected=expected)
