"""The recording driver finds accesses without an order, and memory that is used after it was let go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.targets.cuda.recorder import Disorder, Event, Recorder, Stream

TO_GPU, TO_HOST, ON_GPU = 1, 2, 3


class Setting:
    """Two streams, memory of the GPU and of the host."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.one, self.two = (self.recorder.Stream(non_blocking=True) for _ in range(2))
        self.pool = self.recorder.MemoryPool()
        self.memory: Any = self.pool.malloc(512)
        self.pinned = self.recorder.alloc_pinned_memory(512)

    def copy(self, kind: int, stream: Stream, nbytes: int = 512) -> None:
        ends = (self.memory.ptr, self.pinned.ptr) if kind == TO_GPU else (self.pinned.ptr, self.memory.ptr)
        self.recorder.runtime.memcpyAsync(*ends, nbytes, kind, stream.ptr)

    def mark(self, stream: Stream) -> Event:
        event = self.recorder.Event(disable_timing=True)
        event.record(stream)
        return event


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_streams_need_an_event_between_them(setting: Setting) -> None:
    setting.copy(TO_GPU, setting.one)
    with pytest.raises(Disorder, match="no order"):
        setting.copy(TO_HOST, setting.two)


def test_an_event_or_the_host_orders_streams(setting: Setting) -> None:
    setting.copy(TO_GPU, setting.one)
    setting.two.wait_event(setting.mark(setting.one))
    _kept, setting.pinned = setting.pinned, setting.recorder.alloc_pinned_memory(512)
    setting.copy(TO_HOST, setting.two)
    setting.mark(setting.two).synchronize()
    setting.copy(TO_GPU, setting.one)


def test_memory_that_was_let_go_is_not_used(setting: Setting) -> None:
    address = setting.memory.ptr
    setting.memory = None
    with pytest.raises(Disorder, match="not allocated"):
        setting.recorder.runtime.memcpyAsync(setting.pinned.ptr, address, 512, TO_HOST, setting.one.ptr)


def test_memory_that_is_taken_again_is_in_order_with_its_use_before(setting: Setting) -> None:
    setting.copy(TO_GPU, setting.one)
    setting.memory = None
    setting.memory = setting.pool.malloc(512)
    with pytest.raises(Disorder, match="no order"):
        setting.copy(TO_GPU, setting.two)


def test_copies_stay_within_their_memory(setting: Setting) -> None:
    with pytest.raises(Disorder, match="not allocated"):
        setting.copy(TO_GPU, setting.one, 513)


def test_pinned_memory_stays_as_it_is_until_its_copy_is_over(setting: Setting) -> None:
    setting.copy(TO_GPU, setting.one)
    setting.pinned[0] = 1
    with pytest.raises(Disorder, match="pinned"):
        setting.mark(setting.one).synchronize()


def test_pinned_memory_is_kept_until_its_copy_is_over(setting: Setting) -> None:
    setting.copy(TO_GPU, setting.one)
    setting.pinned = None  # type: ignore[assignment]
    with pytest.raises(Disorder, match="let go"):
        setting.mark(setting.one).synchronize()


def test_what_is_read_too_early_is_not_there(setting: Setting) -> None:
    setting.pinned[:] = 3
    setting.copy(TO_GPU, setting.one)
    setting.mark(setting.one).synchronize()
    setting.copy(TO_HOST, setting.one)
    assert (np.asarray(setting.pinned) == 0xFF).all()
    event = setting.mark(setting.one)
    assert not event.done
    event.synchronize()
    assert event.done and (np.asarray(setting.pinned) == 3).all()
