"""Sweeps: many trainings of one config with different values, each a run directory in the sweep's folder.

verbs/sweep → running (the loop) → search (Optuna: the next values, early stopping)
                                 → trial (one trial's runs) → executor (where runs train)
                                 → trainer.rundir.sweeps (the files on disk, for every reader)
"""
