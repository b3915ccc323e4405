"""Metrics of generated text."""

from typing import ClassVar, Literal

from pydantic import Field

from trainer.configs.metrics.metric import MetricConfig

_NEEDS = ("predicted_tokens", "predicted_length", "tokens", "length")
_SEPARATOR = "Token that separates words, if tokens are characters; null: every token is a word."


class _OfWords(MetricConfig):
    needs: ClassVar[tuple[str, ...]] = _NEEDS

    separator: int | None = Field(None, description=_SEPARATOR)


class CerConfig(MetricConfig):
    """Error rate: edits per target token. The character error rate if tokens are characters."""

    code: ClassVar[str] = "text.sequences:ErrorRate"
    needs: ClassVar[tuple[str, ...]] = _NEEDS

    name: Literal["cer"]


class WerConfig(_OfWords):
    """Word error rate: edits per target word."""

    code: ClassVar[str] = "text.sequences:ErrorRate"

    name: Literal["wer"]


class BleuConfig(_OfWords):
    """BLEU in percent, as sacrebleu defines it."""

    code: ClassVar[str] = "text.sequences:Bleu"

    name: Literal["bleu"]


class RougeLConfig(_OfWords):
    """ROUGE-L (Lin 2004): the mean F-score of longest common subsequences."""

    code: ClassVar[str] = "text.sequences:RougeL"

    name: Literal["rouge_l"]
