"""Reads exported models: nothing in the file is trusted, and nothing is executed except its programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from trainer import TrainerError, engine
from trainer.engine import LoadedProgram, Tensor
from trainer.engine.export import ProgramFile, load_programs
from trainer.engine.safetensors import parsed
from trainer.learner.exported.manifest import ENTRY, Manifest, manifest_from, program_name
from trainer.learner.exported.rehearsal import rehearse
from trainer.learner.inference import Pipeline, Prepared
from trainer.learner.inference.preparing import Preparing
from trainer.learner.inference.steps import Size


@dataclass(frozen=True)
class Exported:
    """A model from a file.

    Attributes:
        path: the file; size: its size in bytes.
        pipeline: like a task's pipeline; its network supports the image sizes of `manifest.sizes`.
        parameters: number of elements of its arrays.
    """

    path: Path
    size: int
    manifest: Manifest
    pipeline: Pipeline
    parameters: int

    def device(self, name: str = "cpu", threads: int | None = None) -> Any:
        """The argument for `engine.device` with which results equal those of the run, bit for bit."""
        return device_of(self.manifest.numerics, name, threads)


def device_of(settings: Mapping[str, str], name: str = "cpu", threads: int | None = None) -> Any:
    """The argument for `engine.device` with the numerics settings of a file."""
    from trainer.configs.numerics import NumericsConfig

    numerics = NumericsConfig(**settings)  # type: ignore[arg-type]
    if name != "cpu" or (threads is None and numerics == NumericsConfig()):
        return name
    from trainer.engine.targets.cpu.device import CpuDevice

    return CpuDevice(threads=threads, numerics=numerics.class_, bfloat16=numerics.bfloat16)


def read_exported(path: str | Path, *, memory: int | None = None, file: ProgramFile | None = None) -> Exported:
    """Reads the model that `write_exported` wrote to `path`.

    Args:
        path: the file.
        memory: maximum bytes of its arrays and temporary values; None: the memory of the machine.
        file: its programs, if already read.

    Raises:
        TrainerError: the file can't be read, does not follow docs/export.md, or needs more memory.
    """
    where = str(path)
    file = load_programs(path, memory=memory) if file is None else file
    if file.metadata.keys() != {ENTRY}:
        raise TrainerError(
            "not an exported model: unexpected entries next to the programs", where=where,
            found=", ".join(map(ascii, sorted(file.metadata)))[:200] or "none", expected=ENTRY,
        )  # fmt: skip
    manifest = manifest_from(parsed(file.metadata[ENTRY], f"{where}, {ENTRY}"), where)
    programs = {size: file.programs.get(program_name(size)) for size in manifest.sizes}
    found = {size: program for size, program in programs.items() if program is not None}
    if len(found) != len(file.programs) or len(found) != len(programs):
        raise TrainerError(
            "not an exported model: expected one program per size", where=where,
            found=", ".join(map(ascii, file.programs))[:200],
            expected=", ".join(map(program_name, manifest.sizes))[:200],
        )  # fmt: skip
    for size, program in found.items():
        _check_input(program, size, manifest, where)
    steps = (*manifest.prepare, OfSize(manifest.sizes, where))
    pipeline = Pipeline(manifest.kind, manifest.class_names, steps, _network(found, manifest), manifest.finish)
    rehearse(pipeline, manifest, {size: program.outputs for size, program in found.items()}, where)
    parameters = sum(state.size for state in file.arrays.values())
    return Exported(Path(path), Path(path).stat().st_size, manifest, pipeline, parameters)


def _check_input(program: LoadedProgram, size: Size, manifest: Manifest, where: str) -> None:
    found = [(dtype.name, shape) for dtype, shape in program.inputs.values()]
    expected = [(manifest.dtype, ("batch", manifest.channels, *size))]
    if found != expected or not program.has_any_batch:
        raise TrainerError(
            f"not an exported model: invalid input of the program for {program_name(size)}", where=where,
            found=repr(found)[:200], expected=repr(expected),
        )  # fmt: skip


def _network(programs: Mapping[Size, LoadedProgram], manifest: Manifest) -> Any:
    """The network of a pipeline: runs the program for the size of the images."""
    count = len(manifest.class_names)

    def network(images: Tensor) -> dict[str, Tensor]:
        height, width = images.shape[2:]
        outputs = programs[height, width](images)
        if manifest.kind == "detections":  # a damaged file may return a class without a name
            classes = outputs["classes"]
            outputs["classes"] = engine.where(classes < count, classes, engine.asarray(-1, dtype=classes.dtype))
        return outputs

    return network


@dataclass(frozen=True)
class OfSize(Preparing):
    """Rejects images whose size has no program; the last step of an exported model."""

    name: ClassVar[str] = "of_size"

    sizes: tuple[Size, ...]
    file: str

    def __call__(self, prepared: Prepared) -> Prepared:
        height, width = prepared.pixels.shape[-3:-1]
        if (height, width) not in self.sizes:
            raise TrainerError(
                f"the model {self.file} has no program for images of this size",
                found=f"{height}x{width} (height x width)",
                expected=", ".join(f"{size[0]}x{size[1]}" for size in self.sizes),
                hint="Export it for this size as well: trainer export RUN --size HEIGHTxWIDTH.",
            )
        return prepared
