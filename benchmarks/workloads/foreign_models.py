"""Reads exported models that are damaged, hostile or in another format, and checks that each is handled safely.

Each file is read, and a readable one predicts. Either this works, or one `TrainerError` names the file. Meanwhile no
code is run, no module is imported, no other file is opened, and memory stays within the limit.
"""

from __future__ import annotations

import copy
import io
import json
import pickle
import random
import resource
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.ma  # NumPy would import it lazily
from hostile import NAMES, Marker

from tests.learner.exported.models import PIPELINES, pictures, predicted, written
from tests.learner.exported.sequence_models import SEQUENCES, written_sequence
from trainer import TrainerError, engine
from trainer.engine.export import load_programs
from trainer.engine.safetensors import decoded, encoded, parsed
from trainer.learner.exported import read_exported
from trainer.learner.exported.manifest import ENTRY
from trainer.learner.exported.sequences import ENTRY as SEQUENCE
from trainer.learner.exported.sequences import SequenceManifest, read_sequence
from trainer.learner.exported.types import hints_of
from trainer.learner.inference import Forecasting, TextGeneration
from trainer.learner.inference.model import About, Model
from trainer.learner.inference.preparing import _TRANSFORMS, class_of
from trainer.learner.inference.sequences import SequencePipeline
from trainer.learner.inference.steps import _KINDS

MEMORY_BYTES = 500_000_000
"""Memory limit of a model; the process may grow by twice as much."""
LONGEST_LINE = 500
"""Maximum characters of an error's first line, without the file's path."""

JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 64, 2**31, 2**63, 10**400, 0.5, 1e308, "", "x", "../../etc/passwd", "uint8", "int64", [],
    {}, [1], [[0]], {"batch": 1, "plus": 0}, {"batch": 2**47, "plus": -1}, {"batch": -1, "plus": 2},
)  # fmt: skip
ODD_SETTINGS: tuple[Any, ...] = (
    {}, [], {"size": [10**9, 1]}, {"size": 8000}, {"size": [0, 0]}, {"size": [1, 1, 1]}, {"size": "x"}, {"fill": -1},
    {"interpolation": "../x"}, {"size": None, "multiple": None},
)  # fmt: skip

FORBIDDEN = frozenset(
    {"exec", "compile", "import", "marshal.loads", "pickle.find_class", "os.system", "os.exec", "os.fork",
     "os.posix_spawn", "os.remove", "os.rename", "os.mkdir", "subprocess.Popen", "socket.connect", "ctypes.dlopen"}
)  # fmt: skip
"""Audit events of the interpreter that reading a model must not cause."""

_watched: list[tuple[str, str]] | None = None
_allowed_file = ""


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is None:
        return
    is_other_file = event == "open" and str(arguments[0]) != _allowed_file
    if event in FORBIDDEN or is_other_file:
        _watched.append((event, repr(arguments)[:200]))


class ForeignModels:
    """Writes changed files to `folder`, one after another, and reads each; `seed` decides the changes."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.marker = folder / "MARKER"
        self.originals: list[bytes] = []
        for kind in (*PIPELINES, *SEQUENCES):
            (written if kind in PIPELINES else written_sequence)(folder / kind, kind)
            self.originals.append((folder / kind).read_bytes())
            read_and_predict(folder / kind)  # imports all modules that reading needs
        engine.save_program(folder / "program", lambda x: x * 2, np.zeros((1, 3), np.float32), any_batch=True)
        self.program = (folder / "program").read_bytes()
        self._peak = _peak_bytes() + 2 * MEMORY_BYTES
        for kind in (*_KINDS.values(), *map(class_of, _TRANSFORMS), SequenceManifest):
            hints_of(kind)  # Python evaluates their annotations only once
        sys.addaudithook(_on_event)

    def once(self) -> str:
        """Writes and reads one more file; returns the problem in words, or "" if there is none."""
        name, make = self.random.choice(WAYS)
        path = self.folder / "foreign.model"
        path.write_bytes(make(self))
        problem = ""
        with _watching(path) as events:
            try:
                read_and_predict(path)
            except TrainerError as error:
                problem = _unclear(str(error), str(path))
            except BaseException as error:
                problem = f"{type(error).__name__}: {str(error)[:300]}"
        if events:
            problem = f"{events[0]}"
        if self.marker.exists():
            self.marker.unlink()
            problem = "code in the file was run"
        if _peak_bytes() > self._peak:
            problem, self._peak = f"the process's memory rose to {_peak_bytes() / 1e9:.1f} GB", _peak_bytes()
        if problem:
            (self.folder / f"kept-{len(list(self.folder.iterdir()))}").write_bytes(path.read_bytes())
        return f"{name}: {problem}" if problem else ""


def read_and_predict(path: Path) -> None:
    """Reads a model and predicts with it as a command does, on the device that compiles nothing."""
    file = load_programs(path, memory=MEMORY_BYTES)
    with engine.device("reference"), warnings.catch_warnings(action="ignore"):  # changed weights may be NaN
        if SEQUENCE in file.metadata:
            _predict_sequence(read_sequence(file, parsed(file.metadata[SEQUENCE], str(path)), str(path))[1], str(path))
            return
        exported = read_exported(path, memory=MEMORY_BYTES, file=file)
        for picture in pictures()[:2]:
            predicted(exported.pipeline, picture)


def _predict_sequence(pipeline: SequencePipeline, path: str) -> None:
    if isinstance(pipeline, Forecasting):
        pipeline.network(np.zeros((1, pipeline.input_length, len(pipeline.scaling.columns)), np.float32))
        return
    model = Model(pipeline, About("foreign", path, "foreign"), device="reference")
    try:
        if isinstance(pipeline, TextGeneration):
            list(model.generate("ab" * 40, tokens=3))
            list(model.generate("ab", tokens=2, beams=2))
        else:
            model.classify(["ab", "abcd" * 2])
    except TrainerError as error:  # about the text, or about logits that are not numbers
        error.where = error.where or path
        raise


def _unclear(said: str, path: str) -> str:
    first = said.splitlines()[0] if said else ""
    if path not in said:
        return f"the message does not name the file: {said[:300]}"
    if len(first.replace(path, "")) > LONGEST_LINE or "Traceback" in said:
        return f"not one sentence: {said[:300]}"
    return ""


@contextmanager
def _watching(path: Path) -> Iterator[list[tuple[str, str]]]:
    global _watched, _allowed_file
    events: list[tuple[str, str]] = []
    _watched, _allowed_file = events, str(path)
    try:
        yield events
    finally:
        _watched = None


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# --- ways -------------------------------------------------------------------------------------------------------------


def _flipped(models: ForeignModels) -> bytes:
    changed, chance = bytearray(chance_of(models)), models.random
    for _ in range(chance.choice((1, 1, 3, 30))):
        at = chance.randrange(len(changed))
        changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(models: ForeignModels) -> bytes:
    whole = chance_of(models)
    at = models.random.choice((0, 1, 7, 8, 9, models.random.randrange(len(whole)), len(whole) - 1))
    return whole[:at] if models.random.random() < 0.7 else whole[:at] + whole[at + models.random.randint(1, 40) :]


def _longer(models: ForeignModels) -> bytes:
    whole, chance = chance_of(models), models.random
    more = chance.choice((b"\0", chance.randbytes(40), whole))
    at = chance.choice((0, len(whole), chance.randrange(len(whole))))
    return whole[:at] + more + whole[at:]


def _headed(models: ForeignModels) -> bytes:
    """Changes the header: lengths, offsets and shapes beyond the data, or the same bytes twice."""
    whole, chance = chance_of(models), models.random
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    name = chance.choice([name for name in header if name != "__metadata__"])
    entry = dict(header[name])
    change = chance.choice(("shape", "data_offsets", "dtype", "name", "twice", "length"))
    if change == "shape":
        entry["shape"] = chance.choice(([2**40], [-1], [10**400], "x", [1.5], [True], [[1]], None))
    elif change == "data_offsets":
        entry["data_offsets"] = chance.choice(([0, 2**62], [8, 0], [0], [-8, 0], [0, 4], None, ["0", "4"]))
    elif change == "dtype":
        entry["dtype"] = chance.choice(("F8", "O", 3, None, "BOOL", "F64"))
    if change == "name":
        del header[name]
        header[chance.choice(NAMES)] = entry
    elif change == "twice":
        header["again"] = entry  # the same bytes for two arrays
    else:
        header[name] = entry
    text = json.dumps(header).encode()
    claimed = chance.choice((0, 2**31, 2**63, 2**64 - 1, len(text) - 1)) if change == "length" else len(text)
    return struct.pack("<Q", claimed) + text + whole[8 + length :]


def _described(models: ForeignModels) -> bytes:
    """Changes the manifest or the program: replaces, removes and adds values."""
    chance = models.random
    arrays, metadata = decoded(chance_of(models), "")
    for _ in range(chance.choice((1, 1, 2, 5))):
        entry = SEQUENCE if SEQUENCE in metadata else ENTRY
        key = chance.choice((entry, entry, *metadata))
        try:
            document = json.loads(metadata[key])
        except (KeyError, ValueError):
            continue
        if places := list(_places(document)):
            _change(document, chance.choice(places), chance)
        metadata[key] = json.dumps(document)
    if chance.random() < 0.1:
        key = chance.choice(list(metadata))
        moved = metadata.pop(key)
        if chance.random() < 0.5:
            metadata[chance.choice((*NAMES[:4], "program 8x8", "program", "code"))] = moved
    return encoded(arrays, metadata)


def _stepped(models: ForeignModels) -> bytes:
    """Makes steps of image models invalid: other names, versions, parameters."""
    chance = models.random
    arrays, metadata = decoded(chance.choice(models.originals[: len(PIPELINES)]), "")
    manifest = json.loads(metadata[ENTRY])
    step = chance.choice(manifest[chance.choice(("prepare", "finish"))])
    change = chance.randrange(5)
    if change == 0:
        step["name"] = chance.choice(
            ("os.system", "__class__", "decode", "tile", "transform", "softmax", "label_pixels")
        )
    elif change == 1:
        step["version"] = chance.choice((0, 2, True, "1", None, 10**30))
    elif change == 2:
        step[chance.choice(("__init__", "path", "name", "module"))] = chance.choice(("os", "../../etc/passwd", 1))
    elif change == 3 and "settings" in step:
        step["settings"] = chance.choice(ODD_SETTINGS)
    else:
        numbers = [place for place in _places(step) if type(_at(step, place)) in (int, float) and place != ("version",)]
        if numbers:
            _put(step, chance.choice(numbers), chance.choice((0, -1, 1, 10**9, 2**70, 0.5, 1e308, 8192, 7)))
    metadata[ENTRY] = json.dumps(manifest)
    return encoded(arrays, metadata)


def _foreign(models: ForeignModels) -> bytes:
    """Returns a file in another format; some of them run code if their own library reads them."""
    chance, content = models.random, io.BytesIO()
    marker = pickle.dumps(Marker(models.marker))
    kind = chance.randrange(8)
    if kind == 0:
        return marker
    if kind == 1:
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:  # as PyTorch writes it
            archive.writestr("archive/data.pkl", marker)
            archive.writestr("../../escaped", b"x")
        return content.getvalue()
    if kind == 2:
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:  # a zip bomb
            archive.writestr("model.json", bytes(10**7))
        return content.getvalue()
    if kind == 3:
        np.save(content, np.array([Marker(models.marker)], dtype=object))
        return content.getvalue()
    if kind == 4:
        return encoded({"weight": (np.ones((2, 3), np.float32), engine.float32)}, {})
    if kind == 5:
        return models.program
    if kind == 6:
        return b"\x08\x07\x12\x07pytorch" + chance.randbytes(400)  # the first bytes of an ONNX file
    return chance.choice(
        (b"", b"\x89HDF\r\n\x1a\n" + bytes(100), b"#!/bin/sh\ntouch MARKER\n", b"\xff\xd8\xff" + bytes(64))
    )


def _nested(models: ForeignModels) -> bytes:
    """Returns a file with JSON that is deeply nested, large, or not standard JSON."""
    chance = models.random
    arrays, metadata = decoded(chance_of(models), "")
    key = chance.choice(list(metadata))
    metadata[key] = chance.choice(
        ("[" * 100_000, '{"a":' * 50_000, "NaN", "Infinity", "1e999", "9" * 5000, '{"format":1,"format":2}', "", "null",
         metadata[key].replace("1", "1e400", 3), metadata[key].replace("[", "[" * 300, 1), metadata[key] + " {}")
    )  # fmt: skip
    return encoded(arrays, metadata)


def chance_of(models: ForeignModels) -> bytes:
    """Returns one of the undamaged files."""
    return models.random.choice(models.originals)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    for key in range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ():
        yield from _places(value[key], (*place, key))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _put(value: Any, place: tuple[Any, ...], new: Any) -> None:
    _at(value, place[:-1])[place[-1]] = new


def _change(document: Any, place: tuple[Any, ...], chance: random.Random) -> None:
    holder = _at(document, place[:-1])
    junk = chance.choice((*JUNK, *NAMES))
    way = chance.randrange(4)
    if way == 0:
        del holder[place[-1]]
    elif way == 1 and isinstance(holder, list):
        holder.insert(place[-1], copy.deepcopy(holder[place[-1]]))
    elif way == 1:
        holder[str(junk)[:100]] = junk
    else:
        holder[place[-1]] = junk


WAYS: list[tuple[str, Callable[[ForeignModels], bytes]]] = [
    ("flipped bits", _flipped),
    ("a cut", _cut),
    ("more bytes", _longer),
    ("another header", _headed),
    ("another description", _described),
    ("another description", _described),
    ("other steps", _stepped),
    ("a foreign file", _foreign),
    ("nested or broken JSON", _nested),
]
