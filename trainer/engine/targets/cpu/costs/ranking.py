"""Ranks choices by cost and keeps the few that are worth compiling, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from trainer.engine.targets.cpu.costs.cycles import SCRATCH_LIMIT, balance, crowding, cut_cycles, fits_registers, pieces
from trainer.engine.targets.cpu.machine import Machine

MOST_TILES, MOST_CANDIDATES, MOST_VECTORS = 8, 10, 4
HOPELESS = 1.4
"""A candidate is not compiled if its estimated time exceeds that of the choice by this factor."""

VARIED = 1.02
"""Relative cost of variants in unrolling, copies and padding, which the model does not estimate: they rank right after
the choice.
"""

Shape = TypeVar("Shape", bound=tuple[int, ...])
Choice = TypeVar("Choice")


def product_tiles(
    rows: int, vectors: int, depth: float, machine: Machine, *, distance: int = 0, widened: bool = False
) -> list[tuple[float, tuple[int, int]]]:
    """The tiles (rows, vectors) of a product that are worth sizing tasks for, each with the cycles of the product.

    distance: bytes between rows that are read along the depth; 0 if they are neighbors or an odd number of cache lines
    apart.
    """
    return cheapest_tiles(
        (
            cut_cycles([pieces(rows, m)], pieces(vectors, v), depth, machine)
            * (crowding(m, distance, machine) if distance else 1),
            (m, v),
        )
        for v in range(1, min(vectors, MOST_VECTORS) + 1)
        for m in range(1, min(rows, machine.vectors) + 1)
        if fits_registers(m, v, machine, widened=widened)
    )


def sized(
    tiles: Iterable[tuple[float, Shape]],
    sizes: Callable[..., Iterable[tuple[Choice, int, float]]],
    machine: Machine,
    variants: Callable[[Choice], Iterable[Choice]] = lambda choice: (),
) -> tuple[Choice, ...]:
    """Parameters worth trying, best first: tiles with the (choice, tasks, cycles) from `sizes`, then `variants`."""
    options: list[tuple[float, Choice]] = []
    for cycles, tile in tiles:
        found = sizes(cycles, *tile)
        options += cheapest_sizes((total * balance(tasks, machine), tasks, choice) for choice, tasks, total in found)
    return best(options, variants)


def best(
    options: Iterable[tuple[float, Choice]], variants: Callable[[Choice], Iterable[Choice]] = lambda choice: ()
) -> tuple[Choice, ...]:
    """The cheapest parameters, best first, with `variants` of the choice right after it."""
    ranked = sorted(options, key=lambda option: option[0])
    if not ranked:
        raise ValueError(f"no tile of this problem fits {SCRATCH_LIMIT} bytes of scratch")
    least, choice = ranked[0]
    ranked += [(VARIED * least, variant) for variant in variants(choice)]
    ranked.sort(key=lambda option: option[0])
    worth = dict.fromkeys(parameters for total, parameters in ranked if total <= HOPELESS * least)
    return tuple(worth)[:MOST_CANDIDATES]


def cheapest_sizes(options: Iterable[tuple[float, int, Choice]]) -> list[tuple[float, Choice]]:
    """The cheapest of one tile's (cost, tasks, parameters), and the cheapest of those with far more or fewer tasks."""
    ranked = sorted(options, key=lambda option: option[0])
    others = [option for option in ranked if not ranked[0][1] < 2 * option[1] < 4 * ranked[0][1]]
    return [(total, parameters) for total, _, parameters in (*ranked[:1], *others[:1])]


def cheapest_tiles(options: Iterable[tuple[float, Shape]]) -> list[tuple[float, Shape]]:
    """The tiles worth sizing tasks for."""
    return sorted(set(options))[:MOST_TILES]
