"""The hundred programs whose launches, kernels and results are on record."""

from __future__ import annotations

from tests.engine.golden import networks, operations, random_programs
from tests.engine.golden.program import Program

PROGRAMS: dict[str, Program] = {
    program.name: program for program in (*networks.PROGRAMS, *operations.PROGRAMS, *random_programs.PROGRAMS)
}
