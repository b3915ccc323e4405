"""Generation of sequences from a step function: (state, tokens [B]) to (state, logits [B, V])."""

from trainer.learner.generation.beams import Beam, beam_search, take_rows
from trainer.learner.generation.sampling import Sampling, Step, generate

__all__ = ["Beam", "Sampling", "Step", "beam_search", "generate", "take_rows"]
