"""Every mistake of one pass, in the user's words and at the user's place."""

from __future__ import annotations

import pytest

from trainer.configs.optimizers import OPTIMIZERS


def test_every_problem_comes_in_one_pass_in_the_order_of_the_text(problems):
    text = """\
extends: tiny
optimizer:
  name: adam
  beta: [0.9, 1]
  betas: [0.9, 1]
  learning_rate: "1e-3"
train:
  epocs: 3
  log_every_steps: 0
schedule: {name: step, milestones: [3, 2], gama: 3}
options:
  widht: 3
  sizes: [1, a]
  head: {kind: sine}
  kernel: x
data: {batch_size: 64, batch_size: 32, on_error: Skip}
devise: cpu
"""
    assert problems(text, "seed=1.5", "nonsense") == [
        "config.yaml:4:3 optimizer.beta: unknown key, did you mean 'betas'?",
        "config.yaml:5:16 optimizer.betas[1]: expected a number below 1, found 1",
        "config.yaml:6:18 optimizer.learning_rate: expected a number, found the text '1e-3'\n"
        "  Write 1e-3 without quotation marks.",
        "config.yaml:8:3 train.epocs: unknown key, did you mean 'epochs'?",
        "config.yaml:9:20 train.log_every_steps: expected a number above 0, found 0",
        "config.yaml:10:40 schedule.milestones[1]: milestones must increase, but 2 follows 3",
        "config.yaml:10:44 schedule.gama: unknown key, did you mean 'gamma'?",
        "config.yaml:12:3 options.widht: unknown key, did you mean 'width'?",
        "config.yaml:13:14 options.sizes[1]: expected an integer, found the text 'a'",
        "config.yaml:14:16 options.head.kind: expected 'linear' or 'cosine', found 'sine', did you mean 'cosine'?",
        "config.yaml:15:11 options.kernel: expected an integer or a list, found the text 'x'",
        "config.yaml:16:24 data.batch_size: duplicate key, first given at line 16",
        "config.yaml:16:50 data.on_error: expected 'raise' or 'skip', found 'Skip', did you mean 'skip'?",
        "config.yaml:17:1 devise: unknown key, did you mean 'device'?",
        "<cli>: 'nonsense' is not of the form key=value, such as train.epochs=5",
        "<cli> seed: expected an integer, found 1.5",
    ]


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("data: {shuffle: 1}", "config.yaml:2:17 data.shuffle: expected true or false, found 1"),
        ("data: {shuffle: yes}", "config.yaml:2:17 data.shuffle: expected true or false, found the text 'yes'"),
        ("data: {prefetch: 2.0}", "config.yaml:2:18 data.prefetch: expected an integer, found 2.0"),
        ("data: {batch_size: null}", "config.yaml:2:20 data.batch_size: expected an integer or 'auto', found null"),
        ("data: {batch_size: autp}",
         "config.yaml:2:20 data.batch_size: expected an integer or 'auto', found 'autp', did you mean 'auto'?"),
        ("data: {batch_size: '64'}",
         "config.yaml:2:20 data.batch_size: expected an integer or 'auto', found '64'\n"
         "  Write 64 without quotation marks."),
        ("data: {batch_size: 0}", "config.yaml:2:20 data.batch_size: expected a number above 0, found 0"),
        ("data: [1]", "config.yaml:2:7 data: expected a mapping, found a list of 1"),
        ("data: {root: 5}", "config.yaml:2:14 data.root: expected text, found 5"),
        ("optimizer: {learning_rate: .nan}",
         "config.yaml:2:28 optimizer.learning_rate: expected a finite number, found nan"),
        ("optimizer: {name: adamax}",
         f"config.yaml:2:12 optimizer: expected {', '.join(map(repr, OPTIMIZERS))}, found 'adamax', "
         "did you mean 'adam'?"),
        ("optimizer: {betas: [0.9]}",
         "config.yaml:2:13 optimizer.betas: unknown key; known here: name, learning_rate, weight_decay, "
         "decay_norms_and_biases, schedule, groups, momentum, nesterov"),
        ("optimizer: {name: adam, betas: [0.9]}",
         "config.yaml:2:32 optimizer.betas[1]: required item is missing"),
        ("optimizers: {a: {learning_rate: 1}}", "config.yaml:2:17 optimizers.a.name: required key is missing"),
        ("checkpoint: {best: {metric: accuracy, mode: max}}",
         "config.yaml:2:29 checkpoint.best.metric: expected another form (Metric that decides which checkpoints are "
         "best, as split/name, such as valid/accuracy), found the text 'accuracy'"),
        ("numerics: {class: loose}", "config.yaml:2:19 numerics.class: expected 'exact' or 'fast', found 'loose'"),
        ("device: reference\nnumerics: {class: fast}",
         "config.yaml:3:19 numerics.class: 'fast' works on the cpu and cuda devices only; the reference device is "
         "always exact"),
        ("device: reference\nnumerics: {bfloat16: tiles}",
         "config.yaml:3:22 numerics.bfloat16: 'tiles' works on the cpu device only; the reference device is always "
         "exact"),
        ("options: 5", "config.yaml:2:10 options: expected a mapping"),
        ("task: tinny", "config.yaml:2:7 task: no recipe 'tinny', did you mean 'tiny'? "
                        "(a custom task is ./file.py:Class)"),
        ("task: ./task.py", "config.yaml:2:7 task: name the class too, as in ./task.py:MyTask"),
        ("name: a/b", "config.yaml:2:7 name: expected another form (Name of the run directory; null: derived from the "
                      "task), found the text 'a/b'"),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_was_expected_and_found(problems, section, line):
    assert problems(f"extends: tiny\n{section}\n") == [line]


def test_a_required_key_is_missed_at_the_top_of_the_file(problems):
    assert problems("optimizer: {name: adam}\ntrain: {epochs: 1}\n") == [
        "config.yaml:1:1 task: required key is missing"
    ]


@pytest.mark.parametrize("text", ["[1, 2]", "just words"])
def test_a_file_that_is_no_mapping_is_refused(problems, text):
    assert problems(text) == ["config.yaml:1:1: expected sections such as `task:` and `train:`"]


def test_a_syntax_error_is_reported_once_with_its_place(problems):
    (line,) = problems("task: tiny\ntrain: {epochs: 1\n")
    assert line.startswith("config.yaml:3:1: not YAML: ")


def test_text_that_is_not_utf8_is_reported_with_its_place(problems, tmp_path, gallery):
    from trainer.configs import ConfigError, load

    (tmp_path / "latin.yaml").write_bytes(b"task: tiny\nname: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin.yaml:2:10: not UTF-8 text"):
        load(str(tmp_path / "latin.yaml"), recipes=gallery)
