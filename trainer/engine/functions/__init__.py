"""Functions of tensors, under the names of the Python array API standard where it has them."""

from trainer.engine.functions.operators import attach

attach()
