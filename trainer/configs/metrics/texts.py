"""Metrics of texts that a model wrote."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import MetricConfig

_NEEDS = ("predicted_tokens", "predicted_length", "tokens", "length")
_SEPARATOR = "The token between words, where tokens are characters; null: tokens are compared as they are."


class _OfWords(MetricConfig):
    needs: ClassVar[tuple[str, ...]] = _NEEDS

    separator: int | None = Field(None, description=_SEPARATOR)


class CerConfig(MetricConfig):
    """Edits per right token: the character error rate where tokens are characters."""

    code: ClassVar[str] = "text.sequences:ErrorRate"
    needs: ClassVar[tuple[str, ...]] = _NEEDS

    name: Literal["cer"]


class WerConfig(_OfWords):
    """Edits per right word."""

    code: ClassVar[str] = "text.sequences:ErrorRate"

    name: Literal["wer"]


class BleuConfig(_OfWords):
    """BLEU in percent, sacrebleu's definition."""

    code: ClassVar[str] = "text.sequences:Bleu"

    name: Literal["bleu"]


class RougeLConfig(_OfWords):
    """ROUGE-L (Lin 2004): the mean F-score of longest common subsequences."""

    code: ClassVar[str] = "text.sequences:RougeL"

    name: Literal["rouge_l"]
