"""Generation of sequences from a step function: (state, tokens [B] or [B, T]) to (state, logits [B, V])."""

from trainer.learner.generation.beams import Beam, beam_search, take_rows
from trainer.learner.generation.sampling import PIECE, Sampling, Step, generate, read_prompt

__all__ = ["PIECE", "Beam", "Sampling", "Step", "beam_search", "generate", "read_prompt", "take_rows"]
