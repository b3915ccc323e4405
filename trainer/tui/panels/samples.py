"""The samples screen: pictures in half-blocks and texts, as the run showed them at one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.rundir import SampleEvent
from trainer.tui.box import FRAME_HEIGHT, FRAME_LEFT, FRAME_TOP, FRAME_WIDTH, boxed
from trainer.tui.frame import Frame
from trainer.tui.text import Line, crop, line_width, printable, wrap
from trainer.tui.view import View

if TYPE_CHECKING:
    from trainer.tui.annotations import Layers
    from trainer.tui.pictures import Sample

LEAST_WIDTH = 28
"""Of a cell: below it a picture shows too little."""

Hang = Callable[["Sample", "tuple[object, ...]", int, int, int, int], None]
"""Hangs a picture in pixels: it, what names what is to be seen, and the column, row, columns and rows of its place."""

Read = Callable[[SampleEvent], "Sample | None"]
"""What is in a sample's file; None where it is not there or can't be read."""


@dataclass(frozen=True)
class SamplesState:
    """What the user has chosen.

    Attributes:
        back: how many steps back from the newest that has samples.
        selected: which sample of that step; the screen is scrolled to it.
        is_enlarged: it alone is shown.
        boxes, masks, labels: whether they are drawn; labels only where a picture has the whole screen.
    """

    back: int = 0
    selected: int = 0
    is_enlarged: bool = False
    boxes: bool = True
    masks: bool = True
    labels: bool = True

    @property
    def layers(self) -> Layers:
        """What is drawn over the pictures."""
        from trainer.tui.annotations import Layers

        return Layers(self.boxes, self.masks, self.labels and self.is_enlarged)


def steps_with_samples(view: View) -> list[int]:
    """The steps that have samples, the newest first."""
    return sorted({event.step for event in view.samples}, reverse=True)


def shown_samples(view: View, state: SamplesState) -> list[SampleEvent]:
    """The samples of the chosen step, each name once."""
    steps = steps_with_samples(view)
    if not steps:
        return []
    step = steps[min(state.back, len(steps) - 1)]
    return list({(event.split, event.name): event for event in view.samples if event.step == step}.values())


def samples_title(view: View, state: SamplesState) -> str:
    """Which step is shown, and where it is in the history."""
    steps = steps_with_samples(view)
    if not steps:
        return "samples"
    back = min(state.back, len(steps) - 1)
    where = "newest" if back == 0 else f"{back} back"
    return f"samples  step {steps[back]}  ({where} of {len(steps)})"


def draw_samples(
    frame: Frame, width: int, height: int, state: SamplesState, read: Read, hang: Hang | None = None
) -> list[Line]:
    """The chosen step's samples in a grid, or one of them over all the room; with `hang`, pictures leave room."""
    events = shown_samples(frame.view, state)
    if not events:
        return [(("no samples yet", "dim"),)]
    selected = min(state.selected, len(events) - 1)
    if state.is_enlarged:
        return _cell(events[selected], frame, (0, 0), width, height, state, read, hang, is_selected=False)
    return draw_grid(events, frame, (0, 0), width, height, state, read, hang, selected=selected)


def draw_grid(
    events: Sequence[SampleEvent], frame: Frame, at: tuple[int, int], width: int, height: int, state: SamplesState,
    read: Read, hang: Hang | None = None, *, selected: int | None = None,
) -> list[Line]:  # fmt: skip
    """Samples in a grid, as many as there is room for around the selected one; `at` is its column and row."""
    columns, rows = grid_of_samples(events, read, width, height)
    first = (selected or 0) // columns // rows * rows * columns
    cell_width, cell_height = width // columns, height // rows
    lines: list[Line] = []
    for start in range(first, min(len(events), first + rows * columns), columns):
        cells = [
            _cell(
                event,
                frame,
                (at[0] + (index - start) * cell_width, at[1] + len(lines)),
                cell_width,
                cell_height,
                state,
                read,
                hang,
                is_selected=index == selected,
            )
            for index, event in enumerate(events[start : start + columns], start=start)
        ]
        lines += beside(cells, cell_width, cell_height)
    return lines


def grid_of_samples(events: Sequence[SampleEvent], read: Read, width: int, height: int) -> tuple[int, int]:
    """Columns and rows for samples; the first one tells the shape of their pictures."""
    first = read(events[0]) if events else None
    shape = 1.0 if first is None or first.image is None else first.size[1] / first.size[0]
    return grid_for(len(events), width, height, shape)


def grid_for(count: int, width: int, height: int, shape: float = 1.0) -> tuple[int, int]:
    """Columns and rows in which `count` pictures are largest, at most as many columns as have LEAST_WIDTH.

    `shape` is a picture's width by its height. Of grids that are about as good the one with fewer rows is taken.
    """

    def grid(columns: int) -> tuple[int, int]:
        return columns, max(1, min(-(-count // columns), height // 10))

    def picture_height(columns: int, rows: int) -> float:
        room = min((width // columns - FRAME_WIDTH) / shape, 2 * (height // rows - FRAME_HEIGHT - 1))
        return max(0.0, room) * min(1.0, rows * columns / max(1, count))

    grids = [grid(columns) for columns in range(1, max(1, min(count, width // LEAST_WIDTH)) + 1)]
    best = max(picture_height(*one) for one in grids)
    return next(one for one in reversed(grids) if picture_height(*one) >= 0.95 * best)


def sample_at(
    events: Sequence[SampleEvent], read: Read, width: int, height: int, state: SamplesState, x: int, y: int
) -> int | None:
    """The number of the sample whose cell of the grid is at a place of the drawing."""
    if state.is_enlarged or not events:
        return None
    count = len(events)
    columns, rows = grid_of_samples(events, read, width, height)
    column, row = x // (width // columns), y // (height // rows)
    first = min(state.selected, count - 1) // columns // rows * rows * columns
    found = first + row * columns + column
    return found if 0 <= column < columns and 0 <= row < rows and found < count else None


def _cell(
    event: SampleEvent, frame: Frame, at: tuple[int, int], width: int, height: int, state: SamplesState, read: Read,
    hang: Hang | None, *, is_selected: bool,
) -> list[Line]:  # fmt: skip
    inner, room = max(1, width - 4), max(1, height - 2)
    sample = read(event)
    caption = printable(event.caption or "")
    lines: list[Line] = []
    if sample is None:
        lines = [(("can't be read", "warn"),), ((crop(event.file, inner, frame.glyphs.ellipsis), "dim"),)]
    elif sample.image is None:
        lines = [((piece, "text"),) for line in sample.text.splitlines() for piece in wrap(printable(line), inner)]
    elif hang is not None:
        from trainer.tui.annotations import legend_of

        legend = legend_of(sample.annotations, sample.mask, frame.glyphs, state.layers)
        lines = [((" " * inner, "text"),)] * max(1, room - bool(caption) - bool(legend))
        hang(sample, (frame.run, event.file, state.layers), at[0] + FRAME_LEFT, at[1] + FRAME_TOP, inner, len(lines))
        lines += [legend] if legend else []
    else:
        from trainer.tui.pictures import draw_picture  # NumPy comes with it

        lines = draw_picture(
            sample, inner, room - bool(caption), frame.glyphs, has_colour=frame.has_colour, layers=state.layers
        )
    if caption:
        lines = [*lines[: room - 1], ((crop(caption, inner, frame.glyphs.ellipsis), "dim"),)]
    return boxed(lines, f"{event.split}/{event.name}", width, height, frame.glyphs, "busy" if is_selected else "frame")


def beside(cells: Sequence[list[Line]], width: int, height: int) -> list[Line]:
    """Cells of equal size next to each other; what is wider may be the last."""
    lines = []
    for row in range(height):
        line: Line = ()
        for cell in cells:
            part = cell[row] if row < len(cell) else ()
            line = (*line, *part, (" " * max(0, width - line_width(part)), "text"))
        lines.append(line)
    return lines
