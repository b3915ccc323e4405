"""A step traced for one of several shards computes what one of the whole batch does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.engine import State, Tensor, nn
from trainer.engine.functions.shards import from_process
from trainer.engine.graph.storage import Layout, Storage
from trainer.engine.sharding import Shards
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.reference import over_shards

ROWS = 8


def images() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "x": generator.normal(3, 2, size=(ROWS, 2, 4, 4)).astype(np.float32),
        "y": generator.integers(0, 3, ROWS),
    }


def trained(shards: Shards | None, device: str, steps: int = 3) -> dict[str, np.ndarray]:
    """Parameters and running statistics of a network with batch norm after some steps of gradient descent."""
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    net.set_seed(0, "net")
    net.train()
    parameters = list(net.parameters())
    count = 1 if shards is None else shards.count

    def step(batch: dict[str, Tensor]) -> Tensor:
        loss = engine.mean(nn.cross_entropy(net(batch["x"]), batch["y"], reduction="none")) / count
        for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
            parameter.assign(parameter - 0.05 * engine.shard_sum(gradient))
        return engine.shard_sum(loss)

    with engine.device(device):
        traced, batch = engine.trace(step, shards=shards), images()
        for _ in range(steps):
            loss = traced(batch)
        loss = loss if shards is None else loss[0]
        return {**net.state_dict(), "loss": loss.numpy()}


@pytest.mark.parametrize("count", [2, 8])
def test_shards_train_as_the_whole_batch(count: int) -> None:
    whole, parts = trained(None, "reference"), trained(Shards(count), "reference")
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


def test_kernels_compute_shards_as_the_reference_does() -> None:
    kernels, reference = trained(Shards(4), "cpu"), trained(Shards(4), "reference")
    for name, values in reference.items():
        np.testing.assert_allclose(kernels[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


class OneByOne(CpuDevice):
    """The kernels of the CPU on the graph of all shards, in which each has nodes of its own."""

    def compile(  # type: ignore[no-untyped-def]
        self, results, updates=(), inputs=(), *, shards: int | None = None, split=(), **options: Any
    ) -> Any:
        assert shards is not None
        outputs, inputs = over_shards([*results, *(node for _, node in updates)], inputs, frozenset(split), shards)
        news = [(storage, node) for (storage, _), node in zip(updates, outputs[len(results) :], strict=True)]
        program = super().compile(outputs[: len(results)], news, inputs, **options)
        layouts = [
            layout if node.shape == output.shape else Layout.row_major(node.ndim)
            for layout, node, output in zip(program.layouts, results, outputs, strict=False)
        ]
        return SimpleNamespace(run=program.run, layouts=layouts)


class Mirrored:
    """Another process that has the same sums as this one."""

    def begin(self, totals: Sequence[Storage]) -> Callable[[], None]:
        def finish() -> None:
            for total in totals:
                total.view()[...] += total.view()

        return finish


class Pictures(nn.Module):
    """Convolutions of several kinds, norms, pooling, dropout and a recurrent layer over rows of pixels."""

    def __init__(self) -> None:
        self.stem = nn.Sequential(nn.Conv2d(2, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.SiLU())
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24))
        self.up, self.dropout = nn.ConvTranspose2d(24, 8, 2, stride=2), nn.Dropout(0.2)
        self.recurrent, self.norm, self.head = nn.GRU(8, 6, batch_first=True), nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        y = self.up(nn.functional.relu(self.down(y + self.depthwise(y))))
        rows, _ = self.recurrent(engine.permute_dims(engine.mean(y, axis=2), (0, 2, 1)))
        return engine.mean(self.head(self.norm(self.dropout(rows))), axis=1)


class Words(nn.Module):
    """Embeddings, attention and a feed-forward part."""

    def __init__(self) -> None:
        self.embedding, self.norm = nn.Embedding(7, 16), nn.LayerNorm(16)
        self.attention, self.inner, self.head = (
            nn.MultiheadAttention(16, 2, batch_first=True),
            nn.Linear(16, 16),
            nn.Linear(16, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.embedding(engine.minimum(engine.abs(x[:, 0, 0, :]) * 3, 6.0).astype(engine.int32))
        normed = self.norm(y)
        y = y + self.attention(normed, normed, normed)[0]
        return engine.mean(self.head(nn.functional.gelu(self.inner(y))), axis=1)


def bits(network: type[nn.Module], device: CpuDevice, shards: Shards, batch: dict[str, np.ndarray]) -> dict[str, bytes]:
    """States of a network after two steps of momentum, and the outputs of each local shard."""
    net = network()
    net.set_seed(0, "net")
    net.train()
    random = nn.RandomState(5)
    parameters = list(net.parameters())
    moments = [State(np.zeros(each.shape, np.float32), "moment") for each in parameters]

    def step(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        with random.step():
            scores = net(batch["x"])
            losses = nn.cross_entropy(scores, batch["y"], reduction="none")
            gradients = engine.gradients(engine.mean(losses) / shards.count, parameters)
        gradients = [engine.shard_sum(each) for each in gradients]
        norm = engine.sqrt(sum(engine.sum(each * each) for each in gradients))
        for parameter, moment, gradient in zip(parameters, moments, gradients, strict=True):
            moment.assign(moment * 0.9 + gradient / engine.maximum(norm, 1.0))
            parameter.assign(parameter - 0.05 * moment)
        return losses, norm

    with engine.device(device):
        traced = engine.trace(step, shards=shards)
        for _ in range(2):
            found = traced(batch)
        values = {**net.state_dict(), **{f"loss {place}": each[0].numpy() for place, each in enumerate(found)}}
        return {name: value.tobytes() for name, value in {**values, "norm": found[0][1].numpy()}.items()}


def batch_of(rows: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(0.5, 1, size=(rows, 2, 8, 8)).astype(np.float32)
    return {"x": x, "y": generator.integers(0, 3, rows)}


@pytest.mark.parametrize("shards", [Shards(8), Shards(16, 8, 8, Mirrored())], ids=["alone", "exchanging"])
@pytest.mark.parametrize("network", tiered((Pictures, Words), (Words,)))
def test_kernels_of_several_shards_have_the_bits_of_one(network: type[nn.Module], shards: Shards) -> None:
    together, apart = (bits(network, device(), shards, batch_of(16)) for device in (CpuDevice, OneByOne))
    assert [name for name in apart if together[name] != apart[name]] == []


def test_statistics_of_shards_far_from_zero_are_accurate() -> None:
    x = np.random.default_rng(1).normal(1000, 1, size=(16, 3, 2)).astype(np.float32)
    norm = nn.BatchNorm1d(3, momentum=1.0)
    with engine.device("reference"):
        norm.train()
        engine.trace(lambda x: engine.sum(norm(x)), shards=Shards(8))(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(norm.running_mean.numpy(), wide.mean((0, 2)), rtol=1e-6)
    np.testing.assert_allclose(norm.running_var.numpy(), wide.var((0, 2), ddof=1), rtol=1e-4)


def masks(shards: Shards) -> list[np.ndarray]:
    random = nn.RandomState(3)

    def step(x: Tensor) -> Tensor:
        with random.step():
            return random.uniform("noise", x.shape) + 0 * x

    with engine.device("reference"):
        return [
            found.numpy() for found in engine.trace(step, shards=shards)(np.zeros((2 * shards.size, 5), np.float32))
        ]


def test_a_shard_draws_the_same_numbers_in_any_process() -> None:
    together = masks(Shards(4))
    assert len({found.tobytes() for found in together}) == 4
    apart = [*masks(Shards(4, first=0, local=2)), *masks(Shards(4, first=2, local=2))]
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sums_run_along_a_balanced_tree() -> None:
    x = np.array([1.0, 2.0**24, 1.0, -(2.0**24)], np.float32)
    with engine.device("reference"):
        found = engine.trace(lambda x: engine.shard_sum(engine.sum(x)), shards=Shards(4))(x)
    expected = (x[0] + x[1]) + (x[2] + x[3])
    assert [float(each) for each in found] == [expected] * 4


def test_a_value_that_is_equal_in_all_shards_counts_once_for_each() -> None:
    with engine.device("reference"):
        step = engine.trace(lambda x: engine.shard_sum(engine.ones(())) + 0 * engine.shard_sum(engine.sum(x)),
                            shards=Shards(4))  # fmt: skip
        assert float(step(np.zeros(4, np.float32))[0]) == 4


def test_batches_that_shards_do_not_divide_are_refused() -> None:
    with pytest.raises(TrainerError, match="the shards do not divide the batch"):
        engine.trace(lambda x: engine.sum(x), shards=Shards(4))(np.zeros((6, 2), np.float32))


def test_a_state_with_the_value_of_one_shard_is_refused_by_name() -> None:
    state = State(np.zeros(()), "largest", engine.float32)
    with pytest.raises(TrainerError, match="the state 'largest' gets a value of one shard"):
        engine.trace(lambda x: state.assign(engine.max(x)), shards=Shards(2))(np.zeros((4, 2), np.float32))


def test_host_code_and_sums_inside_scans_are_refused_by_name() -> None:
    def calls(x: Tensor) -> Any:
        return engine.host_call(lambda array: array, x, results=[(x.shape, x.dtype)])

    def scans(x: Tensor) -> Any:
        return engine.scan(lambda total, row: (total + engine.shard_sum(row), row), engine.zeros((2,)), x)

    for step, name in ((calls, "host_call"), (scans, "scan")):
        with pytest.raises(TrainerError, match=name):
            engine.trace(step, shards=Shards(2))(np.zeros((4, 2), np.float32))


WEIGHT = np.random.default_rng(2).normal(size=(3, 5)).astype(np.float32)


def gradient_in_shards(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Trace the gradient of a loss of x [8, 4, 3], y [8, 4, 5] = x · w and w."""
    w = State(WEIGHT, "w", engine.float32)

    def step(x: Tensor) -> Tensor:
        (gradient,) = engine.gradients(loss(x, x @ w, w), [w])
        return engine.shard_sum(gradient)

    with engine.device("reference"):
        engine.trace(step, shards=Shards(2))(np.ones((8, 4, 3), np.float32))


def similarity(y: Tensor) -> Tensor:
    flat = engine.reshape(y, (y.shape[0], -1))
    return flat @ flat.T


MIXING: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "matmul": lambda x, y, w: engine.mean(similarity(y)),
    "subtract": lambda x, y, w: engine.mean((y - engine.mean(y, axis=0)) ** 2),
    "sqrt": lambda x, y, w: engine.sqrt(engine.mean(y * y)),
    "divide": lambda x, y, w: engine.sum(y) / engine.sum(engine.abs(y)),
    "reduce_max": lambda x, y, w: engine.mean(engine.max(y, axis=0)),
    "flip": lambda x, y, w: engine.mean(y * engine.flip(y, axis=0)),
    "slice": lambda x, y, w: engine.mean(y[1:] * y[:-1]),
    "gather": lambda x, y, w: engine.mean(engine.take(y, engine.asarray([1, 0]), axis=0)),
    "argsort": lambda x, y, w: engine.mean(y * engine.argsort(y, axis=0).astype(engine.float32)),
    "cumulative_sum": lambda x, y, w: engine.mean(engine.cumulative_sum(y, axis=0) ** 2),
    "reshape": lambda x, y, w: engine.mean(engine.reshape(y, (2, 2, 4, 5)) ** 2),
    "add": lambda x, y, w: engine.mean((y[:, None] + y[None]) ** 2),
    "scan": lambda x, y, w: engine.mean(engine.scan(lambda c, r: (c + r, c), engine.zeros((4, 5)), y)[1]),
}
"""Losses by the operation that mixes rows."""


@pytest.mark.parametrize("name", MIXING)
def test_an_operation_that_mixes_rows_is_refused_with_its_name_and_line(name: str) -> None:
    with pytest.raises(TrainerError, match=f"{name} mixes rows of the batch") as caught:
        gradient_in_shards(MIXING[name])
    assert "test_shards.py" in (caught.value.where or "")


def recurrent(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    steps = engine.permute_dims(y, (1, 0, 2))
    return engine.mean(engine.scan(lambda c, r: (c * 0.5 + r, c), engine.zeros((y.shape[0], 5)), steps)[1])


def real_and_generated(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    both = engine.concat([y, y * 2]) ** 2
    return engine.mean(both[: y.shape[0]]) - engine.mean(both[y.shape[0] :])


SEPARATE: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "steps of a sequence": recurrent,
    "two batches in one": real_and_generated,
    "rows and steps as one axis": lambda x, y, w: engine.mean(engine.reshape(x, (-1, 3)) @ w),
    "attention": lambda x, y, w: engine.mean(engine.matmul(y, engine.matrix_transpose(y)) @ y),
    "weighted": lambda x, y, w: engine.sum(engine.max(y, axis=2) * x[:, :, 0]) / engine.sum(x),
    "weight decay": lambda x, y, w: engine.mean(y) + 0.1 * engine.sum(w * w),
    "mixed inputs": lambda x, y, w: engine.mean(engine.abs((0.5 * x + 0.5 * engine.flip(x, axis=0)) @ w) * x[:, :, :1]),
    "sums over all shards": lambda x, y, w: engine.sqrt(engine.shard_sum(engine.sum(y * y))),
    "gradient penalty": lambda x, y, w: engine.mean(engine.gradients(engine.sum(y**3), [x])[0] ** 2),
}


@pytest.mark.parametrize("name", SEPARATE)
def test_rows_that_stay_separate_up_to_a_sum_are_accepted(name: str) -> None:
    gradient_in_shards(SEPARATE[name])


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("layer", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_keep_rows_separate(layer: Any, ragged: bool) -> None:
    net = layer(3, 2, batch_first=True)
    net.set_seed(0, "net")
    parameters = list(net.parameters())

    def step(x: Tensor, lengths: Tensor) -> list[Tensor]:
        y, _ = net(x, lengths=lengths if ragged else None)
        return [engine.shard_sum(each) for each in engine.gradients(engine.mean(y * y), parameters)]

    with engine.device("reference"):
        engine.trace(step, shards=Shards(2))(np.ones((4, 3, 3), np.float32), np.array([3, 1, 2, 3]))


def test_dice_over_the_batch_is_that_of_all_shards() -> None:
    logits = np.random.default_rng(3).normal(size=(8, 3, 2, 2)).astype(np.float32)
    labels = np.random.default_rng(4).integers(0, 3, (8, 2, 2))
    with engine.device("reference"):
        whole = engine.trace(nn.dice_loss)(logits, labels)
        parts = engine.trace(nn.dice_loss, shards=Shards(4))(logits, labels)
    for part in parts:
        np.testing.assert_allclose(float(part), float(whole), rtol=1e-6)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_process_gives_its_values_and_takes_those_of_others(device: str) -> None:
    given: list[list[np.ndarray]] = []
    theirs = np.arange(24, dtype=np.float32)

    class Exchange:
        def begin(self, totals: Sequence[Storage]) -> Callable[[], None]:
            """The other process has zeros."""
            return lambda: None

        def gather(self, arrays: Sequence[np.ndarray], owners: Sequence[int]) -> None:
            assert owners == [0, 1]
            given.append([array.copy() for array in arrays])
            arrays[1][:] = theirs

    own, other = (State(np.full((4, 3, 2, 1), -0.0, np.float32)) for _ in range(2))

    def step(x: Tensor) -> Tensor:
        gradient = engine.shard_sum(engine.reshape(engine.sum(x, axis=0), (4, 3, 2, 1)))
        own.assign(from_process(own - gradient, gradient, 0))
        other.assign(from_process(other, gradient, 1))
        return engine.sum(own + other)  # read after the exchange

    x = np.random.default_rng(0).normal(size=(4, 24)).astype(np.float32)
    with engine.device(device):
        found = engine.trace(step, shards=Shards(4, 0, 2, Exchange()))(x)
    assert given[0][0].tobytes() == own.numpy().tobytes()
    np.testing.assert_allclose(own.numpy().ravel(), -x.sum(0), rtol=1e-5, atol=1e-6)
    assert other.numpy().ravel().tolist() == theirs.tolist()
    np.testing.assert_allclose(found[1].numpy(), (theirs - x.sum(0)).sum(), rtol=1e-5)


def test_shards_are_a_power_of_two() -> None:
    with pytest.raises(TrainerError, match="not a power of two"):
        Shards(6)
