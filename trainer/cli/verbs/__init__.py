"""The verbs of the command line, a file each, in the order in which `trainer --help` lists them."""

from __future__ import annotations

from collections.abc import Sequence

VERBS: dict[str, str] = {
    "run": "train a config or a recipe",
    "check": "check a config, every problem in one pass",
    "list": "the recipes that come with trainer",
    "new": "a folder with a task and a config of your own, or a copy of a recipe",
    "schema": "print the JSON Schema of configs, for editors",
    "watch": "look at a run, live or finished",
    "stop": "ask a run to finish its step, save and stop",
    "runs list": "the runs of a folder in a table",
    "runs rm": "delete runs that are over",
    "runs prune": "delete checkpoints that are neither latest nor best, or old and failed runs",
    "runs tag": "give a run tags, which `runs list` shows",
    "runs export": "what a run logged, for another tool: CSV, TensorBoard, W&B, MLflow",
    "compare": "several runs side by side: metrics, curves, what differs in their configs",
    "report": "one run as a web page in a single file",
    "predict": "what a run's model makes of pictures: boxes, masks, classes",
    "evaluate": "a run's metrics on a split or on other data, per class, worst items",
    "checkpoint inspect": "the arrays of a checkpoint or a file of weights, PyTorch's too",
    "checkpoint verify": "whether a run's checkpoints are as they were written",
    "checkpoint convert": "weights as .safetensors or .npz, chosen and renamed",
    "export": "a run's model as one file, which predicts without the task's code",
    "autotune": "decide the kernels of a config now, for every later run",
    "profile": "where the time of a training step goes",
    "data inspect": "what is in a data set, and what is wrong with it",
    "data convert": "boxes from one format to another: COCO, VOC, YOLO",
    "data score": "the figures of a results file, COCO's 12 and per class",
    "doctor resume": "whether a config that is killed and resumed comes to the same bits",
    "doctor": "what this installation is, and what is wrong with it",
    "completion": "print the completion script of a shell: bash, zsh, fish",
}

GROUPS: dict[str, str] = {
    "runs": "the runs of a folder: list, rm, prune, tag, export",
    "checkpoint": "checkpoints and files of weights: inspect, verify, convert",
    "data": "data sets: inspect, convert, score",
}
"""Words that several verbs begin with, as `trainer --help` lists them; alone they print their help."""

DEFAULTS: dict[str, str] = {"runs": "runs list"}
"""The verb that a group's word means where nothing or options follow."""

EXAMPLES = """\
examples:
  trainer run digits                     train a recipe
  trainer run digits train.epochs=3      with another value
  trainer new mine --recipe digits       make it your own, then: cd mine && trainer run config.yaml
  trainer watch                          look at the latest run
"""


def verb_of(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """The verb that a command line begins with, of one word or two, and the words after it."""
    for count in (2, 1):
        if (name := " ".join(words[:count])) in VERBS:
            return name, [*words[count:]]  # `list` is a verb here
    first, *rest = words or ("",)
    is_help = rest[:1] in (["--help"], ["-h"])
    if first in DEFAULTS and not is_help and (not rest or rest[0].startswith("-")):
        return DEFAULTS[first], rest
    return None


def verbs_in(group: str) -> dict[str, str]:
    """The verbs of a group, by their second word."""
    return {name.removeprefix(f"{group} "): text for name, text in VERBS.items() if name.startswith(f"{group} ")}


def overview(version: str) -> str:
    """The text of `trainer --help`; a group is one line."""
    rows: dict[str, str] = {}
    for name, purpose in VERBS.items():
        group = name.partition(" ")[0]
        rows.update({group: GROUPS[group]} if group in GROUPS else {name: purpose})
    return (
        f"trainer {version}: train vision models from one typed YAML file\n\n"
        f"usage: trainer VERB ...\n\nverbs:\n{_rows(rows)}\n\n{EXAMPLES}\n"
        "`trainer VERB --help` has the options and examples of each. `--debug` adds the traceback to an error.\n"
    )


def group_help(group: str) -> str:
    """The text of `trainer data` and of other groups."""
    default = DEFAULTS.get(group)
    means = f"`trainer {group}` alone means `trainer {default}`. " if default else ""
    return (
        f"usage: trainer {group} VERB ...\n\n{GROUPS[group][0].upper()}{GROUPS[group][1:]}.\n\n"
        f"verbs:\n{_rows(verbs_in(group))}\n\n"
        f"{means}`trainer {group} VERB --help` has the options and examples of each.\n"
    )


def _rows(rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join(f"  {name:{width}}  {purpose}" for name, purpose in rows.items())
