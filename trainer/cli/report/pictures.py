"""Samples and worst items: pictures overlaid with boxes and masks, and unchanged texts, embedded in the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from trainer.cli.output import escape_controls
from trainer.cli.report.html import folded, preformatted, table
from trainer.cli.report.source import Source, read_json
from trainer.rundir import ReportEvent, SampleEvent
from trainer.tui.annotations import boxes_of, overlay
from trainer.tui.errors import paired
from trainer.tui.numbers import number
from trainer.tui.pictures import Sample, read_sample
from trainer.tui.reports import Report, report_of

SMALL = 96
"""Pictures with fewer pixels on their shorter side are shown with sharp pixels."""

MOST_BYTES, QUALITY = 50_000, 88
"""A larger picture is embedded as JPEG of this quality."""


def samples(source: Source) -> str:
    """The newest pictures of each name, predictions next to the ground truth; earlier ones are folded."""
    by_name: dict[str, list[SampleEvent]] = {}
    for event in source.of(SampleEvent):
        by_name.setdefault(f"{event.split}/{event.name}", []).append(event)
    if not by_name or not source.samples:
        return ""
    steps = {events[-1].step for events in by_name.values()}
    newest = _grid(source, [events[-1] for events in by_name.values()], has_step=len(steps) > 1)
    earlier = [event for events in by_name.values() for event in events[-2 : -source.samples - 1 : -1]]
    earlier.sort(key=lambda event: -event.step)
    caption = f'<p class="quiet">step {max(steps)}</p>' if len(steps) == 1 else ""
    return (caption + newest if newest else "") + (
        folded("earlier", content) if (content := _grid(source, earlier)) else ""
    )


def worst_report(source: Source) -> tuple[ReportEvent, Report] | None:
    """The worst items of the test split, otherwise of validation; monitored weights are preferred. None without any."""
    found = [(event, report) for event, report in _reports(source) if report.pictures]
    has_averages = "ema/" in (source.leading or "")
    return min(
        reversed(found),
        key=lambda pair: (not pair[0].split.startswith("test"), has_averages != ("ema/" in pair[0].name)),
        default=None,
    )


def worst_items(source: Source) -> str:
    """The items on which the model did worst, with their pictures."""
    worst = worst_report(source)
    if worst is None:
        return ""
    event, report = worst
    shown = _items_of(source, report) or table(report.header, report.rows)
    caption = f"{event.split} at step {event.step}, by {report.header[1]}, the worst first"
    return f'<p class="quiet">{escape(caption)}</p>{shown}'


def _items_of(source: Source, report: Report) -> str:
    """The pictures of a report's items, with rank, score and caption."""
    gallery = _Gallery(source)
    for row, files in zip(report.rows, report.pictures, strict=False):
        for file in files:
            gallery.add(file, f"{row[0]}: {row[2] or Path(file).stem} ({number(row[1])})", group=f"{row[0]}")
    return gallery.html()


def _reports(source: Source) -> Iterable[tuple[ReportEvent, Report]]:
    for event in source.of(ReportEvent):
        if (content := read_json(source.run.paths.inside(event.file))) is not None:
            yield event, report_of(content)


def _grid(source: Source, events: Sequence[SampleEvent], *, has_step: bool = True) -> str:
    """Pictures in a grid, each prediction next to its ground truth."""
    gallery = _Gallery(source)
    for step in dict.fromkeys(event.step for event in events):
        for pair in paired([event for event in events if event.step == step]):
            for event in pair:
                where = f"{event.name}, step {step}" if has_step else event.name
                caption = where + (f": {event.caption}" if event.caption else "")
                gallery.add(event.file, caption, group=f"{step} {pair[0].name}")
    return gallery.html()


class _Gallery:
    """Pictures and texts in a grid, with a legend of class colors below; two pictures of a group are side by side."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._groups: dict[str, list[str]] = {}
        self._legend: dict[str, str] = {}
        self._is_tiny = True

    def add(self, file: str, caption: str, group: str) -> None:
        """Adds a sample's picture or text; skips a file that is outside the run or can't be read."""
        path = self._source.run.paths.inside(file)
        content = None if path is None else self._content(path, caption)
        if content is not None:
            figure = f"<figure>{content}<figcaption>{escape(caption)}</figcaption></figure>"
            self._groups.setdefault(group, []).append(figure)

    def html(self) -> str:
        """The grid; empty without any picture."""
        if not self._groups:
            return ""
        parts = [
            f'<div class="group">{"".join(figures)}</div>' if len(figures) == 2 else "".join(figures)
            for figures in self._groups.values()
        ]
        kind = "samples tiny" if self._is_tiny else "samples"
        return f'<div class="{kind}">{"".join(parts)}</div>{_legend(self._legend)}'

    def _content(self, path: Path, caption: str) -> str | None:
        if path.suffix != ".png":
            self._is_tiny = False
            sample = read_sample(path)
            return None if sample is None else preformatted(escape_controls(sample.text), _prompt(sample))
        sample = read_sample(path)
        if sample is None or sample.image is None:
            return None
        self._legend.update(_classes(sample))
        is_small = min(sample.size) < SMALL
        self._is_tiny = self._is_tiny and is_small
        style = ' class="small"' if is_small else ""
        image = f'<img{style} alt="{escape(caption, quote=True)}" src="{_photo(path)}">'
        return f'<div class="picture">{image}{_masks(sample)}{_boxes(sample)}</div>'


def _prompt(sample: Sample) -> int:
    """The number of characters of the prompt in the escaped text."""
    prompt = sample.annotations.get("prompt")
    return len(escape_controls(sample.text[:prompt])) if isinstance(prompt, int) and prompt > 0 else 0


def _masks(sample: Sample) -> str:
    """The masks of a picture, as an image of the same size over it."""
    from PIL import Image

    assert sample.image is not None
    over = overlay(sample.annotations, sample.mask, (sample.image.shape[0], sample.image.shape[1]))
    if over is None:
        return ""
    file = io.BytesIO()
    Image.fromarray(over).save(file, "PNG")
    return f'<img class="mask" alt="" src="{_data(file.getvalue())}">'


def _boxes(sample: Sample) -> str:
    """The boxes of a picture, as an SVG of the same size over it."""
    found = boxes_of(sample.annotations)
    if not found:
        return ""
    rectangles = []
    for box in found:
        left, top, right, bottom = box.box
        rectangles.append(
            f'<rect class="box" stroke="{_hex(box.color)}" x="{left:g}" y="{top:g}" width="{right - left:g}" '
            f'height="{bottom - top:g}"><title>{escape(box.words)}</title></rect>'
        )
    height, width = sample.size
    return f'<svg viewBox="0 0 {width} {height}">{"".join(rectangles)}</svg>'


def _classes(sample: Sample) -> Mapping[str, str]:
    """The classes in a sample with their colors; none if a class may have another color in the next sample."""
    if not sample.annotations.get("class_names"):
        return {}
    names = _texts(sample.annotations.get("classes"))
    found = {name: _hex(box.color) for name, box in zip(names, boxes_of(sample.annotations), strict=False)}
    if sample.mask is not None:
        from trainer.tui.annotations import COLORS

        classes = _texts(sample.annotations.get("class_names"))
        for value in np.unique(sample.mask).tolist():
            if value < len(classes) and classes[value].lower() != "background":
                found[classes[value]] = _hex(COLORS[value % len(COLORS)])
    return found


def _legend(classes: Mapping[str, str]) -> str:
    """A legend of the class colors; empty for fewer than two classes."""
    if len(classes) < 2:
        return ""
    entries = "".join(
        f'<span><i style="background:{color}"></i>{escape(name)}</span>' for name, color in classes.items()
    )
    return f'<p class="legend">{entries}</p>'


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _hex(color: tuple[int, int, int]) -> str:
    red, green, blue = color
    return f"#{red:02x}{green:02x}{blue:02x}"


def _photo(path: Path) -> str:
    """A picture, unchanged; a large one without transparency as JPEG, which needs a tenth of the bytes."""
    from PIL import Image

    content = path.read_bytes()
    if len(content) > MOST_BYTES:
        with Image.open(path) as picture:
            if picture.mode in ("RGB", "L"):
                file = io.BytesIO()
                picture.save(file, "JPEG", quality=QUALITY, optimize=True)
                if file.tell() < len(content):
                    return _data(file.getvalue(), "jpeg")
    return _data(content)


def _data(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
