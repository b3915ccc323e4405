"""`optimizer:` one optimizer, or `optimizers:` several by name. A further one is a file in `learner/optimizers`, its
section here, which says in `code` where that is, and its row in table.py; no other place knows of it.
"""

from trainer.configs.optimizers.optimizing import Optimizing, OwnOptimizer, ParameterGroup
from trainer.configs.optimizers.table import OPTIMIZERS, OptimizerConfig

__all__ = ["OPTIMIZERS", "OptimizerConfig", "Optimizing", "OwnOptimizer", "ParameterGroup"]
