"""The predictions of a step by role, for the metrics of a config."""

from __future__ import annotations

from collections.abc import Iterable

from trainer import TrainerError
from trainer.engine import Tensor, astype, float32, ones, reshape
from trainer.engine import sum as sum_of

ROLES = {
    "logits": "unnormalized scores of classes, floats [B, C, ...]; [B] or [B, 1] for one class (binary)",
    "scores": "the same as probabilities, or any ranking scores",
    "labels": "target classes, integers [B, ...]; `ignore_index` is ignored",
    "characters": "number of characters of each target token in `labels`, floats [B, L], for bits per character",
    "labels_hot": "target classes of a multi-label task, 0 or 1 [B, C]",
    "predicted": "predicted numbers or images, floats [B, ...]",
    "target": "target numbers or images, of the same shape",
    "features": "features of images, floats [B, D], with `target_features` of the targets",
    "segments": "class * per_class + number of each pixel's segment, -1 for none, int32 [B, H, W]; `true_segments`",
    "predicted_tokens": "predicted texts, integers [B, L] with `predicted_length` [B]; targets `tokens` and `length`",
    "classes": "classes of detected objects, -1 for padding [B, D]; with `scores`, `boxes` or `masks` or `keypoints`, "
    "`image_id`",
    "item_loss": "error score of each item, floats [B, ...]: selects the worst items",
    "true_classes": "classes of ground-truth objects [B, M]; with `true_boxes` and so on, `crowd`, `area`",
}
"""The roles used by the built-in metrics. A step may return further ones for custom metrics."""


class Predictions:
    """Tensors by role, each with the batch's rows as its first axis; metrics select them by `needs`.

        return {"loss": loss, "predictions": Predictions(logits=logits, labels=batch["label"], weight=batch["weight"])}

    Args:
        weight: float [B], 0 for padding rows; None: every row has weight 1.
    """

    def __init__(self, *, weight: Tensor | None = None, **roles: Tensor) -> None:
        rows = {role: tensor.shape[0] if tensor.ndim else None for role, tensor in roles.items()}
        if weight is not None:
            rows["weight"] = weight.shape[0] if weight.ndim == 1 else None
        if len(set(rows.values())) != 1 or None in rows.values():
            raise TrainerError(
                "the tensors of Predictions have different numbers of rows",
                found=", ".join(f"{role} {list(tensor.shape)}" for role, tensor in self._named(roles, weight))
                or "none",
                expected="the batch as the first axis of each, and weight [B]",
            )
        self.roles, self._weight = roles, weight
        self.rows: int = next(iter(rows.values()))  # type: ignore[assignment]

    def __getitem__(self, role: str) -> Tensor:
        return self.roles[role]

    def __contains__(self, role: str) -> bool:
        return role in self.roles

    def has(self, needs: Iterable[str]) -> bool:
        """Whether every role of `needs`, or one of its alternatives ("logits|scores"), exists."""
        return all(any(role in self.roles for role in need.split("|")) for need in needs)

    @property
    def weight(self) -> Tensor:
        """float32 [B]; 1 if the step returned no weights."""
        return ones((self.rows,), dtype=float32) if self._weight is None else astype(self._weight, float32)

    def total(self, value: Tensor | None = None) -> Tensor:
        """The sum of weight * value over all rows and values, float32; `value` is float or bool [B, ...]; None: 1.

        Exact for integers below 2**24.
        """
        if value is None:
            return sum_of(self.weight)
        rows = reshape(self.weight, (self.rows,) + (1,) * (value.ndim - 1))
        return sum_of(astype(value, float32) * rows)

    @staticmethod
    def _named(roles: dict[str, Tensor], weight: Tensor | None) -> list[tuple[str, Tensor]]:
        return [*roles.items(), *([] if weight is None else [("weight", weight)])]
