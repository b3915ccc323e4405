"""Recurrent layers and cells: simple RNN, LSTM and GRU, with PyTorch's parameters, names, shapes and gate order.

One large product over all time steps multiplies a layer's inputs by its weights, and another computes the weights'
gradients. Between them, a scan (`graph.primitives.recurrent`) keeps the recurrent weights in the cores' caches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainer import TrainerError
from trainer.engine import functions
from trainer.engine.autocast import precision_of
from trainer.engine.graph import dtypes
from trainer.engine.graph import primitives as p
from trainer.engine.graph.node import Node
from trainer.engine.graph.primitives.compose import broadcast, transpose_last
from trainer.engine.graph.primitives.recurrent import CELLS
from trainer.engine.nn.dropout import Dropout
from trainer.engine.nn.functional import relu
from trainer.engine.nn.initializers import uniform
from trainer.engine.nn.module import Module
from trainer.engine.nn.parameter import declare
from trainer.engine.promotion import promoted
from trainer.engine.tensor import Tensor, as_tensor, cast, wrapped

States = Any
"""The states of a layer: h, or (h, c) for an LSTM."""


class _Recurrent(Module):
    """A stack of recurrent layers: the parameters of each layer and direction, and the forward pass."""

    cell: str

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int, bias: bool, batch_first: bool, dropout: float,
        bidirectional: bool, proj_size: int = 0, checkpoint_every: int | None = None,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        for what, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if size < 1:
                raise TrainerError(f"{name} has no {what}", found=size, expected="at least 1")
        if not 0 <= proj_size < hidden_size:
            raise TrainerError(f"{name} projects to fewer features than it has units", found=f"proj_size {proj_size}",
                               expected=f"0 (no projection) to {hidden_size - 1}")  # fmt: skip
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional, self.proj_size = bias, batch_first, bidirectional, proj_size
        if dropout and num_layers == 1:
            raise TrainerError(f"{name} drops out between its layers, and has one", found=f"dropout {dropout}",
                               expected="num_layers of 2 or more, or dropout 0")  # fmt: skip
        if checkpoint_every is not None and checkpoint_every < 1:
            raise TrainerError(f"{name} has no number of steps to checkpoint", found=checkpoint_every,
                               expected="at least 1, or None to keep all steps")  # fmt: skip
        self.checkpoint_every = checkpoint_every
        self.between = Dropout(dropout)
        initializer, rows = uniform(-1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size)), self._rows
        for layer in range(num_layers):
            features = input_size if layer == 0 else self.output_size * (2 if bidirectional else 1)
            for direction in self._directions:
                ending = f"l{layer}{direction}"
                setattr(self, f"weight_ih_{ending}", declare((rows, features), initializer))
                setattr(self, f"weight_hh_{ending}", declare((rows, self.output_size), initializer))
                for side in ("ih", "hh") if bias else ():
                    setattr(self, f"bias_{side}_{ending}", declare((rows,), initializer))
                if proj_size:
                    setattr(self, f"weight_hr_{ending}", declare((proj_size, hidden_size), initializer))

    @property
    def output_size(self) -> int:
        """Number of output features per direction."""
        return self.proj_size or self.hidden_size

    @property
    def dropout(self) -> float:
        """The probability of dropout between layers."""
        return self.between.p

    @property
    def _rows(self) -> int:
        return CELLS[self.cell] * self.hidden_size

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def forward(self, x: Tensor, states: States = None, *, lengths: Any = None) -> tuple[Tensor, States]:
        """Returns (outputs, last states).

        Args:
            x: [T, B, input_size], with `batch_first` [B, T, input_size], or [T, input_size] for one sequence.
            states: initial states (zeros if None), [layers·directions, B, features]: h, or (h, c) for an LSTM.
            lengths: integers [B], 0 to T, in any order: the number of steps of each row. Later steps take no time in
                the scan, change no state and output zeros; the reverse direction begins at a row's last step. Inside a
                traced step their values are unknown, and values out of range are clamped.

        Raises:
            TrainerError: a shape or dtype doesn't fit, or a length is out of range.
        """
        x = as_tensor(x, operation=type(self).__name__)
        is_single, time_first = x.ndim == 2, f"[{'B, T' if self.batch_first else 'T, B'}, {self.input_size}]"
        time = 1 if self.batch_first and not is_single else 0
        holds = x.ndim in (2, 3) and x.shape[-1] == self.input_size and x.shape[time] > 0
        self._check_shape(holds, x, f"{time_first} or [T, {self.input_size}], with T of at least 1")
        if is_single:
            x = functions.expand_dims(x, axis=1)
        elif self.batch_first:
            x = functions.permute_dims(x, (1, 0, 2))
        steps, batch = x.shape[:2]
        first = self._first_states(states, batch, x, is_single)
        rows = None if lengths is None else self._lengths(lengths, steps, batch)
        last: list[list[Tensor]] = [[] for _ in first]
        for layer in range(self.num_layers):
            outputs = []
            for number, direction in enumerate(self._directions):
                place = layer * len(self._directions) + number
                own = [None if state is None else state[place] for state in first]
                y, news = self._scan(x, own, rows, f"l{layer}{direction}", reverse=number == 1)
                outputs.append(y)
                for kept, new in zip(last, news, strict=True):
                    kept.append(new)
            x = outputs[0] if len(outputs) == 1 else functions.concat(outputs, axis=2)
            if layer + 1 < self.num_layers:
                x = self.between(x)
        found = [functions.stack(states, axis=0) for states in last]
        if is_single:
            x, found = functions.squeeze(x, axis=1), [functions.squeeze(state, axis=1) for state in found]
        elif self.batch_first:
            x = functions.permute_dims(x, (1, 0, 2))
        return x, found[0] if len(found) == 1 else tuple(found)

    def _scan(
        self, x: Tensor, states: Sequence[Tensor | None], lengths: Tensor | None, ending: str, *, reverse: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """Runs one layer in one direction."""
        parameters = [getattr(self, f"weight_{side}_{ending}") for side in ("ih", "hh")]
        biases = [getattr(self, f"bias_{side}_{ending}") for side in ("ih", "hh")] if self.bias else []
        projection = getattr(self, f"weight_hr_{ending}") if self.proj_size else None
        return scan(
            self.cell, x, parameters, biases, states, projection, lengths, reverse=reverse, every=self.checkpoint_every
        )

    def _first_states(self, states: States, batch: int, x: Tensor, is_single: bool) -> list[Tensor | None]:
        """Returns h, and c for an LSTM, each [layers·directions, B, features], or None for zeros."""
        is_lstm = self.cell == "lstm"
        if states is None:
            return [None] * (2 if is_lstm else 1)
        if is_lstm and not (isinstance(states, tuple | list) and len(states) == 2):
            raise TrainerError(f"{self.path or 'LSTM'} takes its states as two arrays", found=type(states).__name__,
                               expected="(h, c)")  # fmt: skip
        count = self.num_layers * len(self._directions)
        found: list[Tensor | None] = []
        for state, features in zip(
            states if is_lstm else (states,), (self.output_size, self.hidden_size), strict=False
        ):
            state = as_tensor(state, operation=type(self).__name__)
            if is_single and state.ndim == 2:
                state = functions.expand_dims(state, axis=1)
            expected = (count, batch, features)
            self._check_shape(state.shape == expected, state, f"first states {list(expected)}")
            found.append(state)
        return found

    def _lengths(self, lengths: Any, steps: int, batch: int) -> Tensor:
        name = self.path or type(self).__name__
        tensor = as_tensor(lengths, operation=name)
        if tensor.dtype.kind not in ("int", "uint") or tensor.shape != (batch,):
            raise TrainerError(f"{name} takes the length of each row", found=f"lengths {tensor.dtype}{tensor.shape}",
                               expected=f"integers, shape ({batch},)")  # fmt: skip
        value = tensor.node.value
        if value is None or value.block is None:
            return functions.clip(tensor.astype(dtypes.int64), 0, steps).astype(dtypes.int32)
        known = np.asarray(value.view())
        if tensor.size and (known.min() < 0 or known.max() > steps):
            raise TrainerError(f"{name} got lengths outside the sequence", found=f"{known.min()} to {known.max()}",
                               expected=f"0 to {steps}")  # fmt: skip
        return tensor.astype(dtypes.int32)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False,
                    "proj_size": 0, "checkpoint_every": None}  # fmt: skip
        parts += [f"{name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value]
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def _cell_of(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise TrainerError("RNN has no such nonlinearity", found=repr(nonlinearity), expected="'tanh' or 'relu'")
    return nonlinearity


class RNN(_Recurrent):
    """Layers of h = tanh(x·weight_ihᵀ + bias_ih + h·weight_hhᵀ + bias_hh) (Elman 1990), or with ReLU in place of tanh.

    Parameters of layer k, and with the suffix `_reverse` of its second direction: weight_ih_lk [H, features],
    weight_hh_lk [H, H], bias_ih_lk and bias_hh_lk [H], all uniform in ±1/√H. `dropout` is the probability of dropout
    between layers, in training. Returns (outputs [T, B, directions·H], last h [layers·directions, B, H]).

    checkpoint_every: as in `engine.scan`: keep only the states of every `checkpoint_every`-th step for the gradient,
        and recompute the blocks between, including the input products. For sequences whose gates don't fit into
        memory. The weight gradients are then accumulated block by block, so their last bits differ.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, *,
        checkpoint_every: int | None = None,
    ) -> None:  # fmt: skip
        self.cell = self.nonlinearity = _cell_of(nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         checkpoint_every=checkpoint_every)  # fmt: skip

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", nonlinearity={self.cell!r}" if self.cell != "tanh" else "")


class LSTM(_Recurrent):
    """Layers of long short-term memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000), with an optional projection
    of h to `proj_size` features (Sak et al. 2014).

    With (i, f, g, o) = x·weight_ihᵀ + bias_ih + h·weight_hhᵀ + bias_hh: c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c).
    Shapes and parameters are as in `RNN`, with 4·H rows, plus weight_hr_lk [proj_size, H]. Returns (outputs, (last h,
    last c)); outputs and h have proj_size features unless that is 0.
    """

    cell = "lstm"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, *,
        checkpoint_every: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
                         checkpoint_every)  # fmt: skip


class GRU(_Recurrent):
    """Layers of gated recurrent units (Cho et al. 2014), with the reset gate applied after the product, as in cuDNN.

    With (r, z, n) = x·weight_ihᵀ + bias_ih and (r', z', n') = h·weight_hhᵀ + bias_hh: n = tanh(n + σ(r + r')·n'),
    h = (1 − σ(z + z'))·n + σ(z + z')·h. Shapes and parameters are as in `RNN`, with 3·H rows. Returns (outputs, last
    h).
    """

    cell = "gru"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, *,
        checkpoint_every: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         checkpoint_every=checkpoint_every)  # fmt: skip


def scan(
    cell: str, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], states: Sequence[Tensor | None],
    projection: Tensor | None, lengths: Tensor | None, *, reverse: bool, every: int | None = None,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """Returns outputs [T, B, R] and last states of one layer in one direction over x [T, B, features].

    The gradient keeps the states of each step, or of every `every`-th step. Sums are accumulated in float32, or in
    float64 if all operands are float64. If the operands or autocast have a 16-bit dtype, operands of products are
    rounded to it, and the outputs have it, too.
    """
    weight_ih, weight_hh = weights
    given = [state for state in states if state is not None]
    tensors = [x, *weights, *biases, *given, *([] if projection is None else [projection])]
    dtype = promoted(cell, [each.dtype for each in tensors])
    precision = dtype if dtype.is_half else precision_of(dtype)
    wide = dtypes.float32 if dtype.is_half else dtype
    steps, batch, features = x.shape
    rows = weight_hh.shape[0]
    units = rows // CELLS[cell]
    own, recurrent = [cast(bias.node, wide) for bias in biases] if biases else (None, None)
    behind: list[Node] = []
    if cell == "gru":
        behind = [
            p.full((units,), 0.0, wide) if recurrent is None else p.slice_(recurrent, (2 * units,), (rows,), (1,))
        ]
        if recurrent is not None:
            recurrent = p.pad(p.slice_(recurrent, (0,), (2 * units,), (1,)), (0,), (units,), (0,), 0)
    bias = None if own is None or recurrent is None else p.add(own, recurrent)
    sizes = (weight_hh.shape[1], units)
    first = [
        p.full((batch, size), 0.0, wide) if state is None else cast(state.node, wide)
        for state, size in zip(states, sizes, strict=False)
    ]
    recurrent_weight, weight = cast(weight_hh.node, wide), cast(weight_ih.node, wide)
    projected = [] if projection is None else [cast(projection.node, wide)]

    def run(part: Node, before: Sequence[Node], lengths: Node | None) -> list[Node]:
        """Returns the outputs and the last states of the steps in `part`."""
        operands = [recurrent_weight, *before, *behind, *projected]
        if lengths is None:
            flat = p.reshape(part, (part.shape[0] * batch, features))
            inputs = p.matmul(flat, transpose_last(weight), precision)
            inputs = inputs if bias is None else p.add(inputs, broadcast(bias, inputs.shape))
            operands = [p.reshape(inputs, (part.shape[0], batch, rows)), *operands]
            bundle = p.rnn_scan(operands, cell, reverse, precision)
        else:
            both = p.full((rows,), 0.0, wide) if bias is None else bias
            bundle = p.rnn_scan_ragged([part, weight, both, *operands, lengths], cell, reverse, precision)
        return [p.output(bundle, number) for number in range(1 + len(before))]

    sequence = cast(x.node, wide)
    if every is None or every >= steps:
        results = run(sequence, first, None if lengths is None else lengths.node)
    else:
        results = _in_blocks(run, sequence, first, lengths, every, reverse=reverse)
    result = dtype if precision is None else precision
    tensors += [] if lengths is None else [lengths]
    found = [wrapped(cast(node, result), *tensors) for node in results]
    return found[0], found[1:]


def _in_blocks(
    run: Callable[[Node, Sequence[Node], Node | None], list[Node]], x: Node, first: Sequence[Node],
    lengths: Tensor | None, every: int, *, reverse: bool,
) -> list[Node]:  # fmt: skip
    """Calls `run` on blocks of `every` steps, then on the rest; the gradient keeps the states before each block."""
    blocks, rest = divmod(x.shape[0], every)
    sequence, start = Tensor(x), rest if reverse else 0
    edge = 0 if reverse else blocks * every

    def within(first: Tensor | int, count: int) -> Node | None:
        """Returns how many of the `count` steps from `first` on each row has."""
        return None if lengths is None else functions.clip(lengths - first, 0, count).astype(dtypes.int32).node

    def step(states: list[Tensor], given: tuple[Tensor, Tensor]) -> tuple[list[Tensor], Tensor]:
        part, first = given
        y, *after = run(part.node, [state.node for state in states], within(first, every))
        return [Tensor(node) for node in after], Tensor(y)

    parts = sequence[start : start + blocks * every].reshape((blocks, every, *x.shape[1:]))
    firsts = functions.arange(start, start + blocks * every, every, dtype=dtypes.int32)
    states, y = functions.scan(
        step, [Tensor(node) for node in first], (parts, firsts), reverse=reverse, checkpoint_every=1
    )
    y, after = y.reshape((blocks * every, *y.shape[2:])), [state.node for state in states]
    if rest:
        other, *after = run(sequence[edge : edge + rest].node, after, within(edge, rest))
        y = functions.concat([Tensor(other), y] if reverse else [y, Tensor(other)], axis=0)
    return [y.node, *after]


# --- cells ------------------------------------------------------------------------------------------------------------


class _Cell(Module):
    """One step of a layer, composed of differentiable operations: it has derivatives of any order."""

    gates: int

    def __init__(self, input_size: int, hidden_size: int, bias: bool) -> None:
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        initializer, rows = uniform(-1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size)), self.gates * hidden_size
        self.weight_ih = declare((rows, input_size), initializer)
        self.weight_hh = declare((rows, hidden_size), initializer)
        for side in ("ih", "hh"):
            setattr(self, f"bias_{side}", declare((rows,), initializer) if bias else None)

    def _products(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the products of the input and the state with their weights, each plus its bias."""
        x, h = (as_tensor(value, operation=type(self).__name__) for value in (x, h))
        self._check_shape(x.ndim in (1, 2) and x.shape[-1] == self.input_size, x, f"[B, {self.input_size}]")
        self._check_shape(h.shape == (*x.shape[:-1], self.hidden_size), h, f"h {[*x.shape[:-1], self.hidden_size]}")
        found = []
        for value, weight, bias in ((x, self.weight_ih, self.bias_ih), (h, self.weight_hh, self.bias_hh)):
            product = functions.matmul(value, functions.matrix_transpose(weight))
            found.append(product if bias is None else (product + bias).astype(product.dtype))
        return found[0], found[1]

    def _zeros(self, x: Tensor) -> Tensor:
        tensor = as_tensor(x, operation=type(self).__name__)
        return functions.zeros((*tensor.shape[:-1], self.hidden_size), dtype=tensor.dtype)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of `RNN`: maps (x [B, features], h [B, H] or None) to the next h; the batch axis is optional."""

    gates = 1

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh") -> None:
        self.nonlinearity = _cell_of(nonlinearity)
        super().__init__(input_size, hidden_size, bias)

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        product, recurrent = self._products(x, self._zeros(x) if h is None else h)
        total = product + recurrent
        return functions.tanh(total) if self.nonlinearity == "tanh" else relu(total)


class LSTMCell(_Cell):
    """One step of `LSTM`: maps (x [B, features], (h, c) or None), each [B, H], to the next (h, c); B is optional."""

    gates = 4

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias)

    def forward(self, x: Tensor, states: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h, c = (self._zeros(x), self._zeros(x)) if states is None else states
        product, recurrent = self._products(x, h)
        self._check_shape(c.shape == h.shape, c, f"c {list(h.shape)}")
        i, f, g, o = functions.split(product + recurrent, self.hidden_size, axis=-1)
        c = functions.logistic(f) * c + functions.logistic(i) * functions.tanh(g)
        return functions.logistic(o) * functions.tanh(c), c


class GRUCell(_Cell):
    """One step of `GRU`: maps (x [B, features], h [B, H] or None) to the next h; the batch axis is optional."""

    gates = 3

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias)

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        h = self._zeros(x) if h is None else h
        inputs, recurrent = (functions.split(product, self.hidden_size, axis=-1) for product in self._products(x, h))
        r, z = (functions.logistic(inputs[gate] + recurrent[gate]) for gate in range(2))
        n = functions.tanh(inputs[2] + r * recurrent[2])
        return n + z * (h - n)
