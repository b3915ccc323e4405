"""Products of GPUs: tiles give the same bits, tensor cores come near, work before and after a product is fused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.targets.ptx.device import EmulatedDevice
from trainer import TrainerError
from trainer.engine.graph import dtypes, half
from trainer.engine.graph import primitives as p
from trainer.engine.graph.dtypes import DType
from trainer.engine.graph.node import Node
from trainer.engine.graph.storage import Storage
from trainer.engine.targets import Device
from trainer.engine.targets.cpu.device import CpuDevice
from trainer.engine.targets.ptx.kernels.product import ProductKernel, Tile
from trainer.engine.targets.ptx.kernels.product_writer import MOST_DECLARED
from trainer.engine.targets.ptx.lowering import products
from trainer.engine.targets.ptx.lowering.products import EXACT_TILES, TENSOR_TILES, Precision
from trainer.engine.targets.reference import ReferenceDevice

PRECISIONS: list[tuple[Precision, DType, float]] = [
    ("bfloat16", dtypes.bfloat16, 2.0**-20), ("float16", dtypes.float16, 2.0**-20), ("tf32", dtypes.float32, 2.0**-9),
]  # fmt: skip
"""Operands, and the largest error relative to the sum of magnitudes: of rounding to TF32, else of float32 sums."""

reference = ReferenceDevice()


def leaf(*shape: int, dtype: DType = dtypes.float32, seed: int = 0) -> Node:
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return p.buffer(Storage.of(half.stored(numbers, dtype) if dtype.is_half else numbers.astype(dtype.storage), dtype))


def three_directions(
    dtype: DType, precision: DType | None, groups: int = 1, strides: tuple[int, int] = (2, 1)
) -> list[Node]:
    """A convolution of odd sizes and both its gradients."""
    geometry = (strides, ((1, 1), (0, 2)), (1, 2), groups)
    x, w = leaf(3, 8, 9, 11, dtype=dtype), leaf(16, 8 // groups, 3, 3, dtype=dtype, seed=1)
    y = p.convolution(x, w, *geometry, precision)
    dy = leaf(*y.shape, dtype=dtype, seed=2)
    return [
        y, p.convolution_input_gradient(dy, w, *geometry, x.shape[2:], precision),
        p.convolution_weight_gradient(x, dy, *geometry, w.shape[2:], precision),
    ]  # fmt: skip


def products_of(dtype: DType) -> list[Node]:
    """A product of transposed matrices, and three_directions; sums are float32."""
    precision = dtype if dtype.is_half else None
    a, b = leaf(2, 33, 70, dtype=dtype), leaf(2, 40, 33, dtype=dtype, seed=1)
    return [
        p.matmul(p.permute(a, (0, 2, 1)), p.permute(b, (0, 2, 1)), precision), *three_directions(dtype, precision)
    ]  # fmt: skip


def assert_near(device: Device, nodes: list[Node], error: float) -> None:
    for ours, expected in zip(device.evaluate(nodes), reference.evaluate(nodes), strict=True):
        wanted = expected.view()
        np.testing.assert_allclose(ours.view(), wanted, rtol=0, atol=error * 30 * np.abs(wanted).max())


@pytest.mark.parametrize(("name", "dtype", "error"), PRECISIONS, ids=[name for name, *_ in PRECISIONS])
def test_tensor_cores_multiply_what_they_may(name: Precision, dtype: DType, error: float) -> None:
    nodes, device = products_of(dtype), EmulatedDevice(tensor_cores=(name,))
    launches = [each for each in device.lowered(nodes).launches if each.work.kind == "contraction"]
    assert all("mma.sync" in device.target.assembled(launch) for launch in launches)
    assert_near(device, nodes, error)


def test_other_products_stay_exact() -> None:
    product = p.matmul(leaf(5, 6), leaf(6, 7))
    device = EmulatedDevice(tensor_cores=("bfloat16", "float16"))
    (launch,) = device.lowered([product]).launches
    assert "mma.sync" not in device.target.assembled(launch)


@pytest.mark.full
@pytest.mark.parametrize("tile", [*EXACT_TILES, *TENSOR_TILES], ids=str)
def test_every_tile_gives_the_same_bits(tile: Tile, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype, kinds = (dtypes.bfloat16, ("bfloat16",)) if tile.tensor else (dtypes.float32, ())
    device = EmulatedDevice(tensor_cores=kinds)
    nodes = three_directions(dtype, dtype if tile.tensor else None)
    expected = [each.view() for each in device.evaluate(nodes)]
    monkeypatch.setattr(products, "candidates", lambda *what: [tile])
    for ours, wanted in zip(device.evaluate(nodes), expected, strict=True):
        np.testing.assert_array_equal(ours.view(), wanted)


@pytest.mark.parametrize("groups", [2, 8])
def test_convolutions_and_gradients_of_inputs_have_the_bits_of_the_cpu(groups: int) -> None:
    *exact, weights = three_directions(dtypes.float32, None, groups)
    cpu = CpuDevice(threads=1)
    for ours, expected in zip(EmulatedDevice().evaluate(exact), cpu.evaluate(exact), strict=True):
        np.testing.assert_array_equal(ours.view(), expected.view())
    assert_near(EmulatedDevice(), [weights], 2.0**-22)


def test_work_before_and_after_a_convolution_is_part_of_it() -> None:
    """Batch norm's scale and shift with ReLU on the input, and a bias on the result, in one launch."""
    x, w = leaf(2, 8, 5, 5), leaf(12, 8, 1, 1, seed=1)
    scale, bias = (p.expand(p.reshape(leaf(size, seed=2), (1, size, 1, 1)), (2, size, 5, 5)) for size in (8, 12))
    input_ = p.maximum(p.multiply(x, scale), p.full_like(x, 0))
    y = p.convolution(input_, w, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    node, device = p.tanh(p.add(y, bias)), EmulatedDevice()
    kernels = [launch for launch in device.lowered([node]).launches if launch.work.kind != "loop"]
    assert len(kernels) == 1 and kernels[0].work.epilogue.body
    for ours, expected in zip(device.evaluate([node]), CpuDevice(threads=1).evaluate([node]), strict=True):
        np.testing.assert_array_equal(ours.view(), expected.view())


@pytest.mark.parametrize(("name", "dtype", "error"), PRECISIONS, ids=[name for name, *_ in PRECISIONS])
def test_a_few_channels_of_all_taps_are_summed_before_the_next_ones(
    name: Precision, dtype: DType, error: float
) -> None:
    precision, geometry = dtype if dtype.is_half else None, ((2, 1), ((1, 1), (0, 2)), (1, 1), 2)
    x, w = leaf(2, 128, 6, 5, dtype=dtype), leaf(128, 64, 3, 3, dtype=dtype, seed=1)
    y = p.convolution(x, w, *geometry, precision)
    dy = leaf(*y.shape, dtype=dtype, seed=2)
    nodes = [y, p.convolution_input_gradient(dy, w, *geometry, x.shape[2:], precision)]
    device = EmulatedDevice(tensor_cores=(name,))
    keys = [launch.source.key for launch in device.lowered(nodes).launches if launch.work.kind == "contraction"]
    few = 64 // dtype.itemsize
    assert {key.spaces[3] for key in keys} == {(64 // few, rows, 3, few) for rows in (1, 2, 3)}
    assert_near(device, nodes, error)


@pytest.mark.parametrize(("name", "dtype", "error"), PRECISIONS, ids=[name for name, *_ in PRECISIONS])
@pytest.mark.parametrize("turned", [False, True])
def test_neighbors_are_stored_at_once(name: Precision, dtype: DType, error: float, turned: bool) -> None:
    """A product with a bias and a residual: of the right operand either axis is contiguous."""
    x, w = leaf(70, 64, 1, 1, dtype=dtype), leaf(*((64, 96) if turned else (96, 64)), 1, 1, dtype=dtype, seed=1)
    w = p.permute(w, (1, 0, 2, 3)) if turned else w
    y = p.convolution(x, w, (1, 1), ((0, 0), (0, 0)), (1, 1), 1, dtype if dtype.is_half else None)
    bias = p.expand(p.reshape(leaf(96, seed=2), (1, 96, 1, 1)), y.shape)
    node = p.add(p.tanh(p.add(y, bias)), leaf(*y.shape, seed=3))
    device = EmulatedDevice(tensor_cores=(name,))
    (launch,) = device.lowered([node]).launches
    key = launch.source.key
    assert isinstance(key, ProductKernel) and key.stored == 4 and len(key.epilogue.operands) == 2
    assert key.loads[0].lanes * dtype.itemsize == 16
    assert key.loads[1].along == ("kept" if turned else "depth")
    assert_near(device, [node], error)


def test_a_kernel_gets_more_shared_memory_than_it_may_declare_at_its_launch() -> None:
    precision = dtypes.bfloat16
    node = p.matmul(leaf(128, 256, dtype=precision), leaf(256, 128, dtype=precision, seed=1), precision)
    kernels = {}
    for tile in (Tile(64, 64, 32, 32, 32, True), Tile(128, 128, 32, 64, 32, True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(products, "candidates", lambda *what, tile=tile: [tile])
            device = EmulatedDevice(tensor_cores=("bfloat16",))
            (launch,) = device.lowered([node]).launches
            kernels[launch.shared > MOST_DECLARED] = device.evaluate([node])[0].view()
            assert (".extern .shared" in device.target.assembled(launch)) == bool(launch.shared)
    np.testing.assert_array_equal(kernels[True], kernels[False])


def test_a_grid_beyond_the_largest_is_refused() -> None:
    x = p.expand(p.reshape(leaf(1), (1, 1)), (1 << 44, 1))
    with pytest.raises(TrainerError, match=r"(?s)too large for one launch.*at most 2,147,483,647 blocks"):
        EmulatedDevice().lowered([p.exp(p.add(x, x))])
