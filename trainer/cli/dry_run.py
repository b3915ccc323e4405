"""`trainer run --dry-run`: estimates the time and memory of a run from a few steps of every part. Leaves only kernels
in the cache.

    command   rehearse in one process, which compiles ── measure in another, which uses the kernels ── exit code

The compiling process needs more memory than the runs that follow.

python -P -m trainer.cli.dry_run ORDER rehearse|table|json|memory

`memory` is for `data.batch_size: auto`: it prints only one line of JSON with the peak memory.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from trainer.cli.exit_codes import BY_SIGNAL, CHECKPOINT_SIGNAL, DONE, FAILURE, USER_MISTAKE
from trainer.cli.forwarding import forwarded_signals
from trainer.cli.order import Order
from trainer.cli.starting import worker_environment

if TYPE_CHECKING:
    from trainer.learner.dry_run import DryRun

OOM_SCORE = Path("/proc/self/oom_score_adj")
TIMED_SECONDS = 5.0
"""Minimum seconds of timed steps, in the first epoch and in later ones."""


def run_dry(order: Order, *, as_json: bool) -> int:
    """Rehearses, then measures and prints; returns the exit code of the first part that fails."""
    with tempfile.TemporaryDirectory(prefix="trainer-dry-run-") as folder:
        order = _with_batch_size(order, Path(folder) / "config.yaml")
        for what in ("rehearse", "json" if as_json else "table"):
            command = [sys.executable, "-P", "-m", "trainer.cli.dry_run", order.to_json(), what]
            with forwarded_signals() as forward_to:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=worker_environment())
                forward_to(process)
                code = process.wait()
            if code:
                return BY_SIGNAL.get(-code, code if code > 0 else FAILURE)
    return DONE


def _with_batch_size(order: Order, file: Path) -> Order:
    """The order; for `data.batch_size: auto`, one for the resolved config in `file`, so that it is measured once."""
    from trainer import configs
    from trainer.cli.batch_size import AUTO, with_batch_size
    from trainer.cli.prepare import split_words

    target, overrides = split_words(order.words, resuming=False)
    assert target is not None
    loaded = configs.load(target, overrides)
    if loaded.config.data.batch_size != AUTO:
        return order
    file.write_text(configs.dump_resolved(with_batch_size(loaded)), encoding="utf-8")
    return order._replace(words=(str(file),))


def main(words: list[str]) -> int:
    from trainer.cli.output import Outputs
    from trainer.cli.watcher import die_with_parent

    order, what = Order.from_json(words[0]), words[1]
    for number in BY_SIGNAL:
        signal.signal(number, _leave)  # so that temporary files are removed
    if CHECKPOINT_SIGNAL is not None:
        signal.signal(CHECKPOINT_SIGNAL, signal.SIG_IGN)
    die_with_parent(order.pid)
    with Outputs():
        return _print_memory(order) if what == "memory" else _carry_out(order, what)


def _print_memory(order: Order) -> int:
    """Prints the peak memory (null: memory ran out) and the number of training items, or the error."""
    import json
    from contextlib import suppress

    from trainer import TrainerError
    from trainer.cli.rehearsal import learner_for_steps
    from trainer.rundir import RunPaths

    with suppress(OSError):  # if memory runs out, the system kills this process and not its parent
        OOM_SCORE.write_text("1000", encoding="ascii")
    answer: dict[str, object] = {"peak": None, "items": 0}
    try:
        with tempfile.TemporaryDirectory(prefix="trainer-dry-run-") as folder:
            learner = learner_for_steps(order.words, None, lambda event: True, paths=RunPaths(Path(folder)))
            found = learner.dry_run(seconds=0.0)
            shared = found.cache_memory if found.data_processes else 0
            peak = None if found.killed_data_processes else found.peak_memory + shared + found.data_memory
            answer = {"peak": peak, "items": found.training_items}
    except MemoryError:
        pass
    except TrainerError as error:
        if not isinstance(error.__cause__, MemoryError):
            answer = {"error": str(error)}
    print(json.dumps(answer))
    return DONE


def _carry_out(order: Order, what: str) -> int:
    import dataclasses
    import json
    import traceback

    from trainer import TrainerError
    from trainer.cli.rehearsal import learner_for_steps
    from trainer.rundir import RunPaths

    try:
        with tempfile.TemporaryDirectory(prefix="trainer-dry-run-") as folder:
            learner = learner_for_steps(order.words, None, paths=RunPaths(Path(folder)))
            found = learner.dry_run(seconds=0.0 if what == "rehearse" else TIMED_SECONDS)
    except TrainerError as error:
        from trainer.learner import TrainingFailure

        if order.debug:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return FAILURE if isinstance(error, TrainingFailure) else USER_MISTAKE
    if what == "json":
        print(json.dumps(dataclasses.asdict(found), indent=1))
    elif what == "table":
        print("\n".join(lines(found)))
    return DONE


def lines(found: DryRun) -> list[str]:
    """The results as text, one line each."""
    arrays = ", ".join(f"{name} {dtype} {list(shape)}" for name, (shape, dtype) in found.batch.items())
    parameters = ", ".join(f"{name} {count:,}" for name, count in found.parameters.items())
    step = f"{_time(found.step_seconds)}, the mean of {found.timed_steps}"
    if found.data_wait >= 0.01:
        step += f"; {found.data_wait:.0%} of it waiting for data"
    memory = _size(found.peak_memory)
    if found.data_processes:
        processes = f"{found.data_processes} data-loading process{'es' if found.data_processes > 1 else ''}"
        memory += f", and {processes} with {_size(found.data_memory)} and {_size(found.cache_memory)} of decoded items"
        if killed := found.killed_data_processes:
            memory += f"; {killed} {'was' if killed == 1 else 'were'} killed and replaced, as when memory runs out"
    elif found.cache_memory:
        memory += f", {_size(found.cache_memory)} of it decoded items"
    epoch = f"{_time(found.epoch_seconds)} of {found.steps_per_epoch:,} steps and their share of the validations"
    if found.first_epoch_seconds > 1.1 * found.epoch_seconds:
        epoch += f"; the first {_time(found.first_epoch_seconds)}"
    total = _time(found.total_seconds)
    if found.total_steps is not None:
        total += f" at most: {found.total_steps:,} steps and {found.validations:,} validations"
    rows = {
        "batch": arrays,
        "parameters": f"{sum(found.parameters.values()):,} ({parameters})",
        "peak memory": memory,
        "step": step,
        "validation": _time(found.validation_seconds) if found.validations != 0 else "none",
        "checkpoint": f"{_size(found.checkpoint_bytes)}, written in {_time(found.checkpoint_seconds)} and read back",
        "epoch": epoch,
        "total": total,
    }
    return [f"{name:<12}{text}" for name, text in rows.items()]


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _time(seconds: float) -> str:
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} hours"
    if seconds >= 120:
        return f"{seconds / 60:.1f} minutes"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    for each in BY_SIGNAL:
        signal.signal(each, signal.SIG_IGN)  # Ctrl-C arrives twice: directly and from the command
    sys.exit(BY_SIGNAL[number])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
