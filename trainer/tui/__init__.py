"""The terminal dashboard: a reader of a run directory, and of nothing else.

from trainer.tui import watch
watch(Path("runs/digits"))
"""

from trainer.tui.watch import TuiResult, awaiting, prepare_dashboard, watch

__all__ = ["TuiResult", "awaiting", "prepare_dashboard", "watch"]
