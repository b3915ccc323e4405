"""Programs as files: a graph and its arrays in one file that contains no code, so that it need not be trusted.

docs/program.md describes the format.
"""

from trainer.engine.export.capture import Program, capture_program
from trainer.engine.export.load import LoadedProgram, ProgramFile, load_program, load_programs
from trainer.engine.export.save import save_program, save_programs

__all__ = [
    "LoadedProgram", "Program", "ProgramFile", "capture_program", "load_program", "load_programs", "save_program",
    "save_programs",
]  # fmt: skip
