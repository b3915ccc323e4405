"""The verbs of the command line, a file each, in the order in which `trainer --help` lists them."""

from __future__ import annotations

from collections.abc import Sequence

VERBS: dict[str, str] = {
    "run": "train a config or a recipe",
    "validate": "check a config, every problem in one pass",
    "list": "the recipes that come with trainer",
    "copy": "copy a recipe to a folder, to make it your own",
    "schema": "print the JSON Schema of configs, for editors",
    "watch": "look at a run, live or finished",
    "stop": "ask a run to finish its step, save and stop",
    "runs": "the runs of a folder in a table",
    "runs export": "what a run tells, for another tool: CSV, TensorBoard, W&B, MLflow",
    "compare": "several runs side by side: metrics, curves, what differs in their configs",
    "report": "one run as a web page in a single file",
    "predict": "what a run's model makes of pictures: boxes, masks, classes",
    "evaluate": "a run's metrics on a split or on other data, per class, worst items",
    "export": "a run's model as one file, which predicts without the task's code",
    "checkpoint inspect": "the arrays of a checkpoint or a file of weights, PyTorch's too",
    "checkpoint verify": "whether a run's checkpoints are as they were written",
    "checkpoint convert": "weights as .safetensors or .npz, chosen and renamed",
    "tune": "decide the kernels of a config now, for every later run",
    "profile": "where the time of a training step goes",
    "data inspect": "what is in a data set, and what is wrong with it",
    "data convert": "boxes from one format to another: COCO, VOC, YOLO",
    "data evaluate": "the figures of a results file, COCO's 12 and per class",
    "doctor resume": "whether a config that is killed and resumed comes to the same bits",
    "doctor": "what this installation is, and what is wrong with it",
}

EXAMPLES = """\
examples:
  trainer run digits                     train a recipe
  trainer run digits train.epochs=3      with another value
  trainer copy digits mine               make it your own, then: cd mine && trainer run config.yaml
  trainer watch                          look at the latest run
"""


def verb_of(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """The verb that a command line begins with, of one word or two, and the words after it."""
    for count in (2, 1):
        if (name := " ".join(words[:count])) in VERBS:
            return name, [*words[count:]]  # `list` is a verb here
    return None


def overview(version: str) -> str:
    """The text of `trainer --help`."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {name:{width}}  {purpose}" for name, purpose in VERBS.items())
    return (
        f"trainer {version}: train vision models from one typed YAML file\n\n"
        f"usage: trainer VERB ...\n\n{verbs}\n\n{EXAMPLES}\n"
        "`trainer VERB --help` has the options and examples of each. `--debug` adds the traceback to an error.\n"
    )
