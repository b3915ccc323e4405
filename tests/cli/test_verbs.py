"""The verbs other than run, the help, and what importing costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Commands
from trainer.cli import examination, main
from trainer.cli.examination import DISTRIBUTION, Findings, described, examine, name_clashes
from trainer.cli.verbs import DEFAULTS, GROUPS, VERBS, verbs_in
from trainer.cli.verbs.doctor import report_lines
from trainer.engine.targets.cpu.topology import Topology

HEAVY = ("numpy", "llvmlite", "textual", "importlib.metadata")


def test_help_names_every_verb_and_gives_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    shown = {group if (group := verb.partition(" ")[0]) in GROUPS else verb for verb in VERBS}
    assert all(f"\n  {verb} " in text for verb in shown) and "examples:" in text


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_prints_its_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([group, "--help"], ["help", group], *([] if group in DEFAULTS else [[group]])):
        assert main(words) == 0
        text = capsys.readouterr().out
        assert f"usage: trainer {group} COMMAND" in text and all(f"\n  {second} " in text for second in verbs_in(group))
    assert main([group, "inspekt"]) == 2
    assert f"unknown command: {group} inspekt" in capsys.readouterr().err


def test_help_and_errors_have_colors_on_terminals_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    main(["--help"])
    assert "\x1b" not in capsys.readouterr().out, "a pipe"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    main(["--help"])
    assert "\x1b[1mcommands:\x1b[0m\n\x1b[36m  run\x1b[0m " in capsys.readouterr().out
    main(["list"])
    assert "\x1b[36mdigits" in capsys.readouterr().out
    main(["ru\x1b[5mn"])
    assert capsys.readouterr().err.startswith("\x1b[1;31merror:\x1b[0m unknown command: ru\\u001b[5mn")
    for variable, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(variable, value)
        main(["--help"])
        assert "\x1b" not in capsys.readouterr().out
        monkeypatch.setenv("NO_COLOR", "")


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help_with_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([verb, "--help"], ["help", verb]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert "examples:" in text and f"trainer {verb}" in text and "--debug" in text


def test_a_mistyped_verb_is_told_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chek", "digits"]) == 2
    assert capsys.readouterr().err == "error: unknown command: chek, did you mean 'check'?\n"


def test_no_verb_at_all_shows_the_overview_as_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: trainer COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    "program",
    [
        "import trainer",
        "from trainer.cli import main; assert main(['--help']) == 0",
        "from trainer.cli import main; assert main(['check', 'digits']) == 0",
    ],
)
def test_nothing_heavy_is_imported_for(program: str, commands: Commands) -> None:
    check = f"import sys; print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{check}"], capture_output=True, text=True, env=commands.environment
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_help_and_import_do_without_pydantic_and_yaml(commands: Commands) -> None:
    program = (
        "import sys, trainer; from trainer.cli import main; main(['--help'])\n"
        "print([name for name in ('pydantic', 'yaml', 'dataclasses') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=commands.environment)
    assert done.stderr == "[]\n"


def test_check_reports_every_problem_and_what_it_did_not_look_at(commands: Commands) -> None:
    good = commands.finish("check", "config.yaml", "options.script=loop")
    assert good.returncode == 0 and "not checked: the task's code" in good.stdout
    bad = commands.finish("check", "config.yaml", "train.epochs=0", "seeed=1")
    assert bad.returncode == 2 and "<cli> train.epochs" in bad.stderr and "did you mean 'seed'?" in bad.stderr


def test_the_schema_is_json_and_knows_the_options_of_a_task(commands: Commands) -> None:
    schema = json.loads(commands.finish("schema", "config.yaml").stdout)
    assert "script" in schema["properties"]["options"]["properties"]
    assert "options" in json.loads(commands.finish("schema").stdout)["properties"]


def test_recipes_are_listed_with_what_they_are(commands: Commands) -> None:
    recipes = {
        item["name"]: item["summary"] for item in map(json.loads, commands.finish("list", "--json").stdout.splitlines())
    }
    assert "digits" in recipes["digits"]


def test_runs_are_found_by_path_name_or_as_the_latest(commands: Commands) -> None:
    assert "no runs here yet" in commands.finish("watch").stderr
    commands.finish("run", "config.yaml", "--name", "one")
    commands.finish("run", "config.yaml", "--name", "two")
    assert "run=two" in commands.finish("watch", "--plain").stdout
    assert "run=one" in commands.finish("watch", "one").stdout
    assert "run=one" in commands.finish("watch", "runs/one").stdout
    missing = commands.finish("watch", "onne")
    assert missing.returncode == 2 and "did you mean 'one'?" in missing.stderr


def test_a_run_whose_process_is_gone_is_not_waited_for(commands: Commands) -> None:
    commands.finish("run", "config.yaml")
    events = commands.folder / "runs/scripted/events.jsonl"
    events.write_text("".join(line for line in events.read_text().splitlines(True) if '"end"' not in line))
    (events.parent / "run.lock").write_text("{}")
    done = commands.finish("watch")
    assert done.returncode == 2 and "gone without an end" in done.stderr


def test_doctor_tells_versions_processor_threads_and_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(tmp_path))
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "kernel").write_bytes(b"x" * 1_500_000)
    facts = examine().facts
    assert {"trainer", "python", "numpy", "cpu", "cpu features", "cores", "threads", "gpus"} <= set(facts)
    assert facts["kernel cache"].endswith("1 files, 1.5 MB")


@pytest.mark.parametrize("flags", ["avx512f", "avx512f amx_bf16"])
def test_doctor_says_where_tiles_are_faster_in_bfloat16(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "cpu_features", flags.split)
    assert ("bfloat16: tiles" in examine().facts.get("bfloat16", "")) == ("amx_bf16" in flags)


def test_doctor_describes_the_processors_that_may_be_used() -> None:
    cores = tuple((n, n + 4) for n in range(4))
    server = Topology(cores, {2: cores, 3: (tuple(range(8)),)}, ((0, 4, 1, 5), (2, 6, 3, 7)), frozenset({3, 7}), 2.5)
    assert described(server, 16) == (
        "4 physical (1 slower), 8 of 16 logical processors (affinity), level-2 cache shared by 2, "
        "level-3 cache shared by 8, 2 memory nodes (NUMA), a quota of 2.5 (control group)"
    )
    assert described(Topology(((0,), (1,)), {2: ((0,), (1,))}, ((0, 1),), frozenset(), None), 2) == (
        "2 physical, 2 of 2 logical processors"
    )


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions are POSIX's")
def test_doctor_names_the_folder_with_which_others_could_replace_the_kernel_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    (shared / "cache" / "objects").mkdir(parents=True)
    monkeypatch.setenv("TRAINER_CACHE_DIR", str(shared / "cache"))
    assert not [problem for problem in examine().problems if "kernel cache" in problem]
    shared.chmod(0o777)
    (problem,) = (problem for problem in examine().problems if "kernel cache" in problem)
    assert "is not used" in problem and f"chmod go-w {shared}," in problem


def test_doctors_report_stays_within_the_screen_and_is_one_line_a_fact_without_one() -> None:
    findings = Findings({"cpu": "a b " * 40, "threads": "2 of 2"}, ["it is " * 30])
    assert max(map(len, report_lines(findings, 80))) <= 80 and len(report_lines(findings, 80)) == 3 + 1 + 3
    assert len(report_lines(findings, None)) == 3


def test_doctor_says_when_another_distribution_has_the_import_name() -> None:
    assert name_clashes({"trainer": [DISTRIBUTION, "coqui-tts-trainer"], "numpy": ["numpy"]}) == ["coqui-tts-trainer"]
    assert name_clashes({"trainer": [DISTRIBUTION]}) == [] and name_clashes({}) == []


def test_the_distributions_name_is_that_of_the_package_metadata(repository: Path) -> None:
    import tomllib

    assert tomllib.loads((repository / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION


def test_a_mistyped_option_is_a_mistake_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "digits", "--epochs", "3"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: unrecognized arguments: --epochs") and "train.epochs=3" in said
    assert "trainer run --help" in said and "usage:" not in said
