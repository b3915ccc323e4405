"""Adds the facts about a run's weights to its resolved config before the run starts."""

from __future__ import annotations

from trainer.configs import Loaded
from trainer.rundir import EventSink


def with_weights(loaded: Loaded, sink: EventSink) -> Loaded:
    """The config with the SHA-256 and license of downloaded weights, and the normalization of the network's images.

    Downloads the weights on first use, as a separate phase.

    Raises:
        TrainerError: weights can't be read or downloaded, or differ in their normalization.
    """
    declared = None if loaded.declaration is None else loaded.declaration.normalization
    if loaded.config.model.sources():
        from trainer.learner.phases import phase  # takes time to import
        from trainer.learner.weights.sources import settled

        with phase("weights", sink, unit="byte") as running:
            known = settled(
                loaded.config.model, lambda done, all_: running.progress(done, all_ or None),
                is_normalized=declared is not None,
            )  # fmt: skip
        loaded = loaded.with_section("model", known, "weights")
    model = loaded.config.model
    if model.normalization is not None or declared is None:
        return loaded
    return loaded.with_section("model", model.model_copy(update={"normalization": declared(loaded.options)}), "task")
