"""Sums over GPUs of several processes, by NCCL's sends and receives: the tree's bits, its order, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engine.targets.cuda.nccl import Communicator, Deadlock, Member, Mismatch, NcclError, World
from tests.engine.targets.cuda.recorder import Disorder, Recorder
from tests.tiers import tiered
from trainer import TrainerError, engine
from trainer.configs import RunConfig
from trainer.engine import Tensor, nn
from trainer.engine.graph import dtypes
from trainer.engine.graph.storage import Storage
from trainer.engine.sharding import Shards
from trainer.engine.targets import DeviceFailure
from trainer.engine.targets.cuda import driver
from trainer.engine.targets.cuda.device import CudaDevice
from trainer.engine.targets.cuda.exchange import SMALL_BYTES, NcclExchange, rounds
from trainer.learner.device import device_for
from trainer.learner.ranks import Group as Processes
from trainer.learner.ranks import RankLost
from trainer.learner.ranks.agreement import shards_for

ROWS = 8


def exchanges(world: World) -> list[NcclExchange]:
    """The exchange of each rank."""
    return [world.device(rank).exchange(Member(world, rank)) for rank in range(len(world.recorders))]


def totals(exchange: NcclExchange, arrays: list[np.ndarray]) -> list[Storage]:
    """Storages on the GPU of an exchange."""
    found = [Storage.of(array, dtypes.from_numpy(array.dtype)) for array in arrays]
    for storage in found:
        storage.move(exchange._memory)
    return found


def balanced(values: list[np.ndarray]) -> np.ndarray:
    while len(values) > 1:
        values = [one + other for one, other in zip(values[::2], values[1::2], strict=True)]
    return values[0]


@pytest.mark.parametrize("size", tiered((2, 4, 8), (2,)))
def test_sums_over_gpus_are_those_of_a_balanced_tree(size: int) -> None:
    world, generator = World(size), np.random.default_rng(size)
    lengths = (1, 0, 5, SMALL_BYTES // 4 + 7)  # together they are exchanged by halves of unequal length
    scales = 10.0 ** generator.integers(-6, 6, size)
    given = [[(generator.normal(size=length) * scale).astype(np.float32) for length in lengths] for scale in scales]
    for arrays in given:
        arrays.append(generator.integers(-9, 9, 3).astype(np.int32))  # exchanged whole
        arrays[2][0] = 1e-40  # subnormal numbers count as zeros, as in a step
    every = exchanges(world)
    storages = [totals(exchange, arrays) for exchange, arrays in zip(every, given, strict=True)]
    for exchange, of_rank in zip(every, storages, strict=True):
        exchange.begin(of_rank)()
    for place, arrays in enumerate(zip(*given, strict=True)):
        expected = balanced(list(arrays))
        if place == 2:
            expected[0] = 0
        for of_rank in storages:
            assert of_rank[place].flat()[: arrays[0].size].tobytes() == expected.tobytes()
    world.settled()
    assert world.groups == size * 3 * int(np.log2(size)), "once whole; by halves, there and back"


@pytest.mark.parametrize("length", [1, 16, 33, 100, 1000])
def test_ranks_keep_what_their_partner_gives(length: int) -> None:
    for size in (2, 4, 8):
        every = [rounds(rank, size, length, is_whole=False) for rank in range(size)]
        for rank, of_rank in enumerate(every):
            for number, each in enumerate(of_rank):
                other = every[each.partner][number]
                assert (other.partner, other.kept, other.given) == (rank, each.given, each.kept)
                assert each.kept[0] % 16 == 0 or each.kept[0] == each.kept[1]
        finals = sorted(of_rank[-1].kept for of_rank in every)
        covered = [index for first, last in finals for index in range(first, last)]
        assert covered == list(range(length))


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))


def step_of(net: nn.Module, shards: Shards, device: CudaDevice) -> Callable[[], list[Tensor]]:
    """A training step of a network, with this rank's part of a batch."""
    net.set_seed(0, "net")
    net.train()
    parameters, generator = list(net.parameters()), np.random.default_rng(0)
    rows = shards.rows(ROWS)
    x = generator.normal(3, 2, size=(ROWS, 2, 2, 2)).astype(np.float32)[rows]
    y = generator.integers(0, 3, ROWS)[rows]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = nn.cross_entropy(net(x), y) / shards.count
        for parameter, gradient in zip(parameters, engine.gradients(loss, parameters), strict=True):
            parameter.assign(parameter - 0.05 * engine.shard_sum(gradient))
        return engine.shard_sum(loss)

    traced = engine.trace(step, shards=shards)

    def run() -> list[Tensor]:
        with engine.device(device):
            return traced(x, y)

    return run


def trained(world: World, make: Callable[[], nn.Module], count: int) -> list[dict[str, bytes]]:
    """For each rank the bits of a network, and of the loss, after two steps on `count` shards."""
    size = len(world.recorders)
    local = count // size
    every = []
    for rank in range(size):
        device, net = world.device(rank), make()
        exchange = device.exchange(Member(world, rank)) if size > 1 else None
        every.append((device, net, step_of(net, Shards(count, rank * local, local, exchange), device)))
    for _ in range(2):
        losses = [run() for _, _, run in every]
    found = []
    for (device, net, _), loss in zip(every, losses, strict=True):
        with engine.device(device):
            values = {**net.state_dict(), "loss": loss[0].numpy()}
        found.append({name: value.tobytes() for name, value in values.items()})
    world.settled()
    return found


def test_ranks_train_with_the_bits_of_one_process() -> None:
    (expected,) = trained(World(1), dense, 2)
    assert trained(World(2), dense, 2) == [expected] * 2


@pytest.mark.full
def test_two_and_four_ranks_train_a_convolutional_network_with_the_bits_of_one_process() -> None:
    (expected,) = trained(World(1), convolutional, 4)
    for size in (2, 4):
        assert trained(World(size), convolutional, 4) == [expected] * size


def test_values_of_each_shard_are_returned() -> None:
    x, world = np.arange(24, dtype=np.float32).reshape(8, 3), World(1)
    with engine.device(world.device(0)):
        step = engine.trace(lambda x: (engine.sum(x * x, axis=1), engine.shard_sum(engine.sum(x))), shards=Shards(4))
        for _ in range(2):
            for number, (rows, total) in enumerate(step(x)):
                np.testing.assert_array_equal(rows.numpy(), (x * x).sum(1)[2 * number : 2 * number + 2])
                assert float(total) == x.sum()
    world.settled()


def test_sums_overlap_other_work_of_the_gpu() -> None:
    """Work that does not read the sums is not behind the exchange; work that reads them too early is an error."""
    world = World(2)
    every = exchanges(world)
    ones = [totals(exchange, [np.ones(4, np.float32)]) for exchange in every]
    finish = [exchange.begin(of_rank) for exchange, of_rank in zip(every, ones, strict=True)]
    memory = every[0]._memory
    (other,) = totals(every[0], [np.full(4, 7, np.float32)])
    before = memory.copy(other.block)
    memory.mark(memory.compute).synchronize()
    assert world.groups == 0, "the GPU waited for the exchange"
    for each in finish:
        each()
    np.testing.assert_array_equal(memory.download(before)[:4], 7)
    np.testing.assert_array_equal(ones[0][0].flat()[:4], 2)
    every[0].begin(ones[0])
    with pytest.raises(Disorder):
        memory.copy(ones[0][0].block)


def test_the_host_gives_a_step_without_waiting_for_other_ranks() -> None:
    world = World(2)
    device = world.device(0)
    step_of(
        dense(), Shards(2, 0, 1, device.exchange(Member(world, 0))), device
    )()  # the other rank has given nothing yet
    assert world.groups == 0


def test_a_rank_that_never_comes_is_a_deadlock() -> None:
    world = World(2)
    first, _ = exchanges(world)
    (total,) = totals(first, [np.ones(4, np.float32)])
    first.begin([total])()
    with pytest.raises(Deadlock, match="rank 0 waits for message 0 of rank 1"):
        total.flat()
    with pytest.raises(Mismatch, match="rank 0 sends 1"):
        world.settled()


def test_messages_of_other_sizes_and_in_another_order_are_found() -> None:
    world = World(2)
    every = exchanges(world)
    pairs = [totals(exchange, [np.ones(4 + rank, np.float32)]) for rank, exchange in enumerate(every)]
    for exchange, of_rank in zip(every, pairs, strict=True):
        exchange.begin(of_rank)()
    with pytest.raises(Mismatch, match="receives 16 bytes, of which rank 1 sends 20"):
        pairs[0][0].flat()

    world = World(4)
    kept = []
    ring = {0: (1, 3), 1: (2, 0), 2: (3, 1), 3: (0, 2)}  # each rank waits for the one after it first
    for rank, recorder in enumerate(world.recorders):
        stream, memory = recorder.Stream(non_blocking=True), recorder.MemoryPool().malloc(512)
        communicator = Communicator(world, recorder.nccl, rank)
        kept.append((stream, memory))
        memory.tenancy.is_written[:] = True
        for partner in ring[rank]:
            recorder.nccl.groupStart()
            communicator.send(memory.ptr, 16, 1, partner, stream.ptr)
            communicator.recv(memory.ptr + 256, 16, 1, partner, stream.ptr)
            recorder.nccl.groupEnd()
    with pytest.raises(Deadlock, match="which waits in its group"):
        kept[0][0].run_to(2)


def test_without_nccl_the_package_is_named() -> None:
    with pytest.raises(TrainerError, match=r"(?s)several GPUs needs NCCL.*nvidia-nccl-cu12"):
        CudaDevice(0, Recorder()).exchange(Member(World(2), 0))


def test_an_error_of_nccl_is_one_sentence() -> None:
    world = World(2)
    first, _ = exchanges(world)
    (total,) = totals(first, [np.ones(4, np.float32)])
    world.failing = 6
    for work in (lambda: first.begin([total]), lambda: exchanges(world)):
        with pytest.raises(DeviceFailure) as caught:
            work()
        assert caught.value.message == "NCCL failed on cuda (emulated GPU)" and "status 6" in str(caught.value.found)
        assert caught.value.where == "rank 0 of 2" and "resumes" in str(caught.value.hint)


def test_a_lost_rank_aborts_what_waits_for_it() -> None:
    """NCCL's kernels wait forever for a rank that is lost, so the host looks for it while it waits."""

    class Lost(Member):
        def wait(self, is_done: Callable[[], bool]) -> None:
            raise RankLost("rank 1 died")

    world = World(2)
    exchange = world.device(0).exchange(Lost(world, 0))
    (total,) = totals(exchange, [np.ones(4, np.float32)])
    exchange.begin([total])()
    with pytest.raises(RankLost, match="rank 1 died"):
        total.flat()
    assert world.aborted == 1


class Local(Processes):
    """A rank of several whose messages are known."""

    def __init__(self, rank: int, keys: list[Any]) -> None:
        super().__init__()
        self.rank, self.size, self._keys = rank, len(keys), keys

    def to_all(self, value: Any) -> list[Any]:
        return [value if key is None else key for key in self._keys]


def test_each_process_of_a_machine_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(task="digits", device="cuda")
    elsewhere = ("node7", None)
    monkeypatch.setattr(driver, "load", lambda: Recorder(gpus=2))
    assert device_for(config, Local(2, [elsewhere, None, None])) == "cuda:1"
    assert device_for(RunConfig(task="digits", device="cuda:1"), Local(0, [None, elsewhere])) == "cuda:1"
    assert device_for(config) == "cuda:0"
    with pytest.raises(TrainerError, match=r"(?s)more processes than GPUs.*3 processes; GPUs: 2"):
        device_for(config, Local(0, [None, None, None, elsewhere]))


def test_other_hardware_is_refused() -> None:
    """`Group.require_same` refuses ranks whose facts differ."""
    world = World(2)
    other = Recorder(name="another GPU")
    other.nccl = world.recorders[1].nccl
    for rank, recorder in enumerate((world.recorders[0], other)):
        CudaDevice(0, recorder).exchange(Member(world, rank))
    assert [facts["the GPU"] for facts in world.facts] == ["emulated GPU (sm_90a)", "another GPU (sm_90a)"]


def test_shards_are_exchanged_by_the_current_device() -> None:
    world = World(2)
    group = Local(1, [None, None])
    group.from_first = lambda value=None: bytes(range(128))  # type: ignore[method-assign]
    group.require_same = lambda facts, hint="": None  # type: ignore[method-assign]
    config = RunConfig(task="digits", train={"shards": 4})
    with engine.device(CudaDevice(1, world.recorders[1])):
        shards = shards_for(config, group)
    assert isinstance(shards.exchange, NcclExchange) and (shards.first, shards.local) == (2, 2)
    with engine.device("cpu"):
        assert shards_for(config, group).exchange is group
    assert NcclError(6).status == 6
