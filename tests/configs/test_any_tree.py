"""Whatever a file or a command line says, the answer is a configuration or a list of problems with places."""

from __future__ import annotations

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer.configs import ConfigError, RecipeIndex, dump_resolved, load

KEYS = [
    "task", "extends", "name", "seed", "threads", "options", "data", "model", "optimizer", "optimizers", "schedule",
    "train", "validate", "checkpoint", "root", "batch_size", "weights", "learning_rate", "betas", "momentum",
    "nesterov", "step_size", "milestones", "warmup_epochs", "epochs", "steps", "best", "metric", "mode", "width",
    "sizes", "head", "kind", "kernel", "unknown", "0", "",
]  # fmt: skip
WORDS = ["tiny", "sgd", "adam", "step", "cosine", "max", "valid/accuracy", "./task.py:Tiny", "", "ü", "a\nb"]
VALUES = st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.sampled_from(WORDS)
TREES = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
PATHS = st.lists(st.sampled_from([*KEYS[:-1], "sizes[0]", "optimizers.a", "a[1][2]", "..", "b]"]), max_size=3)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sections=st.dictionaries(st.sampled_from(KEYS), TREES, max_size=6),
    overrides=st.lists(st.tuples(PATHS.map(".".join), TREES), max_size=3),
)
def test_the_answer_is_a_configuration_or_problems(gallery: RecipeIndex, tmp_path, sections, overrides):
    file = tmp_path / "any.yaml"
    file.write_text(yaml.safe_dump({"extends": "tiny", **sections}, allow_unicode=True), encoding="utf-8")
    words = [f"{path}={yaml.safe_dump(value, default_flow_style=True)}" for path, value in overrides]
    try:
        loaded = load(str(file), words, recipes=gallery)
    except ConfigError as error:
        assert error.problems
        assert all(str(problem.place) and problem.message for problem in error.problems)
    else:
        assert dump_resolved(loaded)
