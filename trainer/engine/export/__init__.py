"""Programs that travel: a graph and its arrays in one file that holds no code, so that it need not be trusted.

docs/program.md has the format.
"""

from trainer.engine.export.load import LoadedProgram, load_program
from trainer.engine.export.save import save_program

__all__ = ["LoadedProgram", "load_program", "save_program"]
