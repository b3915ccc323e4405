"""The kernels screen: the autotuning decision for each kernel, and its speed-up."""

from __future__ import annotations

from trainer.rundir import AutotuneEvent
from trainer.tui.frame import Frame
from trainer.tui.kernel_shares import name_of, shares_of
from trainer.tui.listing import Column, Row, TableState, draw_table
from trainer.tui.numbers import duration
from trainer.tui.text import Line, crop_line
from trainer.tui.view import View, speed_up

COLUMNS = (
    Column("operation", most=28),
    Column("shape", most=44),
    Column("share", is_number=True),
    Column("default ms", is_number=True, rank=3),
    Column("best ms", is_number=True, rank=1),
    Column("speed-up", is_number=True),
    Column("tried", is_number=True, rank=4),
    Column("skipped", rank=5, most=30),
    Column("took", is_number=True, rank=6),
    Column("from", rank=2),
)

ABOVE = 2
"""Lines above the table."""


BY_SHARE = TableState(column=2, is_reversed=True)
"""The initial order of the table."""


def kernel_rows(view: View, text: str = "") -> list[Row]:
    """A row for each kernel with `text` in its operation or shape: kernels with a decision, then the others of a step.

    Decisions are in the order in which they were made.
    """
    shares = shares_of(view.steps.values())
    rows = [_row(event, shares.of(event)) for event in view.decisions.values()]
    decided = {name_of(event) for event in view.decisions.values()
            if event.key not in shares.kernels and shares.of(event) is not None}  # fmt: skip
    rows += [_other(name, share) for name, share in shares.others.items() if name not in decided]
    return [row for row in rows if text.lower() in " ".join(row.cells[:2]).lower()]


def draw_kernels(frame: Frame, width: int, height: int, state: TableState, text: str = "") -> list[Line]:
    """A summary line, and the table."""
    rows = kernel_rows(frame.view, text)
    if not rows:
        phase = frame.view.phases.get("autotune")
        nothing = (
            "no such kernel" if text else "no decision yet" if phase is not None else "nothing autotuned in this run"
        )
        return [((nothing, "dim"),)]
    head = crop_line(((summary(frame.view), "text"),), width, frame.glyphs.ellipsis)
    return [head, (("", "text"),), *draw_table(COLUMNS, rows, state, width, max(2, height - ABOVE), frame.glyphs)]


def summary(view: View) -> str:
    """The number of decisions, and the speed-up over all measured kernels."""
    phase = view.phases.get("autotune")
    parts = [f"{len(view.decisions)} decided"]
    if phase is not None and phase.is_active and phase.total:
        parts = [f"{phase.done or 0:g} of {phase.total:g} decided"]
    gain = speed_up(view.decisions.values())
    parts += [f"{gain:.2f}x over all kernels measured, each counted once"] if gain is not None else []
    cached = sum(event.source == "cache" for event in view.decisions.values())
    parts += [f"{cached} from the cache"] if cached else []
    shares = shares_of(view.steps.values())
    known = [share for event in view.decisions.values() if (share := shares.of(event)) is not None]
    parts += [f"{sum(known):.0%} of a step of {shares.ms:.3g} ms"] if known else []
    skipped = sum(sum((event.skipped or {}).values()) for event in view.decisions.values())
    parts += [f"{skipped:g} candidates skipped"] if skipped else []
    return ", ".join(parts)


def _other(label: str, share: float) -> Row:
    """A kernel without a decision."""
    operation, _, shape = label.partition(" ")
    rest = len(COLUMNS) - 3
    return Row((operation, shape, f"{share:.1%}", *["-"] * rest), (operation, shape, share, *[None] * rest), "dim")


def _row(event: AutotuneEvent, share: float | None) -> Row:
    gain = speed_up([event])
    skipped = event.skipped or {}
    cells = (
        event.operation,
        event.shape,
        "-" if share is None else f"{share:.1%}",
        "-" if event.default_ms is None else f"{event.default_ms:.3f}",
        "-" if event.best_ms is None else f"{event.best_ms:.3f}",
        "-" if gain is None else f"{gain:.2f}x",
        "-" if event.candidates is None else str(event.candidates),
        ", ".join(f"{count:g} {reason}" for reason, count in skipped.items()),
        "-" if event.seconds is None else duration(event.seconds),
        event.source or "-",
    )
    keys = (
        event.operation, event.shape, share, event.default_ms, event.best_ms, gain, event.candidates,
        float(sum(skipped.values())), event.seconds, event.source,
    )  # fmt: skip
    return Row(cells, keys, "good" if gain is not None and gain >= 1.05 else "text")
