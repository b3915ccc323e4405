"""The hundred programs whose launches, kernels and results are on record."""

from __future__ import annotations

from tests.engine.golden import of_chance, of_networks, of_operations
from tests.engine.golden.program import Program

PROGRAMS: dict[str, Program] = {
    program.name: program for program in (*of_networks.PROGRAMS, *of_operations.PROGRAMS, *of_chance.PROGRAMS)
}
