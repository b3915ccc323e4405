"""`trainer report`: one file, nothing from elsewhere, whatever the run holds."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from tests.tui.synthetic_run import append, make_folder, write_run
from trainer.cli import main
from trainer.cli.report import Source, report_page
from trainer.cli.report.svg import COLUMNS, WIDTH, Curve, chart
from trainer.rundir import (
    AutotuneEvent,
    EndEvent,
    MetricEvent,
    ReportEvent,
    RunEvent,
    RunPaths,
    SampleEvent,
    WarningEvent,
    open_run,
    write_note,
    write_tags,
)

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Counts elements and checks that they nest; keeps what points elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(paths: RunPaths) -> Page:
    return Page(report_page(Source(open_run(paths.root))))


def test_a_finished_run_becomes_one_file_that_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs/digits")
    assert main(["report"]) == 0
    page = Page((tmp_path / "digits.html").read_text())
    assert page.addresses == [] and "script" not in page.count
    assert page.count["svg"] == 3  # loss, accuracy, learning rate
    assert (
        "0.9913" in page.text and "learning_rate: 0.001" in page.text and "3 of 10000 pictures are blank" in page.text
    )


def test_samples_are_taken_in_with_their_boxes(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    for step in range(1, 7):
        folder = paths.samples / f"step-{step}"
        folder.mkdir()
        Image.new("RGB", (8, 6), (step, 0, 0)).save(folder / "cells.png")
        (folder / "cells.json").write_text(json.dumps({"boxes": [[1, 2, 4, 5]], "classes": ["red <b>"], "scores": [1]}))
        append(paths, SampleEvent(step, "valid", "cells", f"samples/step-{step}/cells.png", f"at {step}"), 0.0)
    page = page_of(paths)
    assert len(page.addresses) == 4 and all(at.startswith("data:image/png;base64,") for at in page.addresses)
    assert page.count["rect"] == 4 and "red <b> 1" in page.text
    assert "at 6" in page.text and "at 2" not in page.text


def test_a_prediction_stands_next_to_its_ground_truth_and_classes_keep_their_colors(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    names = ["cat", "dog"]
    for name, classes in (
        ("image_0", ["dog", "cat"]),
        ("image_0-truth", ["cat", "dog"]),
        ("image-1", []),
        ("image-2", []),
    ):
        Image.new("RGB", (200, 100)).save(paths.samples / f"{name}.png")
        told = {"boxes": [[1, 2, 4, 5]] * len(classes), "classes": classes, "class_names": names}
        (paths.samples / f"{name}.json").write_text(json.dumps(told))
        append(paths, SampleEvent(1, "valid", name, f"samples/{name}.png"), 0.0)
    html = report_page(Source(open_run(paths.root)))
    Page(html)
    assert html.count('<div class="group">') == 1, "the other two have no ground truth"
    colors = dict(re.findall(r'stroke="(#\w+)"[^>]*><title>(\w+)', html))
    assert re.findall(r'background:(#\w+)"></i>(\w+)<', html) == [(color, name) for color, name in colors.items()]
    assert len(colors) == 2


def test_masks_lie_over_their_pictures_and_texts_are_told(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    folder = paths.samples / "step-1"
    folder.mkdir()
    Image.new("RGB", (4, 2)).save(folder / "scene.png")
    mask = Image.new("L", (4, 2))
    mask.putpixel((3, 1), 1)
    mask.save(folder / "scene.mask.png")
    (folder / "scene.json").write_text(json.dumps({"mask": "scene.mask.png", "class_names": ["background", "cat"]}))
    (folder / "said.txt").write_text("to be & not")
    for name, file in (("scene", "scene.png"), ("said", "said.txt")):
        append(paths, SampleEvent(1, "valid", name, f"samples/step-1/{file}"), 0.0)
    page = page_of(paths)
    assert "to be & not" in page.text and len(page.addresses) == 2
    with Image.open(io.BytesIO(base64.b64decode(page.addresses[1].partition(",")[2]))) as over:
        assert [over.getpixel(at) for at in ((0, 0), (3, 1))] == [(0, 0, 0, 0), (230, 159, 0, 127)]


def test_every_kind_of_report_is_drawn(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "run", has_shown=True))
    assert (
        "22 of 25 (88.0%)" in page.text and page.count["svg"] == 3 + 2 + 2 + 3
    )  # curves, boxes of samples, diagrams, boxes of worst items
    for told in ("true positive rate over false positive rate", "recall", "AP50", "bird",
                 "1: predicted dog, true cat (6.25)", "/data/animals/valid/000004.jpg"):  # fmt: skip
        assert told in page.text


def test_a_report_in_markdown_has_the_numbers_and_no_markup_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = write_run(tmp_path / "runs/digits", has_shown=True)
    write_note(paths, "a | *b* <i>c")
    assert main(["report", "digits", "-o", "report.md"]) == 0
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# digits\n") and "| test/accuracy | 0.9913 | at step 960 |" in text
    assert "a \\| \\*b\\* &lt;i>c" in text and "| 1 | 6.25 | predicted dog, true cat |" in text
    assert text.index("<details>") > text.index("Worst items") and "learning_rate: 0.001" in text


def test_what_a_run_says_is_text_and_never_markup(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    hostile = "<script>alert(1)</script>"
    append(paths, MetricEvent(1, 0.0, "train", {hostile: 1.0}), 0.0)
    append(paths, WarningEvent(hostile), 0.0)
    append(paths, AutotuneEvent("key", hostile, hostile, 2.0, 1.0, 3, {hostile: 1}), 0.0)
    (paths.reports / "table.json").write_text(json.dumps({"rows": [{hostile: hostile}]}))
    append(paths, ReportEvent(1, "valid", hostile, "reports/table.json", hostile), 0.0)
    page = page_of(paths)
    assert "script" not in page.count and page.text.count("alert(1)") >= 8


def test_files_outside_the_run_are_not_taken_in(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    Image.new("L", (2, 2)).save(tmp_path / "secret.png")
    append(paths, SampleEvent(1, "valid", "a", "../secret.png"), 0.0)
    append(paths, SampleEvent(1, "valid", "b", str(tmp_path / "secret.png")), 0.0)
    append(paths, SampleEvent(1, "valid", "c", "samples/missing.png"), 0.0)
    assert page_of(paths).addresses == []


def test_the_monitored_metric_leads_the_page_and_what_has_no_value_is_left_out(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    paths.config(1).write_text("task: t\ncheckpoint:\n  best:\n    metric: valid/ema/AP\n    mode: max\n")
    for step, value in ((5, 0.25), (10, 0.75), (15, 0.5)):
        figures = {"ema/AP": value, "ema/APl": float("nan"), "loss": 1.0 - value, "other": 1.0}
        append(paths, MetricEvent(step, step / 5, "valid", figures), float(step))
    append(paths, MetricEvent(15, 3.0, "test", {"ema/AP": 0.625}, final=True), 16.0)
    html = report_page(Source(open_run(paths.root)))
    page = Page(html)
    told = page.text.partition("run")[2]
    assert told.index("0.75valid/ema/AP") < told.index("0.625test/ema/AP") < told.index("Metrics")
    assert "best, at step 10, epoch 2; last 0.5" in told
    assert "APl" not in page.text and "nan" not in page.text
    assert "1 metrics without a finite value" in told
    assert html.index("<svg") < html.index("<details"), "its curve is not folded"
    assert page.count["svg"] == 3 and 'class="best"' in html


def test_a_curve_without_a_value_is_no_chart() -> None:
    assert chart([Curve("loss", [1, 2], [float("nan")] * 2, "train")]) == "" and chart([]) == ""


@pytest.mark.parametrize("last", [7, 156, 60_000, 1_234_567])
@pytest.mark.parametrize("value", [0.5, 1.0, -123456.0, 1.5e-7, 98765.4])
def test_no_label_of_an_axis_is_cut_off(last: int, value: float) -> None:
    drawn = chart([Curve("loss", [0, last], [value, 0.0 if value == 1.0 else 0.9 * value], "train")])
    for x, anchor, text in re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="(\w+)">([^<]+)<', drawn):
        width = 6.2 * len(text)  # 11 pixels of a usual font
        left = float(x) - {"end": width, "middle": width / 2}[anchor]
        assert left >= 0 and left + width <= WIDTH, text


def test_the_report_of_a_failed_run_begins_with_what_went_wrong(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    append(paths, EndEvent("failed", 1, 7, reason="ZeroDivisionError: division by zero"), 1.0)
    text = page_of(paths).text
    assert text.count("Failed: ZeroDivisionError: division by zero") == 1 == text.count("ZeroDivisionError")


def test_a_report_says_tags_note_and_the_name_of_the_task(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "run")
    append(paths, RunEvent("run", "/home/me/mine/task.py:Cells", "1", 7, "host", "cpu"), 200.0)
    write_tags(paths, ["baseline"])
    write_note(paths, "half the <learning> rate")
    text = page_of(paths).text
    assert "baseline" in text and "half the <learning> rate" in text
    assert "task Cells" in text and "/home/me" not in text.partition("Configuration")[0]


def test_a_run_without_anything_still_makes_a_page(tmp_path: Path) -> None:
    paths = make_folder(tmp_path / "run")
    paths.events.touch()
    assert "run" in page_of(paths).text


def test_a_value_that_is_not_finite_is_a_gap_in_the_curve() -> None:
    drawn = chart([Curve("loss", [0, 1, 2, 3], [1.0, float("nan"), 2.0, 3.0], "train")])
    assert drawn.count("M") == 2 and drawn.count("L") == 1


def test_a_long_curve_is_thinned_but_keeps_its_extremes() -> None:
    values = [0.0] * 50_000
    values[31_234], values[12_345] = 9.0, -7.0
    drawn = chart([Curve("loss", list(range(50_000)), values, "train")])
    path = drawn.partition(' d="')[2].partition('"')[0]
    heights = {float(point.split(" ")[1]) for point in path.replace("M", "L").split("L")[1:]}
    assert path.count("L") < 2 * COLUMNS and len(heights) == 3


def test_an_output_that_can_not_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs/digits")
    assert main(["report", "digits", "-o", "none/report.html"]) == 2
    assert "none/report.html" in capsys.readouterr().err
