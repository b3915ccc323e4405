"""The commands, one file each, in the order of `trainer --help`."""

from __future__ import annotations

from collections.abc import Sequence

VERBS: dict[str, str] = {
    "run": "train a config or a recipe",
    "check": "check a config and report all problems at once",
    "list": "the recipes that come with trainer",
    "new": "create a project with a task and a config, or copy a recipe",
    "schema": "print the JSON Schema of configs, for editors",
    "watch": "show a run, live or finished",
    "stop": "stop a run after its current step, with a checkpoint",
    "runs list": "list the runs of a folder in a table",
    "runs rm": "delete runs that have ended",
    "runs prune": "delete checkpoints that are neither latest nor best, or old and failed runs",
    "runs tag": "add tags to a run, which `runs list` shows",
    "runs export": "export a run's metrics to another tool: CSV, TensorBoard, W&B, MLflow",
    "compare": "compare runs: metrics, curves, differences of their configs",
    "report": "write a report of a run as a single web page",
    "predict": "predict with a run's model: images, texts, tables",
    "evaluate": "evaluate a run's model on a split or on other data",
    "checkpoint inspect": "list the arrays of a checkpoint or a weights file, including PyTorch's",
    "checkpoint verify": "check that a run's checkpoints are undamaged",
    "checkpoint convert": "convert weights to .safetensors or .npz, with selection and renaming",
    "export": "export a run's model as one file that needs no task code",
    "autotune": "measure and choose kernels now, for all later runs",
    "sweep": "search for good values of a config with many runs",
    "find-lr": "suggest a learning rate from a range test and short trainings",
    "profile": "measure where the time of a training step goes",
    "data inspect": "describe a data set and list its problems",
    "data convert": "convert boxes between formats: COCO, VOC, YOLO",
    "data score": "score a results file: COCO's 12 metrics, and per class",
    "doctor resume": "check that a kill and resume doesn't change results",
    "doctor": "describe this installation and its problems",
    "completion": "print the completion script for a shell: bash, zsh, fish",
}

GROUPS: dict[str, str] = {
    "runs": "manage the runs of a folder: list, rm, prune, tag, export",
    "checkpoint": "checkpoints and weights files: inspect, verify, convert",
    "data": "data sets: inspect, convert, score",
}
"""Groups of commands, as listed by `trainer --help`; without a second word they print their help."""

DEFAULTS: dict[str, str] = {"runs": "runs list"}
"""The default command of a group, if it is followed by nothing or by options."""

EXAMPLES = (
    """\
examples:
  trainer run digits                     train a recipe
  trainer run digits train.epochs=3      """
    """with a different number of epochs
  trainer new mine --recipe digits       copy it to edit it, then: cd mine && """
    """trainer run config.yaml
  trainer watch                          show the latest run
"""
)


def verb_of(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """The command at the start of a command line, of one word or two, and the remaining arguments."""
    for count in (2, 1):
        if (name := " ".join(words[:count])) in VERBS:
            return name, [*words[count:]]  # `list` is a command here
    first, *rest = words or ("",)
    is_help = rest[:1] in (["--help"], ["-h"])
    if first in DEFAULTS and not is_help and (not rest or rest[0].startswith("-")):
        return DEFAULTS[first], rest
    return None


def verbs_in(group: str) -> dict[str, str]:
    """The commands of a group, by their second word."""
    return {name.removeprefix(f"{group} "): text for name, text in VERBS.items() if name.startswith(f"{group} ")}


def overview(version: str) -> str:
    """The text of `trainer --help`; a group is one line."""
    rows: dict[str, str] = {}
    for name, purpose in VERBS.items():
        group = name.partition(" ")[0]
        rows.update({group: GROUPS[group]} if group in GROUPS else {name: purpose})
    return (
        f"trainer {version}: train vision and sequence models from one typed YAML file\n\nusage: trainer COMMAND "
        f"...\n\ncommands:\n{_rows(rows)}\n\n{EXAMPLES}\n`trainer COMMAND --help` shows the options and examples "
        "of a command. `--debug` adds the traceback to an error.\n"
    )


def group_help(group: str) -> str:
    """The help text of `trainer data` and of other groups."""
    default = DEFAULTS.get(group)
    means = f"`trainer {group}` alone means `trainer {default}`. " if default else ""
    return (
        f"usage: trainer {group} COMMAND ...\n\n{GROUPS[group][0].upper()}{GROUPS[group][1:]}.\n\n"
        f"commands:\n{_rows(verbs_in(group))}\n\n"
        f"{means}`trainer {group} COMMAND --help` shows the options and examples of a command.\n"
    )


def _rows(rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join(f"  {name:{width}}  {purpose}" for name, purpose in rows.items())
