"""Recurrent layers: PyTorch's numbers in float64, the loop over cells that defines them, the same bits with any number
of threads, programs on file, and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.derivatives import check_derivatives
from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.engine import Tensor, nn
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.reference import ReferenceDevice

LAYERS: dict[str, tuple[Callable[[], Any], list[int] | None]] = {
    "tanh": (lambda: nn.RNN(2, 3), None),
    "relu": (lambda: nn.RNN(2, 3, nonlinearity="relu", bidirectional=True, bias=False), [2, 4, 1]),
    "gru": (lambda: nn.GRU(2, 3, num_layers=2), [2, 4, 1]),
    "gru_both": (lambda: nn.GRU(2, 3, bidirectional=True), None),
    "lstm": (lambda: nn.LSTM(2, 3, num_layers=2, bidirectional=True), [2, 4, 1]),
    "lstm_projected": (lambda: nn.LSTM(2, 3, num_layers=2, bidirectional=True, proj_size=2), [4, 3, 3]),
}
RAGGED = [3, 0, 9, 1, 9, 4, 7]
"""Lengths of rows, unsorted, of which one has no step."""


def states_of(first: Sequence[Tensor]) -> Any:
    return first[0] if len(first) == 1 else tuple(first)


def gradients_of(
    layer: Any, x: Tensor, first: Sequence[Tensor], lengths: Any, probes: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Outputs and last states, then what the weighted sum of all gives x, the first states and each parameter."""
    y, last = layer(x, states_of(first), lengths=lengths)
    values = [y, *(last if isinstance(last, tuple) else (last,))]
    loss = sum(engine.sum(value * probe) for value, probe in zip(values, probes, strict=True))
    found = engine.gradients(loss, [x, *first, *layer.parameters()])
    return [each.numpy() for each in (*values, *found)]


@pytest.mark.parametrize("name", tiered(LAYERS, LAYERS.keys() - {"lstm_projected"}))
def test_layers_equal_pytorchs(name: str, torch_reference: dict[str, Any]) -> None:
    make, lengths = LAYERS[name]
    expected, layer = torch_reference["recurrent"][name], make().astype(engine.float64)
    layer.load_state_dict(expected["state"])
    arrays = {key: list(expected[key].values()) for key in ("first", "last", "probes")}
    x, first = engine.asarray(expected["x"]), [engine.asarray(value) for value in arrays["first"]]
    found = gradients_of(layer, x, first, lengths, arrays["probes"])
    assert list(layer.state_dict()) == list(expected["state"])
    for value, other in zip(found, [expected["y"], *arrays["last"], *expected["gradients"].values()], strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-9)


def looped(layer: Any, x: np.ndarray, first: Sequence[np.ndarray], lengths: Sequence[int]) -> list[np.ndarray]:
    """What a layer of one direction computes, row by row and cell by cell, in the order of time."""
    cell = {"tanh": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}[layer.cell](x.shape[2], layer.hidden_size)
    cell.astype(engine.float64)
    cell.load_state_dict({name[: -len("_l0")]: value for name, value in layer.state_dict().items()})
    y, last = np.zeros((*x.shape[:2], layer.hidden_size)), [state[0].copy() for state in first]
    for row, length in enumerate(lengths):
        states = [engine.asarray(state[row]) for state in last]
        for step in range(length):
            new = cell(engine.asarray(x[step, row]), states_of(states))
            states = list(new) if isinstance(new, tuple) else [new]
            y[step, row] = states[0].numpy()
        for state, value in zip(last, states, strict=True):
            state[row] = value.numpy()
    return [y, *(state[None] for state in last)]


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("lengths", [[3, 0, 2], None], ids=["ragged", "full"])
def test_a_scan_is_the_loop_over_its_cell(kind: Any, lengths: list[int] | None) -> None:
    random, layer = np.random.default_rng(1), kind(4, 9).astype(engine.float64)
    x = random.standard_normal((3, 3, 4))
    first = [random.standard_normal((1, 3, 9)) for _ in range(2 if kind is nn.LSTM else 1)]
    y, last = layer(x, states_of([engine.asarray(state) for state in first]), lengths=lengths)
    found = [y, *(last if isinstance(last, tuple) else (last,))]
    for value, expected in zip(found, looped(layer, x, first, lengths or [3] * 3), strict=True):
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-12, atol=1e-12)


def trained(device: Any, kind: Any, dtype: Any, lengths: Any, **options: Any) -> list[np.ndarray]:
    """All values and gradients of a layer whose panels, blocks of rows and gates are no round numbers."""
    random, layer = np.random.default_rng(2), kind(5, 150, **options).set_seed(4).astype(dtype)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = (layer.output_size, 150)[: 2 if kind is nn.LSTM else 1]
    with engine.device(device):
        x = engine.asarray(random.standard_normal((9, 7, 5)), dtype=dtype)
        first = [engine.asarray(random.standard_normal((count, 7, size)), dtype=dtype) for size in sizes]
        y, last = layer(x, states_of(first), lengths=lengths)
        values = [y, *(last if isinstance(last, tuple) else (last,))]
        probes = [random.standard_normal(value.shape).astype(np.float32) for value in values]
        return gradients_of(layer, x, first, lengths, probes)


CASES = {
    "tanh": (nn.RNN, {"bidirectional": True}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
    "gru": (nn.GRU, {"bidirectional": True}),
    "lstm": (nn.LSTM, {"bidirectional": True}),
    "lstm_projected": (nn.LSTM, {"proj_size": 70}),
}


@pytest.mark.parametrize("name", tiered(CASES, ("tanh", "gru", "lstm_projected")))
def test_results_are_the_references_and_the_same_with_any_number_of_threads(name: str) -> None:
    kind, options = CASES[name]
    found = [trained(CpuDevice(threads=count), kind, engine.float32, RAGGED, **options) for count in (1, 2, 3)]
    for one, two, three in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes() == three.tobytes()
    for value, expected in zip(
        found[0], trained(ReferenceDevice(), kind, engine.float32, RAGGED, **options), strict=True
    ):
        np.testing.assert_allclose(value, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", tiered(("gru", "lstm_projected"), ("gru",)))
def test_bfloat16_rounds_states_and_weights_and_sums_in_float32(name: str) -> None:
    kind, options = CASES[name]
    found = trained(CpuDevice(threads=2), kind, engine.bfloat16, RAGGED, **options)
    for value, expected in zip(found, trained(ReferenceDevice(), kind, engine.float32, RAGGED, **options), strict=True):
        scale = np.abs(expected).max()
        assert np.abs(value.astype(np.float32) - expected).max() < 0.03 * scale


def test_autocast_gives_outputs_of_16_bits_and_gradients_of_32() -> None:
    layer, x = nn.GRU(3, 20), engine.ones((4, 2, 3))
    with engine.autocast("bfloat16"):
        y, last = layer(x)
    (gradient,) = engine.gradients(engine.sum(y.astype(engine.float32)), [layer.weight_hh_l0])
    assert (y.dtype, last.dtype, gradient.dtype) == (engine.bfloat16, engine.bfloat16, engine.float32)


@pytest.mark.parametrize("name", ["gru", "lstm_projected"])
@pytest.mark.parametrize("dtype", [engine.float32, engine.bfloat16])
def test_padding_reaches_nothing_whatever_it_holds(name: str, dtype: Any) -> None:
    kind, options = CASES[name]
    layer, random = kind(6, 80, **options).set_seed(4).astype(dtype), np.random.default_rng(6)
    x = random.standard_normal((9, 7, 6))
    probe = random.standard_normal((9, 7, layer.output_size * (2 if layer.bidirectional else 1)))
    padding = np.arange(9)[:, None] >= RAGGED

    def found(value: float) -> list[bytes]:
        x[padding] = probe[padding] = value
        inputs, weights = (engine.asarray(array, dtype=dtype) for array in (x, probe))
        y, _ = layer(inputs, lengths=RAGGED)
        derivatives = engine.gradients(engine.sum(y * weights), [inputs, *layer.parameters()])
        arrays = [each.numpy() for each in (y, *derivatives)]
        assert all(np.isfinite(array.astype(np.float32)).all() for array in arrays)
        assert not arrays[0][padding].any() and not arrays[1][padding].any()
        return [array.tobytes() for array in arrays]

    assert found(np.nan) == found(0.0)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_row_alone_is_the_sequence_of_its_steps(kind: Any, batch_first: bool) -> None:
    layer = kind(5, 4, batch_first=batch_first, bidirectional=True)
    steps = np.random.default_rng(0).normal(size=(6, 1, 5)).astype(np.float32)

    def found(steps: np.ndarray, lengths: list[int] | None) -> list[np.ndarray]:
        x = engine.asarray(steps.swapaxes(0, 1) if batch_first else steps)
        outputs, _ = layer(x, lengths=None if lengths is None else engine.asarray(lengths))
        gradients = engine.gradients(engine.sum(outputs * outputs), layer.parameters())
        return [np.asarray(outputs).reshape(-1, 8)[:3], *map(np.asarray, gradients)]

    for ragged, plain in zip(found(steps, [3]), found(steps[:3], None), strict=True):
        np.testing.assert_allclose(ragged, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "lengths"), [("gru", RAGGED), ("lstm_projected", None)], ids=["ragged", "full"])
@pytest.mark.full
def test_blocks_of_steps_that_are_computed_again_change_nothing(name: str, lengths: Any) -> None:
    kind, options = CASES[name]
    found = [
        trained(CpuDevice(threads=2), kind, engine.float32, lengths, checkpoint_every=every, **options)
        for every in (None, 4)
    ]
    for plain, blocks in zip(*found, strict=True):
        np.testing.assert_allclose(blocks, plain, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("lengths", [None, [9, 3]], ids=["full", "ragged"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_what_only_the_way_back_reads_is_not_kept_without_it(kind: Any, lengths: list[int] | None) -> None:
    layer, x = kind(32, 32), engine.asarray(np.random.default_rng(0).standard_normal((9, 2, 32), np.float32))
    parameters = layer.parameters()
    infer = engine.trace(lambda x: layer(x, lengths=lengths)[0])

    @engine.trace
    def train(x: Any) -> Any:
        y = layer(x, lengths=lengths)[0]
        return y, engine.gradients(engine.sum(y * y), parameters)

    np.testing.assert_array_equal(infer(x).numpy(), train(x)[0].numpy())

    def scanned(step: Any) -> int:
        rows = engine.profile(lambda: step(x), steps=1).rows
        return sum(row.nbytes for row in rows if row.kernel.startswith("rnn_scan") and "gradient" not in row.kernel)

    gates = 4 * 9 * 2 * 32 * 4  # bytes
    assert scanned(infer) + gates <= scanned(train)


def test_blocks_of_steps_take_less_memory() -> None:
    def arena(every: int | None) -> int:
        layer, x = nn.LSTM(8, 16, checkpoint_every=every), engine.ones((256, 4, 8))
        step = engine.trace(lambda x: engine.gradients(engine.sum(layer(x)[0]), layer.parameters()))
        step(x)
        return int(engine.memory_report(step).arena)

    assert arena(16) < 0.5 * arena(None)


def test_derivatives_are_slopes_along_random_directions() -> None:
    layer, random = nn.GRU(2, 3, bidirectional=True).astype(engine.float64), np.random.default_rng(3)

    def outputs(x: Tensor, h: Tensor) -> Tensor:
        y, last = layer(x, h, lengths=[2, 4, 0])
        return engine.concat([engine.reshape(y, (-1,)), engine.reshape(last, (-1,))])

    check_derivatives(outputs, random.standard_normal((4, 3, 2)), random.standard_normal((2, 3, 3)), second=False)


def test_a_second_derivative_is_refused_and_the_loop_over_a_cell_has_one() -> None:
    layer, cell = nn.RNN(2, 3), nn.RNNCell(2, 3)
    x = engine.ones((2, 1, 2))
    (first,) = engine.gradients(engine.sum(layer(x)[0]), [x])
    with pytest.raises(TrainerError, match="second derivative"):
        engine.gradients(engine.sum(first), [x])

    def two_steps(x: Tensor) -> Tensor:
        return cell(x[1], cell(x[0]))

    cell.astype(engine.float64)
    check_derivatives(two_steps, np.random.default_rng(0).standard_normal((2, 1, 2)))


def test_batch_first_and_single_sequences_are_the_same_numbers() -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((4, 3, 2)).astype(np.float32)
    layer, other = nn.LSTM(2, 5), nn.LSTM(2, 5, batch_first=True)
    other.load_state_dict(layer.state_dict())
    y, (h, _) = layer(engine.asarray(x))
    swapped, (h_swapped, _) = other(engine.asarray(np.swapaxes(x, 0, 1)))
    assert np.array_equal(np.swapaxes(swapped.numpy(), 0, 1), y.numpy()) and np.array_equal(
        h.numpy(), h_swapped.numpy()
    )
    alone, (h_alone, _) = layer(engine.asarray(x[:, 1]))
    np.testing.assert_allclose(alone.numpy(), y.numpy()[:, 1], rtol=1e-5, atol=1e-6)
    assert h_alone.shape == (1, 5)


def test_an_empty_batch_gives_empty_outputs() -> None:
    layer = nn.GRU(2, 5, batch_first=True)
    y, last = layer(engine.zeros((0, 3, 2)))
    assert y.shape == (0, 3, 5) and last.shape == (1, 0, 5)
    with pytest.raises(TrainerError, match="at least 1"):
        layer(engine.zeros((3, 0, 2)))


def test_lengths_out_of_range_in_a_traced_step_are_the_nearest_ones() -> None:
    """Kernels that believed them would read past the last step."""
    layer, x = nn.LSTM(2, 3, bidirectional=True), np.random.default_rng(0).standard_normal((4, 3, 2))

    def function(x: Tensor, lengths: Any) -> tuple[Tensor, ...]:
        y, (h, c) = layer(x, lengths=lengths)
        return y, h, c, *engine.gradients(engine.sum(y * y) + engine.sum(c), [x, *layer.parameters()])

    x = engine.asarray(x.astype(np.float32))
    found = engine.trace(function)(x, engine.asarray([9, -2, 2]))
    for one, other in zip(found, function(x, [4, 0, 2]), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_dropout_lies_between_layers() -> None:
    layer, x = nn.GRU(2, 4, num_layers=2, dropout=0.9).set_seed(1), engine.ones((3, 2, 2))
    with nn.RandomState(0).step():
        noisy, (first, _) = layer(x)[0].numpy(), layer(x)[1].numpy()
    plain, (other, _) = layer.eval()(x)[0].numpy(), layer(x)[1].numpy()
    assert not np.allclose(noisy, plain) and np.array_equal(first, other)


def test_a_program_on_file_has_the_same_bits(tmp_path: Path) -> None:
    layer, x = nn.LSTM(3, 8, bidirectional=True), np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    lengths = np.array([5, 2], np.int32)

    def forward(x: Tensor, lengths: Tensor) -> Tensor:
        return layer(x, lengths=lengths)[0]

    engine.save_program(tmp_path / "p", forward, x, lengths)
    found = engine.load_program(tmp_path / "p")(x, lengths)["output"].numpy()
    assert found.tobytes() == forward(engine.asarray(x), engine.asarray(lengths)).numpy().tobytes()


def test_a_profile_counts_the_products_of_a_scan_and_its_arrays_once() -> None:
    layer, x = nn.GRU(4, 32), engine.ones((5, 3, 4))
    step = engine.trace(lambda x: layer(x)[0])
    (row,) = [row for row in engine.profile(step, x, steps=1).rows if row.kernel.startswith("rnn_scan")]
    assert row.operations == 5 * 2 * 3 * 32 * 96
    assert 5 * 3 * 32 * (3 + 4 + 1) * 4 <= row.nbytes <= 2 * 5 * 3 * 32 * (3 + 4 + 1) * 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda layer: layer(engine.ones((4, 2, 3))), "T, B, 2"),
        (lambda layer: layer(engine.ones((0, 2, 2))), "at least 1"),
        (lambda layer: layer(engine.ones((4, 2, 2)), engine.ones((1, 2, 3))), r"\(h, c\)"),
        (lambda layer: layer(engine.ones((4, 2, 2)), (engine.ones((1, 2, 3)), engine.ones((1, 1, 3)))), r"\[1, 2, 3\]"),
        (lambda layer: layer(engine.ones((4, 2, 2)), lengths=[4, 5]), "0 to 4"),
        (lambda layer: layer(engine.ones((4, 2, 2)), lengths=[-1, 4]), "-1 to 4"),
        (lambda layer: layer(engine.ones((4, 2, 2)), lengths=[4]), "length of each row"),
        (lambda layer: layer(engine.ones((4, 2, 2)), lengths=[4.0, 2.0]), "length of each row"),
        (lambda layer: nn.LSTM(2, 3, dropout=0.5), "between its layers"),
        (lambda layer: nn.LSTM(2, 3, proj_size=3), "fewer features"),
        (lambda layer: nn.LSTM(2, 3, checkpoint_every=0), "number of steps to checkpoint"),
        (lambda layer: nn.GRU(2, 0), "hidden_size"),
        (lambda layer: nn.RNN(2, 3, nonlinearity="sigmoid"), "nonlinearity"),
        (lambda layer: nn.GRUCell(2, 3)(engine.ones((1, 3))), r"\[B, 2\]"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TrainerError, match=message):
        call(nn.LSTM(2, 3))
