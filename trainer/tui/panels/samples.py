"""The samples screen: the pictures and texts of one step, predictions next to their ground truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.rundir import SampleEvent
from trainer.tui.box import FRAME_HEIGHT, FRAME_LEFT, FRAME_TOP, FRAME_WIDTH, boxed
from trainer.tui.frame import Frame
from trainer.tui.text import Line, crop, crop_line, line_width, printable, wrap
from trainer.tui.view import View

if TYPE_CHECKING:
    from trainer.tui.annotations import Layers
    from trainer.tui.pictures import Sample

MIN_WIDTH = 28
"""Minimum width of a cell in which a picture is recognizable."""

Hang = Callable[["Sample", "tuple[object, ...]", int, int, int, int], None]
"""Shows a picture in pixels: the sample, the key of its drawing, and the column, row, columns and rows of its place."""

Read = Callable[[SampleEvent], "Sample | None"]
"""Returns the content of a sample's file; None if it is missing or damaged."""

Item = tuple[SampleEvent, ...]
"""One sample alone, or a prediction and its ground truth."""


@dataclass(frozen=True)
class SamplesState:
    """The user's choices.

    Attributes:
        back: number of steps back from the newest step with samples.
        selected: the number of the selected item of that step; the screen is scrolled to it.
        is_enlarged: the selected item alone is shown.
        boxes, masks, labels: whether they are drawn; labels only on an enlarged picture.
        errors: errors are colored rather than classes.
    """

    back: int = 0
    selected: int = 0
    is_enlarged: bool = False
    boxes: bool = True
    masks: bool = True
    labels: bool = True
    errors: bool = True

    @property
    def layers(self) -> Layers:
        """The layers drawn over the pictures."""
        from trainer.tui.annotations import Layers

        return Layers(self.boxes, self.masks, self.labels and self.is_enlarged, self.errors)


def steps_with_samples(view: View) -> list[int]:
    """The steps that have samples, the newest first."""
    return sorted({event.step for event in view.samples}, reverse=True)


def shown_samples(view: View, state: SamplesState) -> list[SampleEvent]:
    """The samples of the chosen step, the latest of each name."""
    steps = steps_with_samples(view)
    if not steps:
        return []
    step = steps[min(state.back, len(steps) - 1)]
    return list({(event.split, event.name): event for event in view.samples if event.step == step}.values())


def shown_items(view: View, state: SamplesState) -> list[Item]:
    """The samples of the chosen step, predictions together with their ground truth."""
    events = shown_samples(view, state)
    if not events:
        return []
    from trainer.tui.errors import paired  # imports NumPy

    return list(paired(events))


def samples_title(view: View, state: SamplesState) -> str:
    """The shown step, and its place in the history."""
    steps = steps_with_samples(view)
    if not steps:
        return "samples"
    back = min(state.back, len(steps) - 1)
    where = "newest" if back == 0 else f"{back} back"
    return f"samples  step {steps[back]}  ({where} of {len(steps)})"


def draw_samples(
    frame: Frame, width: int, height: int, state: SamplesState, read: Read, hang: Hang | None = None
) -> list[Line]:
    """The samples of the chosen step in a grid, or one on the whole screen; with `hang`, pictures are left blank."""
    items = shown_items(frame.view, state)
    if not items:
        return [(("no samples yet: a task shows them after each validation", "dim"),)]
    selected = min(state.selected, len(items) - 1)
    if state.is_enlarged:
        return _cell(items[selected], frame, (0, 0), width, height, state, read, hang, is_selected=False)
    return draw_grid(items, frame, (0, 0), width, height, state, read, hang, selected=selected)


def draw_grid(
    items: Sequence[Item], frame: Frame, at: tuple[int, int], width: int, height: int, state: SamplesState,
    read: Read, hang: Hang | None = None, *, selected: int | None = None,
) -> list[Line]:  # fmt: skip
    """Items in a grid, as many as fit around the selected one; `at` is the column and the row of the grid."""
    columns, rows = grid_of_samples(items, read, width, height)
    first = (selected or 0) // columns // rows * rows * columns
    cell_width, cell_height = width // columns, height // rows
    lines: list[Line] = []
    for start in range(first, min(len(items), first + rows * columns), columns):
        cells = []
        for index, item in enumerate(items[start : start + columns], start=start):
            place = at[0] + (index - start) * cell_width, at[1] + len(lines)
            is_selected = index == selected
            cells.append(_cell(item, frame, place, cell_width, cell_height, state, read, hang, is_selected=is_selected))
        lines += beside(cells, cell_width, cell_height)
    return lines


def grid_of_samples(items: Sequence[Item], read: Read, width: int, height: int) -> tuple[int, int]:
    """Columns and rows for items; the shape of the first item is used for all."""
    first = read(items[0][0]) if items else None
    shape = 1.0 if first is None or first.image is None else first.size[1] / first.size[0]
    return grid_for(len(items), width, height, shape * max((len(item) for item in items), default=1))


def grid_for(count: int, width: int, height: int, shape: float = 1.0) -> tuple[int, int]:
    """Columns and rows in which `count` pictures are largest, with columns of at least MIN_WIDTH.

    `shape` is the width of a picture divided by its height. Among grids within 5 % of the best, the one with the fewest
    rows is chosen.
    """

    def grid(columns: int) -> tuple[int, int]:
        return columns, max(1, min(-(-count // columns), height // 10))

    def picture_height(columns: int, rows: int) -> float:
        room = min((width // columns - FRAME_WIDTH) / shape, 2 * (height // rows - FRAME_HEIGHT - 1))
        return max(0.0, room) * min(1.0, rows * columns / max(1, count))

    grids = [grid(columns) for columns in range(1, max(1, min(count, width // MIN_WIDTH)) + 1)]
    best = max(picture_height(*one) for one in grids)
    return next(one for one in reversed(grids) if picture_height(*one) >= 0.95 * best)


def sample_at(
    items: Sequence[Item], read: Read, width: int, height: int, state: SamplesState, x: int, y: int
) -> int | None:
    """The number of the item whose cell of the grid is at (`x`, `y`) in the drawing, or None."""
    if state.is_enlarged or not items:
        return None
    count = len(items)
    columns, rows = grid_of_samples(items, read, width, height)
    column, row = x // (width // columns), y // (height // rows)
    first = min(state.selected, count - 1) // columns // rows * rows * columns
    number = first + row * columns + column
    return number if 0 <= column < columns and 0 <= row < rows and number < count else None


def _cell(
    item: Item, frame: Frame, at: tuple[int, int], width: int, height: int, state: SamplesState, read: Read,
    hang: Hang | None, *, is_selected: bool,
) -> list[Line]:  # fmt: skip
    inner, room = max(1, width - FRAME_WIDTH), max(1, height - FRAME_HEIGHT)
    place = at[0] + FRAME_LEFT, at[1] + FRAME_TOP
    lines = draw_item(item, frame, inner, room, state.layers, read, hang, place)
    title = f"{item[0].split}/{item[0].name}"
    return boxed(lines, title, width, height, frame.glyphs, "busy" if is_selected else "frame")


def draw_item(
    item: Item, frame: Frame, width: int, height: int, layers: Layers, read: Read, hang: Hang | None = None,
    place: tuple[int, int] = (0, 0),
) -> list[Line]:  # fmt: skip
    """One sample, or a prediction next to its ground truth with the errors in color; captions below.

    Args:
        hang: shows pictures in pixels; `place` is the column and the row of this drawing.
    """
    samples = [read(event) for event in item]
    captions: list[Line] = [_caption(event.caption) for event in item]
    if len(item) == 2 and all(samples):
        from trainer.tui.errors import compare_samples

        prediction, truth = samples
        assert prediction is not None and truth is not None
        compared = compare_samples(prediction, truth)
        if compared is not None:
            samples = [compared.prediction, compared.truth]
            role = "bad" if compared.has_errors else "good"
            captions = [
                (("prediction  ", "dim"), (compared.words[0], role)),
                (("ground truth  ", "dim"), (compared.words[1], "text")),
            ]
        else:
            captions = [(("prediction  ", "dim"), *captions[0]), (("ground truth  ", "dim"), *captions[1])]
    part = width if len(item) == 1 else (width - 1) // len(item)
    drawn = []
    for index, (event, sample, caption) in enumerate(zip(item, samples, captions, strict=True)):
        corner = place[0] + index * (part + 1), place[1]
        drawn.append(_draw_one(event, sample, caption, frame, part, height, layers, hang, corner))
    return drawn[0] if len(drawn) == 1 else beside(drawn, part + 1, height)


def _draw_one(
    event: SampleEvent, sample: Sample | None, caption: Line, frame: Frame, width: int, height: int, layers: Layers,
    hang: Hang | None, place: tuple[int, int],
) -> list[Line]:  # fmt: skip
    ellipsis = frame.glyphs.ellipsis
    if sample is None:
        lines: list[Line] = [(("can't be read", "warn"),), ((crop(event.file, width, ellipsis), "dim"),)]
    elif sample.image is None:
        lines = text_lines(sample, width)
    elif hang is not None:
        from trainer.tui.annotations import legend_of

        legend = legend_of(sample.annotations, sample.mask, frame.glyphs, layers)
        lines = [((" " * width, "text"),)] * max(1, height - bool(caption) - bool(legend))
        hang(sample, (frame.run, event.file, layers), *place, width, len(lines))
        lines += [legend] if legend else []
    else:
        from trainer.tui.pictures import draw_picture  # imports NumPy

        room = max(1, height - bool(caption))
        lines = draw_picture(sample, width, room, frame.glyphs, has_color=frame.has_color, layers=layers)
    return [*lines[: height - 1], crop_line(caption, width, ellipsis)] if caption else lines[:height]


def text_lines(sample: Sample, width: int) -> list[Line]:
    """A text wrapped to `width` cells; the prompt of a generated text is bold."""
    prompt = sample.annotations.get("prompt")
    remaining = prompt if isinstance(prompt, int) else 0
    lines: list[Line] = []
    for line in sample.text.splitlines(keepends=True):
        whole, bold, start = printable(line), len(printable(line[: max(0, remaining)])), 0
        for piece in wrap(whole, width):
            cut = min(len(piece), max(0, bold - start))
            lines.append(tuple(span for span in ((piece[:cut], "strong"), (piece[cut:], "text")) if span[0]))
            start += len(piece) + whole[start + len(piece) :].startswith(" ")
        remaining -= len(line)
    return lines


def _caption(caption: str | None) -> Line:
    """A caption; for a classified image, its color shows whether the class is correct."""
    if not caption:
        return ()
    from trainer.tui.errors import is_error

    has_error = is_error(caption)
    return ((printable(caption), "dim" if has_error is None else "bad" if has_error else "good"),)


def beside(cells: Sequence[list[Line]], width: int, height: int) -> list[Line]:
    """Cells of equal size next to each other; the last may be wider."""
    lines = []
    for row in range(height):
        line: Line = ()
        for cell in cells:
            part = cell[row] if row < len(cell) else ()
            line = (*line, *part, (" " * max(0, width - line_width(part)), "text"))
        lines.append(line)
    return lines
