"""The terminal dashboard: a reader of a run directory, and of nothing else.

    from trainer.tui import watch
    watch(Path("runs/digits"))
"""

from trainer.tui.watch import TuiResult, watch

__all__ = ["TuiResult", "watch"]
