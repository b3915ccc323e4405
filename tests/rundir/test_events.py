"""The lines of events.jsonl: the documented form, and tolerance for what others write."""

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from trainer.rundir import RunPaths, codec, decode, encode, events
from trainer.rundir.codec import decode_lines
from trainer.rundir.events import KINDS, MetricEvent, PhaseEvent, UnknownEvent


def line_of(event: events.Event) -> dict:
    return json.loads(encode(event, time=1700000000.25, since_start=0.5, attempt=2))


def test_a_line_has_the_common_fields_then_those_of_its_kind() -> None:
    line = encode(PhaseEvent("data", "progress", done=3, total=9), time=1.5, since_start=0.25, attempt=1)
    assert line == (
        b'{"kind":"phase","time":1.5,"since_start":0.25,"attempt":1,'
        b'"name":"data","state":"progress","done":3,"total":9}\n'
    )


@pytest.mark.parametrize(("number", "text"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_non_finite_numbers_are_strings_in_the_file_and_numbers_again_when_read(number: float, text: str) -> None:
    line = encode(MetricEvent(1, 0.1, "train", {"loss": number}), time=0, since_start=0, attempt=1)
    assert json.loads(line)["values"] == {"loss": text}
    record = decode(line)
    assert record is not None and isinstance(record.event, MetricEvent)
    assert repr(record.event.values["loss"]) == repr(number)


def test_a_name_that_spells_nan_stays_text() -> None:
    record = decode(encode(PhaseEvent("nan", "started"), time=0, since_start=0, attempt=1))
    assert record is not None and record.event == PhaseEvent("nan", "started")


def test_numpy_scalars_are_written_as_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    line = line_of(MetricEvent(numpy.int64(7), numpy.float32(0.5), "train", {"loss": numpy.float64(2.0)}))
    assert (line["step"], line["epoch"], line["values"]) == (7, 0.5, {"loss": 2.0})


def test_what_json_cannot_hold_is_refused_with_its_type() -> None:
    with pytest.raises(TypeError, match="set"):
        line_of(MetricEvent(1, 0.0, "train", {"loss": {1}}))  # type: ignore[dict-item]


def test_every_kind_comes_back_equal() -> None:
    samples = {
        "str": "a", "int": 3, "float": 0.5, "bool": True, "Mapping[str, float]": {"x": 1.5},
        "Mapping[str, int]": {"x": 2}, "Sequence[str]": ("a", "b"), "Sequence[Mapping[str, float]]": ({"use": 1.0},),
        "Sequence[Mapping[str, Any]]": ({"rank": 1, "host": "node7"},),
    }  # fmt: skip
    for kind in KINDS.values():
        event = kind(*(samples[kind.__annotations__[name].removesuffix(" | None")] for name in kind._fields))
        record = decode(encode(event, time=0, since_start=0, attempt=1))
        assert record is not None and record.event == event


def test_an_event_is_immutable_and_takes_its_fields_alone() -> None:
    event = PhaseEvent("load", "started", now="weights")
    assert event == PhaseEvent(name="load", state="started", now="weights") != dataclasses.replace(event, now="data")
    assert hash(event) == hash(dataclasses.replace(event)) and repr(event).startswith(
        "PhaseEvent(name='load', state='started'"
    )
    with pytest.raises(AttributeError, match="immutable"):
        event.now = "data"  # type: ignore[misc]
    for wrong in ({"name": "load"}, {"name": "load", "state": "started", "colour": 1}):
        with pytest.raises(TypeError, match="has the fields name, state"):
            PhaseEvent(**wrong)  # type: ignore[arg-type]


def test_an_event_is_a_dataclass_to_functions_of_dataclasses() -> None:
    """The type checker takes it for one, so that a call of theirs must not fail when it runs."""
    for kind in KINDS.values():
        assert [field.name for field in dataclasses.fields(kind)] == list(kind._fields)
    event = PhaseEvent("load", "started", now="weights")
    assert dataclasses.asdict(dataclasses.replace(event, now="data")) == {**event.to_dict(), "now": "data"}
    with pytest.raises(TypeError, match="has the fields name, state"):
        dataclasses.replace(event, colour=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"metric","step":"seven","epoch":0,"split":"train","values":{}}',
        '{"kind":"metric","epoch":0,"split":"train","values":{}}',
        '{"kind":"metric","step":1,"epoch":0,"split":"train","values":{"loss":[1]}}',
        '{"kind":"from the future","x":1}',
        '{"kind":["no","word"]}',
    ],
)
def test_lines_of_another_form_are_kept_as_unknown(line: str) -> None:
    record = decode(line)
    assert record is not None and isinstance(record.event, UnknownEvent)
    assert isinstance(record.event.fields, Mapping)


def test_unknown_fields_are_passed_over() -> None:
    record = decode('{"kind":"phase","time":1,"attempt":1,"name":"data","state":"started","color":"red"}')
    assert record is not None and record.event == PhaseEvent("data", "started")


@pytest.mark.parametrize("line", [b"", b"{", b'"text"', b"[1]", b"\xff\xfe\x00", b"[" * 100_000])
def test_what_is_no_json_object_is_no_record(line: bytes) -> None:
    assert decode(line) is None


def test_kinds_and_fields_are_those_of_the_contract() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rundir.md").read_text(encoding="utf-8")
    _, _, events = page.partition("\n| kind | fields |\n")
    rows = [line.split("|")[1:3] for line in events.splitlines() if line.startswith("| `")]
    assert {kind for kinds, _ in rows for kind in re.findall(r"`(\w+)`", kinds)} == set(KINDS)
    for kinds, fields in rows:
        words = set(re.findall(r"\w+", re.sub(r"\([^)]*\)|\{[^}]*\}|\[[^]]*\]", "", fields))) - {"and"}
        for kind in re.findall(r"`(\w+)`", kinds):
            assert set(codec._field_names(KINDS[kind])) == words, kind


def test_files_are_those_of_the_contract() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rundir.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([\w.-]+)", page.partition("## Events")[0], re.MULTILINE))
    paths = RunPaths(Path("run"))
    first = (paths.config(1), paths.environment(1), paths.traceback(1))
    properties = (
        paths.events,
        paths.log,
        paths.checkpoints,
        paths.samples,
        paths.reports,
        paths.lock,
        paths.control,
        paths.tags,
    )
    assert {path.name for path in (*properties, *first)} <= named


METRIC = b'"time":1.5,"since_start":0.5,"attempt":2,"step":3,"epoch":0.5,"split":"train"'
LINES = [
    b'{"kind":"metric",' + METRIC + b',"values":{"loss":0.5},"final":true}',
    b'{"kind":"metric",' + METRIC + b',"values":{"loss":"nan","count":3}}',
    b'{"kind":"metric",' + METRIC + b',"values":{"loss":null}}',
    b'{"kind":"metric","step":1.5,"epoch":0.5,"split":"train","values":{}}',
    b'{"kind":"metric","step":1,"epoch":1,"split":"train","values":{}}',
    b'{"kind":"hologram","x":1}',
    b"17",
]


@pytest.mark.parametrize("foreign", [(), (b'{"kind":"lo',), (b"1, 2",), (b"[1", b"2]"), (b'"a', b'b"'), (b"\xff",)])
def test_lines_decoded_together_are_those_decoded_one_by_one(foreign: tuple[bytes, ...]) -> None:
    lines = [*LINES[:3], *foreign, *LINES[3:]]
    together = decode_lines(lines)
    assert list(map(repr, together)) == [repr(decode(line)) for line in lines]
    assert decode_lines([]) == []


def test_a_plain_metric_is_read_as_the_walk_over_its_fields_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shortcut = [repr(decode(line)) for line in LINES]
    monkeypatch.setattr(codec, "_plain_metric", lambda fields: None)
    assert shortcut == [repr(decode(line)) for line in LINES]
    assert "final=True" in shortcut[0] and shortcut[2].startswith("Record(event=UnknownEvent")
