"""The kernels screen: what tuning decided for each kernel, and what that gains."""

from __future__ import annotations

from trainer.rundir import TuneEvent
from trainer.tui.frame import Frame
from trainer.tui.listing import Column, Row, TableState, draw_table
from trainer.tui.numbers import duration
from trainer.tui.text import Line, crop_line
from trainer.tui.view import View, speed_up

COLUMNS = (
    Column("operation", most=28),
    Column("shape", most=44),
    Column("default ms", is_number=True, rank=3),
    Column("best ms", is_number=True, rank=1),
    Column("speed-up", is_number=True),
    Column("tried", is_number=True, rank=4),
    Column("skipped", rank=5, most=30),
    Column("took", is_number=True, rank=6),
    Column("from", rank=2),
)


def kernel_rows(view: View, text: str = "") -> list[Row]:
    """A row for each decision that has `text` in its operation or shape, in the order in which they were made."""
    return [_row(event) for event in view.tunes.values() if text.lower() in f"{event.operation} {event.shape}".lower()]


def draw_kernels(frame: Frame, width: int, height: int, state: TableState, text: str = "") -> list[Line]:
    """A line that sums up, and the table."""
    rows = kernel_rows(frame.view, text)
    if not rows:
        phase = frame.view.phases.get("tune")
        nothing = (
            "no such kernel" if text else "nothing decided yet" if phase is not None else "nothing tuned in this run"
        )
        return [((nothing, "dim"),)]
    head = crop_line(((summary(frame.view), "text"),), width, frame.glyphs.ellipsis)
    return [head, (("", "text"),), *draw_table(COLUMNS, rows, state, width, max(2, height - 2), frame.glyphs)]


def summary(view: View) -> str:
    """How much is decided, and the speed-up so far over all kernels that were measured."""
    phase = view.phases.get("tune")
    told = [f"{len(view.tunes)} decided"]
    if phase is not None and phase.is_active and phase.total:
        told = [f"{phase.done or 0:g} of {phase.total:g} decided"]
    gain = speed_up(view.tunes.values())
    told += [f"{gain:.2f}x over all kernels measured, each counted once"] if gain is not None else []
    cached = sum(event.source == "cache" for event in view.tunes.values())
    told += [f"{cached} from the cache"] if cached else []
    skipped = sum(sum((event.skipped or {}).values()) for event in view.tunes.values())
    told += [f"{skipped:g} candidates skipped"] if skipped else []
    return ", ".join(told)


def _row(event: TuneEvent) -> Row:
    gain = speed_up([event])
    skipped = event.skipped or {}
    cells = (
        event.operation,
        event.shape,
        "-" if event.default_ms is None else f"{event.default_ms:.3f}",
        "-" if event.best_ms is None else f"{event.best_ms:.3f}",
        "-" if gain is None else f"{gain:.2f}x",
        "-" if event.candidates is None else str(event.candidates),
        ", ".join(f"{count:g} {reason}" for reason, count in skipped.items()),
        "-" if event.seconds is None else duration(event.seconds),
        event.source or "-",
    )
    keys = (
        event.operation, event.shape, event.default_ms, event.best_ms, gain, event.candidates,
        float(sum(skipped.values())), event.seconds, event.source,
    )  # fmt: skip
    return Row(cells, keys, "good" if gain is not None and gain >= 1.05 else "text")
