"""`optimizer:` one optimizer, or `optimizers:` several by name. To add one, write a file in `learner/optimizers`, a
section here whose `code` names it, and a row in table.py.
"""

from trainer.configs.optimizers.optimizing import Optimizing, OwnOptimizer, ParameterGroup
from trainer.configs.optimizers.table import OPTIMIZERS, OptimizerConfig

__all__ = ["OPTIMIZERS", "OptimizerConfig", "Optimizing", "OwnOptimizer", "ParameterGroup"]
