"""Generation of sequences from a step function: (state, tokens [B] or [B, T]) to (state, logits [B, V])."""

from trainer.learner.generation.beams import Beam, beam_search, take_rows
from trainer.learner.generation.sampling import PIECE, Sampling, Step, after, generate

__all__ = ["PIECE", "Beam", "Sampling", "Step", "after", "beam_search", "generate", "take_rows"]
