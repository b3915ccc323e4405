"""Values that are each right by themselves and wrong together."""

from __future__ import annotations

import pytest

from trainer.configs.optimizers import OPTIMIZERS

BASE = "task: tiny\n"
GOOD = "optimizer: {name: adam}\ntrain: {epochs: 5}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("optimizer: {name: adam}\ntrain: {}",
         "config.yaml:3:8 train: one of 'epochs', 'steps' and 'minutes' is required"),
        ("optimizer: {name: adam}\ntrain: {epochs: 1, steps: 2}",
         "config.yaml:3:27 train.steps: set together with 'epochs'; expected only one of them"),
        ("train: {epochs: 1}", "config.yaml:1:1 optimizer: one of 'optimizer' and 'optimizers' is required"),
        ("optimizer: {name: adam}\noptimizers: {a: {name: adam}}\ntrain: {epochs: 1}",
         "config.yaml:3:13 optimizers: set together with 'optimizer'; expected only one of them"),
        (GOOD + "data: {reader: {name: image_folder}}",
         "config.yaml:4:16 data.reader: 'data.root', the folder of the data, is not set; a reader needs it"),
        ("optimizer: {name: sgd, nesterov: true}\ntrain: {epochs: 1}",
         "config.yaml:2:34 optimizer.nesterov: needs a momentum above 0"),
        (GOOD + "schedule: {name: step, step_size: 0}",
         "config.yaml:4:35 schedule.step_size: expected a number above 0, found 0"),
        (GOOD + "schedule: {name: step}",
         "config.yaml:4:11 schedule: one of 'step_size' and 'milestones' is required"),
        (GOOD + "schedule: {name: step, milestones: []}",
         "config.yaml:4:36 schedule.milestones: expected at least 1 items, found an empty list"),
        (GOOD + "schedule: {name: step, milestones: [2, 2]}",
         "config.yaml:4:40 schedule.milestones[1]: milestones must increase, but 2 follows 2"),
        (GOOD + "schedule: {name: cosine, warmup_steps: 1, warmup_epochs: 1}",
         "config.yaml:4:58 schedule.warmup_epochs: set together with 'warmup_steps'; expected only one of them"),
        (GOOD + "schedule: {name: cosine, warmup_epochs: 6}",
         "config.yaml:4:41 schedule.warmup_epochs: a warm-up of 6.0 epochs is longer than the run of 5 epochs"),
        (GOOD + "schedule: {name: cosine, warmup_steps: 1, warmup_fraction: 0.1}",
         "config.yaml:4:60 schedule.warmup_fraction: set together with 'warmup_steps'; expected only one of them"),
        (GOOD + "schedule: {name: cosine, warmup_fraction: 100}",
         "config.yaml:4:43 schedule.warmup_fraction: expected a number of at most 1, found 100"),
        ("optimizer: {name: adam}\ntrain: {minutes: 1}\nschedule: {name: constant, warmup_fraction: 0.1}",
         "config.yaml:4:45 schedule.warmup_fraction: needs the number of steps of the run, which 'minutes' alone does "
         "not give: set 'epochs', 'steps' or 'warmup_steps'"),
        ("optimizer: {name: adam, schedule: {name: constant, warmup_steps: 9}}\ntrain: {steps: 8}",
         "config.yaml:2:66 optimizer.schedule.warmup_steps: a warm-up of 9 steps is longer than the run of 8 steps"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_at_its_place(problems, text, line):
    assert problems(f"{BASE}{text}\n") == [line]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "optimizers: {generator: {name: adam}, critic: {name: sgd}}\ntrain: {steps: 5}",
        GOOD + "schedule: {name: step, milestones: [1, 4], warmup_epochs: 5}",
        GOOD + "schedule: {name: cosine, warmup_steps: 1000}",
        GOOD + "schedule: {name: cosine, warmup_fraction: 1}",
    ],
)
def test_what_makes_sense_passes(problems, text):
    assert problems(f"{BASE}{text}\n") == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.prefetch=3000000", "expected a number of at most 1000, found 3000000"),
        ("data.batch_size=1000000000", "expected a number of at most 1000000, found 1000000000"),
        ("data.workers=100000", "expected a number of at most 256, found 100000"),
        ("threads=100000", "expected a number of at most 1024, found 100000"),
        ("optimizer.learning_rate=1e308", "expected a number of at most 1000000, found 1e+308"),
        ("optimizer.weight_decay=1e39", "expected a number of at most 3.4028235e+38 in size, found 1e+39"),
        ("train.epochs=9223372036854775808", "expected a number below 2^63 in size, found 9223372036854775808"),
        ("data.root=/dev/zero", "expected a folder, found a device, a socket or a pipe"),
        ("data.root=config.yaml", "expected a folder, found a file"),
    ],
)
def test_a_number_out_of_bounds_is_refused_with_its_bound(problems, override, message):
    assert problems(BASE + GOOD, override) == [f"<cli> {override.partition('=')[0]}: {message}"]


def test_nothing_is_concluded_from_a_value_that_is_itself_wrong(problems):
    assert problems(f"{BASE}optimizer: {{name: admw}}\ntrain: {{epochs: five}}\n") == [
        f"config.yaml:2:12 optimizer: expected {', '.join(map(repr, OPTIMIZERS))}, found 'admw', did you mean 'adamw'?",
        "config.yaml:3:17 train.epochs: expected an integer, found the text 'five'",
    ]
