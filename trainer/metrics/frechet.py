"""The Fréchet distance between two sets of features (Heusel et al. 2017: FID, with Inception's)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainer import TrainerError, engine
from trainer.configs.custom_class import own_class
from trainer.engine import Tensor, float64, nn
from trainer.engine.graph.half import widened
from trainer.engine.safetensors import decoded
from trainer.metrics.metric import Metric, State
from trainer.metrics.predictions import Predictions


class FrechetDistance(Metric):
    """|m1 - m2|² + trace(C1 + C2 - 2 (C1 C2)^½), of the means and covariances (divisor n - 1) of two sets of features.

    A step returns `features` and `target_features` [B, D]; or `predicted` and `target` images, from which `model`
    computes features. Sums are in float64 over rows with weight. NaN with fewer than two rows.

    Args:
        model: a custom module, as ./file.py:Class, from images [B, C, H, W] to features [B, D].
        options: keyword arguments of its constructor.
        weights: a safetensors file with its state dictionary.
    """

    needs = ("features|predicted", "target_features|target")

    def __init__(
        self, model: str | None = None, options: Mapping[str, Any] | None = None, weights: str | None = None
    ) -> None:
        self.model, self.weights = model, weights
        self.network = None if model is None else _network(model, dict(options or {}), weights)
        if self.network is None:
            self.needs = ("features", "target_features")

    def partial(self, given: Predictions) -> Mapping[str, Tensor]:
        sums: dict[str, Tensor] = {}
        for name, role, images in (("one", "features", "predicted"), ("other", "target_features", "target")):
            features = (given[role] if role in given else self._features(given[images])).astype(float64)
            if features.ndim != 2:
                raise TrainerError("invalid shape of features", found=list(features.shape), expected="[B, D]")
            weight = engine.reshape(given.weight.astype(float64), (-1, 1))
            weighted = features * weight
            sums[f"{name}_sum"] = engine.sum(weighted, axis=0)
            sums[f"{name}_products"] = engine.matmul(engine.matrix_transpose(weighted), features)
        return {**sums, "count": engine.sum(given.weight.astype(float64))}

    def _features(self, images: Tensor) -> Tensor:
        if self.network is None:
            raise TrainerError("the Fréchet distance of images needs a model", hint="Set `model: ./file.py:Class`.")
        features: Tensor = self.network(images)
        return features

    def values(self, state: State) -> Mapping[str, float]:
        count = float(state["count"])
        if count < 2:
            return {"": math.nan}
        moments = []
        for name in ("one", "other"):
            mean = state[f"{name}_sum"] / count
            moments += [mean, (state[f"{name}_products"] - count * np.outer(mean, mean)) / (count - 1)]
        return {"": frechet_distance(*moments)}

    def state_key(self) -> Hashable:
        return None


def frechet_distance(
    mean: np.ndarray, covariance: np.ndarray, other: np.ndarray, other_covariance: np.ndarray
) -> float:
    """The distance of two normal distributions with means [D] and covariances [D, D].

    The trace of (C1 C2)^½ equals that of (C1^½ C2 C1^½)^½, which is symmetric: two symmetric eigendecompositions
    instead of the root of a nonsymmetric matrix, without imaginary parts.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    between = np.linalg.eigvalsh(root @ other_covariance @ root)
    difference = mean - other
    trace = np.trace(covariance) + np.trace(other_covariance) - 2 * np.sqrt(between.clip(0)).sum()
    return float(difference @ difference + trace)


def _network(model: str, options: dict[str, Any], weights: str | None) -> nn.Module:
    made: nn.Module = own_class(model)(**options)
    if weights is not None:
        arrays, _ = decoded(Path(weights).read_bytes(), weights)
        made.load_state_dict({name: widened(values, dtype) if dtype.is_half else values
                              for name, (values, dtype) in arrays.items()})  # fmt: skip
    return made.eval()
