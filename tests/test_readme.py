"""What the README, .ci/run and some pages say is what is done."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from trainer.cli.environment import PACKAGES

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
CI = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every line of the README's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize("name", ["TEST_COMMAND", "MAIN_COMMAND"])
def test_the_readmes_commands_are_those_that_ci_runs(name):
    command = re.search(rf'^{name}="(.*)"$', CI, flags=re.MULTILINE)
    assert command is not None and command[1] in commands()
    assert f'"${name}"' in CI


def test_links_of_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 10 and [link for link in links if not (REPOSITORY / link).exists()] == []


def test_the_readme_is_one_page():
    assert len(README.splitlines()) < 80


def test_ci_stops_at_the_first_failure_and_needs_no_input():
    assert "set -euo pipefail" in CI and "exec </dev/null" in CI
    assert (REPOSITORY / ".ci" / "run").stat().st_mode & 0o100
    subprocess.run(["bash", "-n", str(REPOSITORY / ".ci" / "run")], check=True)


@pytest.mark.parametrize(
    ("accuracy", "seconds", "status", "passes"),
    [
        (0.995, 12.0, "done", True),
        (0.98, 12.0, "done", False),
        (0.995, 60.5, "done", False),
        (0.995, 12.0, "stopped", False),
    ],
)
def test_ci_holds_the_main_job_to_its_accuracy_and_its_time(accuracy, seconds, status, passes, tmp_path: Path):
    (script,) = re.findall(r"<<'PYTHON'\n(.*?)\nPYTHON", CI, flags=re.DOTALL)
    names = "LEAST_ACCURACY", "MOST_SECONDS"
    least, most = (re.search(rf"^{name}=(.*)$", CI, flags=re.MULTILINE)[1] for name in names)
    end = {"kind": "end", "metrics": {"test/accuracy": accuracy}, "since_start": seconds, "exit_code": 0}
    (tmp_path / "events.jsonl").write_text(json.dumps({**end, "status": status}) + "\n")
    command = [sys.executable, "-c", script, str(tmp_path / "events.jsonl"), least, most]
    assert (subprocess.run(command, capture_output=True).returncode == 0) == passes


def test_ci_leaves_no_test_out_on_avx2_without_a_reason():
    (table,) = re.findall(r"declare -A AVX2_LEAVES_OUT=\((.*?)\n\)", CI, flags=re.DOTALL)
    reasons = re.findall(r"^  \[.*\]=\"(.+): .+\"$", table, flags=re.MULTILINE)
    assert len(reasons) == len(table.strip().splitlines())
    assert "-k 'not objects" not in CI and '"${AVX2_LEAVES_OUT[@]}"' in CI


def test_the_distributions_name_is_the_readmes():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"`{project['name']}`" in README
    assert project["requires-python"] == ">=3.11" and "Python 3.11 or newer (tested with 3.11 and 3.14)" in README


def test_no_version_or_system_is_claimed_that_the_tests_have_not_run_on():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claims = {
        name.split(" :: ", 1)[1] for name in project["classifiers"] if name.startswith(("Operating", "Programming"))
    }
    assert claims == {"POSIX :: Linux", "Python :: 3", "Python :: 3 :: Only", "Python :: 3.11", "Python :: 3.14"}
    assert "macos" not in README.lower()


USES = {
    "cupy-cuda12x": r"import(_module\(\"| )cupy\b", "mpich": r"\"mpiexec\"", "nvidia-ml-py": r"import pynvml\b",
    "pillow": r"from PIL\b", "PyYAML": r"import yaml\b",
}  # fmt: skip
"""How code uses a package that is not imported under its own name."""


def test_everything_that_is_installed_is_used_and_recorded():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = re.search(r"Extras: (.*)\.", README)
    assert named is not None and set(re.findall(r"`(\w+)`", named[1])) == set(extras)
    assert set(extras["docs"]) < set(extras["dev"])
    code = "".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "trainer").rglob("*.py"))
    required = [re.match(r"[\w-]+", each)[0] for each in project["dependencies"]]
    optional = [re.match(r"[\w-]+", each)[0] for name in set(extras) - {"dev", "docs"} for each in extras[name]]
    for package in required + optional:
        assert re.search(USES.get(package, rf"(import|from) {package.replace('-', '_')}\b"), code), package
    assert sorted(PACKAGES) == sorted(required), "a run records their versions"


def test_the_code_of_the_python_page_runs(tmp_path: Path):
    page = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 4
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    *_, first, loss, more, looked, accuracy, last = done.stdout.splitlines()
    assert first.startswith("done 30 0.") and loss.startswith("30.0 ") and more == "40 2"
    assert looked.startswith("done ['train/loss'") and 0 <= float(accuracy) <= 1
    found = [float(text) for text in re.findall(r"[-+.\de]+", last)]
    assert found == pytest.approx([0.0, 2.0, -1.0], abs=1e-2)


def test_the_training_page_lists_every_moment_and_its_hooks_work():
    from trainer.learner import Hook, Moment, Verdict
    from trainer.learner.hooks import MOMENTS

    page = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    table = page[page.index("| moment | when |") :]
    assert set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == set(MOMENTS)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(code, names)
    assert issubclass(names["ReportAccuracy"], Hook)
    verdict = names["TooHigh"]().after_validation(None, Moment(8, 1.0, measured={"valid/loss": 11.0}))
    assert isinstance(verdict, Verdict) and str(verdict.failure) == "the loss is above 10 at step 8"


def test_the_training_page_names_keys_that_are_valid():
    from trainer.configs import config_from
    from trainer.configs.problems import Place
    from trainer.configs.reader import read_yaml

    page = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    first, _ = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    sections = read_yaml(first, Place("page")).value
    config = config_from({**sections, "optimizer": {"name": "adam", "learning_rate": 1e-3}})
    assert config.early_stopping is not None and config.train.minutes == 120
