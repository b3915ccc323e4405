"""Tasks on texts and series: training on ragged batches, resuming within an epoch, and inference without the data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import trainer
from trainer import TrainerError, configs
from trainer.cli import main
from trainer.cli.tasks import task_class
from trainer.learner import Learner
from trainer.learner.checkpoints import first_difference, read_checkpoint
from trainer.learner.generation import Sampling, generate
from trainer.rundir import RunPaths

HERE = Path(__file__).parent
OPTIMIZER = {"optimizer": {"name": "adam", "learning_rate": 0.02}, "autotune": {"mode": "off"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data of the three tasks: a text, lines of two classes with lengths of 1 to 60, and a table by months."""
    place = tmp_path_factory.mktemp("sequences")
    (place / "a.txt").write_text("to be or not to be. " * 60)
    random = np.random.default_rng(0)
    (place / "lines").mkdir()
    for name, letters in (("vowels", "aeiou"), ("others", "xyzw")):
        lines = ["".join(random.choice(list(letters), length)) for length in random.integers(1, 61, 60)]
        (place / "lines" / f"{name}.txt").write_text("\n".join(lines))
    months = [f"{2000 + number // 12}-{number % 12 + 1:02}" for number in range(120)]
    rows = [f"{month},{100 + 10 * np.sin(number / 12 * 2 * np.pi) + number}" for number, month in enumerate(months)]
    (place / "t.csv").write_text("month,sales\n" + "\n".join(rows) + "\n")
    shutil.copy(HERE / "sequence_tasks.py", place / "tasks.py")
    return place


READERS = {
    "Letters": {"name": "text", "file": "a.txt", "length": 17, "fractions": {"valid": 0.2}},
    "Classes": {"name": "text_classes", "folder": "lines", "fractions": {"valid": 0.2}},
    "Line": {"name": "series", "file": "t.csv", "date": "month", "targets": ["sales"], "input_length": 12,
             "forecast_length": 3, "fractions": {"valid": 0.2}},
}  # fmt: skip


def config_of(folder, task, **sections):
    window = 3 if task == "Classes" else None
    data = {"root": str(folder), "reader": READERS[task], "batch_size": 8, "size_window": window, "workers": 0}
    metrics = {"Letters": ["perplexity", "bits_per_character"], "Classes": ["f1"], "Line": ["mean_absolute_error"]}[
        task
    ]
    return {
        "task": f"{folder}/tasks.py:{task}", "data": data, "train": {"epochs": 2}, "metrics": {"valid": metrics},
        **OPTIMIZER, **sections,
    }  # fmt: skip


@pytest.fixture(scope="module")
def runs(folder):
    """A run of each task; the data is gone afterwards."""
    made = {}
    for task in READERS:
        run = trainer.run(config_of(folder, task), run_dir=folder / "runs" / task, show=False)
        made[task] = trainer.load_model(folder / "runs" / task), run
    (folder / "a.txt").unlink()
    return made


@pytest.mark.full
def test_a_text_is_continued_without_the_data(runs, folder, capsys, monkeypatch):
    model, _ = runs["Letters"]
    assert model.kind == "text" and "bits_per_character" in "".join(model.metrics)
    assert model.metrics["valid/perplexity"] == pytest.approx(2 ** model.metrics["valid/bits_per_character"], rel=1e-6)
    greedy = "".join(model.generate("to b", tokens=20, temperature=0))
    assert len(greedy) == 20 and set(greedy) <= set("to be or not.")
    first, again, other = ("".join(model.generate("to b", tokens=20, seed=seed)) for seed in (4, 4, 5))
    assert first == again != other
    assert len("".join(model.generate("to b", tokens=8, beams=3))) == 8
    monkeypatch.chdir(folder)
    assert main(["predict", "Letters", "--prompt", "to b", "--tokens", "20", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == f"to b{greedy}\n"
    (folder / "prompts.txt").write_text("to b\nor\n")
    assert (
        main(["predict", "Letters", "--prompts", "prompts.txt", "--tokens", "20", "--temperature", "0", "--json"]) == 0
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["prompt"] for line in lines] == ["to b", "or"] and lines[0]["text"] == greedy
    with pytest.raises(TrainerError, match="the prompt is empty"):
        list(model.generate(""))
    assert main(["predict", "Letters", "--prompt", "to b", "--out", "found"]) == 2
    assert "an option is for images only\n  found:    --out" in capsys.readouterr().err
    (folder / "prompts.txt").write_text("\n")
    assert main(["predict", "Letters", "--prompts", "prompts.txt"]) == 2 and "no prompts" in capsys.readouterr().err
    [*_, sample] = sorted((folder / "runs/Letters/samples").glob("*/text.txt"))
    assert len(sample.read_text()) == 14 and json.loads(sample.with_suffix(".json").read_text())["prompt"] == 5
    assert main(["predict", "Letters", "t.csv"]) == 2 and "the model needs texts" in capsys.readouterr().err
    assert main(["predict", "Letters"]) == 2 and "nothing to predict" in capsys.readouterr().err


@pytest.mark.full
def test_the_beam_search_of_a_model_is_that_of_its_step(runs):
    """With one beam it is the greedy text; with as many as there are tokens it is at least as likely."""
    model, _ = runs["Letters"]
    greedy = "".join(model.generate("to b", tokens=6, temperature=0))
    assert "".join(model.generate("to b", tokens=6, beams=1)) == greedy
    assert "".join(model.generate("to b", tokens=6, beams=20))


@pytest.mark.full
def test_texts_are_classified_alone_and_together(runs, folder, capsys, monkeypatch):
    model, _ = runs["Classes"]
    texts = ["aei", "xyzw" * 4, "aou" * 20, "z"]
    found = model.classify(texts)
    assert [one.class_name for one in found] == ["vowels", "others", "vowels", "others"]
    for one, text in zip(found, texts, strict=True):
        np.testing.assert_array_equal(one.scores, model.classify([text])[0].scores)
    monkeypatch.chdir(folder)
    assert main(["predict", "Classes", "--prompt", "aei", "--prompt", "zzz"]) == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["aei:", "vowels"],
        ["zzz:", "others"],
    ]
    with pytest.raises(TrainerError, match="a text has no tokens"):
        model.classify([""])


@pytest.mark.full
def test_the_rows_after_a_table_are_forecast(runs, folder, capsys, monkeypatch):
    model, _ = runs["Line"]
    found = model.forecast(folder / "t.csv")
    assert found.times == ("2010-01-01", "2010-02-01", "2010-03-01") and found.columns == ("sales",)
    assert found.values.shape == (3, 1) and 100 < found.values.mean() < 350  # in the units of the table
    monkeypatch.chdir(folder)
    assert main(["predict", "Line", "t.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["time,sales", f"2010-01-01,{found.values[0, 0]}"]
    (folder / "short.csv").write_text("month,sales\n2000-01,1\n")
    with pytest.raises(TrainerError, match="the series is shorter than the model's input"):
        model.forecast(folder / "short.csv")


class Killed(BaseException):
    """Ends a run at once: nothing is saved."""


@pytest.mark.full
def test_killed_within_an_epoch_of_ragged_batches_it_resumes_with_the_same_bits(folder, tmp_path):
    """Batches of several lengths in a shuffled order; the second run is killed in the middle of the second epoch, two
    steps after a checkpoint.
    """
    checkpoint = {"every_steps": 5, "keep_last": 9}
    loaded = configs.load(config_of(folder, "Classes", device="reference", train={"epochs": 3}, checkpoint=checkpoint))

    def learner(name, **options):
        paths = RunPaths(tmp_path / name)
        paths.root.mkdir(exist_ok=True)
        return Learner(task_class(loaded.task), loaded.config, paths=paths, **options)

    def kill():
        if first.progress.step == 17:
            raise Killed
        return []

    whole = learner("whole")
    expected = whole.run().check()
    train = whole.training.splits.train
    assert train.steps_per_epoch == 12 and len({train.batch(1, step)["tokens"].shape for step in range(12)}) > 2
    first = learner("parts", requests=kill)
    with pytest.raises(Killed):
        first.run()
    events = []
    second = learner("parts", attempt=2, resume=tmp_path / "parts", sink=events.append).run().check()
    assert [event.from_step for event in events if event.kind == "resumed"] == [15]
    assert second.metrics == expected.metrics
    one, other = (read_checkpoint(tmp_path / name / "checkpoints" / "step-36") for name in ("whole", "parts"))
    assert first_difference(one, other) is None


@pytest.mark.full
def test_an_exported_model_predicts_what_the_run_does(runs, folder, tmp_path, capsys, monkeypatch):
    """Each kind from its file, with its vocabulary or scaling; a damaged manifest is refused."""
    monkeypatch.chdir(folder)
    (folder / "a.txt").unlink(missing_ok=True)
    made = {}
    for task in READERS:
        assert main(["export", task, f"{tmp_path}/{task}.model"]) == 0
        made[task] = trainer.load_model(tmp_path / f"{task}.model")
        made[task].export(tmp_path / "copy.model")
    for options in ({"temperature": 0}, {"seed": 3, "top_p": 0.9}, {"beams": 3}):
        texts = [
            "".join(model.generate("to b", tokens=9, **options)) for model in (made["Letters"], runs["Letters"][0])
        ]
        assert texts[0] == texts[1]
    found = made["Classes"].classify(["aei", "xyzw" * 3])
    for one, other in zip(found, runs["Classes"][0].classify(["aei", "xyzw" * 3]), strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
    with pytest.raises(TrainerError, match="longer than the exported model supports"):
        made["Classes"].classify(["a" * 100])
    forecasts = [model.forecast("t.csv") for model in (made["Line"], runs["Line"][0])]
    assert forecasts[0].to_dict() == forecasts[1].to_dict()
    content = (tmp_path / "Letters.model").read_bytes()
    for old, new in ((b'\\"unit\\": \\"characters\\", \\"tokens', b'\\"unit\\": \\"charactors\\", \\"tokens'),
                     (b'\\"kind\\": \\"text\\"', b'\\"kind\\": \\"test\\"')):  # fmt: skip
        assert content.count(old) == 1
        (tmp_path / "bad.model").write_bytes(content.replace(old, new))
        with pytest.raises(TrainerError, match="not an exported model"):
            trainer.load_model(tmp_path / "bad.model")


@pytest.mark.full
def test_a_model_is_evaluated_on_other_data_with_its_own_vocabulary_or_scaling(runs, tmp_path):
    """The run, with the code of its task, and its exported file give the same numbers."""
    (tmp_path / "a.txt").write_text("to b. " * 90)  # its own vocabulary would have other numbers
    (tmp_path / "lines").mkdir()
    for name, line in (("vowels", "aei"), ("others", "zzyx")):
        (tmp_path / "lines" / f"{name}.txt").write_text("\n".join(line[: 1 + number % 4] for number in range(20)))
    (tmp_path / "t.csv").write_text(
        "month,sales\n" + "".join(f"{2020 + n // 12}-{n % 12 + 1:02},{n}\n" for n in range(90))
    )
    found = {}
    for task, (model, _) in runs.items():
        model.export(tmp_path / f"{task}.model")
        own = dict(model.evaluate(tmp_path).metrics)
        found[task] = dict(trainer.load_model(tmp_path / f"{task}.model").evaluate(tmp_path).metrics)
        own.pop("loss")
        assert found[task] == own and own
    assert found["Letters"]["perplexity"] < 20 and found["Line"]["mean_absolute_error"] > 1
    (tmp_path / "lines" / "vowels.txt").write_text("\n".join("a" * (200 + n) for n in range(20)))
    with pytest.raises(TrainerError, match="tokens"):
        trainer.load_model(tmp_path / "Classes.model").evaluate(tmp_path)


def test_a_traced_step_generates_what_the_plain_step_does(folder):
    """The pipeline's step on the device, token by token, against the same network in NumPy."""
    from trainer import engine
    from trainer.datasets import Vocabulary
    from trainer.learner.inference import TextGeneration
    from trainer.learner.inference.model import About, Model

    random = np.random.default_rng(0)
    table = random.normal(size=(6, 6)).astype(np.float32)
    vocabulary = Vocabulary("characters", ["<padding>", "<unknown>", "a", "b", "c", "d"])

    def step(state, tokens):
        mean = state["mean"] * 0.5 + engine.take(engine.asarray(table), tokens, axis=0)
        return {"mean": mean}, mean

    pipeline = TextGeneration(vocabulary, lambda rows: {"mean": engine.zeros((rows, 6))}, step, capacity=40)
    model = Model(pipeline, About("t", "t", "t"), device="reference")

    def plain(state, tokens):
        mean = np.float32(0.5) * state + table[tokens]
        return mean, mean

    expected = generate(plain, np.zeros((1, 6), np.float32), [2, 3], 12, sampling=Sampling(seed=2, exclude=(0, 1)))
    assert "".join(model.generate("ab", tokens=12, seed=2)) == vocabulary.decode(expected)
    with pytest.raises(TrainerError, match=r"longer than the model's context\n  found:    2 tokens"):
        list(model.generate("ab", tokens=39))
    with pytest.raises(TrainerError, match="longer than the model's context"):
        pipeline.sample("text", [2, 3], tokens=39)
