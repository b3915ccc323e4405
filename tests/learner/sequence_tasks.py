"""Three small tasks: a language model, a classifier of texts, a forecast."""

from __future__ import annotations

from trainer import engine
from trainer.datasets import Scaling, Vocabulary, loaders, scaling_of, vocabulary_of
from trainer.engine import float32, nn
from trainer.learner import DataSplits, Task, inference
from trainer.metrics import Mean, Predictions


class Letters(Task):
    """Predicts the next token from the last one and a running mean of the others."""

    def data(self):
        splits = self.read_splits("tokens")
        vocabulary = vocabulary_of(splits["train"])
        self.unit, self.tokens = vocabulary.unit, vocabulary.tokens
        return DataSplits(**loaders(splits, self.config))

    def build(self):
        self.net = nn.Sequential(nn.Embedding(len(self.tokens), 8), nn.Linear(8, len(self.tokens)))
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch):
        returned = self.valid_step(batch)
        self.optimizer.minimize(returned["loss"].value)
        return returned

    def valid_step(self, batch):
        tokens = batch["tokens"]
        logits = engine.permute_dims(self.net(tokens[:, :-1]), (0, 2, 1))
        losses = nn.cross_entropy(logits, tokens[:, 1:], reduction="none")
        return {
            "loss": Mean(losses, batch["weight"]),
            "next": Predictions(logits=logits, labels=tokens[:, 1:], weight=batch["weight"]),
        }

    def pipeline(self):
        return inference.TextGeneration(
            Vocabulary(self.unit, self.tokens),
            begin=lambda rows: ({"mean": engine.zeros((rows, len(self.tokens)), dtype=float32)},),
            step=self.step,
            network=self.net,
        )

    def step(self, state, tokens):
        logits = self.net(tokens)
        mean = 0.5 * state[0]["mean"] + 0.5 * logits
        return ({"mean": mean},), logits + 0.1 * mean

    def samples(self, batch):
        yield self.pipeline().sample("text", batch["tokens"].numpy()[0, :5], tokens=9)


class Classes(Task):
    """A long short-term memory, then a linear layer of its last state."""

    def data(self):
        splits = self.read_splits("tokens", "label")
        vocabulary = vocabulary_of(splits["train"])
        self.unit, self.tokens = vocabulary.unit, vocabulary.tokens
        self.class_names = tuple(splits["train"].class_names)
        made = loaders(splits, self.config)
        self.token_lengths = made["train"].token_lengths
        return DataSplits(**made)

    def build(self):
        letters, recurrent = nn.Embedding(len(self.tokens), 16), nn.LSTM(16, 16, batch_first=True)
        self.net = nn.ModuleList([letters, recurrent, nn.Linear(16, len(self.class_names))])
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch):
        returned = self.valid_step(batch)
        self.optimizer.minimize(returned["loss"].value)
        return returned

    def valid_step(self, batch):
        logits = self.logits(batch["tokens"], batch["length"])["logits"]
        losses = nn.cross_entropy(logits, batch["label"], reduction="none")
        classes = Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])
        return {"loss": Mean(losses, batch["weight"]), "classes": classes}

    def logits(self, tokens, length):
        letters, recurrent, classes = self.net
        _, (last, _) = recurrent(letters(tokens), lengths=length)
        return {"logits": classes(last[0])}

    def pipeline(self):
        return inference.TextClassification(
            self.class_names, Vocabulary(self.unit, self.tokens), self.logits, self.token_lengths
        )


class Line(Task):
    """A linear map from the history to the future."""

    def data(self):
        splits = self.read_splits("history", "future")
        scaling = scaling_of(splits["train"])
        self.scaling = (scaling.columns, scaling.means, scaling.deviations)
        made, reader = loaders(splits, self.config), self.config.data.reader
        self.targets, self.lengths = len(reader.targets), (reader.input_length, reader.forecast_length)
        return DataSplits(**made)

    def build(self):
        history, future = self.lengths
        self.net = nn.Linear(history * len(self.scaling[0]), future * self.targets)
        self.optimizer = self.optimizer_for(self.net)

    def train_step(self, batch):
        returned = self.valid_step(batch)
        self.optimizer.minimize(returned["loss"].value)
        return returned

    def valid_step(self, batch):
        predicted = self.future(batch["history"])
        errors = engine.square(predicted - batch["future"])
        _, means, deviations = self.scaling
        found, right = (values * deviations[0] + means[0] for values in (predicted, batch["future"]))
        return {
            "loss": Mean(engine.mean(errors, axis=(1, 2)), batch["weight"]),
            "values": Predictions(predicted=found, target=right, weight=batch["weight"]),
        }

    def future(self, history):
        flat = engine.reshape(history, (history.shape[0], -1))
        return engine.reshape(self.net(flat), (history.shape[0], self.lengths[1], self.targets))

    def pipeline(self):
        return inference.Forecasting(
            Scaling(*self.scaling), self.targets, self.lengths[0], self.future, self.config.data.reader.date
        )
