"""Tuning: the parameters of kernel templates, from a cost model, a cache on disk, and measurements in real steps.

tuner      `tuning(...)`: the modes; what the floors above use
contest    candidates against each other in real steps (pure)
allowance  what the helper may use of the processors
queue      which candidate is tried next, and what became of it
process    the helper process as its parent sees it; helper: what runs in it
cache      decisions on disk; record: what is told about each
"""
