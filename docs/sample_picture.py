"""What a run predicts next to the ground truth, as one picture: `python docs/sample_picture.py RUN FILE.png NAME …`.

NAME is a sample of the run's last validation, such as `image_0`; its ground truth is the sample whose name begins so, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from trainer.rundir import RunPaths, SampleEvent, read_events
from trainer.tui.annotations import COLOURS, Layers, boxes_of
from trainer.tui.pictures import Sample, read_sample, render

WIDTH, GAP, TITLE = 460, 8, 26
INK, PAPER = "#1c1f23", "#ffffff"


def pairs(run: RunPaths, names: Sequence[str]) -> list[list[Sample]]:
    """For each name the samples of the last validation that begin with it: the prediction, then the ground truth."""
    events = [record.event for record in read_events(run.events) if isinstance(record.event, SampleEvent)]
    last = max(event.step for event in events)
    found = []
    for name in names:
        files = [event.file for event in events if event.step == last and event.name.partition("-")[0] == name]
        samples = [read_sample(run.root / file) for file in files]
        found.append([sample for sample in samples if sample is not None and sample.image is not None])
    return found


def picture(rows: Sequence[Sequence[Sample]]) -> Image.Image:
    """A row for each name, a title over each column, and the classes with their colors below."""
    panels = [[_drawn(sample) for sample in row] for row in rows]
    heights = [max(panel.height for panel in row) for row in panels]
    columns = max(map(len, panels))
    legend = {name: colour for row in rows for sample in row for name, colour in _classes(sample).items()}
    height = TITLE + sum(heights) + GAP * (len(rows) - 1) + (TITLE + 4 if legend else 0)
    whole = Image.new("RGB", (columns * (WIDTH + GAP) - GAP, height), PAPER)
    draw, font = ImageDraw.Draw(whole), ImageFont.load_default(16)
    for column, title in zip(range(columns), ("prediction", "ground truth"), strict=False):
        draw.text((column * (WIDTH + GAP), 3), title, fill=INK, font=font)
    top = TITLE
    for row, tall in zip(panels, heights, strict=True):
        for column, panel in enumerate(row):
            whole.paste(panel, (column * (WIDTH + GAP), top))
        top += tall + GAP
    left = 0
    for name, colour in legend.items():
        draw.rectangle([left, top + 4, left + 14, top + 18], fill=colour)
        draw.text((left + 20, top + 2), name, fill=INK, font=font)
        left += 44 + round(draw.textlength(name, font=font))
    return whole


def _drawn(sample: Sample) -> Image.Image:
    height, width = sample.size
    return Image.fromarray(render(sample, WIDTH, round(WIDTH * height / width), Layers()))


def _classes(sample: Sample) -> dict[str, tuple[int, int, int]]:
    """The classes that are drawn, with their colors."""
    names = [str(name) for name in sample.annotations.get("classes", ())]
    found = {name: box.colour for name, box in zip(names, boxes_of(sample.annotations), strict=False)}
    if sample.mask is not None:
        classes = [str(name) for name in sample.annotations.get("class_names", ())]
        numbers = [number for number in np.unique(sample.mask).tolist() if number < len(classes)]
        found |= {classes[number]: COLOURS[number % len(COLOURS)] for number in numbers}
    return found


def main() -> None:
    """Read a run's samples, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args()
    picture(pairs(RunPaths(arguments.run), arguments.names)).save(arguments.file, optimize=True)


if __name__ == "__main__":
    main()
