"""The computation after the sums of a recurrent scan step, for one row and a vector of units: gates, states, and in the
backward pass the derivatives of products (formulas: `graph/primitives/recurrent.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from trainer.engine.targets.ir import mathematics
from trainer.engine.targets.ir.vectors import Floats

Kind = Literal[
    "tanh", "relu", "lstm", "gru", "projection", "tanh_back", "relu_back", "lstm_back", "gru_back", "state_back"
]


@dataclass(frozen=True, slots=True)
class CellWriter:
    """Writes this computation. load(array, section) and store(value, array, section) address the row's vector of units;
    `earlier` loads that of the previous step in scan order. `with_states` and `keeps`: see `ScanStep`.
    """

    floats: Floats
    load: Callable[..., str]
    store: Callable[..., None]
    earlier: Callable[[str], str]
    with_states: bool
    keeps: bool

    def finish(self, kind: Kind, totals: Sequence[str]) -> None:
        """Writes the computation of `kind` on the sums of all gates."""
        getattr(self, f"_{kind}")(*totals)

    def _keep(self, *gates: str) -> None:
        for gate, value in enumerate(gates if self.keeps else ()):
            self.store(value, "gates", gate)

    def _outputs(self, value: str) -> None:
        self.store(value, "y")
        self.store(value, "h")

    def _tanh(self, total: str) -> None:
        self._outputs(mathematics.tanh(self.floats, self.floats.add(self.load("x"), total)))

    def _relu(self, total: str) -> None:
        f = self.floats
        value = f.add(self.load("x"), total)
        self._outputs(self._unless_positive(value, "zeroinitializer", value))

    def _unless_positive(self, value: str, then: str, otherwise: str) -> str:
        f = self.floats
        return f.select(f.compare("ole", value, f.constant(0.0)), then, otherwise)

    def _projection(self, total: str) -> None:
        self._outputs(total)

    def _lstm(self, *totals: str) -> None:
        f = self.floats
        i, forget, g, o = (f.add(self.load("x", gate), total) for gate, total in enumerate(totals))
        i, forget, o = (mathematics.logistic(f, value) for value in (i, forget, o))
        g = mathematics.tanh(f, g)
        c = f.fma(forget, self.load("c"), f.multiply(i, g))
        new = f.multiply(o, mathematics.tanh(f, c))
        self._keep(i, forget, g, o)
        if self.keeps:
            self.store(c, "cells")
        self.store(c, "c")
        if self.with_states:
            self._outputs(new)
        else:
            self.store(new, "gates", 4)

    def _gru(self, *totals: str) -> None:
        f = self.floats
        r, z = (mathematics.logistic(f, f.add(self.load("x", gate), totals[gate])) for gate in range(2))
        q = f.add(totals[2], self.load("bias"))
        n = mathematics.tanh(f, f.fma(r, q, self.load("x", 2)))
        self._keep(r, z, n, q)
        self._outputs(f.fma(z, f.subtract(self.load("h"), n), n))

    def _derivative(self, total: str) -> str:
        """The derivative of the state."""
        f = self.floats
        return f.add(f.add(self.load("dy"), self.load("dh")), total)

    def _slope(self, value: str, state: str) -> str:
        """`value` times 1 - state², the slope of tanh."""
        f = self.floats
        return f.multiply(value, f.fma(f.negate(state), state, f.constant(1.0)))

    def _tanh_back(self, total: str) -> None:
        self.store(self._slope(self._derivative(total), self.load("y")), "dx")
        self.store("zeroinitializer", "dh")

    def _relu_back(self, total: str) -> None:
        self.store(self._unless_positive(self.load("y"), "zeroinitializer", self._derivative(total)), "dx")
        self.store("zeroinitializer", "dh")

    def _state_back(self, total: str) -> None:
        self.store(self._derivative(total), "dhs")
        self.store("zeroinitializer", "dh")

    def _logistic_slope(self, value: str, gate: str) -> str:
        """`value` times gate·(1 - gate)."""
        f = self.floats
        return f.multiply(f.multiply(value, gate), f.subtract(f.constant(1.0), gate))

    def _lstm_back(self, total: str) -> None:
        f = self.floats
        if self.with_states:
            total = self._derivative(total)
            self.store("zeroinitializer", "dh")
        i, forget, g, o = (self.load("gates", gate) for gate in range(4))
        hyperbolic = mathematics.tanh(f, self.load("cells"))
        own = f.add(self.load("dc"), self._slope(f.multiply(total, o), hyperbolic))
        self.store(self._logistic_slope(f.multiply(own, g), i), "dx", 0)
        self.store(self._logistic_slope(f.multiply(own, self.earlier("cells")), forget), "dx", 1)
        self.store(self._slope(f.multiply(own, i), g), "dx", 2)
        self.store(self._logistic_slope(f.multiply(total, hyperbolic), o), "dx", 3)
        self.store(f.multiply(own, forget), "dc")

    def _gru_back(self, total: str) -> None:
        f = self.floats
        total = self._derivative(total)
        r, z, n, q = (self.load("gates", gate) for gate in range(4))
        dn = self._slope(f.multiply(total, f.subtract(f.constant(1.0), z)), n)
        dr = self._logistic_slope(f.multiply(dn, q), r)
        dz = self._logistic_slope(f.multiply(total, f.subtract(self.earlier("y"), n)), z)
        for gate, (value, product) in enumerate(((dr, dr), (dz, dz), (dn, f.multiply(dn, r)))):
            self.store(value, "dx", gate)
            self.store(product, "dp", gate)
        self.store(f.multiply(total, z), "dh")
