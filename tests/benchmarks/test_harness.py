"""The benchmarks' verdicts: ratios above one are better, and what can't be told is said."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import steps
from harness import (
    MISSED,
    NO_PEER,
    POLICIES,
    UNTOLD,
    BestPolicy,
    Companion,
    Family,
    Figure,
    Result,
    Round,
    as_json,
    exit_code,
    largest,
    require,
    run_figures,
    summarise,
    summarise_family,
)
from recording import Recording, newest, recording


@pytest.fixture(autouse=True)
def a_round_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed here."""
    monkeypatch.setattr("harness.MINIMUM_ROUND_SECONDS", 0.0)


def figure(**fields: object) -> Figure:
    return Figure("x", ours=lambda: 1.0, peer=lambda python: 1.0, **fields)  # type: ignore[arg-type]


def rounds(ours: list[float], peer: list[float], disturbance: float = 0.0) -> list[Round]:
    return [Round(a, b, disturbance) for a, b in zip(ours, peer, strict=True)]


def test_a_ratio_above_one_is_better_in_either_direction() -> None:
    measured = rounds([2.0] * 7, [3.0] * 7)
    assert summarise(figure(better="lower"), measured).ratio == 1.5
    assert summarise(figure(better="higher"), measured).ratio == pytest.approx(2 / 3)


def test_the_bar_decides() -> None:
    measured = rounds([2.0] * 7, [3.0] * 7)
    assert summarise(figure(bar=1.5), measured).ok is True
    assert summarise(figure(bar=1.6), measured).ok is False


def test_without_a_peer_the_bar_is_a_bound() -> None:
    bounded = Figure("x", ours=lambda: 1.0, bar=80.0)
    assert summarise(bounded, [Round(60.0, None, 0.0)] * 7).ok is True
    result = summarise(bounded, [Round(100.0, None, 0.0)] * 7)
    assert (result.ok, result.ratio) == (False, 0.8)


def test_disturbed_rounds_do_not_count() -> None:
    measured = rounds([2.0] * 5, [3.0] * 5) + rounds([9.0] * 8, [3.0] * 8, disturbance=0.3)
    result = summarise(figure(), measured)
    assert (result.ratio, result.rounds, result.disturbed_rounds, result.ok) == (1.5, 5, 8, True)


def test_too_few_undisturbed_rounds_give_no_verdict() -> None:
    result = summarise(figure(), rounds([2.0] * 7, [3.0] * 7, disturbance=0.06))
    assert result.ok is None and result.ratio == 1.5 and "undisturbed" in result.note


def test_a_spread_on_both_sides_of_the_bar_gives_no_verdict() -> None:
    wide = rounds([1.0] * 6, [0.7, 0.8, 0.9, 1.1, 1.2, 1.3])
    assert summarise(figure(), wide).ok is None
    narrow = rounds([1.0] * 6, [0.99, 0.995, 1.0, 1.0, 1.01, 1.02])
    assert summarise(figure(), narrow).ok is True


def test_the_interval_is_that_of_order_statistics() -> None:
    measured = rounds([1.0] * 9, [1.4, 1.1, 0.9, 1.0, 1.3, 0.8, 1.2, 0.7, 5.0])
    assert summarise(figure(), measured).interval == (0.8, 1.4)  # ranks 2 and 8 of 9: 96.1 %, Conover 1999, section 3.2
    assert summarise(figure(), measured[:6]).interval == (0.8, 1.4), "below nine, the smallest and the largest"
    assert summarise(figure(), measured[:5]).interval is None


def family(*ratios: float | None, bar: float = 1.0) -> Result:
    parts = [summarise(figure(bar=0.5), [Round(1.0, ratio, 0.0)] * 7, peer_missing=ratio is None) for ratio in ratios]
    return summarise_family(Family("f", (figure(),), bar), parts)


def test_a_family_is_held_to_its_bar_by_the_geometric_mean() -> None:
    assert family(0.8, 1.8).ratio == pytest.approx(1.2)
    assert (family(0.8, 1.8, bar=1.19).ok, family(0.8, 1.8, bar=1.21).ok) == (True, False)
    assert family(0.8, 1.8).spread == (0.8, 1.8)


def test_the_interval_of_a_family_is_that_of_its_geometric_means_round_by_round() -> None:
    parts = [summarise(figure(), rounds([1.0] * 6, peer)) for peer in ([1.0, 2.0, 1.0, 2.0, 1.0, 2.0], [4.0, 2.0] * 3)]
    assert summarise_family(Family("f", (figure(),), 1.0), parts).interval == pytest.approx((2.0, 2.0))


def test_a_family_with_a_figure_that_has_no_peer_gives_no_verdict() -> None:
    result = family(1.5, None)
    assert (result.ratio, result.ok) == (None, None) and "peer" in result.note


def test_the_name_of_a_family_asks_for_its_figures_and_their_names_for_them_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def part(name: str) -> Figure:
        return Figure(name, lambda: 1.0, lambda python: 2.0, needs_peer_python=False, is_timing=False, rounds=1)

    figures = [Family("all", (Family("f", (part("f/a"), part("f/b")), 1.0),), 1.0), part("other")]
    for asked, shown in (("all", ["f/a", "f/b", "f", "all"]), ("f", ["f/a", "f/b", "f"]), ("f/b", ["f/b"])):
        assert run_figures(figures, [asked, "--json"]) == 0
        assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == shown


def test_json_has_the_fields_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    missing = Figure("with_peer", ours=lambda: 1.0, peer=lambda python: 1.0)
    assert run_figures([missing], ["--json", "--rounds", "1"]) == NO_PEER
    result = json.loads(capsys.readouterr().out)
    assert {"name", "ours", "peer", "ratio", "bar", "ok"} <= set(result)
    assert (result["peer"], result["ok"]) == (None, None) and "--peer-python" in result["note"]


def test_the_exit_code_tells_what_is_missed_from_what_is_not_known() -> None:
    assert [exit_code([True, *more]) for more in ([], [None], [False], [None, False])] == [0, UNTOLD, MISSED, MISSED]
    assert exit_code([None], lacks_peer=True) == NO_PEER and exit_code([None, False], lacks_peer=True) == MISSED
    assert len({0, MISSED, UNTOLD, NO_PEER, 2}) == 5, "2 is that of a mistyped command"


def test_what_measured_code_prints_is_not_among_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    def ours() -> float:
        print("creating index...")
        return 1.0

    loud = Figure("loud", ours, bar=2.0, rounds=1, is_timing=False)
    assert run_figures([loud], ["--json"]) == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["name"] for line in printed.out.splitlines()] == ["loud"]
    assert "creating index" in printed.err


def test_of_openmps_policies_the_better_counts_and_a_process_rests_between_questions() -> None:
    milliseconds = "{'active': 2.0, 'passive': 3.0}[os.environ['OMP_WAIT_POLICY']]"
    peer = BestPolicy(sys.executable, "-c", f"import os, sys\nfor _ in sys.stdin: print({milliseconds}, flush=True)")
    assert peer("") == peer("") == 2.0
    pids = [companion._process.pid for companion in peer._companions if companion._process]
    stopped = [os.waitid(os.P_PID, pid, os.WSTOPPED) for pid in pids]
    peer.close()
    assert [one.si_pid for one in stopped if one] == pids and len(pids) == len(POLICIES)


def test_pytorch_gets_as_many_threads_as_we_do_and_its_best_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "available_threads", lambda: 7)
    asked, closed = [], []

    class Answering:
        def __init__(self, *words: str, environment: dict[str, str], rests: bool) -> None:
            assert rests
            self.way = "--channels-last" in words, "--compiled" in words, environment["OMP_WAIT_POLICY"]
            asked.append((self.way, "--threads=7" in words))

        def __call__(self) -> float:
            return 1.0 if self.way == (True, False, "active") else 2.0

        def close(self) -> None:
            closed.append(self.way)

    monkeypatch.setattr(steps, "Companion", Answering)
    assert steps.TorchPeer("mlp")("python") == 1.0
    assert len({way for way, _ in asked}) == 8 and all(same for _, same in asked)
    assert {way for way, _ in asked} - set(closed) == {(True, False, "active")}
    assert "--threads=7" in steps.command("mlp")


def test_a_package_that_is_missing_is_named() -> None:
    require(pytest="pytest")
    with pytest.raises(SystemExit, match="needs scikit-learn"):
        require(pytest="pytest", no_such_module="scikit-learn")


def test_a_mistyped_figure_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_figures([figure()], ["y"])
    assert "there are x" in capsys.readouterr().err


def test_recorded_figures_are_not_measured_again_until_their_code_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(name: str) -> Figure:
        return Figure(name, lambda: float(len(calls.append(name) or calls)), bar=10.0, rounds=1, is_timing=False)

    def record(revision: str) -> None:
        origin = {"command": "python benchmarks/x.py", "date": "2026-01-01", "revision": revision, "machine": {},
                  "versions": {}, "peer_versions": {}}  # fmt: skip
        monkeypatch.setattr("harness._recording", lambda _: Recording(tmp_path / "x.jsonl", origin))

    monkeypatch.setattr("dependencies.changed", lambda _, revision: [] if revision == "abc" else ["a.py"])
    record("abc")
    assert run_figures([counted("x"), counted("y")], ["x", "--record"]) == 0
    record("later")
    assert run_figures([Family("both", (counted("x"), counted("y")), 1.0)], ["--record"]) == 0
    assert calls == ["x", "y"]
    monkeypatch.setattr("dependencies.changed", lambda *_: ["a.py"])
    assert run_figures([counted("x")], ["--record"]) == 0
    assert calls == ["x", "y", "x"]
    lines = newest(tmp_path)["x"]
    assert {name: line["ours"] for name, line in lines.items()} == {"x": 3.0, "y": 2.0, "both": pytest.approx(2**0.5)}
    assert lines["x"]["command"] == "python benchmarks/x.py x"


def test_a_result_without_its_peer_is_not_recorded(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    Recording(file, {"command": "x"}).add(summarise(figure(), rounds([1.0], [1.0]), peer_missing=True))
    assert not file.exists()


def test_a_comparison_with_an_older_checkout_records_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(("git", "init", "-q", str(tmp_path)), check=True)
    subprocess.run((*git, "commit", "-q", "--allow-empty", "-m", "x"), check=True)
    commit = subprocess.run((*git, "log", "--format=%h"), check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    monkeypatch.setattr("provenance.revision", lambda: "abc")
    monkeypatch.setattr("sys.argv", ["eager.py", "operation", "--checkout", str(tmp_path), "--record"])
    assert recording("eager", None).origin["peer_versions"] == {"trainer": commit}
    monkeypatch.setattr("sys.argv", ["cpu.py", "--record"])
    assert recording("cpu", None).origin["peer_versions"] == {}


def test_a_companion_answers_each_time_from_one_process() -> None:
    program = "import os, sys\nfor _ in sys.stdin: print(os.getpid(), flush=True)"
    companion = Companion(sys.executable, "-c", program)
    assert companion() == companion()
    first = companion()
    companion.close()
    assert companion() != first
    companion.close()
    broken = Companion(sys.executable, "-c", "raise SystemExit(3)")
    with pytest.raises((RuntimeError, BrokenPipeError)):
        broken()


def test_a_companion_works_in_a_folder_and_is_asked_for_one_of_several_things(tmp_path: Path) -> None:
    (tmp_path / "seven").write_text("7")
    program = "import sys\nfor line in sys.stdin: print(open(line.strip()).read(), flush=True)"
    companion = Companion(sys.executable, "-c", program, folder=tmp_path)
    assert companion("seven") == 7
    companion.close()


def test_a_companion_that_answers_no_number_is_refused() -> None:
    companion = Companion(sys.executable, "-c", "import sys\nfor _ in sys.stdin: print('nan', flush=True)")
    with pytest.raises(RuntimeError, match="answered nan"):
        companion()
    companion.close()


def test_other_processes_do_not_disturb_what_is_no_timing() -> None:
    size = Figure("x", ours=lambda: 1.0, bar=450.0, unit="MB", rounds=1, is_timing=False)
    result = summarise(size, [Round(430.0, None, 0.9)])
    assert (result.ok, result.disturbed_rounds, result.note) == (True, 0, "")
    assert summarise(size, [Round(460.0, None, 0.9)]).ok is False


def test_nothing_at_all_is_within_any_bound() -> None:
    assert summarise(Figure("x", ours=lambda: 0.0, bar=200.0), [Round(0.0, None, 0.0)] * 7).ok is True


BROKEN = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("value", BROKEN)
@pytest.mark.parametrize("place", [0, 3, 6])
@pytest.mark.parametrize("peer", [1.0, None])
def test_a_figure_that_is_no_number_in_any_round_is_not_ok(
    better: str, value: float, place: int, peer: float | None
) -> None:
    measured = [Round(value if number == place else 1.0, peer, 0.0) for number in range(7)]
    held = figure(better=better) if peer else Figure("x", lambda: 1.0, bar=1.0, better=better)  # type: ignore[arg-type]
    result = summarise(held, measured)
    assert (result.ok, result.ratio) == (False, None) and "1 of 7 rounds measured" in result.note
    assert summarise(held, [Round(each.ours, each.peer, 0.9) for each in measured]).ok is False


@pytest.mark.parametrize("value", BROKEN)
def test_a_peer_that_is_no_number_gives_no_verdict(value: float) -> None:
    result = summarise(figure(), rounds([1.0] * 7, [2.0] * 3 + [value] + [2.0] * 3))
    assert (result.ok, result.ratio) == (None, None) and "of the peer" in result.note


def test_a_family_with_a_figure_that_is_no_number_is_not_ok() -> None:
    parts = [summarise(figure(), rounds([ours] * 7, [2.0] * 7)) for ours in (1.0, math.nan)]
    result = summarise_family(Family("f", (figure(),), 1.0), parts)
    assert (result.ok, result.ratio) == (False, None) and "measured nan" in result.note


@pytest.mark.parametrize("value", BROKEN)
def test_what_is_no_number_misses_and_is_null_in_json(value: float, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Figure("broken", lambda: value, bar=1e9, rounds=1, is_timing=False)
    assert run_figures([broken], ["--json"]) == 1

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    result = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert (result["ours"], result["ok"]) == (None, False)
    assert run_figures([broken], []) == 1 and "MISSED" in capsys.readouterr().out


def test_the_largest_of_numbers_and_nan_is_nan() -> None:
    assert largest([1.0, 3.0, 2.0]) == 3.0
    assert all(math.isnan(largest(values)) for values in ([math.nan, 1.0], [1.0, math.nan], [math.inf, math.nan]))
    assert as_json({"a": [1.5, (math.nan, -math.inf)], "b": {"c": math.inf}, "d": "x"}) == (
        '{"a": [1.5, [null, null]], "b": {"c": null}, "d": "x"}'
    )
