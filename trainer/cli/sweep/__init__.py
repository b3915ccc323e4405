"""Sweeps: many trainings of one config with other values, each a run directory in the sweep's folder.

verbs/sweep → running (the loop) → search (Optuna: which values next, whom to stop)
                                 → trial (one trial's runs) → executor (where runs train)
                                 → trainer.rundir.sweeps (what is on disk, for every reader)
"""
