"""The optimizers by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from trainer.configs.choice import OWN_TAG, Choice
from trainer.configs.optimizers.optimizing import Optimizing

OPTIMIZERS: Mapping[str, str] = {
    "sgd": "momentum:SgdConfig",
    "adam": "adaptive:AdamConfig",
    "adamw": "adaptive:AdamWConfig",
    "rmsprop": "adaptive:RmsPropConfig",
    "adagrad": "adaptive:AdaGradConfig",
    "adan": "adaptive:AdanConfig",
    "lion": "momentum:LionConfig",
    "lamb": "adaptive:LambConfig",
    "muon": "momentum:MuonConfig",
    OWN_TAG: "optimizing:OwnOptimizer",
}
"""Maps each optimizer's name to its section, as file:Class in this folder."""

if TYPE_CHECKING:
    OptimizerConfig = Optimizing
else:
    OptimizerConfig = Annotated[Optimizing, Choice(Optimizing, OPTIMIZERS)]
