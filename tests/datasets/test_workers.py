"""Worker processes: the same bytes whoever makes them, and no way of dying that loses, hangs or leaves anything."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from trainer import TrainerError
from trainer.configs.custom_class import own_class
from trainer.datasets import ArrayDataset, BadItem, Batch, Loader, Position, RandomShift
from trainer.datasets.workers import WorkerFailure
from trainer.datasets.workers.pool import MOST_LENT, RESTARTS, WorkerPool

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def of_file(worker_data: Path) -> Callable[[str], Any]:
    """Classes and functions of the file that workers import by its path."""

    def find(name: str) -> Any:
        found = own_class(f"{worker_data}:Boxes")
        return getattr(sys.modules[found.__module__], name)

    return find


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> None:
    """Exempts what other tests have left in use from the garbage collections around each test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test its workers have ended and its shared memory is gone."""
    gc.collect()  # what other tests have left
    before = open_files()
    yield
    gc.collect()
    assert children() == []
    assert open_files() == before


def children() -> list[psutil.Process]:
    living = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    return [each for each in living if "datasets.workers" in " ".join(each.cmdline())]


def open_files() -> int:
    """How many descriptors of shared memory are open here: it has no name, and lives as long as one of them."""
    links = (os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return sum("memfd:trainer" in link for link in links)


def contents(batches: Any) -> list[dict[str, Any]]:
    return [{name: (array.dtype, array.shape, array.tobytes()) for name, array in batch.items()} for batch in batches]


def run(loader: Loader, epochs: int = 2) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for epoch in range(epochs):
        with loader.epoch(epoch, continues=epoch + 1 < epochs) as batches:
            found += contents(batches)
    loader.close()
    return found


@pytest.mark.parametrize("transform", [None, pytest.param("doubled", marks=pytest.mark.full)])
def test_any_number_of_workers_makes_the_same_bytes(of_file: Callable[[str], Any], transform: str | None) -> None:
    dataset = of_file("Boxes")(30, bad=(3, 17))
    options: dict[str, Any] = {"seed": 5, "shuffle": True, "on_error": "skip"}
    options["transform"] = None if transform is None else of_file(transform)
    reports: dict[tuple[int, str], list[BadItem]] = {}
    found = {}
    for workers, kind in [(0, "auto"), (2, "thread"), (1, "process"), (2, "process"), (4, "process")]:
        heard = reports.setdefault((workers, kind), [])
        loader = Loader(dataset, 4, **options, workers=workers, worker_kind=kind, on_bad_item=heard.append)  # type: ignore[arg-type]
        found[workers, kind] = run(loader)
    expected = found.pop((0, "auto"))
    assert len(expected) == 16 and expected[0] != expected[8]
    for who, batches in found.items():
        assert batches == expected, who
        assert reports[who] == reports[0, "auto"] and len(reports[who]) == 2


def test_a_position_costs_the_items_from_there_on_and_no_others(of_file: Callable[[str], Any]) -> None:
    dataset = of_file("Boxes")(40, bad=(0, 1, 2, 3, 4, 5))  # in the first batches, which nobody asks for
    expected = contents(Loader(of_file("Boxes")(40), 4).epoch(0))
    loader = Loader(dataset, 4, workers=2)
    with loader.epoch(0, start=2) as batches:
        assert contents(batches) == expected[2:]
    assert loader.position == Position(0, 10)
    loader.close()


def test_whole_batches_of_arrays_come_from_processes_too() -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 6), dtype=np.uint8)
    dataset = ArrayDataset({"image": images, "label": np.arange(20)})
    options: dict[str, Any] = {"seed": 2, "shuffle": True, "transform": RandomShift(2)}
    expected = run(Loader(dataset, 8, **options))
    assert run(Loader(dataset, 8, **options, workers=2, worker_kind="process")) == expected
    assert Loader(dataset, 8, workers=1).workers.kind == "thread"


def test_batches_stay_as_they_are_for_as_long_as_they_are_held(of_file: Callable[[str], Any]) -> None:
    dataset = of_file("Boxes")(80)
    expected = contents(Loader(dataset, 4).epoch(0))
    loader = Loader(dataset, 4, workers=2)
    held: list[Batch] = list(loader.epoch(0))
    again = [batch for batch in loader.epoch(0)][::3]
    images = [batch["image"][1:, 0] for batch in loader.epoch(0)]  # a view of a view alone keeps it, too
    assert contents(held) == expected and contents(again) == expected[::3]
    for image, batch in zip(images, held, strict=True):
        np.testing.assert_array_equal(image, batch["image"][1:, 0])
    assert isinstance(loader.workers, WorkerPool)
    assert len(loader.workers._slots) <= loader.workers.ahead + 1 + MOST_LENT
    loader.close()
    assert contents(held) == expected
    del held, again, images, image, batch


def test_shared_memory_is_used_again_and_its_layout_is_the_loaders(of_file: Callable[[str], Any]) -> None:
    loader = Loader(of_file("Boxes")(80), 4, workers=1)
    for batch in loader.epoch(0):
        assert batch["image"].transpose(0, 2, 3, 1).flags.c_contiguous
        assert batch["image"].base is not None and not batch["image"].flags.owndata
        assert batch["boxes"].ctypes.data % 64 == 0
    assert isinstance(loader.workers, WorkerPool) and len(loader.workers._slots) <= loader.workers.ahead + 3
    del batch
    loader.close()


def test_loaders_share_workers(of_file: Callable[[str], Any]) -> None:
    first = Loader(of_file("Boxes")(24), 4, workers=2)
    second = Loader(of_file("Boxes")(12), 3, 9, shuffle=True, workers=first.workers)
    with first.epoch(0) as train:
        begun = contents([next(train), next(train)])
        assert contents(second.epoch(0)) == contents(Loader(of_file("Boxes")(12), 3, 9, shuffle=True).epoch(0))
        assert begun + contents(train) == contents(Loader(of_file("Boxes")(24), 4).epoch(0))
    assert len(children()) == 2
    first.close()


def test_an_epoch_left_early_frees_what_was_made_of_it(of_file: Callable[[str], Any]) -> None:
    loader = Loader(of_file("Boxes")(40), 4, workers=2)
    expected = contents(Loader(of_file("Boxes")(40), 4).epoch(0))
    for start in range(10):
        with loader.epoch(0, start) as batches:
            assert contents([next(batches)]) == expected[start : start + 1]
        next(loader.epoch(0, start))  # dropped, not closed
    pool = loader.workers
    assert isinstance(pool, WorkerPool)
    list(loader.epoch(0))
    while any(process.outstanding for process in pool._processes):
        pool._listen()
    pool._take_back()
    assert {slot.number for slot in pool._free} == {slot.number for slot in pool._slots}
    assert len(pool._free) == len(pool._slots)
    loader.close()


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_item_that_can_not_be_used_is_the_same_error_as_without_workers(of_file: Callable[[str], Any]) -> None:
    heard: list[BadItem] = []
    loader = Loader(of_file("Boxes")(12, bad=(9,)), 4, workers=2, on_bad_item=heard.append)
    batches = loader.epoch(0)
    next(batches), next(batches)
    with pytest.raises(TrainerError) as caught:
        next(batches)
    assert caught.value.where == "boxes/9.png" and caught.value.hint == "Fetch it again."
    assert any("worker_data.py" in note for note in caught.value.__notes__)  # where it was raised, for --debug
    assert [(item.source, item.action) for item in heard] == [("boxes/9.png", "raised")]
    with pytest.raises(StopIteration):
        next(batches)
    loader.close()


def test_a_failure_of_the_data_sets_code_has_its_traceback_and_its_item(of_file: Callable[[str], Any]) -> None:
    loader = Loader(of_file("Broken")(12, 6, None), 4, workers=2)
    batches = loader.epoch(0)
    next(batches)
    with pytest.raises(WorkerFailure, match=r"KeyError[\s\S]*worker_data\.py[\s\S]*item 6: deadly/6"):
        next(batches)
    loader.close()


def test_what_can_not_be_pickled_is_refused_with_the_way_out() -> None:
    dataset = ArrayDataset({"value": np.arange(4)})
    with pytest.raises(TrainerError, match=r"worker processes[\s\S]*worker_kind=thread"):
        Loader(dataset, 2, transform=lambda batch, draws: batch, workers=1, worker_kind="process")
    gc.collect()


def test_workers_import_no_engine(of_file: Callable[[str], Any]) -> None:
    loader = Loader(of_file("Modules")(), 4, workers=1)
    (batch,) = loader.epoch(0)
    assert not batch["loaded"].any()
    loader.close()
    del batch


# --- ends -------------------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_replaced_and_its_work_done_again(of_file: Callable[[str], Any], tmp_path: Path) -> None:
    told: list[str] = []
    dataset = of_file("Deadly")(60, 21, tmp_path / "killed")
    loader = Loader(dataset, 4, workers=2, tell=told.append)
    assert [batch["value"].tolist() for batch in loader.epoch(0)] == np.arange(60).reshape(15, 4).tolist()
    assert (tmp_path / "killed").exists() and len(told) == 1
    assert "SIGKILL" in told[0] and "deadly/21" in told[0] and loader.workers.killed == 1
    loader.close()


def test_workers_killed_from_outside_change_nothing(of_file: Callable[[str], Any]) -> None:
    expected = contents(Loader(of_file("Boxes")(40), 4).epoch(0))
    loader = Loader(of_file("Boxes")(40), 4, workers=2)
    found = []
    with loader.epoch(0) as batches:
        for step, batch in enumerate(batches):
            found += contents([batch])
            if step in (2, 5):
                loader.workers._children[0][0].kill()  # type: ignore[attr-defined]
    assert found == expected
    loader.close()


def test_workers_that_die_again_and_again_are_an_error_that_names_the_item(of_file: Callable[[str], Any]) -> None:
    told: list[str] = []
    loader = Loader(of_file("Deadly")(12, 6, None), 4, workers=2, tell=told.append)
    batches = loader.epoch(0)
    assert next(batches)["value"].tolist() == [0, 1, 2, 3]
    with pytest.raises(TrainerError, match=r"deadly/6: data workers die[\s\S]*SIGKILL[\s\S]*memory"):
        next(batches)
    assert len(told) == RESTARTS
    loader.close()


def test_a_batch_that_takes_long_is_told_of_with_the_item_it_is_on(of_file: Callable[[str], Any]) -> None:
    class EnoughHeard(Exception):
        pass

    def tell(text: str) -> None:
        told.append(text)
        if "slow/5" in text:  # not yet while the worker is starting
            raise EnoughHeard

    told: list[str] = []
    pool = WorkerPool(1, tell=tell, wonder_after=0.05)
    batches = Loader(of_file("Slow")(8, 5, None), 4, workers=pool).epoch(0)
    assert next(batches)["value"].tolist() == [0, 1, 2, 3]
    with pytest.raises(EnoughHeard):
        next(batches)
    assert told[-1] == "A batch has been loading for 0.05 s; workers are reading slow/5."
    pool.close()


def test_dropping_a_loader_ends_its_workers(of_file: Callable[[str], Any]) -> None:
    loader = Loader(of_file("Boxes")(40), 4, workers=2)
    batches = loader.epoch(0)
    next(batches)
    processes = children()
    assert len(processes) == 2
    del loader, batches
    gc.collect()
    assert children() == []


PROGRAM = """
    import os, signal, sys
    from pathlib import Path
    from trainer.configs.custom_class import own_class
    from trainer.datasets import Loader

    Data = getattr(sys.modules[own_class("{data}:Boxes").__module__], "{name}")

    if __name__ == "__main__":
        loader = Loader(Data(*{arguments}), 4, workers=2)
        batches = loader.epoch(0)
        print(next(batches)["value"].tolist(), *(child[0].pid for child in loader.workers._children), flush=True)
        {then}
"""


def start(worker_data: Path, folder: Path, name: str, arguments: object, then: str) -> subprocess.Popen[str]:
    program = folder / "program.py"
    text = textwrap.dedent(PROGRAM).format(data=worker_data, name=name, arguments=arguments, then=then)
    program.write_text(text, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
    )  # fmt: skip


def begun(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The program's workers, once it has its first batch."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("[0, 1, 2, 3] "), process.communicate()
    return [psutil.Process(int(word)) for word in line.split("] ")[1].split()]


def test_killing_the_process_that_trains_leaves_no_worker(worker_data: Path, tmp_path: Path) -> None:
    with start(worker_data, tmp_path, "Slow", (40, 30, None), "signal.pause()") as process:
        workers = begun(process)
        assert len(workers) == 2  # one of them on an item that it will never be done with
        process.kill()
        process.communicate()
        gone, alive = psutil.wait_procs(workers, timeout=20)
    assert len(gone) == 2 and not alive


def test_control_c_ends_all_with_one_traceback(worker_data: Path, tmp_path: Path) -> None:
    with start(worker_data, tmp_path, "Slow", (40, 6, None), "list(batches)") as process:
        workers = begun(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
        _, errors = process.communicate(timeout=20)
        gone, alive = psutil.wait_procs(workers, timeout=20)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
    assert len(gone) == 2 and not alive


@pytest.mark.full
def test_a_program_that_just_ends_leaves_nothing_and_says_nothing(worker_data: Path, tmp_path: Path) -> None:
    with start(worker_data, tmp_path, "Slow", (40, 30, None), "sys.stdin.read()") as process:
        workers = begun(process)
        _, errors = process.communicate("", timeout=20)
        gone, _ = psutil.wait_procs(workers, timeout=20)
    assert (process.returncode, errors, len(gone)) == (0, "", 2)


def test_a_data_set_may_be_defined_in_the_program_itself(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import numpy as np
        from trainer.datasets import Loader

        class Numbers:
            class_names = ()
            def __len__(self): return 8
            def __getitem__(self, index): return {"value": np.int64(index * FACTOR)}
            def source(self, index): return str(index)

        FACTOR = 3

        if __name__ == "__main__":
            loader = Loader(Numbers(), 4, workers=2)
            print([batch["value"].tolist() for batch in loader.epoch(0)])
            loader.close()
    """)
    )
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("[[0, 3, 6, 9], [12, 15, 18, 21]]", "")
